package hadoop

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// defaults returns the parts with the parameters that a user gets who sets none.
func defaults(t *testing.T) map[string]func() part {
	read := func(make func(*sched.Kit) (sched.Speculate, error)) func() part {
		return func() part {
			s, err := make(sched.NewKit(sched.Options{}))
			if err != nil {
				t.Fatal(err)
			}
			return s.(part)
		}
	}
	return map[string]func() part{"gap": read(ReadGap), "late": read(ReadLate)}
}

// play lets the first map of a job stop at a progress, after seconds of work at its
// siblings' speed, while its siblings succeed. Its node becomes silent, or reports that
// it is alive, or reports nothing new about it. play plays a heartbeat of each node every
// second and returns when the stopped map would be copied on the idle node.
func play(t *testing.T, p part, maps int, siblings time.Duration, stopped float64, how stop) time.Duration {
	w := newCopyWorld(p, maps)
	idle := int32(maps)
	for now := time.Second; now < 10*time.Minute; now += time.Second {
		w.Now = now
		share := min(1, now.Seconds()/siblings.Seconds())
		for i, a := range w.runs {
			switch {
			case a.State() != job.AttemptRunning:
			case i == 0 && how == alive:
				w.Jobs.Report(a, min(share, stopped), uint64(now), now)
			case i == 0 && how == stuck:
				w.Jobs.Report(a, min(share, stopped), 0, now)
			case i > 0 && share == 1:
				w.end(a, true, now)
			case i > 0:
				w.Jobs.Report(a, share, 0, now)
			}
		}
		for i, n := range w.Nodes.List().All() {
			if i > 0 || how != silent {
				w.Heartbeat(n)
			}
		}
		if got := w.copied(idle, now); got != nil {
			if got.ID().Index != 0 {
				t.Fatalf("%v is copied at %v, which is as fast as its siblings", got.ID(), now)
			}
			return now
		}
	}
	return never
}

const never = time.Hour

// stop is the way in which a simulated task stops making progress.
type stop string

const (
	stuck  stop = "stuck"
	alive  stop = "alive"
	silent stop = "silent"
)

// A map that stops is copied soon if its siblings are short, however far it was, with
// siblings and without, and also if its whole node has stopped.
func TestStoppedTaskIsCopied(t *testing.T) {
	for name, fresh := range defaults(t) {
		for _, maps := range []int{1, 2, 3, 12} {
			for _, at := range []float64{0, 0.3, 0.75, 0.85, 0.99} {
				for _, how := range []stop{stuck, silent} {
					t.Run(fmt.Sprint(name, maps, at, how), func(t *testing.T) {
						if got := play(t, fresh(), maps, 3*time.Second, at, how); got > 15*time.Second {
							t.Errorf("copied after %v", got)
						}
					})
				}
			}
		}
	}
}

// Long tasks are left alone for as long as in Hadoop at most, and for much longer than
// their siblings' mean if that is less.
func TestPatienceGrowsWithTheSiblings(t *testing.T) {
	for name, fresh := range defaults(t) {
		for siblings, want := range map[time.Duration]time.Duration{
			20 * time.Second: 30 * time.Second, 40 * time.Second: time.Minute,
		} {
			if got := play(t, fresh(), 4, siblings, 0.3, alive); got != want {
				t.Errorf("%s: siblings of %v: copied after %v, want %v", name, siblings, got, want)
			}
		}
	}
}

// With the timing of Hadoop nothing is copied in the first minute, and what stops when it is
// almost done never is.
func TestHadoopTiming(t *testing.T) {
	hadoop := Timing{Lag: time.Minute}
	g := func() part { return NewGap(GapConfig{Timing: hadoop, Behind: 0.2}) }
	if got := play(t, g(), 4, 3*time.Second, 0.3, stuck); got != time.Minute {
		t.Errorf("copied after %v, Hadoop waits for a minute", got)
	}
	if got := play(t, g(), 4, 3*time.Second, 0.9, stuck); got != never {
		t.Errorf("copied after %v, though only 0.1 behind", got)
	}
	if got := play(t, g(), 1, 3*time.Second, 0.3, stuck); got != never {
		t.Errorf("copied after %v without siblings", got)
	}
}

// A map that is slow but alive is copied if it has siblings that have finished.
func TestLateCopiesTheLastStraggler(t *testing.T) {
	for _, maps := range []int{2, 3, 10} {
		w := newCopyWorld(NewLate(LateConfig{Timing: Timing{Lag: Auto}, SlowTask: 1, SlowNode: 1, Cap: 0.1}), maps)
		for _, a := range w.runs[1:] {
			w.end(a, true, 4*time.Second)
		}
		w.report(5*time.Second, 0.1)
		if got := w.copied(int32(maps), 5*time.Second); got != nil {
			t.Errorf("%d maps: copied before 1.5 times the siblings' time", maps)
		}
		w.report(6*time.Second, 0.12)
		if got := w.copied(int32(maps), 6*time.Second); got != w.runs[0].Task() {
			t.Errorf("%d maps: copied %v", maps, got)
		}
	}
}

// A task a little slower than its siblings is not slow, though it is outside of their
// standard deviation, which is 0.
func TestLateFloor(t *testing.T) {
	w := newCopyWorld(late(), 5)
	now := 100 * time.Second
	w.report(now, 0.5, 0.5, 0.5, 0.5, 0.41)
	if w.part.MayCopy(nil) {
		t.Error("a rate of 0.82 of the mean is slow")
	}
	w.report(now+time.Second, 0.5, 0.5, 0.5, 0.5, 0.39)
	if !w.part.MayCopy(nil) {
		t.Error("a rate of 0.78 of the mean is not slow")
	}
}

// With two nodes neither is slow, whatever the rounding.
func TestTwoNodesAreNotSlow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var n nodeTimes
		n.add(0, rapid.Float64Range(0.01, 1e4).Draw(t, "first"))
		n.add(1, rapid.Float64Range(0.01, 1e4).Draw(t, "second"))
		if n.slow(0, 1, false) || n.slow(1, 1, false) {
			t.Fatal("one is slow")
		}
	})
}

// A reduce without progress is stalled only once its last map has succeeded, and if
// another policy takes over, it knows the times of the finished tasks.
func TestReduceThatWaitsIsNotStalled(t *testing.T) {
	for name, fresh := range defaults(t) {
		p := fresh()
		w := newCopyWorld(p, 2)
		w.j = w.Submit(job.Spec{Splits: make([]job.Split, 2), Reduces: 1, Request: job.Request{TaskTimeout: -1}})
		maps := []*job.Attempt{w.start(w.j.Fresh(job.Map), 0, 0), w.start(w.j.Fresh(job.Map), 1, 0)}
		r := w.start(w.j.Fresh(job.Reduce), 0, 0)
		w.end(maps[0], true, 20*time.Second)
		w.report(40 * time.Second)
		if w.part.(interface{ MayCopy(*sched.Round) bool }).MayCopy(nil) && w.copiedKind(job.Reduce, 2) != nil {
			t.Errorf("%s: a reduce is copied that waits for a map", name)
		}
		w.end(maps[1], true, 41*time.Second)
		w.report(50 * time.Second)
		if got := w.copiedKind(job.Reduce, 2); got != nil {
			t.Errorf("%s: a reduce is copied 9 s after its last map", name)
		}
		w.report(51 * time.Second)
		if got := w.copiedKind(job.Reduce, 2); got != r.Task() {
			t.Errorf("%s: 10 s after its last map the reduce is not copied: %v", name, got)
		}
	}
}

// copiedKind returns the task of a kind that is copied on a node now.
func (w *copyWorld) copiedKind(k job.Kind, node int32) *job.Task {
	r := w.Round(w.Nodes.List().Node(node), [job.Kinds]int{1, 1})
	return w.part.Copy(r, sched.Offer{Kind: k, Slot: k}, sched.Candidate{Job: w.j, Kind: k})
}

// Tasks that all show no sign of life take long for a record, and none is copied until a
// sibling shows that it takes less.
func TestSilentJobIsNotStalled(t *testing.T) {
	for name, fresh := range defaults(t) {
		w := newCopyWorld(fresh(), 3)
		w.report(30 * time.Second)
		if w.part.MayCopy(nil) {
			t.Errorf("%s: one of equally silent tasks is stalled", name)
		}
		w.report(31*time.Second, 0.1)
		w.report(32*time.Second, 0.1)
		if got := w.copied(3, 32*time.Second); got != w.runs[1].Task() {
			t.Errorf("%s: copied %v after a sibling's sign of life", name, got)
		}
	}
}

// A part that takes over a running job knows the times of its finished tasks.
func TestPartLearnsFromThePast(t *testing.T) {
	for name, fresh := range defaults(t) {
		w := newCopyWorld(fresh(), 3)
		w.end(w.runs[1], true, 4*time.Second)
		w.end(w.runs[2], true, 4*time.Second)
		w.part = fresh()
		w.part.(sched.Starter).Start(w.View, w.Now)
		w.part.JobAdded(w.j)
		w.Now = 7 * time.Second
		w.Jobs.Report(w.runs[0], 0.1, 0, w.Now)
		n := w.Nodes.List().Node(0)
		w.Nodes.Seen(n, n.Load(), w.Now)
		w.part.Heartbeat(n, w.Now)
		if got := w.copied(3, w.Now); got == nil {
			t.Errorf("%s: no copy after more than 1.5 times the time of the tasks that ended before", name)
		}
	}
}
