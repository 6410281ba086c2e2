package modfair

import (
	"cmp"
	"slices"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

var _ sched.Inspectable = (*Order)(nil)

// Inspect implements sched.Inspectable.
func (o *Order) Inspect(time.Duration) (i sched.Insight) {
	if o.view == nil {
		return i
	}
	pools := slices.SortedFunc(slices.Values(o.pools), func(a, b *pool) int { return cmp.Compare(a.name, b.name) })
	open := "closed"
	if o.enabled {
		open = "open"
	}
	i.Say(sched.Measure{Name: "shared pool", Help: "Whether the shared pool, in which small jobs overtake large ones, may launch tasks."}, open)
	for k := range job.Kind(job.Kinds) {
		i.Show(sched.Measure{Name: "grant of the shared pool: " + k.String() + "s", Unit: "slots", Help: "Slots that the shared pool may use until it is empty.", Chart: "grant of the shared pool"}, float64(o.sharedQuota(k)))
		t := sched.InsightTable{Name: "pools: " + k.String() + "s", Help: "Each user's pool and the shared one, with its entitlement at the last update.", Columns: []sched.Measure{
			{Name: "pool"}, {Name: "jobs", Help: "Jobs in the pool now. Small jobs of users are in the shared pool."}, {Name: "pending", Unit: "tasks"}, {Name: "running", Unit: "tasks"},
			{Name: "entitlement", Unit: "slots", Chart: "entitlements of pools: " + k.String() + "s"}, {Name: "deficit", Unit: "slots", Help: "The entitlement that does not run; negative while the pool borrows.", Chart: "deficits of pools: " + k.String() + "s"}}}
		for _, p := range append(pools[:len(pools):len(pools)], o.shared) {
			s, quota := &p.side[k], p.side[k].quota
			name := p.name
			if p.shared {
				name, quota = "(the shared pool)", o.sharedQuota(k)
			}
			t.Add(sched.Text(name), sched.Number(p.size), sched.Number(s.pending), sched.Number(s.running), sched.Number(quota), sched.Number(quota-s.running))
		}
		i.Tables = append(i.Tables, t)
	}
	return i
}
