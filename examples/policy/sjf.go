package main

import (
	"cmp"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// policies lists what this program adds to slotwise: an order, and a policy that
// combines the order with built-in parts.
var policies = sched.Table{
	Order: []sched.Part[sched.Order]{
		{Name: "sjf", Summary: "the job with the least work first", Params: new(config).bind().Params(), New: newOrder},
	},
	Policies: []sched.Row{
		{Name: "sjf", Summary: "shortest job first", Slots: "static", Order: "sjf", Place: "delay", Speculate: "gap"},
	},
}

// config holds the parameters that users can set.
type config struct {
	reduceWeight float64
}

// bind joins each parameter to the field that holds its value.
func (c *config) bind() sched.Bindings {
	return sched.Bindings{sched.Bind(&c.reduceWeight, sched.Float(0, 100), sched.Param{
		Name: "reduce-weight", Default: "1", Help: "How many maps a reduce counts as. 0 compares jobs by their maps alone.",
	})}
}

// newOrder makes a fresh order for one run.
func newOrder(k *sched.Kit) (sched.Order, error) {
	var c config
	if err := k.Read(c.bind()); err != nil {
		return nil, err
	}
	work := func(j *job.Job) float64 {
		return float64(j.Total(job.Map)) + c.reduceWeight*float64(j.Total(job.Reduce))
	}
	return sched.NewSortedOrder(func(a, b *job.Job) int { return cmp.Compare(work(a), work(b)) }), nil
}
