package tracker

import (
	"fmt"
	"iter"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// Done names the tasks of one kind of a job that have succeeded, for Fork. A FactTask for
// each copy would cost most of the time of a fork.
type Done struct {
	Job  job.ID
	Kind job.Kind
	At   []time.Duration // when each task succeeded, by index; 0 marks the others
	Took time.Duration   // time of each task's only attempt
	Node string          // on which all of these attempts ran
}

// Fork rebuilds a tracker that continues from the state of another one, for simulations of
// its future. Unlike Restore it keeps the nodes as members, because no worker registers
// with the fork, and it completes no step. policy must be a fresh policy: its hooks hear
// of all nodes and jobs as if they had just arrived. The facts come from Snapshot, or
// others that say the same of fewer attempts. They leave out the tasks that done names.
func Fork(cfg Config, policy sched.Policy, now time.Duration, facts iter.Seq[Fact], done iter.Seq[Done]) (*Tracker, error) {
	t, err := Replay(cfg, now, facts)
	if err != nil {
		return nil, err
	}
	for d := range done {
		if err := t.redoDone(&d); err != nil {
			return nil, err
		}
	}
	t.measureWidths()
	for _, j := range t.Jobs().Live() {
		t.watch(j)
	}
	t.SetPolicy(policy)
	return t, nil
}

// redoDone marks tasks of a job as done.
func (t *Tracker) redoDone(d *Done) error {
	j, n := t.live(d.Job), t.Nodes().Get(d.Node)
	if j == nil || n == nil || len(d.At) != j.Total(d.Kind) {
		return fmt.Errorf("%v: %d done %ss on %s, of which the fork has no job, no node or another number", d.Job, len(d.At), d.Kind, d.Node)
	}
	for i, at := range d.At {
		if at != 0 && j.Task(d.Kind, int32(i)).Attempts() > 0 {
			return fmt.Errorf("%v has attempts already", job.TaskID{Job: d.Job, Kind: d.Kind, Index: int32(i)})
		}
	}
	level := job.LevelNode
	if d.Kind == job.Reduce {
		level = 0
	}
	t.jobs.RestoreDone(j, d.Kind, d.At, job.Launch{Node: n.Index(), Slot: d.Kind, Level: level}, d.Took)
	return nil
}
