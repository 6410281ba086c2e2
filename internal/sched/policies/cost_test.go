package policies

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/sched"
)

// costSettings returns the parameters with which a policy keeps a cluster of 20 pools busy.
func costSettings(policy string) map[string]string {
	switch policy {
	case "modfair":
		return map[string]string{"max-allocated": "0"} // its 6 is for three users
	case "statictags", "dynamictags":
		return map[string]string{"lend": "true"} // all jobs are small: slots would stay idle
	case "capacity", "yarn":
		return map[string]string{"queues": strings.TrimSuffix(strings.Repeat("p%d,capacity=5;", 20), ";")}
	}
	return nil
}

// costPlant is a busy cluster under a policy: nodes of 4 map and 2 reduce slots in
// 20 racks, jobs in 20 pools.
type costPlant struct {
	tr    *tracker.Tracker
	nodes []string
	beats int // so far; they are 3 ms apart, so that updates by the clock are paid for
}

func newCostPlant(b *testing.B, policy string, jobs, nodes int) *costPlant {
	set := costSettings(policy)
	if q, ok := set["queues"]; ok {
		var numbers []any
		for i := range 20 {
			numbers = append(numbers, i)
		}
		set["queues"] = fmt.Sprintf(q, numbers...)
	}
	p, err := Build(policy, sched.Options{Seed: 1, Set: set})
	if err != nil {
		b.Fatal(err)
	}
	c := &costPlant{tr: tracker.New(tracker.Config{NodeTimeout: -1}, p), nodes: make([]string, nodes)}
	for i := range c.nodes {
		c.nodes[i] = fmt.Sprint("n", i)
		c.tr.Step(0, &tracker.Join{Node: cluster.Spec{Name: c.nodes[i], Rack: fmt.Sprint("/r", i%20), MapSlots: 4, ReduceSlots: 2, Cores: 4}})
	}
	maps := (6*nodes + 60_000) / jobs
	for n := range jobs {
		load := job.Profile{CPU: uint8(1 + n%5), Memory: uint8(1 + n%4), Disk: 5, Network: 5}
		s := job.Spec{Pool: fmt.Sprint("p", n%20), User: fmt.Sprint("u", n%20), Splits: make([]job.Split, maps), Reduces: 4,
			SlowStart: 1, TaskTimeout: -1, Profile: [job.Kinds]job.Profile{load, load}}
		for i := range s.Splits {
			s.Splits[i].Hosts = []string{c.nodes[(i+n)%nodes], c.nodes[(i*7+n)%nodes], c.nodes[(i*13+n)%nodes]}
		}
		c.tr.Step(0, &tracker.Submit{Spec: s})
	}
	hb := &tracker.Heartbeat{Load: cluster.Load{LoadAverage: 1, CPU: 0.3, MemoryFree: 0.5}}
	for range 2 * nodes {
		hb.Node = c.next()
		c.tr.Step(c.now(), hb)
	}
	return c
}

func (c *costPlant) now() time.Duration { return time.Duration(c.beats) * 3 * time.Millisecond }

// next names the node whose heartbeat is next.
func (c *costPlant) next() string {
	c.beats++
	return c.nodes[c.beats%len(c.nodes)]
}

// idle sends heartbeats without reports from nodes that are full, or so loaded that a
// policy which judges by load gives them nothing.
func (c *costPlant) idle(b *testing.B) {
	hb := &tracker.Heartbeat{Load: cluster.Load{LoadAverage: 30, CPU: 1, MemoryFree: 0.5}}
	for range b.N {
		hb.Node = c.next()
		c.tr.Step(c.now(), hb)
	}
}

// busy sends heartbeats that report a finished map each and get another.
func (c *costPlant) busy(b *testing.B) {
	var reports [1]tracker.Report
	hb := &tracker.Heartbeat{Load: cluster.Load{LoadAverage: 1, CPU: 0.3, MemoryFree: 0.5}}
	for range b.N {
		hb.Node, hb.Reports = c.next(), nil
		if running := c.tr.Nodes().Get(hb.Node).Attempts(); len(running) > 0 {
			reports[0] = tracker.Report{Attempt: running[0].ID(), State: job.AttemptSucceeded}
			hb.Reports = reports[:]
		}
		c.tr.Step(c.now(), hb)
	}
}

// BenchmarkDecision measures the cost of a heartbeat under every policy, including the
// tracker's own work. docs/performance.md has its table.
func BenchmarkDecision(b *testing.B) {
	names := Names()
	for _, policy := range names {
		for _, nodes := range []int{100, 10_000} {
			for _, jobs := range []int{100, 1000} {
				var c *costPlant
				run := func(what string, play func(*costPlant, *testing.B)) {
					b.Run(fmt.Sprintf("%s/%dnodes/%djobs/%s", policy, nodes, jobs, what), func(b *testing.B) {
						if c == nil {
							c = newCostPlant(b, policy, jobs, nodes) // takes up to a second
						}
						b.ReportAllocs()
						b.ResetTimer()
						before := c.tr.Stats().Launches
						play(c, b)
						b.ReportMetric(float64(c.tr.Stats().Launches-before)/float64(b.N), "launches/op")
						if b.N > 1 {
							c = nil // the next one does not learn from this one
						}
					})
				}
				run("idle", (*costPlant).idle)
				run("busy", (*costPlant).busy)
			}
		}
	}
}
