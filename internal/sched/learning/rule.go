package learning

import (
	"errors"
	"fmt"

	"github.com/slotwise/slotwise/internal/cluster"
)

// State is what a node reported, as far as a Rule looks at it.
type State struct {
	Load    float64 // one-minute load average per processor, the paper's r
	CPU     float64 // busy fraction
	Memory  float64 // used fraction, 0 if unknown
	Disk    float64 // bytes a second
	Network float64 // bytes a second
}

// StateOf returns the state of a node that reports this load. A node that does
// not say how many processors it has counts as having one.
func StateOf(cores int, l cluster.Load) State {
	s := State{Load: l.LoadAverage / float64(max(1, cores)), CPU: l.CPU, Disk: l.DiskRate, Network: l.NetworkRate}
	if l.MemoryFree > 0 {
		s.Memory = 1 - l.MemoryFree
	}
	return s
}

// worst takes the greater of each value: the state of a node over several
// heartbeats.
func (s *State) worst(o State) {
	s.Load, s.CPU, s.Memory = max(s.Load, o.Load), max(s.CPU, o.CPU), max(s.Memory, o.Memory)
	s.Disk, s.Network = max(s.Disk, o.Disk), max(s.Network, o.Network)
}

// Rule says when a node is overloaded: when what it reports is above a limit.
// Exactly at the limit it is not. A limit of 0 is not looked at.
type Rule struct {
	// Target is the limit ρ of the load average per processor: 1 is a machine
	// whose processors are all in use and nothing waits for one.
	Target float64
	// CPU and Memory are limits of the fractions in use.
	CPU, Memory float64
	// Disk and Network are limits in bytes a second.
	Disk, Network float64
	// All wants every limit to be crossed; otherwise one is enough.
	All bool
}

// Overloaded applies the rule.
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
	return crossed > 0 && (!r.All || crossed == watched)
}

// Check says what is wrong with the rule, or nil.
func (r Rule) Check() error {
	none := true
	for _, limit := range []float64{r.Target, r.CPU, r.Memory, r.Disk, r.Network} {
		if !(limit >= 0) {
			return fmt.Errorf("limit %v of the overload rule must not be negative", limit)
		}
		none = none && limit == 0
	}
	if none {
		return errors.New("the overload rule has no limit, so that nothing would ever overload a node")
	}
	return nil
}
