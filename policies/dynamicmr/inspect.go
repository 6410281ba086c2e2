package dynamicmr

import (
	"maps"
	"slices"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

var _ sched.Inspectable = (*DHSA)(nil)

// Inspect implements sched.Inspectable.
func (d *DHSA) Inspect(time.Duration) (i sched.Insight) {
	if d.view == nil {
		return i
	}
	const loans = "slots lent to the other kind"
	for slot := range job.Kind(job.Kinds) {
		i.Show(sched.Measure{Name: slot.String() + " slots lent", Unit: "slots", Help: "Slots of this kind that run " + slot.Other().String() + "s.", Chart: loans}, float64(d.lent(slot)))
		i.Show(sched.Measure{Name: slot.String() + " slots that may be lent", Unit: "slots", Help: "The limit on loans, from the parameters."}, float64(d.quota(slot)))
		i.Show(sched.Measure{Name: "idle " + slot.String() + " slots", Unit: "slots", Chart: "idle slots"}, float64(d.view.Nodes().Slots(slot)-d.used(slot)))
		i.Show(sched.Measure{Name: "pending " + slot.String() + "s", Unit: "tasks", Help: "Pending tasks that may start (P_M, P_R).", Chart: "pending tasks"}, float64(d.demand.pending(d.view, slot)))
	}
	t := sched.InsightTable{Name: "pools", Help: "The pools in which slots are shared. A pool with a small load is served first.", Columns: []sched.Measure{
		{Name: "pool"}, {Name: "jobs"}, {Name: "running", Unit: "tasks", Chart: "running tasks by pool"}, {Name: "pending maps", Unit: "tasks"}, {Name: "pending reduces", Unit: "tasks"},
		{Name: "minimum", Unit: "slots", Help: "The minimum share of both kinds of slots."}, {Name: "load", Help: "Running tasks by minimum share below it, else by weight."}}}
	for _, name := range slices.Sorted(maps.Keys(d.demand.pools)) {
		p := d.demand.pools[name]
		load := sched.Text("no demand")
		if p.ranked {
			load = sched.Number(p.now().load)
		}
		t.Add(sched.Text(name), sched.Number(p.jobs), sched.Number(p.running), sched.Number(p.pending[job.Map]), sched.Number(p.pending[job.Reduce]), sched.Number(p.least), load)
	}
	i.Tables = append(i.Tables, t)
	return i
}

var _ sched.Inspectable = (*Preschedule)(nil)

// Inspect implements sched.Inspectable.
func (p *Preschedule) Inspect(time.Duration) (i sched.Insight) {
	if !p.cfg.Enabled {
		return i
	}
	const chart = "prescheduling"
	i.Show(sched.Measure{Name: "maps in reduce slots near their data", Unit: "slots", Help: "Reduce slots that prescheduling lent to maps (P2).", Chart: chart}, float64(p.preLent))
	i.Show(sched.Measure{Name: "reduces in map slots in return", Unit: "slots", Help: "Map slots that reduces got in return (P3).", Chart: chart}, float64(p.returned))
	return i
}
