// Package flex is the policy that a search over compositions of the papers' parts found. It
// has no part of its own; README.md states the contribution of each part.
package flex

import "github.com/slotwise/slotwise/sched"

// Row is the policy. Its parts are in the table of package policies.
var Row = sched.Row{Name: "flex", Summary: "fair pools; slots follow the work left, and none waits for what cannot run yet",
	Slots: "tumm", Order: "fair", Place: "greedy", Speculate: "gap",
	Set: map[string]string{
		// A slot that its kind of task leaves idle runs the other kind, without a limit.
		"fallback": "any",
		// A reduce holds no slot while maps of its job wait for one. It may fetch while the last
		// of them run.
		"early-reduces": "gate",
	}}
