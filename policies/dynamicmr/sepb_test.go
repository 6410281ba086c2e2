package dynamicmr_test

import (
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/tracker/trackertest"
	"github.com/slotwise/slotwise/policies/dynamicmr"
	"github.com/slotwise/slotwise/policies/hadoop"
	"github.com/slotwise/slotwise/policies/hadoop/fair"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// stragglers is a speculate part that copies the maps in slow.
type stragglers struct{ slow map[*job.Task]bool }

func (s *stragglers) Copy(r *sched.Round, _ sched.Offer, c sched.Candidate) *job.Task {
	for a := c.Job.Oldest(c.Kind); a != nil; a = a.Next() {
		if s.slow[a.Task()] && r.Copyable(a.Task(), r.Node()) {
			return a.Task()
		}
	}
	return nil
}

// scene is the state of the examples of Alg 3: 36 map slots with a single
// idle one, and jobs that run one map each, which may be a straggler.
type scene struct {
	*trackertest.Manual
	t    *testing.T
	base *stragglers
	sepb *dynamicmr.SEPB
	idle *cluster.Node
	busy *cluster.Node
}

func newScene(t *testing.T, o sched.Order, s sched.Slots, cfg dynamicmr.SEPBConfig) *scene {
	if cfg.Cap == 0 {
		cfg.Cap = fraction(t, "0.1") // of 36 slots: 3
	}
	x := &scene{t: t, base: &stragglers{map[*job.Task]bool{}}}
	x.sepb = dynamicmr.NewSEPB(x.base, cfg)
	x.Manual = trackertest.NewManual(s, o, hadoop.NewGreedy(false), x.sepb)
	x.Now = time.Second
	x.idle = x.Join(cluster.Spec{Name: "idle", MapSlots: 1})
	x.busy = x.Join(cluster.Spec{Name: "busy", MapSlots: 35})
	return x
}

// add submits a job with one running map and some pending ones.
func (x *scene) add(pool string, pending int, straggler bool) *job.Job {
	j := x.Submit(job.Spec{Request: job.Request{Pool: pool}, Splits: make([]job.Split, 1+pending)})
	x.start(sched.Assignment{Task: j.Task(job.Map, 0)}, x.busy)
	x.base.slow[j.Task(job.Map, 0)] = straggler
	return j
}

func (x *scene) start(as sched.Assignment, n *cluster.Node) { x.Launch(n, as) }

// copies runs n more tasks and a copy of each.
func (x *scene) copies(n int) {
	j := x.Submit(job.Spec{Request: job.Request{Pool: "z", Priority: job.VeryLow}, Splits: make([]job.Split, n)})
	for i := range n {
		x.start(sched.Assignment{Task: j.Task(job.Map, int32(i))}, x.busy)
		x.start(sched.Assignment{Task: j.Task(job.Map, int32(i)), Speculative: true}, x.busy)
	}
}

// next plays a heartbeat of the node with an idle slot.
func (x *scene) next() (sched.Assignment, bool) {
	x.Now = time.Minute
	return x.Policy.Next(x.Round(x.idle, [job.Kinds]int{1, 0}))
}

// want fails unless the idle slot goes to a task of the job, or to none.
func (x *scene) want(j *job.Job, copied bool) {
	x.t.Helper()
	switch a, ok := x.next(); {
	case ok != (j != nil):
		x.t.Errorf("assigned: %v", ok)
	case ok && (a.Task.Job() != j || a.Speculative != copied):
		x.t.Errorf("got %v, copy %v; want a task of %v, copy %v", a.Task.ID(), a.Speculative, j.ID(), copied)
	}
}

// ten is ten jobs in order with the pending maps given, the stragglers in the
// first.
func ten(t *testing.T, share string, pending map[int]int, straggler bool, copies int) (*scene, []*job.Job) {
	x := newScene(t, hadoop.NewFIFO(), &hadoop.Static{}, dynamicmr.SEPBConfig{Fraction: fraction(t, share)})
	var jobs []*job.Job
	for i := range 10 {
		jobs = append(jobs, x.add("x", pending[i+1], straggler && i == 0))
	}
	if copies > 0 {
		x.copies(copies)
	}
	return x, jobs
}

func TestDynamicMR_S1(t *testing.T) {
	x, jobs := ten(t, "0.5", map[int]int{3: 3}, true, 0)
	x.want(jobs[2], false)
}

func TestDynamicMR_S2(t *testing.T) {
	x, jobs := ten(t, "0.2", map[int]int{3: 3}, true, 0)
	x.want(jobs[0], true)
}

func TestDynamicMR_S3(t *testing.T) {
	x, jobs := ten(t, "0", map[int]int{1: 3, 3: 3}, true, 0)
	x.want(jobs[0], true)
}

func TestDynamicMR_S4(t *testing.T) {
	x, jobs := ten(t, "0.2", map[int]int{7: 2}, true, 3)
	x.want(jobs[6], false)
	x, _ = ten(t, "0.2", nil, true, 3)
	x.want(nil, false)
}

func TestDynamicMR_S5(t *testing.T) {
	x, jobs := ten(t, "1", nil, true, 2)
	x.want(jobs[0], true)
	x, _ = ten(t, "1", nil, true, 3)
	x.want(nil, false)
}

func TestDynamicMR_S6(t *testing.T) {
	for _, pool := range []bool{true, false} {
		cfg := dynamicmr.SEPBConfig{PoolLevel: pool, Fraction: dynamicmr.One, PoolFraction: dynamicmr.One}
		x := newScene(t, fair.New(fair.Config{Pools: fair.NewAllocations(), UpdateInterval: time.Second}), &hadoop.Static{}, cfg)
		a, b := x.add("a", 0, true), x.add("b", 20, false)
		if pool {
			x.want(a, true)
		} else {
			x.want(b, false)
		}
	}
}

func TestDynamicMR_S7(t *testing.T) {
	x, jobs := ten(t, "0.05", map[int]int{9: 1}, false, 0)
	x.want(jobs[8], false)
	x, jobs = ten(t, "0.05", map[int]int{2: 1}, true, 0) // K = max(1, ⌈0.5⌉) = 1: the second job is not checked
	x.want(jobs[0], true)
}

// PoolLevel with a fraction checks the first jobs of the pool only, and a scope
// of 0 is the speculator below.
func TestSEPBFractionOfAPool(t *testing.T) {
	for share, copied := range map[string]bool{"1": false, "0.5": true, "0": true} {
		cfg := dynamicmr.SEPBConfig{PoolLevel: true, PoolFraction: fraction(t, share)}
		x := newScene(t, hadoop.NewFIFO(), &hadoop.Static{}, cfg)
		first := x.add("a", 0, true)
		second := x.add("a", 5, false)
		if copied {
			x.want(first, true)
		} else {
			x.want(second, false)
		}
	}
}

// A slot that may be lent is kept from copies by waiting tasks of either kind.
type lending struct{ hadoop.Static }

func (*lending) Lends(slot job.Kind) bool { return slot == job.Map }

func TestSEPBCountsWhatTheSlotMayServe(t *testing.T) {
	for _, s := range []sched.Slots{&hadoop.Static{}, &lending{}} {
		x := newScene(t, hadoop.NewFIFO(), s, dynamicmr.SEPBConfig{Fraction: dynamicmr.One})
		a := x.add("x", 0, true)
		x.Submit(job.Spec{Reduces: 5, Request: job.Request{SlowStart: -1}})
		if _, lends := s.(*lending); lends {
			x.want(nil, false)
		} else {
			x.want(a, true)
		}
	}
}

// Pending tasks of jobs that their pool does not let run yet hold no copy back.
func TestSEPBPassesOverHeldJobs(t *testing.T) {
	pools, err := fair.ParseAllocations("pool a maxRunningJobs=1")
	if err != nil {
		t.Fatal(err)
	}
	x := newScene(t, fair.New(fair.Config{Pools: pools, UpdateInterval: time.Second}), &hadoop.Static{},
		dynamicmr.SEPBConfig{Fraction: dynamicmr.One})
	a := x.add("a", 0, true)
	x.Submit(job.Spec{Request: job.Request{Pool: "a"}, Splits: make([]job.Split, 3)})
	x.want(a, true)
}
