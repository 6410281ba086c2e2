package tyrex

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/tracker/trackertest"
	"github.com/slotwise/slotwise/policies/hadoop"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

func compose(o sched.Order) sched.Policy {
	return sched.Compose(hadoop.NewStatic(hadoop.StaticConfig{}), o, hadoop.NewGreedy(false), &hadoop.None{})
}

// With one partition and no reduce gate, each policy decides as FIFO does, under
// drawn events of nodes, drains, failures, kills and priorities.
func TestOnePartitionIsFIFO(t *testing.T) {
	one := shares(1)
	one.ReduceGate = 0
	rapid.Check(t, func(rt *rapid.T) {
		w := trackertest.NewFakeCluster(rt, compose(fifo(t)))
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			w.Act()
		}
		w.Replay(compose(staticTags(t, one)))
		w.Replay(compose(dynamicTags(t, one, "live")))
	})
}

// draw makes either policy with three partitions and timers that are soon
// reached.
func draw(t testing.TB, rt *rapid.T) (sched.Order, *Tags) {
	c := shares(.25, .25, .5)
	c.ReduceGate = rapid.SampledFrom([]float64{0, .5, 1}).Draw(rt, "gate")
	c.Lend = rapid.SampledFrom([]Lend{LendNone, LendEarlier, LendAll}).Draw(rt, "lend")
	if rapid.Bool().Draw(rt, "static") {
		o := staticTags(t, c, 10, 30)
		return o, o
	}
	o, err := NewDynamic(DynamicConfig{Config: c, Threshold: .5, Window: rapid.IntRange(0, 3).Draw(rt, "window"),
		Sample: Sample{Departed: rapid.Bool().Draw(rt, "departed"), Zeros: rapid.Bool().Draw(rt, "zeros")}})
	if err != nil {
		t.Fatal(err)
	}
	return o, o.Tags
}

// Under any events jobs only move forward, by one step. Each count equals a
// recount. No job of a full partition gets a slot unless lending is on, and with
// LendEarlier none gets a slot of an earlier partition.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		o, tags := draw(t, rt)
		w := trackertest.NewFakeCluster(rt, compose(o))
		before := map[job.ID]int{}
		var used [job.Kinds][4]int
		for range rapid.IntRange(1, 80).Draw(rt, "steps") {
			w.Act()
			checkJobs(rt, w, tags, before)
			used = checkSlots(rt, w, tags, used)
			if l, ok := o.(*Learner); ok {
				checkSamples(rt, l)
			}
		}
		w.Settle(false)
	})
}

func checkJobs(t *rapid.T, w *trackertest.FakeCluster, tags *Tags, before map[job.ID]int) {
	for _, j := range w.Tracker.Jobs().Live() {
		part, was := tags.Partition(j), max(1, before[j.ID()])
		if part < was || part > was+1 {
			t.Fatalf("%v went from partition %d to %d", j.ID(), was, part)
		}
		before[j.ID()] = part
		var size time.Duration
		for k := range job.Kind(job.Kinds) {
			for i := range j.Total(k) {
				for try := range j.Task(k, int32(i)).Attempts() {
					// An output that is lost later was work all the same.
					a := j.Task(k, int32(i)).Attempt(int32(try))
					if int(a.Label()) == part && a.State() == job.AttemptSucceeded {
						size += a.Ended() - a.Started()
					}
				}
			}
		}
		if got := tags.PartialSize(j); got < size {
			t.Fatalf("%v has completed %v in partition %d, counted %v", j.ID(), size, part, got)
		}
	}
}

func checkSlots(t *rapid.T, w *trackertest.FakeCluster, tags *Tags, before [job.Kinds][4]int) (now [job.Kinds][4]int) {
	for _, n := range w.Tracker.Nodes().All() {
		if !n.Alive() || n.Closed() {
			continue
		}
		for _, a := range n.Attempts() {
			now[a.Slot()][a.Label()] += a.Width()
		}
	}
	for k := range job.Kind(job.Kinds) {
		sum, slots := 0, w.Tracker.Nodes().Slots(k)
		for part := 1; part <= 3; part++ {
			used, limit := tags.Slots(part, k)
			if used != now[k][part] {
				t.Fatalf("partition %d uses %d %v slots, counted %d", part, now[k][part], k, used)
			}
			// A partition below its limit may launch a task that takes it beyond.
			const wide = 2
			if used > limit+wide && used > before[k][part] && (tags.cfg.Lend == LendNone || tags.cfg.Lend == LendEarlier && part == 3) {
				t.Fatalf("partition %d uses %d %v slots of %d, before %d", part, used, k, limit, before[k][part])
			}
			sum += limit
		}
		if sum != slots && slots >= 3 {
			t.Fatalf("%d %v slots in partitions, %d in all", sum, k, slots)
		}
	}
	return now
}

// A partition's tasks on a node that is being drained take none of its slots on the others:
// the limits count open nodes only.
func TestDrainedNodeFillsNoPartition(t *testing.T) {
	tr := tracker.New(tracker.Config{NodeTimeout: -1}, compose(staticTags(t, shares(.5, .5), 100)))
	at := time.Duration(0)
	launched := func(ev tracker.Event) (count int) {
		at += time.Second
		for _, e := range tr.Step(at, ev) {
			if e.Kind == tracker.Launch {
				count++
			}
		}
		return count
	}
	for _, name := range []string{"a", "b"} {
		launched(&tracker.Join{Node: cluster.Spec{Name: name, MapSlots: 4, ReduceSlots: 1}})
	}
	launched(&tracker.Submit{Spec: job.Spec{Splits: make([]job.Split, 20), Request: job.Request{TaskTimeout: -1}}})
	if got := launched(&tracker.Heartbeat{Node: "a"}); got != 4 { // half of the slots of both nodes
		t.Fatalf("%d launches on a", got)
	}
	launched(&tracker.Drain{Node: "a"})
	if got := launched(&tracker.Heartbeat{Node: "b"}); got != 2 { // half of the slots of b
		t.Errorf("%d launches on b while a is drained, want 2", got)
	}
	launched(&tracker.Drain{Node: "a", Undo: true})
	if got := launched(&tracker.Heartbeat{Node: "b"}); got != 0 { // 6 of 4 in use
		t.Errorf("%d launches on b after the drain, want 0", got)
	}
}

// checkSamples makes the samples anew from the histories and the live jobs.
func checkSamples(t *rapid.T, l *Learner) {
	for i := range l.d.parts {
		p, s := &l.d.parts[i], l.d.cfg.Sample
		want, grown := &sample{}, 0
		for _, j := range l.Tags.parts[i].all.Jobs() {
			x := l.PartialSize(j).Milliseconds()
			if x > 0 || s.Zeros {
				want.add(x)
			}
			if x > 0 {
				grown++
			}
		}
		for _, x := range p.history {
			if s.Departed && (x > 0 || s.Zeros) {
				want.add(x)
			}
		}
		if want.sum != p.sample.sum || want.square != p.sample.square || len(want.values) != len(p.sample.values) ||
			grown != len(p.grown.Jobs()) || l.d.cfg.Window > 0 && len(p.history) > l.d.cfg.Window {
			t.Fatalf("partition %d: sample %v, want %v; %d jobs with a size, want %d; history %v", i+1, p.sample.values,
				want.values, len(p.grown.Jobs()), grown, p.history)
		}
		// A round that computes no cut-off point loses nothing.
		if cutoff := math.Inf(1); !p.sample.changed {
			if p.sample.exceeds(l.d.cfg.Threshold) {
				cutoff = p.sample.cutoff()
			}
			beyond := slices.ContainsFunc(p.grown.Jobs(), func(j *job.Job) bool { return float64(l.PartialSize(j).Milliseconds()) > cutoff })
			if cutoff != p.cutoff || beyond {
				t.Fatalf("partition %d: the cut-off point is %v and was %v, and jobs are beyond it: %v", i+1, cutoff, p.cutoff, beyond)
			}
		}
	}
}

// After a change of policy a job keeps its completed tasks: it can move at once,
// while its running tasks stay in the first partition.
func TestSwapBringsWorkAlong(t *testing.T) {
	p := newPlay(t, fifo(t), 2, 0)
	p.jobs, p.done, p.in = []plan{{maps: times(6, 50)}}, make([]int, 1), make([]int, 1)
	p.submit(0)
	p.beat()
	p.now = 50
	p.beat()
	o := staticTags(t, shares(.5, .5), 80)
	p.tr.SetPolicy(compose(o))
	if used, _ := o.Slots(1, job.Map); used != 2 {
		t.Errorf("the first partition uses %d slots", used)
	}
	p.tags = o
	p.now = 60
	p.beat()
	if j := p.tr.Jobs().Get(1); o.Partition(j) != 2 || o.PartialSize(j) != 0 {
		t.Errorf("in partition %d with %v", o.Partition(j), o.PartialSize(j))
	}
	if used, _ := o.Slots(1, job.Map); used != 2 {
		t.Errorf("after the move the first partition uses %d slots", used)
	}
	p.now = 100
	p.beat()
	if old, _ := o.Slots(1, job.Map); old != 0 {
		t.Errorf("in the end the first partition uses %d slots", old)
	}
}
