package modfair

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// naive yields jobs as Figures 8 and 9 say, sorting everything afresh. It takes
// from the order only which pool each job is in, its priority and the quotas.
func naive(o *Order, k job.Kind) (ids []job.ID) {
	type count struct{ pending, running int }
	sum := map[*pool]count{}
	byPool := map[*pool][]*member{}
	for _, m := range o.members {
		c := sum[m.at]
		sum[m.at] = count{c.pending + m.job.Pending(k), c.running + m.job.Running(k)}
		if m.job.Launchable(k) {
			byPool[m.at] = append(byPool[m.at], m)
		}
	}
	visit := func(p *pool, order func(a, b *member) int) {
		slices.SortFunc(byPool[p], order)
		for _, m := range byPool[p] {
			ids = append(ids, m.job.ID())
		}
	}
	bySubmission := func(a, b *member) int {
		return cmp.Or(cmp.Compare(a.job.Submitted(), b.job.Submitted()), cmp.Compare(a.job.ID(), b.job.ID()))
	}
	byNeed := func(a, b *member) int {
		return cmp.Or(-cmp.Compare(a.priority, b.priority), -cmp.Compare(a.job.Pending(k), b.job.Pending(k)),
			cmp.Compare(a.job.Running(k), b.job.Running(k)), bySubmission(a, b))
	}
	if o.enabled && sum[o.shared].running < o.sharedQuota(k) {
		visit(o.shared, bySubmission)
	}
	pools := slices.DeleteFunc(slices.Clone(o.pools), func(p *pool) bool { return len(byPool[p]) == 0 })
	slices.SortFunc(pools, func(a, b *pool) int {
		rank := func(p *pool) (int, float64) {
			minimum := p.limits.Min
			if k == job.Reduce {
				minimum = 0
			}
			eff := min(minimum, sum[p].pending)
			if sum[p].running > eff {
				return 1, float64(sum[p].running) / p.limits.Weight
			}
			return 0, float64(sum[p].running) / math.Max(float64(eff), 1)
		}
		ga, ra := rank(a)
		gb, rb := rank(b)
		return cmp.Or(cmp.Compare(ga, gb), cmp.Compare(ra, rb), strings.Compare(a.name, b.name))
	})
	seen := map[*pool]bool{}
	for pass := 1; pass <= 2; pass++ {
		for _, p := range pools {
			run, full := sum[p].running, k == job.Map && p.limits.Max > 0 && sum[p].running >= p.limits.Max
			if seen[p] || full && (pass == 1 || o.cfg.MaxHard) || pass == 1 && o.cfg.Allocate && run >= p.side[k].quota {
				continue
			}
			seen[p] = true
			visit(p, byNeed)
		}
	}
	return ids
}

// Under any events, including lost output, which no hook reports, the incremental
// order equals sorting everything from scratch.
func TestAgainstNaive(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := paper()
		cfg.Default.Max = rapid.IntRange(0, 4).Draw(rt, "max")
		cfg.Default.Min = rapid.IntRange(0, 3).Draw(rt, "min")
		cfg.MaxHard = rapid.Bool().Draw(rt, "hard")
		cfg.Allocate = rapid.Bool().Draw(rt, "allocate")
		cfg.Classify = Classify(rapid.IntRange(0, 2).Draw(rt, "classify"))
		cfg.Pools = map[string]Limits{"b": {1, 5, 2}}
		w := newWorld(t, cfg).join(same(rapid.IntRange(1, 4).Draw(rt, "nodes"), rapid.IntRange(1, 3).Draw(rt, "slots"))...)
		for range 60 {
			w.act(rt)
			r := w.Rounds.Open(w.Now, w.Nodes.List().Node(0), [job.Kinds]int{})
			w.o.Begin(r)
			if got, want := w.o.count(), w.o.census(); got != want {
				rt.Fatalf("counted %+v, want %+v", got, want)
			}
			for k := range job.Kind(job.Kinds) {
				if got, want := w.servedKind(k, false), strings.Trim(fmt.Sprint(naive(w.o, k)), "[]"); got != want {
					rt.Fatalf("%v: got %s, want %s", k, got, want)
				} else if w.o.Holds(k) != (want == "") {
					rt.Fatalf("%v: holds is %v, served %q", k, w.o.Holds(k), want)
				}
			}
		}
	})
}

// act does something at random to the jobs of a fixture.
func (w *fixture) act(t *rapid.T) {
	w.Now += time.Duration(rapid.IntRange(0, 1).Draw(t, "passes"))
	live := w.Jobs.List().Live()
	what := rapid.IntRange(0, 9).Draw(t, "what")
	if what <= 1 || len(live) == 0 {
		w.Submit(job.Spec{Request: job.Request{Pool: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "pool"), SlowStart: 1, Priority: job.Priority(rapid.IntRange(-2, 2).Draw(t, "priority"))},
			Splits:  make([]job.Split, rapid.IntRange(0, 4).Draw(t, "maps")),
			Reduces: rapid.IntRange(1, 2).Draw(t, "reduces")})
		return
	}
	j := rapid.SampledFrom(live).Draw(t, "job")
	k := job.Kind(rapid.IntRange(0, 1).Draw(t, "kind"))
	running, fresh := j.Oldest(k), j.Fresh(k)
	switch {
	case what == 2:
		w.Kill(j)
	case what == 3:
		w.Jobs.SetPriority(j, job.Priority(rapid.IntRange(-2, 2).Draw(t, "priority")))
		w.o.JobChanged(j, sched.PriorityChanged)
	case what == 4:
		w.update()
	case what == 5 && j.Total(job.Map) > 0 && j.Task(job.Map, 0).Success() != nil:
		w.Jobs.LoseOutput(j.Task(job.Map, 0), false, "", 0, w.Now) // no hook but for the demand
		w.o.JobChanged(j, sched.ReduceDemandChanged)
	case what == 6 && running != nil && j.Unfinished(k) > 1:
		w.Jobs.Succeed(running, 0, w.Now)
		w.o.TaskEnded(running, w.Now)
		w.o.JobChanged(j, sched.ReduceDemandChanged)
	case what == 7 && running != nil:
		w.Jobs.Drop(running, job.AttemptKilled, "", w.Now)
		w.o.TaskEnded(running, w.Now)
	case fresh != nil && j.Open(k):
		w.launch(fresh, cluster.Level(rapid.IntRange(1, 4).Draw(t, "level")))
	}
}

// Output that is lost is noticed by the next round although the job could launch
// something before as well.
func TestLostOutputIsNoticed(t *testing.T) {
	cfg := paper()
	cfg.Classify = ClassifyOff
	w := newWorld(t, cfg).join(4)
	a, b := w.add("P", 3, 1), w.add("P", 2, 1)
	run := w.Jobs.Start(a.Fresh(job.Map), job.Launch{Level: cluster.NONE}, 0)
	w.o.TaskStarted(run, 0)
	w.Jobs.Succeed(run, 0, 0)
	w.o.TaskEnded(run, 0)
	w.start(b, 1)
	w.Jobs.LoseOutput(a.Task(job.Map, 0), false, "", 0, 0)
	w.o.Begin(w.Rounds.Open(0, w.Nodes.List().Node(0), [job.Kinds]int{}))
	expect(t, "pending", w.o.byName["P"].side[job.Map].pending, 4)
}

// Copies come after all fresh work, within the limits of the pools.
func TestCopiesComeLast(t *testing.T) {
	cfg := paper()
	cfg.Default.Max, cfg.Classify = 2, ClassifyOff
	w := newWorld(t, cfg).join(cluster8(4)...)
	w.start(w.add("P1", 1, 0), 1)
	w.add("P2", 1, 0)
	expect(t, "none wanted", w.served(), "j2")
	expect(t, "wanted", w.servedKind(job.Map, true), "j2 j1")
	w.start(w.add("P1", 1, 0), 1)
	expect(t, "pool full", w.servedKind(job.Map, true), "j2")

	w = newWorld(t, paper()).join(same(5, 1)...)
	w.start(w.add("P1", 1, 0), 1)
	w.add("P2", 9, 0)
	expect(t, "shared pool full", w.servedKind(job.Map, true), "j2")
}

func TestOffersForOnePoolAndEitherKind(t *testing.T) {
	cfg := paper()
	cfg.Classify = ClassifyOff
	w := newWorld(t, cfg).join(4)
	w.Submit(job.Spec{Request: job.Request{Pool: "x", SlowStart: -1}, Splits: make([]job.Split, 1), Reduces: 1})
	w.Submit(job.Spec{Request: job.Request{Pool: "y", SlowStart: -1}, Splits: make([]job.Split, 1), Reduces: 1})
	r := w.Rounds.Open(0, w.Nodes.List().Node(0), [job.Kinds]int{1, 1})
	for _, c := range []struct {
		of   sched.Offer
		stop int
		want int
	}{{sched.Offer{}, 0, 2}, {sched.Offer{}, 1, 1}, {sched.Offer{Pool: "y"}, 0, 1}, {sched.Offer{Either: true}, 0, 4},
		{sched.Offer{Either: true}, 2, 2}, {sched.Offer{Either: true}, 3, 3}} {
		n := 0
		w.o.Each(r, c.of, func(sched.Candidate) bool { n++; return n != c.stop })
		expect(t, fmt.Sprintf("%+v", c), n, c.want)
	}
}

// In the shared pool priorities do not count, unless shared-order=fig8.
func TestSharedOrder(t *testing.T) {
	for _, c := range []struct {
		sorted bool
		want   string
	}{{false, "j1 j2 j3 j4 j5"}, {true, "j2 j1 j3 j4 j5"}} {
		cfg := paper()
		cfg.SharedSorted = c.sorted
		w := newWorld(t, cfg).join(cluster8(2)...)
		w.add("P1", 2, 0)
		w.Submit(job.Spec{Request: job.Request{Pool: "P2", Priority: job.High}, Splits: make([]job.Split, 2)})
		for range 3 {
			w.add("P3", 9, 0)
		}
		expect(t, fmt.Sprint(c), w.served(), c.want)
	}
}

// Explanations for a pool that may launch.
func TestStanding(t *testing.T) {
	cfg := paper()
	cfg.Default.Max = 0
	w := newWorld(t, cfg).join(cluster8(2)...)
	a, b := w.add("P1", 20, 0), w.add("P2", 20, 0)
	w.update()
	expect(t, "below", w.o.Explain(a, job.Map, 0), `pool "P1" runs 0 of the 8 maps that it is entitled to`)
	w.start(b, 9)
	expect(t, "above", w.o.Explain(b, job.Map, 0),
		`pool "P2" runs 9 maps, no fewer than the 8 that it is entitled to, so that pools short of theirs come first`)
	cfg.Allocate = false
	w = newWorld(t, cfg).join(cluster8(2)...)
	expect(t, "no entitlements", w.o.Explain(w.add("P1", 20, 0), job.Map, 0), "")
}

// A user's word replaces what locality has made of a priority.
func TestPrioritySetByUser(t *testing.T) {
	w := newWorld(t, paper()).join(4)
	j := w.add("P", 4, 0)
	w.launch(j.Task(job.Map, 0), rk)
	w.launch(j.Task(job.Map, 1), nd)
	expect(t, "moved", w.o.bySeat[j.Seat()].priority, job.High)
	w.Jobs.SetPriority(j, job.Low)
	w.o.JobChanged(j, sched.PriorityChanged)
	expect(t, "set", w.o.bySeat[j.Seat()].priority, job.Low)
}

// Copies and maps whose data is nowhere say nothing of a job's locality.
func TestPriorityOfWhatHasNoPlace(t *testing.T) {
	cfg := paper()
	w := newWorld(t, cfg).join(4)
	j := w.add("P", 4, 0)
	w.launch(j.Task(job.Map, 0), nd)
	w.launch(j.Task(job.Map, 1), cluster.NONE)
	w.o.TaskStarted(w.Jobs.Start(j.Task(job.Map, 0), job.Launch{Level: no, Speculative: true}, 0), 0)
	expect(t, "priority", w.o.bySeat[j.Seat()].priority, job.Normal)
	cfg.Table = TableOff
	w = newWorld(t, cfg).join(4)
	j = w.add("P", 4, 0)
	w.launch(j.Task(job.Map, 0), nd)
	w.launch(j.Task(job.Map, 1), no)
	expect(t, "switched off", w.o.bySeat[j.Seat()].priority, job.Normal)
}

// Hadoop's order of jobs: running by weight, which doubles with each priority.
func TestFairJobOrder(t *testing.T) {
	cfg := paper()
	cfg.Classify, cfg.Sorted, cfg.Default.Max = ClassifyOff, false, 0
	w := newWorld(t, cfg).join(cluster8(4)...)
	for _, c := range []struct {
		p   job.Priority
		run int
	}{{job.Normal, 2}, {job.High, 3}, {job.Low, 1}, {job.Normal, 1}} {
		w.start(w.Submit(job.Spec{Request: job.Request{Pool: "P", Priority: c.p}, Splits: make([]job.Split, 9)}), c.run)
	}
	expect(t, "1/1, 3/2, 2/1 = 1/½", w.served(), "j4 j2 j1 j3")
}

// Pools come and go with their jobs, and nothing is left of a seat's last job.
func TestPoolsComeAndGo(t *testing.T) {
	w := newWorld(t, paper()).join(cluster8(2)...)
	a := w.add("P1", 2, 0)
	w.start(a, 1)
	w.add("P2", 9, 0)
	w.Kill(a)
	expect(t, "pools", len(w.o.pools), 1)
	expect(t, "pending", w.o.pending, w.View.Jobs().Tally().Pending)
	b := w.add("P1", 2, 0)
	expect(t, "seat", b.Seat(), a.Seat())
	expect(t, "running", w.o.bySeat[b.Seat()].have[job.Map].running, 0)
}

func TestReasons(t *testing.T) {
	cfg := paper()
	cfg.Default.Max = 2
	w := newWorld(t, cfg).join(cluster8(2)...)
	small, large := w.add("P1", 2, 0), w.add("P2", 9, 1)
	w.start(large, 2)
	w.o.update()
	for _, c := range []struct {
		what string
		j    *job.Job
		k    job.Kind
		held string
		more string
	}{
		{"free", small, job.Map, "nothing keeps it from running", "as one of the smallest jobs it is served ahead of the others"},
		{"full", large, job.Map, `pool "P2" runs 2 maps already and may run at most 2`, ``},
		{"reduces wait for maps", large, job.Reduce, "nothing keeps it from running", ""},
	} {
		expect(t, c.what, w.o.LimitReached(c.j, c.k).Words(c.k), c.held)
		expect(t, c.what, w.o.Explain(c.j, c.k, 0), c.more)
	}
	w.start(small, 1)
	expect(t, "grant in use", w.o.LimitReached(small, job.Map).Words(job.Map),
		`jobs of this size share 1 map slots (partition "shared"), and 1 are in use`)
	w.launch(large.Fresh(job.Map), rk)
	w.launch(large.Fresh(job.Map), nd)
	expect(t, "priority", w.o.Explain(large, job.Map, 0),
		"its priority NORMAL counts as HIGH now, because of how close its last maps ran to their data")
	w.Kill(large)
	expect(t, "ended", w.o.Explain(large, job.Map, 0), "")
}

func TestConfig(t *testing.T) {
	got, err := readConfig(kit(map[string]string{"pools": " ann:1/0/2.5; b:c:0/7/1;"}))
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "pools", got.Pools, map[string]Limits{"ann": {1, 0, 2.5}, "b:c": {0, 7, 1}})
	expect(t, "default", got.Default, Limits{3, AutoMax, 1})
	for name, values := range map[string][]string{
		"classify": {"never", ""}, "update-interval": {"0s", "x", "-1s"}, "shared-order": {"lifo"}, "allocate": {"yes"},
		"remaining-slots": {"all"}, "min-allocated": {"-1", "x"}, "max-allocated": {"-1"}, "max-mode": {"soft"}, "sort": {"none"},
		"tie": {"coin"}, "priority-table": {"paper"},
		"pools": {"ann", "ann:1/2", ":1/2/3", "ann:1/2/0", "ann:1/2/NaN", "ann:-1/2/1", "a:1/2/1;a:1/2/1", "a:1/x/1", "a:0/0/+Inf"},
	} {
		for _, v := range values {
			if _, err := Read(kit(map[string]string{name: v})); err == nil || !strings.Contains(err.Error(), "parameter "+name) {
				t.Errorf("%s=%s: %v", name, v, err)
			}
		}
	}
	if o, err := Read(kit(nil)); err != nil || o.(*Order).Interval() != 500*time.Millisecond {
		t.Errorf("defaults: %v", err)
	}
}

// The default limit follows the cluster: 6 of 16 map slots, as in the paper, 900 of
// 2,400, and never less than 6.
func TestAutoMax(t *testing.T) {
	for slots, want := range map[int]int{4: 6, 16: 6, 17: 7, 32: 12, 2400: 900} {
		cfg := paper()
		cfg.Default.Max = AutoMax
		w := newWorld(t, cfg).join(slots)
		if got := w.o.autoMax(); got != want {
			t.Errorf("%d map slots: %d, want %d", slots, got, want)
		}
	}
}
