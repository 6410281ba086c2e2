package protocol

import (
	"github.com/slotwise/slotwise/internal/tracker/autoscale"
)

// Load describes the demand for workers and the workers that are alive, for decisions how
// many there should be.
func (c *Core) Load() autoscale.Input {
	in := autoscale.Input{Demand: autoscale.DemandOf(c.tracker.Jobs()), Busy: len(c.tracker.Jobs().Live())+len(c.chains.live) > 0}
	for _, n := range c.tracker.Nodes().All() {
		// A node that is absent since a restart of the master may have attempts and outputs.
		if n.Forgotten() || !n.Alive() && !n.Absent() {
			continue
		}
		w := autoscale.Worker{
			Name: n.Name(), Registered: true, Drained: n.Draining(),
			Slots:   autoscale.Slots{n.Spec().MapSlots, n.Spec().ReduceSlots},
			Running: len(n.Attempts()), Outputs: c.tracker.Jobs().MapOutputs(n.Index()),
		}
		// A driver uses no slot, but a worker that is given back would end its chain's steps.
		if s := c.workers[n.Name()]; s != nil {
			w.Running += len(s.drivers)
		}
		in.Workers = append(in.Workers, w)
	}
	return in
}
