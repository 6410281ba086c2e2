package sim

import (
	"fmt"
	"slices"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// apply carries out the tracker's effects in order. The attempts whose end the current
// heartbeat reports leave their slots before the first new attempt starts, so that an
// observer never sees a slot occupied twice. The tracker may kill such an attempt because
// another attempt of its task may commit; the kill removes it from s.ending.
func (s *sim) apply(effects []tracker.Effect) {
	for i := range effects {
		e := &effects[i]
		switch e.Kind {
		case tracker.Launch:
			s.flush()
			s.begin(e, s.node(e.Node))
		case tracker.Kill, tracker.CommitDenied:
			s.kill(e)
		case tracker.CommitGranted:
			// A commit takes no time here, so the permission is the end of the work.
			if at := s.find(e); at >= 0 {
				s.finishWork(at, job.AttemptSucceeded)
			}
		case tracker.MapDone:
			s.setOutput(s.jobs[e.Job], e.Attempt.Index, s.node(e.Node), outputReady)
		case tracker.MapLost:
			s.loseOutput(e)
		// The last attempt of the job leaves first: an observer sees no attempt end after its job.
		case tracker.JobDone:
			s.flush()
			s.end(e)
		case tracker.CommitOutput, tracker.AbortOutput:
			end := s.now
			// Hadoop 1 runs a cleanup task, in a slot, before a job ends.
			if s.model.Overheads.Cleanup > 0 {
				end = s.startCleanup()
			}
			s.queue.push(end+s.model.CommitTime, evOutput, int32(e.Job), 0)
		case tracker.JobAccepted:
			s.accepted(e)
		// Only a mistake in the workload or in the cluster leads here, so the run ends. A forecast
		// invents further jobs, and continues without one that does not fit.
		case tracker.JobRejected:
			if s.cfg.Start != nil {
				continue
			}
			j := &s.cfg.Jobs[s.submitting]
			s.err = fmt.Errorf("job %d %q: %s", s.submitting, j.Name, e.Text)
		}
	}
	s.flush()
}

// node returns the index of the node of that name. Most effects concern the node that
// sent the event, so that node is tried first.
func (s *sim) node(name string) int32 {
	// Comparing one string costs less than a look-up in a map, and nearly always succeeds.
	if s.nodes[s.lastNode].name != name {
		s.lastNode = s.byName[name]
	}
	return s.lastNode
}

// find returns the index of the attempt of an effect, or -1 if it has left.
func (s *sim) find(e *tracker.Effect) int32 {
	for _, at := range s.nodes[s.node(e.Node)].attempts {
		// A node runs a dozen attempts, so the walk is shorter than keeping an index of all.
		if s.attempts[at].id == e.Attempt {
			return at
		}
	}
	return -1
}

// flush removes the attempts whose end the heartbeat has reported.
func (s *sim) flush() {
	for _, at := range s.ending {
		a := &s.attempts[at]
		text := ""
		if a.outcome == job.AttemptSucceeded {
			s.succeeded(a)
		} else {
			text = drawnFailure
		}
		s.drop(at, a.outcome, text)
	}
	s.ending = s.ending[:0]
}

// drawnFailure is the error of an attempt that fails by chance.
const drawnFailure = "failed as drawn"

// succeeded updates the counts for an attempt that has succeeded.
func (s *sim) succeeded(a *attempt) {
	j := a.job
	// Before drop, which forgets the attempt: the process stays on the node.
	s.keepProcess(a)
	// Up to the report, as the tracker counts slot time.
	j.useful += s.now - a.began
	if a.id.Kind == job.Reduce {
		if !a.plain {
			s.result.BytesFetched += a.got
		}
		return
	}
	s.result.BytesRead[a.level] += a.task().Input
	if j.succeeded++; j.succeeded == len(j.spec.Maps) {
		if d := s.detail(j); d != nil {
			d.MapsDone = s.now
		}
	}
}

// kill ends an attempt that the tracker has given up. One that has left already is no error: its
// node may have been lost in the same step.
func (s *sim) kill(e *tracker.Effect) {
	at := s.find(e)
	if at < 0 {
		return
	}
	// The attempt's success arrived in the same heartbeat in which another attempt of the task got
	// the permission to commit. It must not count twice.
	if i := slices.Index(s.ending, at); i >= 0 {
		s.ending = slices.Delete(s.ending, i, i+1)
	}
	s.holdKilled(&s.attempts[at])
	s.drop(at, job.AttemptKilled, e.Text)
}

// loseOutput makes the output of a map that must run again unavailable.
func (s *sim) loseOutput(e *tracker.Effect) {
	j := s.jobs[e.Job]
	s.setOutput(j, e.Attempt.Index, 0, outputNone)
	// MapsDone in the result is set again when the map has run again.
	j.succeeded--
	if s.cfg.Observer != nil {
		s.event = Event{Kind: OutputLost, At: s.now, Job: int(j.index), ID: j.id, Attempt: e.Attempt,
			Node: int(s.node(e.Node)), NodeName: e.Node, Text: e.Text}
		s.cfg.Observer.Observe(&s.event)
	}
}

// submit submits a job to the tracker.
func (s *sim) submit(i int32) {
	j := &s.cfg.Jobs[i]
	if j.Outline != nil {
		tasks := j.Tasks()
		if err := checkTasks(tasks); err != nil {
			s.err = fmt.Errorf("job %d %q: %w", i, j.Name, err)
			return
		}
		// A copy: the configuration is the caller's, and an outline makes the same tasks in every run.
		whole := *j
		whole.Maps, whole.Reduces, whole.Outline = tasks[job.Map], tasks[job.Reduce], nil
		j = &whole // garbage when the job has ended
	}
	s.submitting, s.spec = i, j
	// A mix that states memory wants it to count. Jobs of a history, which ran elsewhere, and of a
	// live cluster do without it where nodes state none, as in cluster.Spec.Width.
	if j.TaskMemory > 0 && j.Origin == workload.Stated && s.cfg.Start == nil && !slices.ContainsFunc(s.cfg.Cluster.Groups, func(g workload.NodeGroup) bool { return g.Memory > 0 }) {
		s.err = fmt.Errorf("job %d %q states task-memory, but no node of the cluster states memory", i, j.Name)
		return
	}
	// Without the durations: what the tracker does not get, no policy can see. Policies that need sizes ask
	// for them; see informPolicy.
	s.step(&tracker.Submit{Spec: job.Spec{Name: j.Name, Request: s.request(j), Splits: s.splits(i, j), Reduces: len(j.Reduces)}})
	// The tasks of an outlined job stay reachable through its record only, and leave memory with it.
	s.spec = nil
}

// request returns what a job asks of the scheduler. As the planner of slotwise run does, it lets
// reduces start at once if all maps of the job fit; see ModelConfig.AsRun.
func (s *sim) request(j *workload.Job) job.Request {
	r := j.Request
	if s.model.AsRun && j.Origin == workload.Stated && r.SlowStart == 0 && j.Count(job.Map) <= s.tr.Nodes().Slots(job.Map) {
		r.SlowStart = job.StartAfter(0)
	}
	return r
}

// gate returns Event.Gate of a job.
func (s *sim) gate(j *workload.Job) int {
	r := s.request(j)
	return r.SlowStartMaps(j.Count(job.Map))
}

// accepted records the job that is being submitted under the tracker's number.
func (s *sim) accepted(e *tracker.Effect) {
	j := newRunning(s.submitting, e.Job, s.spec)
	s.jobs[e.Job] = j
	// The step that accepts a job without tasks also commits or ends it. Policies know only live
	// jobs, and the tracker has forgotten a job that has ended.
	if j.core = s.tr.Jobs().Get(e.Job); j.core != nil && j.core.State().Live() {
		s.informPolicy(j)
	}
	if d := s.detail(j); d != nil {
		d.ID = e.Job
		if d.Submitted < 0 {
			d.Submitted = s.now
		}
	}
	if s.model.Overheads.Setup == 0 && s.model.Overheads.InitPoll == 0 && s.restarts[j.index] == 0 {
		s.notifyJob(JobSubmitted, j, e)
	}
}

// setHooks notes the parts of a policy that use what only a simulation knows or can do.
func (s *sim) setHooks(p sched.Policy) {
	hooks := sched.HooksOf(p)
	s.sizes, s.restarters = hooks.Sizes, hooks.Restarters
}

// informPolicy passes the work of a job, and how often it was started again, to the parts of
// the policy that use them.
func (s *sim) informPolicy(j *running) {
	if len(s.sizes) > 0 {
		work := j.spec.WorkOf()
		for _, r := range s.sizes {
			r.Know(j.core, work)
		}
	}
	if times := s.restarts[j.index]; times > 0 {
		for _, r := range s.restarters {
			r.Restarted(j.core, times)
		}
	}
}

// finishOutput reports that a job's output is committed or aborted, which never
// fails here.
func (s *sim) finishOutput(id job.ID) {
	if s.tr.Jobs().Get(id).State() == job.Committing {
		s.step(&tracker.CommitEnded{Job: id})
	} else {
		s.step(&tracker.AbortEnded{Job: id})
	}
}

// end records the result of a job that has ended and forgets the job.
func (s *sim) end(e *tracker.Effect) {
	j := s.jobs[e.Job]
	// A job that succeeded before the kill took effect has ended like any other.
	if j.restarting && e.State == job.Killed {
		s.submitAgain(j, e)
		return
	}
	switch e.State {
	case job.Succeeded:
		s.result.Succeeded++
	case job.Failed:
		s.result.Failed++
	default:
		s.result.Killed++
	}
	if d := s.detail(j); d != nil {
		d.Ended, d.State, d.Text = s.now, e.State, e.Text
		if j.core != nil {
			d.fill(j.core)
		}
	}
	s.notifyJob(JobEnded, j, e)
	delete(s.jobs, e.Job)
	if s.mustEnd(j.index) {
		s.open--
	}
	s.lastWork = s.now
	s.waits[j.index] |= endedBit
	// Last, since a job that follows is submitted with the record of this one closed.
	s.release(j.index)
}

// detail returns the job's entry in the result, or nil unless Config.Details is set.
func (s *sim) detail(j *running) *JobResult {
	if s.result.Jobs == nil {
		return nil
	}
	return &s.result.Jobs[j.index]
}

// notifyJob passes an event of a job to the observer.
func (s *sim) notifyJob(k EventKind, j *running, e *tracker.Effect) {
	if s.cfg.Observer == nil {
		return
	}
	s.event = Event{Kind: k, At: s.now, Job: int(j.index), ID: j.id, State: e.State, Text: e.Text, Node: -1}
	if k == JobSubmitted {
		s.event.Gate = s.gate(j.spec)
	}
	s.cfg.Observer.Observe(&s.event)
}
