package place

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slotwise/slotwise/sched"
)

// The kind and version that a state of Dynamic begins with.
const (
	dynamicKind    = "delay-dynamic"
	dynamicVersion = 1
)

// dynamicState is what Dynamic saves: the two pairs of counters. What single
// jobs have waited is forgotten; they begin anew.
type dynamicState struct {
	Kind    string    `json:"kind"`
	Version int       `json:"version"`
	Node    meanState `json:"node"`
	Rack    meanState `json:"rack"`
}

// meanState holds the sum and number of samples, and with a window the samples
// themselves, oldest first.
type meanState struct {
	Sum    time.Duration   `json:"sum_ns"`
	Count  int64           `json:"count"`
	Recent []time.Duration `json:"recent_ns,omitempty"`
}

// Save implements sched.Stateful.
func (d *Dynamic) Save() ([]byte, error) {
	return json.Marshal(&dynamicState{dynamicKind, dynamicVersion, d.node.save(), d.rack.save()})
}

func (m *mean) save() meanState {
	recent := append(slices.Clone(m.recent[m.next:]), m.recent[:m.next]...)
	return meanState{m.sum, m.count, recent}
}

// Load implements sched.Stateful. A state that is not whole, of another kind or
// version, or impossible is refused, and nothing of it is taken over.
func (d *Dynamic) Load(state []byte) error {
	var s dynamicState
	if err := sched.ReadState(state, dynamicKind, dynamicKind, dynamicVersion, &s); err != nil {
		return err
	}
	node, err1 := s.Node.load(d.node.window)
	rack, err2 := s.Rack.load(d.rack.window)
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("state of %s: %w", dynamicKind, err)
	}
	d.node, d.rack = node, rack
	d.measure()
	return nil
}

// load checks a pair of counters. Under a window the last samples that fit are
// taken, none from a state that kept only sums; without one the sums alone.
func (s *meanState) load(window int) (mean, error) {
	m := mean{window: window}
	if s.Sum < 0 || s.Count < 0 || s.Count == 0 && s.Sum != 0 {
		return m, fmt.Errorf("%d waits cannot take %d ns", s.Count, s.Sum)
	}
	if err := s.checkRecent(); err != nil {
		return m, err
	}
	if window == 0 {
		m.sum, m.count = s.Sum, s.Count
		return m, nil
	}
	for _, d := range s.Recent[max(0, len(s.Recent)-window):] {
		m.add(d)
	}
	return m, nil
}

// checkRecent checks samples, if there are any, against their sum.
func (s *meanState) checkRecent() error {
	if len(s.Recent) == 0 {
		return nil
	}
	sum := time.Duration(0)
	for _, d := range s.Recent {
		if d < 0 {
			return fmt.Errorf("a wait of %d ns", d)
		}
		sum += d
	}
	if sum != s.Sum || int64(len(s.Recent)) != s.Count {
		return fmt.Errorf("%d samples of %d ns in all, but counted %d of %d", len(s.Recent), sum, s.Count, s.Sum)
	}
	return nil
}
