package policies

import (
	"fmt"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/sched/job"
)

// BenchmarkTags: a heartbeat of a full node, and one that reports a finished map
// and gets another, which is a decision.
func BenchmarkTags(b *testing.B) {
	for _, policy := range []string{"statictags", "dynamictags"} {
		for _, jobs := range []int{100, 1000} {
			b.Run(fmt.Sprintf("%s/idle/%djobs", policy, jobs), func(b *testing.B) { benchTags(b, policy, jobs, false) })
			b.Run(fmt.Sprintf("%s/busy/%djobs", policy, jobs), func(b *testing.B) { benchTags(b, policy, jobs, true) })
		}
	}
}

func benchTags(b *testing.B, policy string, jobs int, report bool) {
	tr, nodes := busy(b, policy, jobs, min(b.N, 400_000)/jobs+200)
	var reports [1]tracker.Report
	for _, n := range nodes {
		tr.Step(0, &tracker.Heartbeat{Node: n})
	}
	launched := 0
	hb := &tracker.Heartbeat{}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		hb.Node, hb.Reports = nodes[i%len(nodes)], nil
		if running := tr.Nodes().Get(hb.Node).Attempts(); report && len(running) > 0 {
			reports[0] = tracker.Report{Attempt: running[0].ID(), State: job.AttemptSucceeded}
			hb.Reports = reports[:]
		}
		for _, e := range tr.Step(time.Duration(i)*3*time.Millisecond, hb) {
			if e.Kind == tracker.Launch {
				launched++
			}
		}
	}
	b.ReportMetric(float64(launched)/float64(b.N), "launches/op")
}
