package protocol

import (
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/machines/autoscale"
)

// Load describes the demand for workers and the workers that are alive, for decisions how
// many there should be.
func (c *Core) Load() autoscale.Input {
	in := autoscale.Input{Busy: len(c.chains.live) > 0}
	for _, j := range c.live {
		if j.decided() {
			continue
		}
		in.Busy = true
		for k := range job.Kind(job.Kinds) {
			in.Demand[k] += j.core.Occupied(k)
			if j.core.Open(k) {
				in.Demand[k] += j.core.Wanted(k) + j.core.Width()*j.core.Delayed(k)
			}
		}
	}
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
		if s := c.workers[n.Name()]; s != nil {
			w.Running += len(s.drivers)
		}
		in.Workers = append(in.Workers, w)
	}
	return in
}
