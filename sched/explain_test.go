package sched

import (
	"testing"
	"time"

	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Two jobs of one map each and a reduce on a cluster of one node: the explanations
// of the second as the state changes.
func TestWhy(t *testing.T) {
	nodes := cluster.NewBook()
	jobs := job.NewBook(nodes, 5)
	add := func() *job.Job {
		return jobs.Add(job.Spec{Splits: make([]job.Split, 1), Reduces: 1, Request: job.Request{SlowStart: 1}}, 0)
	}
	a, b := add(), add()
	f := &fixed{jobs: []*job.Job{a, b}}
	d := NewRoundWriter(NewView(jobs.List(), nodes.List(), 4))
	c := Compose(f, f, f, f)
	expect := func(what string, j *job.Job, k job.Kind, now time.Duration, want Reason) {
		t.Helper()
		if got := Why(d.round.View, c, d.Ledger(), j, k, now); got != want {
			t.Errorf("%s: got %+v, want %+v", what, got, want)
		}
	}
	expect("no node", b, job.Map, 0, Reason{Code: NoNode})
	n, _ := nodes.Join(cluster.Spec{Name: "n", MapSlots: 1}, 0)
	expect("slow start", b, job.Reduce, 0, Reason{Code: SlowStart, Need: 1})
	expect("second", b, job.Map, 0, Reason{Code: Behind, Have: 1, Need: 2, Job: a.ID()})
	expect("first", a, job.Map, 0, Reason{Code: NotYet})
	why := Reason{Code: PoolFull, Pool: "x", Have: 3, Need: 3}
	d.Open(0, n, [job.Kinds]int{1, 0}).Note(b, job.Map, why)
	expect("noted just now", b, job.Map, time.Second, why)
	expect("noted long ago", b, job.Map, time.Hour, Reason{Code: Behind, Have: 1, Need: 2, Job: a.ID()})
	m, _ := nodes.Join(cluster.Spec{Name: "m"}, 0)
	jobs.Succeed(jobs.Start(a.Task(job.Map, 0), job.Launch{Node: m.Index()}, 0), 0, 0)
	expect("no reduce slot", a, job.Reduce, 0, Reason{Code: NoNode})
	jobs.LoseOutput(a.Task(job.Map, 0), false, "", 0, 0)
	run := jobs.Start(a.Task(job.Map, 0), job.Launch{Node: n.Index()}, 0)
	nodes.Start(n, run)
	expect("all slots taken", b, job.Map, time.Second, Reason{Code: NoSlot, Need: 1})
	expect("runs", a, job.Map, 0, Reason{Code: NoPending, Have: 1})
	jobs.Succeed(run, 0, 0)
	nodes.Stop(n, run)
	expect("first now, noted long ago", b, job.Map, time.Hour, why)
	jobs.Decide(b, job.Killed, nil, "", 0)
	expect("ended", b, job.Map, 0, Reason{Code: Ended})
}
