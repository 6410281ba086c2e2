package job

import "slices"

// List is the read view of all jobs: the live ones in order of submission, and
// the last of those that have ended.
type List struct {
	live  []*Job
	byID  map[ID]*Job
	ended []*Job
	tally Tally
	seats int
}

// Live returns the jobs that have not ended, in order of submission. The slice
// must not be changed and holds until the next change.
func (l *List) Live() []*Job { return l.live }

// Ended returns the remembered jobs that have ended, in the order in which they
// did. The slice must not be changed and holds until the next change.
func (l *List) Ended() []*Job { return l.ended }

// Get returns a live or remembered job, or nil.
func (l *List) Get(id ID) *Job { return l.byID[id] }

// Tally returns the counts over all live jobs.
func (l *List) Tally() Tally { return l.tally }

// Pending counts the waiting tasks of a kind of all live jobs.
func (l *List) Pending(k Kind) int { return l.tally.Pending[k] }

// Running counts the running attempts of a kind of all live jobs.
func (l *List) Running(k Kind) int { return l.tally.Running[k] }

// RunningOn counts the running attempts of a kind on slots of a kind.
func (l *List) RunningOn(task, slot Kind) int { return l.tally.On[task][slot] }

// Seats is one more than the greatest seat in use so far: the length that a
// table indexed by Job.Seat needs.
func (l *List) Seats() int { return l.seats }

// Attempt returns the attempt of that name, or nil.
func (l *List) Attempt(id AttemptID) *Attempt {
	if t := l.Task(id.TaskID); t != nil {
		return t.Attempt(id.Try)
	}
	return nil
}

// Task returns the task of that name, or nil.
func (l *List) Task(id TaskID) *Task {
	if j := l.byID[id.Job]; j != nil && id.Kind < Kinds {
		return j.Task(id.Kind, id.Index)
	}
	return nil
}

// remove takes a job out of the live ones; ids ascend, so it can be searched.
func (l *List) remove(j *Job) {
	at, ok := slices.BinarySearchFunc(l.live, j.id, func(x *Job, id ID) int { return int(x.id - id) })
	if ok {
		l.live = slices.Delete(l.live, at, at+1)
	}
}
