package collect

import (
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/sim"
	"github.com/slotwise/slotwise/internal/workload"
)

// told is a collector of one job on two nodes. The tests call its methods with the events
// of a run.
type told struct{ *Collector }

func newTold() told {
	c := virtualCluster(2, 2, 1)
	k := told{New(&c, []workload.Job{plain(3, 10*second)}, []time.Duration{10 * second}, false)}
	k.Observe(&sim.Event{Kind: sim.NodeUp, Node: 0})
	k.Observe(&sim.Event{Kind: sim.NodeUp, Node: 1})
	k.Observe(&sim.Event{Kind: sim.JobSubmitted})
	return k
}

// attempt is one of the first map, on the first node.
func attempt(try int) sim.Event {
	id := job.AttemptID{TaskID: job.TaskID{Job: 1, Kind: job.Map}, Try: int32(try)}
	return sim.Event{Attempt: id, Speculative: try > 0}
}

func (k told) start(at time.Duration, try int) {
	e := attempt(try)
	e.Kind, e.At = sim.AttemptStarted, at
	k.Observe(&e)
}

func (k told) end(at, started time.Duration, try int, outcome job.AttemptState) {
	e := attempt(try)
	e.Kind, e.At, e.Started, e.Outcome = sim.AttemptEnded, at, started, outcome
	k.Observe(&e)
}

// The time of a killed attempt counts as wasted by speculation if its task has copies,
// and as otherwise wasted if not. When the task's last attempt has ended, the collector
// forgets the task.
func TestWaste(t *testing.T) {
	k := newTold()
	k.start(0, 0)
	k.end(5*second, 0, 0, job.AttemptKilled) // preempted
	k.start(10*second, 0)
	k.start(12*second, 1)
	k.start(13*second, 2)
	k.end(20*second, 12*second, 1, job.AttemptSucceeded)
	k.end(20*second, 10*second, 0, job.AttemptKilled)
	k.end(20*second, 13*second, 2, job.AttemptKilled)
	if len(k.copied) > 0 {
		t.Errorf("kept after the last has ended: %v", k.copied)
	}
	k.start(30*second, 0) // its output was lost
	k.end(31*second, 30*second, 0, job.AttemptKilled)
	if w := k.waste; w.Copies != 2 || w.Won != 1 || !near(w.Speculation, 10+7) || !near(w.Other, 5+1) {
		t.Errorf("%+v", w)
	}
}

// A node that is down is no member, even if attempts end there, and is one again on
// return.
func TestBalanceOfNodesThatCrash(t *testing.T) {
	k := newTold()
	k.start(0, 0)
	k.start(0, 1)
	k.Observe(&sim.Event{Kind: sim.NodeDown, At: 10 * second})
	k.end(15*second, 0, 0, job.AttemptKilled)
	k.end(15*second, 0, 1, job.AttemptKilled)
	k.Observe(&sim.Event{Kind: sim.NodeUp, At: 20 * second})
	// 2 and 0 tasks for 10 s: twice a squared deviation of 1.
	if got := k.balance.Degree(0, 40*second); !near(got, 2.*10/40) {
		t.Errorf("unbalanced %v, want 0.5", got)
	}
}
