package tracker_test

import (
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/tracker/trackertest"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/policies/hadoop"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// copier copies the oldest task that may be copied.
type copier struct{}

func (copier) Copy(r *sched.Round, _ sched.Offer, c sched.Candidate) *job.Task {
	for a := c.Job.Oldest(c.Kind); a != nil; a = a.Next() {
		if r.Copyable(a.Task(), r.Node()) {
			return a.Task()
		}
	}
	return nil
}

// slowCopier copies the running task with the least progress, but none without progress.
type slowCopier struct{}

func (slowCopier) Copy(r *sched.Round, _ sched.Offer, c sched.Candidate) (slowest *job.Task) {
	least := 1.0
	for a := c.Job.Oldest(c.Kind); a != nil; a = a.Next() {
		if p := a.Progress(); p > 0 && p < least && r.Copyable(a.Task(), r.Node()) {
			least, slowest = a.Progress(), a.Task()
		}
	}
	return slowest
}

// lender offers each free slot to its own kind, then to the other.
type lender struct{}

func (lender) Next(r *sched.Round) (sched.Offer, bool) {
	for _, lent := range []bool{false, true} {
		for s := range job.Kind(job.Kinds) {
			o := sched.Offer{Kind: s, Slot: s, Borrowed: lent}
			if lent {
				o.Kind = s.Other()
			}
			if r.Free(s) > 0 && !r.RefusedKind(o.Kind, s) {
				return o, true
			}
		}
	}
	return sched.Offer{}, false
}

// wisher preempts the attempts that a script names, every 10 seconds.
type wisher struct {
	hadoop.None
	want []*job.Attempt
}

func (*wisher) Interval() time.Duration { return 10 * time.Second }
func (*wisher) Update(time.Duration)    {}
func (w *wisher) Want(a *job.Attempt)   { w.want = append(w.want, a) }
func (w *wisher) Preempt(time.Duration) (victims []sched.Victim) {
	for _, a := range w.want {
		victims = append(victims, sched.Victim{Attempt: a})
	}
	w.want = nil
	return victims
}

// breaker returns an assignment that breaks a rule.
type breaker struct{ a sched.Assignment }

func (*breaker) Begin(*sched.Round)                           {}
func (b *breaker) Next(*sched.Round) (sched.Assignment, bool) { return b.a, true }
func (b *breaker) JobAdded(j *job.Job)                        { b.a.Task = j.Task(job.Reduce, 0) }
func (b *breaker) JobRemoved(*job.Job)                        {}

func testPolicy(t testing.TB, name string) sched.Policy {
	switch name {
	case "copies":
		return sched.Compose(&hadoop.Static{}, hadoop.NewFIFO(), &hadoop.Greedy{}, copier{})
	case "slow copies":
		return sched.Compose(&hadoop.Static{}, hadoop.NewFIFO(), &hadoop.Greedy{}, slowCopier{})
	case "lending":
		return sched.Compose(lender{}, hadoop.NewFIFO(), &hadoop.Greedy{}, &hadoop.None{})
	case "preempting":
		return sched.Compose(&hadoop.Static{}, hadoop.NewFIFO(), &hadoop.Greedy{}, &wisher{})
	}
	p, err := policies.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestBrokenAssignmentsAreRefused(t *testing.T) {
	b := &breaker{a: sched.Assignment{Slot: job.Reduce}}
	tr := tracker.New(tracker.Config{}, b)
	tr.Step(0, joinEvent("n1", 1, 1))
	tr.Step(0, &tracker.Submit{Spec: job.Spec{Splits: make([]job.Split, 2), Reduces: 1, Request: job.Request{SlowStart: 1}}})
	j := tr.Jobs().Get(1)
	own := b.a.Task
	for name, a := range map[string]sched.Assignment{
		"no task":            {},
		"before slow start":  {Task: own, Slot: job.Reduce},
		"must not be copied": {Task: own, Slot: job.Reduce, Speculative: true},
		"no such slot":       {Task: j.Task(job.Map, 0), Slot: 7},
	} {
		b.a = a
		before := tr.Stats().Refused
		if got := tr.Step(0, &tracker.Heartbeat{Node: "n1"}); len(got) != 0 || tr.Stats().Refused != before+1 {
			t.Errorf("%s: effects %v, refused %d", name, got, tr.Stats().Refused-before)
		}
	}
	b.a = sched.Assignment{Task: j.Task(job.Map, 0), Slot: job.Map}
	if got := tr.Step(0, &tracker.Heartbeat{Node: "n1"}); len(got) != 1 || tr.Stats().Refused != 5 {
		t.Errorf("the same task twice: effects %v, refused %d", got, tr.Stats().Refused)
	}
	b.a = sched.Assignment{Task: j.Task(job.Map, 1), Slot: job.Map}
	if got := tr.Step(0, &tracker.Heartbeat{Node: "n1"}); len(got) != 0 || tr.Stats().LastRefusal != "on n1: j1_m_1: no free map slot" {
		t.Errorf("a taken slot: effects %v, refused: %s", got, tr.Stats().LastRefusal)
	}
	if err := trackertest.Recount(tr); err != nil {
		t.Error(err)
	}
}
