package sim

import (
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/workload"
)

// TestRacksWithoutNodes places blocks on clusters some of whose racks have no nodes: the second copy of a
// block goes to another rack only if one has nodes.
func TestRacksWithoutNodes(t *testing.T) {
	group := func(n, rack int) workload.NodeGroup {
		return workload.NodeGroup{Count: n, Rack: rack, MapSlots: 2, ReduceSlots: 1}
	}
	for name, groups := range map[string][]workload.NodeGroup{
		"all in the second": {group(3, 2)}, "two of three": {group(2, 1), {Name: "other", Count: 2, Rack: 3, MapSlots: 1}}, "one node": {group(1, 1)},
	} {
		jobs := []workload.Job{{Maps: []workload.Task{{Duration: time.Second, Input: 1 << 20}, {Duration: time.Second, Input: 1 << 20}}}}
		r := run(t, Config{Cluster: workload.Cluster{Racks: 3, Groups: groups}, Policy: policy(t, "fifo"), Jobs: jobs, Seed: 1})
		if r.Succeeded != 1 {
			t.Errorf("%s: %d jobs succeeded", name, r.Succeeded)
		}
	}
}
