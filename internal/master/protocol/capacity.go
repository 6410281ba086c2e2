package protocol

import (
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/machines/autoscale"
)

// Load describes the demand for workers and the workers that are alive, for decisions how
// many there should be. With outputs it counts the map outputs on each worker that reduces
// may still read; the cost is a walk over the maps of all live jobs.
func (c *Core) Load(outputs bool) autoscale.Input {
	in := autoscale.Input{Busy: len(c.chains.live) > 0, OutputsKnown: outputs}
	held := map[int32]int{} // map outputs by node
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
		if !outputs || j.core.Unfinished(job.Reduce) == 0 {
			continue
		}
		for i := range j.core.Total(job.Map) {
			if a := j.core.Task(job.Map, int32(i)).Success(); a != nil {
				held[a.Node()]++
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
			Running: len(n.Attempts()), Outputs: held[n.Index()],
		}
		if s := c.workers[n.Name()]; s != nil {
			w.Running += len(s.drivers)
		}
		in.Workers = append(in.Workers, w)
	}
	return in
}
