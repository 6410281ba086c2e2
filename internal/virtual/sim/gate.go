package sim

import (
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/job"
)

// running is a submitted job that has not ended.
type running struct {
	index int32 // in Config.Jobs
	id    job.ID
	core  *job.Job // the tracker's; nil for a job without tasks, which ends at once
	spec  *workload.Job

	// outputs says where each map's output is. It is nil for a job without reduces.
	outputs []output
	// done counts the maps whose output can be fetched, and bytes the bytes in these
	// outputs. all is the bytes in all outputs, 0 if the workload does not state them.
	done       int
	bytes, all float64
	// gone counts outputs on crashed nodes that the tracker has not given up yet.
	gone     int
	retrying bool // an evRetry event is scheduled, at which reduces complain
	// fetched is the number of bytes that all reduces fetch together, by the workload.
	fetched float64
	// waiters are the reduces that fetch or wait for maps, oldest first.
	waiters        []int32
	outputsChanged bool // outputs have changed since waiters were last woken
	staged         bool // some reduces fetch output by output
	// succeeded counts maps, for JobResult.MapsDone.
	succeeded int
	// useful is the slot time of the attempts that have succeeded.
	useful time.Duration
	// restarting says that the job is being killed in order to start again.
	restarting bool
}

// output is the location and state of a map's output.
type output struct {
	node  int32
	state outputState
}

type outputState uint8

const (
	outputNone outputState = iota
	outputReady
	outputGone // its node has crashed and the tracker does not know
)

// newRunning returns the record of a job that the tracker has.
func newRunning(index int32, id job.ID, spec *workload.Job) *running {
	j := &running{index: index, id: id, spec: spec}
	if len(spec.Reduces) > 0 {
		j.outputs = make([]output, len(spec.Maps))
	}
	for i := range spec.Maps {
		j.all += float64(spec.Maps[i].Output)
	}
	for i := range spec.Reduces {
		j.staged = j.staged || spec.Reduces[i].Duration == 0
		j.fetched += float64(spec.Reduces[i].Input)
	}
	return j
}

// wants returns how many bytes a reduce fetches. It is the reduce's share of all map
// outputs, in proportion to its input. If the workload does not state the maps' outputs,
// it is the reduce's input.
func (j *running) wants(reduce int32) float64 {
	input := float64(j.spec.Reduces[reduce].Input)
	switch {
	case j.all == 0:
		return input
	case j.fetched == 0:
		return j.all / float64(len(j.spec.Reduces))
	}
	return float64(j.all * (input / j.fetched))
}

// mapsDone reports whether all outputs can be fetched.
func (j *running) mapsDone() bool { return j.done == len(j.spec.Maps) }

// ready returns the fraction of all map output that can be fetched, 0 to 1.
func (j *running) ready() float64 {
	switch {
	case j.mapsDone():
		return 1
	case j.all == 0:
		return float64(j.done) / float64(len(j.spec.Maps))
	}
	return j.bytes / j.all
}

// forget removes a reduce from the waiters.
func (j *running) forget(at int32) {
	if i := slices.Index(j.waiters, at); i >= 0 {
		j.waiters = slices.Delete(j.waiters, i, i+1)
	}
}

// setOutput records a new state and location of a map's output, and schedules the
// waiting reduces to be woken.
func (s *sim) setOutput(j *running, m int32, node int32, state outputState) {
	o, were := &j.outputs[m], j.mapsDone()
	if o.state == outputReady {
		j.done--
		j.bytes -= float64(j.spec.Maps[m].Output)
	} else if o.state == outputGone {
		j.gone--
	}
	*o = output{node, state}
	if state == outputReady {
		j.done++
		j.bytes += float64(j.spec.Maps[m].Output)
	} else if state == outputGone {
		j.gone++
	}
	// A reduce of given duration only waits for the last map. All reduces of a run from a Start
	// are of this kind, although their tasks state no duration.
	if (j.staged && s.cfg.Start == nil || j.mapsDone() != were) && !j.outputsChanged && len(j.waiters) > 0 {
		j.outputsChanged = true
		s.changedJobs = append(s.changedJobs, j)
	}
}

// finishEvent wakes the reduces whose map outputs have changed, then computes the
// shares of all resources whose users have changed. It runs once at the end of each
// event, because one event can change many outputs and users.
func (s *sim) finishEvent() {
	// The list may grow meanwhile, by the steps to which woken reduces lead.
	for i := 0; i < len(s.changedJobs); i++ {
		j := s.changedJobs[i]
		j.outputsChanged = false
		// A reduce that is woken may leave waiters and end the job.
		// A copy, because waking may change the list.
		s.woken = append(s.woken[:0], j.waiters...)
		for _, at := range s.woken {
			if a := &s.attempts[at]; a.job == j && !a.over {
				s.wake(at)
			}
		}
	}
	s.changedJobs = s.changedJobs[:0]
	s.share()
}

// wake lets a waiting reduce react to a change of the map outputs.
func (s *sim) wake(at int32) {
	a := &s.attempts[at]
	switch a.stages[a.current].use {
	case useGate:
		s.tryGate(at)
	case useShuffle:
		if s.fetch(at) {
			// The attempt has no timer yet, or one of an earlier opening.
			a.gen++
			s.nextStage(at)
		}
	}
}

// arriveAtGate starts the last stage of a reduce of given duration.
func (s *sim) arriveAtGate(at int32) {
	a := &s.attempts[at]
	a.job.waiters = append(a.job.waiters, at)
	s.tryGate(at)
}

// tryGate sets the timer of a reduce of given duration D when all maps are done: it ends
// at start + D, or D − F after the maps if that is later. F is the part of D in which it
// fetches; see shuffleSpan. If a map's output is lost while it would still fetch, the
// timer is stopped again. The reduce loads its machine while the timer runs.
func (s *sim) tryGate(at int32) {
	a := &s.attempts[at]
	switch done := a.job.mapsDone(); {
	case done && !a.open:
		a.open = true
		s.startLoad(a)
		a.zero = s.fetchEnd(a, a.from+a.shuffle)
		a.gen++
		s.endAfter(a, a.zero+a.afterGate()-s.now)
	// After a.zero everything is fetched, and a lost output no longer matters to this reduce.
	case !done && a.open && s.now < a.zero:
		a.open = false
		s.leave(at)
		s.stopLoad(a)
		a.gen++
	}
}

// shuffleSpan returns the part of a reduce's given duration in which it fetches, in the
// proportion in which this attempt is slower or faster than stated.
func (s *sim) shuffleSpan(a *attempt) time.Duration {
	if s.cfg.Start != nil {
		return scale(a.span, s.model.ShuffleShare)
	}
	t := a.task()
	part := t.Overlap(s.model.ShuffleShare)
	if a.span == t.Duration {
		return part
	}
	return scale(part, float64(a.span)/float64(t.Duration))
}

// fetch continues a shuffle and reports whether it is complete. All bytes that are
// ready and not fetched yet become one transfer.
func (s *sim) fetch(at int32) bool {
	a := &s.attempts[at]
	if a.fetching {
		return false
	}
	st, nd := &a.stages[a.current], &s.nodes[a.node]
	u, weight := useNear, 0.
	switch {
	// All workers share the disk, and no byte crosses a network.
	case s.machines == 1:
		u = useDisk
	case nd.plant.outside > 0:
		u, weight = useFar, nd.plant.outside
	}
	more := float64(st.amount*a.job.ready()) - a.got
	if more > 0 && s.unlimited(nd, u) {
		a.got += more
		more = 0
	}
	// Less than a byte waits for more, unless it is the last. Rounding errors are no
	// transfer at all.
	if more > 1 || more > 1e-9*st.amount && a.job.mapsDone() {
		a.transfer, a.fetching = more, true
		s.enter(at, u, more, weight)
		return false
	}
	if !a.job.mapsDone() {
		return false
	}
	// Exactly, in place of a sum of transfers with their rounding.
	a.got = st.amount
	a.job.forget(at)
	return true
}
