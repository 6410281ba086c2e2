// Package fair is the order of Hadoop's fair scheduler: pools, and the jobs in
// each pool, share the slots by weight and minimum share, and a pool that starves
// may preempt tasks of others.
package fair

import (
	"slices"
	"time"

	"github.com/slotwise/slotwise/policies/hadoop"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// Order is Hadoop's fair scheduler. It gives each pool, and within it each job,
// its share of the slots by serving first the one that is furthest below what
// it is due: pools below their minimum share before all others, by
// running/minimum, then the rest by running/weight. Ties go by time of
// submission, then by job id or pool name.
//
// Pools and jobs that can launch something are kept sorted while tasks start
// and end, so that a heartbeat visits only as many as its slots need. Fair
// shares do not determine the order. They are computed periodically, for
// preemption, for size weights and for people.
//
// Invariants, for each pool and kind:
//
//	running = Σ Job.Running over the pool's jobs
//	jobs    = its runnable jobs that can launch a task of the kind
//	rest    = its other runnable jobs with running tasks
type Order struct {
	cfg   Config
	view  *sched.View
	now   time.Duration     // of the last hook that had the time
	round *sched.Round      // the tracker's present round
	all   *sched.SortedJobs // all live jobs, most urgent first; limits on running jobs admit in this order
	jobs  []*member         // by seat
	pools []*pool           // by name
	// ready ranks the pools that can launch a task of the kind. busy also ranks
	// pools with running tasks, which may need speculative copies.
	ready, busy    [job.Kinds]ranking[*pool]
	claims         []*claim       // scratch space of updateShares
	victims        []sched.Victim // chosen by the last check, until Preempt returns them
	checked        time.Duration  // time of the last check for preemption
	admissionStale bool           // the set of runnable jobs must be computed again
	jobsLimited    bool           // some pool or user has a limit on running jobs
	ended          []Share        // shares of jobs that ended since the last update
	changes        int64          // changes of jobs, tasks and limits that the policy has received
	shared         sharesKey      // when a query last computed the shares
}

var (
	_ sched.Order          = (*Order)(nil)
	_ sched.Starter        = (*Order)(nil)
	_ sched.JobWatcher     = (*Order)(nil)
	_ sched.ChangeWatcher  = (*Order)(nil)
	_ sched.TaskWatcher    = (*Order)(nil)
	_ sched.Periodic       = (*Order)(nil)
	_ sched.Preempter      = (*Order)(nil)
	_ sched.Explainer      = (*Order)(nil)
	_ sched.LimitExplainer = (*Order)(nil)
	_ sched.Reconfigurable = (*Order)(nil)
)

// New returns an order without jobs.
func New(cfg Config) *Order {
	// By priority first, because limits on running jobs admit in this order (Hadoop's updateRunnability).
	f := &Order{cfg: cfg, all: sched.NewSortedJobs(hadoop.Urgency), jobsLimited: cfg.Pools.limitsJobs()}
	f.pool(DefaultPool)
	f.addPools()
	return f
}

// DefaultPool is the pool of jobs that name none. It always exists.
const DefaultPool = "default"

// member is a live job with its claim and its position in the rankings, by
// kind.
type member struct {
	job      *job.Job
	pool     *pool
	runnable bool         // admitted under the limits on running jobs
	held     sched.Reason // why the job is not runnable
	side     [job.Kinds]struct {
		claim
		ready, busy entry
	}
}

// pool is a pool with its claim and its position in the rankings, by kind.
type pool struct {
	name   string
	limits PoolLimits
	side   [job.Kinds]struct {
		claim
		running     int
		ready, busy entry
		jobs        ranking[*job.Job] // runnable jobs that can launch a task
		rest        ranking[*job.Job] // other runnable jobs with running tasks, which may need copies
		list        []*member         // all jobs, in the order of the last sort with stale demand
		// The last time at which the pool had its minimum share, and half its
		// fair share. Preemption counts its timeouts from them.
		atMin, atHalf time.Duration
	}
}

// Start implements sched.Starter.
func (f *Order) Start(v *sched.View, now time.Duration) {
	// So that the first update may preempt; the pools' own timeouts begin now.
	f.view, f.now, f.checked = v, now, now-f.cfg.PreemptInterval
	for _, p := range f.pools {
		p.resetClocks(now)
	}
}

// Begin remembers the round, so that eachStale can distinguish it from queries
// outside a round, which must not change anything.
func (f *Order) Begin(r *sched.Round) {
	f.round, f.now = r, r.Now()
	f.refreshAdmitted()
}

// Quiet implements sched.Quiet. With stale demand each round sorts the jobs again, and ties
// keep the order of the last sort.
func (f *Order) Quiet() bool { return !f.admissionStale && !f.cfg.StaleDemand }

// Each implements sched.Order.
func (f *Order) Each(r *sched.Round, o sched.Offer, visit func(sched.Candidate) bool) {
	// The preferred kind is offered to all pools before the other one to any: a pool's standing is by kind,
	// and the two cannot be compared.
	if f.each(r, o, o.Kind, visit) && o.Either {
		f.each(r, o, o.Kind.Other(), visit)
	}
}

// each visits the jobs for one kind of task: pools by their standing, and within a pool its jobs.
// It returns false when the offer is filled.
func (f *Order) each(r *sched.Round, o sched.Offer, k job.Kind, visit func(sched.Candidate) bool) bool {
	// The second mode keeps no rankings: it sorts by the demands of the last update.
	if f.cfg.StaleDemand {
		return f.eachStale(r, o, k, visit)
	}
	f.refreshAdmitted()
	copies := !o.NoCopies && r.CopiesOf(k)
	pools := f.ready[k].list
	// This ranking contains the pools with pending tasks too.
	if copies {
		pools = f.busy[k].list
	}
	for i := range pools {
		p := pools[i].item
		// A pool at its maximum is passed over and the next one served: slots must not stay idle because of
		// a limit of another one.
		if !p.takes(o, k) {
			continue
		}
		jobs, rest := p.side[k].jobs.list, []ranked[*job.Job](nil)
		if copies {
			rest = p.side[k].rest.list
		}
		for len(jobs)+len(rest) > 0 {
			from := &jobs
			// Both lists are sorted by the same key, so a merge visits the jobs in the order that one list
			// would have.
			if len(jobs) == 0 || len(rest) > 0 && compareStanding(&rest[0].at, &jobs[0].at) < 0 {
				from = &rest
			}
			if !visit(sched.Candidate{Job: (*from)[0].item, Kind: k}) {
				return false
			}
			if o.HeadOnly {
				return true
			}
			*from = (*from)[1:]
		}
	}
	return true
}

// takes reports whether the pool may have the offer.
func (p *pool) takes(o sched.Offer, k job.Kind) bool {
	return (o.Pool == "" || o.Pool == p.name) && p.side[k].running < p.limits.Max[k]
}

// Demand returns how many tasks of a kind run or could run now. Slots with
// fill=balance spread tasks over the nodes by it.
func (f *Order) Demand(k job.Kind) (sum int) {
	for _, p := range f.pools {
		if f.cfg.StaleDemand {
			sum += p.side[k].demand
		} else {
			sum += p.liveDemand(k)
		}
	}
	return sum
}

// rank updates the positions of a job and its pool. Call it after every change
// of a sort key.
func (f *Order) rank(j *member, k job.Kind) {
	if f.cfg.StaleDemand {
		return
	}
	p := j.pool
	s, ps := &j.side[k], &p.side[k]
	// Jobs have no minimum, so all are in the second class of Hadoop's FairShareComparator, which divides
	// running tasks by the weight. A job that runs nothing has ratio 0 whatever its weight, and time
	// decides.
	at := standing{aboveMin: true, ratio: float64(j.job.Occupied(k)) / s.weight, since: j.job.Submitted(), id: j.job.ID()}
	// Hadoop's FifoComparator: by priority, then by submission. The priority takes the place of the
	// ratio, the first key.
	// Within one ranking all jobs have the same kind of key, so two kinds of keys never meet.
	if p.limits.FIFO {
		at.ratio = -float64(j.job.Priority())
	}
	launchable := j.runnable && j.job.Launchable(k)
	// A job is in one of the two rankings: each merges them when copies are wanted.
	ps.jobs.update(&s.ready, j.job, at, launchable)
	ps.rest.update(&s.busy, j.job, at, !launchable && j.runnable && j.job.Running(k) > 0)
	// After the job: the pool's key depends on whether any of its jobs can launch a task.
	f.rankPool(p, k)
}

// rankPool updates the position of a pool.
func (f *Order) rankPool(p *pool, k job.Kind) {
	s := &p.side[k]
	// Ties by name, as in Hadoop: pools have no time of submission, and without a last key two pools would
	// take turns by chance.
	at := standing{aboveMin: true, ratio: float64(s.running) / p.limits.Weight, name: p.name}
	// A pool that can launch a task has a demand above its running tasks, so it
	// is below its share exactly if it runs less than its minimum.
	if least := p.least(k); s.running < least && len(s.jobs.list) > 0 {
		at.aboveMin, at.ratio = false, float64(s.running)/float64(least)
	}
	f.ready[k].update(&s.ready, p, at, len(s.jobs.list) > 0)
	f.busy[k].update(&s.busy, p, at, len(s.jobs.list)+len(s.rest.list) > 0)
}

// least returns the minimum share, which the maximum limits.
func (p *pool) least(k job.Kind) int { return min(p.limits.Min[k], p.limits.Max[k]) }

// priorityFactor returns the factor by which a priority multiplies a job's
// weight, as in Hadoop: each step doubles it.
func priorityFactor(p job.Priority) float64 {
	switch p {
	case job.VeryHigh:
		return 4
	case job.High:
		return 2
	case job.Low:
		return 0.5
	case job.VeryLow:
		return 0.25
	}
	return 1
}

// JobAdded implements sched.JobWatcher.
func (f *Order) JobAdded(j *job.Job) {
	f.changes++
	// A new pool's clocks start from here, and the hook gets no time.
	f.now = max(f.now, j.Submitted())
	// A pool that the file does not name is made here, and dropIfUnused removes it after its last job.
	p := f.pool(j.Pool())
	x := &member{job: j}
	for j.Seat() >= len(f.jobs) {
		f.jobs = append(f.jobs, nil)
	}
	f.jobs[j.Seat()] = x
	f.all.Add(j)
	for k := range job.Kind(job.Kinds) {
		x.side[k].weight = 1
	}
	x.enterPool(p)
	// Hadoop computes everything anew when a job arrives.
	if f.cfg.StaleDemand {
		f.update(f.now)
		return
	}
	if f.admissionStale = f.admissionStale || f.jobsLimited; f.admissionStale {
		return // refreshAdmitted handles all new jobs at once
	}
	x.runnable = true
	x.refresh(&f.cfg)
	// Both kinds: the reduces enter their ranking later, when slow start permits.
	f.rank(x, job.Map)
	f.rank(x, job.Reduce)
}

// refresh computes the job's demands and weights.
func (x *member) refresh(cfg *Config) {
	for k := range job.Kind(job.Kinds) {
		x.side[k].demand = x.demand(k)
	}
	x.weigh(cfg)
}

// JobRemoved implements sched.JobWatcher.
func (f *Order) JobRemoved(j *job.Job) {
	f.changes++
	x := f.jobs[j.Seat()]
	f.jobs[j.Seat()] = nil
	// Shares reports jobs as of the last update, at which this one was alive.
	f.ended = append(f.ended, x.shares()...)
	f.all.Remove(j)
	// leavePool ranks the job once more, and a job that is not runnable leaves every ranking.
	x.runnable = false
	f.leavePool(x)
	f.admissionStale = f.admissionStale || f.jobsLimited
}

// leavePool removes a job, which must not be runnable, from its pool.
func (f *Order) leavePool(x *member) {
	for k := range job.Kind(job.Kinds) {
		s := &x.pool.side[k]
		// Attempts of the job may still run when it changes its pool. From here on they count where the job
		// is.
		s.running -= x.job.Occupied(k)
		s.list = slices.DeleteFunc(s.list, func(o *member) bool { return o == x })
		f.rank(x, k)
	}
	f.dropIfUnused(x.pool)
}

// enterPool adds a job with its running tasks to a pool.
func (x *member) enterPool(p *pool) {
	x.pool = p
	for k := range job.Kind(job.Kinds) {
		p.side[k].list = append(p.side[k].list, x)
		p.side[k].running += x.job.Occupied(k)
	}
}

// dropIfUnused removes a pool that has no jobs and no configuration: pools are
// often users, who come and go. With stale demand pools stay, as in Hadoop.
func (f *Order) dropIfUnused(p *pool) {
	if !f.unused(p) {
		return
	}
	// Linear in the number of pools, once for the last job of a pool. The rankings have no entry for the
	// pool any more, since each needs a job.
	if at := slices.Index(f.pools, p); at >= 0 {
		f.pools = slices.Delete(f.pools, at, at+1)
	}
}

// unused reports whether dropIfUnused may remove a pool.
func (f *Order) unused(p *pool) bool {
	_, named := f.cfg.Pools.Pools[p.name]
	return !named && p.name != DefaultPool && !f.cfg.StaleDemand && len(p.side[job.Map].list) == 0
}

// JobChanged implements sched.ChangeWatcher.
func (f *Order) JobChanged(j *job.Job, c sched.Change) {
	f.changes++
	x := f.jobs[j.Seat()]
	if c == sched.PoolChanged {
		// leavePool ranks the job, and a job that is not runnable leaves all rankings of the old
		// pool.
		runnable := x.runnable
		x.runnable = false
		f.leavePool(x)
		x.enterPool(f.pool(j.Pool()))
		x.runnable = runnable
		f.admissionStale = f.admissionStale || f.jobsLimited
	}
	if c == sched.PriorityChanged {
		// The list is sorted by priority, and a key that has changed in place would end the binary search
		// anywhere.
		f.all.Reposition(j)
		f.admissionStale = f.admissionStale || f.jobsLimited
		x.weigh(&f.cfg)
	}
	for k := range job.Kind(job.Kinds) {
		f.rank(x, k)
	}
}

// TaskStarted implements sched.TaskWatcher.
func (f *Order) TaskStarted(a *job.Attempt, now time.Duration) { f.count(a, a.Width(), now) }

// TaskEnded implements sched.TaskWatcher.
func (f *Order) TaskEnded(a *job.Attempt, now time.Duration) { f.count(a, -a.Width(), now) }

// count adds by to the slots that the attempt's pool uses.
func (f *Order) count(a *job.Attempt, by int, now time.Duration) {
	f.now = now
	f.changes++
	x := f.jobs[a.Job().Seat()]
	// By the kind of the task and not of the slot: shares are of tasks, and a map in a borrowed reduce slot
	// is a map.
	x.pool.side[a.Kind()].running += by
	f.rank(x, a.Kind())
}

// pool returns the pool of the given name and creates it if necessary.
func (f *Order) pool(name string) *pool {
	at, found := slices.BinarySearchFunc(f.pools, name, func(p *pool, name string) int {
		switch {
		case p.name < name:
			return -1
		case p.name > name:
			return 1
		}
		return 0
	})
	if found {
		return f.pools[at]
	}
	p := &pool{name: name, limits: f.cfg.Pools.Pool(name)}
	for k := range p.side {
		s := &p.side[k]
		s.weight, s.min = p.limits.Weight, p.least(job.Kind(k))
	}
	p.resetClocks(f.now)
	f.pools = slices.Insert(f.pools, at, p)
	return p
}

// resetClocks restarts the pool's preemption timeouts.
func (p *pool) resetClocks(now time.Duration) {
	for k := range p.side {
		p.side[k].atMin, p.side[k].atHalf = now, now
	}
}

// rankAll updates all positions, after weights or limits have changed.
func (f *Order) rankAll() {
	for _, x := range f.jobs {
		if x != nil {
			f.rank(x, job.Map)
			f.rank(x, job.Reduce)
		}
	}
}

// refreshAdmitted computes the set of runnable jobs again if it is stale, once
// for any number of changes. With stale demand only updates compute it.
func (f *Order) refreshAdmitted() {
	if !f.admissionStale || f.cfg.StaleDemand {
		return
	}
	f.admissionStale = false
	// Only if some job has become runnable or has stopped being so. Usually the first ones run on and
	// nothing changes.
	if f.admit() {
		for _, x := range f.jobs {
			if x != nil {
				// Demands depend on whether a job is runnable, and weights on demands.
				x.refresh(&f.cfg)
			}
		}
		f.rankAll()
	}
}

// LimitsJobs reports whether some pool or user has a limit on running jobs.
func (f *Order) LimitsJobs() bool { return f.jobsLimited }

// limitsJobs reports whether any user or pool has a limit on running jobs.
func (a *Allocations) limitsJobs() bool {
	jobsLimited := a.MaxUserJobs != NoLimit || a.MaxPoolJobs != NoLimit || len(a.UserJobs) > 0
	//house:sorted the result does not depend on the order
	for _, p := range a.Pools {
		jobsLimited = jobsLimited || p.MaxJobs != NoLimit
	}
	return jobsLimited
}

// admit makes jobs runnable within the limits of users and pools, the most
// urgent first. It reports whether any job has changed.
func (f *Order) admit() (changed bool) {
	users, pools := map[string]int{}, map[string]int{}
	for _, j := range f.all.Jobs() {
		x, a := f.jobs[j.Seat()], &f.cfg.Pools
		x.held = sched.Reason{}
		// Jobs come in order of urgency, so an urgent job that is submitted late may hold back one
		// that runs already. Its running tasks continue.
		switch user, pool := j.User(), j.Pool(); {
		case users[user] >= a.userJobs(user):
			x.held = sched.Reason{Code: sched.JobsFull, Pool: "user " + user, Have: users[user], Need: a.userJobs(user)}
		case pools[pool] >= x.pool.limits.MaxJobs:
			x.held = sched.Reason{Code: sched.JobsFull, Pool: "pool " + pool, Have: pools[pool], Need: x.pool.limits.MaxJobs}
		default:
			// A job that is held counts for neither limit, so a held job of one user does not use up his
			// pool's places.
			users[user]++
			pools[pool]++
		}
		runnable := x.held.Code == sched.NoReason
		changed = changed || runnable != x.runnable
		x.runnable = runnable
	}
	return changed
}

// Reconfigure implements sched.Reconfigurable. It accepts Allocations, which
// replace the pools' and users' limits at once; running tasks keep their slots.
func (f *Order) Reconfigure(conf any) (bool, error) {
	a, ok := conf.(Allocations)
	if !ok {
		return false, nil
	}
	f.changes++
	// Pools that have gone from the file keep their jobs: they exist until these end, with the limits of
	// pools that are not named. Without jobs they end here, as no job's end would remove them.
	f.cfg.Pools, f.jobsLimited = a, a.limitsJobs()
	f.pools = slices.DeleteFunc(f.pools, f.unused)
	for _, p := range f.pools {
		p.limits = a.Pool(p.name)
	}
	// After the limits of existing pools have changed: pool creates only missing ones.
	f.addPools()
	for _, p := range f.pools {
		for k := range p.side {
			p.side[k].weight, p.side[k].min = p.limits.Weight, p.least(job.Kind(k))
		}
	}
	// Shares and clocks follow the new limits at once. Otherwise a pool could preempt by a share
	// that it no longer has.
	f.update(f.now)
	f.rankAll()
	for _, p := range f.pools {
		// rankAll reaches pools through their jobs only.
		f.rankPool(p, job.Map)
		f.rankPool(p, job.Reduce)
	}
	return true, nil
}

// addPools creates the pools that the configuration names.
func (f *Order) addPools() {
	//house:sorted the list of pools is sorted by name
	for name := range f.cfg.Pools.Pools {
		f.pool(name)
	}
}
