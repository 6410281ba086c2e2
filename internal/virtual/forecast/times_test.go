package forecast

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// TestOverlap measures the part of reduces that overlaps with the maps, of which one half of each job's reduces
// waited for the last map and the other half started after it.
func TestOverlap(t *testing.T) {
	jobs := func(n int, share float64) (list []donor) {
		for range n {
			var times Times
			for i := range 8 {
				full, after := 8+float64(i/2), 0.
				if i%2 == 0 { // it started 60 s before the last map's end
					after = full * (1 - share)
					full = 60 + after
				} else {
					after = full + 5
				}
				times.Seconds[job.Reduce], times.AfterMaps = append(times.Seconds[job.Reduce], full), append(times.AfterMaps, after)
			}
			list = append(list, donor{times: &times})
		}
		return list
	}
	for _, share := range []float64{0, 1. / 3, 0.6} {
		if got := float64(overlapOf(jobs(40, share))); math.Abs(got-share) > 0.03 {
			t.Errorf("overlap %.2f, want %.2f", got, share)
		}
	}
	if got := overlapOf(nil); math.Abs(float64(got-hadoopShare)) > 1e-9 {
		t.Errorf("without jobs: %v", got)
	}
	// Reduces that did not wait, and those that waited, have the same time after all maps.
	times := jobs(1, 0)[0].times
	if got := times.full(job.Reduce, 0); !slices.Equal(got, []float64{8, 8, 9, 9, 10, 10, 11, 11}) {
		t.Errorf("times after all maps: %v", got)
	}
}

// TestProjectReduce predicts the time of reduces from their progress, once when it counts their work alone, as on a
// cluster, and once when fetching is its first third.
func TestProjectReduce(t *testing.T) {
	at := func(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
	for _, c := range []struct {
		name                         string
		started, mapsDone, told      float64
		progress, share, part, takes float64
		workAlone                    bool
	}{
		{"sleeps, waited", 0, 50, 54, 0.5, 0, 0.5, 8, true},
		{"sleeps, started later", 50, 40, 54, 0.5, 0, 0.5, 8, true},
		{"fetched before the maps' end", 0, 50, 54, 0.5, 1. / 3, 0.5, 12, true},
		{"has fetched since its start", 50, 40, 58, 0.5, 1. / 3, 0.5, 12, true},
		{"simulated", 50, 40, 58, 2. / 3, 1. / 3, 0.5, 12, false},
		{"still fetches", 50, 40, 52, 0.2, 1. / 3, 0, 0, false},
		{"told before the maps' end", 0, 50, 50, 0.5, 0, 0, 0, true},
	} {
		a, j := &Attempt{Started: at(c.started), Progress: c.progress, ProgressAt: at(c.told)}, &LiveJob{MapsDoneAt: at(c.mapsDone)}
		if part, takes := projectReduce(a, j, overlap(c.share), c.workAlone); math.Abs(part-c.part) > 1e-9 || math.Abs(takes-c.takes) > 1e-9 {
			t.Errorf("%s: %.2f done, %.2f s; want %.2f, %.2f s", c.name, part, takes, c.part, c.takes)
		}
	}
}

// TestTrust weighs the progress of attempts against the times of other tasks.
func TestTrust(t *testing.T) {
	weight := func(doubt float64, idle time.Duration, p float64) float64 {
		a := &Attempt{ID: job.AttemptID{TaskID: job.TaskID{Job: 1}}, ProgressAt: 10 * time.Second}
		m := &model{within: [job.Kinds]float64{0.3, 0.3}, jobs: map[job.ID]*[job.Kinds]source{1: {{spread: doubt}}}}
		w := &future{run: &Run{cfg: Config{Heartbeat: time.Second}, state: &State{At: 10*time.Second + idle}, model: m}}
		return w.trust(a, p)
	}
	half := weight(0.1, time.Second, 0.5)
	if later := weight(0.1, time.Second, 0.9); half < 0.8 || later <= half {
		t.Errorf("weight %.2f at half, %.2f later", half, later)
	}
	if unknown := weight(1, time.Second, 0.5); unknown <= half {
		t.Errorf("weight %.2f where little is known about the job, %.2f else", unknown, half)
	}
	if steps := weight(0.1, time.Minute, 0.5); steps > 0.05 {
		t.Errorf("weight %.2f of progress that has stood still for six times its age", steps)
	}
}

// TestTimesWhileAMapRunsAgain reads the reduces of a job in two portions. During the first one a lost map runs again.
// Each time keeps its own place among the times after the maps.
func TestTimesWhileAMapRunsAgain(t *testing.T) {
	b := job.NewBook(cluster.NewBook(), 0)
	j := b.Add(job.Spec{Splits: make([]job.Split, 1), Reduces: 2}, 0)
	run := func(k job.Kind, index int32, from, to time.Duration) *job.Task {
		task := j.Task(k, index)
		b.Succeed(b.Start(task, job.Launch{Slot: k}, from), 0, to)
		return task
	}
	lost := run(job.Map, 0, 0, 10*time.Second)
	first := run(job.Reduce, 0, 10*time.Second, 12*time.Second)
	b.LoseOutput(lost, false, "", 4, 13*time.Second)
	r := &reading{kind: job.Reduce, every: [job.Kinds]int{1, 1}}
	r.addTime(j, first)
	run(job.Map, 0, 13*time.Second, 20*time.Second)
	r.addTime(j, run(job.Reduce, 1, 10*time.Second, 26*time.Second))
	if got := r.times.full(job.Reduce, 0); !slices.Equal(got, []float64{2, 6}) {
		t.Errorf("times %v after the maps %v, want 2 and 6 s", got, r.times.AfterMaps)
	}
}

// The times that are kept of a job with more than 64 done tasks are of all its waves, and not of the first ones.
func TestSamplesOfAllWaves(t *testing.T) {
	f := newFixture(t, 1, 1, 1)
	f.submit("job", 200, 0)
	for i := range 120 {
		took := time.Second
		if i >= 60 {
			took = 3 * time.Second
		}
		f.finish(job.Map, took)
	}
	var c Copier
	for !c.Copy(f.tr, 1000) {
	}
	v := c.State().Jobs[0].Times.Seconds[job.Map]
	long := 0
	for _, x := range v {
		if x > 2 {
			long++
		}
	}
	if len(v) > maxSamples || 2*long != len(v) {
		t.Errorf("%d of %d times are of the second half of the tasks", long, len(v))
	}
}
