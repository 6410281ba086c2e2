package sim

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/sched/job"
)

// profile is a rule for the interval between the heartbeats of a node.
type profile struct {
	perNode time.Duration // for each node of the cluster
	round   int           // nodes are counted in groups of that many, rounded up
	floor   time.Duration
	waits   bool // ends wait for the next heartbeat, as in Hadoop
}

// defaultProfile is the rule of slotwise's own master.
const defaultProfile = "slotwise"

// fixedPrefix is the prefix of profiles that do not depend on the number of nodes.
const fixedPrefix = "fixed:"

// Profiles returns the names of the heartbeat profiles, beside fixed:DURATION.
func Profiles() []string {
	return []string{defaultProfile, "hadoop-0.20.2", "hadoop-1.0", "hadoop-1.2"}
}

// CheckProfile returns an error if there is no heartbeat profile of that name. "" is the
// default profile.
func CheckProfile(name string) error {
	_, err := parseProfile(name)
	return err
}

// HeartbeatOf returns the name of a heartbeat profile, which is the default's for "", and
// the interval between the heartbeats of a node in a cluster of that many nodes.
func HeartbeatOf(name string, nodes int) (rule string, interval time.Duration, err error) {
	p, err := parseProfile(name)
	return cmp.Or(name, defaultProfile), p.interval(nodes), err
}

// parseProfile returns the profile of that name; "" is the default.
func parseProfile(name string) (profile, error) {
	switch name {
	case "", defaultProfile:
		// max(n · 3 ms, 500 ms), as protocol.Core paces its workers
		return profile{perNode: 3 * time.Millisecond, round: 1, floor: 500 * time.Millisecond}, nil
	case "hadoop-0.20.2", "hadoop-1.0":
		// max(1 s · ⌈n/100⌉, 3 s); 1.0 only adds a scale, which is 1.
		return profile{perNode: time.Second, round: 100, floor: 3 * time.Second, waits: true}, nil
	case "hadoop-1.2":
		// max(n · 10 ms, 300 ms)
		return profile{perNode: 10 * time.Millisecond, round: 1, floor: 300 * time.Millisecond, waits: true}, nil
	}
	if text, ok := strings.CutPrefix(name, fixedPrefix); ok {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return profile{}, fmt.Errorf("heartbeat %q: %q is not a duration above 0", name, text)
		}
		return profile{round: 1, floor: d}, nil
	}
	return profile{}, fmt.Errorf("unknown heartbeat %q: must be %s or %sDURATION", name,
		strings.Join(Profiles(), ", "), fixedPrefix)
}

// interval returns the time between two heartbeats of a node in a cluster of n nodes.
func (p profile) interval(n int) time.Duration {
	return max(p.floor, time.Duration((n+p.round-1)/p.round)*p.perNode)
}

// pace recomputes the interval after the number of nodes that the tracker knows has
// changed.
func (s *sim) pace() {
	now := s.beats.interval(s.tr.Nodes().Alive())
	if now == s.interval {
		return
	}
	// The heartbeats so far came at the former interval, which Beats needs.
	s.countBeats()
	s.disturbAll()
	s.parked.from = s.now + settleBeats*max(s.interval, now)
	s.interval = now
}

// heartbeat sends a node's heartbeat with the state of its attempts, and launches what the
// tracker assigns.
func (s *sim) heartbeat(n int32) {
	nd := &s.nodes[n]
	s.lastNode = n // most effects concern this node
	s.beat.Node, s.beat.Index, s.beat.Reports = nd.name, n, s.noReports()
	// Nine tenths, as in the protocol core: a regular heartbeat that comes a little early must not count
	// as extra.
	if s.beat.Early = s.now < nd.regularAt; !s.beat.Early {
		nd.regularAt = s.now + s.interval*9/10
	}
	if len(s.setups) > 0 {
		s.startSetup(nd)
	}
	s.measure(nd, &s.beat.Load)
	direct := s.direct()
	for _, at := range nd.attempts {
		switch a := &s.attempts[at]; {
		// An attempt that the tracker has given up gets an answer.
		case !direct || a.over || a.core.State() != job.AttemptRunning:
			s.report(nd, at)
		case s.reportsNow(a):
			s.tr.PassReport(a.core, s.progress(nd, a), s.now)
		}
	}
	s.step(&s.beat)
	// A heartbeat out of turn replaces the one that was due: the next comes an interval from now.
	nd.beatGen++
	if s.mayPark(nd) {
		s.park(n)
		return
	}
	s.queue.push(s.now+s.interval, evBeat, n, nd.beatGen)
}

// direct reports whether the progress of a heartbeat's running attempts may go to the tracker before its
// step, without a report of each and a search for its attempt: no trace reads the events, and nothing in
// the step comes before the reports. An end that is reported in the same step reads no progress.
func (s *sim) direct() bool {
	return s.cfg.Trace == nil && s.tr.Passes() && s.now < s.tr.StepDue()
}

// noReports returns the list of reports, empty. The entries behind its end are zero but for the
// attempt and the progress: a report of a running attempt sets these two, because to write the
// whole entry would cost more than everything else about the report.
func (s *sim) noReports() []tracker.Report {
	if s.ended {
		clear(s.beat.Reports)
		s.ended = false
	}
	return s.beat.Reports[:0]
}

// report adds the report on an attempt to the heartbeat of its node.
func (s *sim) report(nd *node, at int32) {
	a := &s.attempts[at]
	switch {
	case a.over:
		r := tracker.Report{Attempt: a.id, State: a.outcome, Progress: 1}
		if a.outcome == job.AttemptFailed {
			r.Error = drawnFailure
		} else if a.id.Kind == job.Map {
			r.OutputBytes = a.task().Output
		}
		s.beat.Reports = append(s.beat.Reports, r)
		// The attempt leaves its node when the tracker has taken in the report, in flush.
		s.ending, s.ended = append(s.ending, at), true
	case !s.reportsNow(a):
	default:
		n := len(s.beat.Reports)
		if n == cap(s.beat.Reports) {
			s.beat.Reports = append(s.beat.Reports, tracker.Report{})
		}
		s.beat.Reports = s.beat.Reports[:n+1]
		r := &s.beat.Reports[n]
		r.Attempt, r.Progress = a.id, s.progress(nd, a)
	}
}

// reportsNow reports whether it is time to report a running attempt's progress again.
func (s *sim) reportsNow(a *attempt) bool {
	if s.model.ProgressEvery == 0 {
		return true
	}
	if s.model.ProgressEvery < 0 || a.reported && s.now-a.reportedAt < s.model.ProgressEvery {
		return false
	}
	a.reported, a.reportedAt = true, s.now
	return true
}

// beatNow sends a heartbeat at once if the model has out-of-band heartbeats.
func (s *sim) beatNow(n int32) {
	nd := &s.nodes[n]
	// A crashed or stopped node cannot report, although its attempt's last stage may have ended at this
	// very time.
	if s.model.OutOfBand && nd.up && s.stopped[n] == nil {
		nd.beatGen++
		s.queue.push(s.now, evBeat, n, nd.beatGen)
	}
}
