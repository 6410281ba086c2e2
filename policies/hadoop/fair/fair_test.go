package fair

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/tracker/trackertest"
	"github.com/slotwise/slotwise/policies/hadoop"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// fixture is a cluster of one node under a fair order.
type fixture struct {
	*trackertest.Manual
	fair *Order
	node *cluster.Node
}

func newWorld(cfg Config, mapSlots, reduceSlots int) *fixture {
	if cfg.UpdateInterval == 0 {
		cfg.UpdateInterval = 500 * time.Millisecond
	}
	w := &fixture{fair: New(cfg)}
	w.Manual = trackertest.NewManual(w.fair)
	w.node = w.Join(cluster.Spec{Name: "n", MapSlots: mapSlots, ReduceSlots: reduceSlots})
	return w
}

// start launches a task, which reports some progress, as every task that may be
// preempted has.
func (w *fixture) start(j *job.Job, k job.Kind) *job.Attempt {
	a := w.Run(w.node, j, k)
	w.Jobs.Report(a, 0.1, 0, w.Now)
	return a
}

// served returns the jobs in the order in which a kind's slots are offered.
func (w *fixture) served(k job.Kind) []job.ID {
	return w.Served(&sched.Round{View: w.View}, sched.Offer{Kind: k, Slot: k})
}

// naive sorts all pools and jobs from scratch by the rules as written.
func (w *fixture) naive(k job.Kind) (ids []job.ID) {
	a := &w.fair.cfg.Pools
	type entry struct {
		j            *job.Job
		needy        int
		ratio, inner float64
	}
	running, ready := map[string]int{}, map[string]bool{}
	users, pools, list := map[string]int{}, map[string]int{}, []entry(nil)
	jobs := slices.Clone(w.Jobs.List().Live())
	slices.SortFunc(jobs, hadoop.Urgency)
	for _, j := range jobs {
		running[j.Pool()] += j.Running(k)
		if users[j.User()] >= a.userJobs(j.User()) || pools[j.Pool()] >= a.Pool(j.Pool()).MaxJobs {
			continue
		}
		users[j.User()]++
		pools[j.Pool()]++
		if j.Launchable(k) {
			list = append(list, entry{j: j})
			ready[j.Pool()] = true
		}
	}
	list = slices.DeleteFunc(list, func(e entry) bool { return running[e.j.Pool()] >= a.Pool(e.j.Pool()).Max[k] })
	for i, e := range list {
		p := a.Pool(e.j.Pool())
		list[i].needy, list[i].ratio = 1, float64(running[e.j.Pool()])/p.Weight
		if least := min(p.Min[k], p.Max[k]); running[e.j.Pool()] < least {
			list[i].needy, list[i].ratio = 0, float64(running[e.j.Pool()])/float64(least)
		}
		if !p.FIFO {
			list[i].inner = float64(e.j.Running(k)) / priorityFactor(e.j.Priority())
		} else {
			list[i].inner = -float64(e.j.Priority())
		}
	}
	slices.SortFunc(list, func(x, y entry) int {
		if x.j.Pool() != y.j.Pool() {
			return cmpOr(float64(x.needy-y.needy), x.ratio-y.ratio, float64(strings.Compare(x.j.Pool(), y.j.Pool())))
		}
		return cmpOr(x.inner-y.inner, float64(x.j.Submitted()-y.j.Submitted()), float64(x.j.ID()-y.j.ID()))
	})
	for _, e := range list {
		ids = append(ids, e.j.ID())
	}
	return ids
}

func cmpOr(xs ...float64) int {
	for _, x := range xs {
		if x != 0 {
			return int(math.Copysign(1, x))
		}
	}
	return 0
}

const somePools = "pool p1 minMaps=2 maxMaps=4 minReduces=1; pool p2 weight=3 maxRunningJobs=2; " +
	"pool p3 schedulingMode=fifo weight=0.5; user u1 maxRunningJobs=3"

// The rankings kept task by task equal sorting everything afresh.
func TestFairAgainstSort(t *testing.T) {
	alloc, err := ParseAllocations(somePools)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(Config{Pools: alloc}, 10, 5)
		for range 60 {
			w.act(t)
			for k := range job.Kind(job.Kinds) {
				if got, want := w.served(k), w.naive(k); !slices.Equal(got, want) {
					t.Fatalf("%vs: got %v, want %v", k, got, want)
				}
			}
		}
	})
}

// TestSizeWeights: two jobs of 24 and 8 maps share 8 slots equally, by the logarithm of their
// unfinished tasks, or in proportion to these. The weights follow the tasks at each update.
func TestSizeWeights(t *testing.T) {
	for _, c := range []struct {
		rule SizeWeight
		want [2]int // slots of the jobs
	}{
		{EqualWeight, [2]int{4, 4}},
		{LogWeight, [2]int{5, 3}},  // log2(25) = 4.6 to log2(9) = 3.2
		{TaskWeight, [2]int{6, 2}}, // 24 to 8
	} {
		none, err := ParseAllocations("")
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(Config{Pools: none, SizeWeight: c.rule}, 8, 1)
		jobs := [2]*job.Job{w.Submit(job.Spec{Splits: make([]job.Split, 24)}), w.Submit(job.Spec{Splits: make([]job.Split, 8)})}
		fill := func() (got [2]int) {
			w.fair.Update(w.Now)
			for range 8 - len(w.Running()) {
				id := w.served(job.Map)[0]
				w.start(jobs[slices.IndexFunc(jobs[:], func(j *job.Job) bool { return j.ID() == id })], job.Map)
			}
			for i, j := range jobs {
				got[i] = j.Running(job.Map)
			}
			return got
		}
		if got := fill(); got != c.want {
			t.Errorf("rule %d: %v slots, want %v", c.rule, got, c.want)
		}
		if c.rule != TaskWeight {
			continue
		}
		for range 2 { // the small job has 6, then 4 unfinished tasks
			for _, a := range slices.Clone(w.Running()) {
				if a.Job() == jobs[1] {
					w.End(a, true)
				}
			}
			fill()
		}
		if got := [2]int{jobs[0].Running(job.Map), jobs[1].Running(job.Map)}; got != [2]int{7, 1} {
			t.Errorf("%v slots for 24 and 4 unfinished tasks, want 7 and 1", got)
		}
	}
}

// act draws and takes one action.
func (w *fixture) act(t *rapid.T) {
	w.Now += time.Duration(rapid.IntRange(0, 2).Draw(t, "ms")) * time.Millisecond
	live := w.Jobs.List().Live()
	what := rapid.IntRange(0, 9).Draw(t, "what")
	if what < 2 || len(live) == 0 {
		w.Submit(job.Spec{Request: job.Request{Pool: rapid.SampledFrom([]string{"p1", "p2", "p3", "p4"}).Draw(t, "pool"), User: rapid.SampledFrom([]string{"u1", "u2"}).Draw(t, "user"), SlowStart: 0.5, Priority: job.Priority(rapid.IntRange(-2, 2).Draw(t, "priority"))},
			Splits: make([]job.Split, rapid.IntRange(1, 4).Draw(t, "maps")), Reduces: 2})
		return
	}
	j := rapid.SampledFrom(live).Draw(t, "job")
	k := job.Kind(rapid.IntRange(0, 1).Draw(t, "kind"))
	switch {
	case what < 6 && j.Launchable(k):
		w.start(j, k)
	case what < 8 && len(w.Running()) > 0:
		w.End(rapid.SampledFrom(w.Running()).Draw(t, "attempt"), rapid.Bool().Draw(t, "succeed"))
	case what == 8:
		w.SetPriority(j, job.Priority(rapid.IntRange(-2, 2).Draw(t, "priority")))
	case rapid.IntRange(0, 2).Draw(t, "kill") == 0:
		w.Kill(j)
	default:
		w.fair.Update(w.Now)
	}
}

// Shares are max-min fair: no claim gets more than it demands, all demanded
// slots are given, and a claim that gets less than it demands has no smaller
// share per weight than any claim above its minimum.
func TestShareOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var claims []*claim
		least, wanted := 0, 0
		for range rapid.IntRange(1, 8).Draw(t, "claims") {
			c := &claim{weight: rapid.SampledFrom([]float64{0.25, 1, 3}).Draw(t, "weight"),
				min: rapid.IntRange(0, 5).Draw(t, "min"), demand: rapid.IntRange(0, 20).Draw(t, "demand")}
			claims = append(claims, c)
			least += min(c.min, c.demand)
			wanted += c.demand
		}
		slots := float64(rapid.IntRange(0, 60).Draw(t, "slots"))
		computeShares(claims, slots)
		sum := 0.0
		for _, c := range claims {
			sum += c.share
			if c.share > float64(c.demand) || c.share < float64(min(c.min, c.demand)) {
				t.Fatalf("share %v outside %+v", c.share, c)
			}
			for _, o := range claims {
				if c.share < float64(c.demand)-1e-3 && o.share > float64(o.min)+1e-3 && o.share/o.weight > c.share/c.weight+1e-3 {
					t.Fatalf("%+v has less for its weight than %+v", c, o)
				}
			}
		}
		if want := math.Max(float64(least), math.Min(slots, float64(wanted))); math.Abs(sum-want) > 1e-3 {
			t.Fatalf("shares add up to %v, want %v", sum, want)
		}
	})
}

// Twelve slots, two pools: one takes all before the other comes, which may then
// claim its minimum after 3 s, and half of everything after 4 s.
func TestFairPreemption(t *testing.T) {
	for _, c := range []struct {
		name, pools string
		at          time.Duration
		victims     int
	}{
		{"minimum", "pool b minMaps=4 minSharePreemptionTimeout=3", 3500 * time.Millisecond, 4},
		{"fair share", "fairSharePreemptionTimeout=4", 4500 * time.Millisecond, 6},
		{"neither", "pool b minMaps=4", time.Hour, 0},
	} {
		alloc, err := ParseAllocations(c.pools)
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(Config{Pools: alloc, Preempt: true, PreemptInterval: time.Second}, 12, 0)
		a := w.Submit(job.Spec{Request: job.Request{Pool: "a"}, Splits: make([]job.Split, 40)})
		var started []*job.Attempt
		for range 12 {
			w.Now += time.Millisecond
			started = append(started, w.start(a, job.Map))
		}
		w.Submit(job.Spec{Request: job.Request{Pool: "b"}, Splits: make([]job.Split, 40)})
		w.Now = 0
		var victims []sched.Victim
		for len(victims) == 0 && w.Now < 10*time.Second {
			w.Now += 500 * time.Millisecond
			w.fair.Update(w.Now)
			victims = w.fair.Preempt(w.Now)
		}
		if len(victims) != c.victims || c.victims > 0 && w.Now > c.at+time.Second {
			t.Errorf("%s: %d victims at %v, want %d at %v", c.name, len(victims), w.Now, c.victims, c.at)
			continue
		}
		for i, v := range victims {
			if v.Attempt != started[len(started)-1-i] {
				t.Errorf("%s: victim %d is %v, not the newest left", c.name, i, v.Attempt.ID())
			}
			if want := fmt.Sprintf(`pool "b", which lacked %d map slots for longer than its time-out`, c.victims); v.For != want {
				t.Errorf("%s: victim %d is for %s, want %s", c.name, i, v.For, want)
			}
		}
		if again := w.fair.Preempt(w.Now); len(again) > 0 {
			t.Errorf("%s: %d victims named twice", c.name, len(again))
		}
	}
}

// A task that no node has reported is not killed.
func TestFairSparesUnreported(t *testing.T) {
	alloc, _ := ParseAllocations("fairSharePreemptionTimeout=0")
	w := newWorld(Config{Pools: alloc, Preempt: true, PreemptInterval: time.Second}, 4, 0)
	a := w.Submit(job.Spec{Request: job.Request{Pool: "a"}, Splits: make([]job.Split, 8)})
	reported := []*job.Attempt{w.start(a, job.Map), w.start(a, job.Map), w.start(a, job.Map)}
	w.Run(w.node, a, job.Map) // has not reported yet
	w.Submit(job.Spec{Request: job.Request{Pool: "b"}, Splits: make([]job.Split, 4)})
	w.fair.Update(10 * time.Second)
	v := w.fair.Preempt(0)
	if len(v) != 2 || v[0].Attempt != reported[2] || v[1].Attempt != reported[1] {
		t.Errorf("%d victims", len(v))
	}
}

// The words for the pools that reclaim slots, as many as they may be.
func TestReclaimed(t *testing.T) {
	var pools []*pool
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		pools = append(pools, &pool{name: name})
	}
	for n, want := range map[int]string{
		1: `pool "a", which lacked 1 reduce slot for longer than its time-out`,
		2: `pools "a" and "b", which lacked 2 reduce slots for longer than their time-outs`,
		3: `pools "a", "b" and "c", which lacked 3 reduce slots for longer than their time-outs`,
		5: `pools "a", "b", "c" and 2 more, which lacked 5 reduce slots for longer than their time-outs`,
	} {
		if got := reclaimed(pools[:n], job.Reduce, n); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// Hadoop 1.2.1 advances its starvation clocks only with preemption, so without
// it every pool would seem to starve. Here no pool does.
func TestNoStarvationWithoutPreemption(t *testing.T) {
	alloc, _ := ParseAllocations("pool a minMaps=2 minSharePreemptionTimeout=1; fairSharePreemptionTimeout=1")
	for _, on := range []bool{false, true} {
		w := newWorld(Config{Pools: alloc, Preempt: on, PreemptInterval: time.Hour}, 4, 0)
		j := w.Submit(job.Spec{Request: job.Request{Pool: "a"}, Splits: make([]job.Split, 4)})
		w.fair.Update(0)
		w.fair.Update(2 * time.Second)
		if got := w.fair.Starving(j, 2*time.Second); got != on {
			t.Errorf("preemption %v: starving %v", on, got)
		}
		w.start(j, job.Map)
		w.start(j, job.Map)
		w.fair.Update(3 * time.Second)
		if w.fair.Starving(j, 3*time.Second) {
			t.Errorf("preemption %v: starves with all that it is due", on)
		}
	}
}

func TestFairReasons(t *testing.T) {
	alloc, _ := ParseAllocations("pool p maxMaps=1; pool q maxRunningJobs=1; user bob maxRunningJobs=1")
	w := newWorld(Config{Pools: alloc}, 4, 0)
	spec := func(pool, user string) job.Spec {
		return job.Spec{Request: job.Request{Pool: pool, User: user}, Splits: make([]job.Split, 2)}
	}
	full := w.Submit(spec("p", "ann"))
	w.start(full, job.Map)
	w.Submit(spec("q", "ann"))
	second := w.Submit(spec("q", "ann"))
	w.Submit(spec("r", "bob"))
	other := w.Submit(spec("s", "bob"))
	for _, c := range []struct {
		j    *job.Job
		want sched.Reason
	}{
		{full, sched.Reason{Code: sched.PoolFull, Pool: "p", Have: 1, Need: 1}},
		{second, sched.Reason{Code: sched.JobsFull, Pool: "pool q", Have: 1, Need: 1}},
		{other, sched.Reason{Code: sched.JobsFull, Pool: "user bob", Have: 1, Need: 1}},
	} {
		if got := w.fair.LimitReached(c.j, job.Map); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.j.ID(), got, c.want)
		}
	}
	if text := w.fair.Explain(full, job.Map, 0); text != "" {
		t.Errorf("said more than the limit: %s", text)
	}
	free := w.Submit(spec("t", "cid"))
	if text := w.fair.Explain(free, job.Map, 0); text != `pool "t" runs 0 of its fair share of 1.0 maps` {
		t.Error(text)
	}
}

// New limits apply at once. Reconfigure leaves values of other types to other
// parts.
func TestFairReconfigure(t *testing.T) {
	w := newWorld(Config{Pools: NewAllocations()}, 4, 0)
	a := w.Submit(job.Spec{Request: job.Request{Pool: "a"}, Splits: make([]job.Split, 4)})
	w.Submit(job.Spec{Request: job.Request{Pool: "b"}, Splits: make([]job.Split, 4)})
	w.start(a, job.Map)
	if got := w.served(job.Map); !slices.Equal(got, []job.ID{2, 1}) {
		t.Errorf("before: %v", got)
	}
	alloc, _ := ParseAllocations("pool a minMaps=3; pool b maxMaps=0; pool c")
	if ok, err := w.fair.Reconfigure(alloc); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if got := w.served(job.Map); !slices.Equal(got, []job.ID{1}) {
		t.Errorf("after: %v", got)
	}
	if ok, _ := w.fair.Reconfigure("something else"); ok {
		t.Error("took over a string")
	}
}

// Pools of users who have left do not pile up.
func TestFairForgetsPools(t *testing.T) {
	alloc, _ := ParseAllocations("pool named")
	w := newWorld(Config{Pools: alloc}, 4, 0)
	for _, pool := range []string{"passing", "named", DefaultPool} {
		w.Kill(w.Submit(job.Spec{Request: job.Request{Pool: pool}, Splits: make([]job.Split, 1)}))
	}
	a, b := w.Submit(job.Spec{Request: job.Request{Pool: "x"}, Splits: make([]job.Split, 1)}), w.Submit(job.Spec{Request: job.Request{Pool: "x"}, Splits: make([]job.Split, 1)})
	w.Kill(a)
	expect := func(when string, want ...string) {
		t.Helper()
		var names []string
		for _, s := range w.fair.Shares() {
			if s.Job == nil && s.Kind == job.Map {
				names = append(names, s.Pool)
			}
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s: pools %v, want %v", when, names, want)
		}
	}
	expect("one job is left", DefaultPool, "named", "x")
	// A pool that has gone from the file ends with its last job, or at once.
	alloc, _ = ParseAllocations("pool other")
	if _, err := w.fair.Reconfigure(alloc); err != nil {
		t.Fatal(err)
	}
	expect("another file", DefaultPool, "other", "x")
	w.Kill(b)
	expect("without jobs", DefaultPool, "other")
}

func TestParseAllocations(t *testing.T) {
	for text, want := range map[string]string{
		"pool":                       "a name must follow",
		"pool minMaps=1":             "a name must follow",
		"pool p minMaps":             "want name=value",
		"pool p minMaps=-1":          "minMaps",
		"pool p weight=0":            "above 0",
		"pool p weight=NaN":          "above 0",
		"pool p colour=red":          `unknown setting "colour"`,
		"user u minMaps=1":           "unknown setting",
		"user u maxRunningJobs=x":    "whole number",
		"pool p schedulingMode=lifo": "neither fair nor fifo",
		"userMaxJobsDefault=x":       "userMaxJobsDefault",
		"fairSharePreemptionTimeout=x; pool p minMaps=y": "minMaps",
	} {
		if _, err := ParseAllocations(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	a, err := ParseAllocations("pool p; poolMaxJobsDefault=3; fairSharePreemptionTimeout=99999999999999")
	if err != nil || a.Pool("p").MaxJobs != 3 || a.FairTimeout != Never {
		t.Errorf("got %+v, %v", a, err)
	}
}
