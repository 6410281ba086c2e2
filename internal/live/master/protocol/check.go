package protocol

import (
	"fmt"
	"maps"
	"slices"

	"github.com/slotwise/slotwise/sched/job"
)

// Check recounts the core's tables by brute force and returns the first violation of
// an invariant, or nil. Tests and fault runs call it between messages.
func (c *Core) Check() error {
	alive := map[job.ID]int{}
	held := 0
	for _, w := range c.list {
		for _, id := range w.alive {
			alive[id.Job]++
		}
		if w.session == nil {
			continue
		}
		if err := c.checkSession(w); err != nil {
			return err
		}
		if w.session.held != 0 {
			held++
		}
	}
	for _, j := range c.live {
		held += len(j.watchers) + len(j.outputs.readers)
		if err := c.checkJob(j, alive[j.id]); err != nil {
			return err
		}
	}
	for _, ch := range c.chains.live {
		held += len(ch.watchers)
		if err := c.checkChain(ch); err != nil {
			return err
		}
	}
	// Their calls are answered by EndBatch, not by the session that has replaced theirs.
	for _, s := range c.marked { // sessions that ended in this batch
		if s.held != 0 && s.worker.session != s {
			held++
		}
	}
	intents := 0
	//house:sorted sums do not depend on the order
	for _, r := range c.requests {
		held += len(r.queue)
		if r.entry != nil && r.entry.token != "" {
			intents++
		}
	}
	switch {
	case intents != len(c.intents):
		return fmt.Errorf("%d requests may have staged output without a job, the journal has %d", intents, len(c.intents))
	case held != len(c.held):
		return fmt.Errorf("%d calls are held, the table has %d", held, len(c.held))
	case len(c.live)+len(c.ended) != len(c.jobs):
		return fmt.Errorf("%d live and %d ended jobs, the table has %d", len(c.live), len(c.ended), len(c.jobs))
	}
	if err := c.room.check(c); err != nil {
		return err
	}
	return c.checkRequests()
}

// checkSession checks the session of a worker.
func (c *Core) checkSession(w *worker) error {
	s := w.session
	if c.sessions[s.id] != s || s.worker != w || s.over {
		return fmt.Errorf("%s has a session that is not in the table or is over", w.name)
	}
	for i, a := range s.outbox {
		if a.Number != s.next-int64(len(s.outbox)-1-i) {
			return fmt.Errorf("%s: action %d is at position %d of %d in an outbox up to %d", w.name, a.Number, i, len(s.outbox), s.next)
		}
		if l := a.GetLaunch(); l != nil {
			id, err := job.ParseAttempt(l.Attempt)
			if err != nil || c.jobs[id.Job] != nil && c.jobs[id.Job].core.State().Live() && !slices.Contains(w.alive, id) {
				return fmt.Errorf("%s: the launch of %s is under way, but the attempt is not alive", w.name, l.Attempt)
			}
		}
	}
	return nil
}

// checkJob checks a job that is not in the history, of which workers may run alive
// attempts.
func (c *Core) checkJob(j *jobEntry, alive int) error {
	t := c.tracker.Jobs().Get(j.id)
	switch {
	case c.jobs[j.id] != j || (j.final != nil) != j.unsaved:
		return fmt.Errorf("%v is listed as live and is not", j.id)
	case alive != j.alive:
		return fmt.Errorf("%v: %d attempts are alive, counted as %d", j.id, alive, j.alive)
	case t != nil && t != j.core:
		return fmt.Errorf("%v is another job in the tracker", j.id)
	case j.end == nil && t == nil:
		return fmt.Errorf("%v has not ended and is unknown to the tracker", j.id)
	case t != nil && t.State().Final() != (j.end != nil):
		return fmt.Errorf("%v is %v in the tracker", j.id, t.State())
	case t != nil && t.State().Live() && t.Running(job.Map)+t.Running(job.Reduce) > alive:
		return fmt.Errorf("%v: %d attempts run, but only %d are alive", j.id, t.Running(job.Map)+t.Running(job.Reduce), alive)
	case j.decided() && len(j.outputs.readers) > 0:
		return fmt.Errorf("%v: %d readers wait for map outputs of a job whose tasks have ended", j.id, len(j.outputs.readers))
	}
	return nil
}

// checkChain checks a chain that is not in the history.
func (c *Core) checkChain(ch *chainEntry) error {
	entering := 0
	// Sorted, so that a fault run that is repeated with one seed reports the same violation.
	for _, name := range slices.Sorted(maps.Keys(c.requests)) {
		if r := c.requests[name]; r.entry != nil && c.chainOf(r.entry) == ch {
			entering++
		}
	}
	on := 0
	// The two sides of the assignment change together. A driver listed at a worker that the
	// chain does not name would be lost twice.
	for _, w := range c.list {
		for _, x := range w.drivers {
			if x == ch {
				on++
				if w.name != ch.driver.worker {
					return fmt.Errorf("%v has its driver on %q and is listed at %s", ch.id, ch.driver.worker, w.name)
				}
			}
		}
	}
	outputs := map[string]bool{}
	for i, s := range ch.steps {
		switch {
		case (s.entry == nil) == (s.ended == nil):
			return fmt.Errorf("%v: its step %v both runs and has ended, or neither", ch.id, s.job)
		case outputs[s.output]:
			return fmt.Errorf("%v: two steps write to %s", ch.id, s.output)
		case i > 0 && ch.steps[i-1].job >= s.job:
			return fmt.Errorf("%v: its step %v is out of order", ch.id, s.job)
		case s.entry != nil && c.jobs[s.job] != s.entry:
			return fmt.Errorf("%v: its step %v is no job", ch.id, s.job)
		}
		outputs[s.output] = true
	}
	switch {
	case c.chains.byID[ch.id] != ch || (ch.final != nil) != ch.unsaved || c.chains.requests[ch.request] != ch.id:
		return fmt.Errorf("%v is listed as live and is not", ch.id)
	case entering != ch.entering:
		return fmt.Errorf("%v: %d steps are entering, counted as %d", ch.id, entering, ch.entering)
	case on > 1 || (on == 1) != (ch.driver.worker != ""):
		return fmt.Errorf("%v has its driver on %q, listed %d times", ch.id, ch.driver.worker, on)
	case ch.outcome != nil && ch.driver.worker != "":
		return fmt.Errorf("%v is decided and has a driver", ch.id)
	case ch.outcome != nil && !ch.cleaning && ch.entering == 0 && !slices.ContainsFunc(ch.steps, func(s *chainStep) bool { return s.ended == nil }):
		return fmt.Errorf("%v is decided and has no step, but its directory stays", ch.id)
	}
	return nil
}

// checkRequests checks that every job has its request and no other.
func (c *Core) checkRequests() error {
	for _, name := range slices.Sorted(maps.Keys(c.requests)) {
		r := c.requests[name]
		if (r.job == 0) != (r.entry != nil) || r.job != 0 && len(r.calls) > 0 {
			return fmt.Errorf("request %q of %v: %d calls wait", name, r.job, len(r.calls))
		}
		if j := c.jobs[r.job]; j != nil && j.request != name {
			return fmt.Errorf("%v has the request %q, not %q", r.job, j.request, name)
		}
	}
	return nil
}
