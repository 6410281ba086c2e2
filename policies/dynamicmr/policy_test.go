package dynamicmr_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/policies/dynamicmr"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// The paper's own names of its arguments set the parameters of the parts.
func TestPaperArguments(t *testing.T) {
	paper := map[string]string{
		"mapred.idle.mapslots.borrowedforReduceTasks":         "0.5",
		"mapred.idle.reduceslots.borrowedforMapTasks":         "0.25",
		"PoolsFairShareSlotsAdaptiveMode":                     "PoolDependent",
		"mapred.submitted.jobs.checkedforPendingTasks":        "0.1",
		"poolPercentageOfSubmittedJobsCheckedForPendingTasks": "0.2",
		"FairSchedulerSpeculativeJobsPendingTasksCheckedMode": "PoolLevel",
		"mapred.map.tasks.preScheduler.enabled":               "true",
		"mapred.preScheduler.maximumNumBorrowedReduceSlots":   "7",
	}
	for _, policy := range []string{"dynamicmr-pi", "dynamicmr-pd"} {
		if _, err := policies.Build(policy, sched.Options{Set: paper}); err != nil {
			t.Errorf("%s: %v", policy, err)
		}
		for name := range paper {
			for _, bad := range []string{"-1", "NaN", "2.5", "perhaps"} {
				_, err := policies.Build(policy, sched.Options{Set: map[string]string{name: bad}})
				if err == nil || !strings.Contains(err.Error(), "parameter ") {
					t.Errorf("%s %s=%s: %v", policy, name, bad, err)
				}
			}
		}
	}
	for name, bad := range map[string]string{"keep-map-slots": "-1", "far-at-once": "sometimes", "early-reduces": "true", "sepb-cap": "2"} {
		if _, err := policies.Build("dynamicmr-pd", sched.Options{Set: map[string]string{name: bad}}); err == nil {
			t.Errorf("%s=%s was accepted", name, bad)
		}
	}
	twice := map[string]string{"lend-map-slots": "1", "mapred.idle.mapslots.borrowedforReduceTasks": "1"}
	if _, err := policies.Build("dynamicmr-pi", sched.Options{Set: twice}); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("a parameter set under two names: %v", err)
	}
}

// Each part works in other compositions, and nonsense is refused with a reason.
func TestCompositions(t *testing.T) {
	for _, spec := range []string{"slots=dhsa-pi", "slots=dhsa-pd", "speculate=sepb", "slots=dhsa-pd,order=fair",
		"slots=dhsa-pi,place=preschedule", "dynamicmr-pd,order=fifo", "dynamicmr-pi,place=greedy,speculate=none",
		"tumm,speculate=sepb", "yarn,speculate=sepb", "dynamicmr-pd,order=capacity"} {
		if _, err := policies.Parse(spec); err != nil {
			t.Errorf("%s: %v", spec, err)
		}
	}
	for _, spec := range []string{"place=preschedule", "slots=tumm,place=preschedule", "fair,place=preschedule", "dynamicmr-pi,slots=unified"} {
		if _, err := policies.Parse(spec); err == nil || !strings.Contains(err.Error(), "slots=dhsa-pi") {
			t.Errorf("%s: %v", spec, err)
		}
	}
}

// The paper's names for its parameters (its table 2) are accepted, and mean the same.
func TestNamesOfThePaper(t *testing.T) {
	want := map[string]string{
		"PoolsFairShareSlotsAdaptiveMode":                     "lend-mode",
		"mapred.idle.mapslots.borrowedforReduceTasks":         "lend-map-slots",
		"mapred.idle.reduceslots.borrowedforMapTasks":         "lend-reduce-slots",
		"dhsa.min.map.capable.slots":                          "keep-map-slots",
		"mapred.map.tasks.preScheduler.enabled":               "preschedule",
		"mapred.preScheduler.maximumNumBorrowedReduceSlots":   "preschedule-max",
		"FairSchedulerSpeculativeJobsPendingTasksCheckedMode": "sepb-level",
		"mapred.submitted.jobs.checkedforPendingTasks":        "sepb-fraction",
		"poolPercentageOfSubmittedJobsCheckedForPendingTasks": "sepb-pool-fraction",
	}
	for _, name := range []string{"dynamicmr-pi", "dynamicmr-pd"} {
		info, err := policies.Describe(name)
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[string]string)
		for _, part := range info.Parts {
			for _, p := range part.Params {
				for _, alias := range p.Aliases {
					got[alias] = p.Name
				}
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s accepts %v, want %v", name, got, want)
		}
	}
}

// With nothing lent, nothing prescheduled and no copies, both modes decide as
// Hadoop's fair scheduler does, to the letter.
func TestOffIsTheFairScheduler(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mode := rapid.SampledFrom([]string{"dynamicmr-pi", "dynamicmr-pd"}).Draw(t, "mode")
		a := build(t, mode+",speculate=none", map[string]string{"lend-map-slots": "0", "lend-reduce-slots": "0",
			"preschedule": "false", "pools": "pool p minMaps=2"})
		b := build(t, "fair,speculate=none", map[string]string{"fill": "balance", "pools": "pool p minMaps=2"})
		one, two := tracker.New(tracker.Config{}, a), tracker.New(tracker.Config{}, b)
		play(t, func(now time.Duration, ev tracker.Event) []tracker.Effect {
			x, y := text(one.Step(now, ev)), text(two.Step(now, ev))
			if x != y {
				t.Fatalf("%s:\n%s\nwant\n%s", tracker.FormatEvent(ev), x, y)
			}
			return nil
		}, one)
	})
}

func build(t interface{ Fatal(...any) }, spec string, set map[string]string) sched.Policy {
	p, err := policies.Build(spec, sched.Options{Set: set})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func text(effects []tracker.Effect) string {
	var lines []string
	for _, e := range effects {
		lines = append(lines, e.String())
	}
	return strings.Join(lines, "\n")
}

// play draws nodes, jobs and heartbeats in which tasks end.
func play(t *rapid.T, step func(time.Duration, tracker.Event) []tracker.Effect, tr *tracker.Tracker) {
	now := time.Duration(0)
	for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
		n := node(fmt.Sprint("t", i), rapid.IntRange(1, 4).Draw(t, "m"), rapid.IntRange(1, 3).Draw(t, "r"))
		step(now, &tracker.Join{Node: n})
	}
	for range rapid.IntRange(5, 40).Draw(t, "steps") {
		now += time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond
		if rapid.IntRange(0, 4).Draw(t, "what") == 0 {
			s := job.Spec{Request: job.Request{Pool: rapid.SampledFrom([]string{"p", "q"}).Draw(t, "pool")},
				Splits: make([]job.Split, rapid.IntRange(1, 8).Draw(t, "maps")), Reduces: rapid.IntRange(0, 4).Draw(t, "reduces")}
			for i := range s.Splits {
				s.Splits[i].Hosts = []string{rapid.SampledFrom([]string{"t0", "t1", "t9"}).Draw(t, "host")}
			}
			step(now, &tracker.Submit{Spec: s})
			continue
		}
		n := rapid.SampledFrom(tr.Nodes().All()).Draw(t, "node")
		hb := &tracker.Heartbeat{Node: n.Name()}
		for _, a := range n.Attempts() {
			if (a.Kind() == job.Map || a.Job().MapsDone()) && rapid.Bool().Draw(t, "ends") {
				hb.Reports = append(hb.Reports, tracker.Report{Attempt: a.ID(), State: job.AttemptSucceeded, Progress: 1})
			}
		}
		step(now, hb)
	}
}

// Some tracker below its line has a slot for every task that waits, so that after
// a round of heartbeats no slot stays idle beside a task that it may serve: the
// claim of App. C, with all slots lent, to reduces that wait for maps as well, and
// no wait for local data.
func TestNoSlotIdlesBesideWaitingTasks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mode := rapid.SampledFrom([]string{"dhsa-pi", "dhsa-pd"}).Draw(t, "mode")
		tr := tracker.New(tracker.Config{}, build(t, "slots="+mode+",place=greedy,speculate=none,order="+
			rapid.SampledFrom([]string{"fifo", "fair"}).Draw(t, "order"), map[string]string{"keep-map-slots": "0", "early-reduces": "on"}))
		play(t, tr.Step, tr)
		for range 3 {
			for _, n := range tr.Nodes().All() {
				tr.Step(tr.Now(), &tracker.Heartbeat{Node: n.Name()})
			}
		}
		idle := tr.Nodes().Slots(job.Map) + tr.Nodes().Slots(job.Reduce) - tr.Jobs().Running(job.Map) - tr.Jobs().Running(job.Reduce)
		if waiting := launchable(tr); idle > 0 && waiting > 0 && mode == "dhsa-pd" {
			t.Fatalf("%d slots are idle beside %d tasks", idle, waiting)
		}
		for k := range job.Kind(job.Kinds) { // by phases a kind's own slots are never idle beside its tasks
			own := tr.Nodes().Slots(k) - tr.Jobs().RunningOn(job.Map, k) - tr.Jobs().RunningOn(job.Reduce, k)
			for _, j := range tr.Jobs().Live() {
				if own > 0 && j.Launchable(k) {
					t.Fatalf("%d %v slots are idle beside a task of %v", own, k, j.ID())
				}
			}
		}
	})
}

func launchable(tr *tracker.Tracker) (n int) {
	for _, j := range tr.Jobs().Live() {
		for k := range job.Kind(job.Kinds) {
			if j.Launchable(k) {
				n += j.Pending(k)
			}
		}
	}
	return n
}

// The parameter lend-mode takes the paper's names in any case of letters, and
// its default is the mode of the part.
func TestLendMode(t *testing.T) {
	for _, m := range []dynamicmr.Mode{dynamicmr.PI, dynamicmr.PD} {
		p := dynamicmr.DHSAParams(m)[0]
		if got, err := p.Normalize(strings.ToLower(m.String())); err != nil || got != m.String() || p.Default != got {
			t.Errorf("%v became %v, %v; default %s", m, got, err, p.Default)
		}
	}
}
