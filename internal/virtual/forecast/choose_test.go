package forecast_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/virtual/forecast"
	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
)

// changing has a batch of equal jobs, and an hour later small jobs beside large ones.
func changing() []workload.Job {
	var jobs []workload.Job
	add := func(name string, submit time.Duration, maps int, each time.Duration) {
		j := workload.Job{Name: name, Submit: submit, Maps: make([]workload.Task, maps)}
		for i := range j.Maps {
			j.Maps[i].Duration = each + time.Duration(i%7)*time.Second
		}
		jobs = append(jobs, j)
	}
	for i := range 15 {
		add(fmt.Sprint("night-", i), time.Duration(i)*time.Second, 40, 30*time.Second)
	}
	for i := range 3 {
		add(fmt.Sprint("report-", i), time.Hour+time.Duration(i)*20*time.Minute, 400, 30*time.Second)
	}
	for i := range 100 {
		add(fmt.Sprint("query-", i), time.Hour+time.Duration(i)*30*time.Second, 4, 8*time.Second)
	}
	return jobs
}

// simulate returns the mean response time, a log of all events, and the policy.
func simulate(t *testing.T, spec string, set map[string]string) (time.Duration, string, sched.Policy) {
	t.Helper()
	p, err := policies.Build(spec, sched.Options{Set: set})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	cfg := sim.Config{Cluster: workload.Cluster{Groups: []workload.NodeGroup{{Count: 10, MapSlots: 2, ReduceSlots: 1}}}, Jobs: changing(),
		Policy: p, Details: true, Model: sim.ModelConfig{Heartbeat: "fixed:3s", Replicas: -1}, Trace: func(now time.Duration, ev tracker.Event, effects []tracker.Effect) {
			fmt.Fprintln(&log, now, tracker.FormatEvent(ev), effects)
		}}
	forecast.Choosing(&cfg)
	r, err := sim.Run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	sum := time.Duration(0)
	for i := range r.Jobs {
		sum += r.Jobs[i].Ended - r.Jobs[i].Submitted
	}
	return sum / time.Duration(len(r.Jobs)), log.String(), p
}

// On work that changes its character auto is better than each of its candidates, and a second
// run makes the same choices.
func TestAutoFollowsTheWork(t *testing.T) {
	set := map[string]string{"candidates": "fair,fifo"}
	response, log, p := simulate(t, "auto", set)
	for _, fixed := range []string{"fifo", "fair"} {
		if other, _, _ := simulate(t, fixed, nil); other <= response {
			t.Errorf("mean response %v, under %s %v", response, fixed, other)
		}
	}
	switches, known := 0, 0
	for row := range sched.Logs(p)[0].Rows {
		if row[1] != row[2] {
			switches++
		}
		if row[8].Text == "" {
			known++
		}
	}
	if switches < 2 || known < 5 {
		t.Errorf("%d switches, and of %d decisions it is known what came of them", switches, known)
	}
	if _, again, _ := simulate(t, "auto", set); again != log {
		t.Error("a second run differs")
	}
}

// A run that does not choose has its first candidate decide.
func TestFirstCandidate(t *testing.T) {
	_, want, _ := simulate(t, "fair", nil)
	if _, got, p := simulate(t, "auto", map[string]string{"candidates": "fair,fifo", "choose-every": "100h"}); got != want {
		t.Errorf("auto without decisions differs from its first candidate: %v", sched.Inspect(p, 0).Figures)
	}
}
