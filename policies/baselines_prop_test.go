package policies

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/tracker/trackertest"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// A pool never runs more than its maximum, copies included, however jobs come
// and go, under Hadoop's rules as under ours.
func TestPoolNeverAboveMaximum(t *testing.T) {
	limits := map[string][job.Kinds]int{"p1": {2, 1}, "p2": {0, 1}, "p3": {3, 0}}
	for _, profile := range []string{"default", "hadoop-1.2"} {
		t.Run(profile, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				p, err := Build("fair", sched.Options{Set: map[string]string{"profile": profile, "speculative-lag": "0s",
					"pools": "pool p1 maxMaps=2 maxReduces=1; pool p2 maxMaps=0 maxReduces=1; pool p3 minMaps=5 maxMaps=3 maxReduces=0"}})
				if err != nil {
					t.Fatal(err)
				}
				w := trackertest.NewFakeCluster(t, p)
				w.Also = func(effects []tracker.Effect) error { return withinPools(w.Tracker, effects, limits) }
				w.Join("n1", 3, 2)
				for range rapid.IntRange(1, 80).Draw(t, "steps") {
					w.Act()
				}
			})
		})
	}
}

// withinPools checks that no launch has brought a pool above its maximum, as a job
// that is moved into it may.
func withinPools(tr *tracker.Tracker, effects []tracker.Effect, limits map[string][job.Kinds]int) error {
	for _, e := range effects {
		j, k := tr.Jobs().Get(e.Job), e.Attempt.Kind
		if e.Kind != tracker.Launch {
			continue
		}
		running := 0
		for _, other := range tr.Jobs().Live() {
			if other.Pool() == j.Pool() {
				running += other.Running(k)
			}
		}
		if most, ok := limits[j.Pool()]; ok && running > most[k] {
			return fmt.Errorf("pool %s runs %d %vs of at most %d", j.Pool(), running, k, most[k])
		}
	}
	return nil
}

// Every profile keeps the tracker's invariants. It need not end all jobs, because some
// profiles reproduce mistakes of the original.
func TestProfilesKeepTheirPromises(t *testing.T) {
	names := Names()
	for _, name := range names {
		info, err := Describe(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, profile := range info.Profiles {
			t.Run(name+"/"+profile.Name, func(t *testing.T) {
				opt := sched.Options{Seed: 7, Set: map[string]string{"profile": profile.Name}}
				rapid.Check(t, func(t *rapid.T) {
					first, err1 := Build(name, opt)
					again, err2 := Build(name, opt)
					if err1 != nil || err2 != nil {
						t.Fatal(err1, err2)
					}
					w := trackertest.NewFakeCluster(t, first)
					w.Boundless = strings.HasPrefix(name, "learning")
					w.Join("n1", 2, 1)
					for range rapid.IntRange(1, 60).Draw(t, "steps") {
						w.Act()
					}
					w.Replay(again)
				})
			})
		}
	}
}

// Preemption with short time-outs kills no job and is deterministic.
func TestPreemptionKeepsItsPromises(t *testing.T) {
	set := map[string]string{"preemption": "true", "preemption-interval": "5s", "update-interval": "5s", "size-weight": "true",
		"pools": "pool p1 minMaps=2 minReduces=1 minSharePreemptionTimeout=5; pool p2 weight=3; fairSharePreemptionTimeout=10"}
	rapid.Check(t, func(t *rapid.T) {
		first, err1 := Build("fair", sched.Options{Set: set})
		again, err2 := Build("fair", sched.Options{Set: set})
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		w := trackertest.NewFakeCluster(t, first)
		w.Join("n1", 2, 1)
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			w.Act()
		}
		w.Settle(false)
		w.Replay(again)
	})
}
