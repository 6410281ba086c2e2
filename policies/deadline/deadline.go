// Package deadline orders jobs so that as many deadlines as possible are kept. README.md has
// the idea and its sources.
package deadline

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
	"time"

	"github.com/slotwise/slotwise/policies/hadoop"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// Order serves the jobs that can end in time by their deadlines, the earliest first, and the
// others in the slots that these leave. Priority precedes that, and ties go by submission.
//
// Every job has a reserve, the longer of its deadline and Config.Default, counted from its
// submission. Once the reserve has passed, a job goes before all jobs that can end in time.
// So jobs with deadlines delay a job by its reserve at most: from then on only jobs whose
// reserve ends earlier go before it.
type Order struct {
	*sched.SortedOrder
	cfg   Config
	view  *sched.View
	times hadoop.Times
	keys  []key // by job seat
	plan  plan
	// due is a time before which an Update changes no key. Without deadlines keys change only when
	// reserves end.
	due time.Duration
}

// key places a job in the order.
type key struct {
	class class
	at    time.Duration // in time: the deadline; else the end of the reserve
}

// class divides the jobs of a priority.
type class uint8

// The classes, in the order in which they are served.
const (
	overdue class = iota // the reserve has passed
	inTime               // has a deadline that can be kept
	rest
)

var (
	_ sched.Order         = (*Order)(nil)
	_ sched.Starter       = (*Order)(nil)
	_ sched.JobWatcher    = (*Order)(nil)
	_ sched.ChangeWatcher = (*Order)(nil)
	_ sched.TaskWatcher   = (*Order)(nil)
	_ sched.Periodic      = (*Order)(nil)
	_ sched.Stateful      = (*Order)(nil)
	_ sched.Inspectable   = (*Order)(nil)
)

// Config holds the parameters of Order.
type Config struct {
	// Default is the reserve of jobs without a deadline, or with a shorter one.
	Default time.Duration
	// GiveUp is false for the order by deadlines alone, in which late jobs delay the others.
	GiveUp bool
	// Every is the time between two decisions about which jobs can end in time.
	Every time.Duration
}

func (c *Config) bind() sched.Bindings {
	return sched.Bindings{
		sched.Bind(&c.Default, sched.PositiveDuration(), sched.Param{Name: "default-deadline", Default: "1h", Tune: []string{"10m", "1h", "6h"},
			Help: "How long after its submission a job without a deadline, or one that is late, goes before all jobs with deadlines. It " +
				"bounds the time for which they can keep it waiting. A short one costs deadlines when the cluster is full."}),
		sched.Bind(&c.GiveUp, sched.Bool(), sched.Param{Name: "give-up", Default: "true", Tune: []string{"false", "true"},
			Help: "Whether jobs that cannot all end in time let the others pass: as few as possible do, the largest first. With false " +
				"the earliest deadline always goes first."}),
		sched.Bind(&c.Every, sched.PositiveDuration(), sched.Param{Name: "deadline-interval", Default: "5s",
			Help: "The time between two decisions about which jobs can end in time. A new job counts as one that can, if it could with the " +
				"whole cluster."}),
	}
}

// Params documents the parameters of Order.
func Params() []sched.Param { return new(Config).bind().Params() }

// Read returns an Order with the parameters that the user has set.
func Read(k *sched.Kit) (sched.Order, error) {
	o := &Order{}
	if err := k.Read(o.cfg.bind()); err != nil {
		return nil, err
	}
	o.SortedOrder = sched.NewSortedOrder(func(a, b *job.Job) int {
		x, y := &o.keys[a.Seat()], &o.keys[b.Seat()]
		return cmp.Or(cmp.Compare(b.Priority(), a.Priority()), cmp.Compare(x.class, y.class), cmp.Compare(x.at, y.at))
	}).PriorityFirst()
	return o, nil
}

// Start implements sched.Starter.
func (o *Order) Start(v *sched.View, _ time.Duration) { o.view = v }

// JobAdded implements sched.JobWatcher.
func (o *Order) JobAdded(j *job.Job) {
	for j.Seat() >= len(o.keys) {
		o.keys = append(o.keys, key{})
	}
	due, wanted := j.Due()
	n := o.need(j)
	// Before SortedOrder inserts the job: the comparison reads the key, and the seat holds a former job's.
	o.keys[j.Seat()] = o.key(j, j.Submitted(), wanted && (!o.cfg.GiveUp || j.Submitted()+n.alone() <= due))
	o.due = min(o.due, o.mayChange(j))
	o.SortedOrder.JobAdded(j)
}

// TaskStarted implements sched.TaskWatcher.
func (*Order) TaskStarted(*job.Attempt, time.Duration) {}

// TaskEnded implements sched.TaskWatcher.
func (o *Order) TaskEnded(a *job.Attempt, _ time.Duration) {
	if a.State() != job.AttemptSucceeded {
		return
	}
	from := a.Started()
	// A reduce that has started early has waited for maps. With this time in the mean, jobs
	// with reduces would seem too large for their deadlines.
	if a.Kind() == job.Reduce {
		from = max(from, a.Job().MapsDoneAt())
	}
	o.times.Add(a.Job().Name(), a.Kind(), max(0, a.Ended()-from).Seconds())
}

// Interval implements sched.Periodic.
func (o *Order) Interval() time.Duration { return o.cfg.Every }

// Update implements sched.Periodic. It decides again which jobs can end in time.
func (o *Order) Update(now time.Duration) {
	// Without deadlines a walk over all jobs every few seconds would find the same keys.
	if now < o.due {
		return
	}
	o.plan.read(o, now)
	kept := o.plan.choose(now, o.cfg.GiveUp)
	changed := false
	o.due = never
	for _, j := range o.Jobs() {
		if k := o.key(j, now, kept[j.ID()]); k != o.keys[j.Seat()] {
			o.keys[j.Seat()], changed = k, true
		}
		if !o.overdue(j, now) {
			o.due = min(o.due, o.mayChange(j))
		}
	}
	if changed {
		// Several keys have changed, so no single job can be found by its own any more.
		o.Resort()
	}
}

// key returns a job's key at a time.
func (o *Order) key(j *job.Job, now time.Duration, kept bool) key {
	due, _ := j.Due()
	switch {
	case o.overdue(j, now):
		return key{overdue, o.reserve(j)}
	case kept:
		return key{inTime, due}
	}
	return key{rest, o.reserve(j)}
}

// never is later than any time that occurs.
const never = time.Duration(math.MaxInt64)

// mayChange returns the time from which on the key of a job that is not overdue may change.
func (o *Order) mayChange(j *job.Job) time.Duration {
	if _, wanted := j.Due(); wanted {
		return 0 // other jobs may get in its way at any time
	}
	return o.reserve(j)
}

// reserve returns the end of a job's reserve.
func (o *Order) reserve(j *job.Job) time.Duration {
	due, _ := j.Due()
	// A default-deadline of 292 years is as good as never, and must not wrap around.
	return max(due, j.Submitted()+min(o.cfg.Default, never-j.Submitted()))
}

// overdue reports whether a job's reserve has passed.
func (o *Order) overdue(j *job.Job, now time.Duration) bool { return now >= o.reserve(j) }

// need holds the times for which a job still occupies the cluster.
type need struct {
	// slots is the time for which its unfinished tasks would occupy all slots of a kind, and
	// least the time that they take at least, by kind.
	slots, least [job.Kinds]time.Duration
}

// alone returns the time that the job takes with the whole cluster: a phase cannot be shorter
// than one of its tasks.
func (n *need) alone() time.Duration { return n.least[job.Map] + n.least[job.Reduce] }

// work orders jobs by how much room they make when they wait.
func (n *need) work() time.Duration { return n.slots[job.Map] + n.slots[job.Reduce] }

// need returns the need of a job, by the mean times of tasks of its name. Source: Verma et al.,
// ARIA, 2011, Section 3: the lower bound of the time of a phase, n · avg / slots.
func (o *Order) need(j *job.Job) (n need) {
	for k := range job.Kind(job.Kinds) {
		tasks := j.Unfinished(k)
		if tasks == 0 {
			continue
		}
		// ARIA takes a job's profile from earlier runs of the same job; the name identifies them.
		mean := o.times.Of(j.Name(), k)
		waves := float64(tasks*j.Width()) / float64(max(1, o.view.Nodes().Slots(k)))
		// However many slots are free, a phase takes the time of one task.
		// Others wait for slots, the job itself for least. They differ for jobs smaller
		// than the cluster.
		n.slots[k], n.least[k] = duration(mean*waves), duration(mean*max(1, waves))
	}
	return n
}

// duration converts seconds. More than the longest deadline means never, so that sums do not
// overflow.
func duration(seconds float64) time.Duration {
	return time.Duration(min(seconds, job.MaxDeadline.Seconds()) * float64(time.Second))
}

// plan chooses the jobs whose deadlines can be kept. It reuses its memory from one time to
// the next.
type plan struct {
	list    []entry                              // the jobs with deadlines whose reserve has not passed
	overdue [priorities][job.Kinds]time.Duration // what the jobs take whose reserve has
	kept    map[job.ID]bool
	ahead   [job.Kinds]time.Duration // what the jobs take that are served before the next one
	heap    largest
}

// entry is a job with a deadline.
type entry struct {
	id       job.ID
	priority job.Priority
	due      time.Duration
	need
}

// priorities is the number of priorities.
const priorities = int(job.VeryHigh-job.VeryLow) + 1

// read lists the live jobs.
func (p *plan) read(o *Order, now time.Duration) {
	p.list, p.overdue = p.list[:0], [priorities][job.Kinds]time.Duration{}
	for _, j := range o.Jobs() {
		if due, wanted := j.Due(); wanted && !o.overdue(j, now) {
			p.list = append(p.list, entry{j.ID(), j.Priority(), due, o.need(j)})
		}
	}
	// Only a deadline asks what the overdue jobs take, and on a crowded cluster there may be thousands.
	if len(p.list) == 0 {
		return
	}
	for _, j := range o.Jobs() {
		if !o.overdue(j, now) {
			continue
		}
		sum := &p.overdue[j.Priority()-job.VeryLow]
		for k, d := range o.need(j).slots {
			sum[k] = min(sum[k]+d, job.MaxDeadline)
		}
	}
}

// choose returns the jobs that can end in time, so that as many as possible do, or all jobs of
// the list if late ones do not give up. The map is valid until the next call.
//
// Source: Moore, An n Job, One Machine Sequencing Algorithm for Minimizing the Number of Late
// Jobs, 1968: take the jobs by deadline, and when one would be late, let the largest of those
// so far wait. That is optimal for one machine. Here the machine is a cluster with two kinds
// of slots, so it is a heuristic.
func (p *plan) choose(now time.Duration, giveUp bool) map[job.ID]bool {
	if p.kept == nil {
		p.kept = make(map[job.ID]bool)
	}
	clear(p.kept)
	p.ahead = [job.Kinds]time.Duration{}
	slices.SortFunc(p.list, func(a, b entry) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.due, b.due), cmp.Compare(a.id, b.id))
	})
	last := job.VeryHigh + 1
	for _, e := range p.list {
		// A job makes room for jobs of its priority only, and follows the overdue ones.
		// A higher priority is served first in any case, so none of its jobs gives up a deadline for a lower
		// one.
		for last > e.priority {
			p.heap = p.heap[:0]
			last--
			p.take(p.overdue[last-job.VeryLow], 1)
		}
		switch {
		case !giveUp || p.inTime(e, now):
			p.keep(e)
		// Moore's rule drops the largest of all so far, e included. If e is the largest, it is e that is
		// late.
		case len(p.heap) > 0 && p.heap[0].work() > e.work():
			other := heap.Pop(&p.heap).(entry)
			p.take(other.slots, -1)
			// Its own tasks take longer than the deadline leaves, or other jobs are in its way.
			// Then a second job would give up its deadline for nothing.
			if !p.inTime(e, now) {
				p.keep(other)
				continue
			}
			// After e is known to fit: other keeps its deadline otherwise.
			delete(p.kept, other.id)
			p.keep(e)
		}
	}
	return p.kept
}

// inTime reports whether a job ends by its deadline if it follows the jobs ahead.
func (p *plan) inTime(e entry, now time.Duration) bool {
	// Reduces start when the job's maps are done and the reduces ahead have their slots, whichever is
	// later.
	maps := p.ahead[job.Map] + e.least[job.Map]
	return now+max(maps, p.ahead[job.Reduce])+e.least[job.Reduce] <= e.due
}

// keep keeps the deadline of a job, whose tasks the following jobs wait for.
func (p *plan) keep(e entry) {
	p.kept[e.id] = true
	p.take(e.slots, 1)
	heap.Push(&p.heap, e)
}

// take adds times of slots, or with -1 gives them back.
func (p *plan) take(slots [job.Kinds]time.Duration, sign time.Duration) {
	for k, d := range slots {
		p.ahead[k] += sign * d
	}
}

// largest is a heap of kept jobs with the largest work first. It implements heap.Interface.
type largest []entry

func (h largest) Len() int           { return len(h) }
func (h largest) Less(a, b int) bool { return h[a].work() > h[b].work() }
func (h largest) Swap(a, b int)      { h[a], h[b] = h[b], h[a] }

// Push implements heap.Interface.
func (h *largest) Push(x any) { *h = append(*h, x.(entry)) }

// Pop implements heap.Interface.
func (h *largest) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// Save implements sched.Stateful.
func (o *Order) Save() ([]byte, error) { return o.times.Save() }

// Load implements sched.Stateful.
func (o *Order) Load(state []byte) error { return o.times.Load(state) }

// words describe the classes.
var words = [...]string{overdue: "overdue", inTime: "in time", rest: "after those"}

// Inspect implements sched.Inspectable.
func (o *Order) Inspect(now time.Duration) (i sched.Insight) {
	if o.view == nil {
		return i
	}
	t := sched.InsightTable{Name: "deadlines", Help: "The jobs in the order in which they are served.", Columns: []sched.Measure{
		{Name: "job"}, {Name: "served", Help: "In time: by its deadline. After those: in the slots that they leave. Overdue: before them, because it has waited too long."},
		{Name: "due", Unit: "s", Help: "The time until its deadline; negative if that has passed."},
		{Name: "need", Unit: "s", Help: "The time that it would still take with the whole cluster."}}}
	for _, j := range o.Jobs() {
		due := sched.Text("none")
		if d, ok := j.Due(); ok {
			due = sched.Number((d - now).Seconds())
		}
		n := o.need(j)
		t.Add(sched.Text(j.ID().String()), sched.Text(words[o.keys[j.Seat()].class]), due, sched.Number(n.alone().Seconds()))
	}
	i.Tables = append(i.Tables, t)
	return i
}
