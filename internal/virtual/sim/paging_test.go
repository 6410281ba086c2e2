package sim

import (
	"math"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

const gib = 1 << 30

func TestPagingFactor(t *testing.T) {
	for _, c := range []struct{ r, k, want float64 }{
		{0, 20, 1}, {0.9, 20, 1}, {0.95, 20, 1.05}, {1, 20, 1.1}, {1.1, 20, 3.1}, {1.5, 20, 11.1}, {1.1, 10, 2.1}, {3, 20, 20}, {1, 0, 1.1}, {2, 0, 1.1},
	} {
		if got := pagingFactor(c.r, c.k); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("filled to %g with k = %g: %v, want %v", c.r, c.k, got, c.want)
		}
	}
}

// memoryRun simulates jobs on one node of 10 GiB with 4 + 2 slots and two cores.
func memoryRun(t *testing.T, jobs ...workload.Job) *Result {
	c := uniformCluster(1, 4, 2)
	c.Groups[0].Memory = 10 * gib
	return run(t, Config{Cluster: c, Jobs: jobs, Policy: policy(t, "fifo,speculate=none"), Model: ModelConfig{Replicas: -1}})
}

// soonAfter reports whether a time is up to 3 heartbeats later than another.
func soonAfter(got, want time.Duration) bool { return got >= want && got <= want+30*time.Millisecond }

// Two tasks that fill a node to 1.1 take 1.1 + 20·0.1 = 3.1 times as long, and the rest of
// the longer one its own time again.
func TestPagingSlowsTasks(t *testing.T) {
	const s = time.Second
	big := workload.Job{Resident: 11 * gib / 2, Maps: []workload.Task{{Duration: 10 * s}, {Duration: 20 * s}}}
	r := memoryRun(t, big)
	if want := 31*s + 10*s; !soonAfter(r.Makespan, want) {
		t.Errorf("tasks of 10 and 20 s end after %v, want %v", r.Makespan, want)
	}
	cpu := big
	cpu.Maps = tasks(2, workload.Task{CPU: 10 * s})
	if r = memoryRun(t, cpu); !soonAfter(r.Makespan, 31*s) {
		t.Errorf("tasks of 10 s of processor time end after %v, want 31s", r.Makespan)
	}
	// A reduce is in memory while it waits for maps: 4 maps of 2 GiB and a reduce of 2 GiB
	// fill the node to 1.0. After the maps the reduce has the memory for itself.
	early := plain(4, 10*s, 1, 6*s)
	early.Resident, early.SlowStart = 2*gib, -1
	if r = memoryRun(t, early); !soonAfter(r.Makespan, 11*s+4*s) {
		t.Errorf("maps of 10 s beside a waiting reduce of 6 s, which fetches for 2 s: %v, want 15s", r.Makespan)
	}
	late := early
	late.SlowStart = 1
	if r = memoryRun(t, late); !soonAfter(r.Makespan, 10*s+6*s) {
		t.Errorf("without the reduce in memory: %v, want 16s", r.Makespan)
	}
}

// Without limits of memory, without jobs that state theirs, with k below 0 and with enough
// memory, runs have the same ends of jobs.
func TestPagingIsOff(t *testing.T) {
	ends := func(resident, memory int64, k float64) (list []time.Duration) {
		a, b := plain(9, 7*time.Second, 3, 5*time.Second), plain(5, 3*time.Second, 0, 0)
		a.Resident, b.Resident, b.Submit = resident, resident, 4*time.Second
		c := uniformCluster(2, 2, 1)
		c.Groups[0].Memory = memory
		r := run(t, Config{Cluster: c, Jobs: []workload.Job{a, b}, Policy: policy(t, "fifo,speculate=none"), Model: ModelConfig{Paging: k}})
		for _, j := range r.Jobs {
			list = append(list, j.Ended)
		}
		return list
	}
	want := ends(0, 0, 0)
	for name, got := range map[string][]time.Duration{"no node states memory": ends(gib, 0, 0), "no job states memory": ends(0, gib, 0),
		"off": ends(gib, gib, -1), "enough memory": ends(gib, 10*gib, 0)} {
		for i := range want {
			if !soonAfter(got[i], want[i]) {
				t.Errorf("%s: job %d ends at %v, want %v", name, i, got[i], want[i])
			}
		}
	}
	if got := ends(gib, gib, 0); got[0] < 2*want[0] {
		t.Errorf("with 1 GiB for three tasks of 1 GiB the job ends at %v, without limits at %v", got[0], want[0])
	}
}

// Policies see the free part of a node's memory. All memory is free again at the end, also
// after pauses, failures and crashes.
func TestPagingIsReported(t *testing.T) {
	c := uniformCluster(2, 2, 1)
	c.Groups[0].Memory = 4 * gib
	j := plain(30, 10*time.Second, 4, 5*time.Second)
	j.Resident = gib
	s, err := prepare(Config{Cluster: c, Jobs: []workload.Job{j}, Policy: policy(t, "fifo"), Seed: 3,
		Model: ModelConfig{FailureRate: 0.2, Crashes: []Crash{{Node: 1, At: 12 * time.Second, Return: 20 * time.Second}},
			Stops: []Stop{{Node: 0, At: 25 * time.Second, Until: 40 * time.Second}}, NodeTimeout: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	s.start()
	least := 1.
	for s.open > 0 && s.once() {
		var got cluster.Load
		s.measure(&s.nodes[0], &got)
		least = min(least, got.MemoryFree)
		if s.nodes[0].plant.resident < 0 || s.nodes[0].plant.resident > 3*gib {
			t.Fatalf("at %v %v bytes are occupied", s.now, s.nodes[0].plant.resident)
		}
	}
	if s.err != nil || least > 0.5 || s.tr.Stats().Launches == 0 {
		t.Errorf("error %v, least free memory %g", s.err, least)
	}
	for i := range s.nodes {
		if left := s.nodes[i].plant.resident; left != 0 {
			t.Errorf("node %d has %v bytes left", i, left)
		}
	}
	if s.result.Attempts[job.Map][job.AttemptFailed] == 0 {
		t.Error("no attempt failed")
	}
}
