package tracker

import (
	"iter"
	"slices"

	"github.com/slotwise/slotwise/sched/job"
)

// Snapshot yields facts from which Restore rebuilds this tracker: members, live and
// finishing jobs, and the ended jobs that are still remembered. The tracker must not
// change during the iteration.
func (t *Tracker) Snapshot() iter.Seq[Fact] {
	return func(yield func(Fact) bool) {
		jobs, launches := t.jobs.Counts()
		// Nodes before jobs, whose attempts name them.
		_ = yield(&FactCounts{jobs, launches}) && t.snapshotNodes(yield) && t.snapshotJobs(yield)
	}
}

func (t *Tracker) snapshotNodes(yield func(Fact) bool) bool {
	for _, n := range t.Nodes().All() {
		if n.Forgotten() {
			continue
		}
		// The order of a node's life: a node must be a member to be drained or listed, and leaves
		// last.
		if !yield(&FactJoined{n.Spec(), n.Joined()}) || n.Draining() && !yield(&FactDrained{n.Name(), false, n.DrainedAt()}) ||
			len(n.Faults()) > 0 && !yield(&FactFaults{n.Name(), slices.Clone(n.Faults())}) ||
			n.Graylisted() && !yield(&FactGraylisted{n.Name(), false, n.GrayAt()}) ||
			!n.Alive() && !n.Absent() && !yield(&FactLeft{n.Name(), n.Status().Reason, n.LeftAt()}) {
			return false
		}
	}
	return true
}

// snapshotJobs yields the ended jobs in the order in which they ended, then the
// finishing ones in their order, then the live ones.
func (t *Tracker) snapshotJobs(yield func(Fact) bool) bool {
	for _, j := range t.Jobs().Ended() {
		if !t.snapshotJob(j, yield) || !yield(outcomeFact(j, culprit(j))) || !yield(endFact(j)) {
			return false
		}
	}
	for _, j := range t.Jobs().Finishing() {
		cancelled := j.State() == job.Committing && j.CommitCancelled() != ""
		if !t.snapshotJob(j, yield) || !yield(outcomeFact(j, culprit(j))) ||
			cancelled && !yield(&FactCommitCancelled{j.ID(), j.CommitCancelled()}) {
			return false
		}
	}
	for _, j := range t.Jobs().Live() {
		if !t.snapshotJob(j, yield) {
			return false
		}
	}
	return true
}

func (t *Tracker) snapshotJob(j *job.Job, yield func(Fact) bool) bool {
	if !yield(&FactAccepted{j.ID(), j.Spec(), j.Submitted()}) ||
		j.Priority() != j.Spec().Priority && !yield(&FactPriority{j.ID(), j.Priority()}) ||
		j.Pool() != j.Spec().Pool && !yield(&FactPool{j.ID(), j.Pool()}) {
		return false
	}
	for k := range job.Kind(job.Kinds) {
		for i := range j.Total(k) {
			// Tasks without attempts follow from the spec. Most tasks of a large waiting queue are such.
			if task := j.Task(k, int32(i)); task.Attempts() > 0 && !yield(t.taskFact(task)) {
				return false
			}
		}
	}
	a := j.Account()
	return a.Launched[job.Map]+a.Launched[job.Reduce] == 0 || yield(&FactCounted{j.ID(), a.Counters, a.LastError, a.LogTail})
}

// taskFact returns the fact of a task that has attempts. It names nodes, because their indices
// differ in another process.
func (t *Tracker) taskFact(task *job.Task) *FactTask {
	f := &FactTask{Task: task.ID(), Past: task.Past()}
	for _, a := range f.Past.Attempts {
		f.Nodes = append(f.Nodes, t.Nodes().Node(a.Node).Name())
	}
	return f
}

// culprit returns the task that failed a job, or nil.
func culprit(j *job.Job) *job.Task {
	for k := range job.Kind(job.Kinds) {
		for i := range j.Total(k) {
			if task := j.Task(k, int32(i)); task.State() == job.TaskFailed {
				return task
			}
		}
	}
	return nil
}

// outcomeFact returns the fact that the outcome of a job is decided.
func outcomeFact(j *job.Job, culprit *job.Task) *FactOutcome {
	f := &FactOutcome{Job: j.ID(), Outcome: j.Outcome(), Message: j.Message(), At: j.Decided()}
	if culprit != nil {
		id := culprit.ID()
		f.Culprit = &id
	}
	return f
}

// endFact returns the fact that a job has ended.
func endFact(j *job.Job) *FactJobEnded {
	return &FactJobEnded{Job: j.ID(), State: j.State(), Message: j.Message(), At: j.Ended()}
}
