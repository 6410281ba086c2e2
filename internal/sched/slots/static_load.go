package slots

import (
	"math"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// minPaddedNodes is how many nodes a cluster must exceed for padding.
const minPaddedNodes = 3

// load fills slots as Hadoop 1.2.1's JobQueueTaskScheduler does. With L tasks
// left to do and C slots in the cluster, a node with s slots runs at most
// min(⌈L/C·s⌉, s) tasks. A heartbeat gets one reduce, and maps until one is
// neither on the node's rack nor a repetition. It costs a walk over the jobs.
type load struct {
	left   [job.Kinds]int // tasks that the node may still get
	padded [job.Kinds]bool
}

func (l *load) begin(r *sched.Round, cfg *StaticConfig) {
	var todo, all [job.Kinds]int
	for _, j := range r.Jobs().Live() {
		todo[job.Map] += j.Unfinished(job.Map)
		if j.Open(job.Reduce) {
			todo[job.Reduce] += j.Unfinished(job.Reduce)
		}
		if !cfg.PadReducing || j.Total(job.Reduce) > 0 {
			all[job.Map] += j.Total(job.Map)
			all[job.Reduce] += j.Total(job.Reduce)
		}
	}
	n := r.Node()
	for k := range job.Kind(job.Kinds) {
		slots, capacity := n.Slots(k), r.Nodes().Slots(k)
		factor := 0.0
		if capacity > 0 {
			factor = float64(todo[k]) / float64(capacity)
		}
		l.left[k] = min(int(math.Ceil(factor*float64(slots))), slots) - n.Running(k)
		padding := 0
		if r.Nodes().Alive() > minPaddedNodes {
			padding = min(slots, int(float64(all[k])*cfg.Padding))
		}
		l.padded[k] = all[k] > 0 && r.Nodes().Reported(k)+padding >= capacity
	}
	l.left[job.Reduce] = min(l.left[job.Reduce], 1)
}

func (l *load) next(r *sched.Round) (sched.Offer, bool) {
	var got [job.Kinds]int
	mapsOver := false
	for _, a := range r.Launched() {
		k := a.Task.Kind()
		got[k]++
		far := a.Level >= cluster.ANY && a.Task.Attempts() == 1
		mapsOver = mapsOver || k == job.Map && (far || a.Speculative || l.padded[job.Map]) || k == job.Reduce
	}
	if !mapsOver && got[job.Map] < l.left[job.Map] && r.Free(job.Map) > 0 && !r.RefusedKind(job.Map, job.Map) {
		return sched.Offer{Kind: job.Map, Slot: job.Map}, true
	}
	if got[job.Reduce] < l.left[job.Reduce] && r.Free(job.Reduce) > 0 && !r.RefusedKind(job.Reduce, job.Reduce) {
		return sched.Offer{Kind: job.Reduce, Slot: job.Reduce, HeadOnly: l.padded[job.Reduce]}, true
	}
	return sched.Offer{}, false
}
