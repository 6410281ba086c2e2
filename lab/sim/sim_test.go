package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/policies"
)

// TestRun runs the whole command on small clusters.
func TestRun(t *testing.T) {
	t.Setenv("SLOTWISE_TRACES", t.TempDir()) // no day
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-n", "1"}, &out, io.Discard, []int{5, 50}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| tasks of given time | `fifo` | 5 |", "| tasks of given time | `fair` | 50 |", "| tasks in stages | `fifo` | 50 |", "× 5 nodes",
		"| `modfair` | "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 2+6+3+len(policies.Names()) {
		t.Errorf("%d lines", n)
	}
}

func TestRunStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, []string{"-n", "1", "-only", "^fair"}, io.Discard, io.Discard, []int{5}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if err := run(ctx, []string{"-n", "0"}, io.Discard, io.Discard, nil); err == nil {
		t.Error("no rounds are accepted")
	}
}

// Heartbeats of a cluster that cost more than the limit are named.
func TestBeatOutcome(t *testing.T) {
	r := &beatRow{policy: "fair", idle: []float64{1, 2, 3}, busy: []float64{9, 11, 12}, tasks: 10, bytes: 5000}
	if got := r.outcome(); got != "MISSED must ≤ 10 µs" {
		t.Error(got)
	}
	if r.busy = []float64{9, 9, 12}; r.outcome() != "ok must ≤ 10 µs" {
		t.Error(r.outcome())
	}
}

func TestOutcomes(t *testing.T) {
	small := &row{work: busyName, policy: "fair", nodes: 1000, rounds: []sample{{cpu: 500, decisions: 1}, {cpu: 2000, decisions: 1}, {cpu: 600, decisions: 1}}}
	large := &row{work: busyName, policy: "fair", nodes: 10000, rounds: []sample{{cpu: 1500, decisions: 1}, {cpu: 3000, decisions: 1}, {cpu: 1260, decisions: 1}}}
	rows := []*row{small, large}
	if got := large.outcome(rows); got != "MISSED 2.10× 1,000 nodes (1.50 to 3.00) must ≤ 2" {
		t.Error(got)
	}
	day := &row{work: dayName, nodes: 600, rounds: []sample{{cpu: 31e9, decisions: 1}}}
	if got := day.outcome(nil); got != "MISSED must < 30 s" {
		t.Error(got)
	}
	full := &row{work: fullName, policy: "tumm", rounds: []sample{{cpu: 4e9, decisions: 1e6}}}
	if got := full.outcome(nil); got != "ok must ≥ 200,000 tasks/s" {
		t.Error(got)
	}
	if full.policy = "fifo"; full.outcome(nil) != "MISSED must ≥ 500,000 tasks/s" {
		t.Error(full.outcome(nil))
	}
}
