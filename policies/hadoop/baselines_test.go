package hadoop

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/tracker/trackertest"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// part is a speculate part with the hooks that the tests call.
type part interface {
	sched.Speculate
	sched.Sparse
	sched.JobWatcher
	sched.TaskWatcher
	sched.Observer
}

// copyWorld is a cluster of nodes that run a map each and of an idle one.
type copyWorld struct {
	*trackertest.Manual
	part part
	j    *job.Job
	runs []*job.Attempt
}

func newCopyWorld(p part, maps int) *copyWorld {
	w := &copyWorld{Manual: trackertest.NewManual(p), part: p}
	w.j = w.Submit(job.Spec{Splits: make([]job.Split, maps), Request: job.Request{TaskTimeout: -1}})
	for i := range maps {
		w.Join(cluster.Spec{Name: fmt.Sprint("n", i), MapSlots: 1})
		w.start(w.j.Fresh(job.Map), int32(i), 0)
	}
	w.Join(cluster.Spec{Name: "idle", MapSlots: 1})
	return w
}

func (w *copyWorld) start(t *job.Task, node int32, now time.Duration) *job.Attempt {
	w.Now = now
	a := w.Launch(w.Nodes.List().Node(node), sched.Assignment{Task: t, Speculative: t.Running() > 0})
	w.runs = append(w.runs, a)
	return a
}

func (w *copyWorld) end(a *job.Attempt, succeed bool, now time.Duration) {
	w.Now = now
	w.End(a, succeed)
}

// report sets the progress of all attempts and plays a heartbeat of each node.
func (w *copyWorld) report(now time.Duration, progress ...float64) {
	w.Now = now
	for i, p := range progress {
		w.Jobs.Report(w.runs[i], p, 0, now)
	}
	for _, n := range w.Nodes.List().All() {
		w.Heartbeat(n)
	}
}

// copied returns the task that is copied on a node, if any.
func (w *copyWorld) copied(node int32, now time.Duration) *job.Task {
	w.Now = now
	r := w.Round(w.Nodes.List().Node(node), [job.Kinds]int{1, 0})
	if !w.part.MayCopy(r) {
		return nil
	}
	return w.part.Copy(r, sched.Offer{}, sched.Candidate{Job: w.j})
}

// Hadoop 1.2.1 counts the lag from the job's submission: a minute after it, a task that
// has just begun is copied, because its progress is behind.
func TestGapSinceJob(t *testing.T) {
	for _, since := range []bool{false, true} {
		w := newCopyWorld(NewGap(GapConfig{Timing: Timing{Lag: time.Minute, LagSinceJob: since}, Behind: 0.2}), 2)
		w.end(w.runs[0], true, 50*time.Second)
		w.end(w.runs[1], false, 50*time.Second)
		again := w.start(w.j.Task(job.Map, 1), 0, 58*time.Second)
		w.runs = []*job.Attempt{again}
		for _, now := range []time.Duration{59 * time.Second, 61 * time.Second} {
			var want *job.Task
			if since && now > time.Minute {
				want = again.Task()
			}
			w.report(now, 0.05)
			if got := w.copied(2, now); got != want {
				t.Errorf("from the job %v, at %v: copied %v, want %v", since, now, got, want)
			}
		}
	}
}

func TestGap(t *testing.T) {
	w := newCopyWorld(NewGap(GapConfig{Timing: Timing{Lag: time.Minute}, Behind: 0.2}), 4)
	idle := int32(4)
	w.report(59*time.Second, 0.9, 0.9, 0.6, 0.1)
	if got := w.copied(idle, 59*time.Second); got != nil {
		t.Errorf("before a minute is over: %v", got.ID())
	}
	now := 61 * time.Second
	w.report(now, 0.9, 0.9, 0.5, 0.1) // mean 0.6: only the last is behind by 0.2
	if got := w.copied(idle, now); got == nil || got.ID().Index != 3 {
		t.Fatalf("got %v", got)
	}
	if got := w.copied(3, now); got != nil {
		t.Errorf("on the node where it runs: %v", got.ID())
	}
	again := w.start(w.j.Task(job.Map, 3), idle, now)
	if w.part.MayCopy(nil) {
		t.Error("more copies of what has one")
	}
	w.end(again, false, now)
	w.report(now+time.Second, 0.9, 0.9, 0.2, 0.1)
	if got := w.copied(idle, now+time.Second); got == nil || got.ID().Index != 3 {
		t.Errorf("the one furthest behind goes first: %v", got)
	}
	w.end(w.runs[3], false, now)
	w.end(w.runs[2], true, now)
	if w.part.MayCopy(nil) {
		t.Error("copies of what has ended")
	}
}

// The mean progress includes finished tasks and pending ones.
func TestGapMean(t *testing.T) {
	w := newCopyWorld(NewGap(GapConfig{Behind: 0.2}), 4)
	w.end(w.runs[0], true, time.Second)
	w.end(w.runs[1], true, time.Second)
	w.report(2*time.Second, 1, 1, 0.5, 0.5)
	if got := w.copied(4, 2*time.Second); got == nil || got.ID().Index != 2 {
		t.Errorf("mean 0.75, two tasks at 0.5: %v", got)
	}
	w = newCopyWorld(NewGap(GapConfig{Behind: 0.2}), 4)
	w.end(w.runs[0], false, time.Second)
	w.report(2*time.Second, 0, 0.5, 0.5, 0.3)
	if got := w.copied(4, 2*time.Second); got != nil {
		t.Errorf("mean 0.325 with the waiting task: %v", got.ID())
	}
}

func late() *Late {
	return NewLate(LateConfig{Timing: Timing{Lag: time.Minute}, SlowTask: 1, SlowNode: 1, Cap: 0.1})
}

func TestLate(t *testing.T) {
	w := newCopyWorld(late(), 6)
	now := 100 * time.Second
	// Rates per 100 s: mean 0.467, deviation 0.21. The last two are slow; the
	// one at 0.2 has less to do but (1-p)/r says that 0.1 ends last.
	w.report(now, 0.6, 0.6, 0.6, 0.6, 0.2, 0.1)
	if got := w.copied(6, now); got == nil || got.ID().Index != 5 {
		t.Fatalf("got %v", got)
	}
	w.start(w.j.Task(job.Map, 5), 6, now)
	w.report(now+time.Second, 0.6, 0.6, 0.6, 0.6, 0.2, 0.1)
	if got := w.copied(5, now+time.Second); got == nil || got.ID().Index != 4 {
		t.Errorf("next: %v", got)
	}
}

// Equal tasks are never slow, and neither is a lone one.
func TestLateNeedsSpread(t *testing.T) {
	for _, maps := range []int{1, 5} {
		w := newCopyWorld(late(), maps)
		w.report(100*time.Second, make([]float64, maps)...)
		if w.part.MayCopy(nil) {
			t.Errorf("%d equal tasks: copies", maps)
		}
	}
}

func TestLateAvoidsSlowNodes(t *testing.T) {
	l := late()
	w := newCopyWorld(l, 6)
	// Node 6 took 90 s where others took 10 s.
	for node, seconds := range map[int32]float64{0: 10, 1: 10, 2: 10, 6: 90} {
		l.nodes[w.j.Seat()][job.Map].add(node, seconds)
	}
	now := 100 * time.Second
	w.report(now, 0.6, 0.6, 0.6, 0.6, 0.6, 0.1)
	if got := w.copied(6, now); got != nil {
		t.Errorf("a copy on a slow node: %v", got.ID())
	}
	if got := w.copied(4, now); got == nil {
		t.Error("no copy on a node that is not known")
	}
}

// With 10 copies, 1 % of the slots and a tenth of the running tasks it stops.
func TestLateCap(t *testing.T) {
	l := late()
	w := newCopyWorld(l, 60)
	progress := make([]float64, 60)
	for i := range progress {
		progress[i] = 0.9
		if i < 15 {
			progress[i] = 0.1
		}
	}
	now := 100 * time.Second
	w.report(now, progress...)
	for i := range 11 {
		got := w.copied(60, now)
		if i == 10 {
			if got != nil {
				t.Errorf("copy %d of 60 running tasks", i+1)
			}
			break
		}
		if got == nil {
			t.Fatalf("no copy %d", i+1)
		}
		w.start(got, 60, now)
	}
	l.cfg.Cap = 1
	if w.copied(60, now) == nil {
		t.Error("no copy though all may have one")
	}
}

// spread kept by adding and taking out equals the definition.
func TestSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s spread
		all := rapid.SliceOf(rapid.Float64Range(0, 100)).Draw(t, "values")
		for _, x := range all {
			s.add(x)
			s.change(1, x/2)
			s.change(-1, x/2)
		}
		mean, variance := 0.0, 0.0
		for _, x := range all {
			mean += x / float64(len(all))
		}
		for _, x := range all {
			variance += (x - mean) * (x - mean) / float64(len(all))
		}
		if math.Abs(s.mean()-mean) > 1e-6 || math.Abs(s.std()-math.Sqrt(variance)) > 1e-3 {
			t.Fatalf("mean %v deviation %v, want %v %v", s.mean(), s.std(), mean, math.Sqrt(variance))
		}
	})
}
