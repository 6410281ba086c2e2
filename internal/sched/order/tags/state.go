package tags

import (
	"encoding/json"
	"fmt"

	"github.com/slotwise/slotwise/sched"
)

// Learner is DYNAMICTAGS: Tags that remember the sizes of past jobs.
type Learner struct {
	*Tags
	d *dynamic
}

var (
	_ sched.Order    = (*Learner)(nil)
	_ sched.Stateful = (*Learner)(nil)
)

const (
	stateKind    = "slotwise-tags"
	stateVersion = 1
)

// learned is what outlives a restart: for each partition but the last the
// partial sizes with which jobs left it, in milliseconds, oldest first. The
// sizes of live jobs follow from the finished tasks that the tracker keeps.
type learned struct {
	Kind     string    `json:"kind"`
	Version  int       `json:"version"`
	Departed [][]int64 `json:"departed_ms"`
}

// Save implements sched.Stateful.
func (l *Learner) Save() ([]byte, error) {
	state := learned{Kind: stateKind, Version: stateVersion, Departed: make([][]int64, len(l.d.parts))}
	for i := range l.d.parts {
		state.Departed[i] = append([]int64{}, l.d.parts[i].history...)
	}
	return json.Marshal(state)
}

// Load implements sched.Stateful. State that is damaged, of something else or of
// another number of partitions is refused, and nothing changes.
func (l *Learner) Load(state []byte) error {
	var read learned
	if err := json.Unmarshal(state, &read); err != nil {
		return fmt.Errorf("not saved by dynamictags, or damaged: %w", err)
	}
	switch {
	case read.Kind != stateKind:
		return fmt.Errorf("not saved by dynamictags: its kind is %q", read.Kind)
	case read.Version != stateVersion:
		return fmt.Errorf("saved by dynamictags in version %d; only version %d can be read", read.Version, stateVersion)
	case len(read.Departed) != len(l.d.parts):
		return fmt.Errorf("saved by dynamictags with %d partitions; this one has %d", len(read.Departed)+1, len(l.d.parts)+1)
	}
	for _, sizes := range read.Departed {
		for _, x := range sizes {
			if x < 0 || x > maxSize {
				return fmt.Errorf("state of dynamictags is damaged: a size of %d ms", x)
			}
		}
	}
	l.d.load(read.Departed)
	return nil
}
