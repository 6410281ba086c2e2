package sim

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/job"
)

// An imported reduce takes as long in the simulator as it took in the trace. The maps of
// each trace end at 60 s and its reduce at 150 s; the cluster has a slot for every task.
func TestImportedReduces(t *testing.T) {
	rumen := func(start int, fetched string) *workload.Trace {
		text := fmt.Sprintf(`{"jobID": "job_1", "submitTime": 0, "outcome": "SUCCESS", "totalMaps": 1, "totalReduces": 1,
 "mapTasks": [{"taskID": "m0", "attempts": [{"result": "SUCCESS", "startTime": 0, "finishTime": 60000}]}],
 "reduceTasks": [{"taskID": "r0", "attempts": [{"result": "SUCCESS", "startTime": %d, %s "finishTime": 150000}]}]}`, start*1000, fetched)
		trace, err := workload.ReadRumen("r.json", strings.NewReader(text), workload.RumenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return trace
	}
	sls := func(reduce string) *workload.Trace {
		text := fmt.Sprintf(`{"job.id": "j1", "job.tasks": [
 {"container.type": "map", "container.start.ms": 0, "container.end.ms": 60000},
 {"container.type": "reduce", %s}]}`, reduce)
		trace, err := workload.ReadSLS("s.json", strings.NewReader(text), workload.TraceOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return trace
	}
	for _, c := range []struct {
		name      string
		trace     *workload.Trace
		slowStart float64
		want      float64 // seconds from the submission to the end
	}{
		// It starts with the maps: 60 s of maps and its 90 s after them.
		{"rumen, early", rumen(5, ""), 0, 150},
		{"rumen, early, when the shuffle ended is known", rumen(5, `"shuffleFinished": 80000,`), 0, 150},
		// It also takes its 90 s if it starts after the maps now.
		{"rumen, early, now late", rumen(5, ""), 1, 150},
		// It started after the maps, so 40 of its 90 s were the shuffle. If it starts
		// after the maps again, it takes 90 s; else the shuffle overlaps with them.
		{"rumen, late", rumen(60, `"shuffleFinished": 100000,`), 1, 150},
		{"rumen, late, now early", rumen(60, `"shuffleFinished": 100000,`), 0, 110},
		// Without that field the shuffle is a third: 30 s.
		{"rumen, late, shuffle unknown, now early", rumen(60, `"shuffleFinished": -1,`), 0, 120},
		{"sls, early", sls(`"container.start.ms": 5000, "container.end.ms": 150000`), 0, 150},
		{"sls, late", sls(`"container.start.ms": 60000, "container.end.ms": 150000`), 1, 150},
		{"sls, late, now early", sls(`"container.start.ms": 60000, "container.end.ms": 150000`), 0, 120},
		{"sls, a duration, early", sls(`"duration.ms": 90000`), 0, 120},
	} {
		jobs := c.trace.List
		jobs[0].SlowStart = job.StartAfter(c.slowStart)
		r := run(t, Config{Cluster: uniformCluster(2, 2, 1), Jobs: jobs})
		if got := (r.Jobs[0].Ended - r.Jobs[0].Submitted).Seconds(); math.Abs(got-c.want) > 0.2 {
			t.Errorf("%s: %.2f s, want %.0f", c.name, got, c.want)
		}
	}
}

// A reduce that waits for maps does not load its machine. It does while its timer runs,
// and no longer once it has ended.
func TestWaitingReducesAreNoLoad(t *testing.T) {
	s, err := prepare(Config{Policy: policy(t, "fifo"), Cluster: uniformCluster(1, 1, 2), Trace: eachBeat,
		Jobs: []workload.Job{{Maps: tasks(1, workload.Task{Duration: 30 * time.Second}),
			Reduces: tasks(2, workload.Task{Duration: 20 * time.Second, Fetch: -1}), Request: job.Request{SlowStart: -1}}}})
	if err != nil {
		t.Fatal(err)
	}
	s.start()
	for _, c := range []struct{ at, runnable float64 }{{20, 1}, {40, 2}, {49, 2}} {
		for s.now.Seconds() < c.at && s.once() {
		}
		if n := s.nodes[0].load.runnable; n != c.runnable {
			t.Errorf("at %v s: %v runnable processes, want %v", c.at, n, c.runnable)
		}
	}
	for s.open > 0 && s.once() {
	}
	if n := s.nodes[0].load.runnable; n != 0 {
		t.Errorf("%v runnable processes are left", n)
	}
}

// Without a number of cores a machine has one for each of its slots.
func TestCoresFollowSlots(t *testing.T) {
	for _, c := range []struct {
		spec          string
		machine, node float64
	}{
		{"nodes=2,maps=4,reduces=2", 6, 6},
		{"nodes=2,maps=4,reduces=2,cores=3", 3, 3},
		{"nodes=2,maps=4,reduces=2,together=true", 12, 6},
		{"nodes=2,maps=4,reduces=2,together=true,cores=3", 3, 1},
	} {
		on, err := workload.ParseCluster(c.spec)
		if err != nil {
			t.Fatal(err)
		}
		s, err := prepare(Config{Policy: policy(t, "fifo"), Cluster: on, Jobs: []workload.Job{plain(1, time.Second, 0, 0)}})
		if err != nil {
			t.Fatal(err)
		}
		if m, n := s.nodes[0].cores, s.nodes[1].spec.Cores; m != c.machine || float64(n) != c.node {
			t.Errorf("%s: %v cores a machine, %d a node; want %v and %v", c.spec, m, n, c.machine, c.node)
		}
	}
}

// A copy of a task of given duration takes as long as one of the task's siblings, so the
// copy of a straggler wins: nine maps take 10 s and one 1000 s.
func TestCopiesDrawFromSiblings(t *testing.T) {
	j := plain(10, 10*time.Second, 0, 0)
	j.Maps[9].Duration = 1000 * time.Second
	late := 0
	for seed := range uint64(10) {
		r := run(t, Config{Cluster: uniformCluster(5, 2, 0), Jobs: []workload.Job{j}, Seed: seed})
		if r.Jobs[0].Ended > 500*time.Second {
			late++ // the copy drew its own task's time
		}
		if r.Tracker.Launches < 11 {
			t.Errorf("seed %d: no copy was made", seed)
		}
	}
	// One of ten siblings is slow.
	if late > 4 {
		t.Errorf("%d of 10 runs waited for the straggler", late)
	}
}
