package faultrun

import (
	"time"

	"github.com/slotwise/slotwise/internal/job"
)

// client submits a job and waits for its verdict.
type client struct {
	r       *run
	request int
	maps    int
	reduces int
	tries   int
	job     job.ID
	verdict job.State
}

func (c *client) spec() job.Spec {
	return job.Spec{Splits: make([]job.Split, c.maps), Reduces: c.reduces, SlowStart: 0.5, TaskTimeout: 60 * second, MaxAttempts: c.tries}
}

// submit asks until there is an answer.
func (c *client) submit() {
	if c.job != 0 {
		return
	}
	c.r.after(2*second+c.r.upTo(second), c.submit)
	c.r.send(true, func() {
		if m := c.r.master; m != nil {
			m.submit(c)
		}
	})
}

// accepted hears of the job's number, the same each time.
func (c *client) accepted(id job.ID) {
	if c.job != 0 && c.job != id {
		c.r.breaks("request %d was answered with %v and %v", c.request, c.job, id)
	}
	if c.job == 0 {
		c.job = id
		c.r.after(second, c.poll)
	}
}

// poll asks how the job is, and once more after it has ended.
func (c *client) poll() {
	if c.verdict == 0 || c.r.chance(50) {
		c.r.after(second+c.r.upTo(3*second), c.poll)
	}
	knew := c.verdict
	c.r.send(false, func() {
		m := c.r.master
		if m == nil {
			return
		}
		state, ok := m.verdicts[c.job]
		if j := m.tracker.Jobs().Get(c.job); !ok && (j == nil || j.State().Final()) {
			c.r.breaks("%v, which was accepted, is not known", c.job)
		}
		m.release(func() { c.r.send(false, func() { c.told(knew, state) }) })
	})
}

// told hears of the job's state, 0 if it has not ended, having known one before
// asking.
func (c *client) told(knew, state job.State) {
	if state != knew && knew != 0 || state != c.verdict && state != 0 && c.verdict != 0 {
		c.r.breaks("%v was %v and now is %v", c.job, c.verdict, state)
	}
	if state != 0 && c.verdict == 0 {
		c.verdict = state
		c.r.logf("client %d hears that %v has %v", c.request, c.job, state)
	}
}

// check compares the verdict with what is there.
func (c *client) check() {
	switch c.verdict {
	case job.Succeeded:
		c.r.did.Succeeded++
		c.r.storage.check(c)
	case job.Failed:
		c.r.did.Failed++
	default:
		c.r.did.Killed++
	}
	if got := c.r.storage.verdicts[c.job]; got != c.verdict {
		c.r.breaks("%v has %v, and its output was treated as that of one that has %v", c.job, c.verdict, got)
	}
}

// storage is the shared storage: parts under way, and whether a job's output was
// published or thrown away.
type storage struct {
	r        *run
	parts    map[job.TaskID]job.AttemptID
	verdicts map[job.ID]job.State
}

// commit moves an attempt's output to where the job's output is being gathered. It
// reports whether that was there still.
func (s *storage) commit(id job.AttemptID) bool {
	if s.verdicts[id.Job] != 0 {
		return false
	}
	if m := s.r.master; m != nil {
		if before, ok := s.parts[id.TaskID]; ok && before != id && m.valid(before) && m.valid(id) {
			s.r.breaks("%v commits after %v did, which is not given up", id, before)
		}
	}
	s.parts[id.TaskID] = id
	s.r.did.Commits++
	return true
}

// close publishes a job's output or throws it away. Doing so again changes
// nothing.
func (s *storage) close(id job.ID, state job.State) {
	if before := s.verdicts[id]; before != 0 && before != state {
		s.r.breaks("%v has %v after it had %v", id, state, before)
	}
	s.verdicts[id] = state
}

// check sees that each task that commits has its one part.
func (s *storage) check(c *client) {
	kind, n := job.Map, c.maps
	if c.reduces > 0 {
		kind, n = job.Reduce, c.reduces
	}
	for i := range n {
		if _, ok := s.parts[job.TaskID{Job: c.job, Kind: kind, Index: int32(i)}]; !ok {
			s.r.breaks("%v succeeded without the output of %v %d", c.job, kind, i)
		}
	}
}

// admin does what people do: kill, drain, move.
func (r *run) admin(w *worker) {
	m := r.master
	if m == nil {
		return
	}
	switch r.rng.IntN(5) {
	case 0:
		m.drain(w.name, false)
		r.after(r.upTo(20*second), func() {
			if r.master != nil {
				r.master.drain(w.name, true)
			}
		})
	case 1:
		if live := m.tracker.Jobs().Live(); len(live) > 0 && r.chance(30) {
			m.killJob(live[r.rng.IntN(len(live))].ID())
		}
	case 2:
		if ids := w.inOrder(); len(ids) > 0 {
			m.killAttempt(ids[0].id)
		}
	case 3:
		if live := m.tracker.Jobs().Live(); len(live) > 0 {
			m.move(live[r.rng.IntN(len(live))].ID())
		}
	}
}

// undrain lets all nodes work again, as soon as there is a master.
func (r *run) undrain() {
	if r.master == nil {
		r.after(second, r.undrain)
		return
	}
	for _, w := range r.workers {
		r.master.drain(w.name, true)
	}
	r.after(30*time.Second, r.undrain)
}
