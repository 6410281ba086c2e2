package tracker_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/tracker/trackertest"
	"github.com/slotwise/slotwise/sched/job"
)

// The promises that trackertest.FakeCluster lists hold, no task waits while it could
// run, and with well-behaved nodes every job ends.
func TestTrackerKeepsItsPromises(t *testing.T) {
	for _, policy := range []string{"fifo", "copies", "lending"} {
		t.Run(policy, func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) {
				w := trackertest.NewFakeCluster(r, testPolicy(t, policy))
				w.Join("n1", 2, 1)
				for range rapid.IntRange(1, 120).Draw(r, "steps") {
					w.Act()
				}
				w.Settle(true)
				w.Replay(testPolicy(t, policy))
			})
		})
	}
}

// A tracker restored from facts, or from a snapshot, is the same and continues the
// same, wherever it was cut off. Progress is no fact, so decisions by progress are the same
// as soon as every running attempt has reported progress once more. The test leaves out the
// other decisions by what tracker.Restore lists as no facts: nothing is preempted, and no
// task is wide.
func TestRestoredTrackersBehaveAlike(t *testing.T) {
	for _, policy := range []string{"fifo,speculate=none", "copies", "slow copies", "lending"} {
		t.Run(policy, func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) {
				w := trackertest.NewFakeCluster(r, testPolicy(t, policy), func(c *tracker.Config) { c.PreemptDelay = -1 })
				w.NoWide = true
				w.Join("n1", 2, 1)
				for range rapid.IntRange(1, 120).Draw(r, "steps") {
					w.Act()
				}
				w.Shadow(testPolicy(t, policy), testPolicy(t, policy))
				w.Progress()
				for range rapid.IntRange(1, 60).Draw(r, "steps") {
					w.Act()
				}
				w.Settle(true)
			})
		})
	}
}

// If every offer that is due is made, no task that could run waits after any event: so
// the tracker misses nothing that may let a task start. Tasks that failed on a node are
// left out, because they may return to it when time has passed, which heartbeats see.
func TestOffersMissNothing(t *testing.T) {
	for _, policy := range []string{"fifo,speculate=none", "lending"} {
		t.Run(policy, func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) {
				w := trackertest.NewFakeCluster(r, testPolicy(t, policy))
				w.Join("n1", 2, 1)
				for range rapid.IntRange(1, 120).Draw(r, "steps") {
					w.Act()
					w.Offer()
					if idle := trackertest.IdleWork(w.Tracker, false); idle != "" {
						r.Fatal(idle)
					}
				}
			})
		})
	}
}

// Facts that were mixed up are refused, or lead to a tracker whose counts are
// right; and wherever a log is cut off, there is one.
func TestRestoreOfAnyFacts(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := trackertest.NewFakeCluster(r, testPolicy(t, "copies"))
		w.Join("n1", 2, 1)
		for range rapid.IntRange(1, 80).Draw(r, "steps") {
			w.Act()
		}
		facts := w.Facts()
		if rapid.Bool().Draw(r, "snapshot") {
			facts = slices.Collect(w.Tracker.Snapshot())
		}
		facts = slices.Clone(facts[:rapid.IntRange(0, len(facts)).Draw(r, "cut")])
		mixed := 0
		for range rapid.IntRange(0, 3).Draw(r, "mix") {
			if len(facts) > 1 {
				i, k := rapid.IntRange(0, len(facts)-1).Draw(r, "i"), rapid.IntRange(0, len(facts)-1).Draw(r, "k")
				facts[i] = facts[k]
				mixed++
			}
		}
		tr, err := tracker.Restore(tracker.Config{MaxNodeFailures: 3, Record: true}, testPolicy(t, "copies"), 0, slices.Values(facts))
		if err == nil {
			err = trackertest.Recount(tr)
		} else if mixed > 0 {
			return
		}
		if err != nil {
			r.Fatal(err)
		}
	})
}

// The same events give the same effects, whatever the order of maps in memory.
func TestStepIsDeterministic(t *testing.T) {
	play := func() []string {
		var log []string
		rng := uint64(1)
		draw := func(n int) int { rng = rng*6364136223846793005 + 1442695040888963407; return int(rng>>33) % n }
		tr := tracker.New(tracker.Config{}, testPolicy(t, "copies"))
		var last []job.AttemptID
		for i := range 3000 {
			var ev tracker.Event = &tracker.Heartbeat{Node: fmt.Sprint("n", draw(8))}
			switch draw(10) {
			case 0:
				ev = joinEvent(fmt.Sprint("n", draw(8)), draw(4), draw(3))
			case 1:
				s := job.Spec{Splits: make([]job.Split, draw(9)), Reduces: draw(3), Request: job.Request{SlowStart: -1}}
				for i := range s.Splits {
					s.Splits[i].Hosts = []string{fmt.Sprint("n", draw(8)), fmt.Sprint("n", draw(8))}
				}
				ev = &tracker.Submit{Spec: s}
			case 2:
				ev = &tracker.Lose{Node: fmt.Sprint("n", draw(8))}
			case 3, 4, 5, 6:
				if len(last) > 0 {
					a := last[draw(len(last))]
					at := tr.Jobs().Attempt(a)
					if at != nil {
						ev = &tracker.Heartbeat{Node: tr.Nodes().Node(at.Node()).Name(), Reports: []tracker.Report{{Attempt: a, State: job.AttemptState(1 + draw(3))}}}
					}
				}
			}
			log = append(log, tracker.FormatEvent(ev))
			for _, e := range tr.Step(time.Duration(i)*time.Second, ev) {
				log = append(log, e.String())
				if e.Kind == tracker.Launch {
					last = append(last, e.Attempt)
				}
			}
		}
		return log
	}
	if a, b := play(), play(); !slices.Equal(a, b) {
		t.Fatal("two runs of one script differ")
	} else if len(a) < 4000 {
		t.Fatalf("the script did little: %d lines", len(a))
	}
}

// A reduce is killed for its job's maps a bounded number of times: at first once, and again
// only after a map of the job has ended without success or has lost its output.
func TestReducesArePreemptedBoundedly(t *testing.T) {
	for _, policy := range []string{"lending", "dynamicmr-pd"} {
		t.Run(policy, func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) {
				w := trackertest.NewFakeCluster(r, testPolicy(t, policy), func(c *tracker.Config) { c.PreemptDelay = time.Second })
				w.Join("n1", 2, 1)
				kills := map[job.TaskID]int{}
				w.Also = func(effects []tracker.Effect) error {
					for _, e := range effects {
						if e.Kind != tracker.Kill || e.Text != "maps of its job need its slot" {
							continue
						}
						id := e.Attempt.TaskID
						kills[id]++
						if most := 1 + setbacks(w.Tracker.Jobs().Get(id.Job)); kills[id] > most {
							return fmt.Errorf("%v was killed %d times for maps, allowed are %d", id, kills[id], most)
						}
					}
					return nil
				}
				for range rapid.IntRange(1, 200).Draw(r, "steps") {
					w.Act()
				}
				w.Settle(false)
			})
		})
	}
}

// setbacks counts the attempts of a job's maps that ended without success or lost their
// output.
func setbacks(j *job.Job) (n int) {
	for i := range j.Total(job.Map) {
		task := j.Task(job.Map, int32(i))
		for try := range task.Attempts() {
			if s := task.Attempt(int32(try)).State(); s != job.AttemptRunning && s != job.AttemptSucceeded {
				n++
			}
		}
	}
	return n
}
