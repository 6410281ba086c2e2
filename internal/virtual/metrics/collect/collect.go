package collect

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/metrics"
	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Collector measures one run as its sim.Observer. It keeps the state of active
// jobs. Ended jobs leave only digests, unless New was called with uses.
type Collector struct {
	jobs  []workload.Job
	alone []time.Duration
	nodes []virtual
	slots [job.Kinds]int

	start    time.Duration // first submission; negative before
	end      time.Duration // end of the last ended job
	live     map[int]span
	fates    fates
	waiting  metrics.Digest
	due      Deadlines // without Late
	late     metrics.Digest
	classes  map[string]*fates
	perJob   []Use                    // nil if New was called without uses
	busy     [job.Kinds]metrics.Level // by kind of slot
	time     [job.Kinds]float64
	lent     [job.Kinds]float64
	balance  metrics.Balance
	pools    pools
	over     metrics.Level // overloaded nodes
	waste    Waste
	copied   map[job.TaskID]int // number of live attempts of each task that had a copy
	overlaid Courses
	starved  starvation
	longest  float64 // longest wait for the first launch, over the time alone
	// paid counts the machines that cost, and idle the paid machines without an attempt, with
	// sim.Config.Autoscale. most is the greatest number at once.
	paid, idle metrics.Level
	most       int
}

// span holds when a live job was submitted and when its first attempt was
// launched. started is negative before the launch.
type span struct{ submitted, started time.Duration }

// fates holds the response times, in seconds, and the slowdowns of jobs that
// succeeded.
type fates struct{ response, slowdown metrics.Digest }

// Use is the resource use of one job.
type Use struct {
	// Slots is slot time in slot-seconds, by the kind of the task.
	Slots [job.Kinds]float64
	// Copies counts speculative attempts, Attempts all attempts.
	Copies, Attempts int
}

// Courses holds counts over time, for plots.
type Courses struct {
	Busy   [job.Kinds]metrics.Course // slots in use, by the kind of the slot
	System metrics.Course            // jobs submitted that have not ended
	Queue  metrics.Course            // submitted jobs without a launched attempt
}

// virtual is the state of a node that measures depend on.
type virtual struct {
	cores, running int
	slots          [job.Kinds]int
	up             bool
	paid           bool // counted in Collector.paid
}

// firstWidth is the initial width of the spans of courses.
const firstWidth = time.Second

// New makes the collector of a run of jobs on a cluster. alone is the time that
// each job takes alone, for slowdowns. With uses the collector keeps the use of
// every job; without, its memory does not grow with the number of ended jobs.
func New(c *workload.Cluster, jobs []workload.Job, alone []time.Duration, uses bool) *Collector {
	k := &Collector{jobs: jobs, alone: alone, start: -1, live: make(map[int]span), classes: make(map[string]*fates),
		copied: make(map[job.TaskID]int), starved: starvation{jobs: make(map[int]*wanting)}}
	if uses {
		k.perJob = make([]Use, len(jobs))
	}
	for i := range c.Groups {
		g := &c.Groups[i]
		k.slots[job.Map] += g.Count * g.MapSlots
		k.slots[job.Reduce] += g.Count * g.ReduceSlots
		// Nodes come in the order of their groups: events name them by this index.
		for range g.Count {
			k.nodes = append(k.nodes, virtual{cores: c.NodeCores(i), slots: [job.Kinds]int{job.Map: g.MapSlots, job.Reduce: g.ReduceSlots}})
		}
	}
	k.pools.init(jobs)
	for _, c := range []*metrics.Course{&k.overlaid.Busy[0], &k.overlaid.Busy[1], &k.overlaid.System, &k.overlaid.Queue} {
		c.Width = firstWidth
	}
	return k
}

// Observe implements sim.Observer. The simulator calls it in the order of
// events.
func (k *Collector) Observe(e *sim.Event) {
	// First, because it integrates up to this event with the counts from before it.
	k.observeStarved(e)
	switch e.Kind {
	case sim.NodeUp:
		k.nodes[e.Node].up = true
		k.balance.Join(e.At, k.nodes[e.Node].running)
	case sim.NodeDown:
		// A node that the balance does not hold must not leave it.
		if n := &k.nodes[e.Node]; n.up {
			n.up = false
			k.balance.Leave(e.At, n.running)
		}
	case sim.NodeRequested:
		k.nodes[e.Node].paid = true
		k.pay(e, 1)
	case sim.NodeReturned:
		k.nodes[e.Node].paid = false
		k.pay(e, -1)
	case sim.JobSubmitted:
		k.submitted(e)
	case sim.JobEnded:
		k.jobEnded(e)
	case sim.JobRestarted:
		// The attempts that succeeded counted as useful when they ended, and their work is done again now.
		k.waste.Other += e.Discarded.Seconds()
	case sim.AttemptStarted:
		k.started(e)
	case sim.AttemptEnded:
		k.ended(e)
	}
}

// observeStarved passes an event on to k.starved, before the other counts change.
func (k *Collector) observeStarved(e *sim.Event) {
	k.starved.pass(e.At, [job.Kinds]int{job.Map: k.busy[job.Map].Value(), job.Reduce: k.busy[job.Reduce].Value()})
	switch e.Kind {
	case sim.NodeUp, sim.NodeDown:
		// The collector's own up is still the state from before the event, so a second NodeDown of the same
		// node changes nothing here either.
		n, by := &k.nodes[e.Node], 1
		if e.Kind == sim.NodeDown {
			by = -1
		}
		if n.up == (e.Kind == sim.NodeDown) {
			k.starved.up[job.Map] += by * n.slots[job.Map]
			k.starved.up[job.Reduce] += by * n.slots[job.Reduce]
		}
	case sim.JobSubmitted, sim.JobRestarted, sim.JobEnded:
		k.starved.observe(e, &k.jobs[e.Job], false)
	case sim.AttemptStarted, sim.AttemptEnded:
		copied := false
		// A failed or killed attempt makes its task wait again, unless another attempt of the task runs or
		// has won. k.copied knows that only until ended has forgotten the task.
		if e.Kind == sim.AttemptEnded && e.Outcome != job.AttemptSucceeded {
			_, copied = k.copied[e.Attempt.TaskID]
		}
		k.starved.observe(e, &k.jobs[e.Job], copied)
	}
}

// submitted records the submission of a job. Averages over time begin with the
// first one.
func (k *Collector) submitted(e *sim.Event) {
	// Time before the first submission belongs to no policy: the cluster joins and idles. The balances have
	// integrated it, so it is discarded.
	if k.start < 0 {
		k.start = e.At
		k.balance.Restart(e.At)
		k.pools.balance.Restart(e.At)
	}
	k.live[e.Job] = span{e.At, -1}
	if k.jobs[e.Job].Deadline > 0 {
		k.due.Jobs++
	}
	k.pools.submitted(e.At, e.Job)
	k.overlaid.System.Add(e.At, 1)
	k.overlaid.Queue.Add(e.At, 1)
}

// jobEnded adds the times of a job that has succeeded to the digests.
func (k *Collector) jobEnded(e *sim.Event) {
	k.end = e.At
	k.pools.ended(e.At, e.Job)
	k.overlaid.System.Add(e.At, -1)
	s := k.live[e.Job]
	delete(k.live, e.Job)
	if s.started < 0 { // it ended in the queue: it was killed there, or has no tasks
		k.overlaid.Queue.Add(e.At, -1)
	}
	// The time of a job that failed says nothing about how fast the policy serves jobs, and a policy under
	// which jobs fail early would look fast.
	if e.State != job.Succeeded {
		return
	}
	if s.started >= 0 {
		k.waiting.Add((s.started - s.submitted).Seconds())
	}
	took := (e.At - s.submitted).Seconds()
	if allowed := k.jobs[e.Job].Deadline; allowed > 0 {
		late := e.At - s.submitted - allowed
		if late <= 0 {
			k.due.Met++
		}
		// Jobs in time count as 0, so that the mean is over all jobs with a deadline: over the late ones
		// alone a policy would look better for making more jobs a little late.
		k.late.Add(max(0, late).Seconds())
	}
	slow := metrics.Slowdown(took, k.alone[e.Job].Seconds())
	class := k.classes[ClassOf(&k.jobs[e.Job])]
	if class == nil {
		class = new(fates)
		k.classes[ClassOf(&k.jobs[e.Job])] = class
	}
	for _, f := range []*fates{&k.fates, class} {
		f.response.Add(took)
		f.slowdown.Add(slow)
	}
}

// occupy adds by, 1 or -1, to the counts of the slot, the node and the pool of
// an attempt.
func (k *Collector) occupy(e *sim.Event, by int) {
	n := &k.nodes[e.Node]
	if n.up {
		k.balance.Change(e.At, n.running, n.running+by)
	}
	// The learning scheduler's paper calls a node overloaded by its run queue per core. Here every attempt
	// counts as one process that wants to run.
	was := n.running > n.cores
	n.running += by
	// The first attempt on a machine ends its idleness (running equals by, 1), the end of the last one
	// begins it.
	if n.paid && (n.running == 0 || n.running == by) {
		k.idle.Add(e.At, -by)
	}
	if is := n.running > n.cores; is != was {
		k.over.Add(e.At, by)
	}
	k.busy[e.Slot].Add(e.At, by)
	k.overlaid.Busy[e.Slot].Add(e.At, by)
	k.pools.hold(e.At, e.Job, by)
}

// pay adds by, 1 or -1, to the machines that cost.
func (k *Collector) pay(e *sim.Event, by int) {
	k.paid.Add(e.At, by)
	// A machine with attempts is not idle, so it does not stop being so when it is given back.
	if k.nodes[e.Node].running == 0 {
		k.idle.Add(e.At, by)
	}
	k.most = max(k.most, k.paid.Value())
}

// PayForAll counts all machines as paid from the start of the run on, for comparisons with
// clusters that grow and shrink. Call it before the run, unless that has sim.Config.Autoscale.
func (k *Collector) PayForAll() {
	k.most = len(k.nodes)
	for i := range k.nodes {
		k.nodes[i].paid = true
	}
	// From time 0: the number of hours is until the end, of a cluster that was there before the first job.
	k.paid.Add(0, k.most)
	k.idle.Add(0, k.most)
}

// started records the launch of an attempt.
func (k *Collector) started(e *sim.Event) {
	k.occupy(e, 1)
	if s := k.live[e.Job]; s.started < 0 {
		// A job that restarts keeps its first launch: the time that it waited for the policy does not come
		// again.
		s.started = e.At
		k.live[e.Job] = s
		k.overlaid.Queue.Add(e.At, -1)
		// In units of the job's own time, since a minute is much for a job of seconds and nothing for one
		// of hours.
		if alone := k.alone[e.Job]; alone > 0 {
			k.longest = max(k.longest, (e.At-s.submitted).Seconds()/alone.Seconds())
		}
	}
	if k.perJob != nil {
		u := &k.perJob[e.Job]
		u.Attempts++
		if e.Speculative {
			u.Copies++
		}
	}
	if e.Speculative {
		k.waste.Copies++
		k.copied[e.Attempt.TaskID] += 2 // the copy and the original attempt
		if n := k.copied[e.Attempt.TaskID]; n > 2 {
			k.copied[e.Attempt.TaskID] = n - 1 // the original was counted before
		}
	}
}

// ended records the end of an attempt, and its slot time as used or wasted.
func (k *Collector) ended(e *sim.Event) {
	k.occupy(e, -1)
	// By the kind of the task: a map on a borrowed reduce slot is map work.
	kind, spent := e.Attempt.Kind, (e.At - e.Started).Seconds()
	if k.perJob != nil {
		k.perJob[e.Job].Slots[kind] += spent
	}
	k.time[kind] += spent
	if e.Slot != kind {
		k.lent[kind] += spent
	}
	live, copied := k.copied[e.Attempt.TaskID]
	switch {
	case e.Outcome == job.AttemptSucceeded && e.Speculative:
		k.waste.Won++
	case e.Outcome == job.AttemptSucceeded:
	// A killed attempt of a task that never had a copy was preempted or its job was killed, which is not
	// the price of speculation.
	case e.Outcome == job.AttemptKilled && copied:
		k.waste.Speculation += spent
	default: // it failed, was preempted, or its node was lost
		k.waste.Other += spent
	}
	// Without this the map would keep every task that ever had a copy.
	if copied && live <= 1 {
		delete(k.copied, e.Attempt.TaskID)
	} else if copied {
		k.copied[e.Attempt.TaskID] = live - 1
	}
}

// Uses returns the use of each job by its index, or nil if New was called
// without uses. The collector owns the slice.
func (k *Collector) Uses() []Use { return k.perJob }

// Courses returns the counts over time. The collector owns them.
func (k *Collector) Courses() *Courses { return &k.overlaid }

// Capacity returns the number of slots of each kind in the cluster.
func (k *Collector) Capacity() [job.Kinds]int { return k.slots }

// Report makes the report of an ended run. The caller fills in Policy and Seed.
func (k *Collector) Report(r *sim.Result, bounds Bounds) *Report {
	p := &Report{Makespan: r.Makespan.Seconds(), Bounds: bounds, Events: r.Events, Decisions: r.Decisions, Free: r.Free, Waste: k.waste,
		Jobs: Jobs{All: len(k.jobs), Succeeded: r.Succeeded, Failed: r.Failed, Killed: r.Killed, Unfinished: r.Unfinished},
		Locality: Locality{Node: r.Maps[cluster.NODE], Rack: r.Maps[cluster.RACK], Any: r.Maps[cluster.ANY],
			None: r.Maps[cluster.NONE]}}
	k.jobNumbers(p)
	// The run may continue after the last job, until nodes return or timers fire. That time would lower all
	// averages.
	end := r.Ended
	if r.Unfinished == 0 {
		end = k.end
	}
	k.slotNumbers(p, end)
	if k.due.Jobs > 0 {
		k.due.Late = k.late.Summary()
		p.Deadlines = &k.due
	}
	if k.most > 0 {
		p.Machines = &Machines{Hours: k.paid.Area(end) / 3600, Idle: k.idle.Area(end) / 3600, Most: k.most}
	}
	return p
}

// jobNumbers fills in the numbers about jobs.
func (k *Collector) jobNumbers(p *Report) {
	p.Response, p.Waiting, p.Slowdown = k.fates.response.Summary(), k.waiting.Summary(), k.fates.slowdown.Summary()
	p.Jain = k.fates.slowdown.Jain()
	if p.Slowdown.Median > 0 {
		p.Variability = p.Slowdown.P95 / p.Slowdown.Median
	}
	p.Classes = []Class{}
	for _, name := range slices.Sorted(maps.Keys(k.classes)) {
		c := k.classes[name]
		p.Classes = append(p.Classes, Class{name, c.response.Summary(), c.slowdown.Summary()})
	}
}

// ClassOf returns the class that reports count a job in.
func ClassOf(j *workload.Job) string { return cmp.Or(j.Class, j.App, "all") }

// slotNumbers fills in the numbers about slots and nodes.
func (k *Collector) slotNumbers(p *Report, end time.Duration) {
	p.Slots.Time, p.Slots.Lent = k.time, k.lent
	p.Unbalanced, p.Unfairness = k.balance.Degree(k.start, end), k.pools.balance.Degree(k.start, end)
	span := (end - k.start).Seconds()
	if k.start < 0 || span <= 0 {
		return
	}
	use := func(area float64, n int) float64 {
		if n == 0 { // a cluster without slots of a kind uses none, and JSON has no NaN
			return 0
		}
		return area / (float64(n) * span)
	}
	maps, reduces := k.busy[job.Map].Area(end), k.busy[job.Reduce].Area(end)
	p.Slots.Map, p.Slots.Reduce = use(maps, k.slots[job.Map]), use(reduces, k.slots[job.Reduce])
	p.Slots.Use = use(maps+reduces, k.slots[job.Map]+k.slots[job.Reduce])
	p.Overload = use(k.over.Area(end), len(k.nodes))
	p.Starved, p.Conserved = k.starved.result(k.start, end), k.starved.conserved(k.start, end)
	p.Conserved.Longest = k.longest
}
