// Package schedtest tests scheduling policies. Conformance is the suite that the
// built-in policies pass; run it on a policy of your own:
//
//	func TestConformance(t *testing.T) {
//		schedtest.Conformance(t, schedtest.Config{Policy: "sjf", Tables: []sched.Table{policies}, Clock: clock})
//	}
//
// where clock is the function Now of package time.
//
// The suite runs the real job tracker. Its subtests are
//
//	Parameters   names, defaults and profiles are accepted and print as themselves
//	Safety       random clusters: no slot is over-committed, no assignment is refused
//	Liveness     random clusters: once the nodes behave, every job ends
//	Wide         a job whose tasks occupy several slots ends on a cluster that a stream of
//	             other jobs keeps full, not much later than a job of ordinary tasks
//	Determinism  the same events give the same effects, byte for byte, also in a
//	             second simulation; explaining why jobs wait changes nothing
//	State        learned state is the same after it was saved and loaded
//	Cost         a heartbeat with 1,000 jobs costs a bounded multiple of fifo's
//
// Safety, Liveness and Determinism play random scripts of events: nodes that join,
// leave, restart and send heartbeats; jobs that are submitted, killed and moved;
// attempts that succeed, fail or report nonsense; trackers that restart; policies
// that are replaced by fifo and back. A failure prints the shortest script found.
// The flag -rapid.checks sets the number of scripts for each property, 100 by default.
package schedtest

import (
	"bytes"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/tracker/trackertest"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// Config describes the policy to test.
type Config struct {
	// Policy is a policy's name or a composition, as users write it after --policy.
	Policy string
	// Tables are the tables that define it, in addition to the built-in one.
	Tables []sched.Table
	// Set holds values of its parameters. Those without one have their defaults.
	Set map[string]string
	// Clock returns the present time, by which Cost measures heartbeats. The suite belongs to the
	// scheduling code, which reads no clock by itself. Conformance fails if Clock is nil.
	Clock func() time.Time
	// WorkConserving says that the policy never leaves a slot free while a task
	// could use it. Liveness then checks that as well.
	WorkConserving bool
	// CostRatio bounds the cost of a heartbeat as a multiple of fifo's; 0 is 40. Set
	// it only for a policy whose rule must look at every job on every heartbeat; the
	// cost may then grow with the number of jobs.
	CostRatio float64
	// OwnLimits says that the policy decides by itself how many tasks a node can
	// take. Safety then allows more tasks on a node than it has slots.
	OwnLimits bool
}

// seed is the seed of every policy that the suite builds. A policy with a fixed
// seed must be deterministic.
const seed = 7

// Conformance runs the suite. It takes a few seconds. Subtests can be selected with
// go test -run.
func Conformance(t *testing.T, c Config) {
	if c.Clock == nil {
		t.Fatal("Config.Clock is nil: set it to the function Now of package time")
	}
	registry, err := policies.Builtin().With(c.Tables...)
	if err != nil {
		t.Fatal(err)
	}
	s := &suite{Config: c, registry: registry}
	// Before the subtests: a misspelt name would fail all subtests with the same words.
	if _, err := s.tryBuild(c.Policy); err != nil {
		t.Fatal(err)
	}
	t.Run("Parameters", s.parameters)
	t.Run("Safety", func(t *testing.T) { rapid.Check(t, s.safety) })
	t.Run("Liveness", func(t *testing.T) { rapid.Check(t, s.liveness) })
	t.Run("Wide", s.wide)
	t.Run("Determinism", func(t *testing.T) {
		rapid.Check(t, s.determinism)
		s.sameSimulation(t)
	})
	t.Run("State", s.state)
	t.Run("Cost", s.cost)
}

// suite is a run of the conformance suite on one policy.
type suite struct {
	Config
	registry *sched.Registry
}

// fatalf is the part of testing.TB and rapid.T that build needs.
type fatalf interface{ Fatalf(string, ...any) }

// build makes a fresh policy: the tested one, or fifo.
func (s *suite) build(t fatalf, name string) sched.Policy {
	p, err := s.tryBuild(name)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return p
}

func (s *suite) tryBuild(name string) (sched.Policy, error) {
	opt := sched.Options{Seed: seed}
	// The parameters are the tested policy's; fifo, which some scripts swap in, has its defaults.
	if name == s.Policy {
		opt.Set = s.Set
	}
	return s.registry.Build(name, opt)
}

// parameters checks that every default is a valid value that prints as itself, and
// that every profile can be built.
func (s *suite) parameters(t *testing.T) {
	info, err := s.registry.Describe(s.Policy)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, part := range info.Parts {
		if part.Summary == "" {
			t.Errorf("%s %s has no summary", part.Part, part.Name)
		}
		for _, p := range part.Params {
			if p.Help == "" {
				t.Errorf("parameter %s has no help text", p.Name)
			}
			// Two parts that share a parameter read one value, so they cannot differ in how they
			// act without it.
			if other, ok := seen[p.Name]; ok && other != p.Default {
				t.Errorf("parameter %s has the defaults %q and %q in two parts", p.Name, other, p.Default)
			}
			seen[p.Name] = p.Default
			text, err := p.Normalize(p.Default)
			if err != nil {
				t.Errorf("default of %v", err)
				continue
			}
			if again, err := p.Normalize(text); err != nil || again != text {
				t.Errorf("parameter %s: the value %q prints as %q, %v", p.Name, text, again, err)
			}
		}
	}
	for _, profile := range info.Profiles {
		if _, err := s.registry.Build(s.Policy, sched.Options{Seed: seed, Set: map[string]string{"profile": profile.Name}}); err != nil {
			t.Errorf("profile %s: %v", profile.Name, err)
		}
	}
}

// script is a random script of events under the tested policy. Some scripts begin
// or end under fifo, and some restart the tracker.
type script struct {
	*trackertest.FakeCluster
	suite *suite
	first string
	next  []string // the policies that replaced first, in order
}

// play plays a random script. between runs after each event.
func (s *suite) play(t *rapid.T, between func(*trackertest.FakeCluster)) *script {
	p := &script{suite: s, first: s.Policy}
	restart := false
	// Three of seven scripts keep one policy. A swap finds a policy that must have heard of all jobs from the
	// beginning, and a restart finds a policy that forgets.
	switch rapid.IntRange(0, 6).Draw(t, "swap") {
	case 0:
		p.first, p.next = policies.Default, []string{s.Policy}
	case 1:
		p.next = []string{policies.Default, s.Policy}
	case 2, 3:
		p.next, restart = []string{s.Policy}, true
	}
	p.FakeCluster = trackertest.NewFakeCluster(t, s.build(t, p.first))
	p.Boundless = s.OwnLimits
	// So that even the shortest script has a node.
	p.Join("n1", 2, 1)
	for i, name := range append([]string{p.first}, p.next...) {
		switch {
		case i > 0 && restart:
			p.Restart(s.build(t, name))
		case i > 0:
			p.Swap(s.build(t, name))
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			p.Act()
			between(p.FakeCluster)
		}
	}
	return p
}

// replay plays the script's events again with fresh policies and compares the
// effects.
func (p *script) replay(t *rapid.T) {
	var next []sched.Policy
	for _, name := range p.next {
		next = append(next, p.suite.build(t, name))
	}
	p.Replay(p.suite.build(t, p.first), next...)
}

// safety checks what trackertest.FakeCluster promises after each event, that the jobs of a
// SortedOrder are sorted, and what a Holder holds back.
func (s *suite) safety(t *rapid.T) {
	s.play(t, func(w *trackertest.FakeCluster) {
		c, ok := w.Tracker.Policy().(*sched.Composition)
		if !ok {
			return
		}
		if h, ok := c.Order.(sched.Holder); ok {
			checkHolder(t, w.Tracker.View(), c.Order, h)
		}
		o, ok := c.Order.(interface{ Misplaced() (a, b *job.Job) })
		if !ok {
			return
		}
		if a, b := o.Misplaced(); a != nil {
			t.Fatalf("the order has %v before %v, which now compares as less: its keys have changed, so it must call Resort", a.ID(), b.ID())
		}
	})
}

// copier wants copies of all tasks.
type copier struct{}

// Copy implements sched.Speculate.
func (copier) Copy(*sched.Round, sched.Offer, sched.Candidate) *job.Task { return nil }

// checkHolder checks that an order visits no job that it reports as held back. A simulation
// leaves out rounds on its word.
func checkHolder(t *rapid.T, v *sched.View, o sched.Order, h sched.Holder) {
	for k := range job.Kind(job.Kinds) {
		r := sched.NewRoundWriter(v).Open(0, nil, [job.Kinds]int{1, 1})
		sched.Compose(nil, nil, nil, copier{}).Begin(r)
		held := h.Holds(k)
		o.Each(r, sched.Offer{Kind: k, Slot: k}, func(c sched.Candidate) bool {
			if held && c.Job.Launchable(k) || h.HoldsJob(c.Job, k) {
				t.Fatalf("the order visits %v for a %v, but says that it holds the job or all %vs back", c.Job.ID(), k, k)
			}
			return true
		})
	}
}

// liveness lets all nodes behave after a random script, until every job has ended.
func (s *suite) liveness(t *rapid.T) {
	s.play(t, func(*trackertest.FakeCluster) {}).Settle(s.WorkConserving)
}

// determinism plays a script twice. Only the first time it asks the policy why jobs
// wait, and for its inner state. Users can do both at any moment, so neither may change
// decisions.
func (s *suite) determinism(t *rapid.T) {
	s.play(t, func(w *trackertest.FakeCluster) {
		if rapid.IntRange(0, 3).Draw(t, "inspect") == 0 {
			checkInsight(t, sched.Inspect(w.Tracker.Policy(), w.Tracker.Now()))
		}
		if rapid.IntRange(0, 3).Draw(t, "explain") > 0 {
			return
		}
		for _, j := range w.Tracker.Jobs().Live() {
			for _, k := range []job.Kind{job.Map, job.Reduce} {
				if _, words := w.Tracker.Explain(j, k); words == "" {
					t.Fatalf("no explanation why %v gets no %v", j.ID(), k)
				}
			}
		}
	}).replay(t)
}

// checkInsight checks that names are given and unique, and that rows are as wide as their
// table.
func checkInsight(t *rapid.T, all sched.Insight) {
	figures, tables := map[string]bool{}, map[string]bool{}
	for _, f := range all.Figures {
		if f.Name == "" || figures[f.Name] {
			t.Fatalf("Inspect returns two figures %q, or one without a name", f.Name)
		}
		figures[f.Name] = true
	}
	for _, table := range all.Tables {
		if table.Name == "" || tables[table.Name] || len(table.Rows) > sched.MostRows {
			t.Fatalf("Inspect returns two tables %q, one without a name, or one of more than %d rows", table.Name, sched.MostRows)
		}
		tables[table.Name] = true
		for _, row := range table.Rows {
			if len(row) != len(table.Columns) {
				t.Fatalf("a row of table %q has %d values for %d columns", table.Name, len(row), len(table.Columns))
			}
		}
	}
}

// state saves what the policy has learned in a simulation, loads it into a fresh
// policy and saves it again. Policies without state pass.
func (s *suite) state(t *testing.T) {
	learned := s.build(t, s.Policy)
	s.simulate(t, learned)
	parts := sched.HooksOf(learned).Statefuls
	if len(parts) == 0 {
		t.Skip("the policy keeps no state over restarts")
	}
	doc, err := sched.SaveState(s.Policy, parts)
	if err != nil {
		t.Fatal(err)
	}
	fresh := sched.HooksOf(s.build(t, s.Policy)).Statefuls
	if err := sched.LoadState(doc, s.Policy, fresh); err != nil {
		t.Fatal(err)
	}
	again, err := sched.SaveState(s.Policy, fresh)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(doc, again) {
		t.Errorf("saved as\n%s\nand after loading as\n%s", doc, again)
	}
}
