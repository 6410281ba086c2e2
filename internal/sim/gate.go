package sim

import (
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/workload"
)

// running is a submitted job that has not ended.
type running struct {
	index int32 // in Config.Jobs
	id    job.ID
	core  *job.Job // the tracker's
	spec  *workload.Job

	// outputs are the maps' outputs, of jobs with reduces.
	outputs []output
	// done counts the maps whose output can be fetched, bytes what they hold;
	// all is what all maps hold together, 0 if the workload does not say.
	done       int
	bytes, all float64
	// gone counts outputs on nodes that have crashed without the tracker
	// knowing yet.
	gone     int
	retrying bool // reduces complain about that from time to time
	// fetched is what the workload says the reduces fetch together.
	fetched float64
	// waiters are the reduces that fetch, or wait for maps, oldest first.
	waiters []int32
	news    bool // something changed that they wait for
	staged  bool // some fetch output by output
	// succeeded counts maps, for the time when all have.
	succeeded int
}

// output is where a map's output is.
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

// wants is how many bytes a reduce fetches: its part of what the maps leave,
// in proportion to its input, or else its input.
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

// ready is the part of all outputs that can be fetched.
func (j *running) ready() float64 {
	switch {
	case j.mapsDone():
		return 1
	case j.all == 0:
		return float64(j.done) / float64(len(j.spec.Maps))
	}
	return j.bytes / j.all
}

// forget takes a reduce out of those that wait.
func (j *running) forget(at int32) {
	if i := slices.Index(j.waiters, at); i >= 0 {
		j.waiters = slices.Delete(j.waiters, i, i+1)
	}
}

// setOutput notes what has become of a map's output.
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
	// A reduce of given duration waits for all maps and not for each.
	if (j.staged || j.mapsDone() != were) && !j.news && len(j.waiters) > 0 {
		j.news = true
		s.fresh = append(s.fresh, j)
	}
}

// settle lets the reduces of jobs with news go on, then computes the shares of
// all resources whose users have changed.
func (s *sim) settle() {
	for i := 0; i < len(s.fresh); i++ {
		j := s.fresh[i]
		j.news = false
		// A reduce that goes on may leave the list, and end the job.
		s.woken = append(s.woken[:0], j.waiters...)
		for _, at := range s.woken {
			if a := &s.attempts[at]; a.job == j && !a.over {
				s.wake(at)
			}
		}
	}
	s.fresh = s.fresh[:0]
	s.share()
}

// wake tells a waiting reduce that there are more outputs, or fewer.
func (s *sim) wake(at int32) {
	a := &s.attempts[at]
	switch a.stages[a.current].use {
	case useGate:
		s.tryGate(at)
	case useShuffle:
		if s.fetch(at) {
			a.gen++
			s.nextStage(at)
		}
	}
}

// arriveAtGate begins the only stage of a reduce of given duration.
func (s *sim) arriveAtGate(at int32) {
	a := &s.attempts[at]
	a.job.waiters = append(a.job.waiters, at)
	s.tryGate(at)
}

// tryGate sets the timer of a reduce of given duration D when all maps are done:
// it ends at start + D, or (1 − σ)·D after the maps if that is later, σ being
// ModelConfig.ShuffleShare. If a map's output is lost while it would still
// fetch, the timer is stopped again.
func (s *sim) tryGate(at int32) {
	a := &s.attempts[at]
	share := s.shuffleSpan(a)
	switch done := a.job.mapsDone(); {
	case done && !a.open:
		a.open = true
		a.fetchedAt = max(a.from+share, s.now)
		a.gen++
		s.queue.push(max(a.from+a.span, s.now+a.span-share), evTimer, at, a.gen)
	case !done && a.open && s.now < a.fetchedAt:
		a.open = false
		a.gen++
	}
}

// shuffleSpan is the part of a given duration that is for fetching.
func (s *sim) shuffleSpan(a *attempt) time.Duration {
	return scale(a.span, s.model.ShuffleShare)
}

// fetch goes on with a shuffle and reports whether it is complete. What is ready
// and has not been fetched yet is one transfer.
func (s *sim) fetch(at int32) bool {
	a := &s.attempts[at]
	if a.fetching {
		return false
	}
	st, nd := &a.stages[a.current], &s.nodes[a.node]
	u, weight := useNear, 0.
	switch {
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
	// Less than a byte can wait, unless it is the last, and rounding is not
	// worth a transfer at all.
	if more > 1 || more > 1e-9*st.amount && a.job.mapsDone() {
		a.transfer, a.fetching = more, true
		s.enter(at, u, more, weight)
		return false
	}
	if !a.job.mapsDone() {
		return false
	}
	a.got = st.amount
	a.job.forget(at)
	return true
}
