package order

import (
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/sched"
	"github.com/slotwise/slotwise/internal/sched/learning"
)

// candidates is a set of (job, kind), each as seat·Kinds + kind, in no order
// that matters. Adding and removing cost nothing that grows.
type candidates struct {
	ids   []int32
	which int // place in entry.at
}

func (c *candidates) set(entries []entry, seat int, k job.Kind, in bool) {
	at := &entries[seat].at[c.which][k]
	switch {
	case in == (*at > 0):
	case in:
		c.ids = append(c.ids, int32(seat*job.Kinds)+int32(k))
		*at = int32(len(c.ids))
	default:
		last := c.ids[len(c.ids)-1]
		c.ids[*at-1] = last
		entries[last/job.Kinds].at[c.which][last%job.Kinds] = *at
		c.ids, *at = c.ids[:len(c.ids)-1], 0
	}
}

// JobAdded implements sched.JobWatcher. What the job does not declare is guessed
// now, for its whole life.
func (u *Utility) JobAdded(j *job.Job) {
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
		u.all.set(u.entries, j.Seat(), k, j.Total(k) > 0)
		u.ready.set(u.entries, j.Seat(), k, j.Launchable(k))
	}
}

// number returns the place of a profile among the distinct ones.
func (u *Utility) number(p job.Profile) int32 {
	i, ok := u.byValue[p]
	if !ok {
		i = int32(len(u.profile))
		u.byValue[p] = i
		u.profile = append(u.profile, p)
	}
	return i
}

// JobRemoved implements sched.JobWatcher.
func (u *Utility) JobRemoved(j *job.Job) {
	for k := range job.Kind(job.Kinds) {
		u.all.set(u.entries, j.Seat(), k, false)
		u.ready.set(u.entries, j.Seat(), k, false)
	}
	u.entries[j.Seat()] = entry{}
}

// JobChanged implements sched.ChangeWatcher.
func (u *Utility) JobChanged(j *job.Job, _ sched.Change) {
	for k := range job.Kind(job.Kinds) {
		u.ready.set(u.entries, j.Seat(), k, j.Launchable(k))
	}
}

// TaskStarted implements sched.TaskWatcher: an offer that was taken is a
// decision.
func (u *Utility) TaskStarted(a *job.Attempt, _ time.Duration) {
	e := &u.entries[a.Job().Seat()]
	u.worth.pools[e.pool].running++
	e.noted[a.Kind()] = 0 // the tracker forgets its reasons too
	if x := u.proposed; u.open && u.learner != nil && x.c.Job == a.Job() && x.c.Kind == a.Kind() {
		d := u.decision(x, u.tasksBefore(a))
		d.Task = a.ID().Index
		u.learner.Assigned(a.Node(), d)
	}
	u.open, u.withheld = false, false
}

// tasksBefore is how many tasks ran on the node when the attempt was decided on.
func (u *Utility) tasksBefore(a *job.Attempt) int {
	n := u.view.Nodes().Node(a.Node())
	return n.Running(job.Map) + n.Running(job.Reduce) - 1
}

// TaskEnded implements sched.TaskWatcher.
func (u *Utility) TaskEnded(a *job.Attempt, _ time.Duration) {
	u.worth.pools[u.entries[a.Job().Seat()].pool].running--
}

// Reconfigure implements sched.Reconfigurable: it takes a UtilityConfig.
func (u *Utility) Reconfigure(conf any) (bool, error) {
	cfg, ok := conf.(UtilityConfig)
	if !ok {
		return false, nil
	}
	if err := cfg.Check(); err != nil {
		return true, err
	}
	u.cfg = cfg
	u.worth.set(&u.cfg)
	for i := range u.entries {
		if u.entries[i].job != nil {
			u.worth.enter(&u.entries[i])
		}
	}
	return true, nil
}

// worth computes utilities.
type worth struct {
	cfg     *UtilityConfig
	factors []string
	pools   []poolShare
	byName  map[string]int32
}

// poolShare is what was promised to a pool, and what it has.
type poolShare struct {
	name     string
	promised float64
	running  int
}

// set takes a configuration; entries must then be entered again.
func (w *worth) set(cfg *UtilityConfig) {
	w.cfg, w.factors = cfg, cfg.Factors
	if w.byName == nil {
		w.byName = map[string]int32{}
	}
	for i := range w.pools {
		w.pools[i].promised = cfg.share(w.pools[i].name)
	}
}

// enter fills in what the worth of a job depends on and does not change.
func (w *worth) enter(e *entry) {
	name := e.job.Pool()
	i, ok := w.byName[name]
	if !ok {
		i = int32(len(w.pools))
		w.byName[name] = i
		w.pools = append(w.pools, poolShare{name: name, promised: w.cfg.share(name)})
	}
	e.pool = i
	e.balance, e.offer = w.cfg.Balances.of(e.job.User(), 1), w.cfg.Offers.of(e.job.User(), 1)
}

// of is the utility of a task of the job, and if that is 0 the factor that made
// it so.
func (w *worth) of(e *entry, k job.Kind, r *sched.Round) (value float64, zero string) {
	value = 1
	for _, f := range w.factors {
		value *= w.factor(f, e, k, r)
		if !(value > 0) {
			return 0, f
		}
	}
	return value, ""
}

func (w *worth) factor(name string, e *entry, k job.Kind, r *sched.Round) float64 {
	switch name {
	case learning.FIFO:
		return learning.FIFOUtility(r.Now() - e.job.Submitted())
	case learning.Gate:
		if k == job.Map {
			return 1
		}
		return learning.GateUtility(e.job.Done(job.Map), e.job.Total(job.Map), w.cfg.MapGate)
	case learning.Budget:
		return learning.BudgetUtility(e.balance)
	case learning.Dedicated:
		return learning.DedicatedUtility(w.pools[e.pool].promised, w.allocated(e, r))
	case learning.DedicatedLiteral:
		return learning.LiteralUtility(w.pools[e.pool].promised, w.allocated(e, r))
	case learning.Revenue:
		return e.offer
	case learning.Priority:
		return learning.PriorityUtility(int(e.job.Priority()))
	}
	return 1
}

// allocated is the share of the cluster that the job's pool has: its running
// tasks of all slots that nodes say they have, or of all running tasks if those
// are more.
func (w *worth) allocated(e *entry, r *sched.Round) float64 {
	slots, tasks := 0, 0
	for k := range job.Kind(job.Kinds) {
		slots += r.Nodes().Slots(k)
		tasks += r.Jobs().Running(k)
	}
	if all := max(slots, tasks); all > 0 {
		return float64(w.pools[e.pool].running) / float64(all)
	}
	return 0
}
