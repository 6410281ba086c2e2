package tracker_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/sched/job"
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
		s := job.Spec{Splits: make([]job.Split, maps), Reduces: 4, Request: job.Request{SlowStart: 1, TaskTimeout: -1}}
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
// running maps, so that each heartbeat offers a slot that stays free.
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

// BenchmarkRecord is BenchmarkBusyHeartbeat with facts, against the same without.
func BenchmarkRecord(b *testing.B) {
	for _, on := range []bool{false, true} {
		b.Run(fmt.Sprint(on), func(b *testing.B) {
			tr := recordedTracker(b, on, 1, b.N+100)
			hb := tracker.Heartbeat{Node: "n0", Reports: make([]tracker.Report, 1)}
			last := tr.Step(0, &tracker.Heartbeat{Node: "n0"})[0].Attempt
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				hb.Reports[0] = tracker.Report{Attempt: last, State: job.AttemptSucceeded}
				last = tr.Step(time.Duration(i), &hb)[1].Attempt
			}
		})
	}
}

func recordedTracker(b *testing.B, on bool, jobs, maps int) *tracker.Tracker {
	tr := tracker.New(tracker.Config{NodeTimeout: -1, Record: on}, testPolicy(b, "fifo"))
	tr.Step(0, joinEvent("n0", 1, 0))
	for range jobs {
		tr.Step(0, &tracker.Submit{Spec: job.Spec{Splits: make([]job.Split, maps), Reduces: 1, Request: job.Request{SlowStart: 1, TaskTimeout: -1}}})
	}
	return tr
}

// BenchmarkRestore takes a snapshot of 200 jobs of 1,000 maps, in which nine in ten
// of all maps are done, and restores it.
func BenchmarkRestore(b *testing.B) {
	tr := recordedTracker(b, true, 200, 1000)
	last := tr.Step(0, &tracker.Heartbeat{Node: "n0"})[0].Attempt
	for range 200 * 900 {
		effects := tr.Step(0, &tracker.Heartbeat{Node: "n0", Reports: []tracker.Report{{Attempt: last, State: job.AttemptSucceeded}}})
		last = effects[len(effects)-1].Attempt
	}
	b.ResetTimer()
	for range b.N {
		facts := slices.Collect(tr.Snapshot())
		if _, err := tracker.Restore(tracker.Config{}, testPolicy(b, "fifo"), 0, slices.Values(facts)); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(facts)), "facts")
	}
}

// A heartbeat that leads to nothing must not allocate.
func TestIdleHeartbeatDoesNotAllocate(t *testing.T) {
	tr := tracker.New(tracker.Config{}, testPolicy(t, "fifo"))
	tr.Step(0, joinEvent("n1", 2, 2))
	tr.Step(0, &tracker.Submit{Spec: job.Spec{Splits: make([]job.Split, 1), Reduces: 1, Request: job.Request{SlowStart: 1}}})
	hb := &tracker.Heartbeat{Node: "n1", Reports: []tracker.Report{{Attempt: job.AttemptID{TaskID: job.TaskID{Job: 1}}, Progress: 0.1}}}
	tr.Step(0, hb)
	if n := testing.AllocsPerRun(100, func() { tr.Step(1, hb) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
