package main

import (
	"fmt"
	"io"

	"github.com/slotwise/slotwise/lab/harness"
)

// report is the content of the file of results.
type report struct {
	Cores   int       `json:"cores"`
	Busy    float64   `json:"busy_before"` // share of the processors' time in use before the start
	Rounds  int       `json:"rounds"`
	Results []*result `json:"results"`
}

// print prints a mix, one line for each contestant.
func (r *result) print(w io.Writer) {
	fmt.Fprintf(w, "\n%s, %s: %s\n", r.Experiment, r.Mix, r.What)
	fmt.Fprintf(w, "  %-20s %8s %6s  %-13s %6s", "", "seconds", "gain", "least..most", "tasks")
	if r.Experiment == "behind" {
		fmt.Fprintf(w, " %9s %9s", "slowdown", "p95")
	}
	fmt.Fprintln(w)
	for i, t := range r.Timings {
		if t.Failed != "" {
			fmt.Fprintf(w, "  %-20s FAILED: %s\n", t.Name, t.Failed)
			continue
		}
		fmt.Fprintf(w, "  %-20s %8.3f %6.2f  %5.2f..%-5.2f  %6.2f", t.Name, t.Seconds, t.Gain, harness.Quantile(t.Gains, 0), harness.Quantile(t.Gains, 1), t.Tasks)
		if t.Mean > 0 {
			fmt.Fprintf(w, " %9.1f %9.1f", t.Mean, t.P95)
		}
		if i > 0 && r.Must > 0 {
			fmt.Fprint(w, "  ", harness.Limit(t.Gain >= r.Must, fmt.Sprintf("must ≥ %.2f", r.Must)))
		}
		fmt.Fprintln(w)
	}
}
