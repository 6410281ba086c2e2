package capacity

import (
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

var _ sched.Preempter = (*Order)(nil)

// Preempt implements sched.Preempter for one situation only, which typed slots
// cannot come to: where limits are on both kinds together, reduces that wait for
// maps may be all that a queue or a user may run, so that the maps never start.
// The newest of those reduces gives way. YARN's MapReduce takes reduces back as
// well when it has no room for its maps.
//
// It costs the jobs with maps to launch, and nothing with typed slots.
func (c *Order) Preempt(time.Duration) []*job.Attempt {
	if !c.untyped {
		return nil
	}
	slots := slotsOf(c.view.Nodes(), allSlots)
	for _, q := range c.queues {
		if q.wanting[job.Map] == 0 {
			continue
		}
		if q.full(allSlots, slots, c.cfg.TinyZero) {
			if a := c.waiting(q, nil); a != nil {
				return []*job.Attempt{a}
			}
			continue
		}
		limit := q.userLimit(allSlots, slots, q.wanting[allSlots], c.cfg.TinyZero)
		for _, j := range q.ready[job.Map].Jobs() {
			u := c.seats[j.Seat()].user
			if u.occupied[allSlots] < limit {
				continue
			}
			if a := c.waiting(q, u); a != nil {
				return []*job.Attempt{a}
			}
		}
	}
	return nil
}

// waiting returns the newest reduce of a queue, or of one user in it, if nothing
// runs there but reduces that wait for maps.
func (c *Order) waiting(q *queue, u *user) (newest *job.Attempt) {
	maps := q.occupied[job.Map]
	if u != nil {
		maps = u.occupied[job.Map]
	}
	if maps > 0 {
		return nil
	}
	for _, j := range q.busy[job.Reduce].Jobs() {
		if u != nil && c.seats[j.Seat()].user != u {
			continue
		}
		switch a := j.Newest(job.Reduce); {
		case a == nil:
		case j.MapsDone():
			return nil
		case newest == nil || a.Seq() > newest.Seq():
			newest = a
		}
	}
	return newest
}
