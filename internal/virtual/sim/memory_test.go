package sim

import (
	"runtime"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/job"
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

// A live task costs at most 380 bytes halfway through a job, with its attempt, its split and
// the hosts of its three blocks. (346 are measured.) The tasks of jobs that are not running
// cost nothing if the jobs have Outlines.
func TestMemoryOfLiveTasks(t *testing.T) {
	const tasks, jobsOfTrace = 40_000, 5
	makeTasks := func() (maps, reduces []workload.Task) {
		j := plain(tasks, time.Second, 1, time.Second)
		return j.Maps, j.Reduces
	}
	jobs := make([]workload.Job, jobsOfTrace)
	for i := range jobs {
		jobs[i] = workload.Job{Submit: time.Duration(i) * 10 * time.Hour, Request: job.Request{SlowStart: 1},
			Outline: &workload.Outline{Maps: tasks, Reduces: 1, Make: makeTasks}}
	}
	cfg := Config{Policy: policy(t, "fifo"), Cluster: uniformCluster(20, 10, 1), Jobs: jobs[:1], Model: ModelConfig{Heartbeat: "fixed:1s"}}
	half := &halfway{tasks: tasks / 2, base: heap()}
	cfg.Observer = half
	if _, err := Run(cfg); err != nil {
		t.Fatal(err)
	}
	per := half.most / tasks
	t.Logf("%d bytes for each live task", per)
	if per > 380 {
		t.Errorf("%d bytes for each live task", per)
	}
	whole := &halfway{tasks: (jobsOfTrace-1)*tasks + tasks/2, base: heap()}
	cfg.Policy, cfg.Jobs, cfg.Observer = policy(t, "fifo"), jobs, whole
	if _, err := Run(cfg); err != nil {
		t.Fatal(err)
	}
	if whole.most > half.most+half.most/4 {
		t.Errorf("%d bytes halfway in the only job, %d in the last of %d jobs", half.most, whole.most, jobsOfTrace)
	}
}

// halfway measures the live heap when a number of maps have ended.
type halfway struct {
	tasks      int
	base, most int64
}

func (h *halfway) Observe(e *Event) {
	if e.Kind == AttemptEnded && e.Attempt.Kind == job.Map {
		if h.tasks--; h.tasks == 0 {
			h.most = heap() - h.base
		}
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
