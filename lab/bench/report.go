package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/slotwise/slotwise/lab/harness"
)

// report is the content of the file of results.
type report struct {
	Cores   int       `json:"cores"`
	Load    string    `json:"load_before"` // load averages when the run began
	Rounds  int       `json:"rounds"`
	Scale   float64   `json:"scale"`
	Workers int       `json:"workers"`
	Results []*result `json:"results"`
}

// printRow prints what each contestant of a row took, and its time as a multiple
// of the time that slotwise took.
func printRow(w io.Writer, r *result) {
	fmt.Fprintf(w, "\n%s: %s\n", r.Row, r.What)
	if r.Error != "" {
		fmt.Fprintf(w, "  FAILED: %s\n", r.Error)
		return
	}
	fmt.Fprintf(w, "  %-22s %9s %9s %9s %9s %9s\n", "", "seconds", "ratio", "MiB/s", "CPU s", "peak MiB")
	for _, t := range r.Timings {
		if t.Missing != "" {
			fmt.Fprintf(w, "  %-22s %s\n", t.Name, t.Missing)
			continue
		}
		fmt.Fprintf(w, "  %-22s %9.3f %9.2f %9.0f %9.2f %9d\n", t.Name, t.Seconds, t.times(r.Timings[0]),
			float64(t.Bytes)/harness.MiB/t.Seconds, t.CPU, t.PeakRSS/harness.MiB)
	}
	for _, o := range r.Outcomes {
		fmt.Fprintf(w, "  %-6s %s\n", o.word(), o.Text)
	}
}

// times returns t's time as a multiple of u's, per byte of input where their
// inputs differ in size.
func (t *timing) times(u *timing) float64 {
	return t.Seconds / u.Seconds * float64(max(u.Bytes, 1)) / float64(max(t.Bytes, 1))
}

// printSummary prints one Markdown table of all rows.
func printSummary(w io.Writer, results []*result) {
	fmt.Fprintln(w)
	table := harness.NewTable(w, "row", "ours", "MiB/s", "CPU s/GiB", "peak", "the others' times, as multiples of ours", "limits")
	for _, r := range results {
		if r.Error != "" {
			table.Row(r.Row, "", "", "", "", "", "FAILED: "+r.Error)
			continue
		}
		var others, outcomes []string
		ours := r.Timings[0]
		for _, t := range r.Timings[1:] {
			if t.Missing != "" {
				others = append(others, t.Name+" missing")
				continue
			}
			others = append(others, fmt.Sprintf("%s %.2f", t.Name, t.times(ours)))
		}
		for _, o := range r.Outcomes {
			outcomes = append(outcomes, o.word()+" "+o.Text)
		}
		table.Row(r.Row, fmt.Sprintf("%.3f s", ours.Seconds), fmt.Sprintf("%.0f", float64(ours.Bytes)/harness.MiB/ours.Seconds),
			fmt.Sprintf("%.1f", ours.CPU*harness.GiB/float64(max(ours.Bytes, 1))), fmt.Sprintf("%d MiB", ours.PeakRSS/harness.MiB), strings.Join(others, ", "), strings.Join(outcomes, "; "))
	}
}

// printPatterns prints a Markdown table of the pattern rows, with the shortest time and the least
// processor time of all rounds: other work on the machine only ever adds to them.
func printPatterns(w io.Writer, results []*result) {
	var times, cpus []float64
	var table harness.Table
	for _, r := range results {
		kind, ok := strings.CutPrefix(r.Row, patternRow)
		if !ok || r.Error != "" || r.Timings[1].Missing != "" {
			continue
		}
		if times == nil {
			fmt.Fprintln(w)
			table = harness.NewTable(w, "pattern", "slotwise", "ripgrep", "time, of ripgrep's", "CPU s", "ripgrep", "CPU, of ripgrep's")
		}
		ours, other := r.Timings[0], r.Timings[1]
		time, cpu := slices.Min(ours.Runs)/slices.Min(other.Runs), slices.Min(ours.cpus)/slices.Min(other.cpus)
		times, cpus = append(times, time), append(cpus, cpu)
		table.Row(kind, fmt.Sprintf("%.0f ms", 1e3*slices.Min(ours.Runs)), fmt.Sprintf("%.0f ms", 1e3*slices.Min(other.Runs)), fmt.Sprintf("%.2f", time),
			fmt.Sprintf("%.3f", slices.Min(ours.cpus)), fmt.Sprintf("%.3f", slices.Min(other.cpus)), fmt.Sprintf("%.2f", cpu))
	}
	if times != nil {
		table.Row("median; most", "", "", fmt.Sprintf("%.2f; %.2f", harness.Median(times), slices.Max(times)), "", "", fmt.Sprintf("%.2f; %.2f", harness.Median(cpus), slices.Max(cpus)))
	}
}
