package sim

import (
	"runtime"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/workload"
)

// Ten times the jobs, one after another, take no more memory than what the list
// of jobs itself needs.
func TestMemoryOfEndedJobs(t *testing.T) {
	most := func(n int) int64 {
		jobs := make([]workload.Job, n)
		for i := range jobs {
			jobs[i] = plain(40, 3*time.Second, 4, 2*time.Second)
			jobs[i].Submit = time.Duration(i) * 8 * time.Second
		}
		cfg := Config{Policy: policy(t, "fifo"), Cluster: uniformCluster(10, 4, 2), Jobs: jobs,
			Model: ModelConfig{Heartbeat: "fixed:1s"}}
		peak := &peakMemory{base: heap(), every: n / 5}
		cfg.Observer = peak
		if _, err := Run(cfg); err != nil {
			t.Fatal(err)
		}
		if len(jobs) != n { // keeps them alive
			t.Fatal()
		}
		return peak.most
	}
	few, many := most(100), most(1000)
	if many > few+few/4+1000*16+64<<10 {
		t.Errorf("%d bytes for 100 jobs, %d for 1,000", few, many)
	}
}

// peakMemory measures the live heap at regular intervals and returns the maximum.
type peakMemory struct {
	base, most   int64
	ended, every int
}

func (p *peakMemory) Observe(e *Event) {
	if e.Kind == JobEnded {
		if p.ended++; p.ended%p.every == 0 {
			p.most = max(p.most, heap()-p.base)
		}
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) // less than before, if what others left is collected late
}
