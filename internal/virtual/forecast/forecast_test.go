package forecast

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// cluster of some nodes with a tracker whose attempts take given times.
type fixture struct {
	t   *testing.T
	tr  *tracker.Tracker
	now time.Duration
	run map[job.AttemptID]string // node
}

func policy() (sched.Policy, error) { return policies.Build("fifo", sched.Options{Seed: 1}) }

func newFixture(t *testing.T, nodes, maps, reduces int) *fixture {
	p, err := policy()
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, tr: tracker.New(tracker.Config{OfferAtOnce: true, NodeTimeout: -1}, p), run: map[job.AttemptID]string{}}
	for i := range nodes {
		f.step(&tracker.Join{Node: cluster.Spec{Name: fmt.Sprint("n", i), MapSlots: maps, ReduceSlots: reduces}})
	}
	return f
}

func (f *fixture) step(ev tracker.Event) {
	for _, e := range f.tr.Step(f.now, ev) {
		switch e.Kind {
		case tracker.Launch:
			f.run[e.Attempt] = e.Node
		case tracker.Kill:
			delete(f.run, e.Attempt)
		}
	}
}

func (f *fixture) submit(name string, maps, reduces int) {
	f.step(&tracker.Submit{Spec: job.Spec{Name: name, Request: job.Request{User: "ann"}, Splits: make([]job.Split, maps), Reduces: reduces}})
	f.beat()
}

// beat sends the heartbeats of all nodes.
func (f *fixture) beat() {
	for _, n := range f.tr.Nodes().All() {
		f.step(&tracker.Heartbeat{Node: n.Name()})
	}
}

// finish ends all running attempts of a kind after some time.
func (f *fixture) finish(k job.Kind, after time.Duration) {
	f.now += after
	ids := make([]job.AttemptID, 0, len(f.run))
	for id := range f.run {
		if id.Kind == k {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, job.AttemptID.Compare)
	for _, id := range ids {
		node := f.run[id]
		delete(f.run, id)
		f.step(&tracker.Heartbeat{Node: node, Reports: []tracker.Report{{Attempt: id, State: job.AttemptSucceeded}}})
	}
}

func (f *fixture) forecast() *Forecast { return f.forecastWithout(0) }

// forecastWithout forecasts while a number of nodes is absent.
func (f *fixture) forecastWithout(absent int) *Forecast {
	f.t.Helper()
	var c Copier
	for !c.Copy(f.tr, 10) {
	}
	s := c.State()
	s.Absent += absent
	got, err := NewRun(Config{Policy: policy, OfferAtOnce: true, Heartbeat: time.Second, Seed: 1}, s).Forecast()
	if err != nil {
		f.t.Fatal(err)
	}
	return got
}

// faulty is a part of a policy that panics when it must choose a task.
type faulty struct{}

// Pick implements sched.Place.
func (faulty) Pick(*sched.Round, sched.Offer, sched.Candidate) (*job.Task, job.Level, sched.Reason) {
	panic("a fault")
}

// A panic of the policy in a future is an error. It would end the master, which forecasts in the background.
func TestFaultyPolicy(t *testing.T) {
	all, err := policies.Builtin().With(sched.Table{Place: []sched.Part[sched.Place]{{Name: "faulty", Summary: "panics", New: func(*sched.Kit) (sched.Place, error) { return faulty{}, nil }}}})
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, 1, 1, 1)
	f.submit("sort", 3, 0)
	f.finish(job.Map, time.Second)
	var c Copier
	for !c.Copy(f.tr, 10) {
	}
	_, err = NewRun(Config{Policy: func() (sched.Policy, error) { return all.Build("place=faulty", sched.Options{}) }, OfferAtOnce: true, Seed: 1}, c.State()).Forecast()
	if err == nil || !strings.Contains(err.Error(), "the simulation has a fault: a fault") {
		t.Errorf("error %v", err)
	}
}

// near fails the test unless a time is within a tolerance of another.
func near(t *testing.T, what string, got, want, tolerance time.Duration) {
	t.Helper()
	if got < want-tolerance || got > want+tolerance {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// A job whose tasks all take the same time ends when arithmetic says so, and so does the
// one behind it.
func TestEqualTasks(t *testing.T) {
	f := newFixture(t, 2, 2, 1)
	f.submit("sort-1", 20, 0)
	f.submit("sort-2", 8, 0)
	f.finish(job.Map, 10*time.Second) // 4 of 20
	got := f.forecast()
	a, b := got.Job(1), got.Job(2)
	if !a.Known || !b.Known || a.Position != 0 || b.Position != 1 {
		t.Fatalf("got %+v and %+v", a, b)
	}
	near(t, "the first job's end", a.End, 50*time.Second, 3*time.Second)
	near(t, "the second job's end", b.End, 70*time.Second, 6*time.Second)
	near(t, "the second job's start", b.Start, 50*time.Second, 3*time.Second)
	if a.Early > a.End || a.Late < a.End || !strings.Contains(a.Basis, "maps from 4 of its own") || !strings.Contains(b.Basis, "1 run of the same name") {
		t.Errorf("got %+v and %+v", a, b)
	}
	if b.WaitsFor == "" || a.WaitsFor != "" {
		t.Errorf("waits for %q and %q", a.WaitsFor, b.WaitsFor)
	}
}

// Reduces that started early end after the last map.
func TestReducesAfterMaps(t *testing.T) {
	f := newFixture(t, 2, 2, 1)
	f.submit("first", 4, 2)
	f.finish(job.Map, 10*time.Second)
	f.finish(job.Reduce, 20*time.Second)
	f.submit("first", 8, 2)
	f.finish(job.Map, 10*time.Second)
	got := f.forecast().Job(2)
	// 4 maps are left, of 10 s, then two thirds of a reduce of 20 s.
	near(t, "the end", got.End, f.now+10*time.Second+20*time.Second*2/3, 6*time.Second)
}

// A forecast never invents a time.
func TestUnknown(t *testing.T) {
	f := newFixture(t, 1, 2, 0)
	f.submit("new", 4, 0)
	got := f.forecast().Job(1)
	if got.Known || got.Never || got.End != 0 || !strings.Contains(got.Unknown, "no map has finished") {
		t.Errorf("without history: %+v", got)
	}
	f.submit("reducer", 2, 1)
	f.finish(job.Map, time.Second)
	f.finish(job.Map, time.Second)
	got = f.forecast().Job(2)
	if got.MapsEnd != 0 {
		t.Errorf("the maps of a job that cannot end: %+v", got)
	}
	if got.Known || !got.Never || !strings.Contains(got.Unknown, "no reduce slots") {
		t.Errorf("without reduce slots: %+v", got)
	}
}

// While workers of before a change of the master are away, no job is said never to end.
func TestAbsentWorkers(t *testing.T) {
	f := newFixture(t, 1, 2, 0)
	f.submit("reducer", 2, 1)
	f.finish(job.Map, time.Second)
	got := f.forecastWithout(2).Job(1)
	if got.Known || got.Never || !strings.Contains(got.Unknown, "no reduce slots, but 2 workers must still register") {
		t.Errorf("got %+v", got)
	}
}

// Of a job whose reduces are unknown the end of its maps is known.
func TestMapsEnd(t *testing.T) {
	f := newFixture(t, 1, 2, 1)
	f.submit("first", 8, 1)
	f.finish(job.Map, 10*time.Second)
	f.finish(job.Map, 10*time.Second)
	all := f.forecast()
	got := all.Job(1)
	if got.Known || !strings.Contains(got.Unknown, "no reduce has finished") || got.MapsEarly > got.MapsEnd || got.MapsLate < got.MapsEnd {
		t.Fatalf("got %+v", got)
	}
	near(t, "the end of the maps", got.MapsEnd-all.Made, 20*time.Second, 4*time.Second)
}

// A node more makes jobs end earlier, by a difference whose interval is narrower than the one of the
// ends; no change makes none.
func TestGain(t *testing.T) {
	f := newFixture(t, 2, 2, 0)
	f.submit("first", 40, 0)
	f.finish(job.Map, 10*time.Second)
	f.finish(job.Map, 14*time.Second)
	var c Copier
	for !c.Copy(f.tr, 10) {
	}
	run := func(v Variant) *Run {
		s, err := c.State().With(v)
		if err != nil {
			t.Fatal(err)
		}
		r := NewRun(Config{Policy: policy, OfferAtOnce: true, Heartbeat: time.Second, Seed: 1}, s)
		if _, err := r.Forecast(); err != nil {
			t.Fatal(err)
		}
		return r
	}
	asIs, more := run(Variant{}), run(Variant{Nodes: 2})
	if g, ok := asIs.Gain(run(Variant{}), 1); !ok || g != (Gain{}) {
		t.Errorf("without a change: %+v, %v", g, ok)
	}
	g, ok := asIs.Gain(more, 1)
	j := asIs.Result().Job(1)
	if !ok || g.Low > g.Median || g.Median > g.High || g.High >= 0 || g.High-g.Low >= j.Late-j.Early {
		t.Errorf("%+v, %v; the end is between %v and %v", g, ok, j.Early, j.Late)
	}
	if _, ok := asIs.Gain(more, 2); ok {
		t.Error("a job that does not exist gains")
	}
}

// More slots than the cluster has are no advice.
func TestWouldStartWithinReach(t *testing.T) {
	f := newFixture(t, 1, 2, 0)
	f.submit("first", 60, 0)
	f.finish(job.Map, 10*time.Second)
	f.submit("second", 3, 0)
	var c Copier
	for !c.Copy(f.tr, 10) {
	}
	got, err := WouldStart(Config{Policy: policy, OfferAtOnce: true, Heartbeat: time.Second, Seed: 1}, c.State(), 2)
	if err != nil || len(got) != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// What would start a waiting job does not count on the ends of running attempts.
func TestWouldStart(t *testing.T) {
	f := newFixture(t, 1, 2, 0)
	f.submit("first", 6, 0)
	f.finish(job.Map, 10*time.Second)
	f.submit("second", 3, 0)
	var c Copier
	for !c.Copy(f.tr, 10) {
	}
	cfg := Config{Policy: policy, OfferAtOnce: true, Heartbeat: time.Second, Seed: 1}
	got, err := WouldStart(cfg, c.State(), 2)
	// Two maps of the first job wait, too, and come first.
	if want := []Counterfactual{{Slots: 3, Kind: job.Map}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if got, err := WouldStart(cfg, c.State(), 1); err != nil || got != nil {
		t.Errorf("for a job that runs: %+v, %v", got, err)
	}
}

// A job of 3 maps waits behind 36 maps of 10 s on two slots: for some 180 s. It ends within 60 s with
// a high priority, or with workers enough for all maps before it. Within 5 s it cannot end at all.
func TestWouldKeep(t *testing.T) {
	f := newFixture(t, 1, 2, 0)
	f.submit("first", 40, 0)
	f.finish(job.Map, 10*time.Second)
	f.finish(job.Map, 10*time.Second)
	f.submit("second", 3, 0)
	var c Copier
	for !c.Copy(f.tr, 10) {
	}
	cfg := Config{Policy: policy, OfferAtOnce: true, Heartbeat: time.Second, Seed: 1}
	within := func(d time.Duration) func(*Forecast) bool {
		return func(f *Forecast) bool { return f.Job(2).Known && f.Job(2).Late <= f.Made+d }
	}
	got, err := WouldKeep(cfg, c.State(), 2, within(60*time.Second))
	if err != nil || len(got) != 2 || got[0] != (Counterfactual{Priority: job.High}) || got[1].Nodes < 3 || got[1].Nodes > 6 {
		t.Fatalf("got %+v, %v", got, err)
	}
	// One node less is not enough.
	fewer, err := c.State().With(Variant{Nodes: got[1].Nodes - 1})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Futures = keepFutures
	if f, err := NewRun(cfg, fewer).Forecast(); err != nil || within(60*time.Second)(f) {
		t.Errorf("%d nodes keep it, too: %+v, %v", got[1].Nodes-1, f.Job(2), err)
	}
	if got, err := WouldKeep(cfg, c.State(), 2, within(5*time.Second)); err != nil || len(got) != 0 {
		t.Errorf("within 5 s: %+v, %v", got, err)
	}
}

// fewest finds the border of any condition that stays true once it is, and asks few questions.
func TestFewest(t *testing.T) {
	for most := 1; most <= 40; most++ {
		for border := 1; border <= 45; border++ {
			asked := 0
			got, err := fewest(most, func(n int) (bool, error) { asked++; return n >= border, nil })
			want := border
			if border > most {
				want = 0
			}
			if err != nil || got != want || asked > 12 {
				t.Fatalf("border %d of %d: got %d, %v with %d questions", border, most, got, err, asked)
			}
		}
	}
}

// The same state and seed give the same answer, whether it is copied in portions or in one piece.
func TestDeterministic(t *testing.T) {
	f := newFixture(t, 3, 2, 1)
	for i := range 5 {
		f.submit(fmt.Sprint("job", i%2), 10+i, i)
	}
	f.finish(job.Map, 3*time.Second)
	f.finish(job.Map, 5*time.Second)
	if a, b := fmt.Sprintf("%+v", f.forecast()), fmt.Sprintf("%+v", f.forecast()); a != b {
		t.Errorf("%s\n%s", a, b)
	}
}

// The fork has the counts of the tracker that it was copied from.
func TestForkHasTheSameState(t *testing.T) {
	f := newFixture(t, 3, 2, 2)
	for i := range 4 {
		f.submit("a", 7, i)
	}
	f.finish(job.Map, time.Second)
	var c Copier
	for !c.Copy(f.tr, 3) {
	}
	got, _, err := fork(&Config{Policy: policy, Heartbeat: time.Second}, c.State())
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range f.tr.Jobs().Live() {
		g := got.Jobs().Get(j.ID())
		if g == nil || g.Tally() != j.Tally() || g.Priority() != j.Priority() || g.Pool() != j.Pool() || g.State() != j.State() {
			t.Errorf("%v: got %+v, want %+v", j.ID(), g, j)
		}
	}
	for _, n := range f.tr.Nodes().All() {
		if g := got.Nodes().Get(n.Name()); g == nil || g.Used(job.Map) != n.Used(job.Map) || g.Used(job.Reduce) != n.Used(job.Reduce) {
			t.Errorf("node %s differs", n.Name())
		}
	}
}

// large returns a cluster of 100 nodes with 1,000 jobs of 100 tasks, of which 32,000 are done.
func large() *fixture {
	p, _ := policy()
	f := &fixture{tr: tracker.New(tracker.Config{OfferAtOnce: true, NodeTimeout: -1}, p), run: map[job.AttemptID]string{}}
	for i := range 100 {
		f.step(&tracker.Join{Node: cluster.Spec{Name: fmt.Sprint("n", i), MapSlots: 8, ReduceSlots: 4}})
	}
	for range 1000 {
		f.step(&tracker.Submit{Spec: job.Spec{Name: "a", Splits: hosted(90), Reduces: 10}})
	}
	f.beat()
	for range 40 {
		f.finish(job.Map, time.Second)
	}
	return f
}

// BenchmarkFork copies and forks a large state.
func BenchmarkFork(b *testing.B) {
	f := large()
	portions, copying, all := 0, time.Duration(0), processorTime()
	for b.Loop() {
		var c Copier
		began := processorTime()
		for done := false; !done; portions++ {
			done = c.Copy(f.tr, 5000)
		}
		copying += processorTime() - began
		if _, _, err := fork(&Config{Policy: policy, Heartbeat: time.Second}, c.State()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric((processorTime()-all).Seconds()*1e3/float64(b.N), "cpu-ms/op")
	b.ReportMetric(copying.Seconds()*1e3/float64(portions), "cpu-ms/portion")
}

// BenchmarkFuture simulates one future of a large state, with its fork.
func BenchmarkFuture(b *testing.B) {
	f := large()
	var c Copier
	for !c.Copy(f.tr, 1<<30) {
	}
	r := NewRun(Config{Policy: policy, OfferAtOnce: true, Heartbeat: time.Second, Futures: 1 << 30}, c.State())
	began := processorTime()
	for b.Loop() {
		if _, err := r.Next(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric((processorTime()-began).Seconds()*1e3/float64(b.N), "cpu-ms/op")
}

// processorTime returns what the process has used so far. On a busy machine it says more
// than the time that has passed.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// hosted returns splits with three hosts each.
func hosted(n int) []job.Split {
	s := make([]job.Split, n)
	for i := range s {
		s[i] = job.Split{Bytes: 64 << 20, Hosts: []string{fmt.Sprint("n", i%100), fmt.Sprint("n", (i+7)%100), fmt.Sprint("n", (i+31)%100)}}
	}
	return s
}
