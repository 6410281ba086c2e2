package forecast

import (
	"maps"
	"slices"

	"github.com/slotwise/slotwise/sched/job"
	"github.com/slotwise/slotwise/sched/portable"
)

// nodeFactors holds, by cluster.Node.Index, by how much longer a node takes for a task than
// the cluster. Nodes of which little is known are close to 1.
type nodeFactors map[int32]float64

// of returns the factor of a node; 1 for an unknown one.
func (f nodeFactors) of(index int32) float64 {
	if x, ok := f[index]; ok {
		return x
	}
	return 1
}

// nodeDoubt is the number of times that count as much as the assumption that a node is
// like the others.
const nodeDoubt = 6

// newNodeFactors compares the times of each node with the medians of their jobs.
func newNodeFactors(donors []donor, o overlap) nodeFactors {
	type sum struct{ log, n float64 }
	sums := map[int32]sum{}
	for _, d := range donors[max(0, len(donors)-maxDonors):] {
		for k := range job.Kind(job.Kinds) {
			v := d.times.full(k, o)
			if len(v) < enoughOwn {
				continue
			}
			center := max(minTask, middle(slices.Sorted(slices.Values(v))))
			for i, x := range v {
				at := d.times.Nodes[k]
				if i >= len(at) {
					break
				}
				s := sums[at[i]]
				// A straggler says little about its node.
				// e to the power of 0.7 is twice as long.
				s.log += min(0.7, max(-0.7, portable.Log(max(minTask, x)/center)))
				s.n++
				sums[at[i]] = s
			}
		}
	}
	f := make(nodeFactors, len(sums))
	for _, index := range slices.Sorted(maps.Keys(sums)) {
		s := sums[index]
		// As if nodeDoubt further times of the node had been as long as the others'.
		f[index] = portable.Exp(s.log / (s.n + nodeDoubt))
	}
	return f
}

// even returns a job's times of a kind, sorted and divided by the factors of their nodes. Times of reduces count
// as after all maps.
func (h *history) even(t *Times, k job.Kind) []float64 {
	v := t.full(k, h.overlap)
	for i := range v {
		if i < len(t.Nodes[k]) {
			v[i] /= h.nodes.of(t.Nodes[k][i])
		}
	}
	slices.Sort(v)
	return v
}
