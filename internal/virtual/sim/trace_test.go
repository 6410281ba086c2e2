//go:build !race

// The race detector makes these runs ten times as long. It has other tests of the
// simulator; .ci/run runs these without it.

package sim

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/policies"
)

// Every policy runs the whole day of the trace and the beginning of another one, 7,000 jobs, to
// its end, on a sixth of the nodes that it was recorded on.
func TestTraceEnds(t *testing.T) {
	dir := os.Getenv("SLOTWISE_TRACES")
	if dir == "" || testing.Short() {
		t.Skip("SLOTWISE_TRACES does not name a folder with swim-fb-2009-0.tsv, or the tests are to be short")
	}
	f, err := os.Open(filepath.Join(dir, "swim-fb-2009-0.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	trace, err := workload.ReadSWIM(f.Name(), f, workload.SWIMOptions{})
	if err != nil {
		t.Fatal(err)
	}
	jobs := trace.List
	for _, j := range trace.List[:7000-len(trace.List)] {
		j.Submit += 24 * time.Hour
		jobs = append(jobs, j)
	}
	cluster := workload.Cluster{Racks: 3, Heartbeat: "hadoop-0.20.2",
		Groups: []workload.NodeGroup{{Name: "n", Count: 100, MapSlots: 4, ReduceSlots: 2}}}
	for _, name := range policies.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := Run(Config{Cluster: cluster, Jobs: jobs, Seed: 1, Policy: policy(t, name)})
			if err != nil {
				t.Fatal(err)
			}
			if r.Succeeded != len(jobs) || r.Tracker.Refused > 0 {
				t.Errorf("%d of %d jobs succeeded, %d assignments refused", r.Succeeded, len(jobs), r.Tracker.Refused)
			}
		})
	}
}
