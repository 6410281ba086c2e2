package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// result is a measured mix.
type result struct {
	Experiment string    `json:"experiment"`
	Mix        string    `json:"mix"`
	What       string    `json:"what"`
	Must       float64   `json:"must,omitempty"`
	Ways       []*timing `json:"ways"` // the one to compare with first
}

// timing is what a mix took one way; all but Runs and Gains are medians.
type timing struct {
	Name    string    `json:"name"`
	Runs    []float64 `json:"runs"` // seconds of each round
	Seconds float64   `json:"seconds"`
	Gains   []float64 `json:"gains"` // of each round, over the first way
	Gain    float64   `json:"gain"`
	Tasks   float64   `json:"tasks"`              // that ran at once on a worker, on average
	Mean    float64   `json:"slowdown,omitempty"` // of the small jobs
	P95     float64   `json:"slowdown_p95,omitempty"`
	Failed  string    `json:"failed,omitempty"`

	tasks, means, p95s []float64
}

// outcome is the part of what slotwise prints that is looked at.
type outcome struct {
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

// measure runs a mix all ways in turns. A way that fails or does not end in time
// is reported and not tried again.
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
	for _, w := range m.ways {
		res.Ways = append(res.Ways, &timing{Name: w.name})
	}
	for round := range s.rounds {
		for i, w := range m.ways {
			if res.Ways[i].Failed != "" {
				continue
			}
			args := slices.Concat([]string{"run", "--jobs", file, "--json", "--no-progress", "--temp-dir", dir,
				"--learned", filepath.Join(dir, fmt.Sprint("learned", i))}, m.flags, w.flags)
			o, err := once(ctx, s, args)
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if err != nil {
				res.Ways[i].Failed = err.Error()
				continue
			}
			res.Ways[i].add(o, m, res.Ways[0], round)
		}
	}
	for _, t := range res.Ways {
		t.summarize()
	}
	return res, nil
}

// once runs slotwise and reads what it says.
func once(ctx context.Context, s *settings, args []string) (*outcome, error) {
	limited, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	cmd := exec.CommandContext(limited, s.binary(), args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if limited.Err() != nil {
			return nil, fmt.Errorf("not done after %v", s.timeout)
		}
		return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	o := &outcome{}
	if err := json.Unmarshal(stdout.Bytes(), o); err != nil {
		return nil, err
	}
	for _, j := range o.Jobs {
		if j.State != "succeeded" {
			return nil, errors.New(j.Name + " " + j.State)
		}
	}
	return o, nil
}

// add takes a round's outcome in. base has that of the same round already.
func (t *timing) add(o *outcome, m mix, base *timing, round int) {
	t.Runs = append(t.Runs, o.Makespan.Seconds())
	if round < len(base.Runs) {
		t.Gains = append(t.Gains, base.Runs[round]/o.Makespan.Seconds())
	}
	busy, small := time.Duration(0), []float64(nil)
	for _, j := range o.Jobs {
		for _, r := range j.Results {
			busy += r.SlotTime.Map + r.SlotTime.Reduce
		}
		if j.Name == "small" {
			small = append(small, j.Slowdown)
		}
	}
	t.tasks = append(t.tasks, busy.Seconds()/o.Makespan.Seconds()/float64(m.workers()))
	if len(small) > 0 {
		t.means, t.p95s = append(t.means, mean(small)), append(t.p95s, quantile(small, 0.95))
	}
}

// workers reads the flag --workers, which stands first.
func (m mix) workers() (n int) {
	fmt.Sscan(m.flags[1], &n)
	return max(1, n)
}

func (t *timing) summarize() {
	t.Seconds, t.Gain, t.Tasks = median(t.Runs), median(t.Gains), median(t.tasks)
	t.Mean, t.P95 = median(t.means), median(t.p95s)
}

func mean(values []float64) (sum float64) {
	for _, x := range values {
		sum += x
	}
	return sum / float64(len(values))
}

// median is 0 of no values.
func median(values []float64) float64 { return quantile(values, 0.5) }

// quantile interpolates between the two values nearest to a share q of the way
// from the least to the greatest; 0 of no values.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	at := q * float64(len(s)-1)
	low := int(math.Floor(at))
	high := min(low+1, len(s)-1)
	return s[low] + (at-float64(low))*(s[high]-s[low])
}
