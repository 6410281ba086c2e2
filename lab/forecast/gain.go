package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/live/client"
	"github.com/slotwise/slotwise/lab/harness"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// gainRun measures what more workers on this machine bring, and what a master predicts. Each kind of task runs on two
// clusters: one stays as it is, and the other gets the workers when the first of two jobs is at a quarter of its maps.
// The real gain of a job is the difference of the times that were left at that moment.
type gainRun struct {
	more, workers int
	kinds         []string
	program       string // as in liveRun
}

// taskKinds are what a map does in about two seconds on a free processor.
var taskKinds = map[string]struct{ sleep, compute float64 }{"sleeping": {2, 0}, "computing": {0, 2}, "mixed": {1.3, 0.7}}

// gained is one job on one cluster. Times are seconds.
type gained struct {
	left, predicted float64             // until its end
	gain            map[string]*jobGain // by the machine that the question names
}

type jobGain = slotwisev1.JobGain

func (r *gainRun) run(ctx context.Context, stdout io.Writer) error {
	dir, err := os.MkdirTemp("", "slotwise-gain-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if r.program == "" {
		r.program = filepath.Join(dir, "slotwise")
		if err := harness.Build(ctx, r.program); err != nil {
			return err
		}
	}
	table := harness.NewTable(stdout, "tasks", "job", "left without them: predicted", "real", "with them: real", "gain: real", "predicted for new machines", "for this machine")
	for _, kind := range r.kinds {
		var arms [2][]gained
		for arm := range arms {
			sub := filepath.Join(dir, fmt.Sprint(kind, arm))
			if err := os.MkdirAll(sub, 0o777); err != nil {
				return err
			}
			if arms[arm], err = r.arm(ctx, sub, kind, arm == 1); err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
		}
		for i := range arms[0] {
			asIs, with := &arms[0][i], &arms[1][i]
			words := func(machine string) string {
				g := with.gain[machine]
				return fmt.Sprintf("%.0f (%.0f to %.0f)", -float64(g.GetMedianMs())/1e3, -float64(g.GetHighMs())/1e3, -float64(g.GetLowMs())/1e3)
			}
			second := func(x float64) string { return fmt.Sprintf("%.0f", x) }
			table.Row(kind, fmt.Sprint(i+1), second(asIs.predicted), second(asIs.left), second(with.left), second(asIs.left-with.left), words("new"), words("present"))
		}
	}
	return nil
}

// arm measures the two jobs on one cluster.
func (r *gainRun) arm(ctx context.Context, dir, kind string, add bool) (jobs []gained, err error) {
	flags := []string{"--map-slots", "2", "--reduce-slots", "1"}
	c, err := harness.StartCluster(ctx, r.program, dir, []string{"--policy", "fifo"}, slices.Repeat([][]string{flags}, r.workers))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	cl, err := client.New(c.URL, client.Options{})
	if err != nil {
		return nil, err
	}
	const warm, maps = 12, 40
	for i, n := range []int{warm, maps, maps} { // the first gives the master times
		if err := submitTasks(ctx, r.program, c.URL, dir, kind, i, n, i == 0); err != nil {
			return nil, err
		}
	}
	var asked int64
	for {
		list, err := cl.Jobs(ctx, &slotwisev1.JobsRequest{Ended: true})
		if err != nil {
			return nil, err
		}
		var now []*slotwisev1.JobStatus
		for _, j := range list {
			if !strings.HasSuffix(j.Name, "-0") {
				now = append(now, j)
			}
		}
		slices.SortFunc(now, func(a, b *slotwisev1.JobStatus) int { return strings.Compare(a.Name, b.Name) })
		if asked == 0 && len(now) == 2 && now[0].EndedMs > 0 {
			return nil, errors.New("the first job has ended before a quarter of its maps was seen")
		}
		if asked == 0 && len(now) == 2 && now[0].Maps.GetDone() >= maps/4 {
			asked = time.Now().UnixMilli()
			if jobs, err = askGain(ctx, cl, r.more, asked); err != nil {
				return nil, err
			}
			for range r.more {
				if add {
					if err := c.StartWorker(r.program, dir, flags...); err != nil {
						return nil, err
					}
				}
			}
		}
		if ended := func(j *slotwisev1.JobStatus) bool { return j.EndedMs > 0 }; asked > 0 && ended(now[0]) && ended(now[1]) {
			for i, j := range now {
				if j.State != slotwisev1.JobState_JOB_STATE_SUCCEEDED {
					return nil, fmt.Errorf("%s has ended as %v", j.Name, j.State)
				}
				jobs[i].left = float64(j.EndedMs-asked) / 1e3
			}
			return jobs, nil
		}
		if !harness.Sleep(ctx, 200*time.Millisecond) {
			return nil, context.Cause(ctx)
		}
	}
}

// askGain asks what more workers would bring to the two jobs, on new machines and on the present one.
func askGain(ctx context.Context, cl *client.Client, more int, asked int64) ([]gained, error) {
	jobs := []gained{{gain: map[string]*jobGain{}}, {gain: map[string]*jobGain{}}}
	for _, machine := range []string{"new", "present"} {
		resp, err := client.Call(ctx, cl, cl.RPC().WhatIf, &slotwisev1.WhatIfRequest{Nodes: int32(more), Machine: machine})
		if err != nil {
			return nil, err
		}
		if len(resp.Jobs) != len(jobs) {
			return nil, fmt.Errorf("an answer about %d jobs", len(resp.Jobs))
		}
		for i, row := range resp.Jobs {
			jobs[i].gain[machine], jobs[i].predicted = row.Gain, float64(row.Now.GetEndMs()-asked)/1e3
		}
	}
	return jobs, nil
}

// submitTasks submits a job of maps of a kind and one short reduce.
func submitTasks(ctx context.Context, program, master, dir, kind string, number, maps int, wait bool) error {
	const split = 16 << 10 // each map reads one line
	in, of := filepath.Join(dir, fmt.Sprint("in", number)), taskKinds[kind]
	if err := os.WriteFile(in, []byte(strings.Repeat(strings.Repeat("x", split-1)+"\n", maps)), 0o666); err != nil {
		return err
	}
	// About 48 million steps take a second.
	mapper := fmt.Sprintf("sh -c 'wc -c; sleep %v; awk \"BEGIN{for(i=0;i<%d;i++)x+=i}\"'", of.sleep, int(of.compute*48e6))
	args := []string{"submit", "--master", master, "--mapper", mapper, "--reducer", "cat", "--reduces", "1", "--input", in, "--split-size", fmt.Sprint(split), "--output", filepath.Join(dir, fmt.Sprint("out", number)), "--name", fmt.Sprint(kind, "-", number)}
	if wait {
		args = append(args, "--wait")
	}
	if out, err := exec.CommandContext(ctx, program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("submit: %w: %s", err, out)
	}
	return nil
}
