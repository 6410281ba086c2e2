// Package modfair is the order of the modified fair scheduler (ModFair): pools
// of users that are served by what they still need, and one shared pool through
// which the smallest jobs pass the large ones.
//
// What the specification calls an Update (500 ms, and when jobs or nodes come)
// is in update.go: which jobs are small, and how many slots each pool is
// entitled to. In between, pools and jobs are kept sorted as their counts
// change (pool.go), so that a heartbeat reads the order and sorts nothing.
//
//	Each = shared pool, while it runs less than its grant
//	     → pools below their entitlement, in the order of Figure 9
//	     → the other pools below their maximum, which borrow what is idle
//	     → if copies are wanted, jobs that have nothing left to start
//
// Inside a pool jobs are in the order of Figure 8, whose first key is a priority
// of the order's own (priority.go): it starts as the submitter's and moves with
// the locality of the job's maps; the tracker's priority is never touched.
package modfair

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// Order is the order of ModFair. Counts that it keeps, for each pool and kind:
//
//	pending = Σ Pending, running = Σ Running   over the jobs now in the pool
//
// They are brought up to date by the hooks, and by Begin after the one change
// that no hook tells: output of finished maps that was lost.
type Order struct {
	cfg  Config
	view *sched.View

	members []*member // all jobs, by ID
	bySeat  []*member
	pools   []*pool // those of users that have jobs, in order of coming
	byName  map[string]*pool
	shared  *pool

	// enabled says that the shared pool serves; grant holds what it was given,
	// which is kept until it is released.
	enabled bool
	grant   [job.Kinds]int

	// ready and busy are the users' pools in the order of Figure 9: those with
	// a job that can launch, and those with one that could only be copied.
	ready, busy [job.Kinds][]*pool
	pending     [job.Kinds]int // over all jobs
	draws       uint64         // lots drawn so far for ties of pools
}

var (
	_ sched.Order         = (*Order)(nil)
	_ sched.Starter       = (*Order)(nil)
	_ sched.JobWatcher    = (*Order)(nil)
	_ sched.ChangeWatcher = (*Order)(nil)
	_ sched.TaskWatcher   = (*Order)(nil)
	_ sched.NodeWatcher   = (*Order)(nil)
	_ sched.Periodic      = (*Order)(nil)
	_ sched.Explainer     = (*Order)(nil)
	_ sched.Holder        = (*Order)(nil)
)

// New returns an order without jobs. The configuration must have been checked.
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

// Begin notices output that was lost since the last round: the tasks are
// pending again, and only the sum over all jobs shows it at once.
func (o *Order) Begin(r *sched.Round) {
	for k := range job.Kind(job.Kinds) {
		if o.pending[k] != r.Jobs().Pending(k) {
			o.recount()
			return
		}
	}
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

// each is §3.6 step 2 for one kind. The second pass leaves out the pools of the
// first: their jobs would only refuse again.
func (o *Order) each(r *sched.Round, of sched.Offer, k job.Kind, visit func(sched.Candidate) bool) bool {
	if o.sharedOpen(k) && !serve(of, k, o.shared.side[k].ready, visit) {
		return false
	}
	for _, borrow := range [2]bool{false, true} {
		for _, p := range o.ready[k] {
			if o.entitled(p, k) != borrow && (!borrow || o.mayBorrow(p, k)) && !serve(of, k, p.side[k].ready, visit) {
				return false
			}
		}
	}
	return !r.Copies() || of.NoCopies || o.eachBusy(of, k, visit)
}

// eachBusy visits the jobs whose running tasks could be copied, after all fresh
// work. A copy occupies a slot, so the limits of the pools hold for it as well.
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

func serve(of sched.Offer, k job.Kind, list []*member, visit func(sched.Candidate) bool) bool {
	for _, m := range list {
		if (of.Pool == "" || of.Pool == m.job.Pool()) && !visit(sched.Candidate{Job: m.job, Kind: k}) {
			return false
		}
	}
	return true
}

// entitled says that a pool may launch in the first pass.
func (o *Order) entitled(p *pool, k job.Kind) bool {
	run := p.side[k].running
	return run < p.max(k) && (!o.cfg.Allocate || run < p.side[k].quota)
}

// mayBorrow says that a pool may launch in the second pass (A9).
func (o *Order) mayBorrow(p *pool, k job.Kind) bool {
	return !o.cfg.MaxHard || p.side[k].running < p.max(k)
}

// sharedOpen says that the shared pool may launch: it does not borrow (A8).
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
	m.home = o.poolOf(j.Pool())
	m.home.homes++
	o.enter(m, m.home)
	if o.cfg.Classify == ClassifySubmit {
		o.classifyOne(m)
	}
	o.update()
}

// JobRemoved implements sched.JobWatcher. The next update reacts.
func (o *Order) JobRemoved(j *job.Job) {
	m := o.bySeat[j.Seat()]
	o.leave(m)
	o.bySeat[j.Seat()] = nil
	if at, ok := slices.BinarySearchFunc(o.members, j.ID(), compareID); ok {
		o.members = slices.Delete(o.members, at, at+1)
	}
	o.forsake(m.home)
}

// forsake counts one job less that belongs to a pool, which goes with the last.
func (o *Order) forsake(home *pool) {
	if home.homes--; home.homes == 0 {
		delete(o.byName, home.name)
		o.pools = slices.DeleteFunc(o.pools, func(p *pool) bool { return p == home })
	}
}

// rehome makes a job belong to the pool that it names now. One that is elsewhere
// because it is small stays there.
func (o *Order) rehome(m *member) {
	from, to := m.home, o.poolOf(m.job.Pool())
	m.home = to
	to.homes++
	if m.at == from {
		o.move(m, to)
	}
	o.forsake(from)
	o.update()
}

func compareID(m *member, id job.ID) int { return cmp.Compare(m.job.ID(), id) }

// JobChanged implements sched.ChangeWatcher. A priority given by the user
// replaces what locality has made of the old one.
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

// TaskStarted implements sched.TaskWatcher. Tasks start and end between their
// job's coming and going.
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
	o.recount()
	o.update()
}

// CapacityChanged implements sched.CapacityWatcher.
func (o *Order) CapacityChanged() { o.update() }

// Interval implements sched.Periodic: 500 ms in the paper.
func (o *Order) Interval() time.Duration { return o.cfg.UpdateInterval }

// Update implements sched.Periodic.
func (o *Order) Update(time.Duration) {
	o.recount()
	o.update()
}

// poolOf returns a user's pool, new if it has no job yet.
func (o *Order) poolOf(name string) *pool {
	p := o.byName[name]
	if p == nil {
		limits, ok := o.cfg.Pools[name]
		if !ok {
			limits = o.cfg.Default
		}
		p = &pool{name: name, limits: limits, compare: o.compareJobs()}
		o.byName[name] = p
		o.pools = append(o.pools, p)
	}
	return p
}

// noLimit is the maximum of a pool that has none.
const noLimit = math.MaxInt
