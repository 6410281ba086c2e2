package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slotwise/slotwise/lab/harness"
	"github.com/slotwise/slotwise/mapreduce"
)

// measured are the results of a batch.
type measured struct {
	Name string `json:"name"`
	// Real and Simulated have the metric of each contestant in each round. Simulated is nil
	// for a batch that the simulator cannot predict.
	Real      [][]float64 `json:"real"`
	Simulated [][]float64 `json:"simulated,omitempty"`
	// Errors are the relative errors of the simulated response times of all jobs of all
	// rounds, by contestant. A positive error means that the simulation takes too long.
	Errors [][]float64 `json:"errors,omitempty"`

	batch *batch
}

// prepare generates the inputs of the chosen batches, unless they exist. server is the URL of
// the pages for URLGet.
func (s *settings) prepare(ctx context.Context, chosen []*batch, server string) error {
	if err := harness.WriteURLs(filepath.Join(s.data, "urls"), server, pages); err != nil {
		return err
	}
	var centers strings.Builder // any: the cost of classification does not depend on them
	for i := range 8 {
		fmt.Fprintf(&centers, "%d,%d,%d,%d\n", 10*i, -10*i, 5*i, 3*i)
	}
	if err := os.WriteFile(filepath.Join(s.data, "centroids"), []byte(centers.String()), 0o666); err != nil {
		return err
	}
	for _, b := range chosen {
		for name, in := range inputs {
			if !strings.Contains(b.programs, "DATA/"+name) {
				continue
			}
			if _, err := harness.Generate(ctx, s.binary(), in.kind, int64(in.size)*splitMiB*harness.MiB, filepath.Join(s.data, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// profiles measures the profiles of the apps of the chosen batches, each in the cluster of the
// first batch that has it. A profile of an earlier run is not used again: the speed of the
// machine may have changed.
func (s *settings) profiles(ctx context.Context, chosen []*batch, start time.Duration) error {
	known := map[string]bool{}
	for _, b := range chosen {
		if b.realOnly {
			continue
		}
		for _, app := range b.apps() {
			if known[app] {
				continue
			}
			known[app] = true
			if err := s.profile(ctx, b, app, start); err != nil {
				return fmt.Errorf("profile of %s: %w", app, err)
			}
		}
	}
	return nil
}

// command runs slotwise and returns its standard output.
func (s *settings) command(ctx context.Context, args ...string) ([]byte, error) {
	limited, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	cmd := exec.CommandContext(limited, s.binary(), args...)
	harness.InGroup(cmd)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if limited.Err() != nil && ctx.Err() == nil {
			return nil, fmt.Errorf("slotwise %s: still running after %v", args[0], s.timeout)
		}
		return nil, fmt.Errorf("slotwise %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.Bytes(), nil
}

// measureStart returns the processor time that master, worker and attempt together need for
// one attempt that does nothing.
func (s *settings) measureStart(ctx context.Context) (time.Duration, error) {
	dir, err := os.MkdirTemp(s.data, "run")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "mix.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "jobs:\n  - {name: nothing, maps: %d, map-time: 20ms}\n", s.starts), 0o666); err != nil {
		return 0, err
	}
	b := &batch{workers: 2, maps: 4, reduces: 1}
	c, err := s.start(ctx, b, &contestant{policy: "fifo"}, filepath.Join(dir, "cluster"))
	if err != nil {
		return 0, err
	}
	before, err := c.CPU()
	if err == nil {
		_, err = s.submit(ctx, c, file, filepath.Join(dir, "out"), 1)
	}
	after, also := c.CPU()
	return (after - before) / time.Duration(s.starts), errors.Join(err, also, c.Stop())
}

// start starts a cluster for a contestant with its files in dir.
func (s *settings) start(ctx context.Context, b *batch, c *contestant, dir string) (*harness.Cluster, error) {
	master := []string{"--policy", c.policy}
	for _, v := range c.set {
		master = append(master, "--policy-set", v)
	}
	var flags [][]string
	for _, slots := range b.slots(c) {
		flags = append(flags, append([]string{"--map-slots", fmt.Sprint(slots[0]), "--reduce-slots", fmt.Sprint(slots[1])}, b.flags...))
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	return harness.StartCluster(ctx, s.binary(), dir, master, flags)
}

// slots returns the map and reduce slots of each worker under a contestant.
func (b *batch) slots(c *contestant) [][2]int {
	switch {
	case b.unequal != nil:
		return b.unequal
	case c.maps+c.reduces > 0:
		return slices.Repeat([][2]int{{c.maps, c.reduces}}, b.workers)
	}
	return slices.Repeat([][2]int{{b.maps, b.reduces}}, b.workers)
}

// submitted is a job of a mix as "slotwise submit" prints it. A chain has several results, whose
// times are since the submission of the step.
type submitted struct {
	Name, State string
	Submitted   time.Duration `json:"submit_ns"`
	Results     []mapreduce.Result
}

// submit runs a job mix on a cluster and returns its jobs, which must succeed.
func (s *settings) submit(ctx context.Context, c *harness.Cluster, file, out string, seed int) ([]submitted, error) {
	text, err := s.command(ctx, "submit", "--jobs", file, "--output", out, "--master", c.URL, "--seed", strconv.Itoa(seed), "--wait", "-o", "json", "--no-progress")
	if err != nil {
		return nil, err
	}
	var summary struct{ Jobs []submitted }
	if err := json.Unmarshal(text, &summary); err != nil {
		return nil, fmt.Errorf("what submit prints: %w", err)
	}
	for _, j := range summary.Jobs {
		if j.State != "succeeded" || len(j.Results) == 0 {
			return nil, fmt.Errorf("job %s: %s, with %d steps; want at least one, and success", j.Name, j.State, len(j.Results))
		}
	}
	return summary.Jobs, nil
}

// realOutcomes returns the outcomes of jobs, without Alone.
func realOutcomes(jobs []submitted) (list []outcome) {
	for _, j := range jobs {
		ended := j.Submitted
		for _, r := range j.Results { // a job of a chain is submitted when the one before has ended
			ended += r.Ended
		}
		list = append(list, outcome{Submitted: j.Submitted.Seconds(), Started: (j.Submitted + j.Results[0].Started).Seconds(), Ended: ended.Seconds()})
	}
	return list
}

// simulate runs a job mix in the simulator. start is the processor time of starting an attempt of
// given duration. Profiles contain it for the tasks of programs.
func (s *settings) simulate(ctx context.Context, b *batch, c *contestant, file, dir string, seed int, start time.Duration) ([]outcome, error) {
	return s.simulateIn(ctx, b, c, file, dir, seed, "--world", "ideal", "--heartbeat", "fixed:20ms",
		"--set", "model.shuffle-share=0", "--set", "model.overheads.start="+start.String())
}

// simulateIn runs a job mix in the simulator with further flags, which name the world.
func (s *settings) simulateIn(ctx context.Context, b *batch, c *contestant, file, dir string, seed int, world ...string) ([]outcome, error) {
	cluster := filepath.Join(dir, "cluster.yaml")
	text := []byte("nodes:\n")
	for i, slots := range b.slots(c) {
		text = fmt.Appendf(text, "  - {name: w%d, count: 1, cores: %d, maps: %d, reduces: %d, together: true}\n", i, runtime.NumCPU(), slots[0], slots[1])
	}
	if err := os.WriteFile(cluster, text, 0o666); err != nil {
		return nil, err
	}
	out := filepath.Join(dir, "simulated")
	args := []string{"sim", "--workload", file, "--cluster", cluster, "--policy", c.policy,
		"--seed", strconv.Itoa(seed), "--out", out, "--references", "none", "--quiet"}
	args = append(args, world...)
	for _, v := range c.set {
		args = append(args, "--policy-set", v)
	}
	for _, app := range b.apps() {
		args = append(args, "--profiles", s.profileOf(app))
	}
	if _, err := s.command(ctx, args...); err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(out, "jobs.csv"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, err
	}
	list, err := outcomes(rows)
	return list, errors.Join(err, os.RemoveAll(out))
}

// outcomes reads the rows of jobs.csv, which the simulator writes in the order of the jobs.
func outcomes(rows [][]string) (list []outcome, err error) {
	column := func(name string) int { return slices.Index(rows[0], name) }
	state := column("state")
	if state < 0 {
		return nil, fmt.Errorf("jobs.csv has the columns %v", rows[0])
	}
	for _, row := range rows[1:] {
		if row[state] != "succeeded" {
			return nil, fmt.Errorf("a simulated job has the state %s", row[state])
		}
		var o outcome
		for name, to := range map[string]*float64{"submitted_s": &o.Submitted, "started_s": &o.Started, "ended_s": &o.Ended, "alone_s": &o.Alone,
			"maps": &o.maps.tasks, "map_slot_s": &o.maps.seconds, "reduces": &o.reduces.tasks, "reduce_slot_s": &o.reduces.seconds} {
			i := column(name)
			if i < 0 {
				return nil, fmt.Errorf("jobs.csv has the columns %v, without %s", rows[0], name)
			}
			v, e := strconv.ParseFloat(row[i], 64)
			*to, err = v, errors.Join(err, e)
		}
		list = append(list, o)
	}
	return list, err
}

// measure runs and simulates a batch under all contestants, in turns. Each run has a cluster of
// its own. A contestant's master keeps its directory, so that what a policy learns in one
// round serves the next.
func (s *settings) measure(ctx context.Context, b *batch, start time.Duration) (*measured, error) {
	n := len(b.contestants)
	m := &measured{Name: b.name, batch: b, Real: make([][]float64, n)}
	if !b.realOnly {
		m.Simulated, m.Errors = make([][]float64, n), make([][]float64, n)
	}
	dir, err := os.MkdirTemp(s.data, "run")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "mix.yaml")
	return m, harness.Rounds(ctx, s.rounds, n, func(round, i int) error {
		seed, c := round+1, &b.contestants[i]
		text, err := b.mix(s.data, uint64(seed), s.speedup)
		if err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			return err
		}
		cluster, err := s.start(ctx, b, c, filepath.Join(dir, fmt.Sprint("cluster", i)))
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		out := filepath.Join(dir, "out")
		jobs, err := s.submit(ctx, cluster, file, out, seed)
		if err := errors.Join(err, cluster.Stop(), os.RemoveAll(out)); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		real := realOutcomes(jobs)
		fmt.Fprintf(os.Stderr, "%s, round %d, %s: %.2f s", b.name, round+1, c.name, makespan.of(real))
		defer fmt.Fprintln(os.Stderr)
		if m.Simulated != nil {
			virtual, err := s.simulate(ctx, b, c, file, dir, seed, start)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if len(virtual) != len(real) {
				return fmt.Errorf("%s: %d jobs ran, %d were simulated", c.name, len(real), len(virtual))
			}
			for k := range real {
				real[k].Alone = virtual[k].Alone
				m.Errors[i] = append(m.Errors[i], (virtual[k].Ended-virtual[k].Submitted)/(real[k].Ended-real[k].Submitted)-1)
			}
			m.Simulated[i] = append(m.Simulated[i], b.metric.of(virtual))
			fmt.Fprintf(os.Stderr, ", simulated %.2f s", makespan.of(virtual))
		}
		m.Real[i] = append(m.Real[i], b.metric.of(real))
		return nil
	})
}
