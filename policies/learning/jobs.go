package learning

import (
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// entry is the order's record of a live job.
type entry struct {
	job     *job.Job
	pool    *poolShare
	hintSet [job.Kinds]int32 // index in Order.hintSets
	balance float64          // of the user; see OrderConfig
	offer   float64          // of the user; see OrderConfig
}

// candidate is a job's next task of a kind.
type candidate struct {
	due   time.Duration // when the next wait reason may be noted
	age   int64         // job id · Kinds + kind, which rises with submission
	seat  int32
	group int32 // index in Order.groups
}

func (c *candidate) kind() job.Kind { return job.Kind(c.age % job.Kinds) }

// candidates is an unordered set. Adding and removing take constant time.
type candidates struct {
	list  []candidate
	at    [][job.Kinds]int32 // by seat: index in list plus 1; 0 if absent
	of    [job.Kinds]int     // number by kind
	which int                // index in group.count
}

// set adds or removes the candidate of a job and kind.
func (u *Order) set(c *candidates, j *job.Job, k job.Kind, in bool) {
	at := &c.at[j.Seat()][k]
	switch {
	case in == (*at > 0):
	case in:
		e := &u.entries[j.Seat()]
		x := candidate{age: int64(j.ID())*job.Kinds + int64(k), seat: int32(j.Seat()), group: u.groupOf(u.worth.fixed(e), e.hintSet[k])}
		c.list = append(c.list, x)
		c.of[k]++
		u.enter(c, &x)
		u.remember(e)
		*at = int32(len(c.list))
	default:
		// The last candidate takes the free place, so a removal does not move the others.
		last := len(c.list) - 1
		c.of[k]--
		u.leave(c, &c.list[*at-1])
		moved := c.list[last]
		c.list[*at-1] = moved
		c.at[moved.seat][moved.kind()] = *at
		c.list, *at = c.list[:last], 0
	}
}

// get returns the candidate of a job's seat and kind, or nil.
func (c *candidates) get(seat int, k job.Kind) *candidate {
	if at := c.at[seat][k]; at > 0 {
		return &c.list[at-1]
	}
	return nil
}

// each calls f for the candidates of an entry.
func (u *Order) each(e *entry, f func(c *candidate)) {
	for k := range job.Kind(job.Kinds) {
		for _, set := range [...]*candidates{&u.ready, &u.all} {
			if c := set.get(e.job.Seat(), k); c != nil {
				f(c)
			}
		}
	}
}

// JobAdded implements sched.JobWatcher. It guesses the resource hints that the
// job does not declare, once for the life of the job.
func (u *Order) JobAdded(j *job.Job) {
	for j.Seat() >= len(u.entries) {
		u.entries = append(u.entries, entry{})
		u.ready.at = append(u.ready.at, [job.Kinds]int32{})
		u.all.at = append(u.all.at, [job.Kinds]int32{})
	}
	e := &u.entries[j.Seat()]
	*e = entry{job: j}
	u.worth.enter(e)
	// After a change of policy the job may run tasks already.
	e.pool.running += j.Occupied(job.Map) + j.Occupied(job.Reduce)
	for k := range job.Kind(job.Kinds) {
		// A job without reduces says nothing about the hints of reduces.
		if j.Total(k) > 0 {
			u.hints.Add(k, j.Hints(k))
		}
		e.hintSet[k] = u.hintIndex(taskHints{u.hints.Fill(k, j.Hints(k)), k})
		u.set(&u.all, j, k, j.Total(k) > 0)
		u.set(&u.ready, j, k, j.Launchable(k))
	}
}

// hintIndex returns the index of a kind and its hints in hintSets.
func (u *Order) hintIndex(p taskHints) int32 {
	i, ok := u.byValue[p]
	if !ok {
		i = int32(len(u.hintSets))
		u.byValue[p] = i
		u.hintSets = append(u.hintSets, hintSet{taskHints: p})
	}
	return i
}

// JobRemoved implements sched.JobWatcher.
func (u *Order) JobRemoved(j *job.Job) {
	for k := range job.Kind(job.Kinds) {
		u.set(&u.all, j, k, false)
		u.set(&u.ready, j, k, false)
	}
	u.worth.leave(&u.entries[j.Seat()])
	// fresh may still hold the seat; noteFresh leaves out an empty one.
	u.entries[j.Seat()] = entry{}
}

// JobChanged implements sched.ChangeWatcher.
func (u *Order) JobChanged(j *job.Job, c sched.Change) {
	for k := range job.Kind(job.Kinds) {
		u.set(&u.ready, j, k, j.Launchable(k))
	}
	e := &u.entries[j.Seat()]
	switch c {
	case sched.PoolChanged:
		running := j.Occupied(job.Map) + j.Occupied(job.Reduce)
		// The running tasks of the job count for its new pool.
		e.pool.running -= running
		u.worth.enter(e)
		e.pool.running += running
		u.noteSoon(e)
	case sched.PriorityChanged:
		u.reprice(e)
	}
}

// reprice computes the fixed utilities of a job again.
func (u *Order) reprice(e *entry) {
	fixed := u.worth.fixed(e)
	for k := range job.Kind(job.Kinds) {
		for _, set := range [...]*candidates{&u.ready, &u.all} {
			if c := set.get(e.job.Seat(), k); c != nil {
				// Under the group that the candidate was counted in, before its group changes.
				u.leave(set, c)
				c.group = u.groupOf(fixed, e.hintSet[k])
				u.enter(set, c)
				g := &u.groups[c.group]
				g.nextNote = min(g.nextNote, c.due)
			}
		}
	}
}

// TaskStarted implements sched.TaskWatcher. It reports the launch of a proposed
// candidate to the learner as a decision.
func (u *Order) TaskStarted(a *job.Attempt, _ time.Duration) {
	e := &u.entries[a.Job().Seat()]
	e.pool.running += a.Width()
	u.noteSoon(e) // the tracker also clears the job's reasons
	// Launches that no walk has proposed are no decisions of the classifier: a copy that a Preceder
	// chooses, for example. They must train nothing.
	if p := &u.proposed; p.open && u.learner != nil && p.job == a.Job() && p.kind == a.Kind() {
		u.learner.Assigned(a.Node(), p.d)
	}
	// The node has changed, so a later refusal in this round is another decision.
	u.proposed.open, u.decidedWithheld = false, false
}

// TaskEnded implements sched.TaskWatcher.
func (u *Order) TaskEnded(a *job.Attempt, _ time.Duration) {
	u.entries[a.Job().Seat()].pool.running -= a.Width()
}

// Reconfigure implements sched.Reconfigurable for an OrderConfig.
func (u *Order) Reconfigure(conf any) (bool, error) {
	cfg, ok := conf.(OrderConfig)
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
			u.reprice(e)
			u.noteSoon(e)
		}
	}
	return true, nil
}
