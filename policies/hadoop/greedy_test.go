package hadoop

import (
	"testing"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

func TestGreedy(t *testing.T) {
	nodes := cluster.NewBook()
	jobs := job.NewBook(nodes, 0)
	a, _ := nodes.Join(cluster.Spec{Name: "a", Rack: "/r1", MapSlots: 4, ReduceSlots: 4}, 0)
	b, _ := nodes.Join(cluster.Spec{Name: "b", Rack: "/r1", MapSlots: 4, ReduceSlots: 4}, 0)
	nodes.Join(cluster.Spec{Name: "c", Rack: "/r2", MapSlots: 4}, 0)
	j := jobs.Add(job.Spec{Splits: []job.Split{{Hosts: []string{"c"}}, {Hosts: []string{"b"}}, {Hosts: []string{"a"}}, {}}, Reduces: 1, Request: job.Request{SlowStart: -1}}, 0)
	desk := sched.NewRoundWriter(sched.NewView(jobs.List(), nodes.List(), 4))
	// step picks on a node within a level, expects a task or a reason, and
	// launches the task.
	step := func(name string, n *cluster.Node, k job.Kind, within cluster.Level, want string, level cluster.Level, why sched.Code) *job.Attempt {
		t.Helper()
		r := desk.Open(0, n, [job.Kinds]int{4, 4})
		task, l, reason := (&Greedy{}).Pick(r, sched.Offer{Kind: k, Within: within}, sched.Candidate{Job: j, Kind: k})
		if task == nil {
			if want != "" || reason.Code != why {
				t.Errorf("%s: nothing because of %v, want %s", name, reason, want)
			}
			return nil
		}
		if task.ID().String() != want || l != level {
			t.Errorf("%s: %v %v, want %s %v", name, task.ID(), l, want, level)
		}
		return jobs.Start(task, job.Launch{Node: n.Index()}, 0)
	}
	local := step("node first", a, job.Map, 0, "j1_m_2", cluster.NODE, 0)
	step("no other on the node", a, job.Map, cluster.NODE, "", 0, sched.OutOfReach)
	step("rack next", a, job.Map, cluster.RACK, "j1_m_1", cluster.RACK, 0)
	jobs.Drop(local, job.AttemptKilled, "", 0)
	step("a killed one only where it is near", b, job.Map, cluster.NODE, "", 0, sched.OutOfReach)
	again := step("a killed one first", b, job.Map, 0, "j1_m_2", cluster.RACK, 0)
	jobs.Fail(again, job.Failure{Text: "x"}, 4, 0)
	step("not where it failed", b, job.Map, 0, "j1_m_0", cluster.ANY, 0)
	step("without location", b, job.Map, 0, "j1_m_3", cluster.NONE, 0)
	step("only the failed one is left", b, job.Map, 0, "", 0, sched.FailedHere)
	step("which runs elsewhere", a, job.Map, 0, "j1_m_2", cluster.NODE, 0)
	reduce := step("reduce", a, job.Reduce, cluster.NODE, "j1_r_0", 0, 0)
	jobs.Fail(reduce, job.Failure{Text: "x"}, 4, 0)
	step("failed reduce", a, job.Reduce, 0, "", 0, sched.FailedHere)
	step("failed reduce elsewhere", b, job.Reduce, 0, "j1_r_0", 0, 0)
}
