package collect

import (
	"runtime"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
)

// heap is the live memory.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// peak makes a run of n small jobs, one after another, and returns the most
// memory that it and its collector hold beside the list of jobs.
func peak(t *testing.T, n int, details bool) int64 {
	jobs := make([]workload.Job, n)
	for i := range jobs {
		jobs[i] = plain(3, 2*second)
		jobs[i].Submit, jobs[i].Class = time.Duration(i)*8*second, []string{"a", "b"}[i%2]
	}
	cfg := sim.Config{Cluster: virtualCluster(2, 2, 1), Jobs: jobs, Policy: policy(t, "fair"), Details: details}
	alone := Ideal(&cfg.Cluster, jobs, cfg.Model)
	before, most, ended := heap(), int64(0), 0
	k := New(&cfg.Cluster, jobs, alone, details)
	cfg.Observer = sim.Observers{k, observer(func(e *sim.Event) {
		if e.Kind == sim.JobEnded {
			if ended++; ended%(n/5) == 0 {
				most = max(most, heap()-before)
			}
		}
	})}
	r, err := sim.Run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if p := k.Report(r, BoundsOf(&cfg.Cluster, jobs, cfg.Model)); p.Response.N != n || p.Classes[1].Slowdown.N != n/2 {
		t.Fatalf("%+v", p)
	}
	runtime.KeepAlive(alone)
	return most
}

type observer func(*sim.Event)

func (f observer) Observe(e *sim.Event) { f(e) }

// Ten times the jobs take as much memory, except for the order and the pools of the jobs
// that have not been submitted yet.
func TestMemoryOfEndedJobs(t *testing.T) {
	const few, many, ahead = 3000, 30000, 12
	small, large := peak(t, few, false), peak(t, many, false)
	// The digests of 3,000 jobs are not full yet: five numbers for each job.
	full := int64(5 * 8 * 8192)
	if large > small+full+ahead*(many-few)+64<<10 {
		t.Errorf("%d bytes for %d jobs, %d for %d", small, few, large, many)
	}
	if details := peak(t, many, true); details < large+many*100 {
		t.Errorf("with details %d bytes, without %d: the test sees no difference", details, large)
	}
}
