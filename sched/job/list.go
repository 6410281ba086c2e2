package job

import "slices"

// List is the read view of all jobs. A job is in one of three lists: live, then
// finishing, then ended, until it is forgotten.
type List struct {
	live      []*Job // by ascending id
	finishing []*Job // in the order in which their outcome was first decided
	ended     []*Job // in the order in which they ended
	byID      map[ID]*Job
	tally     Tally
	seats     int
	mapsFirst int
	widths    [Kinds]int // by how much Wanted exceeds Pending
	outputs   []int32    // map outputs by node; see MapOutputs
}

// Live returns the jobs with tasks to schedule, in order of submission. The slice
// must not be changed and is valid until the next change.
func (l *List) Live() []*Job { return l.live }

// Finishing returns the jobs whose output is being committed or aborted, in the
// order in which they stopped being live. The slice must not be changed and is
// valid until the next change.
func (l *List) Finishing() []*Job { return l.finishing }

// Ended returns the remembered jobs that have ended, in the order in which they
// did. The slice must not be changed and is valid until the next change.
func (l *List) Ended() []*Job { return l.ended }

// MapsFirst counts the live jobs whose reduces do not start until no map of theirs is
// pending or delayed; see Job.MapsFirst.
func (l *List) MapsFirst() int { return l.mapsFirst }

// Get returns a live, finishing or remembered job, or nil.
func (l *List) Get(id ID) *Job { return l.byID[id] }

// Tally returns the counts over all live jobs.
func (l *List) Tally() Tally { return l.tally }

// Pending counts the waiting tasks of a kind of all live jobs.
func (l *List) Pending(k Kind) int { return l.tally.Pending[k] }

// Delayed counts the delayed tasks of a kind of all live jobs.
func (l *List) Delayed(k Kind) int { return l.tally.Delayed[k] }

// Wanted counts the slots that the waiting tasks of a kind of all live jobs would occupy.
func (l *List) Wanted(k Kind) int { return l.tally.Pending[k] + l.widths[k] }

// Running counts the running attempts of a kind of all live jobs.
func (l *List) Running(k Kind) int { return l.tally.Running[k] }

// RunningOn counts the running attempts of a kind on slots of a kind.
func (l *List) RunningOn(task, slot Kind) int { return l.tally.On[task][slot] }

// Occupied counts the slots, of either kind, that running attempts of a kind occupy.
func (l *List) Occupied(k Kind) int { return l.tally.Occupied[k][Map] + l.tally.Occupied[k][Reduce] }

// OccupiedOn counts the slots of a kind that running attempts of a kind occupy.
func (l *List) OccupiedOn(task, slot Kind) int { return l.tally.Occupied[task][slot] }

// MapOutputs counts the outputs of succeeded maps on a node, of live jobs with reduces. The
// reduces may still read these outputs.
func (l *List) MapOutputs(node int32) int {
	if int(node) >= len(l.outputs) {
		return 0
	}
	return int(l.outputs[node])
}

// Seats is one more than the greatest seat in use so far: the length that a
// table indexed by Job.Seat needs.
func (l *List) Seats() int { return l.seats }

// Attempt returns the attempt of that name, or nil.
func (l *List) Attempt(id AttemptID) *Attempt {
	if t := l.Task(id.TaskID); t != nil {
		return t.Attempt(id.Number)
	}
	return nil
}

// Task returns the task of that name, or nil.
func (l *List) Task(id TaskID) *Task {
	// Names come from workers, so each part is checked. Task checks the index.
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
