package protocol

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/base/counters"
	"github.com/slotwise/slotwise/internal/tracker"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// someFacts returns one or more facts of each type, with all fields set.
func someFacts() []tracker.Fact {
	counted := &counters.Set{}
	counted.Add(counters.Spills, 3)
	counted.AddUser("lines", 4)
	id := job.AttemptID{TaskID: job.TaskID{Job: 3, Kind: job.Reduce, Index: 5}, Number: 2}
	return []tracker.Fact{
		&tracker.FactAccepted{Job: 3, Spec: job.Spec{
			Name: "n", Request: job.Request{User: "u", Pool: "p", Priority: job.Low, SlowStart: 0.5, MaxAttempts: 7, TaskTimeout: -1, NoSpeculation: true, Hints: [job.Kinds]job.Ratings{{CPU: 1}, {Network: 10}}}, Splits: make([]job.Split, 4), Reduces: 2,
		}, At: 1},
		&tracker.FactPriority{Job: 3, Priority: job.VeryLow},
		&tracker.FactPool{Job: 3, Pool: "q"},
		&tracker.FactOutcome{Job: 3, Outcome: job.Failed, Culprit: &id.TaskID, Message: "m", At: 2},
		&tracker.FactOutcome{Job: 3, Outcome: job.Succeeded, At: 2},
		&tracker.FactCommitCancelled{Job: 3, Reason: "r"},
		&tracker.FactJobEnded{Job: 3, State: job.Failed, Message: "m", At: 2},
		&tracker.FactLaunched{Attempt: id, Node: "w", Slot: job.Map, Width: 3, Level: cluster.RACK, Speculative: true, Label: -4, At: 3},
		&tracker.FactGranted{Attempt: id},
		&tracker.FactEnded{Attempt: id, State: job.AttemptLost, Error: "e", LogTail: "l", OutputBytes: 9, At: 4},
		&tracker.FactEnded{Attempt: id, State: job.AttemptFailed, Error: "e", Cause: job.CauseStorage, Excused: true, RetryAt: 7, At: 4},
		&tracker.FactEnded{Attempt: id, State: job.AttemptFailed, Error: "e", Cause: job.CausePermanent, At: 4},
		&tracker.FactEnded{Attempt: id, State: job.AttemptSucceeded, Counters: counted, At: 4},
		&tracker.FactCounted{Job: 3, Counters: [job.Kinds]counters.Set{{}, counted.Clone()}, LastError: "e", LogTail: "l"},
		&tracker.FactFetchFailed{Map: id},
		&tracker.FactOutputLost{Map: id, Blame: true, Error: "e", At: 5},
		&tracker.FactJoined{Node: cluster.Spec{Name: "w", Host: "h", Rack: "/r", MapSlots: 1, ReduceSlots: 2, Cores: 3, Speed: 1.5, MemoryBytes: 4}, At: 6},
		&tracker.FactLeft{Node: "w", Why: "silent", At: 7},
		&tracker.FactDrained{Node: "w", Undo: true, At: 8},
		&tracker.FactGraylisted{Node: "w", Undo: true, At: 9},
		&tracker.FactFaults{Node: "w", Faults: []cluster.Fault{{At: 1, Job: 2, User: "ann"}, {At: 3, Job: 4, User: "bob"}}},
		&tracker.FactCounts{Jobs: 8, Launches: 9},
		&tracker.FactTask{Task: id.TaskID, Nodes: []string{"w", "x"}, Past: job.Past{
			FetchFailures: 1, PendingSince: 2, DoneAt: 3, LastFailure: 4, Outages: 5, OutageSince: 6, RetryAt: 7, Attempts: []job.PastAttempt{
				{Launch: job.Launch{Slot: job.Reduce, Level: cluster.ANY, Speculative: true, Label: 5}, State: job.AttemptFailed, Granted: true, Seq: 6, Started: 7, Ended: 8, Error: "e", OutputBytes: 9, Cause: job.CauseNode, Excused: true},
				{},
			},
		}},
	}
}

// sameCounters compares Sets, none of which may be missing where the other is not.
var sameCounters = cmp.Options{
	cmp.Comparer(func(a, b *counters.Set) bool { return a == nil && b == nil || a != nil && b != nil && a.Equal(b) }),
	cmp.Comparer(func(a, b counters.Set) bool { return a.Equal(&b) }),
}

// TestFacts encodes facts as records and decodes them. It fails if a type of fact is not
// tested.
func TestFacts(t *testing.T) {
	details := &slotwisev1.JournalJob{Job: 3, Spec: &slotwisev1.JobSpec{
		Name: "n", User: "u", Synthetic: 4, Reduces: 2, NoSpeculation: true,
		MapProfile: &slotwisev1.Profile{Cpu: 1}, ReduceProfile: &slotwisev1.Profile{Network: 10},
	}}
	var tested []string
	for _, f := range someFacts() {
		tested = append(tested, reflect.TypeOf(f).Elem().Name())
		b, err := proto.Marshal(encodeFact(f))
		if err != nil {
			t.Fatal(err)
		}
		r := &slotwisev1.JournalRecord{}
		if err := proto.Unmarshal(b, r); err != nil {
			t.Fatal(err)
		}
		got, err := decodeFact(r, func(job.ID) *slotwisev1.JournalJob { return details })
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(f, got, sameCounters); diff != "" {
			t.Errorf("%T: %s", f, diff)
		}
	}
	file, err := parser.ParseFile(token.NewFileSet(), "../../../tracker/fact.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == "fact" {
			if name := fn.Recv.List[0].Type.(*ast.StarExpr).X.(*ast.Ident).Name; !slices.Contains(tested, name) {
				t.Errorf("no test of %s", name)
			}
		}
	}
}
