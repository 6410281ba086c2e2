package faultrun

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/live/master/protocol"
	"github.com/slotwise/slotwise/sched/job"
)

// storage is the shared storage: a staging directory per token, which is published
// or removed as a whole.
type storage struct {
	r      *cluster
	staged map[string]*staging // by token; stays after the directory is gone
	gone   map[string]bool     // removed directories of chains
	late   bool                // a request of a master that leads no more takes effect
}

// staging is a job's staging directory.
type staging struct {
	uri   string
	parts map[job.TaskID]job.AttemptID
	state stagingState
	late  bool // made by a late request, so that no master removes it
}

type stagingState int

const (
	open      stagingState = iota // exists; attempts may commit parts to it
	published                     // has its final name
	removed
)

var (
	errAway = errors.New("the storage is away")
	errGone = errors.New("the staging directory does not exist")

	errPublished = errors.New("the output is published already")
)

// stage creates a staging directory. An existing one of the same token stays unchanged.
func (s *storage) stage(uri, token string) error {
	s.r.logf("storage: stage %s as %s, late %v", uri, token, s.late)
	if old := s.staged[token]; old != nil && old.state != removed {
		return nil
	}
	if !s.late { // it leaves a directory behind, as a request that is stopped for long may
		s.checkGone(uri)
	}
	s.staged[token] = &staging{uri: uri, parts: map[job.TaskID]job.AttemptID{}, late: s.late}
	return nil
}

// commitPart moves an attempt's output into the staging directory and reports
// whether that still exists.
func (s *storage) commitPart(token string, id job.AttemptID) bool {
	d := s.staged[token]
	if d == nil || d.state != open {
		return false
	}
	if m := s.r.master; m != nil {
		if before, ok := d.parts[id.TaskID]; ok && before != id && m.counts(before) && m.counts(id) {
			s.r.violate("%v commits, and so did %v, which was not given up", id, before)
		}
	}
	d.parts[id.TaskID] = id
	s.r.counts.PartCommits++
	return true
}

// publish gives a staging directory its final name. Doing it again changes nothing.
func (s *storage) publish(id job.ID, token string) error {
	s.r.logf("storage: publish %s of %v, late %v", token, id, s.late)
	d := s.staged[token]
	switch {
	case s.late && (d == nil || d.state == removed):
		return errGone
	case d == nil || d.state == removed:
		s.r.violate("the output of %v is to be published after it was removed", id)
		return errGone
	case d.state == open:
		s.checkGone(d.uri)
		if s.published(d.uri) {
			s.r.violate("%s is published twice", d.uri)
		}
		d.state = published
		s.checkParts(id, d)
	}
	return nil
}

// remove removes a staging directory. It leaves published output alone and says so.
func (s *storage) remove(token string) error {
	s.r.logf("storage: remove %s, late %v", token, s.late)
	switch d := s.staged[token]; {
	case d == nil:
	case d.state == published:
		return errPublished
	case d.state == open:
		d.state, d.parts = removed, nil
	}
	return nil
}

// checkParts checks that every task that commits has its part.
func (s *storage) checkParts(id job.ID, d *staging) {
	kind, n := job.Map, s.r.maps[id]
	if s.r.reduces[id] > 0 {
		kind, n = job.Reduce, s.r.reduces[id]
	}
	for i := range n {
		if _, ok := d.parts[job.TaskID{Job: id, Kind: kind, Index: int32(i)}]; !ok {
			s.r.violate("%v is published without the output of %v %d", id, kind, i)
		}
	}
}

// published reports whether the output of a URI was published.
func (s *storage) published(uri string) bool {
	for _, d := range s.staged {
		if d.uri == uri && d.state == published {
			return true
		}
	}
	return false
}

// check checks that no staging directory is left behind.
func (s *storage) check() {
	for _, token := range slices.Sorted(maps.Keys(s.staged)) {
		if d := s.staged[token]; d.state == open && !d.late {
			s.r.violate("the staging directory of %s is left behind", d.uri)
		}
	}
}

// operate performs an operation of one life of the master on the storage and calls done
// with the result. After an injected error it calls retry and tries again, unless
// *cancelled is set; a nil retry means that the first error is the result. If the master
// dies before, the operation may take effect without any call. The error may also hide
// that the operation took effect.
func (s *storage) operate(m *master, cancelled *bool, op func() error, retry func(error), done func(error)) {
	m.later(s.r.randomUpTo(500*time.Millisecond), func() {
		// Like the real shell: an operation begins under the lease only.
		if !m.mayAct() {
			s.operate(m, cancelled, op, retry, done)
			return
		}
		if s.r.fault(20) {
			s.r.counts.StorageErrors++
			if s.r.chance(30) {
				_ = op() // its error is lost as well
			}
			if retry != nil {
				retry(errAway)
			}
			m.later(s.r.randomUpTo(2*second), func() {
				switch {
				case retry == nil || cancelled != nil && *cancelled:
					done(errAway)
				default:
					s.operate(m, cancelled, op, retry, done)
				}
			})
			return
		}
		if s.r.fault(8) {
			// The request is under way for long. It takes effect whether or not the master still leads.
			s.r.counts.LateEffects++
			s.r.logf("%s: a request to the storage takes effect later", m.member.address)
			s.r.after(s.r.randomUpTo(30*second), func() {
				s.late = m != s.r.master
				err := op()
				s.late = false
				m.later(0, func() { done(err) })
			})
			return
		}
		err := op()
		m.later(s.r.randomUpTo(200*time.Millisecond), func() { done(err) })
	})
}

// carryOut starts an order of a master.
func (s *storage) carryOut(m *master, o protocol.Instruction) {
	switch o := o.(type) {
	case *protocol.StageOutput:
		s.operate(m, nil, func() error { return s.stage(o.URI, o.Token) }, nil, func(err error) {
			m.handle(&protocol.Staged{Request: o.Request, Err: err})
		})
	case *protocol.RemoveStaged:
		s.operate(m, nil, func() error { return s.remove(o.Token) }, func(error) {}, func(err error) {
			m.handle(&protocol.StagingRemoved{Request: o.Request, Output: o.URI, Err: err})
		})
	case *protocol.CommitOutput:
		s.r.commitOrdered(m, o)
		cancelled := m.cancellable(o.Job)
		s.operate(m, cancelled, func() error { return s.publish(o.Job, o.Token) },
			func(err error) {
				m.handle(&protocol.OutputDelayed{Job: o.Job, Err: err})
				if s.r.fault(20) { // the user's patience ends before the storage is back
					s.r.after(s.r.randomUpTo(second), func() { m.killDuringCommit(o.Job) })
				}
			},
			func(err error) { m.handle(&protocol.OutputFinished{Job: o.Job, Commit: true, Err: err}) })
	case *protocol.AbortOutput:
		// Never given up, so that a staging directory that is left behind is a bug.
		s.operate(m, nil, func() error { return s.remove(o.Token) },
			func(err error) { m.handle(&protocol.OutputDelayed{Job: o.Job, Err: err}) },
			func(err error) {
				if errors.Is(err, errPublished) {
					s.r.counts.FoundPublished++
					m.handle(&protocol.OutputFinished{Job: o.Job, Published: true})
					return
				}
				m.handle(&protocol.OutputFinished{Job: o.Job, Err: err})
			})
	case *protocol.RemoveChainDir:
		s.operate(m, nil, func() error {
			return s.removeChainDir(o.URI)
		}, func(error) {}, func(err error) {
			m.handle(&protocol.ChainCleaned{Chain: o.Chain, Err: err})
		})
	case *protocol.CancelOutput:
		*m.cancellable(o.Job) = true
	}
}
