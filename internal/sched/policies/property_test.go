package policies

import (
	"flag"
	"os"
	"testing"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/tracker/trackertest"
	"github.com/slotwise/slotwise/sched"
)

// checks is how many random lives each property plays unless -rapid.checks says
// otherwise: there are many policies.
const checks = "40"

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		if err := f.Value.Set(checks); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// conserving are the policies that promise to leave no slot free while a task
// could use it.
var conserving = map[string]bool{"fifo": true}

// boundless are the policies that judge what a node bears by themselves.
var boundless = map[string]bool{"learning-nb": true, "learning-perceptron": true}

// Every named policy keeps the promises that trackertest.World lists, ends
// every job once nodes behave well, takes over from another policy and hands
// over to one in mid-flight, goes on after a restart, and decides the same when it is told the same.
func TestEveryPolicyKeepsItsPromises(t *testing.T) {
	names := Names()
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) { live(t, name) })
		})
	}
}

// live plays one random life of a cluster under a policy, with another policy
// before or after it at times, or a restart of the tracker in between.
func live(t *rapid.T, name string) {
	first, next, restart := name, []string(nil), false
	switch rapid.IntRange(0, 6).Draw(t, "swap") {
	case 0:
		first, next = Default, []string{name}
	case 1:
		next = []string{Default, name}
	case 2, 3:
		next, restart = []string{name}, true
	}
	w := trackertest.NewWorld(t, build(t, first))
	w.Boundless = boundless[name]
	w.Join("n1", 2, 1)
	for i, phase := range append([]string{first}, next...) {
		switch {
		case i > 0 && restart:
			w.Restart(build(t, phase))
		case i > 0:
			w.Swap(build(t, phase))
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			w.Act()
		}
	}
	w.Settle(conserving[name])
	var again []sched.Policy
	for _, n := range next {
		again = append(again, build(t, n))
	}
	w.Replay(build(t, first), again...)
}

func build(t *rapid.T, name string) sched.Policy {
	p, err := Build(name, sched.Options{Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	return p
}
