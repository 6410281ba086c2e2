package console

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/console/source"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// BenchmarkNodes renders the pages of a cluster of 1,001 nodes.
func BenchmarkNodes(b *testing.B) {
	f := newFake(100, "sort")
	f.nodes = nil
	for i := range 1001 {
		f.nodes = append(f.nodes, &slotwisev1.NodeStatus{Name: fmt.Sprint("node", i), Host: "host", Rack: "rack", State: "alive", MapSlots: 8, ReduceSlots: 4, Maps: int32(i % 9)})
	}
	s := newConsole(b, f)
	for _, path := range []string{"/ui/", "/ui/nodes", "/ui/nodes?sort=-maps", "/ui/jobs"} {
		b.Run(path, func(b *testing.B) {
			for b.Loop() {
				if w := ask(s, http.MethodGet, path, "ann"); w.Code != http.StatusOK {
					b.Fatal(w.Code)
				}
			}
		})
	}
}

// BenchmarkJobPage renders the page of a job with 145,000 attempts on 100 nodes: the first
// view, for which lanes and stragglers are worked out, and a view from the cache.
func BenchmarkJobPage(b *testing.B) {
	f := newFake(1, "big")
	f.attempts = nil
	for i := range int32(145_000) {
		start := 2000 + int64(i)*3
		f.attempts = append(f.attempts, source.Attempt{ID: fmt.Sprintf("j1_m_%d_0", i), Kind: 'm', Task: i, State: "succeeded", Node: fmt.Sprint("w", i%100), Level: "NODE",
			Progress: 1, Started: start, Ended: start + 2000 + int64(i*7919%1000), OutputBytes: 100})
	}
	for name, first := range map[string]bool{"first": true, "again": false} {
		b.Run(name, func(b *testing.B) {
			s := newConsole(b, f)
			began := processorTime()
			for b.Loop() {
				if first {
					s.cache = attemptCache{}
				}
				if w := ask(s, http.MethodGet, "/ui/jobs/j1", "ann"); w.Code != http.StatusOK {
					b.Fatal(w.Code)
				}
			}
			b.ReportMetric((processorTime()-began).Seconds()*1e3/float64(b.N), "cpu-ms/op")
		})
	}
}

// processorTime returns what the process has used so far.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
