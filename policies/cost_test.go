package policies

import (
	"fmt"
	"testing"

	"github.com/slotwise/slotwise/internal/tracker/fullload"
	"github.com/slotwise/slotwise/sched"
)

// newBusy returns a busy cluster under a policy.
func newBusy(b *testing.B, policy string, jobs, nodes int) *fullload.Cluster {
	p, err := Build(policy, sched.Options{Seed: 1, Set: fullload.Settings(policy)})
	if err != nil {
		b.Fatal(err)
	}
	return fullload.New(p, jobs, nodes)
}

// BenchmarkDecision measures the cost of a heartbeat under every policy, including the
// tracker's own work. lab/results/performance.md has its table.
func BenchmarkDecision(b *testing.B) {
	for _, policy := range Names() {
		for _, nodes := range []int{100, 10_000} {
			for _, jobs := range []int{100, 1000} {
				var c *fullload.Cluster
				run := func(what string, play func(*fullload.Cluster, int)) {
					b.Run(fmt.Sprintf("%s/%dnodes/%djobs/%s", policy, nodes, jobs, what), func(b *testing.B) {
						if c == nil {
							c = newBusy(b, policy, jobs, nodes) // takes up to a second
						}
						b.ReportAllocs()
						b.ResetTimer()
						before := c.Tracker.Stats().Launches
						play(c, b.N)
						b.ReportMetric(float64(c.Tracker.Stats().Launches-before)/float64(b.N), "launches/op")
						if b.N > 1 {
							c = nil // the next one does not learn from this one
						}
					})
				}
				run("idle", (*fullload.Cluster).Idle)
				run("busy", (*fullload.Cluster).Work)
			}
		}
	}
}
