package main

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

// TestLinear checks histories that users could have seen, and ones that no correct cluster gives.
func TestLinear(t *testing.T) {
	type op struct {
		from, to int64
		q        question
		a        answer
	}
	created := op{1, 2, question{verb: submits}, answer{job: "j1"}}
	seen := func(from, to int64, pool, priority string, killed bool) op {
		return op{from, to, question{verb: status}, answer{pool: pool, priority: priority, ended: killed}}
	}
	high := func(from, to int64, a answer) op { return op{from, to, question{verb: sets, value: "HIGH"}, a} }
	for name, c := range map[string]struct {
		right bool
		list  []op
	}{
		"one job":                                       {true, []op{created, high(3, 4, answer{}), seen(5, 6, "p0", "HIGH", false), {7, 8, question{verb: kills}, answer{}}, seen(9, 10, "p0", "HIGH", true)}},
		"a repeated request has the same job":           {true, []op{created, {3, 4, question{verb: submits}, answer{job: "j1"}}}},
		"a repeated request has another job":            {false, []op{created, {3, 4, question{verb: submits}, answer{job: "j2"}}}},
		"a read overlaps a change":                      {true, []op{created, high(3, 9, answer{}), seen(4, 5, "p0", "NORMAL", false), seen(6, 7, "p0", "HIGH", false)}},
		"a change that was seen is gone":                {false, []op{created, high(3, 9, answer{}), seen(4, 5, "p0", "HIGH", false), seen(6, 7, "p0", "NORMAL", false)}},
		"a read of a former leader":                     {false, []op{created, high(3, 4, answer{}), seen(5, 6, "p0", "NORMAL", false)}},
		"a change without an answer takes effect late":  {true, []op{created, high(3, 1<<62, answer{lost: true}), seen(5, 6, "p0", "NORMAL", false), seen(7, 8, "p0", "HIGH", false)}},
		"a change without an answer is undone":          {false, []op{created, high(3, 1<<62, answer{lost: true}), seen(5, 6, "p0", "HIGH", false), seen(7, 8, "p0", "NORMAL", false)}},
		"a killed job runs":                             {false, []op{created, {3, 4, question{verb: kills}, answer{}}, seen(5, 6, "p0", "NORMAL", false)}},
		"a killed job is moved":                         {false, []op{created, {3, 4, question{verb: kills}, answer{}}, {5, 6, question{verb: moves, value: "p1"}, answer{}}}},
		"a killed job is not moved":                     {true, []op{created, {3, 4, question{verb: kills}, answer{}}, {5, 6, question{verb: moves, value: "p1"}, answer{ended: true}}}},
		"a living job is refused":                       {false, []op{created, {5, 6, question{verb: moves, value: "p1"}, answer{ended: true}}}},
		"a submission without an answer made the job":   {true, []op{{1, 1 << 62, question{verb: submits}, answer{lost: true}}, {3, 4, question{verb: submits}, answer{job: "j1"}}}},
		"an accepted job is lost, and runs again anew":  {false, []op{created, high(3, 4, answer{}), {5, 6, question{verb: submits}, answer{job: "j2"}}, seen(7, 8, "p0", "NORMAL", false)}},
		"a move and a priority in any order, both seen": {true, []op{created, high(3, 8, answer{}), {4, 7, question{verb: moves, value: "p1"}, answer{}}, seen(9, 10, "p1", "HIGH", false)}},
	} {
		var history []porcupine.Operation
		for i, o := range c.list {
			history = append(history, porcupine.Operation{ClientId: i, Input: o.q, Call: o.from, Output: o.a, Return: o.to})
		}
		if got := porcupine.CheckOperations(jobModel, history); got != c.right {
			t.Errorf("%s: linearizable is %v", name, got)
		}
	}
}
