package sim

import (
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/cluster"
)

// A group may state the names and the rack of its nodes. Splits on these hosts are then
// local to the node, or to its rack.
func TestHostsAndRacks(t *testing.T) {
	groups := []workload.NodeGroup{{Count: 2, Hosts: []string{"a", "b"}, Rack: 2, MapSlots: 1}, {Count: 1, Hosts: []string{"c"}, Rack: 1, MapSlots: 1}}
	j := workload.Job{Name: "j", Maps: []workload.Task{
		{Duration: time.Second, Hosts: []string{"a"}}, {Duration: time.Second, Hosts: []string{"a"}}, {Duration: time.Second, Hosts: []string{"a"}}}}
	c := Config{Cluster: workload.Cluster{Racks: 2, Heartbeat: "fixed:100ms", Groups: groups}, Jobs: []workload.Job{j}, Policy: policy(t, "fifo,speculate=none")}
	r := run(t, c)
	if r.Maps[cluster.NODE] != 1 || r.Maps[cluster.RACK] != 1 || r.Maps[cluster.ANY] != 1 {
		t.Errorf("maps by locality: %v, want one each", r.Maps)
	}
	for _, wrong := range []workload.NodeGroup{{Count: 1, MapSlots: 1, Rack: 3}, {Count: 2, MapSlots: 1, Hosts: []string{"x"}}} {
		c.Cluster.Groups, c.Policy = []workload.NodeGroup{wrong}, policy(t, "fifo")
		if _, err := Run(c); err == nil {
			t.Errorf("%+v: no error", wrong)
		}
	}
}
