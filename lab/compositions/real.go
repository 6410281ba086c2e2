package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/metrics"
	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
	"github.com/slotwise/slotwise/lab/harness"
)

// batch is a set of jobs for the real engine.
type batch struct {
	name, what            string
	workers, maps, reduce int    // and slots of a worker
	jobs                  string // the file of --jobs; TEXT means a generated text, SMALL a small one
	against               []string
	// simulated says that the batch is simulated, too, with profiles that are measured on other inputs.
	simulated bool
}

// batches are jobs whose slots bind: tasks that sleep, which need no processor, and jobs that
// compute, on workers that have no more slots of a kind together than this machine has processors.
var batches = []batch{
	{"sleeping", "jobs of three sizes that sleep", 4, 6, 2,
		`arrivals: {poisson: 100ms}
order: shuffled
classes:
  - {name: short, count: 20, pool: a, app: sleep, params: {maps: 4x100ms, reduces: 1x100ms}}
  - {name: middle, count: 6, pool: b, app: sleep, params: {maps: 24x150ms, reduces: 4x300ms}}
  - {name: long, count: 2, pool: c, app: sleep, params: {maps: 100x200ms, reduces: 8x600ms}}
`, nil, false},
	{"computing", "WordCount, Sort and InvertedIndex of two sizes", 2, 1, 1,
		`arrivals: {poisson: 100ms}
order: shuffled
classes:
  - {name: short, count: 14, pool: a, app: wordcount, input: SMALL, split-size: 2MiB, reduces: 1}
  - {name: sort, count: 4, pool: b, app: sort, input: TEXT, split-size: 4MiB, reduces: 4}
  - {name: words, count: 3, pool: b, app: wordcount, input: TEXT, split-size: 4MiB, reduces: 2}
  - {name: index, count: 2, pool: c, app: invertedindex, input: TEXT, split-size: 4MiB, reduces: 4}
`, []string{"fair", "fifo", "tumm"}, true},
}

// computed are the apps of the batch that computes.
var computed = []string{"wordcount", "sort", "invertedindex"}

// outcome holds the numbers that the command prints of a run.
type outcome struct {
	Makespan time.Duration `json:"makespan_ns"`
	Jobs     []struct {
		Name   string        `json:"name"`
		State  string        `json:"state"`
		Submit time.Duration `json:"submit_ns"`
		Wait   time.Duration `json:"wait_ns"`
		Run    time.Duration `json:"run_ns"`
	} `json:"jobs"`
}

// engineMeasures are the measures of a run on the engine, in the order of outcome.values.
var engineMeasures = []string{"makespan", "response.mean", "slowdown.p95"}

// values returns the measures of a run: seconds, seconds, and the 95th percentile of the slowdowns: a response time
// over the response time of a job of that class alone.
func (o *outcome) values(alone map[string]float64) []float64 {
	var responses, slowdowns []float64
	for _, j := range o.Jobs {
		took := (j.Wait + j.Run).Seconds()
		responses = append(responses, took)
		slowdowns = append(slowdowns, took/alone[class(j.Name)])
	}
	return []float64{o.Makespan.Seconds(), harness.Mean(responses), metrics.Summarize(slowdowns).P95}
}

// class returns the class of a drawn job, whose name is the class and a number.
func class(name string) string { return name[:strings.LastIndex(name, "-")] }

// engine runs the batches of one call of the command.
type engine struct {
	binary, dir string
	rounds      int
}

// onEngine runs the batches on the real engine, each policy once in every round, and compares the
// chosen policy with others in pairs of the same round.
func onEngine(ctx context.Context, s *settings) error {
	dir, err := os.MkdirTemp("", "slotwise-compositions-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	e := &engine{filepath.Join(dir, "slotwise"), dir, s.seeds}
	if err := harness.Build(ctx, e.binary); err != nil {
		return err
	}
	for _, in := range []struct {
		name string
		size int64
		seed uint64
	}{{"TEXT", 32 * harness.MiB, 1}, {"SMALL", 4 * harness.MiB, 2}, {"PROFILE", 32 * harness.MiB, 1001}} {
		if _, err := harness.GenerateSeed(ctx, e.binary, "text", in.size, in.seed, filepath.Join(dir, in.name)); err != nil {
			return err
		}
	}
	t := harness.NewTable(os.Stdout, "batch", "measure", chosen.String(), "policy", "its value", "ratio of the chosen to it", "interval of 95 %", "simulated", "its value", "ratio", "interval of 95 %")
	for i := range batches {
		if b := &batches[i]; s.only.MatchString(b.name) {
			if err := e.run(ctx, b, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// run runs one batch and prints its rows. A policy that fails once is left out.
func (e *engine) run(ctx context.Context, b *batch, t harness.Table) error {
	file := filepath.Join(e.dir, b.name+".yaml")
	text := strings.NewReplacer("TEXT", filepath.Join(e.dir, "TEXT"), "SMALL", filepath.Join(e.dir, "SMALL")).Replace(b.jobs)
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		return err
	}
	if b.simulated {
		for _, app := range computed {
			if _, err := e.command(ctx, "profile", app, "--input", filepath.Join(e.dir, "PROFILE"), "--split-size", "4MiB", "--reduces", "4",
				"--output", e.profile(app), "--quiet"); err != nil {
				return err
			}
		}
	}
	all := []candidate{chosen}
	for _, name := range b.against {
		all = append(all, candidate{spec: name})
	}
	if b.against == nil {
		all = unique(append(all, named()...))
	}
	alone, err := e.alone(ctx, b, text)
	if err != nil {
		return err
	}
	real, virtual := make([][][]float64, len(all)), make([][][]float64, len(all)) // of each policy and measure
	failed := make([]bool, len(all))
	err = harness.Rounds(ctx, e.rounds, len(all), func(round, turn int) error {
		// Each round begins with another policy. Otherwise one of them would always run first, when
		// the round before it has left other things in the caches than a policy's run does.
		i := (turn + round) % len(all)
		if failed[i] {
			return nil
		}
		o, err := e.once(ctx, file, b, all[i], round+1)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s, %v: %v; it is left out\n", b.name, all[i], err)
			failed[i] = true
			return context.Cause(ctx)
		}
		real[i] = add(real[i], o.values(alone))
		fmt.Fprintf(os.Stderr, "%s, round %d, %v: %.3g\n", b.name, round+1, all[i], o.values(alone))
		if b.simulated {
			x, err := e.simulate(ctx, file, b, all[i], round+1)
			if err != nil {
				return err
			}
			virtual[i] = add(virtual[i], x)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for k, measure := range engineMeasures {
		for i := 1; i < len(all); i++ {
			if failed[i] {
				continue
			}
			row := []string{b.name, measure, fmt.Sprintf("%.3g", harness.Mean(real[0][k])), all[i].String(), fmt.Sprintf("%.3g", harness.Mean(real[i][k]))}
			row = append(row, ratio(real[0][k], real[i][k])...)
			if b.simulated {
				row = append(row, fmt.Sprintf("%.3g", harness.Mean(virtual[0][k])), fmt.Sprintf("%.3g", harness.Mean(virtual[i][k])))
				row = append(row, ratio(virtual[0][k], virtual[i][k])...)
			}
			t.Row(row...)
		}
	}
	return nil
}

// add appends the measures of a run to the lists of earlier runs.
func add(runs [][]float64, values []float64) [][]float64 {
	if runs == nil {
		runs = make([][]float64, len(values))
	}
	for k, v := range values {
		runs[k] = append(runs[k], v)
	}
	return runs
}

// ratio returns the ratio of two means over pairs of runs, and its interval.
func ratio(of, base []float64) []string {
	p := metrics.PairedRatio(of, base, collect.Level)
	return []string{fmt.Sprintf("%.3f", p.Ratio), fmt.Sprintf("%.3f to %.3f", p.Low, p.High)}
}

// alone returns the response time in seconds of a job of each class that runs alone, the median over the rounds.
func (e *engine) alone(ctx context.Context, b *batch, text string) (map[string]float64, error) {
	list := map[string][]float64{}
	file := filepath.Join(e.dir, b.name+"-alone.yaml")
	for _, line := range strings.Split(text, "\n") {
		head, rest, isClass := strings.Cut(line, ", count: ")
		if !isClass {
			continue
		}
		_, rest, _ = strings.Cut(rest, ",")
		if err := os.WriteFile(file, []byte("classes:\n"+head+", count: 1,"+rest+"\n"), 0o666); err != nil {
			return nil, err
		}
		for round := range e.rounds {
			o, err := e.once(ctx, file, b, candidate{spec: "fifo"}, round+1)
			if err != nil {
				return nil, err
			}
			j := &o.Jobs[0]
			list[class(j.Name)] = append(list[class(j.Name)], (j.Wait + j.Run).Seconds())
		}
	}
	out := map[string]float64{}
	for name, times := range list {
		out[name] = harness.Median(times)
	}
	return out, nil
}

// slots returns the arguments of a command with the workers and slots of a batch.
func (e *engine) slots(b *batch, args ...string) []string {
	return append(args, "--workers", fmt.Sprint(b.workers), "--map-slots", fmt.Sprint(b.maps), "--reduce-slots", fmt.Sprint(b.reduce))
}

// profile returns the file of an app's cost profile.
func (e *engine) profile(app string) string { return filepath.Join(e.dir, "profile-"+app+".yaml") }

// once runs a file of jobs under a policy. The seed draws their order.
func (e *engine) once(ctx context.Context, file string, b *batch, c candidate, seed int) (*outcome, error) {
	text, err := e.command(ctx, e.slots(b, e.policy(c, "run", "--jobs", file, "-o", "json", "--no-progress", "--temp-dir", e.dir, "--seed", fmt.Sprint(seed))...)...)
	if err != nil {
		return nil, err
	}
	o := &outcome{}
	if err := json.Unmarshal(text, o); err != nil {
		return nil, err
	}
	for _, j := range o.Jobs {
		if j.State != "succeeded" {
			return nil, fmt.Errorf("job %s is %s", j.Name, j.State)
		}
	}
	return o, nil
}

// simulate runs the same jobs in the simulator, on as many workers of this machine, and returns its measures.
func (e *engine) simulate(ctx context.Context, file string, b *batch, c candidate, seed int) ([]float64, error) {
	cluster := filepath.Join(e.dir, "cluster.yaml")
	text := fmt.Sprintf("nodes:\n  - {name: w, count: %d, cores: %d, maps: %d, reduces: %d, together: true}\n", b.workers, runtime.NumCPU(), b.maps, b.reduce)
	if err := os.WriteFile(cluster, []byte(text), 0o666); err != nil {
		return nil, err
	}
	args := e.policy(c, "sim", "--workload", file, "--cluster", cluster, "--seed", fmt.Sprint(seed), "--references", "none", "--warm-up", "none", "--quiet", "-o", "json")
	for _, app := range computed {
		args = append(args, "--profiles", e.profile(app))
	}
	out, err := e.command(ctx, args...)
	if err != nil {
		return nil, err
	}
	var result struct{ Runs []collect.Report }
	if err := json.Unmarshal(out, &result); err != nil {
		return nil, err
	}
	if len(result.Runs) != 1 {
		return nil, fmt.Errorf("the simulation of %v has %d runs, want 1", c, len(result.Runs))
	}
	r := &result.Runs[0]
	return []float64{r.Makespan, r.Response.Mean, r.Slowdown.P95}, nil
}

// policy returns the arguments of a command with a policy.
func (e *engine) policy(c candidate, args ...string) []string {
	args = append(args, "--policy", c.spec)
	for name, value := range c.settings() {
		args = append(args, "--policy-set", name+"="+value)
	}
	return args
}

// command runs slotwise, for at most a minute, and returns its standard output.
func (e *engine) command(ctx context.Context, args ...string) ([]byte, error) {
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(limited, e.binary, args...)
	harness.InGroup(cmd)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("slotwise %s: %w: %s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.Bytes(), nil
}
