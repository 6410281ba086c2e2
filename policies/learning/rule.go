package learning

import (
	"errors"
	"fmt"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
)

// State holds the parts of a node's report that a Rule examines.
type State sched.NodeState

// StateOf returns the state of a node with the given load. A node that does not
// report its number of processors counts as having one.
func StateOf(cores int, l cluster.Load) State {
	s := State{Load: l.LoadAverage / float64(max(1, cores)), CPU: l.CPU, Disk: l.DiskRate, Network: l.NetworkRate}
	// 0 is unknown. Counted as a full memory it would make every node overloaded that cannot measure it.
	if l.MemoryFree > 0 {
		s.Memory = 1 - l.MemoryFree
	}
	return s
}

// worst raises each value to the one in o. It accumulates the state of a node
// over several heartbeats.
func (s *State) worst(o State) {
	s.Load, s.CPU, s.Memory = max(s.Load, o.Load), max(s.CPU, o.CPU), max(s.Memory, o.Memory)
	s.Disk, s.Network = max(s.Disk, o.Disk), max(s.Network, o.Network)
}

// Rule decides when a node is overloaded: when its values exceed the limits. A
// value equal to its limit does not exceed it. A limit of 0 is ignored.
type Rule struct {
	// Target is the limit ρ of the load average per processor. At 1 all
	// processors are busy and no process waits for one.
	Target float64
	// CPU and Memory limit the fractions in use.
	CPU, Memory float64
	// Disk and Network limit bytes per second.
	Disk, Network float64
	// All requires every limit to be exceeded. Otherwise one is enough.
	All bool
	// Evaluator names the evaluator of the program that decides in place of the limits; "" is none.
	Evaluator string `json:",omitempty"`
}

// Overloaded reports whether a node in the given state is overloaded.
func (r Rule) Overloaded(s State) bool {
	crossed, watched := 0, 0
	for _, x := range [...][2]float64{{s.Load, r.Target}, {s.CPU, r.CPU}, {s.Memory, r.Memory},
		{s.Disk, r.Disk}, {s.Network, r.Network}} {
		if x[1] > 0 {
			watched++
			if x[0] > x[1] {
				crossed++
			}
		}
	}
	// crossed > 0 also covers a rule of an evaluator alone, which watches no limit.
	return crossed > 0 && (!r.All || crossed == watched)
}

// Check returns the first mistake in the rule, or nil.
func (r Rule) Check() error {
	none := true
	for _, limit := range []float64{r.Target, r.CPU, r.Memory, r.Disk, r.Network} {
		if !(limit >= 0) {
			return fmt.Errorf("limit %v of the overload rule must not be negative", limit)
		}
		none = none && limit == 0
	}
	if none && r.Evaluator == "" {
		return errors.New("the overload rule has no limit, so no node would ever be overloaded: set target or another limit above 0")
	}
	return nil
}
