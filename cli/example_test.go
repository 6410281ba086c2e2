package cli_test

import (
	"cmp"

	"github.com/slotwise/slotwise/cli"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// A program whose only statement is cli.Main is the whole command line with a
// new policy. Here it serves the job with the fewest maps first.
func ExampleMain() {
	cli.Main(cli.WithPolicies(sched.Table{
		Order: []sched.Part[sched.Order]{{
			Name:    "fewest-maps",
			Summary: "the job with the fewest maps first",
			New: func(*sched.Kit) (sched.Order, error) {
				return sched.NewSortedOrder(func(a, b *job.Job) int {
					return cmp.Compare(a.Total(job.Map), b.Total(job.Map))
				}), nil
			},
		}},
		Policies: []sched.Row{{
			Name: "fewest-maps", Summary: "small jobs first",
			Slots: "static", Order: "fewest-maps", Place: "delay", Speculate: "gap",
		}},
	}))
}
