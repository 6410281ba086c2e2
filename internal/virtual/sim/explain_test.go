package sim

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched/job"
)

// Two jobs of one map of 10 s each share one slot. The second, submitted 1 s later, waits
// 9 s for the slot.
func TestHolds(t *testing.T) {
	second := plain(1, 10*time.Second, 0, 0)
	second.Submit = time.Second
	r := run(t, Config{Cluster: uniformCluster(1, 1, 0), Explain: true, Jobs: []workload.Job{plain(1, 10*time.Second, 0, 0), second}})
	first, held := r.Jobs[0].Waits, r.Jobs[1].Waits
	if len(first) > 1 || len(held) == 0 {
		t.Fatalf("the first was held by %v, the second by %v", first, held)
	}
	near(t, "held", held[0].For, 9*time.Second, 100*time.Millisecond)
	if held[0].Kind != job.Map || !strings.Contains(held[0].Words, "all 1 map slots of the cluster are in use") {
		t.Errorf("%+v", held[0])
	}
	if r := run(t, Config{Cluster: uniformCluster(1, 1, 0), Jobs: []workload.Job{second}}); r.Jobs[0].Waits != nil {
		t.Error("nobody asked")
	}
}

// Collecting wait reasons changes no decision.
func TestExplainChangesNothing(t *testing.T) {
	names := policies.Names()
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			decisions := func(explain bool) []byte {
				cfg := everything()
				cfg.Explain = explain
				log := logOf(t, cfg, name)
				return log[:bytes.LastIndexByte(bytes.TrimSpace(log), '\n')] // without the result
			}
			if a, b := decisions(false), decisions(true); !bytes.Equal(a, b) {
				t.Error(firstDifference(a, b))
			}
		})
	}
}
