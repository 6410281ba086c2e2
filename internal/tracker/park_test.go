package tracker_test

import (
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/policies/hadoop"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// keeper is a part that decides by itself whether nodes may be parked. It is due every 10 s.
type keeper struct {
	hadoop.None
	loud, keeps bool
}

func (k *keeper) Quiet() bool                { return !k.loud }
func (k *keeper) MayPark(*cluster.Node) bool { return !k.keeps }
func (k *keeper) Interval() time.Duration    { return 10 * time.Second }
func (k *keeper) Update(time.Duration)       {}

// open hides that a policy is quiet.
type open struct{ sched.Policy }

// Each guard of Quiet and MayPark alone keeps heartbeats from being left out.
func TestParkingGuards(t *testing.T) {
	submit := &tracker.Submit{Spec: job.Spec{Splits: make([]job.Split, 1)}}
	beat := &tracker.Heartbeat{Node: "n1"}
	report := func(state job.AttemptState, cause job.Cause) tracker.Event {
		return &tracker.Heartbeat{Node: "n1", NoWork: true, Reports: []tracker.Report{
			{Attempt: job.AttemptID{TaskID: job.TaskID{Job: 1}}, State: state, Cause: cause, Error: "away"}}}
	}
	for _, c := range []struct {
		name        string
		cfg         tracker.Config
		keeper      keeper
		hidden      bool
		events      []tracker.Event
		quiet, park bool
	}{
		{name: "idle", events: []tracker.Event{beat}, quiet: true, park: true},
		{name: "a task waits", events: []tracker.Event{submit}, park: true},
		{name: "a task runs", events: []tracker.Event{submit, beat}, quiet: true},
		{name: "a task has ended", events: []tracker.Event{submit, beat, report(job.AttemptSucceeded, 0)}, quiet: true, park: true},
		{name: "a task waits for the storage", events: []tracker.Event{submit, beat, report(job.AttemptFailed, job.CauseStorage)}, park: true},
		{name: "waits are collected", cfg: tracker.Config{WaitEvery: time.Second}, park: true},
		{name: "the policy has work", keeper: keeper{loud: true}, park: true},
		{name: "the policy does not say", hidden: true, park: true},
		{name: "the policy keeps state of the node", keeper: keeper{keeps: true}, quiet: true},
		{name: "drained", events: []tracker.Event{&tracker.Drain{Node: "n1"}}, quiet: true},
		{name: "lost", events: []tracker.Event{&tracker.Lose{Node: "n1"}}, quiet: true},
	} {
		var p sched.Policy = sched.Compose(&hadoop.Static{}, hadoop.NewFIFO(), &hadoop.Greedy{}, &c.keeper)
		if c.hidden {
			p = open{p}
		}
		tr := tracker.New(c.cfg, p)
		tr.Step(time.Second, joinEvent("n1", 1, 0))
		for _, ev := range c.events {
			tr.Step(2*time.Second, ev)
		}
		until, quiet := tr.StepDue(), tr.Quiet()
		if park := tr.MayPark(tr.Nodes().Get("n1")); quiet != c.quiet || park != c.park {
			t.Errorf("%s: quiet %v and park %v, want %v and %v", c.name, quiet, park, c.quiet, c.park)
		}
		if quiet && until != 10*time.Second {
			t.Errorf("%s: quiet until %v, but a part is due at 10 s", c.name, until)
		}
	}
}

// held is an order whose limits hold all jobs back.
type held struct{ *sched.SortedOrder }

func (held) Holds(job.Kind) bool              { return true }
func (held) HoldsJob(*job.Job, job.Kind) bool { return true }

// lending hides that a slots part offers slots to their own kind of task.
type lending struct{ sched.Slots }

func (lending) Quiet() bool { return true }

// Each guard of MayPass alone makes a heartbeat of a busy node a whole one.
func TestPassingGuards(t *testing.T) {
	submit := func(maps, reduces int) tracker.Event {
		return &tracker.Submit{Spec: job.Spec{Splits: make([]job.Split, maps), Reduces: reduces, Request: job.Request{TaskTimeout: time.Minute}}}
	}
	beat := &tracker.Heartbeat{Node: "n1"}
	for _, c := range []struct {
		name   string
		cfg    tracker.Config
		keeper keeper
		hidden bool
		order  sched.Order
		lends  bool // the slots part offers slots to either kind
		reduce int  // the node's reduce slots
		events []tracker.Event
		at     time.Duration
		pass   bool
	}{
		{name: "full", events: []tracker.Event{submit(3, 0), beat}, pass: true},
		{name: "a map waits for the free slot", events: []tracker.Event{submit(3, 0)}},
		{name: "nothing can use the free slot", events: []tracker.Event{submit(1, 0), beat}, pass: true},
		{name: "only maps wait, and a reduce slot is free", reduce: 1, events: []tracker.Event{submit(3, 1), beat}, pass: true},
		{name: "an order that must be walked", order: walked{hadoop.NewFIFO(), true}, events: []tracker.Event{submit(1, 0), beat}},
		{name: "an order whose walk would change nothing", order: walked{hadoop.NewFIFO(), false}, events: []tracker.Event{submit(1, 0), beat}, pass: true},
		{name: "an order that must be walked, full", order: walked{hadoop.NewFIFO(), true}, events: []tracker.Event{submit(3, 0), beat}, pass: true},
		{name: "a limit holds the map back that waits for the free slot", order: held{hadoop.NewFIFO()}, events: []tracker.Event{submit(3, 0)}, pass: true},
		{name: "a limit holds maps back, but slots are lent", order: held{hadoop.NewFIFO()}, lends: true, events: []tracker.Event{submit(3, 0)}},
		{name: "an attempt times out", events: []tracker.Event{submit(3, 0), beat}, at: 2 * time.Minute},
		{name: "waits are collected", cfg: tracker.Config{WaitEvery: time.Second}, events: []tracker.Event{submit(3, 0), beat}},
		{name: "the policy has work for a free slot", keeper: keeper{loud: true}, events: []tracker.Event{submit(1, 0), beat}},
		{name: "the policy does not say", hidden: true, events: []tracker.Event{submit(3, 0), beat}},
		{name: "drained", events: []tracker.Event{submit(3, 0), beat, &tracker.Drain{Node: "n1"}}},
	} {
		if c.order == nil {
			c.order = hadoop.NewFIFO()
		}
		var slots sched.Slots = &hadoop.Static{}
		if c.lends {
			slots = lending{slots}
		}
		var p sched.Policy = sched.Compose(slots, c.order, &hadoop.Greedy{}, &c.keeper)
		if c.hidden {
			p = open{p}
		}
		tr := tracker.New(c.cfg, p)
		tr.Step(time.Second, joinEvent("n1", 2, c.reduce))
		for _, ev := range c.events {
			tr.Step(2*time.Second, ev)
		}
		if pass := tr.MayPass(tr.Nodes().Get("n1"), max(c.at, 3*time.Second)); pass != c.pass {
			t.Errorf("%s: may pass is %v, want %v", c.name, pass, c.pass)
		}
	}
}

// begun is a keeper whose Begin counts on nodes without free slots.
type begun struct{ keeper }

func (*begun) Begin(*sched.Round) {}

// What the policy says of a full node holds until the next step, the next policy and the next configuration.
func TestFullNodesAskAgain(t *testing.T) {
	for name, next := range map[string]func(tr *tracker.Tracker){
		"a step": func(tr *tracker.Tracker) { tr.Step(4*time.Second, &tracker.Tick{}) },
		"a configuration": func(tr *tracker.Tracker) {
			if _, err := tr.Reconfigure(0); err != nil {
				t.Error(err)
			}
		},
		"a policy": func(tr *tracker.Tracker) { tr.SetPolicy(tr.Policy()) },
	} {
		var k begun
		tr := tracker.New(tracker.Config{}, sched.Compose(&hadoop.Static{}, hadoop.NewFIFO(), &hadoop.Greedy{}, &k))
		tr.Step(time.Second, joinEvent("n1", 2, 0))
		tr.Step(2*time.Second, &tracker.Submit{Spec: job.Spec{Splits: make([]job.Split, 2)}})
		tr.Step(2*time.Second, &tracker.Heartbeat{Node: "n1"})
		pass := func() bool { return tr.MayPass(tr.Nodes().Get("n1"), 3*time.Second) }
		if !pass() {
			t.Fatal("a heartbeat of a full node is not passed")
		}
		if k.loud = true; !pass() {
			t.Error("the policy is asked twice")
		}
		if next(tr); pass() {
			t.Errorf("the policy is not asked again after %s", name)
		}
	}
}

// walked is an order that must be walked even if it has no job to visit.
type walked struct {
	*sched.SortedOrder
	changes bool // by the next walk
}

func (w walked) Quiet() bool { return !w.changes }

func (walked) WalksAlways() {}

// Heartbeats that were left out count as heartbeats.
func TestBeatsCount(t *testing.T) {
	tr := tracker.New(tracker.Config{}, testPolicy(t, "fifo"))
	tr.Beats(7, time.Second)
	if s := tr.Stats(); s.Heartbeats != 7 || s.Steps != 7 {
		t.Errorf("%+v", s)
	}
}
