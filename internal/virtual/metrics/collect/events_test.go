package collect

import (
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/job"
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
	id := job.AttemptID{TaskID: job.TaskID{Job: 1, Kind: job.Map}, Number: int32(try)}
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

// The job of newTold has 3 maps, and 2 nodes have 2 map slots and 1 reduce slot each. With
// one map running, 3 of 4 map slots are idle; this counts from a minute after the
// submission until the last map starts.
func TestStarved(t *testing.T) {
	k := newTold()
	k.start(30*second, 0)
	for i := range 2 {
		e := attempt(0)
		e.Kind, e.At, e.Attempt.Index = sim.AttemptStarted, 100*second, int32(i+1)
		k.Observe(&e)
	}
	e := sim.Event{Kind: sim.JobEnded, At: 200 * second, State: job.Succeeded}
	k.Observe(&e)
	if got := k.starved.result(0, 200*second); !near(got.Time, 40./200) || !near(got.Idle, 0.75) {
		t.Errorf("%+v, want a fifth of the time and three quarters of the slots", got)
	}
	if text := (Starved{Time: 0.099, Idle: 1}).Warning("p"); text != "" {
		t.Errorf("below the threshold: %s", text)
	}
	if text := (Starved{Time: 0.1, Idle: 0.75}).Warning("p"); !strings.HasPrefix(text, "policy p left 75 % of the map slots idle on average while maps waited for 10 % of the time") {
		t.Errorf("at the threshold: %q", text)
	}
}

// By hand: 3 maps and, from the second success on, 1 reduce wait for 4 map and 2 reduce slots of
// a job that takes 10 s alone. Maps wait until 40 s: with 4 of 4 slots idle until 5 s, 3 until
// 20 s and 2 until 40 s. The reduce may start once 5 % of the maps, which is one, have ended at
// 30 s, and starts at 50 s; both reduce slots are idle.
func TestConserved(t *testing.T) {
	c := virtualCluster(2, 2, 1)
	j := plain(3, 10*second)
	j.Reduces = []workload.Task{{Duration: second}}
	k := told{New(&c, []workload.Job{j}, []time.Duration{10 * second}, false)}
	for i := range 2 {
		k.Observe(&sim.Event{Kind: sim.NodeUp, Node: i})
	}
	k.Observe(&sim.Event{Kind: sim.JobSubmitted, Gate: 1})
	for i, at := range []time.Duration{5 * second, 20 * second, 40 * second} {
		e := attempt(0)
		e.Kind, e.At, e.Attempt.Index = sim.AttemptStarted, at, int32(i)
		k.Observe(&e)
		if i == 1 { // at 30 s, so that one map runs until the next starts
			k.end(30*second, 5*second, 0, job.AttemptSucceeded)
		}
	}
	e := sim.Event{Kind: sim.AttemptStarted, At: 50 * second, Slot: job.Reduce}
	e.Attempt.Kind = job.Reduce
	k.Observe(&e)
	k.Observe(&sim.Event{Kind: sim.JobEnded, At: 100 * second, State: job.Succeeded})
	got := k.starved.conserved(0, 100*second)
	if maps := (5*1 + 15*0.75 + 10*0.5 + 10*0.75) / 40; !near(got.Waited[job.Map], 0.4) || !near(got.Idle[job.Map], maps) {
		t.Errorf("maps: %+v, want %v idle in 0.4 of the time", got, maps)
	}
	if !near(got.Waited[job.Reduce], 0.2) || !near(got.Idle[job.Reduce], 1) {
		t.Errorf("reduces: %+v, want all idle in 0.2 of the time", got)
	}
	if !near(k.longest, 0.5) {
		t.Errorf("longest wait %v, want 0.5: the first launch after 5 s, and 10 s alone", k.longest)
	}
}

// A failed map waits again, and a minute without a pause begins anew. Idle slots below
// half do not count.
func TestStarvedPause(t *testing.T) {
	k := newTold()
	for i := range 3 {
		e := attempt(0)
		e.Kind, e.At, e.Attempt.Index = sim.AttemptStarted, second, int32(i)
		k.Observe(&e)
	}
	k.end(100*second, second, 0, job.AttemptFailed) // 2 of 4 slots are idle now
	k.start(170*second, 1)
	if got := k.starved.result(0, 200*second); !near(got.Time, 10./200) || !near(got.Idle, 0.5) {
		t.Errorf("%+v, want 10 s of 200 with half of the slots", got)
	}
	k = newTold()
	k.start(second, 0)
	e := sim.Event{Kind: sim.AttemptStarted, At: 2 * second, Slot: job.Reduce}
	e.Attempt.Kind = job.Reduce
	for range 5 { // reduces in all other slots of the cluster
		k.Observe(&e)
	}
	end := sim.Event{Kind: sim.JobEnded, At: 200 * second, State: job.Succeeded}
	k.Observe(&end)
	if got := k.starved.result(0, 200*second); got != (Starved{}) {
		t.Errorf("a full cluster: %+v", got)
	}
}
