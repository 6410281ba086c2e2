package sim

import (
	"github.com/slotwise/slotwise/internal/tracker"
)

// This file implements sched.Restarter: it kills a job and submits it again. The tracker does
// not know that the two jobs are one. Results and observers have one job, with the time of its
// first submission.

// restartJobs kills the jobs that the policy wants to start again. When the last of a job's
// attempts has left and its output is removed, end passes the job to submitAgain.
func (s *sim) restartJobs() {
	for _, p := range s.restarters {
		for _, j := range p.Restarts() {
			if r := s.jobs[j.ID()]; r != nil && !r.restarting && s.err == nil {
				r.restarting = true
				s.step(&tracker.KillJob{Job: j.ID(), Reason: "the policy starts the job again"})
			}
		}
	}
}

// submitAgain submits a job that was killed in order to start again.
func (s *sim) submitAgain(j *running, e *tracker.Effect) {
	if s.restarts == nil {
		s.restarts = make(map[int32]int)
	}
	s.restarts[j.index]++
	if d := s.detail(j); d != nil {
		d.fill(j.core)
		d.MapsDone = -1
	}
	if s.cfg.Observer != nil {
		s.event = Event{Kind: JobRestarted, At: s.now, Job: int(j.index), ID: j.id, Gate: s.gate(j.spec), Node: -1, Discarded: j.useful}
		s.cfg.Observer.Observe(&s.event)
	}
	delete(s.jobs, e.Job)
	s.lastWork = s.now
	// An event, and not a step: this runs inside the effects of the step that ended the job.
	s.queue.push(s.now, evSubmit, j.index, 0)
}
