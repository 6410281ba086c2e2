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

// BenchmarkLearning measures a heartbeat with many jobs, of 20 different
// profiles: "full" of a node on which all are bad, so that it ends in a decision
// against them, and "launch" of one that gets a task and reports one finished.
func BenchmarkLearning(b *testing.B) {
	for _, policy := range []string{"learning-nb", "learning-perceptron"} {
		for _, jobs := range []int{100, 1000} {
			for _, what := range []string{"full", "launch"} {
				b.Run(fmt.Sprintf("%s/%s/%djobs", policy, what, jobs), func(b *testing.B) { benchLearning(b, policy, what, jobs) })
			}
		}
	}
}

func benchLearning(b *testing.B, policy, what string, jobs int) {
	p, err := Build(policy, sched.Options{Seed: 1})
	if err != nil {
		b.Fatal(err)
	}
	tr := tracker.New(tracker.Config{NodeTimeout: -1}, p)
	const nodes = 100
	names := make([]string, nodes)
	for i := range names {
		names[i] = fmt.Sprint("n", i)
		tr.Step(0, &tracker.Join{Node: cluster.Spec{Name: names[i], MapSlots: 4, ReduceSlots: 2, Cores: 4}})
	}
	for i := range jobs {
		heavy := job.Ratings{CPU: uint8(1 + i%5), Memory: uint8(1 + i%4), Disk: 5, Network: 5}
		tr.Step(0, &tracker.Submit{Spec: job.Spec{Splits: make([]job.Split, b.N/jobs+200), Reduces: 4, Request: job.Request{SlowStart: 1, TaskTimeout: -1, Hints: [job.Kinds]job.Ratings{heavy, heavy}}}})
	}
	load := cluster.Load{LoadAverage: 1, CPU: 0.3, MemoryFree: 0.5}
	if what == "full" {
		load.LoadAverage = 6
	}
	reports := make([][]tracker.Report, nodes)
	beat := func(i int) {
		n := i % nodes
		hb := tracker.Heartbeat{Node: names[n], Load: load, Reports: reports[n]}
		reports[n] = reports[n][:0]
		for _, e := range tr.Step(time.Duration(i)*50*time.Millisecond, &hb) {
			if e.Kind == tracker.Launch {
				reports[n] = append(reports[n], tracker.Report{Attempt: e.Attempt, State: job.AttemptSucceeded})
			}
		}
	}
	for i := range 20 * nodes {
		beat(i)
	}
	before := tr.Stats().Launches
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		beat(20*nodes + i)
	}
	b.StopTimer()
	if n := tr.Stats().Launches - before; what == "full" && n > int64(b.N/10+1) || what == "launch" && n < int64(b.N/2) {
		b.Fatalf("%d launches in %d heartbeats", n, b.N)
	}
}
