package policies_test

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/schedtest"
)

// scripts is the number of random scripts that each property plays unless -rapid.checks sets
// another number. There are many policies.
const scripts = "25"

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		if err := f.Value.Set(scripts); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// Every built-in policy passes the suite that policies of others pass.
func TestConformance(t *testing.T) {
	for _, name := range policies.Names() {
		t.Run(name, func(t *testing.T) { schedtest.Conformance(t, conformance(name)) })
	}
}

// References that kill tasks pass the suite as well.
func TestConformanceOfKilling(t *testing.T) {
	for _, name := range []string{"srpt", "psjf"} {
		c := conformance(name)
		c.Set = map[string]string{"kill-larger": "true", "kill-interval": "1s"}
		t.Run(name, func(t *testing.T) { schedtest.Conformance(t, c) })
	}
}

// A running cluster does not know the sizes of jobs and starts no job again. It refuses the
// policies that need that, and compositions with their orders.
func TestReferencesAreNotForClusters(t *testing.T) {
	for _, name := range append(policies.Names(), "fair,order=srpt", "fair,order=tags-classic") {
		p, err := policies.Build(name, sched.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = policies.Build(name, sched.Options{Live: true})
		hooks, want := sched.HooksOf(p), ""
		if len(hooks.Sizes) > 0 {
			want = "needs the sizes of jobs in advance"
		} else if len(hooks.Restarters) > 0 {
			want = "starts jobs again from the beginning"
		}
		if (want != "") != (err != nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: on a running cluster: %v, want %q", name, err, want)
		}
	}
}

// conformance returns the configuration of the suite for a built-in policy.
func conformance(name string) schedtest.Config {
	c := schedtest.Config{Policy: name, Clock: time.Now}
	switch name {
	case "fifo":
		c.WorkConserving = true
	case "learning-nb", "learning-perceptron":
		c.OwnLimits = true
		c.CostRatio = 200 // the paper weighs every job at every decision
	}
	return c
}
