package policies

import (
	"fmt"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// baselines are the policies whose rule allows a heartbeat within 10 µs.
var baselines = []string{"fifo", "fair"}

// busy has 100 nodes of 4 map and 2 reduce slots and a number of jobs in 20
// pools, each with many maps.
func busy(b testing.TB, policy string, jobs, maps int) (*tracker.Tracker, []string) {
	p, err := Build(policy, sched.Options{})
	if err != nil {
		b.Fatal(err)
	}
	tr := tracker.New(tracker.Config{NodeTimeout: -1}, p)
	nodes := make([]string, 100)
	for i := range nodes {
		nodes[i] = fmt.Sprint("n", i)
		tr.Step(0, &tracker.Join{Node: cluster.Spec{Name: nodes[i], Rack: fmt.Sprint("/r", i%5), MapSlots: 4, ReduceSlots: 2}})
	}
	for n := range jobs {
		s := job.Spec{Request: job.Request{Pool: fmt.Sprint("p", n%20), SlowStart: 1, TaskTimeout: -1}, Splits: make([]job.Split, maps), Reduces: 4}
		for i := range s.Splits {
			s.Splits[i].Hosts = []string{nodes[i%100], nodes[(i*7+n)%100], nodes[(i*13+n)%100]}
		}
		tr.Step(0, &tracker.Submit{Spec: s})
	}
	return tr, nodes
}

// BenchmarkIdle: every slot is taken, nothing to report; time moves, so that
// periodic updates are paid for.
func BenchmarkIdle(b *testing.B) {
	eachBaseline(b, func(b *testing.B, policy string, jobs int) {
		tr, nodes := busy(b, policy, jobs, 100)
		hb := &tracker.Heartbeat{}
		for _, hb.Node = range nodes {
			tr.Step(0, hb)
		}
		b.ReportAllocs()
		b.ResetTimer()
		for i := range b.N {
			hb.Node = nodes[i%len(nodes)]
			tr.Step(time.Duration(i)*3*time.Millisecond, hb)
		}
	})
}

// BenchmarkBusy: each heartbeat reports a finished map and gets a new one.
func BenchmarkBusy(b *testing.B) {
	eachBaseline(b, func(b *testing.B, policy string, jobs int) {
		tr, nodes := busy(b, policy, jobs, b.N/jobs+200)
		running := map[string]job.AttemptID{}
		hb := &tracker.Heartbeat{}
		for _, hb.Node = range nodes {
			for _, e := range tr.Step(0, hb) {
				running[e.Node] = e.Attempt
			}
		}
		report := make([]tracker.Report, 1)
		launched := 0
		b.ReportAllocs()
		b.ResetTimer()
		for i := range b.N {
			node := nodes[i%len(nodes)]
			report[0] = tracker.Report{Attempt: running[node], State: job.AttemptSucceeded}
			for _, e := range tr.Step(time.Duration(i)*3*time.Millisecond, &tracker.Heartbeat{Node: node, Reports: report}) {
				if e.Kind == tracker.Launch && e.Attempt.Kind == job.Map {
					running[node] = e.Attempt
					launched++
				}
			}
		}
		b.ReportMetric(float64(launched)/float64(b.N), "launches/op")
	})
}

func eachBaseline(b *testing.B, run func(b *testing.B, policy string, jobs int)) {
	for _, policy := range baselines {
		for _, jobs := range []int{100, 1000} {
			b.Run(fmt.Sprintf("%s/%djobs", policy, jobs), func(b *testing.B) { run(b, policy, jobs) })
		}
	}
}
