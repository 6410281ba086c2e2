package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/lab/harness"
)

// recordings returns the directory of the recorded runs. It skips the test if there is
// none, which is a failure in continuous integration.
func recordings(t *testing.T) string {
	dir := os.Getenv("SLOTWISE_HADOOP121")
	if _, err := os.Stat(dir); dir == "" || err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("SLOTWISE_HADOOP121 names no directory of recorded runs")
		}
		t.Skip("SLOTWISE_HADOOP121 names no directory of recorded runs")
	}
	return dir
}

// The simulator keeps its goals on the runs that it was not calibrated on: with the
// nominal times of the tasks, and with the tasks of the job history.
func TestGoals(t *testing.T) {
	for _, history := range []bool{false, true} {
		runs, err := readAll(recordings(t), regexp.MustCompile(""), history)
		if err != nil {
			t.Fatal(err)
		}
		if len(runs) < 17 {
			t.Errorf("%d runs, want 17", len(runs))
		}
		var silent, others pool
		for _, r := range runs {
			if slices.Contains(calibration, r.name) {
				continue
			}
			c, err := compare(context.Background(), r, 5)
			if err != nil {
				t.Fatal(err)
			}
			p := &others
			if slices.Contains(quiet, r.name) {
				p = &silent
			}
			p.errors = append(p.errors, absolute(c.errors())...)
		}
		if m := harness.Median(silent.errors); len(silent.errors) != 30 || m > goalQuiet {
			t.Errorf("history %v, quiet runs: median error %s over %d jobs, want at most %s over 30", history, percent(m), len(silent.errors), percent(goalQuiet))
		}
		if m := harness.Median(others.errors); len(others.errors) != 98 || m > goalOthers {
			t.Errorf("history %v, runs beside others: median error %s over %d jobs, want at most %s over 98", history, percent(m), len(others.errors), percent(goalOthers))
		}
	}
}

func TestPage(t *testing.T) {
	dir := recordings(t)
	var out bytes.Buffer
	if err := run(context.Background(), []string{"-runs", dir, "-only", "fair-c$|fifo-kill", "-phases", "2", "-parts"}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# Simulated against a real Hadoop", "| fair-c | quiet | 10 |", "| fifo-kill | beside others | 7 |", "Quiet runs that nothing was calibrated on: 10 jobs", "| run | job | recorded |", "first map starts"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestMisuse(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-runs", t.TempDir()}, "no folder in it has a workload.json"},
		{[]string{"-runs", ".", "-only", "("}, "-only:"},
		{[]string{"-runs", ".", "-phases", "0"}, "usage: hadoop121"},
	} {
		if err := run(context.Background(), c.args, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
}
