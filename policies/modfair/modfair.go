// Package modfair is the order of the modified fair scheduler (ModFair). Users'
// pools are served by how much they still need, and one shared pool lets the
// smallest jobs overtake the large ones.
//
// The update of sizes and entitlements (Figures 6 and 7) runs every 500 ms and when jobs or
// nodes arrive; update.go implements it. It decides which jobs are small and how
// many slots each pool is entitled to. Between updates, pools and jobs stay
// sorted while their counts change (pool.go), so that a heartbeat reads the order
// and sorts nothing.
//
//	Each = shared pool, while it runs less than its grant
//	     → pools below their entitlement, in the order of Figure 9
//	     → the other pools below their maximum, which borrow idle slots
//	     → if copies are wanted, jobs with running tasks only
//
// Inside a pool jobs are in the order of Figure 8. Its first key is a priority
// that the order keeps itself: it starts as the submitter's priority and changes
// with the locality of the job's maps (adjust). The tracker's priority does not
// change.
package modfair

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Order is the order of ModFair. It keeps counts for each pool and kind:
//
//	pending = Σ Pending, running = Σ Running   over the jobs now in the pool
//
// The hooks update them. No hook reports that the output of finished maps was
// lost; Begin notices that and counts again.
type Order struct {
	cfg  Config
	view *sched.View

	members []*member // all live jobs, by id
	asking  int       // members whose width follows the nodes; see job.Job.Asks
	bySeat  []*member // by job seat
	pools   []*pool   // users' pools with jobs, in order of creation
	byName  map[string]*pool
	shared  *pool

	// enabled says that the shared pool may launch tasks. grant holds the slots
	// that it was granted, which stay granted until it is empty at an update.
	enabled bool
	grant   [job.Kinds]int

	// counted is the census of the present members, unless uncounted is set; see count. fresh is a new
	// job that the next update classifies, with all others if the classes have changed.
	counted   census
	uncounted bool
	classes   classes
	fresh     *member

	// ready and busy are the users' pools in the order of Figure 9: pools with
	// a job that can launch a task, and pools with a job that has only running
	// ones.
	ready, busy [job.Kinds][]*pool
	pending     [job.Kinds]int // over all jobs
	draws       uint64         // random lots drawn so far, for ties between pools
}

var (
	_ sched.Order          = (*Order)(nil)
	_ sched.Starter        = (*Order)(nil)
	_ sched.JobWatcher     = (*Order)(nil)
	_ sched.ChangeWatcher  = (*Order)(nil)
	_ sched.TaskWatcher    = (*Order)(nil)
	_ sched.NodeWatcher    = (*Order)(nil)
	_ sched.Periodic       = (*Order)(nil)
	_ sched.Explainer      = (*Order)(nil)
	_ sched.LimitExplainer = (*Order)(nil)
)

// New returns an order without jobs. cfg must be valid.
func New(cfg Config) *Order {
	o := &Order{cfg: cfg, byName: make(map[string]*pool)}
	o.shared = &pool{name: sharedName, shared: true, compare: compareSubmitted}
	if cfg.SharedSorted {
		o.shared.compare = o.compareJobs()
	}
	return o
}

// Start implements sched.Starter.
func (o *Order) Start(v *sched.View, _ time.Duration) { o.view = v }

// Begin notices map output that was lost since the last round. Such maps are
// pending again, and the total of pending tasks shows that in constant time.
func (o *Order) Begin(r *sched.Round) {
	if !o.current(r.Jobs()) {
		o.recount()
	}
}

// Quiet implements sched.Quiet: Begin has nothing to count again.
func (o *Order) Quiet() bool { return o.current(o.view.Jobs()) }

// Holds implements sched.Holder: every pool with a task to launch has reached its maximum.
func (o *Order) Holds(k job.Kind) bool {
	if o.sharedOpen(k) && len(o.shared.side[k].ready) > 0 {
		return false
	}
	for _, p := range o.ready[k] {
		if o.mayBorrow(p, k) { // an entitled pool may, too
			return false
		}
	}
	return true
}

// HoldsJob implements sched.Holder: the job's pool has reached its maximum.
func (o *Order) HoldsJob(j *job.Job, k job.Kind) bool {
	if p := o.bySeat[j.Seat()].at; !p.shared {
		return !o.mayBorrow(p, k)
	}
	return !o.sharedOpen(k)
}

// current reports whether the counts of pending tasks have the right sum.
func (o *Order) current(jobs *job.List) bool {
	return o.pending[job.Map] == jobs.Wanted(job.Map) && o.pending[job.Reduce] == jobs.Wanted(job.Reduce)
}

func (o *Order) recount() {
	for _, m := range o.members {
		o.sync(m)
	}
}

// Each implements sched.Order.
func (o *Order) Each(r *sched.Round, of sched.Offer, visit func(sched.Candidate) bool) {
	if o.each(r, of, of.Kind, visit) && of.Either {
		o.each(r, of, of.Kind.Other(), visit)
	}
}

// each chooses the jobs for one kind. The second pass leaves out the pools of the
// first, whose jobs would only decline again. It returns false when the offer
// is filled.
func (o *Order) each(r *sched.Round, of sched.Offer, k job.Kind, visit func(sched.Candidate) bool) bool {
	if o.sharedOpen(k) && !serve(of, k, o.shared.side[k].ready, visit) {
		return false
	}
	// Pools below their entitlement come first, whatever their position among all pools.
	// Two walks in the same order: within each pass Figure 9 decides.
	for _, borrow := range [2]bool{false, true} {
		for _, p := range o.ready[k] {
			if o.entitled(p, k) != borrow && (!borrow || o.mayBorrow(p, k)) && !serve(of, k, p.side[k].ready, visit) {
				return false
			}
		}
	}
	return of.NoCopies || !r.CopiesOf(k) || o.eachBusy(of, k, visit)
}

// eachBusy visits jobs whose running tasks could be copied, after all pending
// work. A copy occupies a slot, so the limits of pools apply to copies too.
func (o *Order) eachBusy(of sched.Offer, k job.Kind, visit func(sched.Candidate) bool) bool {
	if o.sharedOpen(k) && !serve(of, k, o.shared.side[k].busy, visit) {
		return false
	}
	for _, p := range o.busy[k] {
		if o.mayBorrow(p, k) && !serve(of, k, p.side[k].busy, visit) {
			return false
		}
	}
	return true
}

// serve visits the jobs of a list. It returns false when the offer is filled.
func serve(of sched.Offer, k job.Kind, list []*member, visit func(sched.Candidate) bool) bool {
	for _, m := range list {
		if (of.Pool == "" || of.Pool == m.job.Pool()) && !visit(sched.Candidate{Job: m.job, Kind: k}) {
			return false
		}
	}
	return true
}

// entitled reports whether a pool may launch in the first pass.
func (o *Order) entitled(p *pool, k job.Kind) bool {
	run := p.side[k].running
	return run < p.max(k) && (!o.cfg.Allocate || run < p.side[k].quota)
}

// mayBorrow reports whether a pool may launch in the second pass (reading 9 in README.md).
func (o *Order) mayBorrow(p *pool, k job.Kind) bool {
	return !o.cfg.MaxHard || p.side[k].running < p.max(k)
}

// sharedOpen reports whether the shared pool may launch. It does not borrow
// (reading 8 in README.md).
func (o *Order) sharedOpen(k job.Kind) bool {
	return o.enabled && o.shared.side[k].running < o.sharedQuota(k)
}

// JobAdded implements sched.JobWatcher.
func (o *Order) JobAdded(j *job.Job) {
	m := &member{job: j, priority: j.Priority()}
	for j.Seat() >= len(o.bySeat) {
		o.bySeat = append(o.bySeat, nil)
	}
	o.bySeat[j.Seat()] = m
	at, _ := slices.BinarySearchFunc(o.members, j.ID(), compareID)
	o.members = slices.Insert(o.members, at, m)
	if j.Asks() {
		o.asking++
	}
	o.counted.add(j)
	o.fresh = m
	// The user's pool first, because update moves small jobs from there and the others stay.
	m.home = o.poolOf(j.Pool())
	m.home.homes++
	o.join(m, m.home)
	if o.cfg.Classify == ClassifySubmit {
		// Before update, which only keeps the shared pool open for the jobs that are in it.
		o.classifyOne(m)
	}
	// Reading 3 in README.md: without an update now the first job would wait for the next one with no
	// entitlement and no size to compare.
	o.update()
}

// JobRemoved implements sched.JobWatcher. Entitlements change at the next
// update.
func (o *Order) JobRemoved(j *job.Job) {
	m := o.bySeat[j.Seat()]
	o.leave(m)
	o.bySeat[j.Seat()] = nil
	if at, ok := slices.BinarySearchFunc(o.members, j.ID(), compareID); ok {
		o.members = slices.Delete(o.members, at, at+1)
	}
	if j.Asks() {
		o.asking--
	}
	// Counted when an update asks, not here: a thousand jobs that end between two updates cost one walk.
	if !o.counted.remove(j) {
		o.uncounted = true
	}
	o.releaseHome(m.home)
}

// releaseHome records that a pool has one job fewer, wherever the job was. The
// pool is removed with its last job.
func (o *Order) releaseHome(home *pool) {
	if home.homes--; home.homes == 0 {
		// Pools are named by users, who come and go. Otherwise each update would divide slots among all
		// that ever submitted.
		delete(o.byName, home.name)
		o.pools = slices.DeleteFunc(o.pools, func(p *pool) bool { return p == home })
	}
}

// rehome moves a job to the pool that it names now. A small job stays in the
// shared pool.
func (o *Order) rehome(m *member) {
	from, to := m.home, o.poolOf(m.job.Pool())
	m.home = to
	// Before the old home loses the job: a pool that is both is not removed.
	to.homes++
	// A small job is in the shared pool, wherever its home is.
	if m.at == from {
		o.move(m, to)
	}
	o.releaseHome(from)
	o.update()
}

func compareID(m *member, id job.ID) int { return cmp.Compare(m.job.ID(), id) }

// JobChanged implements sched.ChangeWatcher. A priority set by the user
// replaces the one adjusted by locality.
func (o *Order) JobChanged(j *job.Job, c sched.Change) {
	m := o.bySeat[j.Seat()]
	switch c {
	case sched.PriorityChanged:
		o.prioritize(m, j.Priority())
	case sched.PoolChanged:
		o.rehome(m)
	default:
		o.sync(m)
	}
}

// TaskStarted implements sched.TaskWatcher.
func (o *Order) TaskStarted(a *job.Attempt, _ time.Duration) {
	m := o.bySeat[a.Job().Seat()]
	o.syncKind(m, a.Kind())
	o.launched(m, a)
}

// TaskEnded implements sched.TaskWatcher.
func (o *Order) TaskEnded(a *job.Attempt, _ time.Duration) {
	o.syncKind(o.bySeat[a.Job().Seat()], a.Kind())
}

// NodeJoined implements sched.NodeWatcher.
func (o *Order) NodeJoined(*cluster.Node) { o.update() }

// NodeLost implements sched.NodeWatcher.
func (o *Order) NodeLost(*cluster.Node) {
	// The node's map outputs are lost, and no hook names the jobs whose maps are pending again.
	o.recount()
	o.update()
}

// CapacityChanged implements sched.CapacityWatcher.
func (o *Order) CapacityChanged() { o.update() }

// Interval implements sched.Periodic. The paper uses 500 ms.
func (o *Order) Interval() time.Duration { return o.cfg.UpdateInterval }

// Update implements sched.Periodic. It comes twice a second and most often finds nothing to count
// again. Lost outputs only add pending tasks, so an unchanged sum proves that there are none. A
// change of the nodes may also make the widths of jobs smaller, which could hide them in the sum.
func (o *Order) Update(time.Duration) {
	if o.asking > 0 || !o.current(o.view.Jobs()) {
		o.recount()
	}
	o.update()
}

// poolOf returns a user's pool and creates it if necessary.
func (o *Order) poolOf(name string) *pool {
	p := o.byName[name]
	if p == nil {
		limits, ok := o.cfg.Pools[name]
		if !ok {
			limits = o.cfg.Default
		}
		p = &pool{name: name, limits: limits, auto: o.autoMax(), compare: o.compareJobs()}
		o.byName[name] = p
		o.pools = append(o.pools, p)
	}
	return p
}

// noLimit is the maximum of a pool without one.
const noLimit = math.MaxInt

// launched applies Table 3 to a launched map. Only maps that could wait for a better
// node count: a copy runs wherever a slot is free, and a split without
// locations is equally far from all nodes.
func (o *Order) launched(m *member, a *job.Attempt) {
	if a.Kind() != job.Map || a.Speculative() || a.Level() == cluster.NONE {
		return
	}
	// Also for the first map, and with TableOff: the next map is compared with this level.
	before := m.level
	m.level = a.Level()
	// Table 3 compares two successive maps, and the first one has no predecessor.
	if before != 0 && o.cfg.Table != TableOff {
		o.prioritize(m, adjust(m.priority, before, m.level, o.cfg.Table))
	}
}

// adjust is Table 3. The priority changes by as many levels as the locality of
// two successive maps, and does not stay at an extreme. The printed table
// (TablePrint) differs in two ways: priorities stay at an extreme while
// locality does not change, and the row from None to Node lowers them by one
// level.
func adjust(p job.Priority, before, now job.Level, table Table) job.Priority {
	step := int(before) - int(now) // levels count from the closest
	// Readings 13 and 14 in README.md.
	if table == TablePrint {
		switch {
		case step == 0:
			return p
		case before == cluster.ANY && now == cluster.NODE:
			step = -1
		}
	}
	q := job.Priority(min(max(int(p)+step, int(job.VeryLow)), int(job.VeryHigh)))
	switch {
	case p != q:
		return q
	case q == job.VeryHigh:
		return job.High
	case q == job.VeryLow:
		return job.Low
	}
	return q
}

// LimitReached implements sched.LimitExplainer: a full pool holds back all its
// jobs, including jobs that no round visits.
func (o *Order) LimitReached(j *job.Job, k job.Kind) sched.Reason {
	m := o.bySeat[j.Seat()]
	run := m.at.side[k].running
	switch {
	case m.at.shared && !o.sharedOpen(k):
		return sched.Reason{Code: sched.PartitionFull, Pool: m.at.name, Have: run, Need: o.sharedQuota(k)}
	case !m.at.shared && !o.mayBorrow(m.at, k):
		return sched.Reason{Code: sched.PoolFull, Pool: m.at.name, Have: run, Need: m.at.max(k)}
	}
	return sched.Reason{}
}

// Explain implements sched.Explainer. It describes the entitlement of the job's
// pool, unless Held explains the wait, and the priority after adjustment.
func (o *Order) Explain(j *job.Job, k job.Kind, _ time.Duration) string {
	if !j.Launchable(k) {
		return ""
	}
	m := o.bySeat[j.Seat()]
	text := ""
	if o.LimitReached(j, k).Code == sched.NoReason {
		text = o.describePool(m.at, k)
	}
	// A change by Table 3, which the user has not asked for.
	if m.priority != j.Priority() {
		if text != "" {
			text += "; "
		}
		text += fmt.Sprintf("its priority %v counts as %v now, because of how close its last maps ran to their data",
			j.Priority(), m.priority)
	}
	return text
}

// describePool compares a pool that may launch with its entitlement.
func (o *Order) describePool(p *pool, k job.Kind) string {
	s := &p.side[k]
	switch {
	case p.shared:
		return "as one of the smallest jobs it is served ahead of the others"
	case !o.cfg.Allocate || s.quota == 0:
		return ""
	case s.running < s.quota:
		return fmt.Sprintf("pool %q runs %d of the %d %ss that it is entitled to", p.name, s.running, s.quota, k)
	}
	return fmt.Sprintf("pool %q runs %d %ss, no fewer than the %d that it is entitled to, so that pools short of theirs come first",
		p.name, s.running, k, s.quota)
}

// Advances implements sched.Advancer. Priority counts within a pool, but not in the
// shared pool. It never advises another pool: pools are ordered by their needs, and a
// move changes the needs of both pools.
func (o *Order) Advances(j, before *job.Job, k job.Kind) (byPriority, byPool bool) {
	x, y := o.bySeat[j.Seat()], o.bySeat[before.Seat()]
	if x.at != y.at || x.at.shared {
		return false, false
	}
	// A copy, because the lists are searched by the keys of their members.
	raised := *x
	raised.priority = job.VeryHigh
	return x.at.compare(&raised, y, k) < 0, false
}

var _ sched.Advancer = (*Order)(nil)
