package main

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
)

// What must hold.
const (
	leastEvents = 1e6 // a second, of tasks of given time on 1,000 nodes
	mostRatio   = 2.  // of an event's time at 10,000 nodes to that at 1,000
	mostDay     = 30. // seconds of the processor for a day
)

// printTable writes the table, as in docs/performance.md.
func printTable(out io.Writer, rows []*row) error {
	w := bufio.NewWriter(out)
	fmt.Fprintln(w, "| work | policy | nodes | ns for an event | M events/s | decisions/s | peak memory | whole run | |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|---|")
	for _, r := range rows {
		if len(r.rounds) == 0 {
			continue
		}
		ns, cpu := r.median(sample.perEvent), r.median(func(s sample) float64 { return s.cpu.Seconds() })
		first := r.rounds[0]
		fmt.Fprintf(w, "| %s | `%s` | %s | %.0f | %.2f | %s | %.1f MiB | %.1f s | %s |\n", r.work, r.policy, thousands(int64(r.nodes)), ns, 1e3/ns,
			thousands(int64(float64(first.decisions)/cpu)), float64(r.peak)/(1<<20), cpu, r.verdict(rows))
	}
	return w.Flush()
}

// verdict holds a row against what must hold of it, or against the same of a tenth
// of the nodes.
func (r *row) verdict(rows []*row) string {
	var said []string
	if r.work == dayName {
		said = append(said, held(r.median(func(s sample) float64 { return s.cpu.Seconds() }) < mostDay, fmt.Sprintf("must < %.0f s", mostDay)))
	}
	if ns := r.median(sample.perEvent); r.nodes == 1000 && r.work == busyName {
		said = append(said, held(1e9/ns >= leastEvents, "must ≥ 1 M events/s"))
	}
	for _, o := range rows {
		if o.work != r.work || o.policy != r.policy || o.nodes*10 != r.nodes || len(o.rounds) != len(r.rounds) {
			continue
		}
		ratios := make([]float64, len(r.rounds))
		for i := range ratios {
			ratios[i] = r.rounds[i].perEvent() / o.rounds[i].perEvent()
		}
		slices.Sort(ratios)
		text := fmt.Sprintf("%.2f× %s nodes (%.2f to %.2f)", ratios[len(ratios)/2], thousands(int64(o.nodes)), ratios[0], ratios[len(ratios)-1])
		if r.nodes == 10000 {
			text = held(ratios[len(ratios)/2] <= mostRatio, text+fmt.Sprintf(" must ≤ %.0f", mostRatio))
		}
		said = append(said, text)
	}
	return strings.Join(said, "; ")
}

func held(ok bool, what string) string {
	if ok {
		return "ok " + what
	}
	return "MISSED " + what
}

// median is that of a number of the rounds.
func (r *row) median(of func(sample) float64) float64 {
	var list []float64
	for _, s := range r.rounds {
		list = append(list, of(s))
	}
	slices.Sort(list)
	return list[len(list)/2]
}

// thousands writes a number with commas.
func thousands(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
