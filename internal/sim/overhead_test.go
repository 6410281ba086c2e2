package sim

import (
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/workload"
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

// Processes that start together share the cores: four maps with a start of 1 s of
// processor time (0.5 to 1.5 s, as drawn) on two cores have all started by the time that
// the drawn amounts take on two cores. A second wave reuses the processes.
func TestStartsShareCores(t *testing.T) {
	const s = time.Second
	on := uniformCluster(1, 4, 0) // with two cores
	cfg := Config{Cluster: on, Jobs: []workload.Job{plain(8, 10*s, 0, 0)},
		Model: ModelConfig{Overheads: Overheads{Start: s, Restart: 100 * time.Millisecond}}}
	r := run(t, cfg)
	// Four starts of 0.5 to 1.5 s take 1 to 3 s in all on two cores; a restart 0.05 to 0.15 s.
	if e := r.Jobs[0].Ended; e < 21*s+50*time.Millisecond || e > 23*s+250*time.Millisecond {
		t.Errorf("ended at %v, want between 21.05 and 23.25 s", e)
	}
	reused := r.Jobs[0].Ended
	cfg.Model.Overheads.Restart = 0
	if r := run(t, cfg); r.Jobs[0].Ended < reused+s/2 {
		t.Errorf("without reuse it ended at %v, with at %v: a second start takes at least 0.5 s", r.Jobs[0].Ended, reused)
	}
	cfg.Cluster.Groups[0].Cores = 4
	if r := run(t, cfg); r.Jobs[0].Ended > 23*s+100*time.Millisecond {
		t.Errorf("on four cores it ended at %v: two starts take at most 1.5 s each", r.Jobs[0].Ended)
	}
}

// The poller initialises a job at its next look: between 0 and 5 s after the submission,
// and all jobs of one interval at the same moment.
func TestInitPoll(t *testing.T) {
	const s = time.Second
	jobs := []workload.Job{plain(1, s, 0, 0), plain(1, s, 0, 0), plain(1, s, 0, 0)}
	jobs[1].Submit, jobs[2].Submit = 10*s, 10*s+s/10
	r := run(t, Config{Cluster: uniformCluster(1, 4, 0), Jobs: jobs, Model: ModelConfig{Overheads: Overheads{InitPoll: 5 * s}}})
	first := r.Jobs[0].Started
	if first < 0 || first > 5*s {
		t.Errorf("the first job started at %v", first)
	}
	for _, i := range []int{1, 2} {
		j := r.Jobs[i]
		if wait := j.Started - j.Submitted; j.Submitted != jobs[i].Submit || wait < 0 || wait > 5*s+s/10 {
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
