package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"

	"github.com/slotwise/slotwise/internal/tracker/fullload"
	"github.com/slotwise/slotwise/lab/harness"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
)

// beatRow measures the heartbeats of a busy cluster under a policy, with the tracker
// alone.
type beatRow struct {
	policy      string
	jobs, nodes int
	idle, busy  []float64 // microseconds per heartbeat, by round
	tasks       int
	bytes       uint64 // live heap of the tracker and the policy
}

// mostBeat is the limit for a heartbeat in microseconds.
const mostBeat = 10.

// beatRows returns a row for each policy, on the largest of the given sizes.
func beatRows(sizes []int) []*beatRow {
	var rows []*beatRow
	nodes := slices.Max(sizes)
	for _, policy := range policies.Names() {
		rows = append(rows, &beatRow{policy: policy, jobs: min(1000, nodes), nodes: nodes})
	}
	return rows
}

func (r *beatRow) name() string { return fmt.Sprintf("%s, %d nodes, heartbeats", r.policy, r.nodes) }

// measure implements contestant. Each node sends one heartbeat of either kind.
func (r *beatRow) measure(context.Context) error {
	p, err := policies.Build(r.policy, sched.Options{Seed: 1, Set: fullload.Settings(r.policy)})
	if err != nil {
		return err
	}
	before := heap()
	c := fullload.New(p, r.jobs, r.nodes)
	r.tasks, r.bytes = c.Tasks, heap()-before
	each := func(play func(int)) float64 {
		began := harness.ProcessorTime()
		play(r.nodes)
		return float64((harness.ProcessorTime() - began).Nanoseconds()) / 1e3 / float64(r.nodes)
	}
	r.idle, r.busy = append(r.idle, each(c.Idle)), append(r.busy, each(c.Work))
	runtime.KeepAlive(c)
	return nil
}

// outcome compares a row with the limit.
func (r *beatRow) outcome() string {
	return harness.Limit(max(harness.Median(r.idle), harness.Median(r.busy)) <= mostBeat, fmt.Sprintf("must ≤ %.0f µs", mostBeat))
}

// printBeats writes the table of heartbeats that lab/results/performance.md shows.
func printBeats(w io.Writer, rows []*beatRow) {
	fmt.Fprintln(w)
	table := harness.NewTable(w, "policy", "nodes", "jobs", "µs for an idle heartbeat", "µs for a launch", "bytes for a task", "")
	for _, r := range rows {
		table.Row("`"+r.policy+"`", harness.Thousands(int64(r.nodes)), harness.Thousands(int64(r.jobs)), fmt.Sprintf("%.1f", harness.Median(r.idle)),
			fmt.Sprintf("%.1f", harness.Median(r.busy)), fmt.Sprint(r.bytes/uint64(r.tasks)), r.outcome())
	}
}
