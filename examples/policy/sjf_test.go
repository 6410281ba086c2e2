package main

import (
	"testing"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/schedtest"
)

// The policy passes the suite that the built-in policies pass.
func TestConformance(t *testing.T) {
	schedtest.Conformance(t, schedtest.Config{Policy: "sjf", Tables: []sched.Table{policies}, Clock: time.Now})
}
