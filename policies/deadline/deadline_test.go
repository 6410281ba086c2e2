package deadline_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// watch notes when jobs start and end.
type watch map[string][2]time.Duration

func (w watch) Observe(e *sim.Event) {
	name := fmt.Sprint(e.Job)
	switch e.Kind {
	case sim.AttemptStarted:
		if _, seen := w[name]; !seen {
			w[name] = [2]time.Duration{e.At}
		}
	case sim.JobEnded:
		w[name] = [2]time.Duration{w[name][0], e.At}
	}
}

// run simulates jobs of one map each on one slot.
func run(t *testing.T, jobs []workload.Job, set map[string]string) watch {
	t.Helper()
	p, err := policies.Build("deadline,place=greedy,speculate=none", sched.Options{Set: set})
	if err != nil {
		t.Fatal(err)
	}
	w := watch{}
	if _, err := sim.Run(sim.Config{Cluster: workload.Cluster{Groups: []workload.NodeGroup{{Count: 1, MapSlots: 1, ReduceSlots: 1}}},
		Jobs: jobs, Policy: p, Observer: w, Model: sim.ModelConfig{OutOfBand: true}}); err != nil {
		t.Fatal(err)
	}
	return w
}

// one returns a job of one map.
func one(name string, at, takes, deadline time.Duration) workload.Job {
	return workload.Job{Name: name, Submit: at, Maps: []workload.Task{{Duration: takes}}, Request: job.Request{Deadline: deadline, User: "u"}}
}

// A default-deadline near the longest time lets jobs with deadlines go first for ever. Added to the submission
// it must not become a time long past, which would do the opposite.
func TestReserveOfCenturies(t *testing.T) {
	const start = 2 * time.Hour
	w := run(t, []workload.Job{one("busy", start, time.Minute, 0), one("plain", start+time.Second, time.Minute, 0), one("due", start+2*time.Second, time.Minute, time.Hour)},
		map[string]string{"default-deadline": "2562047h"})
	if plain, due := w["1"][0], w["2"][0]; plain < due {
		t.Errorf("the job without a deadline starts at %v, the one with a deadline at %v", plain, due)
	}
}

// Jobs with deadlines that fill the cluster delay another job until its reserve has passed,
// and then by the running task only.
func TestReserveBoundsStarvation(t *testing.T) {
	const reserve = 10 * time.Minute
	for _, deadline := range []time.Duration{0, time.Second, 20 * time.Minute} {
		// Job 1 cannot end by its deadline of a second. The others come faster than the slot
		// serves them, for two hours.
		jobs := []workload.Job{one("first", 0, 10*time.Second, time.Minute), one("waits", 1, 10*time.Second, deadline)}
		if deadline > reserve {
			jobs[1].Maps[0].Duration = 25 * time.Minute
		}
		for i := range 900 {
			jobs = append(jobs, one("stream", time.Duration(i)*8*time.Second, 10*time.Second, 30*time.Second))
		}
		w := run(t, jobs, map[string]string{"default-deadline": reserve.String()})
		bound := max(reserve, deadline) + 20*time.Second
		if started := w["1"][0]; started > bound || started < max(reserve, deadline)-time.Minute {
			t.Errorf("deadline %v: the job starts after %v, should start from %v to %v", deadline, started, max(reserve, deadline), bound)
		}
	}
}

// Of jobs that cannot all end in time, the largest waits. With give-up=false it goes first and
// all are late.
func TestLargestGivesUp(t *testing.T) {
	var jobs []workload.Job
	// The names have been seen, so the times are known.
	for _, size := range []time.Duration{60, 10} {
		jobs = append(jobs, one(fmt.Sprint("size", int(size)), 0, size*time.Second, 0))
	}
	// The slot is busy while the five come, so that none has started when they are compared.
	jobs = append(jobs, one("size10", 95*time.Second, 10*time.Second, 0), one("size60", 100*time.Second, 60*time.Second, 67*time.Second))
	for range 4 {
		jobs = append(jobs, one("size10", 100*time.Second, 10*time.Second, 69*time.Second))
	}
	for giveUp, want := range map[string]int{"true": 4, "false": 1} {
		w := run(t, jobs, map[string]string{"give-up": giveUp, "deadline-interval": "1s"})
		met := 0
		for i := 3; i < len(jobs); i++ {
			if w[fmt.Sprint(i)][1] <= jobs[i].Submit+jobs[i].Deadline {
				met++
			}
		}
		if met != want {
			t.Errorf("give-up=%s: %d deadlines are met, want %d: %v", giveUp, met, want, w)
		}
	}
}

// A job without a deadline, and one that needs nothing of the cluster any more, are in no
// other job's way: without deadlines the order is by submission.
func TestWithoutDeadlinesFirstComeFirstServed(t *testing.T) {
	var jobs []workload.Job
	for i := range 20 {
		jobs = append(jobs, one(fmt.Sprint("j", i%3), time.Duration(i)*time.Second, time.Duration(20-i)*time.Second, 0))
	}
	w := run(t, jobs, nil)
	for i := 1; i < len(jobs); i++ {
		if w[fmt.Sprint(i)][0] < w[fmt.Sprint(i-1)][0] {
			t.Errorf("job %d starts at %v, before job %d at %v", i, w[fmt.Sprint(i)][0], i-1, w[fmt.Sprint(i-1)][0])
		}
	}
}
