package tumm_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/tracker/trackertest"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
)

// With any settings but the fallback none, which stalls by the letter of the
// paper, both keep the promises of a policy and end every job; with it they keep
// the promises. A policy with fixed slots may take over in between.
func TestAnySettingsKeepThePromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"tumm", "htumm"}).Draw(t, "policy")
		set := map[string]string{}
		pick := func(name string, values ...string) { set[name] = rapid.SampledFrom(values).Draw(t, name) }
		pick("fallback", "within_target", "any", "none")
		pick("remaining", "unfinished", "unassigned")
		pick("reduce-time", "full", "after_maps")
		pick("early-reduces", "on", "off")
		pick("max-per-heartbeat", "0", "1", "2")
		pick("max-reduces-per-heartbeat", "0", "1")
		if name == "tumm" {
			pick("feedback", "off", "telescoped", "literal")
			pick("alpha", "1.2", "1", "0.5", "3")
			pick("feedback-period", "0s", "20s")
		} else {
			pick("min-per-type", "0", "1")
		}
		build := func() sched.Policy {
			p, err := policies.Build(name+",place=greedy,speculate=none", sched.Options{Seed: 1, Set: set})
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		w := trackertest.NewFakeCluster(t, build())
		w.Join("n1", 2, 1)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			w.Act()
		}
		if set["fallback"] == "none" {
			fixed, err := policies.Parse("fifo")
			if err != nil {
				t.Fatal(err)
			}
			w.Swap(fixed)
		}
		w.Settle(false)
	})
}
