package dynamicmr_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/sched/job"
)

// busy is 100 nodes of 4+2 slots and n jobs in 20 pools with more maps than ever
// run; the reduces wait for all maps.
func busy(b *testing.B, policy string, n int) (*tracker.Tracker, []string) {
	tr := tracker.New(tracker.Config{NodeTimeout: -1}, build(b, policy, nil))
	nodes := make([]string, 100)
	for i := range nodes {
		nodes[i] = fmt.Sprint("n", i)
		tr.Step(0, &tracker.Join{Node: node(nodes[i], 4, 2)})
	}
	for i := range n {
		s := job.Spec{Request: job.Request{Pool: fmt.Sprint("p", i%20), SlowStart: 1, TaskTimeout: -1}, Splits: make([]job.Split, b.N/n+100), Reduces: 4}
		for i := range s.Splits {
			s.Splits[i].Hosts = []string{nodes[i%100], nodes[(i*7)%100], nodes[(i*13)%100]}
		}
		tr.Step(0, &tracker.Submit{Spec: s})
	}
	return tr, nodes
}

// BenchmarkIdle: every slot is taken, nothing to report.
func BenchmarkIdle(b *testing.B) {
	for _, policy := range []string{"fair", "dynamicmr-pi", "dynamicmr-pd"} {
		for _, jobs := range []int{100, 1000} {
			b.Run(fmt.Sprint(policy, "/", jobs), func(b *testing.B) {
				tr, nodes := busy(b, policy, jobs)
				hb := &tracker.Heartbeat{}
				for i := range 10 * len(nodes) {
					hb.Node = nodes[i%len(nodes)]
					tr.Step(time.Duration(i)*30*time.Second/100, hb)
				}
				now := tr.Now()
				b.ReportAllocs()
				b.ResetTimer()
				for i := range b.N {
					hb.Node = nodes[i%len(nodes)]
					tr.Step(now+time.Duration(i), hb)
				}
			})
		}
	}
}

// BenchmarkBusy: each heartbeat reports a finished map and gets a new one.
func BenchmarkBusy(b *testing.B) {
	for _, policy := range []string{"fair", "dynamicmr-pi", "dynamicmr-pd"} {
		for _, jobs := range []int{100, 1000} {
			b.Run(fmt.Sprint(policy, "/", jobs), func(b *testing.B) {
				tr, nodes := busy(b, policy, jobs)
				hb := &tracker.Heartbeat{}
				for i := range 3 * len(nodes) {
					hb.Node = nodes[i%len(nodes)]
					tr.Step(time.Duration(i)*30*time.Millisecond, hb)
				}
				now := tr.Now()
				report := make([]tracker.Report, 1)
				launched := 0
				b.ReportAllocs()
				b.ResetTimer()
				for i := range b.N {
					n := tr.Nodes().Get(nodes[i%len(nodes)])
					*hb = tracker.Heartbeat{Node: n.Name()}
					if len(n.Attempts()) > 0 {
						report[0] = tracker.Report{Attempt: n.Attempts()[0].ID(), State: job.AttemptSucceeded}
						hb.Reports = report
					}
					for _, e := range tr.Step(now+time.Duration(i)*30*time.Millisecond, hb) {
						if e.Kind == tracker.Launch {
							launched++
						}
					}
				}
				b.ReportMetric(float64(launched)/float64(b.N), "launches/op")
			})
		}
	}
}

// BenchmarkRefused: slots are free and no job takes one, because all wait for a
// node that holds their data.
func BenchmarkRefused(b *testing.B) {
	set := map[string]string{"node-wait": "1000h", "far-at-once": "false"}
	for _, policy := range []string{"fair", "dynamicmr-pi", "dynamicmr-pd"} {
		own := set
		if policy == "fair" {
			own = map[string]string{"node-wait": "1000h"}
		}
		b.Run(policy, func(b *testing.B) {
			tr := tracker.New(tracker.Config{NodeTimeout: -1}, build(b, policy, own))
			for i := range 100 {
				tr.Step(0, &tracker.Join{Node: node(fmt.Sprint("n", i), 4, 2)})
			}
			for i := range 1000 {
				s := job.Spec{Request: job.Request{Pool: fmt.Sprint("p", i%20)}, Splits: make([]job.Split, 5)}
				for i := range s.Splits {
					s.Splits[i].Hosts = []string{"elsewhere"}
				}
				tr.Step(0, &tracker.Submit{Spec: s})
			}
			hb := &tracker.Heartbeat{}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				hb.Node = fmt.Sprint("n", i%100)
				tr.Step(time.Duration(i)*30*time.Millisecond, hb)
			}
		})
	}
}
