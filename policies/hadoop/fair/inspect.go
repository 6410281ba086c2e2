package fair

import (
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

var _ sched.Inspectable = (*Order)(nil)

// Inspect implements sched.Inspectable.
func (f *Order) Inspect(time.Duration) (i sched.Insight) {
	if f.view == nil {
		return i
	}
	f.refreshShares()
	for k := range job.Kind(job.Kinds) {
		columns := func(of string) []sched.Measure {
			list := []sched.Measure{{Name: of}, {Name: "weight"}, {Name: "minimum", Unit: "slots", Help: "The minimum share, at most the demand."}, {Name: "demand", Unit: "slots"},
				{Name: "share", Unit: "slots", Help: "The fair share of the slots."}, {Name: "running", Unit: "slots"}, {Name: "deficit", Unit: "slots", Help: "The share that does not run; negative above the share."}}
			if of == "pool" {
				list[4].Chart, list[6].Chart = "fair shares of pools: "+k.String()+"s", "deficits of pools: "+k.String()+"s"
			}
			return list
		}
		pools := sched.InsightTable{Name: "pools: " + k.String() + "s", Help: "Fair shares and what runs, by pool.", Columns: columns("pool")}
		jobs := sched.InsightTable{Name: "jobs: " + k.String() + "s", Help: "Fair shares and what runs, by job.", Columns: columns("job")}
		for _, p := range f.pools {
			c := &p.side[k].claim
			pools.Add(c.row(p.name, p.side[k].running)...)
		}
		for _, x := range f.jobs {
			if x != nil && (x.side[k].demand > 0 || x.job.Occupied(k) > 0) {
				jobs.Add(x.side[k].claim.row(x.job.ID().String(), x.job.Occupied(k))...)
			}
		}
		i.Tables = append(i.Tables, pools, jobs)
	}
	return i
}

// row returns a claim as a row of a table.
func (c *claim) row(name string, running int) []sched.Datum {
	return []sched.Datum{sched.Text(name), sched.Number(c.weight), sched.Number(c.min), sched.Number(c.demand), sched.Number(c.share), sched.Number(running), sched.Number(c.share - float64(running))}
}
