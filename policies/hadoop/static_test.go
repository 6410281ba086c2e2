package hadoop

import (
	"testing"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Maps come first, each kind in its own slots. A kind without a free slot is not offered, and a
// kind without a pending task neither.
func TestStatic(t *testing.T) {
	for _, c := range []struct {
		maps, reduces int
		limits        [job.Kinds]int
		want          sched.Offer
		ok            bool
	}{
		{1, 1, [job.Kinds]int{2, 1}, sched.Offer{Kind: job.Map, Slot: job.Map}, true},
		{1, 1, [job.Kinds]int{0, 1}, sched.Offer{Kind: job.Reduce, Slot: job.Reduce}, true},
		{1, 1, [job.Kinds]int{0, 0}, sched.Offer{}, false},
		{0, 1, [job.Kinds]int{2, 1}, sched.Offer{Kind: job.Reduce, Slot: job.Reduce}, true},
		{1, 0, [job.Kinds]int{0, 1}, sched.Offer{}, false},
	} {
		nodes := cluster.NewBook()
		n, _ := nodes.Join(cluster.Spec{Name: "n"}, 0)
		jobs := job.NewBook(nodes, 0)
		jobs.Add(job.Spec{Splits: make([]job.Split, c.maps), Reduces: c.reduces}, 0)
		desk := sched.NewRoundWriter(sched.NewView(jobs.List(), nodes.List(), 0))
		if got, ok := (&Static{}).Next(desk.Open(0, n, c.limits)); got != c.want || ok != c.ok {
			t.Errorf("%d maps and %d reduces with %v: %+v %v", c.maps, c.reduces, c.limits, got, ok)
		}
	}
}
