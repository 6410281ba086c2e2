package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slotwise/slotwise/internal/client"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// loadResult is what a master did under load.
type loadResult struct {
	plan   loadPlan
	took   time.Duration
	cpu    time.Duration // of the master
	memory int64         // the most that was resident
	delta  map[string]float64
	seen   seen // by all workers
	jobs   []time.Duration
}

// measureLoad loads a master and returns what it has measured.
func measureLoad(ctx context.Context, s *settings, stderr io.Writer) (r *loadResult, err error) {
	dir, err := os.MkdirTemp("", "slotwise-load")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	args := []string{"--policy", s.load.Policy, "--keep-ended", fmt.Sprint(s.load.Jobs)}
	if s.profile != "" {
		args = append(args, "--cpuprofile", s.profile)
	}
	master, url, err := startMaster(ctx, s.binary, dir, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, master.stop()) }()
	cl, err := client.New(url, client.Options{})
	if err != nil {
		return nil, err
	}
	workers, err := startFleets(ctx, s.load, url)
	if err != nil {
		return nil, err
	}
	defer workers.stop()
	if err := workers.registered(ctx, cl); err != nil {
		return nil, err
	}
	fmt.Fprintln(stderr, "all workers are registered")
	r = &loadResult{plan: s.load}
	if err := r.measure(ctx, master, url, cl); err != nil {
		return nil, err
	}
	if r.seen, err = workers.end(); err != nil {
		return nil, err
	}
	return r, r.check()
}

// measure runs the jobs.
func (r *loadResult) measure(ctx context.Context, master *process, url string, cl *client.Client) error {
	before, err := metrics(ctx, url)
	if err != nil {
		return err
	}
	cpu, err := master.cpu()
	if err != nil {
		return err
	}
	start := time.Now()
	if err := r.runJobs(ctx, cl); err != nil {
		return err
	}
	r.took = time.Since(start)
	if r.cpu, err = master.cpu(); err != nil {
		return err
	}
	r.cpu -= cpu
	if r.memory, err = master.memory(); err != nil {
		return err
	}
	if r.delta, err = metrics(ctx, url); err != nil {
		return err
	}
	for name, v := range before {
		r.delta[name] -= v
	}
	return nil
}

// runJobs enters all jobs and waits for their ends.
func (r *loadResult) runJobs(ctx context.Context, cl *client.Client) error {
	program := []byte("a program that nobody runs")
	sum := sha256.Sum256(program)
	sha := hex.EncodeToString(sum[:])
	err := cl.Ensure(ctx, sha, func() (io.ReadCloser, int64, error) {
		return io.NopCloser(bytes.NewReader(program)), int64(len(program)), nil
	})
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make([]error, r.plan.Jobs)
	r.jobs = make([]time.Duration, r.plan.Jobs)
	for i := range r.plan.Jobs {
		start := time.Now()
		id, err := cl.Submit(ctx, &slotwisev1.JobSpec{
			Name: fmt.Sprint("load-", i), User: fmt.Sprint("u", i%10), Program: &slotwisev1.Program{Executable: sha, App: "none"},
			Synthetic: int32(r.plan.Maps), Reduces: int32(r.plan.Reduces), SlowStart: 0.05, NoSpeculation: true,
		})
		if err != nil {
			errs[i] = err
			break
		}
		wg.Go(func() {
			st, err := cl.Wait(ctx, id, nil)
			r.jobs[i], errs[i] = time.Since(start), cmp.Or(err, r.wrong(st))
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// wrong says what is wrong with how a job ended: each task must have been finished
// once, which the counters tell, to which each adds one record.
func (r *loadResult) wrong(st *slotwisev1.JobStatus) error {
	maps, reduces := st.GetMaps().GetDone(), st.GetReduces().GetDone()
	if st.GetState() != slotwisev1.JobState_JOB_STATE_SUCCEEDED || int(maps) != r.plan.Maps || int(reduces) != r.plan.Reduces ||
		st.GetMapCounters().GetInputRecords() != int64(maps) || st.GetReduceCounters().GetInputRecords() != int64(reduces) {
		return fmt.Errorf("a job has not ended as it should: %v", st)
	}
	return nil
}

// check says what is wrong with the whole.
func (r *loadResult) check() error {
	if want := int64(r.plan.Jobs * (r.plan.Maps + r.plan.Reduces)); r.seen.Launches != want || r.seen.Twice > 0 {
		return fmt.Errorf("%d launches of %d tasks, %d of them again", r.seen.Launches, want, r.seen.Twice)
	}
	return nil
}

// fleets are the processes of pretended workers.
type fleets struct {
	plan loadPlan
	list []*fleetProcess
}

type fleetProcess struct {
	cmd *exec.Cmd
	in  io.Closer
	out bytes.Buffer
	err bytes.Buffer
}

// startFleets divides the workers among processes.
func startFleets(ctx context.Context, plan loadPlan, url string) (*fleets, error) {
	f := &fleets{plan: plan}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	for i := range plan.Processes {
		from, to := plan.Workers*i/plan.Processes, plan.Workers*(i+1)/plan.Processes
		p := &fleetProcess{cmd: exec.CommandContext(ctx, self, "-as-workers-of", url, "-first", fmt.Sprint(from), "-n", fmt.Sprint(to-from), "-task", plan.Task.String())}
		p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
		if p.in, err = p.cmd.StdinPipe(); err == nil {
			err = p.cmd.Start()
		}
		if err != nil {
			f.stop()
			return nil, err
		}
		f.list = append(f.list, p)
	}
	return f, nil
}

// registered waits until the master knows all workers.
func (f *fleets) registered(ctx context.Context, cl *client.Client) error {
	for {
		resp, err := client.Call(ctx, cl, cl.RPC().Cluster, &slotwisev1.ClusterRequest{})
		if err != nil {
			return err
		}
		if int(resp.Nodes) >= f.plan.Workers+f.plan.Processes { // one of each measures
			return nil
		}
		if !pause(ctx, 50*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
}

// end ends the workers and returns what they have seen.
func (f *fleets) end() (all seen, err error) {
	for _, p := range f.list {
		p.in.Close()
	}
	for _, p := range f.list {
		if err := p.cmd.Wait(); err != nil {
			return all, fmt.Errorf("workers: %w\n%s", err, p.err.String())
		}
		var s seen
		if err := json.NewDecoder(&p.out).Decode(&s); err != nil {
			return all, fmt.Errorf("workers: %w\n%s", err, p.err.String())
		}
		all.Calls += s.Calls
		all.Launches += s.Launches
		all.Twice += s.Twice
		all.Failures += s.Failures
		all.Registrations += s.Registrations
		all.Beats = append(all.Beats, s.Beats...)
		all.Commits = append(all.Commits, s.Commits...)
		all.Bare = append(all.Bare, s.Bare...)
	}
	f.list = nil
	return all, nil
}

// stop kills those that have not ended.
func (f *fleets) stop() {
	for _, p := range f.list {
		p.cmd.Process.Kill()
		_ = p.cmd.Wait() // killed
	}
}

// spread is the median, 99th percentile and maximum of durations.
func spread(list []time.Duration) string {
	if len(list) == 0 {
		return "none"
	}
	slices.Sort(list)
	at := func(q float64) time.Duration { return list[int(q*float64(len(list)-1))].Round(10 * time.Microsecond) }
	return fmt.Sprintf("%v, %v, %v", at(0.5), at(0.99), at(1))
}

// print writes the table.
func (r *loadResult) print(w io.Writer) {
	sec := r.took.Seconds()
	rate := func(name string) string { return fmt.Sprintf("%.0f", r.delta["slotwise_master_"+name]/sec) }
	busy := r.delta["slotwise_master_batch_seconds_sum"] - r.delta["slotwise_master_journal_sync_seconds_sum"]
	rows := [][2]string{
		{"workers, jobs, tasks", fmt.Sprintf("%d, %d, %d of %v", r.plan.Workers, r.plan.Jobs, r.plan.Jobs*(r.plan.Maps+r.plan.Reduces), r.plan.Task)},
		{"from the first job to the last verdict", r.took.Round(time.Millisecond).String()},
		{"jobs lost, tasks not finished exactly once", "0, 0"},
		{"heartbeat: p50, p99, max", spread(r.seen.Beats)},
		{"a request that is refused at once: p50, p99, max", spread(r.seen.Bare)},
		{"leave to commit: p50, p99, max", spread(r.seen.Commits)},
		{"time of a job: p50, p99, max", spread(r.jobs)},
		{"decisions/s (launches)", rate("attempts_launched_total")},
		{"heartbeats/s, offers included", rate("heartbeats_total")},
		{"events/s", rate("events_total")},
		{"calls answered/s", fmt.Sprintf("%.0f", float64(r.seen.Calls)/sec)},
		{"fsyncs/s; ms each", fmt.Sprintf("%s; %.2f", rate("journal_sync_seconds_count"),
			1000*r.delta["slotwise_master_journal_sync_seconds_sum"]/max(1, r.delta["slotwise_master_journal_sync_seconds_count"]))},
		{"the loop at work; in fsync", fmt.Sprintf("%.0f %%; %.0f %%", 100*busy/sec, 100*r.delta["slotwise_master_journal_sync_seconds_sum"]/sec)},
		{"processor time of the master", fmt.Sprintf("%.1f s, %.2f of a core", r.cpu.Seconds(), r.cpu.Seconds()/sec)},
		{"resident memory of the master, at most", fmt.Sprintf("%d MiB", r.memory>>20)},
		{"calls that failed, registrations", fmt.Sprintf("%d, %d", r.seen.Failures, r.seen.Registrations)},
	}
	fmt.Fprint(w, "| load | |\n|---|---|\n")
	for _, row := range rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(row[:], " | "))
	}
}
