package policies

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/tracker/trackertest"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// extremes are values near the ends of what parameters accept.
var extremes = []string{"0", "1", "2", "-1", "1000000", "9223372036854775807", "1e-300", "1e-9", "0.999999999", "1e9", "1e300", "1ns", "2562047h"}

// Property: no accepted value of any parameter makes a policy panic, over-commit a slot, show a figure
// that is no number, or save a state that it cannot load. A policy runs in the master, which a panic ends.
func TestExtremeParameters(t *testing.T) {
	names := Names()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(names).Draw(t, "policy")
		opt := sched.Options{Seed: 1, Set: drawSettings(t, name)}
		p, err := Build(name, opt)
		if err != nil {
			t.Fatal(err)
		}
		w := trackertest.NewFakeCluster(t, p)
		w.Boundless = strings.HasPrefix(name, "learning")
		w.Join("n1", rapid.IntRange(0, 3).Draw(t, "maps"), rapid.IntRange(0, 2).Draw(t, "reduces"))
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			w.Act()
			for _, j := range w.Tracker.Jobs().Live() {
				for k := range job.Kind(job.Kinds) {
					w.Tracker.Explain(j, k)
				}
			}
			for _, f := range sched.Inspect(p, w.Tracker.Now()).Figures {
				if math.IsNaN(f.Number) || math.IsInf(f.Number, 0) {
					t.Fatalf("%s %v: %s is %v", name, opt.Set, f.Name, f.Number)
				}
			}
		}
		reload(t, name, opt, p)
	})
}

// drawSettings draws values for some of a policy's parameters, such that the policy can be built.
func drawSettings(t *rapid.T, name string) map[string]string {
	info, err := Describe(name)
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]string{}
	for _, part := range info.Parts {
		for _, p := range part.Params {
			if _, twice := set[p.Name]; twice || rapid.IntRange(0, 2).Draw(t, "keep") == 0 {
				continue
			}
			words := strings.FieldsFunc(p.Accepts, func(r rune) bool { return r == ' ' || r == ',' })
			values := slices.Concat([]string{p.Default}, extremes, spellings[p.Name], words, p.Tune)
			set[p.Name] = rapid.SampledFrom(values).Draw(t, p.Name)
			if _, err := Build(name, sched.Options{Seed: 1, Set: set}); err != nil {
				delete(set, p.Name)
			}
		}
	}
	return set
}

// reload saves what a policy has learned and loads it into a fresh one.
func reload(t *rapid.T, name string, opt sched.Options, p sched.Policy) {
	parts := sched.HooksOf(p).Statefuls
	if len(parts) == 0 {
		return
	}
	doc, err := sched.SaveState(name, parts)
	if err != nil {
		t.Fatalf("%s %v: %v", name, opt.Set, err)
	}
	fresh, err := Build(name, opt)
	if err != nil {
		t.Fatal(err)
	}
	if err := sched.LoadState(doc, name, sched.HooksOf(fresh).Statefuls); err != nil {
		t.Fatalf("%s %v: %v", name, opt.Set, err)
	}
}
