package tracker_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/tracker"
)

// busyTracker has n running jobs, nodes that are full, and maps left to do in
// every job.
func busyTracker(b *testing.B, jobs, maps int) (*tracker.Tracker, []string) {
	tr := tracker.New(tracker.Config{NodeTimeout: -1}, testPolicy(b, "fifo"))
	nodes := make([]string, 100)
	for i := range nodes {
		nodes[i] = fmt.Sprint("n", i)
		tr.Step(0, joinEvent(nodes[i], 4, 2))
	}
	for range jobs {
		s := job.Spec{Splits: make([]job.Split, maps), Reduces: 4, SlowStart: 1, TaskTimeout: -1}
		for i := range s.Splits {
			s.Splits[i].Hosts = []string{nodes[i%100], nodes[(i*7)%100], nodes[(i*13)%100]}
		}
		tr.Step(0, &tracker.Submit{Spec: s})
	}
	return tr, nodes
}

// BenchmarkIdleHeartbeat: every slot is taken, nothing to report.
func BenchmarkIdleHeartbeat(b *testing.B) {
	for _, jobs := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(jobs, "jobs"), func(b *testing.B) {
			tr, nodes := busyTracker(b, jobs, 100)
			hb := &tracker.Heartbeat{}
			for _, hb.Node = range nodes {
				tr.Step(1, hb)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				hb.Node = nodes[i%len(nodes)]
				tr.Step(time.Duration(i), hb)
			}
		})
	}
}

// BenchmarkWaitingHeartbeat: slots are free, but the jobs only wait for their
// running maps, so that each heartbeat offers a slot and nobody takes it.
func BenchmarkWaitingHeartbeat(b *testing.B) {
	for _, jobs := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(jobs, "jobs"), func(b *testing.B) {
			tr, nodes := busyTracker(b, jobs, 1)
			for i := range 20 {
				tr.Step(0, joinEvent(fmt.Sprint("big", i), 100, 100))
				tr.Step(0, &tracker.Heartbeat{Node: fmt.Sprint("big", i)})
			}
			hb := &tracker.Heartbeat{}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				hb.Node = nodes[i%len(nodes)]
				tr.Step(time.Duration(i), hb)
			}
		})
	}
}

// BenchmarkBusyHeartbeat: each heartbeat reports one finished map and gets a
// new one.
func BenchmarkBusyHeartbeat(b *testing.B) {
	for _, jobs := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(jobs, "jobs"), func(b *testing.B) {
			tr, nodes := busyTracker(b, jobs, b.N/jobs+100)
			running := map[string]job.AttemptID{}
			hb := &tracker.Heartbeat{}
			for _, hb.Node = range nodes {
				for _, e := range tr.Step(1, hb) {
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
				hb := tracker.Heartbeat{Node: node, Reports: report}
				for _, e := range tr.Step(time.Duration(i), &hb) {
					if e.Kind == tracker.Launch && e.Attempt.Kind == job.Map {
						running[node] = e.Attempt
						launched++
					}
				}
			}
			if launched < b.N {
				b.Fatalf("%d launches in %d heartbeats", launched, b.N)
			}
		})
	}
}

// A heartbeat that leads to nothing must not allocate.
func TestIdleHeartbeatDoesNotAllocate(t *testing.T) {
	tr := tracker.New(tracker.Config{}, testPolicy(t, "fifo"))
	tr.Step(0, joinEvent("n1", 2, 2))
	tr.Step(0, &tracker.Submit{Spec: job.Spec{Splits: make([]job.Split, 1), Reduces: 1, SlowStart: 1}})
	hb := &tracker.Heartbeat{Node: "n1", Reports: []tracker.Report{{Attempt: job.AttemptID{TaskID: job.TaskID{Job: 1}}, Progress: 0.1}}}
	tr.Step(0, hb)
	if n := testing.AllocsPerRun(100, func() { tr.Step(1, hb) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
