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
	leastTasks  = 200e3 // tasks a second on a full cluster, under every policy
	leastSimple = 500e3 // the same under fifo and fair
	mostRatio   = 2.    // time per task at 10,000 nodes, divided by that at 1,000
	mostDay     = 30.   // seconds of the processor for the day of the trace
	mostWide    = 5.    // seconds of the processor for 1,000 jobs on 100,000 nodes
)

// printTable writes the table that lab/results/performance.md shows.
func printTable(w io.Writer, rows []*row) {
	table := harness.NewTable(w, "work", "policy", "nodes", "tasks/s", "µs for a task", "events for a task", "M events/s", "peak memory", "whole run", "")
	for _, r := range rows {
		ns, cpu := harness.Median(r.each(sample.perTask)), harness.Median(r.each(sample.seconds))
		events := float64(r.rounds[0].events) / float64(r.rounds[0].decisions)
		table.Row(r.work, "`"+r.policy+"`", harness.Thousands(int64(r.nodes)), harness.Thousands(int64(1e9/ns)), fmt.Sprintf("%.2f", ns/1e3),
			fmt.Sprintf("%.1f", events), fmt.Sprintf("%.2f", 1e3/harness.Median(r.each(sample.perEvent))),
			fmt.Sprintf("%.1f MiB", float64(r.peak)/harness.MiB), fmt.Sprintf("%.1f s", cpu), r.outcome(rows))
	}
}

// outcome compares a row with its limits, and with the row of the same work and
// policy on a tenth of the nodes if there is one.
func (r *row) outcome(rows []*row) string {
	var texts []string
	switch r.work {
	case dayName:
		texts = append(texts, harness.Limit(harness.Median(r.each(sample.seconds)) < mostDay, fmt.Sprintf("must < %.0f s", mostDay)))
	case wideName:
		texts = append(texts, harness.Limit(harness.Median(r.each(sample.seconds)) < mostWide, fmt.Sprintf("must < %.0f s", mostWide)))
	case fullName:
		least := leastTasks
		if r.policy == "fifo" || r.policy == "fair" {
			least = leastSimple
		}
		texts = append(texts, harness.Limit(1e9/harness.Median(r.each(sample.perTask)) >= least, fmt.Sprintf("must ≥ %s tasks/s", harness.Thousands(int64(least)))))
	}
	for _, o := range rows {
		if o.work != r.work || o.policy != r.policy || o.nodes*10 != r.nodes {
			continue
		}
		ratios := harness.Ratios(r.each(sample.perTask), o.each(sample.perTask))
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
