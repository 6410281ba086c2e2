package utility

import (
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// entry is what is known of a live job.
type entry struct {
	job     *job.Job
	pool    int32 // of worth.pools
	profile [job.Kinds]int32
	at      [2][job.Kinds]int32 // places in ready and all, plus 1
	balance float64
	offer   float64
}

// candidate is a job's next task of a kind, with what weighing it needs.
type candidate struct {
	fixed   float64       // product of the factors that change with the job only
	due     time.Duration // when a reason may be written down again
	age     int64         // number of the job, then kind: numbers ascend with submission
	seat    int32
	profile int32
}

func (c *candidate) kind() job.Kind { return job.Kind(c.age % job.Kinds) }

// candidates is a set in no order that matters. Adding and removing cost nothing
// that grows.
type candidates struct {
	list  []candidate
	which int // place in entry.at
}

// set puts the candidate of a job and kind in or takes it out.
func (c *candidates) set(entries []entry, w *worth, j *job.Job, k job.Kind, in bool) {
	e := &entries[j.Seat()]
	at := &e.at[c.which][k]
	switch {
	case in == (*at > 0):
	case in:
		c.list = append(c.list, candidate{fixed: w.fixed(e), age: int64(j.ID())*job.Kinds + int64(k),
			seat: int32(j.Seat()), profile: e.profile[k]})
		*at = int32(len(c.list))
	default:
		last := len(c.list) - 1
		moved := c.list[last]
		c.list[*at-1] = moved
		entries[moved.seat].at[c.which][moved.kind()] = *at
		c.list, *at = c.list[:last], 0
	}
}

// get returns the candidate of an entry, or nil.
func (c *candidates) get(e *entry, k job.Kind) *candidate {
	if at := e.at[c.which][k]; at > 0 {
		return &c.list[at-1]
	}
	return nil
}

// each calls f for the candidates of an entry.
func (u *Order) each(e *entry, f func(c *candidate)) {
	for k := range job.Kind(job.Kinds) {
		for _, set := range [...]*candidates{&u.ready, &u.all} {
			if c := set.get(e, k); c != nil {
				f(c)
			}
		}
	}
}

// JobAdded implements sched.JobWatcher. What the job does not declare is guessed
// now, for its whole life.
func (u *Order) JobAdded(j *job.Job) {
	for j.Seat() >= len(u.entries) {
		u.entries = append(u.entries, entry{})
	}
	e := &u.entries[j.Seat()]
	*e = entry{job: j}
	u.worth.enter(e)
	u.worth.pools[e.pool].running += j.Running(job.Map) + j.Running(job.Reduce)
	for k := range job.Kind(job.Kinds) {
		if j.Total(k) > 0 {
			u.hints.Add(k, j.Profile(k))
		}
		e.profile[k] = u.number(u.hints.Fill(k, j.Profile(k)))
		u.all.set(u.entries, &u.worth, j, k, j.Total(k) > 0)
		u.ready.set(u.entries, &u.worth, j, k, j.Launchable(k))
	}
}

// number returns the place of a profile among the distinct ones.
func (u *Order) number(p job.Profile) int32 {
	i, ok := u.byValue[p]
	if !ok {
		i = int32(len(u.profiles))
		u.byValue[p] = i
		u.profiles = append(u.profiles, profile{Profile: p})
	}
	return i
}

// JobRemoved implements sched.JobWatcher.
func (u *Order) JobRemoved(j *job.Job) {
	for k := range job.Kind(job.Kinds) {
		u.all.set(u.entries, &u.worth, j, k, false)
		u.ready.set(u.entries, &u.worth, j, k, false)
	}
	u.entries[j.Seat()] = entry{}
}

// JobChanged implements sched.ChangeWatcher.
func (u *Order) JobChanged(j *job.Job, c sched.Change) {
	for k := range job.Kind(job.Kinds) {
		u.ready.set(u.entries, &u.worth, j, k, j.Launchable(k))
	}
	e := &u.entries[j.Seat()]
	switch c {
	case sched.PoolChanged:
		running := j.Running(job.Map) + j.Running(job.Reduce)
		u.worth.pools[e.pool].running -= running
		u.worth.enter(e)
		u.worth.pools[e.pool].running += running
		u.each(e, func(c *candidate) { c.due = 0 })
	case sched.PriorityChanged:
		u.price(e)
	}
}

// price computes again what a job is worth that changes with it only.
func (u *Order) price(e *entry) {
	fixed := u.worth.fixed(e)
	u.each(e, func(c *candidate) { c.fixed = fixed })
}

// TaskStarted implements sched.TaskWatcher: a proposal that was taken is a
// decision.
func (u *Order) TaskStarted(a *job.Attempt, _ time.Duration) {
	e := &u.entries[a.Job().Seat()]
	u.worth.pools[e.pool].running++
	u.each(e, func(c *candidate) { c.due = 0 }) // the tracker forgets its reasons too
	if p := &u.proposed; p.open && u.learner != nil && p.job == a.Job() && p.kind == a.Kind() {
		p.d.Task = a.ID().Index
		u.learner.Assigned(a.Node(), p.d)
	}
	u.proposed.open, u.withheld = false, false
}

// TaskEnded implements sched.TaskWatcher.
func (u *Order) TaskEnded(a *job.Attempt, _ time.Duration) {
	u.worth.pools[u.entries[a.Job().Seat()].pool].running--
}

// Reconfigure implements sched.Reconfigurable: it takes a Config.
func (u *Order) Reconfigure(conf any) (bool, error) {
	cfg, ok := conf.(Config)
	if !ok {
		return false, nil
	}
	if err := cfg.Check(); err != nil {
		return true, err
	}
	u.cfg = cfg
	u.worth.set(&u.cfg)
	for i := range u.entries {
		if e := &u.entries[i]; e.job != nil {
			u.worth.enter(e)
			u.price(e)
			u.each(e, func(c *candidate) { c.due = 0 })
		}
	}
	return true, nil
}
