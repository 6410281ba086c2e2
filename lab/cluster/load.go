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
	"sync"
	"time"

	"github.com/slotwise/slotwise/internal/live/client"
	"github.com/slotwise/slotwise/lab/harness"
	"google.golang.org/protobuf/proto"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// loadResult has the measurements of a master under load.
type loadResult struct {
	plan    loadPlan
	took    time.Duration      // from the first submission to the last end
	cpu     time.Duration      // processor time of the master in that time
	memory  int64              // peak resident memory of the master in bytes
	delta   map[string]float64 // growth of the master's metrics
	workers measurements       // of all workers together
	jobs    []time.Duration    // response time of each job
}

// measureLoad starts a master and pretended workers, runs the jobs, and returns the
// measurements.
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
	master, url, err := harness.StartMaster(ctx, s.binary, dir, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, master.Stop()) }()
	cl, err := client.New(url, client.Options{})
	if err != nil {
		return nil, err
	}
	fleets, err := startFleets(ctx, s.load, url)
	if err != nil {
		return nil, err
	}
	defer fleets.kill()
	if err := fleets.registered(ctx, cl); err != nil {
		return nil, err
	}
	fmt.Fprintln(stderr, "all workers are registered")
	r = &loadResult{plan: s.load}
	if err := r.measure(ctx, master, url, cl); err != nil {
		return nil, err
	}
	if r.workers, err = fleets.end(); err != nil {
		return nil, err
	}
	return r, r.check()
}

// measure runs the jobs and reads the master's metrics before and after.
func (r *loadResult) measure(ctx context.Context, master *harness.Process, url string, cl *client.Client) error {
	before, err := metrics(ctx, url)
	if err != nil {
		return err
	}
	cpu, err := master.CPU()
	if err != nil {
		return err
	}
	start := time.Now()
	if err := r.runJobs(ctx, cl); err != nil {
		return err
	}
	r.took = time.Since(start)
	if r.cpu, err = master.CPU(); err != nil {
		return err
	}
	r.cpu -= cpu
	if r.memory, err = master.Memory(); err != nil {
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

// submitters is the number of submissions under way at a time.
const submitters = 8

// runJobs submits all jobs and waits until they have ended.
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
	// Several at once: a submission waits for two syncs, and one after the other would bound the launches.
	places := make(chan struct{}, submitters)
	for i := range r.plan.Jobs {
		places <- struct{}{}
		start := time.Now()
		wg.Go(func() {
			id, err := cl.Submit(ctx, &slotwisev1.JobSpec{
				Name: fmt.Sprint("load-", i), User: fmt.Sprint("u", i%10), Program: &slotwisev1.Program{Executable: sha, App: "none"},
				Synthetic: int32(r.plan.Maps), Reduces: int32(r.plan.Reduces), SlowStart: proto.Float64(0.05), NoSpeculation: true,
			})
			<-places
			if err != nil {
				errs[i] = err
				return
			}
			st, err := cl.Wait(ctx, id, nil)
			r.jobs[i], errs[i] = time.Since(start), cmp.Or(err, r.checkJob(st))
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// checkJob returns an error unless the job has succeeded and each of its tasks has
// succeeded exactly once. Each successful attempt adds one record to the counters,
// so a task that counted twice shows there.
func (r *loadResult) checkJob(st *slotwisev1.JobStatus) error {
	maps, reduces := st.GetMaps().GetDone(), st.GetReduces().GetDone()
	if st.GetState() != slotwisev1.JobState_JOB_STATE_SUCCEEDED || int(maps) != r.plan.Maps || int(reduces) != r.plan.Reduces ||
		st.GetMapCounters().GetInputRecords() != int64(maps) || st.GetReduceCounters().GetInputRecords() != int64(reduces) {
		return fmt.Errorf("a job has failed or not all its tasks succeeded exactly once: %v", st)
	}
	return nil
}

// check returns an error unless there was one launch for each task.
func (r *loadResult) check() error {
	if want := int64(r.plan.Jobs * (r.plan.Maps + r.plan.Reduces)); r.workers.Launches != want || r.workers.Twice > 0 {
		w := r.workers
		return fmt.Errorf("%d launches for %d tasks; %d launches repeated an attempt; %d calls failed, %d registrations; first failure: %s",
			w.Launches, want, w.Twice, w.Failures, w.Registrations, cmp.Or(w.FirstFailure, "none"))
	}
	return nil
}

// fleets are all processes of pretended workers.
type fleets struct {
	plan loadPlan
	list []*fleetProcess
}

// fleetProcess is one process of pretended workers: this executable with -as-workers-of.
type fleetProcess struct {
	cmd *exec.Cmd
	in  io.Closer    // the process ends when this is closed
	out bytes.Buffer // its measurements as JSON
	err bytes.Buffer
}

// startFleets divides the workers among processes and starts them.
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
			f.kill()
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
		if int(resp.Nodes) >= f.plan.Workers+f.plan.Processes { // each process also has a worker that only measures
			return nil
		}
		if !harness.Sleep(ctx, 50*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
}

// end asks the processes to end and returns their measurements.
func (f *fleets) end() (all measurements, err error) {
	for _, p := range f.list {
		p.in.Close()
	}
	for _, p := range f.list {
		if err := p.cmd.Wait(); err != nil {
			return all, fmt.Errorf("workers: %w\n%s", err, p.err.String())
		}
		var m measurements
		if err := json.NewDecoder(&p.out).Decode(&m); err != nil {
			return all, fmt.Errorf("workers: %w\n%s", err, p.err.String())
		}
		all.add(m)
	}
	f.list = nil
	return all, nil
}

// kill kills the processes that end has not waited for.
func (f *fleets) kill() {
	for _, p := range f.list {
		p.cmd.Process.Kill()
		_ = p.cmd.Wait() // reports that the process was killed
	}
}

// print writes the table.
func (r *loadResult) print(w io.Writer) {
	sec := r.took.Seconds()
	rate := func(name string) string { return fmt.Sprintf("%.0f", r.delta["slotwise_master_"+name]/sec) }
	busy := r.delta["slotwise_master_batch_seconds_sum"] - r.delta["slotwise_master_journal_sync_seconds_sum"]
	rows := [][2]string{
		{"workers, jobs, tasks", fmt.Sprintf("%d, %d, %d of %v", r.plan.Workers, r.plan.Jobs, r.plan.Jobs*(r.plan.Maps+r.plan.Reduces), r.plan.Task)},
		{"from the first submission to the last end", r.took.Round(time.Millisecond).String()},
		{"jobs lost, tasks not finished exactly once", "0, 0"},
		{"heartbeat: p50, p99, max", harness.Spread(r.workers.Beats)},
		{"report of an end, with the next launch: p50, p99, max", harness.Spread(r.workers.Reports)},
		{"a request for a missing page: p50, p99, max", harness.Spread(r.workers.Bare)},
		{"permission to commit: p50, p99, max", harness.Spread(r.workers.Commits)},
		{"response time of a job: p50, p99, max", harness.Spread(r.jobs)},
		{"decisions/s (launches)", rate("attempts_launched_total")},
		{"heartbeats/s, scheduling rounds between them included", rate("heartbeats_total")},
		{"events/s", rate("events_total")},
		{"calls answered/s", fmt.Sprintf("%.0f", float64(r.workers.Calls)/sec)},
		{"fsyncs/s; ms each", fmt.Sprintf("%s; %.2f", rate("journal_sync_seconds_count"),
			1000*r.delta["slotwise_master_journal_sync_seconds_sum"]/max(1, r.delta["slotwise_master_journal_sync_seconds_count"]))},
		{"the master's loop: working; in fsync", fmt.Sprintf("%.0f %%; %.0f %%", 100*busy/sec, 100*r.delta["slotwise_master_journal_sync_seconds_sum"]/sec)},
		{"processor time of the master", fmt.Sprintf("%.1f s, %.2f of a core", r.cpu.Seconds(), r.cpu.Seconds()/sec)},
		{"peak resident memory of the master", fmt.Sprintf("%d MiB", r.memory>>20)},
		{"calls that failed, registrations", fmt.Sprintf("%d, %d", r.workers.Failures, r.workers.Registrations)},
	}
	table := harness.NewTable(w, "load", "")
	for _, row := range rows {
		table.Row(row[:]...)
	}
}
