package tyrex

import (
	"testing"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/tracker/trackertest"
	"github.com/slotwise/slotwise/policies/hadoop"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Jobs whose sizes are at the cut-off point stay.
func TestTyrex_D1_Play(t *testing.T) {
	small, large := plan{maps: []int{10, 1000}}, plan{maps: []int{200, 1000}}
	newPlay(t, dynamicTags(t, shares(.9, .1), "departed+zeros"), 20, 0).run(small, small, small, small, large).
		want(times(5, 1000), []int{1, 1, 1, 1, 2})
}

// What a job completes in its old partition is not held against it in the new
// one: 20 s move it on, and of the 60 s more it hears nothing.
func TestDrainingTasksCountToTheirPartition(t *testing.T) {
	newPlay(t, staticTags(t, shares(.4, .4, .2), 10, 30), 5, 0).run(plan{maps: []int{20, 60, 5, 100}}).
		want([]int{120}, []int{2})
}

func TestTyrex_D5_ExactlyTwo(t *testing.T) {
	for x := int64(1); x < maxSize; x += x/7 + 1 {
		s := &sample{}
		s.add(0)
		s.add(0)
		s.add(x)
		if s.exceeds(2) {
			t.Errorf("{0, 0, %d} has CV² of exactly 2", x)
		}
	}
}

// A job that was killed leaves no size behind, wherever its priority had put it.
func TestKilledJobsAreForgotten(t *testing.T) {
	d := dynamicTags(t, shares(.9, .1), "departed+zeros")
	p := newPlay(t, d, 20, 0)
	p.jobs, p.done, p.in = make([]plan, 3), make([]int, 3), make([]int, 3)
	for i := range p.jobs {
		p.jobs[i].maps = []int{10, 500}
		p.submit(i)
	}
	p.beat()
	p.now = 10
	p.beat()
	q := d.d.parts[0].grown
	if len(q.Jobs()) != 3 {
		t.Fatalf("%d jobs with a size", len(q.Jobs()))
	}
	for id, priority := range map[job.ID]job.Priority{3: job.VeryHigh, 1: job.VeryLow} {
		p.tr.Step(seconds(11), &tracker.SetPriority{Job: id, Priority: priority})
	}
	if first := q.Jobs()[0].ID(); first != 3 {
		t.Errorf("job %d comes first", first)
	}
	for left := 2; left >= 0; left-- {
		p.tr.Step(seconds(12), &tracker.KillJob{Job: job.ID(3 - left)})
		if n := len(d.d.parts[0].sample.values); len(q.Jobs()) != left || n != left || len(d.d.parts[0].history) != 0 {
			t.Errorf("%d jobs with a size, %d in the sample, history %v", len(q.Jobs()), n, d.d.parts[0].history)
		}
	}
}

// A single partition has the cluster to itself: tasks that still run on a node
// that is being drained do not use up the slots of other nodes.
func TestOnePartitionIgnoresDrainedNodes(t *testing.T) {
	tr := tracker.New(tracker.Config{NodeTimeout: -1}, compose(staticTags(t, shares(1))))
	tr.Step(0, &tracker.Join{Node: cluster.Spec{Name: "old", MapSlots: 1}})
	tr.Step(0, &tracker.Submit{Spec: job.Spec{Splits: make([]job.Split, 2)}})
	tr.Step(0, &tracker.Heartbeat{Node: "old"})
	tr.Step(0, &tracker.Drain{Node: "old"})
	tr.Step(0, &tracker.Join{Node: cluster.Spec{Name: "new", MapSlots: 1}})
	tr.Step(0, &tracker.Heartbeat{Node: "new"})
	if got := tr.Nodes().Get("new").Running(job.Map); got != 1 {
		t.Errorf("the new node runs %d maps, want 1", got)
	}
}

// The gate is rounded up to whole maps, and not to one more where binary fractions are inexact.
func TestGateOfDecimalFractions(t *testing.T) {
	w := trackertest.NewManual(hadoop.NewFIFO())
	j := w.Submit(job.Spec{Splits: make([]job.Split, 100), Reduces: 1})
	for percent := range 101 {
		tags := Tags{cfg: Config{ReduceGate: float64(percent) / 100}}
		if got := tags.gate(j); got != percent {
			t.Errorf("reduce-gate=0.%02d of 100 maps is %d", percent, got)
		}
	}
	tags := Tags{cfg: Config{ReduceGate: 0.501}}
	if got := tags.gate(j); got != 51 {
		t.Errorf("50.1 of 100 maps is %d", got)
	}
}
