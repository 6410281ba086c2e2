package modfair

import "github.com/slotwise/slotwise/sched/job"

// update computes sizes (Figure 6) and entitlements (Figure 7). It visits all pools, and all jobs
// if their classes may have changed. It allocates nothing.
func (o *Order) update() {
	// Before jobs are classified: the first job that joins the empty pool must get a grant by its own size
	// (Figure 7).
	if o.shared.size == 0 {
		o.grant = [job.Kinds]int{} // its last job has ended
	}
	c := o.count()
	switch o.cfg.Classify {
	case ClassifyTick:
		// The class of a job follows from these two alone.
		// The walk below is over all jobs, so it is worth avoiding: most updates find both unchanged.
		now := classes{o.admits(c), c.maps}
		switch o.enabled = now.enabled; {
		case now != o.classes:
			o.classes = now
			for _, m := range o.members {
				o.classify(m, c)
			}
		case o.fresh != nil:
			o.classify(o.fresh, c)
		}
	// No job joins the shared pool at an update. The pool stays open for the jobs that are in it.
	case ClassifySubmit:
		o.enabled = o.shared.size > 0
	}
	o.fresh = nil
	// Before allocate: the users' pools share all slots but the grant.
	o.grantShared(c)
	for k := range job.Kind(job.Kinds) {
		o.allocate(k)
	}
}

// classes holds the two facts by which jobs were last classified: whether the shared pool may launch tasks,
// and the number of maps of the smallest jobs.
type classes struct {
	enabled bool
	maps    int
}

// classify moves a job to the shared pool if it is small, otherwise to its
// user's pool (Figure 6).
func (o *Order) classify(m *member, c census) {
	// A job without maps has no size in the paper's sense, and would be the smallest of all.
	if maps := m.job.Total(job.Map); o.enabled && maps > 0 && maps <= c.maps {
		o.move(m, o.shared)
	} else {
		o.move(m, m.home)
	}
}

// classifyOne is Figure 6 taken literally: a job is classified once, when it is
// submitted (reading 1 in README.md, classify=submit).
func (o *Order) classifyOne(m *member) {
	c := o.count()
	o.enabled = o.admits(c)
	o.classify(m, c)
}

// census holds the counts of all jobs with maps that classification needs. Jobs count with their
// size at submission, not with their remaining tasks (reading 2 in README.md). Jobs without reduces do
// not count for minReduces. Otherwise a small job of the same size with reduces would get no slot for them.
type census struct {
	total   int // TotalJobs
	small   int // SmallJobs
	maps    int // minJobSize, undefined without jobs
	reduces int // minReduces
	fewest  int // small jobs with that number of reduces
}

// count returns the census of the present members. There may be thousands, so jobs that come and go
// change the counts, and the members are counted only when the jobs that decide are gone.
func (o *Order) count() census {
	if o.uncounted {
		o.counted, o.uncounted = o.census(), false
	}
	return o.counted
}

// census counts all members.
func (o *Order) census() (c census) {
	for _, m := range o.members {
		c.add(m.job)
	}
	return c
}

// add counts a job.
func (c *census) add(j *job.Job) {
	maps, reduces := j.Total(job.Map), j.Total(job.Reduce)
	if maps == 0 {
		return
	}
	c.total++
	switch {
	// A new smallest job. The former smallest ones are small no more, whatever their number of reduces.
	case c.small == 0 || maps < c.maps:
		c.small, c.maps, c.reduces, c.fewest = 1, maps, reduces, 1
	case maps == c.maps:
		c.small++
		switch {
		case reduces == c.reduces:
			c.fewest++
		case c.reduces == 0 || reduces > 0 && reduces < c.reduces:
			c.reduces, c.fewest = reduces, 1
		}
	}
}

// remove takes a job out of the counts. It returns false if they do not say any more which jobs are
// the smallest, or how many reduces these have.
func (c *census) remove(j *job.Job) bool {
	maps, reduces := j.Total(job.Map), j.Total(job.Reduce)
	if maps == 0 {
		return true
	}
	c.total--
	// Larger jobs count in the total only.
	if maps > c.maps {
		return true
	}
	c.small--
	if reduces == c.reduces {
		c.fewest--
	}
	return c.fewest > 0
}

// admits is the threshold of Figure 6, in integers: SmallJobs/TotalJobs ≤ 1 / (map
// slots per node). Slots and nodes are both of nodes that take work: with a drained node among the nodes
// alone, the threshold would admit more than one small job for each node that can run it. A cluster
// without map slots has no shared pool.
func (o *Order) admits(c census) bool {
	slots, nodes := o.slots(job.Map), o.nodes()
	// Multiplied out, because a quotient of 1/3 is not exact and the threshold itself admits.
	return c.total > 0 && slots > 0 && c.small*slots <= c.total*nodes
}

// grantShared grants the shared pool half of the slots that the smallest job
// needs, if it has no grant yet. A grant does not change until it is released.
func (o *Order) grantShared(c census) {
	// A disabled pool keeps no slots from the others. Its running tasks count where their jobs are now.
	if !o.enabled || o.shared.size == 0 {
		o.grant = [job.Kinds]int{}
		return
	}
	for k, need := range [job.Kinds]int{c.maps, c.reduces} {
		// Figure 7 makes the grant once. A smaller job that arrives later takes no slots from the
		// small jobs that run.
		if o.grant[k] == 0 {
			o.grant[k] = (need + 1) / 2 // reading 6 in README.md: rounded up
		}
	}
}

// sharedQuota returns the grant, limited to the slots of the cluster. It is at
// least one slot even if the cluster has none of the kind: where slots have no
// kind, the task can run nevertheless.
func (o *Order) sharedQuota(k job.Kind) int {
	return min(o.grant[k], max(1, o.slots(k)))
}

// autoMax computes the value of AutoMax from the present number of map slots.
func (o *Order) autoMax() int {
	const paper, of = 6, 16 // map slots of a pool, and of the paper's cluster
	return max(paper, (o.slots(job.Map)*paper+of-1)/of)
}

// allocate is Figure 7 for one kind of slot: it divides the slots outside the
// shared pool's grant among the users' pools, in proportion to their pending
// tasks.
func (o *Order) allocate(k job.Kind) {
	all := 0 // allPoolsTasks
	for _, p := range o.pools {
		all += p.side[k].pending
	}
	left, auto := o.remaining(k), o.autoMax()
	for _, p := range o.pools {
		p.auto = auto
		s := &p.side[k]
		// An idle pool's last entitlement must not survive: it would go first with the next job's first
		// task.
		s.quota = 0
		// Without pending tasks no pool needs anything, and the fraction is 0/0.
		if all > 0 {
			s.quota = min(p.max(k), (left*s.pending+all-1)/all) // reading 6 in README.md: rounded up
		}
	}
}

// remaining returns RemainingSlots (reading 5 in README.md): all slots, or the idle ones, minus the
// unused part of the shared pool's grant.
func (o *Order) remaining(k job.Kind) int {
	quota := o.sharedQuota(k)
	if !o.cfg.RemainFree {
		return max(0, o.slots(k)-quota)
	}
	used := 0
	if o.view != nil {
		used = o.view.Jobs().OccupiedOn(job.Map, k) + o.view.Jobs().OccupiedOn(job.Reduce, k)
	}
	return max(0, o.slots(k)-used-max(0, quota-o.shared.side[k].running))
}

// slots counts the slots of a kind on nodes that take work.
func (o *Order) slots(k job.Kind) int {
	if o.view == nil {
		return 0
	}
	return o.view.Nodes().Slots(k)
}

// nodes counts the nodes that take work.
func (o *Order) nodes() int {
	if o.view == nil {
		return 0
	}
	return o.view.Nodes().Open()
}
