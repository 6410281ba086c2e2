package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// printRow prints a row's contestants: what each took and how many times as
// long as ours, byte for byte.
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
			float64(t.Bytes)/mib/t.Seconds, t.CPU, t.PeakRSS/mib)
	}
	for _, v := range r.Verdicts {
		fmt.Fprintf(w, "  %-6s %s\n", v.word(), v.Text)
	}
}

// times returns how many times as long as u it took; for each byte, if their
// inputs are not of the same size.
func (t *timing) times(u *timing) float64 {
	return t.Seconds / u.Seconds * float64(max(u.Bytes, 1)) / float64(max(t.Bytes, 1))
}

// word is a verdict in one word.
func (v verdict) word() string {
	switch {
	case v.Skip:
		return "?"
	case !v.OK:
		return "MISSED"
	case !v.Aim:
		return "ok"
	}
	return "ok+"
}

// printSummary prints one table of all rows, in Markdown.
func printSummary(w io.Writer, results []*result) {
	fmt.Fprint(w, "\n| row | ours | MiB/s | peak | the others took, times ours | verdict |\n|---|---|---|---|---|---|\n")
	for _, r := range results {
		if r.Error != "" {
			fmt.Fprintf(w, "| %s | | | | | FAILED: %s |\n", r.Row, cell(r.Error))
			continue
		}
		var others, verdicts []string
		ours := r.Timings[0]
		for _, t := range r.Timings[1:] {
			if t.Missing != "" {
				others = append(others, cell(t.Name)+" missing")
				continue
			}
			others = append(others, fmt.Sprintf("%s %.2f", cell(t.Name), t.times(ours)))
		}
		for _, v := range r.Verdicts {
			verdicts = append(verdicts, v.word()+" "+cell(v.Text))
		}
		fmt.Fprintf(w, "| %s | %.3f s | %.0f | %d MiB | %s | %s |\n", r.Row, ours.Seconds,
			float64(ours.Bytes)/mib/ours.Seconds, ours.PeakRSS/mib, strings.Join(others, ", "), strings.Join(verdicts, "; "))
	}
}

// cell makes text fit a cell of a Markdown table.
func cell(s string) string { return strings.NewReplacer("\n", " ", "|", `\|`).Replace(s) }

// report is the file of results.
type report struct {
	Cores   int       `json:"cores"`
	Load    string    `json:"load_before"` // load averages when the run began
	Rounds  int       `json:"rounds"`
	Scale   float64   `json:"scale"`
	Workers int       `json:"workers"`
	Results []*result `json:"results"`
}

func writeJSON(name string, s *settings, results []*result) error {
	data, err := json.MarshalIndent(report{runtime.NumCPU(), s.load, s.rounds, s.scale, s.workers, results}, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), os.WriteFile(name, append(data, '\n'), 0o666))
}
