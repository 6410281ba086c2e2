package capacity_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// benchCluster has 100 nodes of 4 + 2 slots and 1,000 jobs of 20 users in ten
// queues, with the given numbers of maps and reduces per job.
func benchCluster(b *testing.B, policy, more string, maps, reduces int) (*tracker.Tracker, []string) {
	queues := ""
	for q := range 10 {
		queues += fmt.Sprintf("q%d,capacity=10%s;", q, more)
	}
	p, err := policies.Build(policy, sched.Options{Set: map[string]string{"queues": queues}})
	if err != nil {
		b.Fatal(err)
	}
	tr := tracker.New(tracker.Config{NodeTimeout: -1}, p)
	nodes := make([]string, 100)
	for i := range nodes {
		nodes[i] = fmt.Sprint("n", i)
		tr.Step(0, &tracker.Join{Node: cluster.Spec{Name: nodes[i], MapSlots: 4, ReduceSlots: 2}})
	}
	for i := range 1000 {
		s := job.Spec{Splits: make([]job.Split, maps), Reduces: reduces, Request: job.Request{SlowStart: 1, TaskTimeout: -1, Pool: fmt.Sprint("q", i%10), User: fmt.Sprint("u", i%20)}}
		for i := range s.Splits {
			s.Splits[i].Hosts = []string{nodes[i%100], nodes[(i*7)%100], nodes[(i*13)%100]}
		}
		tr.Step(0, &tracker.Submit{Spec: s})
	}
	return tr, nodes
}

// BenchmarkCapacityHeartbeat measures a heartbeat with 1,000 running jobs when
// all slots are taken, when slots are free that every job's user is barred from
// by the limit (each job is looked at, the worst that the rule asks for), and
// when a map has finished and another one starts (without yarn's wait for local data,
// so that each heartbeat starts one).
func BenchmarkCapacityHeartbeat(b *testing.B) {
	for _, policy := range []string{"capacity", "yarn"} {
		b.Run(policy+"/full", func(b *testing.B) { benchIdle(b, policy, ",user-limit-factor=10", true) })
		b.Run(policy+"/limits", func(b *testing.B) { benchIdle(b, policy, ",user-limit-factor=0.1", false) })
	}
	b.Run("capacity/assign", func(b *testing.B) { benchAssign(b, "capacity") })
	b.Run("yarn/assign", func(b *testing.B) { benchAssign(b, "yarn,place=greedy") })
}

// benchIdle sends heartbeats of nodes whose map slots are all taken, or all
// free, and that get nothing.
func benchIdle(b *testing.B, policy, more string, full bool) {
	tr, nodes := benchCluster(b, policy, more, 100, 4)
	hb := &tracker.Heartbeat{}
	for i := range 2000 {
		hb.Node = nodes[i%len(nodes)]
		tr.Step(time.Duration(i)*time.Second, hb)
	}
	var idle []string
	for _, n := range tr.Nodes().All() {
		if free := n.Free(job.Map); full && free == 0 || !full && free == n.Slots(job.Map) {
			idle = append(idle, n.Name())
		}
	}
	if len(idle) < 50 {
		b.Fatalf("only %d nodes are as they should be", len(idle))
	}
	before := tr.Stats().Launches
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		hb.Node = idle[i%len(idle)]
		tr.Step(time.Hour+time.Duration(i), hb)
	}
	if got := tr.Stats().Launches - before; got > 0 {
		b.Fatalf("%d launches in idle heartbeats", got)
	}
}

func benchAssign(b *testing.B, policy string) {
	tr, nodes := benchCluster(b, policy, ",user-limit-factor=10", b.N/1000+100, 0)
	running := map[string]job.AttemptID{}
	note := func(effects []tracker.Effect) {
		for _, e := range effects {
			if e.Kind == tracker.Launch {
				running[e.Node] = e.Attempt
			}
		}
	}
	for i := range 1000 {
		note(tr.Step(time.Duration(i)*time.Second, &tracker.Heartbeat{Node: nodes[i%len(nodes)]}))
	}
	report, before := make([]tracker.Report, 1), tr.Stats().Launches
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		node := nodes[i%len(nodes)]
		report[0] = tracker.Report{Attempt: running[node], State: job.AttemptSucceeded}
		note(tr.Step(time.Hour+time.Duration(i)*time.Second, &tracker.Heartbeat{Node: node, Reports: report}))
	}
	if got := tr.Stats().Launches - before; got < int64(b.N)*9/10 {
		b.Fatalf("%d launches in %d heartbeats", got, b.N)
	}
}
