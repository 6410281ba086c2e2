package tumm

import (
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

var (
	_ sched.Inspectable = (*TuMM)(nil)
	_ sched.Inspectable = (*HTuMM)(nil)
)

// Inspect implements sched.Inspectable.
func (t *TuMM) Inspect(time.Duration) (i sched.Insight) {
	if t.view == nil {
		return i
	}
	if t.unsplittable != nil {
		i.Say(sched.Measure{Name: "split", Help: "Why each node keeps its own fixed split."}, t.unsplittable.Error())
	}
	t.show(&i, [job.Kinds]int{t.Size(job.Map), t.Size(job.Reduce)})
	return i
}

// Inspect implements sched.Inspectable.
func (h *HTuMM) Inspect(time.Duration) (i sched.Insight) {
	if h.view == nil {
		return i
	}
	h.show(&i, [job.Kinds]int{h.Size(job.Map), h.Size(job.Reduce)})
	t := sched.InsightTable{Name: "split of each node", Help: "The slots of a node that go to maps and to reduces, by the times that tasks take there.", Columns: []sched.Measure{
		{Name: "node"}, {Name: "map slots", Unit: "slots", Chart: "map slots by node"}, {Name: "reduce slots", Unit: "slots"},
		{Name: "map work", Unit: "slot·s", Help: "Remaining map work of the cluster at the speed of this node."},
		{Name: "reduce work", Unit: "slot·s", Help: "Remaining reduce work of the cluster at the speed of this node."}}}
	for _, n := range h.view.Nodes().All() {
		if !n.Alive() || int(n.Index()) >= len(h.splits) {
			continue
		}
		if len(t.Rows) == sched.MostRows {
			t.Omitted++
			continue
		}
		own, _ := h.mon.workOn(n.Index())
		s := h.splits[n.Index()]
		t.Add(sched.Text(n.Name()), sched.Number(s[job.Map]), sched.Number(s[job.Reduce]), sched.Number(own[job.Map]), sched.Number(own[job.Reduce]))
	}
	i.Tables = append(i.Tables, t)
	return i
}

// show adds the split of the cluster and the work from which it follows.
func (b *base) show(i *sched.Insight, split [job.Kinds]int) {
	const splitChart, workChart = "slots by kind", "remaining work"
	i.Show(sched.Measure{Name: "map slots", Unit: "slots", Help: "Slots that maps should have now (s_m).", Chart: splitChart}, float64(split[job.Map]))
	i.Show(sched.Measure{Name: "reduce slots", Unit: "slots", Help: "Slots that reduces should have now (s_r).", Chart: splitChart}, float64(split[job.Reduce]))
	work := b.mon.work()
	i.Show(sched.Measure{Name: "map work", Unit: "slot·s", Help: "Estimated time of the remaining maps of the jobs in their map phase (ω'_m).", Chart: workChart}, work[job.Map])
	i.Show(sched.Measure{Name: "reduce work", Unit: "slot·s", Help: "Estimated time of the remaining reduces of the jobs in their reduce phase (ω'_r).", Chart: workChart}, work[job.Reduce])
	t := sched.InsightTable{Name: "phases", Help: "The jobs whose remaining tasks count as work, with the estimate of the time of one task.", Columns: []sched.Measure{
		{Name: "job"}, {Name: "phase"}, {Name: "left", Unit: "tasks", Help: "Remaining tasks (n')."},
		{Name: "time", Unit: "s", Help: "Mean time of the job's finished tasks, or a guess before the first one has finished (t̄)."}, {Name: "finished", Unit: "tasks", Help: "Finished tasks that the mean time is from; 0 for a guess."}}}
	for k := range job.Kind(job.Kinds) {
		for _, x := range b.mon.phase[k] {
			t.Add(sched.Text(x.id.String()), sched.Text(k.String()), sched.Number(b.mon.left(x.job, k)), sched.Number(b.mon.timeOf(x.job, k)), sched.Number(b.mon.members[x.job.Seat()].all[k].count))
		}
	}
	i.Tables = append(i.Tables, t)
}
