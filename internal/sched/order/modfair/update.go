package modfair

import "github.com/slotwise/slotwise/internal/job"

// update is what the specification calls Update, §3.1 to §3.3, in its order. It
// walks all jobs and pools once, and allocates nothing.
func (o *Order) update() {
	if o.shared.size == 0 {
		o.grant = [job.Kinds]int{} // its last job has ended: released
	}
	c := o.census()
	switch o.cfg.Classify {
	case ClassifyTick:
		o.enabled = o.admits(c)
		for _, m := range o.members {
			o.place(m, c)
		}
	case ClassifySubmit:
		o.enabled = o.shared.size > 0
	}
	o.grantShared(c)
	for k := range job.Kind(job.Kinds) {
		o.allocate(k)
	}
}

// place moves a job to the pool that Figure 6 has for it.
func (o *Order) place(m *member, c census) {
	if maps := m.job.Total(job.Map); o.enabled && maps > 0 && maps <= c.maps {
		o.move(m, o.shared)
	} else {
		o.move(m, m.home)
	}
}

// classifyOne is Figure 6 taken literally: a job that has just come is looked at
// once (A1, submit).
func (o *Order) classifyOne(m *member) {
	c := o.census()
	o.enabled = o.admits(c)
	o.place(m, c)
}

// census is what classification needs to know of all jobs with maps.
type census struct {
	total   int // TotalJobs
	small   int // SmallJobs
	maps    int // minJobSize, undefined if there is no job
	reduces int // minReduces
}

// census counts jobs by their size at submission, not by what is left (A2). Jobs
// without reduces do not count for minReduces: they would leave a small job of
// the same size, one that has reduces, without any slot for them.
func (o *Order) census() (c census) {
	for _, m := range o.members {
		maps, reduces := m.job.Total(job.Map), m.job.Total(job.Reduce)
		if maps == 0 {
			continue
		}
		c.total++
		switch {
		case c.small == 0 || maps < c.maps:
			c.small, c.maps, c.reduces = 1, maps, reduces
		case maps == c.maps:
			c.small++
			if c.reduces == 0 || reduces > 0 && reduces < c.reduces {
				c.reduces = reduces
			}
		}
	}
	return c
}

// admits is the threshold of §3.2: SmallJobs/TotalJobs ≤ 1 / (map slots a node),
// in integers. A cluster without map slots has no shared pool.
func (o *Order) admits(c census) bool {
	slots, nodes := o.slots(job.Map), o.nodes()
	return c.total > 0 && slots > 0 && c.small*slots <= c.total*nodes
}

// grantShared gives the shared pool half of what the smallest job needs, if it
// holds nothing yet. A grant is kept as it is until it is released.
func (o *Order) grantShared(c census) {
	if !o.enabled || o.shared.size == 0 {
		o.grant = [job.Kinds]int{}
		return
	}
	for k, need := range [job.Kinds]int{c.maps, c.reduces} {
		if o.grant[k] == 0 {
			o.grant[k] = (need + 1) / 2 // A6: rounded up
		}
	}
}

// sharedQuota is the grant, clipped to what the cluster has. One slot remains
// even if it has none: under slots without kinds the task may run nevertheless.
func (o *Order) sharedQuota(k job.Kind) int {
	return min(o.grant[k], max(1, o.slots(k)))
}

// allocate is Figure 7 for one kind of slot: what the shared pool leaves goes to
// the users' pools by what they have waiting.
func (o *Order) allocate(k job.Kind) {
	all := 0 // allPoolsTasks
	for _, p := range o.pools {
		all += p.side[k].pending
	}
	left := o.remaining(k)
	for _, p := range o.pools {
		s := &p.side[k]
		s.quota = 0
		if all > 0 {
			s.quota = min(p.max(k), (left*s.pending+all-1)/all) // A6: rounded up
		}
	}
}

// remaining is RemainingSlots (A5): of all slots, or of the idle ones, in which
// the shared pool has reserved what it does not use of its grant.
func (o *Order) remaining(k job.Kind) int {
	quota := o.sharedQuota(k)
	if !o.cfg.RemainFree {
		return max(0, o.slots(k)-quota)
	}
	used := 0
	if o.view != nil {
		used = o.view.Jobs().RunningOn(job.Map, k) + o.view.Jobs().RunningOn(job.Reduce, k)
	}
	return max(0, o.slots(k)-used-max(0, quota-o.shared.side[k].running))
}

// slots counts the slots of a kind of live nodes, and nodes those nodes.
func (o *Order) slots(k job.Kind) int {
	if o.view == nil {
		return 0
	}
	return o.view.Nodes().Slots(k)
}

func (o *Order) nodes() int {
	if o.view == nil {
		return 0
	}
	return o.view.Nodes().Alive()
}
