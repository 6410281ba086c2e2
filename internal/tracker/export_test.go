package tracker

import "time"

// MaxCatchUp is shown to the tests, which are outside because their harness
// imports this package.
const MaxCatchUp = maxCatchUp

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
		// The end of any fault may leave too few, or witnesses of one user only.
		if recent := t.recent(n); n.Graylisted() && len(recent) > 0 {
			at = min(at, recent[0].At+t.cfg.GraylistWindow)
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
