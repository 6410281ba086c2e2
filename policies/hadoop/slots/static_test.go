package slots

import (
	"testing"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Maps come first, each kind in its own slots, and a kind without a free slot is
// not offered.
func TestStatic(t *testing.T) {
	nodes := cluster.NewBook()
	n, _ := nodes.Join(cluster.Spec{Name: "n"}, 0)
	desk := sched.NewRoundWriter(sched.NewView(job.NewBook(nodes, 0).List(), nodes.List(), 0))
	for _, c := range []struct {
		limits [job.Kinds]int
		want   sched.Offer
		ok     bool
	}{
		{[job.Kinds]int{2, 1}, sched.Offer{Kind: job.Map, Slot: job.Map}, true},
		{[job.Kinds]int{0, 1}, sched.Offer{Kind: job.Reduce, Slot: job.Reduce}, true},
		{[job.Kinds]int{0, 0}, sched.Offer{}, false},
	} {
		if got, ok := (&Static{}).Next(desk.Open(0, n, c.limits)); got != c.want || ok != c.ok {
			t.Errorf("with %v: %+v %v", c.limits, got, ok)
		}
	}
}
