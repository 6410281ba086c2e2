package policies_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/sched/policies"
	"github.com/slotwise/slotwise/sched/schedtest"
)

// scripts is how many random scripts each property plays unless -rapid.checks sets
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
