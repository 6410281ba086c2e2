package report_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/virtual/report"
	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched/job"
)

// The table of events has a row for each line of the text form, in the same order, and its
// columns agree with the texts. A node crashes, so that there are events of most kinds.
func TestEventTable(t *testing.T) {
	policy, err := policies.Parse("fifo")
	if err != nil {
		t.Fatal(err)
	}
	task := workload.Task{Duration: 20 * time.Second}
	jobs := []workload.Job{{Name: "a", Maps: []workload.Task{task, task, task, task}, Reduces: []workload.Task{task}, Request: job.Request{SlowStart: -1}}, {Name: "b", Maps: []workload.Task{task}}}
	var text, table bytes.Buffer
	logs := []report.EventLog{report.NewEventLog("log", &text), report.NewEventLog("log.parquet", &table)}
	_, err = sim.Run(sim.Config{Policy: policy, Jobs: jobs, Cluster: workload.Cluster{Groups: []workload.NodeGroup{{Count: 3, MapSlots: 1, ReduceSlots: 1}}},
		Model: sim.ModelConfig{Heartbeat: "fixed:1s", NodeTimeout: 10 * time.Second, Crashes: []sim.Crash{{Node: 1, At: 25 * time.Second}}, CommitTime: time.Second},
		Trace: func(now time.Duration, ev tracker.Event, effects []tracker.Effect) {
			for _, l := range logs {
				l.Write(now, ev, effects)
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range logs {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := parquet.Read[report.Happening](bytes.NewReader(table.Bytes()), int64(table.Len()))
	if err != nil {
		t.Fatal(err)
	}
	kinds := make(map[string]int)
	var again strings.Builder
	step := int64(0)
	for _, r := range rows {
		indent := ""
		if r.Effect {
			indent = "  "
		} else {
			step++
		}
		fmt.Fprintf(&again, "%.3f %s%s\n", r.Time, indent, r.Text)
		kinds[r.Kind]++
		if r.Step != step || !strings.Contains(r.Text, r.Node) || !strings.Contains(r.Text, r.Attempt) || !strings.Contains(r.Text, r.Job) ||
			!strings.Contains(r.Text, r.State) {
			t.Errorf("step %d: %+v", step, r)
		}
	}
	if again.String() != text.String() {
		t.Errorf("the table says\n%s, the text\n%s", &again, &text)
	}
	for _, k := range []string{"submit", "join", "heartbeat", "ask commit", "tick", "accepted", "launch", "commit granted", "map output of",
		"output lost of", "commit output", "committed", "done"} {
		if kinds[k] == 0 {
			t.Errorf("no row of the kind %q in %v", k, kinds)
		}
	}
}
