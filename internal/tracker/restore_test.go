package tracker_test

import (
	"slices"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// TestWrongFacts restores a tracker from a log in which one fact is wrong by itself or
// contradicts those before it. Every such log is refused: a tracker that passed over a fact
// would schedule on nodes and run attempts that no other part of the cluster has.
func TestWrongFacts(t *testing.T) {
	spec := job.Spec{Request: job.Request{User: "u", SlowStart: -1}, Splits: make([]job.Split, 2), Reduces: 1}
	node := cluster.Spec{Name: "n1", MapSlots: 1, ReduceSlots: 1}
	attempt := func(index, try int32) job.AttemptID {
		return job.AttemptID{TaskID: job.TaskID{Job: 1, Kind: job.Map, Index: index}, Number: try}
	}
	good := []tracker.Fact{
		&tracker.FactJoined{Node: node},
		&tracker.FactAccepted{Job: 1, Spec: spec},
		&tracker.FactLaunched{Attempt: attempt(0, 0), Node: "n1", Slot: job.Map},
	}
	restore := func(facts ...tracker.Fact) error {
		_, err := tracker.Restore(tracker.Config{NodeTimeout: time.Minute, Record: true}, testPolicy(t, "copies"), 0, slices.Values(facts))
		return err
	}
	if err := restore(good...); err != nil {
		t.Fatal(err)
	}
	for name, wrong := range map[string]tracker.Fact{
		"a node without a name":          &tracker.FactJoined{Node: cluster.Spec{MapSlots: 1}},
		"a node with negative slots":     &tracker.FactJoined{Node: cluster.Spec{Name: "n2", MapSlots: -1}},
		"a node with too many slots":     &tracker.FactJoined{Node: cluster.Spec{Name: "n2", ReduceSlots: 1 << 30}},
		"a node with negative memory":    &tracker.FactJoined{Node: cluster.Spec{Name: "n2", MemoryBytes: -1}},
		"a job with negative reduces":    &tracker.FactAccepted{Job: 2, Spec: job.Spec{Reduces: -1, Request: job.Request{SlowStart: -1}}},
		"a job that is known":            &tracker.FactAccepted{Job: 1, Spec: spec},
		"job 0":                          &tracker.FactAccepted{Job: 0, Spec: spec},
		"the end of an unknown node":     &tracker.FactLeft{Node: "n2"},
		"the end of a node with work":    &tracker.FactLeft{Node: "n1"},
		"a drain of an unknown node":     &tracker.FactDrained{Node: "n2"},
		"faults of an unknown node":      &tracker.FactFaults{Node: "n2"},
		"an unknown node on a list":      &tracker.FactGraylisted{Node: "n2"},
		"a priority of an unknown job":   &tracker.FactPriority{Job: 2},
		"a pool of an unknown job":       &tracker.FactPool{Job: 2},
		"counters of an unknown job":     &tracker.FactCounted{Job: 2},
		"an outcome of an unknown job":   &tracker.FactOutcome{Job: 2, Outcome: job.Failed},
		"an outcome of a running job":    &tracker.FactOutcome{Job: 1, Outcome: job.Failed},
		"an end without an outcome":      &tracker.FactJobEnded{Job: 1, State: job.Failed},
		"a kill without a commit":        &tracker.FactCommitCancelled{Job: 1, Reason: "x"},
		"the same attempt again":         &tracker.FactLaunched{Attempt: attempt(0, 0), Node: "n1"},
		"an attempt out of turn":         &tracker.FactLaunched{Attempt: attempt(1, 1), Node: "n1"},
		"an attempt on an unknown node":  &tracker.FactLaunched{Attempt: attempt(1, 0), Node: "n2"},
		"an attempt of a missing task":   &tracker.FactLaunched{Attempt: attempt(7, 0), Node: "n1"},
		"a permission without attempt":   &tracker.FactGranted{Attempt: attempt(1, 0)},
		"an end without attempt":         &tracker.FactEnded{Attempt: attempt(1, 0), State: job.AttemptFailed},
		"a failed fetch without output":  &tracker.FactFetchFailed{Map: attempt(0, 0)},
		"a lost output that never was":   &tracker.FactOutputLost{Map: attempt(0, 0)},
		"the past of a task that runs":   &tracker.FactTask{Task: job.TaskID{Job: 1, Kind: job.Map}},
		"the past of a missing task":     &tracker.FactTask{Task: job.TaskID{Job: 1, Kind: job.Map, Index: 9}},
		"a past without its attempts":    &tracker.FactTask{Task: job.TaskID{Job: 1, Kind: job.Map, Index: 1}, Nodes: []string{"n1"}},
		"a past of a node that is alien": &tracker.FactTask{Task: job.TaskID{Job: 1, Kind: job.Map, Index: 1}, Nodes: []string{"n2"}, Past: job.Past{Attempts: make([]job.PastAttempt, 1)}},
	} {
		if err := restore(append(slices.Clone(good), wrong)...); err == nil {
			t.Errorf("%s is taken over", name)
		}
	}
}
