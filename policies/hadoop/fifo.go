package hadoop

import (
	"cmp"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// NewFIFO returns an order that serves jobs by priority, then time of submission.
// The first job gets every slot that it can use.
func NewFIFO() *sched.SortedOrder {
	return sched.NewSortedOrder(func(a, b *job.Job) int { return cmp.Compare(b.Priority(), a.Priority()) }).PriorityFirst()
}

// Urgency is Hadoop's order of jobs: higher priority first, then earlier
// submission, then lower id.
func Urgency(a, b *job.Job) int {
	return cmp.Or(
		cmp.Compare(b.Priority(), a.Priority()),
		cmp.Compare(a.Submitted(), b.Submitted()),
		cmp.Compare(a.ID(), b.ID()),
	)
}
