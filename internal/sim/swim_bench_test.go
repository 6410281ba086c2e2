package sim

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/slotwise/slotwise/internal/workload"
)

// BenchmarkDay runs a day of a cluster of 600 nodes, 5,894 jobs of a public
// trace, if SLOTWISE_TRACES names a folder that has it.
func BenchmarkDay(b *testing.B) {
	file := filepath.Join(os.Getenv("SLOTWISE_TRACES"), "swim-fb-2009-0.tsv")
	in, err := os.Open(file)
	if err != nil {
		b.Skipf("no trace: %v", err)
	}
	defer in.Close()
	trace, err := workload.ReadSWIM(file, in, workload.SWIMOptions{})
	if err != nil {
		b.Fatal(err)
	}
	jobs, err := trace.Jobs(1)
	if err != nil {
		b.Fatal(err)
	}
	cluster, err := workload.ParseCluster("nodes=600,maps=4,reduces=2,racks=20")
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"fifo", "fair"} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				r, err := Run(Config{Cluster: cluster, Policy: policy(b, name), Jobs: jobs})
				if err != nil {
					b.Fatal(err)
				}
				if r.Succeeded != len(jobs) {
					b.Fatalf("%+v", r)
				}
				b.ReportMetric(float64(r.Events), "events")
				b.ReportMetric(float64(r.Decisions), "decisions")
			}
		})
	}
}
