package sim

import (
	"slices"
	"time"

	"github.com/slotwise/slotwise/sched/job"
)

// Stop stops all processes of a node for a while, as with SIGSTOP and SIGCONT: it sends no
// heartbeats, its attempts do not continue, and its map outputs cannot be fetched. Reduces
// wait for the outputs without a complaint, because their connections stay open. An output
// that all of the job's reduces have fetched before is not missed. At Until
// everything continues where it stopped; 0 is never. The tracker may give the node up meanwhile.
type Stop struct {
	Node      int
	At, Until time.Duration
}

// pause is the state of a stopped node.
type pause struct {
	since    time.Duration
	attempts []frozen
}

// frozen is an attempt whose process has stopped.
type frozen struct {
	at    int32
	id    job.AttemptID
	span  time.Duration // until its timer, if one ran
	timer bool
	left  float64 // remaining demand on its station
	loads bool
}

// stop stops a node for a while.
func (s *sim) stop(i int32) {
	st := &s.model.Stops[i]
	n := int32(st.Node)
	nd := &s.nodes[n]
	if !nd.up || s.stopped[n] != nil {
		return
	}
	s.disturb(n)
	p := &pause{since: s.now}
	if s.stopped == nil {
		s.stopped = make(map[int32]*pause)
	}
	s.stopped[n] = p
	// Its next heartbeat is cancelled. resume sends one at once.
	nd.beatGen++
	for _, at := range nd.attempts {
		// An attempt that has ended waits for a heartbeat only, which comes after the pause.
		if !s.attempts[at].over {
			p.attempts = append(p.attempts, s.freeze(at))
		}
	}
	s.hideFromReduces(n)
	s.silent = append(s.silent, n)
	if s.model.NodeTimeout > 0 {
		s.queue.push(max(s.now, s.tr.Nodes().Get(nd.name).LastSeen()+s.model.NodeTimeout), evExpire, n, nd.life)
	}
	if st.Until > 0 {
		s.queue.push(st.Until, evResume, n, nd.life)
	}
}

// hideFromReduces makes the map outputs on a node unavailable, except outputs that all
// reduces of their job have fetched.
func (s *sim) hideFromReduces(n int32) {
	for _, core := range s.tr.Jobs().Live() {
		j := s.jobs[core.ID()]
		for m := range j.outputs {
			o, done := j.outputs[m], core.Task(job.Map, int32(m)).Success()
			if o.state == outputReady && o.node == n && (done == nil || !s.haveFetched(core, done.Ended())) {
				s.setOutput(j, int32(m), n, outputGone)
			}
		}
	}
}

// haveFetched reports whether all reduces of a job have fetched an output since it became
// ready: they run, and have looked for outputs once since then; see Overheads.FetchPoll.
func (s *sim) haveFetched(core *job.Job, ready time.Duration) bool {
	if core.Pending(job.Reduce) > 0 {
		return false
	}
	o := &s.model.Overheads
	known := ready
	if o.FetchPoll > 0 {
		known += (s.interval + o.EventPoll) / 2
	}
	for a := core.Oldest(job.Reduce); a != nil; a = a.Next() {
		look := a.Started() + o.FetchStart + o.FetchPoll
		if late := known - look; late > 0 && o.FetchPoll > 0 {
			look += (late + o.FetchPoll - 1) / o.FetchPoll * o.FetchPoll
		}
		if look > s.now {
			return false
		}
	}
	return true
}

// showToReduces makes the hidden map outputs on a node available again.
func (s *sim) showToReduces(n int32) {
	for _, core := range s.tr.Jobs().Live() {
		j := s.jobs[core.ID()]
		for m := range j.outputs {
			if o := j.outputs[m]; o.state == outputGone && o.node == n {
				s.setOutput(j, int32(m), n, outputReady)
			}
		}
	}
}

// freeze halts an attempt and returns the state that it needs to continue.
func (s *sim) freeze(at int32) frozen {
	a := &s.attempts[at]
	f := frozen{at: at, id: a.id, loads: a.loads}
	if a.current < a.count {
		switch st := &a.stages[a.current]; st.use {
		case useTime:
			f.timer, f.span = true, s.timeLeft(a)
		case useGate:
			// Before that, the reduce waits for maps: it has no timer whose rest could be kept.
			if f.timer = a.open && s.now >= a.zero; f.timer {
				f.span = s.timeLeft(a)
			}
		default:
			if a.station >= 0 {
				f.left = s.machine(a).plant.station[a.station].left(at, s.now)
			}
		}
	}
	// Last: it removes the attempt from its station, whose rest was just read.
	s.halt(at)
	return f
}

// resume continues a stopped node. If the tracker has given it up, it joins again, empty.
func (s *sim) resume(n int32) {
	nd, p := &s.nodes[n], s.stopped[n]
	delete(s.stopped, n)
	// The tracker has given the node up, so its attempts run elsewhere and these must not end.
	if !s.tr.Nodes().Get(nd.name).Alive() {
		s.restart(n)
		return
	}
	s.silent = slices.DeleteFunc(s.silent, func(x int32) bool { return x == n })
	s.showToReduces(n)
	for _, f := range p.attempts {
		// The tracker may have killed the attempt meanwhile, and another may have its entry.
		if a := &s.attempts[f.at]; a.job != nil && a.id == f.id && !a.over {
			s.thaw(a, &f, s.now-p.since)
		}
	}
	nd.beatGen++
	s.queue.push(s.now, evBeat, n, nd.beatGen)
}

// thaw continues an attempt after a pause.
func (s *sim) thaw(a *attempt, f *frozen, paused time.Duration) {
	// The time of the pause is no work: progress and ends shift by it.
	a.from += paused
	a.zero += paused
	if a.current >= a.count {
		return // it waits for the permission to commit, or hangs
	}
	s.occupy(a)
	// A reduce at its gate loads the machine only when its timer runs, which tryGate decides anew.
	if f.loads && (f.timer || !a.gate) {
		s.startLoad(a)
	}
	switch st := &a.stages[a.current]; {
	case f.timer:
		s.endAfter(a, f.span)
	case st.use == useGate:
		a.open = false
		s.arriveAtGate(f.at)
	case st.use == useShuffle:
		a.fetching = false // a transfer that was cut off begins again
		s.startStage(f.at)
	default:
		weight := 0.
		if st.use == useFar {
			weight = 1
		}
		s.enter(f.at, st.use, f.left, weight)
	}
}
