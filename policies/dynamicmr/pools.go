package dynamicmr

import (
	"cmp"
	"slices"

	"github.com/slotwise/slotwise/policies/hadoop"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// Sharer is an order that shares slots among pools. Without one all jobs are in
// one pool, and only the order decides.
type Sharer interface {
	// PoolShare returns a pool's minimum share of each kind in slots, and its
	// weight, which is positive.
	PoolShare(pool string) (minShare [job.Kinds]int, weight float64)
}

// pool counts the running and pending tasks of a pool. Both kinds together
// determine its rank (reading 23 in README.md).
type pool struct {
	name    string
	pending [job.Kinds]int // slots that tasks which may start would occupy, by kind
	running int            // slots in use by tasks of both kinds
	jobs    int            // live ones
	least   int            // minimum share of both kinds of slots
	weight  float64
	rank    rank
	ranked  bool // it is in demand.ranking
}

// rank is a pool's sort key by the comparator of Hadoop's fair scheduler. Pools
// below their minimum share go first, by running/minimum. The others follow by
// running/weight, then by name. A pool keeps the key it was sorted in with, so
// that binary search finds it again.
type rank struct {
	aboveMin bool // not below the minimum share
	load     float64
	name     string
}

// compareRank is FairShareComparator of Hadoop's fair scheduler for pools.
func compareRank(a, b rank) int {
	switch {
	case a.aboveMin != b.aboveMin && a.aboveMin:
		return 1
	case a.aboveMin != b.aboveMin:
		return -1
	}
	return cmp.Or(cmp.Compare(a.load, b.load), cmp.Compare(a.name, b.name))
}

// now returns the pool's present sort key.
func (p *pool) now() rank {
	demand := p.running + p.pending[job.Map] + p.pending[job.Reduce]
	// A pool without enough tasks to reach its minimum share is not below it.
	if least := min(p.least, demand); p.running < least {
		// Above 0, because some number of running tasks is below it. Hadoop divides by the same: with the whole
		// share, a pool of few tasks would look needier than one that lacks as large a part of its demand.
		return rank{false, float64(p.running) / float64(least), p.name}
	}
	return rank{true, float64(p.running) / p.weight, p.name}
}

// part is the contribution of one job to its pool's counts.
type part struct {
	pool    *pool
	pending [job.Kinds]int
	running int
	// held counts pending maps of a job that the order holds back.
	held int
	// ready counts pending reduces that need not wait for maps.
	ready int
}

// demand keeps the pending tasks of all jobs and pools, updated job by job, and
// the sorted pools that have any.
type demand struct {
	shares  Sharer
	holder  sched.LimitExplainer
	held    int          // pending maps of jobs that the order holds back
	early   hadoop.Early // reduces that may not start yet are not pending
	dirty   bool         // the set of jobs held back may have changed
	limited bool         // the order could hold jobs back when all were last counted
	parts   []part       // by job seat
	pools   map[string]*pool
	reduces int     // launchable reduces
	ready   int     // of these, reduces of jobs whose maps are all done
	ranking []*pool // pools with pending tasks, in order
}

func (d *demand) init() { d.pools = make(map[string]*pool) }

// pending returns how many tasks of a kind are pending and may start: P_M and
// P_R. It excludes reduces before their job's slow start and tasks of jobs that
// the order holds back.
func (d *demand) pending(v *sched.View, k job.Kind) int {
	if k == job.Map {
		return v.Jobs().Wanted(job.Map) - d.held
	}
	return d.reduces
}

// add adds a job.
func (d *demand) add(j *job.Job) {
	for j.Seat() >= len(d.parts) {
		d.parts = append(d.parts, part{})
	}
	name := ""
	// Without pools in the order, all jobs count as one.
	if d.shares != nil {
		name = j.Pool()
	}
	p := d.pools[name]
	if p == nil {
		p = &pool{name: name}
		d.pools[name] = p
	}
	p.jobs++
	d.parts[j.Seat()] = part{pool: p}
	d.count(j, false) // the order's hook for the job runs after this one
}

// setShare reads the pool's minimum share and weight from the order.
func (d *demand) setShare(p *pool) {
	p.least, p.weight = 0, 1
	if d.shares != nil {
		least, weight := d.shares.PoolShare(p.name)
		p.least = least[job.Map] + least[job.Reduce]
		if weight > 0 {
			p.weight = weight
		}
	}
}

// remove removes a job, and its pool with the last job.
func (d *demand) remove(j *job.Job) {
	c := &d.parts[j.Seat()]
	p := c.pool
	d.set(c, part{pool: p})
	c.pool = nil
	if p.jobs--; p.jobs == 0 {
		delete(d.pools, p.name)
	}
}

// refresh updates the counts of a job.
func (d *demand) refresh(j *job.Job) {
	if j.Seat() < len(d.parts) && d.parts[j.Seat()].pool != nil {
		d.count(j, d.holder != nil && d.holder.LimitReached(j, job.Map).Code == sched.JobsFull)
	}
}

// count computes the contribution of a job; held says that the order holds it
// back.
func (d *demand) count(j *job.Job, held bool) {
	c := &d.parts[j.Seat()]
	now := part{pool: c.pool, running: j.Occupied(job.Map) + j.Occupied(job.Reduce)}
	if held {
		// Reading 1 in README.md: tasks of a job that the order holds back cannot start, so they
		// are no demand.
		now.held = j.Wanted(job.Map)
	}
	for k := range job.Kind(job.Kinds) {
		if j.Launchable(k) && !held && (k == job.Map || d.early.Admits(j)) {
			now.pending[k] = j.Wanted(k)
		}
	}
	// Reduces that need not wait for maps. They alone may take a lent map slot under EarlyOwn; see Lends.
	if j.MapsDone() {
		now.ready = now.pending[job.Reduce]
	}
	d.set(c, now)
}

// jobLimiter is an order that knows whether it limits the number of jobs that run at once.
type jobLimiter interface{ LimitsJobs() bool }

// mayHold reports whether the order holds jobs back, as far as it says so.
func (d *demand) mayHold() bool {
	l, ok := d.holder.(jobLimiter)
	return d.holder != nil && (!ok || l.LimitsJobs())
}

// changed notes that a job has come, ended or changed its priority or pool. The order may then hold back
// other jobs than before, unless it holds none back.
func (d *demand) changed() { d.dirty = d.dirty || d.limited || d.mayHold() }

// refreshAll updates the counts of all jobs if the order may hold back other jobs than before.
func (d *demand) refreshAll(v *sched.View) {
	if !d.dirty {
		return
	}
	d.dirty, d.limited = false, d.mayHold()
	for _, j := range v.Jobs().Live() {
		d.refresh(j)
	}
}

// set replaces the contribution of a job and moves its pool in the ranking.
func (d *demand) set(c *part, now part) {
	if *c == now {
		return
	}
	p := c.pool
	// A pool is ranked by the counts that change here.
	d.unrank(p)
	for k := range p.pending {
		p.pending[k] += now.pending[k] - c.pending[k]
	}
	p.running += now.running - c.running
	d.reduces += now.pending[job.Reduce] - c.pending[job.Reduce]
	d.held += now.held - c.held
	d.ready += now.ready - c.ready
	*c = now
	d.enrank(p)
}

// unrank takes a pool out of the ranking, before its counts change.
func (d *demand) unrank(p *pool) {
	if !p.ranked {
		return
	}
	// The key of the last insertion finds the pool. p.now() would already reflect a share that changed
	// since, and the search would miss.
	at, _ := slices.BinarySearchFunc(d.ranking, p.rank, byRank)
	d.ranking = slices.Delete(d.ranking, at, at+1)
	p.ranked = false
}

// enrank puts a pool with pending tasks into the ranking, under its present key.
func (d *demand) enrank(p *pool) {
	// Alg 2 walks the ranking for each slot. Without this test the walk would also visit all pools without
	// work.
	if p.pending[job.Map]+p.pending[job.Reduce] == 0 {
		return
	}
	// The share is read again at each change of the pool, because pools may be configured while the master
	// runs. Pools that do not change are corrected by rerank.
	d.setShare(p)
	p.rank, p.ranked = p.now(), true
	at, _ := slices.BinarySearchFunc(d.ranking, p.rank, byRank)
	d.ranking = slices.Insert(d.ranking, at, p)
}

func byRank(p *pool, r rank) int { return compareRank(p.rank, r) }

// rerank reads all shares from the order again and sorts the pools.
func (d *demand) rerank() {
	if d.shares == nil {
		return
	}
	// All keys change before the sort: sorted with old and new keys mixed, later searches by key would miss
	// pools.
	for _, p := range d.ranking {
		d.setShare(p)
		p.rank = p.now()
	}
	slices.SortFunc(d.ranking, func(a, b *pool) int { return compareRank(a.rank, b.rank) })
}
