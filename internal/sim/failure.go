package sim

import (
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/tracker"
)

// crash makes a node fall silent. What it runs stops, and what its maps have
// left cannot be fetched any more; the tracker learns it when the node has been
// silent for too long, when reduces complain, or when the node is back.
func (s *sim) crash(n int32, back time.Duration) {
	nd := &s.nodes[n]
	if !nd.up {
		return
	}
	nd.up = false
	nd.life++
	nd.beatGen++
	s.silent = append(s.silent, n)
	for _, at := range nd.attempts {
		s.halt(at)
		if a := &s.attempts[at]; !a.over {
			a.over, a.outcome, a.finished = true, job.AttemptLost, s.now
		}
	}
	for _, j := range s.tr.Jobs().Live() {
		s.hideOutputs(s.jobs[j.ID()], n)
	}
	if s.model.NodeTimeout > 0 {
		seen := s.tr.Nodes().Get(nd.name).LastSeen()
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
	if j.gone > 0 && !j.retrying {
		j.retrying = true
		s.queue.push(s.now+s.model.FetchRetry, evRetry, int32(j.id), 0)
	}
}

// complain lets the reduces that wait for outputs tell the tracker which of them
// they cannot fetch, and again after a while if that has not helped.
func (s *sim) complain(id job.ID) {
	j := s.jobs[id]
	j.retrying = false
	reduces := slices.Clone(j.waiters)
	for _, at := range reduces {
		reduce := s.attempts[at].id
		for m := range j.outputs {
			// What one says may end others, and the job.
			if s.jobs[id] != j || !s.waiting(at, reduce) {
				break
			}
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

// waiting reports whether an attempt is still there and lacks outputs.
func (s *sim) waiting(at int32, id job.AttemptID) bool {
	a := &s.attempts[at]
	return a.job != nil && a.id == id && !a.over && !(a.open && s.now >= a.fetchedAt)
}

// tick lets the tracker see who has been silent for too long.
func (s *sim) tick() {
	s.step(&tracker.Tick{})
	s.bury()
}

// bury ends what ran on the nodes that the tracker has given up.
func (s *sim) bury() {
	s.silent = slices.DeleteFunc(s.silent, func(n int32) bool {
		nd := &s.nodes[n]
		if s.tr.Nodes().Get(nd.name).Alive() {
			return false
		}
		s.lost(n)
		return true
	})
	s.pace()
}

// lost ends what ran on a node.
func (s *sim) lost(n int32) {
	nd := &s.nodes[n]
	for len(nd.attempts) > 0 {
		s.drop(nd.attempts[0], job.AttemptLost, "its node was lost")
	}
	s.tellNode(NodeDown, n)
}

// comeBack starts a node afresh, with nothing of what it had.
func (s *sim) comeBack(n int32) {
	nd := &s.nodes[n]
	nd.up = true
	nd.life++
	s.step(&tracker.Join{Node: nd.spec})
	if i := slices.Index(s.silent, n); i >= 0 {
		s.silent = slices.Delete(s.silent, i, i+1)
		s.lost(n)
	}
	s.tellNode(NodeUp, n)
	s.pace()
	nd.beatGen++
	s.queue.push(s.now, evBeat, n, nd.beatGen)
	s.drawCrash(n)
}
