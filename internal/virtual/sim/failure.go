package sim

import (
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/sched/job"
)

// crash stops a node. Its attempts stop, and its map outputs cannot be fetched any
// more. The tracker learns of the crash when the node has been silent for too long, when
// reduces complain, or when the node is back.
func (s *sim) crash(n int32, back time.Duration) {
	nd := &s.nodes[n]
	if !nd.up {
		return
	}
	s.disturb(n)
	nd.up = false
	nd.life++
	nd.beatGen++
	// Set-ups, clean-ups and idle processes die with the node. The jobs of set-ups are not blocked: their
	// evReady is in the queue.
	nd.holds, nd.idle = nil, nil
	// A node that is stopped is silent already. In the list twice, it would be given up twice, and a return
	// would take it out once.
	if s.stopped[n] == nil {
		s.silent = append(s.silent, n)
	}
	delete(s.stopped, n)
	for _, at := range nd.attempts {
		s.halt(at)
		// It stays on the node's list until the tracker gives the node up: until then its slot
		// counts as occupied.
		if a := &s.attempts[at]; !a.over {
			a.over, a.outcome, a.finished = true, job.AttemptLost, s.now
		}
	}
	for _, j := range s.tr.Jobs().Live() {
		s.hideOutputs(s.jobs[j.ID()], n)
	}
	if s.model.NodeTimeout > 0 {
		seen := s.tr.Nodes().Get(nd.name).LastSeen()
		// The moment at which the tracker may give the node up. Nothing else would wake it on a cluster of
		// one node.
		s.queue.push(max(s.now, seen+s.model.NodeTimeout), evExpire, n, nd.life)
	}
	if back > s.now {
		s.queue.push(back, evReturn, n, nd.life)
	}
}

// hideOutputs marks the outputs of a job that are on a node as gone.
func (s *sim) hideOutputs(j *running, n int32) {
	for m := range j.outputs {
		if o := j.outputs[m]; o.state == outputReady && o.node == n {
			s.setOutput(j, int32(m), n, outputGone)
		}
	}
	// One timer for each job: all its reduces try at the same intervals.
	if j.gone > 0 && !j.retrying {
		j.retrying = true
		s.queue.push(s.now+s.model.FetchRetry, evRetry, int32(j.id), 0)
	}
}

// complain makes the reduces that wait for outputs report to the tracker which outputs
// they cannot fetch. They complain again after a while if outputs are still gone.
func (s *sim) complain(id job.ID) {
	j := s.jobs[id]
	j.retrying = false
	// A complaint may make a map pending, whose launch changes the list.
	reduces := slices.Clone(j.waiters)
	for _, at := range reduces {
		reduce := s.attempts[at].id
		for m := range j.outputs {
			// A complaint may end other attempts, and the job.
			if s.jobs[id] != j || !s.waiting(at, reduce) {
				break
			}
			// A map that runs again already has no success to complain about.
			if done := s.tr.Jobs().Task(job.TaskID{Job: id, Index: int32(m)}).Success(); j.outputs[m].state == outputGone && done != nil {
				s.step(&tracker.FetchFailed{Reduce: reduce, Map: done.ID()})
			}
		}
	}
	if s.jobs[id] == j && j.gone > 0 {
		j.retrying = true
		s.queue.push(s.now+s.model.FetchRetry, evRetry, int32(id), 0)
	}
}

// waiting reports whether an attempt still runs and lacks map outputs.
func (s *sim) waiting(at int32, id job.AttemptID) bool {
	a := &s.attempts[at]
	return a.job != nil && a.id == id && !a.over && !(a.open && s.now >= a.zero)
}

// tick lets the tracker give up nodes that have been silent for too long.
func (s *sim) tick() {
	s.step(&tracker.Tick{})
	s.dropSilent()
}

// dropSilent ends the attempts on nodes that the tracker has given up.
func (s *sim) dropSilent() {
	s.silent = slices.DeleteFunc(s.silent, func(n int32) bool {
		nd := &s.nodes[n]
		if s.tr.Nodes().Get(nd.name).Alive() {
			return false
		}
		s.dropAll(n)
		return true
	})
	s.pace()
}

// dropAll ends all attempts on a node as lost.
func (s *sim) dropAll(n int32) {
	nd := &s.nodes[n]
	for len(nd.attempts) > 0 {
		s.drop(nd.attempts[0], job.AttemptLost, "its node was lost")
	}
	s.notifyNode(NodeDown, n)
}

// restart starts a crashed node again, without attempts and map outputs.
func (s *sim) restart(n int32) {
	nd := &s.nodes[n]
	nd.up = true
	nd.life++
	// The tracker may not have noticed the crash yet. A join without attempts makes it give up the
	// old ones.
	s.step(&tracker.Join{Node: nd.spec})
	if i := slices.Index(s.silent, n); i >= 0 {
		s.silent = slices.Delete(s.silent, i, i+1)
		s.dropAll(n)
	}
	s.notifyNode(NodeUp, n)
	s.pace()
	nd.beatGen++
	s.queue.push(s.now, evBeat, n, nd.beatGen)
	s.drawCrash(n)
}

// planHangs schedules the hang of an attempt that has just been launched, if the model
// has one.
func (s *sim) planHangs(a *attempt) {
	for i, h := range s.model.Hangs {
		// Only the first attempt hangs, so the task ends once another one runs.
		if a.id.Number == 0 && h.Job == int(a.job.index) && h.Kind == a.id.Kind && h.Task == a.id.Index {
			s.hanging[i] = a.id
			s.queue.push(s.now+h.After, evHang, int32(i), 0)
		}
	}
}

// hang stops the work of an attempt for good, unless it has ended.
func (s *sim) hang(i int32) {
	core := s.tr.Jobs().Attempt(s.hanging[i])
	if core == nil || core.State() != job.AttemptRunning {
		return
	}
	// By name: under Config.Autoscale the tracker numbers nodes in the order in which they joined.
	nd := &s.nodes[s.byName[s.tr.Nodes().Node(core.Node()).Name()]]
	for _, at := range nd.attempts {
		if a := &s.attempts[at]; a.id == core.ID() && !a.over {
			a.hangsAt = s.progress(nd, a)
			s.halt(at)
			a.hangs, a.count = true, 0 // it has no stage from which it could be halted again
		}
	}
}
