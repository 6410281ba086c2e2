package sim

import (
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/workload"
)

// TestSwap runs two jobs on two map slots. Under fifo the first job holds both
// slots for 5 s. A swap to fair at 2 s gives one slot to the second job, which
// then ends at 4 s; a swap that is lost, or comes at another time, fails the test.
func TestSwap(t *testing.T) {
	one, two := plain(10, time.Second, 0, 0), plain(2, time.Second, 0, 0)
	one.Pool, two.Pool = "a", "b"
	cfg := Config{Cluster: uniformCluster(1, 2, 1), Jobs: []workload.Job{one, two}}
	before := run(t, cfg)
	cfg.Swaps = []Swap{{At: 2 * time.Second, Policy: policy(t, "fair")}}
	after := run(t, cfg)
	if b, a := before.Jobs[1].Ended.Round(time.Second), after.Jobs[1].Ended.Round(time.Second); b != 6*time.Second || a != 4*time.Second {
		t.Errorf("the second job ends at %v without the swap and at %v with it; want 6s and 4s", b, a)
	}
}
