package tracker

import (
	"fmt"
	"time"

	"github.com/slotwise/slotwise/internal/job"
)

// tick gives up silent nodes and times out attempts. It costs a walk over the nodes.
func (t *Tracker) tick() {
	for _, n := range t.Nodes().All() {
		member := n.Alive() || n.Absent()
		if member && t.cfg.NodeTimeout > 0 && t.now-n.LastSeen() >= t.cfg.NodeTimeout {
			t.lose(n, fmt.Sprintf("no heartbeat for %v", t.cfg.NodeTimeout))
		} else if n.Alive() {
			t.expire(n.Index())
		}
	}
	t.graylist()
	t.preempt()
}

// NextDeadline is the earliest time at which a Tick could do something, or a
// negative value if there is none. It may be too early, never too late, as long
// as no other event comes between. It costs the number of nodes.
func (t *Tracker) NextDeadline() time.Duration {
	at := never
	for _, n := range t.Nodes().All() {
		if t.cfg.NodeTimeout > 0 && (n.Alive() || n.Absent()) {
			at = min(at, n.LastSeen()+t.cfg.NodeTimeout)
		}
		if n.Alive() {
			at = min(at, t.due[n.Index()])
		}
		if decisive := len(n.Faults()) - t.cfg.GraylistFaults; n.Graylisted() && decisive >= 0 {
			at = min(at, n.Faults()[decisive]+t.cfg.GraylistWindow)
		}
	}
	for _, due := range t.next {
		at = min(at, due)
	}
	at = min(at, t.blockedDue, t.delayedDue)
	if at == never {
		return -1
	}
	return at
}

// maxCatchUp is after how many missed intervals a periodic part skips the older
// ones.
const maxCatchUp = 1000

// runPeriodic calls the periodic parts that are due, in order of time and then
// of the parts, and reports whether any was.
func (t *Tracker) runPeriodic() bool {
	ran := false
	for {
		first := -1
		for i, due := range t.next {
			if due <= t.now && (first < 0 || due < t.next[first]) {
				first = i
			}
		}
		if first < 0 {
			return ran
		}
		p := t.hooks.Periodics[first]
		every := p.Interval()
		if missed := (t.now - t.next[first]) / every; missed > maxCatchUp {
			t.next[first] += (missed - maxCatchUp) * every
		}
		p.Update(t.next[first])
		t.next[first] += every
		ran = true
	}
}

// preempt kills the attempts that the policy preempts.
func (t *Tracker) preempt() {
	for _, h := range t.hooks.Preempters {
		for _, a := range h.Preempt(t.now) {
			if a.State() == job.AttemptRunning {
				t.stats.Preempted++
				t.kill(a, "its slot goes to another job")
			}
		}
	}
}
