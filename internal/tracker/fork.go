package tracker

import (
	"iter"
	"time"

	"github.com/slotwise/slotwise/sched"
)

// Fork rebuilds a tracker that continues from the state of another one, for simulations of
// its future. Unlike Restore it keeps the nodes as members, because no worker registers
// with the fork, and it completes no step. policy must be a fresh policy: its hooks hear
// of all nodes and jobs as if they had just arrived. The facts are those of Snapshot, or
// others that say the same of fewer attempts.
func Fork(cfg Config, policy sched.Policy, now time.Duration, facts iter.Seq[Fact]) (*Tracker, error) {
	t, err := Replay(cfg, now, facts)
	if err != nil {
		return nil, err
	}
	t.measureWidths()
	for _, j := range t.Jobs().Live() {
		t.watch(j)
	}
	t.SetPolicy(policy)
	return t, nil
}
