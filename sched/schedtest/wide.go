package schedtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/tracker/trackertest"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// wide submits a job to a cluster that a stream of jobs keeps full, once with tasks that
// occupy two slots each and once with ordinary tasks. Slots come free one at a time, so
// the wide job starves unless a node reserves slots. A policy may prefer the stream's
// jobs; then both jobs take long.
func (s *suite) wide(t *testing.T) {
	narrow := newBusy(s.build(t, s.Policy)).measure(t, 0)
	wide := newBusy(s.build(t, s.Policy)).measure(t, 2*trackertest.SlotMemory)
	t.Logf("a job of ordinary tasks took %d rounds, one of wide tasks %d", narrow, wide)
	// A reservation must wait until two slots of one node are free, which takes a few tasks' times.
	// Starvation takes for ever; measure gives up after 3,000 rounds.
	if limit := 4*narrow + 60; wide > limit {
		t.Errorf("the job of wide tasks took %d rounds, should take at most %d: a job of ordinary tasks took %d", wide, limit, narrow)
	}
}

// busy is a cluster of three nodes with 4+2 slots each. There are always more jobs than
// it can run.
// Its nodes report honestly and never fail, so that only the policy decides how long a job takes.
type busy struct {
	*tracker.Tracker
	round int
	seq   int
	ends  map[job.AttemptID]int // the round in which a running attempt succeeds
}

func newBusy(p sched.Policy) *busy {
	b := &busy{Tracker: tracker.New(tracker.Config{NodeTimeout: -1}, p), ends: map[job.AttemptID]int{}}
	for i := range 3 {
		b.Step(0, &tracker.Join{Node: cluster.Spec{Name: fmt.Sprint("n", i), MapSlots: 4, ReduceSlots: 2, MemoryBytes: 6 * trackertest.SlotMemory}})
	}
	return b
}

// measure returns how many rounds a job takes that asks for that much memory.
func (b *busy) measure(t *testing.T, memory int64) int {
	// Until the cluster is full: the measured job must not find the slots of an empty one.
	for range 30 {
		b.play()
	}
	spec := job.Spec{Name: "measured", Request: job.Request{User: "x", Pool: "x", TaskMemory: memory}, Splits: make([]job.Split, 4), Reduces: 2}
	id := b.Step(b.now(), &tracker.Submit{Spec: spec})[0].Job
	for from := b.round; b.round < from+3000; {
		if b.play(); b.Jobs().Get(id).State().Final() {
			return b.round - from
		}
	}
	for k := range job.Kind(job.Kinds) {
		_, words := b.Explain(b.Jobs().Get(id), k)
		t.Logf("%v: %s", k, words)
	}
	t.Fatalf("a job of tasks with %d bytes of memory does not end", memory)
	return 0
}

func (b *busy) now() time.Duration { return time.Duration(b.round) * time.Second }

// play submits jobs until enough jobs wait, and sends a heartbeat of each node. At
// most one attempt ends on each node.
func (b *busy) play() {
	b.round++
	for b.Jobs().Pending(job.Map) < 60 || b.Jobs().Pending(job.Reduce) < 12 {
		b.seq++
		b.Step(b.now(), &tracker.Submit{Spec: job.Spec{Name: "stream", Request: job.Request{User: fmt.Sprint("u", b.seq%3), Pool: fmt.Sprint("p", b.seq%3)},
			Splits: make([]job.Split, 3+b.seq%4), Reduces: 1 + b.seq%2}})
	}
	for _, n := range b.Nodes().All() {
		hb := &tracker.Heartbeat{Node: n.Name(), Load: cluster.Load{CPU: 0.3, MemoryFree: 0.7, LoadAverage: 1}}
		ended := false
		for _, a := range n.Attempts() {
			r := tracker.Report{Attempt: a.ID(), State: job.AttemptRunning, Progress: 0.5, Ticks: uint64(b.round)}
			if !ended && b.round >= b.ends[a.ID()] && (a.Kind() == job.Map || a.Job().MapsDone()) {
				ended = true
				r = tracker.Report{Attempt: a.ID(), State: job.AttemptSucceeded}
			}
			hb.Reports = append(hb.Reports, r)
		}
		for _, e := range b.Step(b.now(), hb) {
			if e.Kind == tracker.Launch {
				// Three to seven rounds, by a rule and not at random, so that two policies meet the same
				// stream.
				b.ends[e.Attempt] = b.round + 3 + int(e.Attempt.Job+job.ID(e.Attempt.Index))*7%5
			}
		}
	}
}
