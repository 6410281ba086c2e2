package policies

import (
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// TestSwapFromLentSlots fills a cluster with reduces on lent map slots, loses a
// map's output, and swaps in each policy: the map must get a slot, or the job
// hangs for ever.
func TestSwapFromLentSlots(t *testing.T) {
	names := Names()
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			lender, err := Parse("dynamicmr-pd")
			if err != nil {
				t.Fatal(err)
			}
			next, err := Parse(name)
			if err != nil {
				t.Fatal(err)
			}
			s := &swapRun{t: t, tr: tracker.New(tracker.Config{}, lender), running: map[job.AttemptID]bool{}}
			s.step(&tracker.Join{Node: cluster.Spec{Name: "n", MapSlots: 2, ReduceSlots: 1}})
			s.step(&tracker.Submit{Spec: job.Spec{Splits: make([]job.Split, 2), Reduces: 5, Request: job.Request{SlowStart: 1}}})
			s.beats(3, job.Map) // the maps run and end
			s.beats(1, job.Map) // reduces take all slots
			if n := s.tr.Jobs().RunningOn(job.Reduce, job.Map); n != 2 {
				t.Fatalf("%d reduces on map slots; the test wants 2", n)
			}
			var reduce job.AttemptID
			for a := range s.running {
				reduce = a
			}
			s.step(&tracker.FetchFailed{Reduce: reduce, Map: job.AttemptID{TaskID: job.TaskID{Job: 1, Kind: job.Map}}, SourceGone: true})
			s.tr.SetPolicy(next)
			for range 200 {
				s.beats(1, job.Map)
				if s.tr.Jobs().Get(1).MapsDone() {
					s.beats(1, job.Reduce)
				}
				if s.tr.Jobs().Get(1).State().Final() {
					break
				}
			}
			if st := s.tr.Jobs().Get(1).State(); st != job.Succeeded {
				why, words := s.tr.Explain(s.tr.Jobs().Get(1), job.Map)
				t.Errorf("the job is %v: %v: %s", st, why, words)
			}
		})
	}
}

// swapRun is a cluster of one node that carries out the tracker's effects.
type swapRun struct {
	t       *testing.T
	tr      *tracker.Tracker
	now     time.Duration
	running map[job.AttemptID]bool
}

func (s *swapRun) step(ev tracker.Event) {
	for _, e := range s.tr.Step(s.now, ev) {
		switch e.Kind {
		case tracker.Launch:
			s.running[e.Attempt] = true
		case tracker.Kill:
			delete(s.running, e.Attempt)
		}
	}
}

// beats sends heartbeats at which every running attempt of a kind has ended.
func (s *swapRun) beats(n int, ends job.Kind) {
	for range n {
		s.now += 3 * time.Second
		s.step(&tracker.Tick{})
		hb := &tracker.Heartbeat{Node: "n"}
		for a := range s.running {
			st := job.AttemptRunning
			if a.Kind == ends {
				st = job.AttemptSucceeded
				delete(s.running, a)
			}
			hb.Reports = append(hb.Reports, tracker.Report{Attempt: a, State: st})
		}
		s.step(hb)
	}
}
