package sched

import (
	"testing"

	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// holding is an order that keeps one job back and yields the other.
type holding struct {
	fixed
	back *job.Job
}

func (h *holding) LimitReached(j *job.Job, _ job.Kind) Reason {
	if j == h.back {
		return Reason{Code: PoolFull, Pool: "p", Have: 1, Need: 1}
	}
	return Reason{}
}

// What a LimitExplainer says comes before what rounds noted and before the order, but
// not before what the job's own state tells.
func TestLimitReached(t *testing.T) {
	nodes := cluster.NewBook()
	jobs := job.NewBook(nodes, 5)
	n, _ := nodes.Join(cluster.Spec{Name: "n", MapSlots: 1, ReduceSlots: 1}, 0)
	a := jobs.Add(job.Spec{Splits: make([]job.Split, 1), Reduces: 1, Request: job.Request{SlowStart: 1}}, 0)
	b := jobs.Add(job.Spec{Splits: make([]job.Split, 1)}, 0)
	h := &holding{fixed{jobs: []*job.Job{b}}, a}
	d := NewRoundWriter(NewView(jobs.List(), nodes.List(), 4))
	c := Compose(h, h, h, h)
	d.Open(0, n, [job.Kinds]int{1, 1}).Note(a, job.Map, Reason{Code: Overload})
	for _, x := range []struct {
		j    *job.Job
		k    job.Kind
		want Code
	}{{a, job.Map, PoolFull}, {a, job.Reduce, SlowStart}, {b, job.Map, NotYet}, {b, job.Reduce, NoPending}} {
		if got := Why(d.round.View, c, d.Ledger(), x.j, x.k, 0); got.Code != x.want {
			t.Errorf("%v %v: %+v", x.j.ID(), x.k, got)
		}
	}
}
