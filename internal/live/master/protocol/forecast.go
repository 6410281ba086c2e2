package protocol

import (
	"slices"
	"time"
)

// Basis holds the state of a core that a forecast needs beside the state of its tracker.
type Basis struct {
	Policy    string
	Set       map[string]string
	Choice    []byte        // of a policy that chooses; nil if it has not
	Learned   []byte        // what the policy has learned, as last recorded; nil if nothing
	Heartbeat time.Duration // interval of a worker's heartbeats
	Epoch     time.Time     // the wall clock's time at 0
}

// ForecastBasis returns the basis of a forecast of the current state.
func (c *Core) ForecastBasis() Basis {
	return Basis{Policy: c.policy, Set: c.set, Choice: c.choice, Learned: slices.Clone(c.learned), Heartbeat: c.heartbeatInterval(), Epoch: c.epoch}
}
