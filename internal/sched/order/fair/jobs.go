package fair

import (
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// JobAdded implements sched.JobWatcher.
func (f *Order) JobAdded(j *job.Job) {
	f.now = max(f.now, j.Submitted())
	p := f.pool(j.Pool())
	x := &member{job: j}
	for j.Seat() >= len(f.jobs) {
		f.jobs = append(f.jobs, nil)
	}
	f.jobs[j.Seat()] = x
	f.all.Add(j)
	for k := range job.Kind(job.Kinds) {
		x.side[k].weight = 1
		x.side[k].ready.item, x.side[k].busy.item = x, x
	}
	x.enterPool(p)
	if f.cfg.StaleDemand {
		f.update(f.now)
		return
	}
	if f.unsettled = f.unsettled || f.limited; f.unsettled {
		return // all are looked at once, however many come at a time
	}
	x.runnable = true
	x.refresh(&f.cfg)
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
	x := f.jobs[j.Seat()]
	f.jobs[j.Seat()] = nil
	f.ended = append(f.ended, x.shares()...)
	f.all.Remove(j)
	x.runnable = false
	f.leavePool(x)
	f.unsettled = f.unsettled || f.limited
}

// leavePool takes a job that is no longer runnable out of its pool.
func (f *Order) leavePool(x *member) {
	for k := range job.Kind(job.Kinds) {
		s := &x.pool.side[k]
		s.running -= x.job.Running(k)
		s.list = slices.DeleteFunc(s.list, func(o *member) bool { return o == x })
		f.rank(x, k)
	}
	f.forget(x.pool)
}

// enterPool puts a job, running tasks and all, into a pool.
func (x *member) enterPool(p *pool) {
	x.pool = p
	for k := range job.Kind(job.Kinds) {
		p.side[k].list = append(p.side[k].list, x)
		p.side[k].running += x.job.Running(k)
	}
}

// forget drops a pool that nobody has named and that has no jobs: pools are often
// users, and users come and go. With stale demand pools stay, as in Hadoop.
func (f *Order) forget(p *pool) {
	_, named := f.cfg.Pools.Pools[p.name]
	if named || p.name == DefaultPool || f.cfg.StaleDemand || len(p.side[job.Map].list) > 0 {
		return
	}
	if at := slices.Index(f.pools, p); at >= 0 {
		f.pools = slices.Delete(f.pools, at, at+1)
	}
}

// JobChanged implements sched.ChangeWatcher.
func (f *Order) JobChanged(j *job.Job, c sched.Change) {
	x := f.jobs[j.Seat()]
	if c == sched.PoolChanged {
		runnable := x.runnable
		x.runnable = false
		f.leavePool(x)
		x.enterPool(f.pool(j.Pool()))
		x.runnable = runnable
		f.unsettled = f.unsettled || f.limited
	}
	if c == sched.PriorityChanged {
		f.all.Reposition(j)
		f.unsettled = f.unsettled || f.limited
		x.weigh(&f.cfg)
	}
	for k := range job.Kind(job.Kinds) {
		f.rank(x, k)
	}
}

// TaskStarted implements sched.TaskWatcher.
func (f *Order) TaskStarted(a *job.Attempt, now time.Duration) { f.count(a, 1, now) }

// TaskEnded implements sched.TaskWatcher.
func (f *Order) TaskEnded(a *job.Attempt, now time.Duration) { f.count(a, -1, now) }

func (f *Order) count(a *job.Attempt, by int, now time.Duration) {
	f.now = now
	x := f.jobs[a.Job().Seat()]
	x.pool.side[a.Kind()].running += by
	f.rank(x, a.Kind())
}

// pool returns the pool of that name, new if there was none.
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
		s.ready.item, s.busy.item = p, p
		s.weight, s.min = p.limits.Weight, p.least(job.Kind(k))
	}
	p.resetClocks(f.now)
	f.pools = slices.Insert(f.pools, at, p)
	return p
}

// resetClocks starts the pool's time-outs anew.
func (p *pool) resetClocks(now time.Duration) {
	for k := range p.side {
		p.side[k].atMin, p.side[k].atHalf = now, now
	}
}

// rankAll puts everything where it stands, after weights or limits changed.
func (f *Order) rankAll() {
	for _, x := range f.jobs {
		if x != nil {
			f.rank(x, job.Map)
			f.rank(x, job.Reduce)
		}
	}
}

// settle finds out who may run if that has to be done again. With stale demand
// only updates do it.
func (f *Order) settle() {
	if !f.unsettled || f.cfg.StaleDemand {
		return
	}
	f.unsettled = false
	if f.admit() {
		for _, x := range f.jobs {
			if x != nil {
				x.refresh(&f.cfg)
			}
		}
		f.rankAll()
	}
}

// limitsJobs reports whether anybody's number of running jobs is limited.
func (a *Allocations) limitsJobs() bool {
	limited := a.MaxUserJobs != NoLimit || a.MaxPoolJobs != NoLimit || len(a.UserJobs) > 0
	//house:sorted any one pool is enough
	for _, p := range a.Pools {
		limited = limited || p.MaxJobs != NoLimit
	}
	return limited
}

// admit finds the jobs that may run within the limits of users and pools, the
// most urgent first, and reports whether any changed.
func (f *Order) admit() (changed bool) {
	users, pools := map[string]int{}, map[string]int{}
	for _, j := range f.all.Jobs() {
		x, a := f.jobs[j.Seat()], &f.cfg.Pools
		x.held = sched.Reason{}
		switch user, pool := j.User(), j.Pool(); {
		case users[user] >= a.userJobs(user):
			x.held = sched.Reason{Code: sched.JobsFull, Pool: "user " + user, Have: users[user], Need: a.userJobs(user)}
		case pools[pool] >= x.pool.limits.MaxJobs:
			x.held = sched.Reason{Code: sched.JobsFull, Pool: "pool " + pool, Have: pools[pool], Need: x.pool.limits.MaxJobs}
		default:
			users[user]++
			pools[pool]++
		}
		runnable := x.held.Code == sched.NoReason
		changed = changed || runnable != x.runnable
		x.runnable = runnable
	}
	return changed
}

// Reconfigure implements sched.Reconfigurable: it takes over Allocations.
func (f *Order) Reconfigure(conf any) (bool, error) {
	a, ok := conf.(Allocations)
	if !ok {
		return false, nil
	}
	f.cfg.Pools, f.limited = a, a.limitsJobs()
	for _, p := range f.pools {
		p.limits = a.Pool(p.name)
	}
	f.addPools()
	for _, p := range f.pools {
		for k := range p.side {
			p.side[k].weight, p.side[k].min = p.limits.Weight, p.least(job.Kind(k))
		}
	}
	f.update(f.now)
	f.rankAll()
	for _, p := range f.pools {
		f.rankPool(p, job.Map)
		f.rankPool(p, job.Reduce)
	}
	return true, nil
}

// addPools makes the pools that are named.
func (f *Order) addPools() {
	//house:sorted pool keeps its list sorted by name whatever order they come in
	for name := range f.cfg.Pools.Pools {
		f.pool(name)
	}
}
