package slots

import (
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// stuckReduce returns a reduce that has to give way, or none. A part with typed
// slots puts no reduce on a map slot, but a policy that was swapped out may
// have. When reduces hold all the map slots there are, and each of them waits
// for a map that has to be made again, none would ever end: the newest goes.
func stuckReduce(jobs *job.List, mapSlots int) []*job.Attempt {
	lent := jobs.RunningOn(job.Reduce, job.Map)
	if lent == 0 || jobs.Pending(job.Map) == 0 || lent < mapSlots {
		return nil
	}
	var newest *job.Attempt
	for _, j := range jobs.Live() {
		switch {
		case j.RunningOn(job.Reduce, job.Map) == 0:
		case j.MapsDone():
			return nil
		default:
			a := j.Newest(job.Reduce)
			for a.Slot() != job.Map {
				a = a.Prev()
			}
			if newest == nil || a.Seq() > newest.Seq() {
				newest = a
			}
		}
	}
	return []*job.Attempt{newest}
}

// Start implements sched.Starter.
func (s *Static) Start(v *sched.View, _ time.Duration) { s.view = v }

// Preempt implements sched.Preempter, for reduces that another policy left on
// map slots.
func (s *Static) Preempt(time.Duration) []*job.Attempt {
	return stuckReduce(s.view.Jobs(), s.view.Nodes().Slots(job.Map))
}

// Preempt implements sched.Preempter as Static does.
func (s *Overload) Preempt(time.Duration) []*job.Attempt {
	return stuckReduce(s.view.Jobs(), s.Size(job.Map))
}
