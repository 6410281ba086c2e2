package capacity

import (
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

var _ sched.Inspectable = (*Order)(nil)

// Inspect implements sched.Inspectable.
func (c *Order) Inspect(time.Duration) (i sched.Insight) {
	if c.view == nil {
		return i
	}
	for k := range job.Kind(job.Kinds) {
		set, slots := c.slotSet(k), c.view.Nodes().Slots(k)
		name := k.String() + " slots"
		if set == allSlots {
			name, slots = "slots of both kinds", c.view.Nodes().Slots(job.Map)+c.view.Nodes().Slots(job.Reduce)
		}
		t := sched.InsightTable{Name: "queues: " + name, Help: "The queue that uses the smallest part of its capacity is served first.", Columns: []sched.Measure{
			{Name: "queue"}, {Name: "jobs"}, {Name: "users", Help: "Users with jobs in the queue."}, {Name: "wanting", Help: "Users with a job that can launch a task now."}, {Name: "capacity", Unit: "slots"},
			{Name: "used", Unit: "slots", Chart: "used by queue: " + name}, {Name: "deficit", Unit: "slots", Help: "The capacity that is not used; negative above the capacity.", Chart: "deficits of queues: " + name}}}
		for _, q := range c.queues {
			capacity := q.capacity(slots)
			t.Add(sched.Text(q.conf.Name), sched.Number(len(q.jobs.Jobs())), sched.Number(len(q.users)), sched.Number(q.wanting[set]),
				sched.Number(capacity), sched.Number(q.occupied[set]), sched.Number(capacity-q.occupied[set]))
		}
		i.Tables = append(i.Tables, t)
		// The table of the first kind shows all slots.
		if set == allSlots {
			break
		}
	}
	return i
}
