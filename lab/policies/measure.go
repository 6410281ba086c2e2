package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/slotwise/slotwise/lab/harness"
)

// result is a measured mix.
type result struct {
	Experiment string    `json:"experiment"`
	Mix        string    `json:"mix"`
	What       string    `json:"what"`
	Must       float64   `json:"must,omitempty"`
	Timings    []*timing `json:"ways"` // the contestant to compare with first
}

// timing has the measurements of one contestant. All numbers but Runs and Gains
// are medians over the rounds.
type timing struct {
	Name    string    `json:"name"`
	Runs    []float64 `json:"runs"` // seconds of each round
	Seconds float64   `json:"seconds"`
	Gains   []float64 `json:"gains"` // of each round, over the first contestant
	Gain    float64   `json:"gain"`
	Tasks   float64   `json:"tasks"`              // mean number of tasks that a worker ran at once
	Mean    float64   `json:"slowdown,omitempty"` // mean slowdown of the small jobs
	P95     float64   `json:"slowdown_p95,omitempty"`
	Failed  string    `json:"failed,omitempty"` // the error that ended the measurement; "" if none

	tasks, means, p95s []float64 // of each round
}

// summary is the part of the JSON output of "slotwise run --jobs" that the
// benchmark reads.
type summary struct {
	Makespan time.Duration `json:"makespan_ns"`
	Jobs     []struct {
		Name     string  `json:"name"`
		State    string  `json:"state"`
		Slowdown float64 `json:"slowdown"`
		Results  []struct {
			SlotTime struct {
				Map    time.Duration `json:"map_ns"`
				Reduce time.Duration `json:"reduce_ns"`
			} `json:"slot_time"`
		} `json:"results"`
	} `json:"jobs"`
}

// measure runs a mix under all contestants in turns. It records the error of a
// contestant that fails or exceeds the timeout and leaves it out from then on.
func measure(ctx context.Context, s *settings, m mix) (*result, error) {
	res := &result{Experiment: m.experiment, Mix: m.name, What: m.what, Must: m.must}
	dir, err := os.MkdirTemp(s.data, "run")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "jobs.yaml")
	if err := os.WriteFile(file, []byte(m.jobs), 0o666); err != nil {
		return nil, err
	}
	for _, c := range m.contestants {
		res.Timings = append(res.Timings, &timing{Name: c.name})
	}
	err = harness.Rounds(ctx, s.rounds, len(m.contestants), func(round, i int) error {
		t := res.Timings[i]
		if t.Failed != "" {
			return nil
		}
		args := slices.Concat([]string{"run", "--jobs", file, "-o", "json", "--no-progress", "--temp-dir", dir,
			"--learned", filepath.Join(dir, fmt.Sprint("learned", i))}, m.flags, m.contestants[i].flags)
		out, err := once(ctx, s, args)
		if err != nil {
			t.Failed = err.Error()
			return nil
		}
		t.add(out, m, res.Timings[0], round)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, t := range res.Timings {
		t.summarize()
	}
	return res, nil
}

// once runs slotwise and returns its summary. A job that does not succeed is an
// error.
func once(ctx context.Context, s *settings, args []string) (*summary, error) {
	limited, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	cmd := exec.CommandContext(limited, s.binary(), args...)
	harness.InGroup(cmd)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if limited.Err() != nil {
			return nil, fmt.Errorf("still running after %v", s.timeout)
		}
		return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	out := &summary{}
	if err := json.Unmarshal(stdout.Bytes(), out); err != nil {
		return nil, err
	}
	for _, j := range out.Jobs {
		if j.State != "succeeded" {
			return nil, errors.New(j.Name + " " + j.State)
		}
	}
	return out, nil
}

// add appends the numbers of a round. base is the first contestant, which has
// already been measured in this round unless it failed.
func (t *timing) add(out *summary, m mix, base *timing, round int) {
	t.Runs = append(t.Runs, out.Makespan.Seconds())
	if round < len(base.Runs) {
		t.Gains = append(t.Gains, base.Runs[round]/out.Makespan.Seconds())
	}
	busy, small := time.Duration(0), []float64(nil)
	for _, j := range out.Jobs {
		for _, r := range j.Results {
			busy += r.SlotTime.Map + r.SlotTime.Reduce
		}
		if j.Name == "small" {
			small = append(small, j.Slowdown)
		}
	}
	t.tasks = append(t.tasks, busy.Seconds()/out.Makespan.Seconds()/float64(m.workers()))
	if len(small) > 0 {
		t.means, t.p95s = append(t.means, harness.Mean(small)), append(t.p95s, harness.Quantile(small, 0.95))
	}
}

// summarize computes the medians over all rounds.
func (t *timing) summarize() {
	t.Seconds, t.Gain, t.Tasks = harness.Median(t.Runs), harness.Median(t.Gains), harness.Median(t.tasks)
	t.Mean, t.P95 = harness.Median(t.means), harness.Median(t.p95s)
}
