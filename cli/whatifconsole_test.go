package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/console/source"
	"github.com/slotwise/slotwise/policies"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// TestConsolePlan reads mixes that somebody sends to the console. One that names programs, or asks for more
// than a question may have, is refused.
func TestConsolePlan(t *testing.T) {
	for mix, want := range map[string]string{
		"jobs: [{name: a, maps: 8, map-time: 2s, reduces: 1, reduce-time: 5s}, {name: b, maps: 2, map-time: 1s, pool: p}]": "a 8×2 1×5 , b 2×1 0×0 p",
		"jobs: [{app: wordcount, input: /etc}]":                             "the console does not read the inputs of a program",
		"jobs: [{name: a, maps: 1000000, map-time: 1s}]":                    "more than 200000 tasks by job 1",
		"jobs: [{name: a, maps: 1, map-time: 1s, repeat: 5000}]":            "5000 jobs, and a question may have 1000",
		"jobs: 2000\nclasses: [{name: a, share: 1, maps: 1, map-time: 1s}]": "2000 jobs, and a question may have 1000",
		"arrivals: {every: 1s}\njobs: [{name: a, maps: 1, map-time: 1s}]":   "jobs:1: job mix: arrivals is for classes",
		"&a [*a, *a]": "jobs:1",
		"":            "jobs",
	} {
		list, err := consoleSimulator{}.Plan(t.Context(), mix)
		var got []string
		for _, j := range list {
			got = append(got, fmt.Sprintf("%s %d×%v %d×%v %s", j.Job.Name, j.Maps, j.MapSeconds, j.Reduces, j.ReduceSeconds, j.Job.Pool))
		}
		if text := strings.Join(got, ", "); err == nil && text != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v; want %q", mix, text, err, want)
		}
	}
}

// pastConsole has a past of small jobs that wait behind large ones.
type pastConsole struct {
	source.Source
	source.Actor
	jobs, tasks int
}

func (p pastConsole) Nodes(context.Context, string) ([]*slotwisev1.NodeStatus, []source.Attempt, error) {
	return []*slotwisev1.NodeStatus{{Name: "w1", Host: "w1", State: "alive", MapSlots: 2, ReduceSlots: 1}}, nil, nil
}

func (p pastConsole) Policy(context.Context) (*source.Policy, error) {
	return &source.Policy{Name: "fifo"}, nil
}

func (p pastConsole) Succeeded(_ context.Context, _ time.Time, most int, put func(*slotwisev1.HistoryJob) error) error {
	for i := range min(most, p.jobs) {
		id, start := fmt.Sprint("j", i+1), int64(1_790_000_000_000+7000*i)
		h := &slotwisev1.HistoryJob{Job: &slotwisev1.JobStatus{Id: id, Name: id, User: fmt.Sprint("user", i%2), State: slotwisev1.JobState_JOB_STATE_SUCCEEDED, SubmittedMs: start, StartedMs: start, EndedMs: start + 30_000,
			Maps: &slotwisev1.TaskCounts{Total: int32(p.tasks), Done: int32(p.tasks)}, Reduces: &slotwisev1.TaskCounts{}}}
		for k := range p.tasks {
			task := fmt.Sprintf("%s_m_%d", id, k)
			h.Tasks = append(h.Tasks, &slotwisev1.TaskStatus{Id: task, State: "succeeded", Attempts: []*slotwisev1.AttemptStatus{{Id: task + "_0", State: "succeeded", Node: "w1", Level: "node", Progress: 1, StartedMs: start, EndedMs: start + 3000}}})
		}
		if err := put(h); err != nil {
			return err
		}
	}
	return nil
}

// TestConsolePast simulates a past. Each policy has a row for each measure, and the installed one
// comes first.
func TestConsolePast(t *testing.T) {
	t.Parallel()
	on := func(jobs, tasks int) consoleSimulator {
		p := pastConsole{jobs: jobs, tasks: tasks}
		return consoleSimulator{&setup{policies: policies.Builtin}, p, p}
	}
	q := &source.PastQuestion{Since: time.Hour, Policy: "fair", Minimise: "response.mean"}
	a, err := on(12, 4).Past(t.Context(), q, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i, r := range a.Rows {
		seen[r.Policy+" "+r.Measure] = true
		if r.Value <= 0 || (r.Policy == "fifo") != (r.Ratio == 0) || i == 0 && r.Policy != "fifo" {
			t.Errorf("row %d: %+v", i, r)
		}
	}
	if !seen["fifo makespan"] || !seen["fair makespan"] || !seen["fair response.mean"] || a.Installed != "fifo" || a.Verdict == "" {
		t.Errorf("%+v", a)
	}
	for want, ask := range map[string]func() (*source.PastAnswer, error){
		"no job has succeeded":   func() (*source.PastAnswer, error) { return on(0, 0).Past(t.Context(), q, func(string) {}) },
		"more than 200000 tasks": func() (*source.PastAnswer, error) { return on(3, 100_000).Past(t.Context(), q, func(string) {}) },
		"budget 1000: the console": func() (*source.PastAnswer, error) {
			return on(3, 1).Past(t.Context(), &source.PastQuestion{Since: time.Hour, Minimise: "makespan", Budget: 1000}, func(string) {})
		},
		"minimise unknown measure": func() (*source.PastAnswer, error) {
			return on(3, 1).Past(t.Context(), &source.PastQuestion{Since: time.Hour, Minimise: "slow"}, func(string) {})
		},
		"policy nosuch": func() (*source.PastAnswer, error) {
			return on(3, 1).Past(t.Context(), &source.PastQuestion{Since: time.Hour, Minimise: "makespan", Policy: "nosuch"}, func(string) {})
		},
		"nodes: the cluster has 1 live wo": func() (*source.PastAnswer, error) {
			return on(3, 1).Past(t.Context(), &source.PastQuestion{Since: time.Hour, Minimise: "makespan", Nodes: -1}, func(string) {})
		},
	} {
		if _, err := ask(); err == nil || !strings.Contains(err.Error(), want) || strings.HasPrefix(err.Error(), "--") {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
