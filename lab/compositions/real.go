package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/metrics"
	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
	"github.com/slotwise/slotwise/lab/harness"
)

// batch is a set of jobs for the real engine.
type batch struct {
	name, what string
	flags      []string
	jobs       string // the file of --jobs; TEXT means a generated text, SMALL a small one
}

// batches are jobs whose slots bind: tasks that sleep, which need no processor, and jobs that
// compute, on workers with as many slots as this machine has processors.
var batches = []batch{
	{"sleeping", "jobs of three sizes that sleep, four workers of 6 map and 2 reduce slots", []string{"--workers", "4", "--map-slots", "6", "--reduce-slots", "2"},
		`arrivals: {poisson: 100ms}
order: shuffled
classes:
  - {name: short, count: 20, pool: a, app: sleep, params: {maps: 4x100ms, reduces: 1x100ms}}
  - {name: middle, count: 6, pool: b, app: sleep, params: {maps: 24x150ms, reduces: 4x300ms}}
  - {name: long, count: 2, pool: c, app: sleep, params: {maps: 100x200ms, reduces: 8x600ms}}
`},
	{"computing", "WordCount, Sort and InvertedIndex of two sizes, one worker of a map and a reduce slot", []string{"--workers", "1", "--map-slots", "1", "--reduce-slots", "1"},
		`arrivals: {poisson: 100ms}
order: shuffled
classes:
  - {name: short, count: 8, pool: a, app: wordcount, input: SMALL}
  - {name: sort, count: 3, pool: b, app: sort, input: TEXT, split-size: 2MiB, reduces: 4}
  - {name: index, count: 2, pool: c, app: invertedindex, input: TEXT, split-size: 2MiB, reduces: 4}
`},
}

// outcome holds the numbers that the command prints of a run.
type outcome struct {
	Makespan time.Duration `json:"makespan_ns"`
	Jobs     []struct {
		State  string        `json:"state"`
		Submit time.Duration `json:"submit_ns"`
		Wait   time.Duration `json:"wait_ns"`
		Run    time.Duration `json:"run_ns"`
	} `json:"jobs"`
}

// response returns the mean time from submission to end, in seconds.
func (o *outcome) response() float64 {
	sum := 0.0
	for _, j := range o.Jobs {
		sum += (j.Wait + j.Run).Seconds()
	}
	return sum / float64(len(o.Jobs))
}

// onEngine runs the batches on the real engine, each policy once in every round, and compares the
// chosen policy with all named ones in pairs of the same round.
func onEngine(ctx context.Context, s *settings) error {
	dir, err := os.MkdirTemp("", "slotwise-compositions-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "slotwise")
	if err := harness.Build(ctx, binary); err != nil {
		return err
	}
	text, small := filepath.Join(dir, "text"), filepath.Join(dir, "small")
	for file, size := range map[string]int64{text: 16 * harness.MiB, small: harness.MiB} {
		if _, err := harness.Generate(ctx, binary, "text", size, file); err != nil {
			return err
		}
	}
	t := harness.NewTable(os.Stdout, "batch", "measure", chosen.String(), "policy", "its value", "ratio of the chosen to it", "interval of 95 %")
	for _, b := range batches {
		if !s.only.MatchString(b.name) {
			continue
		}
		file := filepath.Join(dir, b.name+".yaml")
		if err := os.WriteFile(file, []byte(strings.NewReplacer("TEXT", text, "SMALL", small).Replace(b.jobs)), 0o666); err != nil {
			return err
		}
		all := unique(append([]candidate{chosen}, named()...))
		values := make([][2][]float64, len(all)) // makespans and mean responses
		failed := make([]bool, len(all))
		err := harness.Rounds(ctx, s.seeds, len(all), func(_, i int) error {
			if failed[i] {
				return nil
			}
			o, err := once(ctx, binary, file, dir, &b, all[i])
			if err != nil {
				fmt.Fprintf(os.Stderr, "%s, %v: %v; it is left out\n", b.name, all[i], err)
				failed[i] = true
				return context.Cause(ctx)
			}
			values[i][0] = append(values[i][0], o.Makespan.Seconds())
			values[i][1] = append(values[i][1], o.response())
			return nil
		})
		if err != nil {
			return err
		}
		for k, measure := range []string{"makespan", "response.mean"} {
			for i := 1; i < len(all); i++ {
				if failed[i] {
					continue
				}
				p := metrics.PairedRatio(values[0][k], values[i][k], collect.Level)
				t.Row(b.name, measure, fmt.Sprintf("%.3g", harness.Mean(values[0][k])), all[i].String(), fmt.Sprintf("%.3g", harness.Mean(values[i][k])),
					fmt.Sprintf("%.3f", p.Ratio), fmt.Sprintf("%.3f to %.3f", p.Low, p.High))
			}
		}
	}
	return nil
}

// once runs a batch under a policy.
func once(ctx context.Context, binary, file, dir string, b *batch, c candidate) (*outcome, error) {
	args := append([]string{"run", "--jobs", file, "-o", "json", "--no-progress", "--temp-dir", dir, "--policy", c.spec}, b.flags...)
	for name, value := range c.settings() {
		args = append(args, "--policy-set", name+"="+value)
	}
	limited, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(limited, binary, args...)
	harness.InGroup(cmd)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	o := &outcome{}
	if err := json.Unmarshal(stdout.Bytes(), o); err != nil {
		return nil, err
	}
	for _, j := range o.Jobs {
		if j.State != "succeeded" {
			return nil, fmt.Errorf("a job is %s", j.State)
		}
	}
	return o, nil
}
