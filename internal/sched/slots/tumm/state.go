package tumm

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// The kind and version that a state begins with. TuMM and H_TuMM share it: what
// one has saved suits the other.
const (
	stateKind    = "tumm"
	stateVersion = 1
)

// learned is what outlives a restart: the mean times that jobs start with until
// their own tasks have finished. The means of live jobs need not be saved, since
// they follow from the finished tasks that the tracker keeps.
type learned struct {
	Kind          string  `json:"kind"`
	Version       int     `json:"version"`
	MapSeconds    float64 `json:"map_seconds"` // 0 is unknown
	ReduceSeconds float64 `json:"reduce_seconds"`
}

// Save implements sched.Stateful.
func (b *base) Save() ([]byte, error) {
	return json.Marshal(&learned{stateKind, stateVersion, b.mon.last[job.Map], b.mon.last[job.Reduce]})
}

// Load implements sched.Stateful. A state that is not whole, of another kind or
// version, or impossible is refused, and nothing of it is taken over.
func (b *base) Load(state []byte) error {
	var l learned
	if err := sched.ReadState(state, "tumm", stateKind, stateVersion, &l); err != nil {
		return err
	}
	for _, x := range []float64{l.MapSeconds, l.ReduceSeconds} {
		if !(x >= 0) || math.IsInf(x, 0) {
			return fmt.Errorf("state of tumm: a task time of %g s", x)
		}
	}
	b.mon.last = [job.Kinds]float64{l.MapSeconds, l.ReduceSeconds}
	b.mon.stale = true
	return nil
}
