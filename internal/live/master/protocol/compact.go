package protocol

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// Compaction
//
// A snapshot is not made of the core that runs: the core could not handle messages while the
// records of all tasks are encoded. Instead, another goroutine replays the journal up to
// one position into a second core and encodes that one, while the first one continues.
// The position is the end of a batch, so the second core equals the first one at that
// moment in all that is durable, and the snapshot equals what a restart would have made of
// the records that it replaces.
//
// Some of a core's state is not in its records, because a restarted core finds it out
// again. Position carries the part that a snapshot needs.

// Position is the part of a core's state at one moment that does not follow from its
// records.
type Position struct {
	now   time.Duration
	step  time.Duration   // of the tracker's last step, which has released delayed tasks
	nodes map[string]bool // that the tracker knows; others are forgotten
}

// Position returns the position of the records that have left the core. It costs a walk
// over the nodes.
func (c *Core) Position() Position {
	p := Position{now: c.now, step: c.tracker.Now(), nodes: map[string]bool{}}
	for _, n := range c.tracker.Nodes().All() {
		// A forgotten node keeps its index in the list, because attempts refer to nodes by index.
		if !n.Forgotten() {
			p.nodes[n.Name()] = true
		}
	}
	return p
}

// Record returns the position as a record, which must be the only one of its entry.
func (p Position) Record() *slotwisev1.JournalRecord {
	return &slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_Position{Position: &slotwisev1.JournalPosition{
		Now: int64(p.now), Step: int64(p.step), Nodes: slices.Sorted(maps.Keys(p.nodes)),
	}}}
}

// PositionOf returns the position in a record that Record has made.
func PositionOf(rec *slotwisev1.JournalRecord) Position {
	w := rec.GetPosition()
	p := Position{now: time.Duration(w.GetNow()), step: time.Duration(w.GetStep()), nodes: map[string]bool{}}
	for _, n := range w.GetNodes() {
		p.nodes[n] = true
	}
	return p
}

// Compact yields a short journal from which Restore makes the same state as from records:
// the records of a journal up to a position. cfg is the core's configuration. Compact does
// not use the core, so it may run in any goroutine. It yields at most one error, and nothing
// after it.
func Compact(cfg Config, at Position, records iter.Seq2[*slotwisev1.JournalRecord, error]) iter.Seq2[*slotwisev1.JournalRecord, error] {
	return func(yield func(*slotwisev1.JournalRecord, error) bool) {
		c, err := rebuild(cfg, at, records)
		if err != nil {
			yield(nil, fmt.Errorf("the journal cannot be replayed: %w", err))
			return
		}
		for r := range c.Snapshot() {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// rebuild replays the records of a journal up to a position into a core that only
// Snapshot can use. The tracker reads the facts of each record at once, so that the memory
// does not grow with the journal.
func rebuild(cfg Config, at Position, records iter.Seq2[*slotwisev1.JournalRecord, error]) (*Core, error) {
	c := blank(cfg)
	r := newReplay(c)
	var broken error
	t, err := tracker.Replay(c.trackerConfig(), at.step, func(yield func(tracker.Fact) bool) {
		for rec, err := range records {
			if err == nil {
				err = r.apply(rec)
			}
			// tracker.Replay takes facts only, so this error leaves its loop in a variable.
			if broken = err; err != nil {
				return
			}
			for _, f := range r.facts {
				if !yield(f) {
					return
				}
			}
			r.facts = r.facts[:0]
		}
	})
	if broken != nil {
		return nil, broken
	}
	if err != nil {
		return nil, err
	}
	// Forgetting is no fact, so the replay knows every node since the last snapshot. Without
	// this line each snapshot would bring back the nodes that an autoscaled cluster has ever
	// had.
	t.ForgetNodesExcept(at.nodes)
	c.tracker, c.now = t, at.now
	// A snapshot must repeat the record of the installed policy, not the configuration's:
	// Configured decides after a restart whether the user's choice outlives it.
	if r.policy != nil {
		c.policy, c.set, c.choice, c.cfg.Configured = r.policy.Name, r.policy.Set, r.policy.Choice, r.policy.Configured
	}
	for _, j := range slices.Clone(c.live) {
		if j.core = t.Jobs().Get(j.id); j.core == nil && j.end == nil { // it was never accepted
			delete(c.jobs, j.id)
			c.removeLive(j)
		}
	}
	return c, nil
}
