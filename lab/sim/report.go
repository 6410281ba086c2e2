package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/slotwise/slotwise/lab/harness"
)

// The limits.
const (
	leastEvents = 1e6 // events a second, for tasks of given time on 1,000 nodes
	leastDay    = 2e6 // events a second, for the day of the trace
	mostRatio   = 2.  // time per event at 10,000 nodes, divided by that at 1,000
	mostDay     = 30. // seconds of the processor for the day of the trace
)

// printTable writes the table that lab/results/performance.md shows.
func printTable(w io.Writer, rows []*row) {
	table := harness.NewTable(w, "work", "policy", "nodes", "ns for an event", "M events/s", "decisions/s", "peak memory", "whole run", "")
	for _, r := range rows {
		ns, cpu := harness.Median(r.each(sample.perEvent)), harness.Median(r.each(sample.seconds))
		decisions := int64(float64(r.rounds[0].decisions) / cpu)
		table.Row(r.work, "`"+r.policy+"`", harness.Thousands(int64(r.nodes)), fmt.Sprintf("%.0f", ns), fmt.Sprintf("%.2f", 1e3/ns),
			harness.Thousands(decisions), fmt.Sprintf("%.1f MiB", float64(r.peak)/harness.MiB), fmt.Sprintf("%.1f s", cpu), r.outcome(rows))
	}
}

// outcome compares a row with its limits, and with the row of the same work and
// policy on a tenth of the nodes if there is one.
func (r *row) outcome(rows []*row) string {
	var texts []string
	if r.work == dayName {
		texts = append(texts, harness.Limit(harness.Median(r.each(sample.seconds)) < mostDay, fmt.Sprintf("must < %.0f s", mostDay)),
			harness.Limit(1e9/harness.Median(r.each(sample.perEvent)) >= leastDay, "must ≥ 2 M events/s"))
	}
	if ns := harness.Median(r.each(sample.perEvent)); r.nodes == 1000 && r.work == busyName {
		texts = append(texts, harness.Limit(1e9/ns >= leastEvents, "must ≥ 1 M events/s"))
	}
	for _, o := range rows {
		if o.work != r.work || o.policy != r.policy || o.nodes*10 != r.nodes {
			continue
		}
		ratios := harness.Ratios(r.each(sample.perEvent), o.each(sample.perEvent))
		median := harness.Median(ratios)
		text := fmt.Sprintf("%.2f× %s nodes (%.2f to %.2f)", median, harness.Thousands(int64(o.nodes)), slices.Min(ratios), slices.Max(ratios))
		if r.nodes == 10000 {
			text = harness.Limit(median <= mostRatio, text+fmt.Sprintf(" must ≤ %.0f", mostRatio))
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

// each returns one number of every round.
func (r *row) each(of func(sample) float64) []float64 {
	list := make([]float64, len(r.rounds))
	for i, s := range r.rounds {
		list[i] = of(s)
	}
	return list
}
