package tyrex

import (
	"slices"
	"strconv"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

var (
	_ sched.Inspectable = (*Tags)(nil)
	_ sched.Inspectable = (*Learner)(nil)
)

// Inspect implements sched.Inspectable.
func (t *Tags) Inspect(time.Duration) (i sched.Insight) {
	parts := sched.InsightTable{Name: "size partitions", Help: "The partitions with their slots. A job whose partial size exceeds the timer moves to the next partition.", Columns: []sched.Measure{
		{Name: "partition"}, {Name: "jobs", Chart: "jobs by size partition"}, {Name: "map slots used", Unit: "slots", Chart: "map slots by size partition"}, {Name: "map slots", Unit: "slots", Help: "Its limit of map slots."},
		{Name: "reduce slots used", Unit: "slots"}, {Name: "reduce slots", Unit: "slots", Help: "Its limit of reduce slots."},
		{Name: "timer", Unit: "s", Help: "The partial size beyond which jobs leave the partition; none while the sizes are similar, and in the last partition."}}}
	jobs := sched.InsightTable{Name: "partial sizes", Help: "The live jobs, with the total time of the tasks that each has completed in its partition.", Columns: []sched.Measure{
		{Name: "job"}, {Name: "partition"}, {Name: "partial size", Unit: "s", Help: "s_{j,k}"}}}
	for k := range t.parts {
		p := &t.parts[k]
		timer := sched.Text("none")
		if x, ok := t.rule.timer(k); ok {
			timer = sched.Number(x.Seconds())
		}
		name := strconv.Itoa(k + 1)
		parts.Add(sched.Text(name), sched.Number(len(p.all.Jobs())), sched.Number(p.used[job.Map]), sched.Number(p.limit[job.Map]), sched.Number(p.used[job.Reduce]), sched.Number(p.limit[job.Reduce]), timer)
		for _, j := range p.all.Jobs() {
			jobs.Add(sched.Text(j.ID().String()), sched.Text(name), sched.Number(t.members[j.Seat()].spent.Seconds()))
		}
	}
	i.Tables = append(i.Tables, parts, jobs)
	return i
}

// Inspect implements sched.Inspectable. It adds the samples from which the timers follow.
func (l *Learner) Inspect(now time.Duration) sched.Insight {
	i := l.Tags.Inspect(now)
	t := sched.InsightTable{Name: "samples of sizes", Help: "The partial sizes from which each timer follows.", Columns: []sched.Measure{
		{Name: "partition"}, {Name: "sizes", Help: "Live jobs and jobs that have left the partition."}, {Name: "variation", Chart: "variation of sizes", Help: "The squared coefficient of variation (CV²). The timer is none while it is small."}}}
	for k := range l.d.parts {
		p := &l.d.parts[k]
		t.Add(sched.Text(strconv.Itoa(k+1)), sched.Number(len(p.sample.values)), sched.Number(p.sample.cv2()))
	}
	i.Tables = slices.Insert(i.Tables, 1, t)
	return i
}
