package collect

import (
	"fmt"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/sched/job"
)

// patience is how long maps of a job must have waited before idle slots count against the
// policy. It exceeds the waits for heartbeats and for local nodes on clusters of
// usual size.
const patience = time.Minute

// The thresholds of Starved.Warning: idle slots as a fraction of the map slots, and the
// least fraction of the time.
const (
	starvedIdle = 0.5
	starvedTime = 0.1
)

// Starved says how much a policy left slots idle while maps waited. A moment is starved if
// some job has had waiting maps for a minute without a pause, and at least half of the
// map slots are idle. Maps whose output was lost do not count as waiting.
//
// A map slot is idle if it is free and the cluster runs fewer attempts than it has slots:
// a policy may give the slot to reduces. Slots of nodes that are down do not count.
type Starved struct {
	// Time is the fraction of the time from the first submission to the end that is
	// starved, Idle the mean fraction of the map slots that are idle in this time.
	Time float64 `json:"time"`
	Idle float64 `json:"idle_slots"`
}

// Warning returns a sentence about a policy that starves maps for a tenth of the time or
// more, else an empty string.
func (s Starved) Warning(policy string) string {
	if s.Time < starvedTime {
		return ""
	}
	return fmt.Sprintf("policy %s left %.0f %% of the map slots idle on average while maps waited for %.0f %% of the time: "+
		"its limits (see slotwise policies) may be too low for this cluster", policy, 100*s.Idle, 100*s.Time)
}

// starvation observes a run for Starved. The methods are called before the collector
// changes its counts of busy slots.
type starvation struct {
	jobs  map[int]*wanting // live jobs
	queue []waitStart      // jobs with waiting maps, oldest first; entries may be out of date
	up    [job.Kinds]int   // slots of nodes that are up
	at    time.Duration    // end of the time that is integrated
	time  float64          // starved seconds
	idle  float64          // idle fraction × starved seconds
}

// wanting counts the waiting maps of a live job. since is when it last had none.
type wanting struct {
	maps  int
	since time.Duration
}

// waitStart is a job that had no waiting maps before since.
type waitStart struct {
	*wanting
	since time.Duration
}

// pass integrates up to now. busy holds the slots in use since the last call.
func (s *starvation) pass(now time.Duration, busy [job.Kinds]int) {
	from := s.at
	if now <= from {
		return
	}
	s.at = now
	for len(s.queue) > 0 {
		head := s.queue[0]
		if w := head.wanting; w.maps > 0 && w.since == head.since {
			break
		}
		s.queue = s.queue[1:]
	}
	if len(s.queue) == 0 || s.up[job.Map] == 0 {
		return
	}
	if from = max(from, s.queue[0].since+patience); now <= from {
		return
	}
	free := min(s.up[job.Map]-busy[job.Map], s.up[job.Map]+s.up[job.Reduce]-busy[job.Map]-busy[job.Reduce])
	idle := float64(free) / float64(s.up[job.Map])
	if idle < starvedIdle {
		return
	}
	span := (now - from).Seconds()
	s.time += span
	s.idle += float64(idle * span)
}

// add adds n waiting maps to a job, a negative n removes them.
func (s *starvation) add(now time.Duration, i, n int) {
	w := s.jobs[i]
	if w == nil {
		return
	}
	if w.maps == 0 && n > 0 {
		w.since = now
		s.queue = append(s.queue, waitStart{w, now})
	}
	w.maps = max(0, w.maps+n)
}

// observe counts the waiting maps of jobs. maps is the number of maps of the job. copied says that other attempts of an ended
// attempt's task may be alive, or that the task has ended.
func (s *starvation) observe(e *sim.Event, maps int, copied bool) {
	switch {
	case e.Kind == sim.JobSubmitted:
		s.jobs[e.Job] = &wanting{}
		s.add(e.At, e.Job, maps)
	case e.Kind == sim.JobRestarted:
		if w := s.jobs[e.Job]; w != nil {
			s.add(e.At, e.Job, maps-w.maps)
		}
	case e.Kind == sim.JobEnded:
		if w := s.jobs[e.Job]; w != nil {
			w.maps = 0 // for its entry in the queue
			delete(s.jobs, e.Job)
		}
	case e.Attempt.Kind != job.Map || e.Speculative:
	case e.Kind == sim.AttemptStarted:
		s.add(e.At, e.Job, -1)
	case e.Kind == sim.AttemptEnded && e.Outcome != job.AttemptSucceeded && !copied:
		s.add(e.At, e.Job, 1)
	}
}

// result returns the fractions of the time from start to end.
func (s *starvation) result(start, end time.Duration) Starved {
	if s.time == 0 || end <= start {
		return Starved{}
	}
	return Starved{Time: s.time / (end - start).Seconds(), Idle: s.idle / s.time}
}
