package sched

import "github.com/slotwise/slotwise/internal/job"

// Holder is an Order that keeps back whole groups of jobs, such as those of a
// full pool. Its Each leaves them out, so that no round ever notes why they
// wait; Held says it for a live job when someone asks, in O(1), and is the zero
// Reason for a job that the order would serve.
type Holder interface {
	Held(j *job.Job, k job.Kind) Reason
}

// held asks the order of a composition.
func held(p Policy, j *job.Job, k job.Kind) Reason {
	if c, ok := p.(*Composition); ok {
		if h, ok := c.Order.(Holder); ok {
			return h.Held(j, k)
		}
	}
	return Reason{}
}
