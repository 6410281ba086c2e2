package collect

import (
	"fmt"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
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

// Conserved says how much a policy left slots idle while tasks that could use them waited. A
// policy that conserves work leaves none idle but for the time until the next heartbeat, and
// until a node near the data has a free slot under delay scheduling. Unlike Starved it has no
// thresholds, so that policies can be compared by it.
type Conserved struct {
	// Waited is the fraction of the time, from the first submission to the end, in which one or
	// more tasks of the kind wait. Reduces wait from the time on at which their job's slow start
	// permits them.
	Waited [job.Kinds]float64 `json:"waited"`
	// Idle is the mean fraction of the kind's slots that are idle in this time. A slot is idle
	// in the meaning of Starved.
	Idle [job.Kinds]float64 `json:"idle_slots"`
	// Longest is the longest time from a job's submission to its first launch, divided by the
	// time that the job takes alone.
	Longest float64 `json:"longest_wait"`
}

// starvation observes a run for Starved and Conserved. The methods are called before the
// collector changes its counts of busy slots.
type starvation struct {
	jobs  map[int]*wanting // live jobs
	queue []waitStart      // jobs with waiting maps, oldest first; entries may be out of date
	up    [job.Kinds]int   // slots of nodes that are up
	at    time.Duration    // end of the time that is integrated
	time  float64          // starved seconds
	idle  float64          // idle fraction × starved seconds

	waiting   [job.Kinds]int     // tasks of all live jobs that could use a slot
	wanted    [job.Kinds]float64 // seconds with waiting tasks
	idleWhile [job.Kinds]float64 // idle fraction × these seconds
}

// wanting counts the waiting tasks of a live job. since is when it last had no waiting maps.
type wanting struct {
	tasks [job.Kinds]int
	since time.Duration
	// gate is the number of maps that must still succeed before reduces may start.
	gate int
}

// ready returns the number of tasks that could use a slot.
func (w *wanting) ready(kind job.Kind) int {
	if kind == job.Reduce && w.gate > 0 {
		return 0
	}
	return w.tasks[kind]
}

// waitStart is a job that had no waiting maps before since.
type waitStart struct {
	*wanting
	since time.Duration
}

// pass integrates up to now. busy holds the slots in use since the last call.
func (s *starvation) pass(now time.Duration, busy [job.Kinds]int) {
	from := s.at
	// Events of one moment: the state between them lasts no time.
	if now <= from {
		return
	}
	s.at = now
	// A policy that lends slots may run more maps than there are map slots, on slots of the other kind. So
	// neither kind has more idle slots than the whole cluster has.
	whole := s.up[job.Map] + s.up[job.Reduce] - busy[job.Map] - busy[job.Reduce]
	free := func(kind job.Kind) float64 {
		return max(0, float64(min(s.up[kind]-busy[kind], whole))/float64(s.up[kind]))
	}
	for kind := range s.waiting {
		// Without slots of the kind, nothing that a policy does could help the task.
		if s.waiting[kind] > 0 && s.up[kind] > 0 {
			span := (now - from).Seconds()
			s.wanted[kind] += span
			s.idleWhile[kind] += float64(free(job.Kind(kind)) * span)
		}
	}
	// Entries whose job has had no waiting map in between are dropped only here: to find them when that happens
	// would cost a search. The head that is left is the job that has waited longest.
	for len(s.queue) > 0 {
		head := s.queue[0]
		if w := head.wanting; w.tasks[job.Map] > 0 && w.since == head.since {
			break
		}
		s.queue = s.queue[1:]
	}
	if len(s.queue) == 0 || s.up[job.Map] == 0 {
		return
	}
	// Only the part of the span after the minute counts, which may have ended within the span.
	if from = max(from, s.queue[0].since+patience); now <= from {
		return
	}
	idle := free(job.Map)
	// A few idle slots are usual: nodes wait for their next heartbeat, or for a job with data there.
	if idle < starvedIdle {
		return
	}
	span := (now - from).Seconds()
	s.time += span
	s.idle += float64(idle * span)
}

// change applies f to a job's counts and keeps the totals of all jobs.
func (s *starvation) change(now time.Duration, i int, f func(w *wanting)) {
	// A late event of an attempt whose job has ended finds none.
	w := s.jobs[i]
	if w == nil {
		return
	}
	before := [job.Kinds]int{w.ready(job.Map), w.ready(job.Reduce)}
	maps := w.tasks[job.Map]
	f(w)
	// It is appended with the latest time, so the queue stays in order of age.
	if maps == 0 && w.tasks[job.Map] > 0 {
		w.since = now
		s.queue = append(s.queue, waitStart{w, now})
	}
	for kind, n := range before {
		s.waiting[kind] += w.ready(job.Kind(kind)) - n
	}
}

// observe counts the waiting tasks of the event's job j. copied says that other attempts of
// an ended attempt's task may be alive, or that the task has ended.
func (s *starvation) observe(e *sim.Event, j *workload.Job, copied bool) {
	kind := e.Attempt.Kind
	switch {
	case e.Kind == sim.JobSubmitted || e.Kind == sim.JobRestarted:
		// A restarted job keeps its entry: the queue holds pointers to it.
		if e.Kind == sim.JobSubmitted {
			s.jobs[e.Job] = &wanting{}
		}
		s.change(e.At, e.Job, func(w *wanting) {
			w.tasks = [job.Kinds]int{job.Map: j.Count(job.Map), job.Reduce: j.Count(job.Reduce)}
			w.gate = e.Gate
		})
	case e.Kind == sim.JobEnded:
		s.change(e.At, e.Job, func(w *wanting) { w.tasks = [job.Kinds]int{} })
		delete(s.jobs, e.Job)
	case e.Kind == sim.AttemptEnded && e.Outcome == job.AttemptSucceeded:
		if kind == job.Map {
			// Not for a task that is launched again after its output was lost: then the gate has been
			// passed, and a number below 0 says the same as 0.
			s.change(e.At, e.Job, func(w *wanting) { w.gate-- })
		}
	case e.Speculative: // its task runs already, and goes on if the copy ends
	case e.Kind == sim.AttemptStarted:
		// A map whose output was lost has not been counted as waiting.
		s.change(e.At, e.Job, func(w *wanting) { w.tasks[kind] = max(0, w.tasks[kind]-1) })
	case e.Kind == sim.AttemptEnded && !copied:
		s.change(e.At, e.Job, func(w *wanting) { w.tasks[kind]++ })
	}
}

// result returns the fractions of the time from start to end.
func (s *starvation) result(start, end time.Duration) Starved {
	if s.time == 0 || end <= start {
		return Starved{}
	}
	return Starved{Time: s.time / (end - start).Seconds(), Idle: s.idle / s.time}
}

// conserved returns the fractions of the time from start to end, without the longest wait.
func (s *starvation) conserved(start, end time.Duration) (c Conserved) {
	for kind, wanted := range s.wanted {
		if wanted > 0 && end > start {
			c.Waited[kind], c.Idle[kind] = wanted/(end-start).Seconds(), s.idleWhile[kind]/wanted
		}
	}
	return c
}
