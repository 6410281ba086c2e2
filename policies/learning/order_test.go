package learning

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/tracker/trackertest"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// teacher is a slots part with a learner that looks at a job's CPU hint only
// and whose probabilities the test sets.
type teacher struct{ l *Learner }

func (x teacher) Learner() *Learner { return x.l }

// set makes P(good) of a hint (goods+1)/(goods+bads+2), if the test shows as
// many good examples as bad ones in all.
func (x teacher) set(rating, goods, bads int) {
	v := &Vector{}
	v.Bins[0] = uint16(rating - 1)
	for range goods {
		x.l.Model().Train(v, true)
	}
	for range bads {
		x.l.Model().Train(v, false)
	}
}

// office is a cluster of one node under a utility order, whose learner the test
// trains.
type office struct {
	*trackertest.Manual
	u    *Order
	node *cluster.Node
	x    teacher
}

// copier is a speculate part that may copy tasks of certain jobs.
type copier struct{ jobs []*job.Job }

func (x *copier) Copy(*sched.Round, sched.Offer, sched.Candidate) *job.Task { return nil }
func (x *copier) MayCopy(*sched.Round) bool                                 { return len(x.jobs) > 0 }
func (x *copier) MayCopyKind(k job.Kind) bool                               { return k == job.Map && len(x.jobs) > 0 }
func (x *copier) MayCopyJob(j *job.Job, k job.Kind) bool {
	return k == job.Map && slices.Contains(x.jobs, j)
}
func (x *copier) CopyJobs(k job.Kind) ([]*job.Job, bool) {
	if k == job.Reduce {
		return nil, true
	}
	return x.jobs, true
}

func newOffice(cfg OrderConfig, tweak func(*Config), parts ...any) *office {
	lc := DefaultConfig()
	lc.Space, lc.Patience = Space{JobCPU}, 0
	if tweak != nil {
		tweak(&lc)
	}
	o := &office{u: NewOrder(cfg, 1), x: teacher{New(lc)}}
	o.Manual = trackertest.NewManual(append(parts, o.u)...)
	o.u.Consult([]any{o.x, o.u})
	o.node = o.Join(cluster.Spec{Name: "n", MapSlots: 10, Cores: 1})
	o.Nodes.Seen(o.node, cluster.Load{LoadAverage: 0.5, MemoryFree: 1}, 0)
	o.x.l.Report(o.node, 0)
	return o
}

func (o *office) submit(at time.Duration, rating uint8, spec job.Spec) *job.Job {
	if spec.Splits == nil {
		spec.Splits = make([]job.Split, 1)
	}
	for k := range spec.Hints {
		spec.Hints[k].CPU = rating
	}
	o.Now = at
	return o.Submit(spec)
}

// served returns the jobs that a round's offer would go to, in order. No job
// takes the offer.
func (o *office) served(now time.Duration) (ids []job.ID) {
	o.Now = now
	return o.Served(o.Round(o.node, [job.Kinds]int{100, 100}), sched.Offer{Either: true})
}

func (o *office) reason(j *job.Job) sched.Reason {
	why, _ := o.Rounds.Ledger().Last(j, job.Map)
	return why
}

func fixed(factors ...string) OrderConfig {
	return OrderConfig{Factors: factors, Tie: TieOrdered, MapGate: 0.05}
}

func TestUtility_E5_ZeroAndFIFO(t *testing.T) {
	cfg := fixed(Budget, Revenue)
	cfg.Balances = Amounts{{"ann", 0}}
	cfg.Offers = Amounts{{"bob", 0.1}}
	o := newOffice(cfg, nil)
	o.x.set(1, 98, 0) // P = 0.99
	o.x.set(2, 5, 3)  // P = 0.6
	o.x.set(9, 0, 100)
	x, y := o.submit(0, 1, job.Spec{Request: job.Request{User: "ann"}}), o.submit(0, 2, job.Spec{Request: job.Request{User: "bob"}})
	if got := o.served(time.Second); !slices.Equal(got, []job.ID{y.ID()}) {
		t.Errorf("served %v", got)
	}
	if why := o.reason(x); why.Code != sched.NoValue || !strings.Contains(why.Words(job.Map), "spent the budget") {
		t.Errorf("the reason is %q", why.Words(job.Map))
	}
	cfg.Balances = append(cfg.Balances, Amounts{{"bob", 0}}...)
	if ok, err := o.u.Reconfigure(cfg); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if got := o.served(2 * time.Second); got != nil {
		t.Errorf("nothing is worth anything, and %v are served", got)
	}
	o.x.l.Report(o.node, 3*time.Second)
	if a := o.x.l.Accuracy(); a.Labelled() != 0 {
		t.Errorf("a decision was made: %+v", a)
	}

	o = newOffice(fixed(FIFO), nil)
	o.x.set(2, 5, 3) // P = 0.6
	o.x.set(3, 8, 0) // P = 0.9
	o.x.set(9, 0, 10)
	old, young := o.submit(0, 2, job.Spec{}), o.submit(50*time.Second, 3, job.Spec{})
	if got := o.served(120 * time.Second); !slices.Equal(got, []job.ID{old.ID(), young.ID()}) {
		t.Errorf("at 72 to 63 served %v", got)
	}
	if got := o.served(100 * time.Second); !slices.Equal(got, []job.ID{old.ID(), young.ID()}) {
		t.Errorf("at 60 to 45 served %v", got)
	}
	if got := o.served(50 * time.Second); !slices.Equal(got, []job.ID{old.ID()}) {
		t.Errorf("a job of no age is served: %v", got)
	}
}

func TestUtility_E7_Ties(t *testing.T) {
	cfg := fixed(Constant)
	o := newOffice(cfg, nil)
	a, b := o.submit(0, 1, job.Spec{Reduces: 1, Request: job.Request{SlowStart: -1}}), o.submit(0, 1, job.Spec{Reduces: 1, Request: job.Request{SlowStart: -1}})
	if got := o.served(0); !slices.Equal(got, []job.ID{a.ID(), a.ID(), b.ID(), b.ID()}) {
		t.Errorf("in order: %v", got)
	}
	cfg.Tie = TieRandom
	o = newOffice(cfg, nil)
	a, b = o.submit(0, 1, job.Spec{}), o.submit(0, 1, job.Spec{})
	firsts := map[job.ID]int{}
	for range 1000 {
		firsts[o.served(0)[0]]++
	}
	if n := firsts[a.ID()]; n < 450 || n > 550 || n+firsts[b.ID()] != 1000 {
		t.Errorf("first of a thousand: %v", firsts)
	}
}

// A question outside the tracker's rounds draws nothing, notes nothing and
// decides nothing.
func TestUtilityOnlyAsked(t *testing.T) {
	o := newOffice(OrderConfig{Factors: []string{Constant}, Tie: TieRandom}, nil)
	o.x.set(1, 0, 5)
	j := o.submit(0, 1, job.Spec{})
	o.u.Begin(o.Rounds.Open(0, o.node, [job.Kinds]int{1, 1}))
	desk := sched.NewRoundWriter(o.View)
	o.u.Each(desk.Open(0, o.node, [job.Kinds]int{}), sched.Offer{Either: true}, func(sched.Candidate) bool { return true })
	if why, _ := desk.Ledger().Last(j, job.Map); why.Code != 0 {
		t.Errorf("noted %+v", why)
	}
	o.x.l.Report(o.node, time.Second)
	if n := o.x.l.Log().Len(); n != 0 {
		t.Errorf("%d decisions", n)
	}
}

// If all candidates are bad, the learner records one decision, for the best of
// them, and each job gets a wait reason with the probability. With the hard
// gate there is only a reason.
func TestUtilityAllBad(t *testing.T) {
	o := newOffice(fixed(Constant), nil)
	o.x.set(1, 0, 8) // P = 0.1
	o.x.set(2, 3, 5) // P = 0.4
	o.x.set(9, 10, 0)
	a, b := o.submit(0, 1, job.Spec{}), o.submit(0, 2, job.Spec{})
	if got := o.served(0); got != nil {
		t.Errorf("served %v", got)
	}
	if p, q := o.reason(a), o.reason(b); p.Code != sched.Overload || p.P < 0.9-1e-9 || q.P > 0.6+1e-9 {
		t.Errorf("reasons %+v, %+v", p, q)
	}
	o.x.l.Report(o.node, time.Second)
	log := o.x.l.Log()
	if log.Len() != 1 || log.At(0).Job != b.ID() || log.At(0).Assigned || log.At(0).Values[JobCPU] != 2 {
		t.Errorf("%d decisions, %+v", log.Len(), log.At(0))
	}

	o = newOffice(fixed(Constant), func(c *Config) { c.HardGate, c.Rule.Target = true, 0.25 })
	a = o.submit(0, 1, job.Spec{})
	if got := o.served(0); got != nil || o.reason(a).Code != sched.Overload || o.reason(a).P != 1 {
		t.Errorf("served %v on an overloaded node, reason %+v", got, o.reason(a))
	}
	o.x.l.Report(o.node, time.Second)
	if o.x.l.Log().Len() != 0 {
		t.Error("a decision at the gate")
	}
	o = newOffice(fixed(Constant), func(c *Config) { c.IdleEscape = true })
	o.x.set(1, 0, 8)
	if a = o.submit(0, 1, job.Spec{}); !slices.Equal(o.served(0), []job.ID{a.ID()}) {
		t.Error("an idle node gets nothing")
	}
}

// Users choose the names of pools, so the order forgets a pool with its last job, and a job that moves
// takes its running tasks along.
func TestForgottenPools(t *testing.T) {
	o := newOffice(fixed(Dedicated), nil)
	stays := o.submit(0, 1, job.Spec{Request: job.Request{Pool: "stays"}})
	for i := range 100 {
		j := o.submit(0, 1, job.Spec{Request: job.Request{Pool: fmt.Sprint("once", i)}})
		o.Run(o.node, j, job.Map)
		from := o.u.entries[j.Seat()].pool
		o.Jobs.SetPool(j, fmt.Sprint("moved", i))
		o.u.JobChanged(j, sched.PoolChanged)
		if to := o.u.entries[j.Seat()].pool; from.running != 0 || to.running != 1 {
			t.Fatalf("the running task counts %d for the old pool, %d for the new one", from.running, to.running)
		}
		o.Kill(j)
	}
	if pools := o.u.worth.byName; len(pools) != 1 || pools["stays"] != o.u.entries[stays.Seat()].pool {
		t.Errorf("%d pools are remembered, one has a job", len(pools))
	}
	if _, err := o.u.Reconfigure(fixed(Dedicated)); err != nil {
		t.Fatal(err)
	}
	o.Kill(stays)
	if pools := o.u.worth.byName; len(pools) != 0 {
		t.Errorf("without jobs %d pools are remembered", len(pools))
	}
}

// Shares of pools, the gate, offers, priorities: who goes first, who gets
// nothing, and why.
func TestUtilityFactors(t *testing.T) {
	o := newOffice(fixed(Priority), nil)
	lo, hi := o.submit(0, 1, job.Spec{Request: job.Request{Priority: job.Low}}), o.submit(5, 1, job.Spec{Request: job.Request{Priority: job.High}})
	if got := o.served(time.Second); !slices.Equal(got, []job.ID{hi.ID(), lo.ID()}) {
		t.Errorf("by priority: %v", got)
	}
	cfg := fixed(Dedicated)
	cfg.Shares = Amounts{{"a", 0.5}, {"b", 0.3}}
	o = newOffice(cfg, nil)
	a, b := o.submit(0, 1, job.Spec{Request: job.Request{Pool: "a"}}), o.submit(0, 1, job.Spec{Request: job.Request{Pool: "b"}})
	c := o.submit(0, 1, job.Spec{Request: job.Request{Pool: "c"}, Splits: make([]job.Split, 3)})
	o.u.entries[a.Seat()].pool.running = 4 // of 10 slots
	if got := o.served(0); !slices.Equal(got, []job.ID{b.ID(), c.ID(), a.ID()}) {
		t.Errorf("lacking 0.3, 0.2, 0.1: %v", got)
	}
	for range 2 {
		o.u.TaskStarted(o.Jobs.Start(c.Fresh(job.Map), job.Launch{Node: o.node.Index()}, 0), 0)
	}
	if got := o.served(0); !slices.Equal(got, []job.ID{b.ID(), a.ID()}) || o.reason(c).Code != sched.NoValue {
		t.Errorf("with its share c gets %v, %+v", got, o.reason(c))
	}
	cfg.Factors = []string{DedicatedLiteral}
	if _, err := o.u.Reconfigure(cfg); err != nil {
		t.Fatal(err)
	}
	if got := o.served(time.Minute); !slices.Equal(got, []job.ID{a.ID(), b.ID()}) {
		t.Errorf("by the letter: %v", got)
	}
	o.u.TaskEnded(c.Oldest(job.Map), 0)
	if got := o.served(time.Minute); len(got) != 3 {
		t.Errorf("below its share again: %v", got)
	}
	cfg = fixed(Gate)
	cfg.MapGate = 0.5
	o = newOffice(cfg, nil)
	d := o.submit(0, 1, job.Spec{Splits: make([]job.Split, 2), Reduces: 1, Request: job.Request{SlowStart: -1}})
	if got := o.served(0); len(got) != 1 {
		t.Errorf("before the gate: %v", got)
	}
	if why, _ := o.Rounds.Ledger().Last(d, job.Reduce); why.Pool != Gate {
		t.Errorf("the reason is %+v", why)
	}
}

// A product of factors that is too great for a number is the greatest number.
func TestUtilityTooGreat(t *testing.T) {
	for _, factors := range [][]string{{Priority, Revenue}, {Revenue, FIFO}} {
		cfg := fixed(factors...)
		cfg.Offers = Amounts{{"ann", math.MaxFloat64}}
		o := newOffice(cfg, nil)
		a := o.submit(0, 1, job.Spec{Request: job.Request{User: "ann", Priority: job.VeryHigh}})
		b := o.submit(0, 1, job.Spec{Request: job.Request{User: "ann", Priority: job.VeryHigh}})
		c := o.submit(0, 1, job.Spec{Request: job.Request{User: "bob", Priority: job.VeryHigh}})
		if got := o.served(time.Hour); !slices.Equal(got, []job.ID{a.ID(), b.ID(), c.ID()}) {
			t.Errorf("%v: %v", factors, got)
		}
	}
}

// Without a learner it is an order by utility, for any slots.
func TestUtilityAlone(t *testing.T) {
	u := NewOrder(fixed(Priority), 1)
	o := &office{Manual: trackertest.NewManual(u), u: u}
	o.node = o.Join(cluster.Spec{Name: "n", MapSlots: 10})
	a, b := o.submit(0, 1, job.Spec{Request: job.Request{Pool: "p"}}), o.submit(0, 1, job.Spec{Request: job.Request{Priority: job.High, SlowStart: -1}, Reduces: 1})
	if got := o.served(0); !slices.Equal(got, []job.ID{b.ID(), b.ID(), a.ID()}) {
		t.Errorf("served %v", got)
	}
	r := o.Rounds.Open(0, o.node, [job.Kinds]int{1, 1})
	for _, c := range []struct {
		o    sched.Offer
		want job.ID
	}{{sched.Offer{Kind: job.Map, Pool: "p"}, a.ID()}, {sched.Offer{Kind: job.Reduce}, b.ID()}} {
		var got []job.ID
		u.Each(r, c.o, func(c sched.Candidate) bool { got = append(got, c.Job.ID()); return true })
		if !slices.Equal(got, []job.ID{c.want}) {
			t.Errorf("%+v: %v", c.o, got)
		}
	}
	// The head stays the head while all its tasks run.
	o.Run(o.node, b, job.Map)
	var heads []job.ID
	u.Each(r, sched.Offer{HeadOnly: true}, func(c sched.Candidate) bool { heads = append(heads, c.Job.ID()); return true })
	if !slices.Equal(heads, []job.ID{b.ID()}) {
		t.Errorf("heads %v", heads)
	}
}

// The sets kept up to date job by job are those found by looking at all jobs,
// and the visits go by expected utility.
func TestUtilityAgainstAllJobs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := newOffice(fixed(Priority), nil)
		for r := 1; r <= 10; r++ {
			o.x.set(r, rapid.IntRange(0, 5).Draw(t, "goods"), rapid.IntRange(0, 5).Draw(t, "bads"))
		}
		for range 40 {
			live := o.Jobs.List().Live()
			what := rapid.IntRange(0, 3).Draw(t, "what")
			if what == 0 || len(live) == 0 {
				o.submit(0, uint8(rapid.IntRange(0, 10).Draw(t, "rating")), job.Spec{Splits: make([]job.Split, rapid.IntRange(1, 3).Draw(t, "maps")),
					Reduces: rapid.IntRange(0, 2).Draw(t, "reduces"), Request: job.Request{SlowStart: 1, Priority: job.Priority(rapid.IntRange(-2, 2).Draw(t, "priority"))}})
				continue
			}
			j := rapid.SampledFrom(live).Draw(t, "job")
			if f := j.Fresh(job.Map); what == 1 && j.Oldest(job.Map) == nil {
				o.Jobs.Decide(j, job.Killed, nil, "", 0)
				o.u.JobRemoved(j)
			} else if f != nil {
				a := o.Jobs.Start(f, job.Launch{Node: o.node.Index()}, 0)
				o.u.TaskStarted(a, 0)
				o.Jobs.Succeed(a, 0, 0)
				o.u.TaskEnded(a, 0)
				o.u.JobChanged(j, sched.MapDemandChanged)
			}
			o.compare(t)
		}
	})
}

func (o *office) compare(t *rapid.T) {
	want, last := map[sched.Candidate]bool{}, 0.0
	worth := func(c sched.Candidate) (float64, bool) {
		e := &o.u.entries[c.Job.Seat()]
		v := o.x.l.Predict(o.node.Index(), c.Kind, o.u.hintSets[e.hintSet[c.Kind]].Ratings, 0)
		return v.P() * PriorityUtility(int(c.Job.Priority())), v.Good
	}
	for _, j := range o.Jobs.List().Live() {
		for k := range job.Kind(job.Kinds) {
			if _, good := worth(sched.Candidate{Job: j, Kind: k}); good && j.Launchable(k) {
				want[sched.Candidate{Job: j, Kind: k}] = true
			}
		}
	}
	r := o.Rounds.Open(0, o.node, [job.Kinds]int{9, 9})
	o.u.Begin(r)
	o.u.Each(r, sched.Offer{Either: true}, func(c sched.Candidate) bool {
		eu, _ := worth(c)
		if !want[c] || last > 0 && eu > last*(1+1e-9) {
			t.Fatalf("%v %v: wanted %v, worth %v after %v", c.Job.ID(), c.Kind, want[c], eu, last)
		}
		delete(want, c)
		last = eu
		return true
	})
	if len(want) > 0 {
		t.Fatalf("%d candidates left out", len(want))
	}
}

func TestUtilityConfig(t *testing.T) {
	bad := OrderConfig{Tie: "x", MapGate: 2, Shares: Amounts{{"a", 0.7}, {"b", 0.7}}}
	err := bad.Check()
	for _, want := range []string{"no utility", "ties", "map-gate", "1.4"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("nothing of %q in %v", want, err)
		}
	}
	for _, list := range []string{"a", "a:x", "a:-1", ":1", "a:1,a:2"} {
		if _, err := ParseAmounts(list); err == nil {
			t.Errorf("%q was taken", list)
		}
	}
	good := OrderConfig{Factors: []string{Priority}, Tie: TieRandom, MapGate: 0.05}
	if got, err := ParseAmounts("a:1,b:0.5"); err != nil || got.of("b", 0) != 0.5 || got.of("c", 7) != 7 || good.Check() != nil {
		t.Errorf("%v, %v", got, err)
	}
}

// A job that has nothing to launch is a candidate while one of its tasks may get a copy, and
// takes its place by its utility.
func TestCopiesAreCandidates(t *testing.T) {
	var copies copier
	o := newOffice(fixed(Priority), nil, &copies)
	for i := range 3 {
		o.x.set(1+i, 9, 0)
	}
	low, high, slow := o.submit(0, 1, job.Spec{Request: job.Request{Priority: job.Low}}), o.submit(0, 2, job.Spec{Request: job.Request{Priority: job.High}}), o.submit(0, 3, job.Spec{})
	o.Run(o.node, slow, job.Map)
	if got := o.served(time.Second); !slices.Equal(got, []job.ID{high.ID(), low.ID()}) {
		t.Errorf("served %v while nothing is slow", got)
	}
	copies.jobs = []*job.Job{slow}
	if got := o.served(2 * time.Second); !slices.Equal(got, []job.ID{high.ID(), slow.ID(), low.ID()}) {
		t.Errorf("served %v while a task of %v is slow", got, slow.ID())
	}
}

// Groups of candidates change nothing: an order that weighs each candidate serves the same jobs
// in the same order, with the same random numbers, and notes the same wait reasons.
func TestGroupsAgainstCandidates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := OrderConfig{Factors: []string{Priority, Revenue}, Offers: Amounts{{"ann", 3}},
			Tie: rapid.SampledFrom([]string{TieRandom, TieOrdered}).Draw(t, "ties")}
		gate := rapid.Bool().Draw(t, "hard gate")
		var both [2]*office
		var copiers [2]copier
		for i := range both {
			both[i] = newOffice(cfg, func(c *Config) { c.HardGate, c.Patience = gate, 2 }, &copiers[i])
		}
		both[1].u.worth.anyVaries = true // a product of no factors is 1
		type action struct {
			kind, job, rating, goods, bads, priority int
			user                                     string
		}
		var jobs [2][]*job.Job
		now := time.Duration(0)
		for range rapid.IntRange(1, 40).Draw(t, "actions") {
			now += time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond
			a := action{kind: rapid.IntRange(0, 6).Draw(t, "kind"), job: rapid.IntRange(0, 40).Draw(t, "job"), rating: rapid.IntRange(1, 3).Draw(t, "rating"),
				goods: rapid.IntRange(0, 4).Draw(t, "goods"), bads: rapid.IntRange(0, 4).Draw(t, "bads"),
				priority: rapid.IntRange(0, 4).Draw(t, "priority"), user: rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "user")}
			var served [2][]job.ID
			var reasons [2][]sched.Reason
			for i, o := range both {
				switch a.kind {
				case 0, 1:
					jobs[i] = append(jobs[i], o.submit(now, uint8(a.rating), job.Spec{Request: job.Request{User: a.user, Priority: job.Priority(a.priority)}}))
				case 2:
					o.x.set(a.rating, a.goods, a.bads)
				case 3: // a job's only map starts, and is slow
					if len(jobs[i]) > 0 {
						if j := jobs[i][a.job%len(jobs[i])]; j.Launchable(job.Map) {
							o.Run(o.node, j, job.Map)
							copiers[i].jobs = append(copiers[i].jobs, j)
						}
					}
				default:
					served[i] = o.served(now)
				}
				for _, j := range jobs[i] {
					reasons[i] = append(reasons[i], o.reason(j))
				}
			}
			if !slices.Equal(served[0], served[1]) || !slices.Equal(reasons[0], reasons[1]) {
				t.Fatalf("groups serve %v with reasons %v, candidates %v with %v", served[0], reasons[0], served[1], reasons[1])
			}
		}
	})
}
