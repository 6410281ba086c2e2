package tumm

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/policies/hadoop"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// desk plays jobs to a monitor without a tracker.
type desk struct {
	*job.Book
	m    *monitor
	fifo *sched.SortedOrder
}

func newDesk(cfg Config, perNode bool) *desk {
	d := &desk{job.NewBook(cluster.NewBook(), 0), newMonitor(&cfg, perNode), hadoop.NewFIFO()}
	d.m.order = d.fifo
	return d
}

func (d *desk) add(maps, reduces int) *job.Job {
	j := d.Add(job.Spec{Splits: make([]job.Split, maps), Reduces: reduces, Request: job.Request{SlowStart: -1}}, 0)
	d.m.added(j)
	d.fifo.JobAdded(j)
	return j
}

func (d *desk) start(j *job.Job, k job.Kind, node int32, at time.Duration) *job.Attempt {
	a := d.Start(j.Fresh(k), job.Launch{Node: node, Slot: k}, at)
	d.m.sync(j)
	d.fifo.JobChanged(j, sched.MapDemandChanged)
	return a
}

func (d *desk) end(a *job.Attempt, at time.Duration) {
	d.Succeed(a, 0, at)
	d.m.ended(a)
	d.fifo.JobChanged(a.Job(), sched.MapDemandChanged)
}

// run launches tasks at a time and ends each after its seconds.
func (d *desk) run(j *job.Job, k job.Kind, from time.Duration, seconds ...float64) {
	for _, s := range seconds {
		d.end(d.start(j, k, 0, from), from+time.Duration(s*1e9))
	}
}

// time returns the estimate for a task of a job, which need not be in the phase.
func (d *desk) time(j *job.Job, k job.Kind) float64 {
	return d.m.timeOf(j, k)
}

func (d *desk) work() [job.Kinds]float64 {
	d.m.lookAhead(&sched.Round{})
	return d.m.work()
}

// Means 18, 19, 21 and the work that is left by them.
func TestTuMM_E2_1(t *testing.T) {
	d := newDesk(Config{Remaining: Unfinished}, false)
	j := d.add(10, 0)
	for i, s := range []float64{18, 20, 25} {
		d.run(j, job.Map, 0, s)
		if got, want := d.work(), []float64{162, 152, 147}[i]; math.Abs(got[job.Map]-want) > 1e-9 {
			t.Errorf("after %d maps: %v s of work, want %v", i+1, got[job.Map], want)
		}
	}
}

// Reduces that were launched early count only after the last map.
func TestTuMM_E2_2(t *testing.T) {
	d := newDesk(Config{Remaining: Unfinished, ReduceTime: FullTime}, false)
	j := d.add(2, 10)
	d.run(j, job.Map, 0, 10)
	early := d.start(j, job.Reduce, 0, 10*time.Second)
	d.start(j, job.Reduce, 0, 10*time.Second)
	d.start(j, job.Reduce, 0, 10*time.Second)
	if got := d.work(); got[job.Reduce] != 0 {
		t.Errorf("before the last map: %v s of reduces", got[job.Reduce])
	}
	d.run(j, job.Map, 10*time.Second, 10)
	d.end(early, 50*time.Second)
	if got := d.work(); got != [2]float64{0, 360} {
		t.Errorf("after a reduce of 40 s: %v, want 0 and 360", got)
	}
}

// Reading 10 in README.md: the time of the same reduce without its wait for the maps is 30 s.
func TestReduceTimeAfterMaps(t *testing.T) {
	d := newDesk(Config{Remaining: Unfinished, ReduceTime: AfterMaps}, false)
	j := d.add(1, 10)
	m := d.start(j, job.Map, 0, 0)
	early := d.start(j, job.Reduce, 0, 10*time.Second)
	d.end(m, 20*time.Second)
	d.end(early, 50*time.Second)
	if got := d.work(); got[job.Reduce] != 270 {
		t.Errorf("%v s of reduces, want 270", got[job.Reduce])
	}
}

// A map-only job never has work for reduces.
func TestTuMM_E2_3(t *testing.T) {
	d := newDesk(Config{Remaining: Unfinished}, false)
	j := d.add(3, 0)
	for range 3 {
		d.run(j, job.Map, 0, 10)
		if got := d.work(); got[job.Reduce] != 0 {
			t.Errorf("%v s of reduces", got[job.Reduce])
		}
	}
}

// A queued job counts for nothing until its turn, which comes when the
// last map of the job before is launched.
func TestTuMM_E2_4(t *testing.T) {
	d := newDesk(Config{Remaining: Unfinished}, false)
	j := d.add(2, 1)
	d.add(100, 1)
	if got := d.work(); got != [2]float64{2, 0} {
		t.Errorf("work %v, want 2 s of maps", got)
	}
	d.start(j, job.Map, 0, 0)
	if got := d.work(); got != [2]float64{2, 0} {
		t.Errorf("work %v, want 2 s of maps", got)
	}
	d.start(j, job.Map, 0, 0)
	if got := d.work(); got != [2]float64{102, 0} {
		t.Errorf("work %v, want 102 s of maps", got)
	}
}

// A queued job that a more urgent one overtakes counts no more.
func TestOvertakenHead(t *testing.T) {
	d := newDesk(Config{Remaining: Unfinished}, false)
	d.add(5, 0)
	if got := d.work(); got[job.Map] != 5 {
		t.Errorf("%v s of maps, want 5", got[job.Map])
	}
	urgent := d.add(7, 0)
	d.SetPriority(urgent, job.High)
	d.fifo.JobChanged(urgent, sched.PriorityChanged)
	if got := d.work(); got[job.Map] != 7 {
		t.Errorf("%v s of maps, want 7", got[job.Map])
	}
}

// Only a change of the sets counts: not a job that was in a phase for a moment.
func TestChanged(t *testing.T) {
	d := newDesk(Config{Remaining: Unfinished}, false)
	d.add(5, 0)
	other := d.add(5, 0)
	for i, want := range []bool{true, false, false, true} {
		switch i {
		case 2:
			a := d.start(other, job.Map, 0, 0)
			d.Drop(a, job.AttemptKilled, "", 0)
			d.m.ended(a)
		case 3:
			d.start(other, job.Map, 0, 0)
		}
		if d.work(); d.m.changed() != want {
			t.Errorf("look %d: changed is %v", i, !want)
		}
	}
}

// Reading 1 in README.md: with unassigned work running tasks do not count.
func TestRemainingUnassigned(t *testing.T) {
	d := newDesk(Config{Remaining: Unassigned}, false)
	j := d.add(5, 0)
	d.start(j, job.Map, 0, 0)
	d.start(j, job.Map, 0, 0)
	if got := d.work(); got[job.Map] != 3 {
		t.Errorf("%v s of maps, want 3", got[job.Map])
	}
}

// nodes is the number of nodes in TestMonitorAgainstRecount.
const nodes = 3

// timeOn is the mean of a job on a node: the work there of one task left.
func (d *desk) timeOn(j *job.Job, k job.Kind, node int32) float64 {
	one := &monitor{cfg: d.m.cfg, last: d.m.last, members: slices.Clone(d.m.members), local: d.m.local}
	for i := range one.members {
		one.members[i].in, one.members[i].part = [job.Kinds]bool{}, [job.Kinds]remaining{}
	}
	w := &one.members[j.Seat()]
	w.in[k], w.part[k] = true, d.m.remainingOf(j, k, 1)
	one.sum[k] = w.part[k]
	own, _ := one.workOn(node)
	return own[k]
}

// Reading 4 in README.md: what an unknown mean is taken to be, from the last resort up.
func TestUnknownMeans(t *testing.T) {
	d := newDesk(Config{Remaining: Unfinished}, true)
	a, b := d.add(9, 9), d.add(9, 9)
	expect := func(j *job.Job, k job.Kind, want float64) {
		t.Helper()
		if got := d.time(j, k); got != want {
			t.Errorf("%v %v: %v s, want %v", j.ID(), k, got, want)
		}
	}
	expect(a, job.Map, 1)
	d.run(a, job.Map, 0, 4, 6)
	expect(a, job.Map, 5)
	expect(b, job.Map, 5)    // another job's maps
	expect(a, job.Reduce, 5) // its own maps
	expect(b, job.Reduce, 5) // another job's maps
	d.run(b, job.Map, 0, 7)
	expect(a, job.Reduce, 5)
	expect(b, job.Reduce, 7)
	d.run(b, job.Reduce, 0, 2)
	expect(a, job.Reduce, 2)
	if got := d.timeOn(b, job.Map, 3); got != 7 {
		t.Errorf("on a node that ran nothing: %v s, want the cluster's 7", got)
	}
	d.end(d.start(b, job.Map, 3, 0), 11*time.Second)
	if got := d.timeOn(b, job.Map, 3); got != 11 || d.time(b, job.Map) != 9 {
		t.Errorf("on the node: %v s, want 11; in the cluster %v, want 9", got, d.time(b, job.Map))
	}
}

// Failed and killed attempts say nothing of times, and a task that took no time
// at all is still work.
func TestOnlySuccessesCount(t *testing.T) {
	d := newDesk(Config{Remaining: Unfinished}, false)
	j := d.add(5, 0)
	a := d.start(j, job.Map, 0, 0)
	d.Fail(a, job.Failure{Text: "broke"}, 0, 100*time.Second)
	d.m.ended(a)
	b := d.start(j, job.Map, 0, 0)
	d.Drop(b, job.AttemptKilled, "", 100*time.Second)
	d.m.ended(b)
	if got := d.time(j, job.Map); got != 1 {
		t.Errorf("mean %v s, want 1", got)
	}
	d.run(j, job.Map, 0, 0)
	if got := d.work(); !(got[job.Map] > 0) {
		t.Errorf("work %v", got)
	}
}

// A job that loses a map's output is in its map phase again.
func TestLostOutput(t *testing.T) {
	d := newDesk(Config{Remaining: Unfinished}, false)
	j := d.add(2, 3)
	d.run(j, job.Map, 0, 10, 10)
	if got := d.work(); got != [2]float64{0, 30} {
		t.Errorf("work %v, want 30 s of reduces", got)
	}
	d.LoseOutput(j.Task(job.Map, 0), false, "", 0, 10*time.Second)
	d.m.sync(j)
	d.fifo.JobChanged(j, sched.MapDemandChanged)
	if got := d.work(); got != [2]float64{10, 0} {
		t.Errorf("work %v, want 10 s of maps", got)
	}
}

// The monitor kept up to date task by task equals one that comes late and reads
// the jobs, and a sum over all jobs from scratch.
func TestMonitorAgainstRecount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{Remaining: rapid.SampledFrom([]string{Unfinished, Unassigned}).Draw(t, "remaining"), ReduceTime: FullTime}
		d := newDesk(cfg, true)
		var running []*job.Attempt
		for i := range 60 {
			now := time.Duration(i) * time.Second
			live := d.List().Live()
			what := rapid.IntRange(0, 5).Draw(t, "what")
			switch {
			case what == 0 || len(live) == 0:
				d.add(rapid.IntRange(0, 4).Draw(t, "maps"), rapid.IntRange(0, 3).Draw(t, "reduces"))
			case what <= 2:
				j, k := rapid.SampledFrom(live).Draw(t, "job"), rapid.SampledFrom([]job.Kind{job.Map, job.Reduce}).Draw(t, "kind")
				if j.Open(k) && j.Fresh(k) != nil {
					running = append(running, d.start(j, k, int32(rapid.IntRange(0, nodes-1).Draw(t, "node")), now))
				}
			case what <= 4 && len(running) > 0:
				at := rapid.IntRange(0, len(running)-1).Draw(t, "which")
				d.end(running[at], now)
				running = append(running[:at], running[at+1:]...)
			}
			recount(t, d)
		}
	})
}

func recount(t *rapid.T, d *desk) {
	got := d.work()
	late, head := newMonitor(d.m.cfg, true), false
	late.order, late.last = d.fifo, d.m.last
	var want [job.Kinds]float64
	var wantOn [nodes][job.Kinds]float64
	count := func(j *job.Job, k job.Kind) {
		want[k] += d.time(j, k) * float64(d.m.left(j, k))
		for n := range wantOn {
			wantOn[n][k] += d.timeOn(j, k, int32(n)) * float64(d.m.left(j, k))
		}
	}
	for _, j := range d.List().Live() {
		late.added(j)
		if j.Running(job.Map) > 0 || !head && j.Pending(job.Map) > 0 {
			count(j, job.Map)
		}
		head = head || j.Pending(job.Map) > 0
		if j.MapsDone() && j.Unfinished(job.Reduce) > 0 {
			count(j, job.Reduce)
		}
	}
	late.last = d.m.last
	late.lookAhead(&sched.Round{})
	for n := range wantOn {
		for k, x := range wantOn[n] {
			if own, _ := d.m.workOn(int32(n)); math.Abs(own[k]-x) > 1e-6 {
				t.Fatalf("work on node %d %v, recounted %v", n, own, wantOn[n])
			}
		}
	}
	for k, from := range late.work() {
		if math.Abs(got[k]-want[k]) > 1e-6 || math.Abs(from-got[k]) > 1e-6 {
			t.Fatalf("work %v, recounted %v, read late %v", got, want, late.work())
		}
	}
}
