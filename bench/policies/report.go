package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// report is the file of results.
type report struct {
	Cores   int       `json:"cores"`
	Busy    float64   `json:"busy_before"` // share of the processors' time that other work took
	Rounds  int       `json:"rounds"`
	Results []*result `json:"results"`
}

// write writes the file, if there is to be one.
func (r *report) write(name string) error {
	if name == "" {
		return nil
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), os.WriteFile(name, append(data, '\n'), 0o666))
}

// print prints a mix: a line for each way.
func (r *result) print(w io.Writer) {
	fmt.Fprintf(w, "\n%s, %s: %s\n", r.Experiment, r.Mix, r.What)
	fmt.Fprintf(w, "  %-20s %8s %6s  %-13s %6s", "", "seconds", "gain", "least..most", "tasks")
	if r.Experiment == "behind" {
		fmt.Fprintf(w, " %9s %9s", "slowdown", "p95")
	}
	fmt.Fprintln(w)
	for i, t := range r.Ways {
		if t.Failed != "" {
			fmt.Fprintf(w, "  %-20s FAILED: %s\n", t.Name, t.Failed)
			continue
		}
		fmt.Fprintf(w, "  %-20s %8.3f %6.2f  %5.2f..%-5.2f  %6.2f", t.Name, t.Seconds, t.Gain,
			quantile(t.Gains, 0), quantile(t.Gains, 1), t.Tasks)
		if t.Mean > 0 {
			fmt.Fprintf(w, " %9.1f %9.1f", t.Mean, t.P95)
		}
		fmt.Fprintln(w, r.verdict(i))
	}
}

// verdict says how a way stands to the demand, "" if there is none.
func (r *result) verdict(i int) string {
	switch t := r.Ways[i]; {
	case i == 0 || r.Must == 0:
		return ""
	case t.Gain >= r.Must:
		return "  ok"
	default:
		return fmt.Sprintf("  MISSED: must be %.2f", r.Must)
	}
}

// cpuBusy measures for a second how busy the processors are, 0 to 1; 0 where that
// cannot be measured.
func cpuBusy() float64 {
	idle1, all1 := cpuTimes()
	time.Sleep(time.Second)
	idle2, all2 := cpuTimes()
	if all2 <= all1 {
		return 0
	}
	return 1 - (idle2-idle1)/(all2-all1)
}

// cpuTimes reads the idle and the whole time of all processors.
func cpuTimes() (idle, all float64) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	line, _, _ := strings.Cut(string(data), "\n")
	for i, f := range strings.Fields(line)[1:] {
		var x float64
		fmt.Sscan(f, &x)
		all += x
		if i == 3 || i == 4 { // idle, and waiting for disks
			idle += x
		}
	}
	return idle, all
}
