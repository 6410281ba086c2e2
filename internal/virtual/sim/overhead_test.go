package sim

import (
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/job"
)

// Each overhead on a job of two maps of 10 s and a reduce of 20 s, whose nodes send a
// heartbeat every second. Without overheads it starts at 0, its maps are reported at 10 s,
// and its reduce, of which no part overlaps with the maps, ends at 30 s.
func TestOverheads(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name  string
		o     Overheads
		start int // seconds until the first launch, until the maps are done, until the end
		maps  int
		end   int
	}{
		{"none", Overheads{}, 0, 10, 30},
		// The set-up starts with the heartbeat at 0 and is reported at 3 s.
		{"set-up", Overheads{Setup: 2500 * time.Millisecond}, 3, 13, 33},
		// The last task is reported at 30 s, the clean-up of 2.5 s at 33 s.
		{"clean-up", Overheads{Cleanup: 2500 * time.Millisecond}, 0, 10, 33},
		// The reduce starts at 10 s and looks at 10 + 2 + 5 s first, so it works from 17 s on.
		{"polls", Overheads{FetchPoll: 5 * s, FetchStart: 2 * s}, 0, 10, 37},
	} {
		j := plain(2, 10*s, 1, 20*s)
		j.Reduces[0].Fetch, j.SlowStart = -1, 1
		on := uniformCluster(1, 2, 1)
		on.Heartbeat = "fixed:1s"
		r := run(t, Config{Cluster: on, Jobs: []workload.Job{j}, Model: ModelConfig{Overheads: c.o}})
		got := r.Jobs[0]
		near(t, c.name+": submitted", got.Submitted, 0, 0)
		near(t, c.name+": first launch", got.Started, time.Duration(c.start)*s, 0)
		near(t, c.name+": maps", got.MapsDone, time.Duration(c.maps)*s, 0)
		near(t, c.name+": end", got.Ended, time.Duration(c.end)*s, 0)
	}
}

// The processor time of an attempt outside of its task is paid by each attempt with stages, shares the cores of the
// machine, and is no part of tasks of given duration; map output costs where reduces fetch it. Two maps of 1 s and a
// reduce of 1 s on one core.
func TestAttemptCost(t *testing.T) {
	const s = time.Second
	on := uniformCluster(1, 2, 1)
	on.Groups[0].Cores = 1
	cost := ModelConfig{OutOfBand: true, Overheads: Overheads{Attempt: s / 2, Shuffle: s / 10}}
	for _, c := range []struct {
		job  workload.Job
		end  time.Duration
		what string
	}{
		{workload.Job{Maps: []workload.Task{{CPU: s}, {CPU: s}}, Reduces: []workload.Task{{CPU: s}}}, 4500 * time.Millisecond, "stages"},
		{workload.Job{Maps: []workload.Task{{CPU: s, Output: 5e6}, {CPU: s, Output: 5e6}}, Reduces: []workload.Task{{CPU: s, Input: 10e6}}}, 5500 * time.Millisecond, "with output"},
		{workload.Job{Maps: []workload.Task{{CPU: s, Output: 5e6}, {CPU: s, Output: 5e6}}}, 3 * s, "without reduces"},
		{plain(1, s, 1, s), 2 * s, "given durations"},
	} {
		c.job.SlowStart = 1
		r := run(t, Config{Cluster: on, Jobs: []workload.Job{c.job}, Model: cost})
		near(t, c.what, r.Jobs[0].Ended, c.end, 10*time.Millisecond)
	}
}

// Processes that start together share the cores: four maps with a start of 1 s of
// processor time (0.2 to 1.8 s, as drawn) on two cores have all started by the time that
// the drawn amounts take on two cores. A second wave reuses the processes.
func TestStartsShareCores(t *testing.T) {
	const s = time.Second
	on := uniformCluster(1, 4, 0) // with two cores
	cfg := Config{Cluster: on, Jobs: []workload.Job{plain(8, 10*s, 0, 0)},
		Model: ModelConfig{Overheads: Overheads{Start: s, Restart: 100 * time.Millisecond}}}
	r := run(t, cfg)
	// Four starts of 0.2 to 1.8 s take 0.4 to 3.6 s in all on two cores; an idle process asks
	// for the next task within 0.3 s. Each report waits for a heartbeat, up to 0.5 s.
	if e := r.Jobs[0].Ended; e < 20*s+400*time.Millisecond || e > 24*s+900*time.Millisecond {
		t.Errorf("ended at %v, want between 20.4 and 24.9 s", e)
	}
	reused := r.Jobs[0].Ended
	cfg.Model.Overheads.Restart = 0
	if r := run(t, cfg); r.Jobs[0].Ended <= reused {
		t.Errorf("without reuse it ended at %v, with at %v", r.Jobs[0].Ended, reused)
	}
	cfg.Cluster.Groups[0].Cores = 4
	if r := run(t, cfg); r.Jobs[0].Ended > 24*s+600*time.Millisecond {
		t.Errorf("on four cores it ended at %v: two starts take at most 1.8 s each", r.Jobs[0].Ended)
	}
}

// An idle process asks at multiples of the interval, and after the fourth at multiples of three
// intervals.
func TestNextAsk(t *testing.T) {
	const ms = time.Millisecond
	for idle, want := range map[time.Duration]time.Duration{
		100 * ms: 400 * ms, 700 * ms: 300 * ms, 1999 * ms: 1 * ms, 2100 * ms: 1400 * ms, 3400 * ms: 100 * ms, 3600 * ms: 1400 * ms,
	} {
		if got := nextAsk(idle, 500*ms); got != want {
			t.Errorf("after %v: %v, want %v", idle, got, want)
		}
	}
}

// A node with fewer processes than slots starts a new one, though an idle one could take
// the task. Processes of jobs that have ended, and then the one that is idle longest, make room.
func TestProcesses(t *testing.T) {
	const s = time.Second
	jobs := []workload.Job{plain(1, s, 0, 0), plain(1, s, 0, 0), plain(1, s, 0, 0)}
	m, err := prepare(Config{Policy: policy(t, "fifo"), Cluster: uniformCluster(1, 2, 1), Jobs: jobs,
		Model: ModelConfig{Overheads: Overheads{Start: s, Restart: s / 2}}})
	if err != nil {
		t.Fatal(err)
	}
	m.now = 10 * s
	nd := &m.nodes[0]
	nd.idle = []process{{0, job.Map, 9 * s}}
	a := &attempt{job: &running{index: 0}, work: &work{}}
	m.attempts = []attempt{*a}
	nd.attempts = []int32{0}
	if got := m.reuse(&m.attempts[0], nd); got != -1 || len(nd.idle) != 1 {
		t.Errorf("with one process of two: reused after %v, idle %v", got, nd.idle)
	}
	nd.idle = append(nd.idle, process{1, job.Map, 8 * s})
	if got := m.reuse(&m.attempts[0], nd); got != s/2 || len(nd.idle) != 1 || nd.idle[0].job != 1 {
		t.Errorf("with two processes: reused after %v, idle %v", got, nd.idle)
	}
	nd.idle = []process{{1, job.Map, 8 * s}, {2, job.Map, 7 * s}, {1, job.Reduce, 2 * s}}
	if got := m.reuse(&m.attempts[0], nd); got != -1 || len(nd.idle) != 2 || nd.idle[0].job != 1 {
		t.Errorf("with processes of others: reused after %v, idle %v", got, nd.idle)
	}
	m.waits[1] |= endedBit
	if m.dropEnded(nd); len(nd.idle) != 0 {
		t.Errorf("idle processes of an ended job: %v", nd.idle)
	}
}

// The poller finds a job between 0 and 5 s after the submission. The pool's thread
// initialises the job then or 5 s later, and all jobs of one interval at the same moment.
func TestInitPoll(t *testing.T) {
	const s = time.Second
	jobs := []workload.Job{plain(1, s, 0, 0), plain(1, s, 0, 0), plain(1, s, 0, 0)}
	jobs[1].Submit, jobs[2].Submit = 10*s, 10*s+s/10
	r := run(t, Config{Cluster: uniformCluster(1, 4, 0), Jobs: jobs, Model: ModelConfig{Overheads: Overheads{InitPoll: 5 * s}}})
	first := r.Jobs[0].Started
	if first < 0 || first > 10*s {
		t.Errorf("the first job started at %v", first)
	}
	for _, i := range []int{1, 2} {
		j := r.Jobs[i]
		if wait := j.Started - j.Submitted; j.Submitted != jobs[i].Submit || wait < 0 || wait > 10*s+s/10 {
			t.Errorf("job %d: submitted at %v, started at %v", i, j.Submitted, j.Started)
		}
		if d := (j.Started - first) % (5 * s); d > 20*time.Millisecond && d < 5*s-20*time.Millisecond {
			t.Errorf("job %d started %v after the first, which is no multiple of the interval", i, j.Started-first)
		}
	}
}

// A killed attempt occupies its slot until its clean-up has ended: a task that the tracker
// starts there begins only then.
func TestKilledAttemptsHoldTheirSlot(t *testing.T) {
	s, err := prepare(Config{Policy: policy(t, "fifo"), Cluster: uniformCluster(1, 1, 1), Jobs: []workload.Job{plain(1, time.Second, 0, 0)},
		Model: ModelConfig{Heartbeat: "fixed:1s", Overheads: Overheads{KillBeats: 2, Cleanup: 500 * time.Millisecond}}})
	if err != nil {
		t.Fatal(err)
	}
	s.start()
	for s.once() && len(s.nodes[0].attempts) == 0 {
	}
	nd := &s.nodes[0]
	a := &s.attempts[nd.attempts[0]]
	s.holdKilled(a)
	if got := nd.heldUntil(s, job.Reduce); got != s.now {
		t.Errorf("the reduce slot is free at %v, want now", got)
	}
	if got := nd.heldUntil(s, job.Map); got != s.now+3*time.Second {
		t.Errorf("the map slot is free at %v, want two heartbeats and the clean-up after %v", got, s.now)
	}
	if got := nd.heldUntil(s, job.Map); got != s.now {
		t.Errorf("the hold was not taken over: %v", got)
	}
}
