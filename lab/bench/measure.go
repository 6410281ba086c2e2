package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/slotwise/slotwise/lab/harness"
)

// result is a measured row. Outcomes has one entry for each limit of the row.
type result struct {
	Row      string    `json:"row"`
	What     string    `json:"what"`
	Timings  []*timing `json:"timings"` // ours first
	Outcomes []outcome `json:"verdicts"`
	Error    string    `json:"error,omitempty"`
}

// timing has the measurements of one contestant. Seconds, CPU and PeakRSS are medians over
// the rounds, and zero if the contestant is missing.
type timing struct {
	Name    string    `json:"name"`
	Bytes   int64     `json:"bytes"` // of input
	Seconds float64   `json:"seconds"`
	CPU     float64   `json:"cpu_seconds"` // of the process and the children that it waited for
	PeakRSS int64     `json:"peak_rss"`    // bytes, of the largest single process
	Runs    []float64 `json:"runs"`        // seconds of each round
	Missing string    `json:"missing,omitempty"`

	own  bool      // it is slotwise
	cpus []float64 // of each round
	rss  []int64   // bytes, of each round
}

// ok reports whether the row was measured and is within all its limits.
func (r *result) ok() bool {
	return r.Error == "" && !slices.ContainsFunc(r.Outcomes, func(o outcome) bool { return !o.OK })
}

// measure runs the contestants of a row in turns, compares their outputs after
// the first round, and compares the medians with the limits.
func (b *bench) measure(ctx context.Context, r row) (*result, error) {
	res := &result{Row: r.name, What: r.what}
	for _, c := range r.contestants {
		if err := c.input.make(ctx, b.binary()); err != nil {
			return nil, err
		}
		res.Timings = append(res.Timings, &timing{Name: c.name, Bytes: c.input.size, Missing: c.missing, own: c.own})
	}
	err := harness.Rounds(ctx, b.rounds, len(r.contestants), func(round, i int) error {
		if c := r.contestants[i]; c.missing == "" {
			if err := b.once(ctx, c, b.out(r, i), res.Timings[i]); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
		if round == 0 && i == len(r.contestants)-1 {
			return b.compare(ctx, r)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range r.contestants {
		if err := removeOut(b.out(r, i)); err != nil {
			return nil, err
		}
		res.Timings[i].summarize()
	}
	for _, l := range r.limits {
		res.Outcomes = append(res.Outcomes, l.judge(res.Timings))
	}
	return res, nil
}

// out returns the path of the output of the i-th contestant of a row.
func (b *bench) out(r row, i int) string {
	return filepath.Join(b.data, fmt.Sprintf("out-%s-%d", r.name, i))
}

// removeOut removes an output and the two scratch files that scripts may leave
// beside it.
func removeOut(out string) error {
	return errors.Join(os.RemoveAll(out), os.RemoveAll(out+".1"), os.RemoveAll(out+".2"))
}

// once runs a contestant and appends its time and memory to t. Cancelling ctx
// kills the contestant and all its descendants.
func (b *bench) once(ctx context.Context, c contestant, out string, t *timing) error {
	if err := removeOut(out); err != nil {
		return err
	}
	syscall.Sync() // so that no contestant pays for writing back the output of the one before
	argv := []string{"bash", "-c", "set -euo pipefail; " + c.shell}
	if c.shell == "" {
		argv = slices.Clone(c.argv)
	}
	for i := range argv {
		argv[i] = strings.ReplaceAll(argv[i], "{out}", out)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), c.env...)
	harness.InGroup(cmd)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	start := time.Now()
	err := cmd.Run()
	took := time.Since(start)
	if err != nil {
		return fmt.Errorf("%w: %s", err, lastLines(stderr.String(), 5))
	}
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	t.Runs = append(t.Runs, took.Seconds())
	t.cpus = append(t.cpus, (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
	t.rss = append(t.rss, usage.Maxrss*harness.KiB)
	return nil
}

// lastLines returns the last n lines of s, joined by semicolons.
func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "; ")
}

// summarize computes the medians over all rounds.
func (t *timing) summarize() {
	t.Seconds, t.CPU, t.PeakRSS = harness.Median(t.Runs), harness.Median(t.cpus), harness.Median(t.rss)
}

// canonical has, for each relation between outputs, the shell filter that makes
// two correct outputs equal byte for byte.
var canonical = map[sameness]string{
	exactly:    `cat`,
	asSorted:   `cat | sort -S 1G`,
	uniqCounts: `cat | sed -E 's/^ *([0-9]+) /\1 /' | sort -S 1G`,
}

// compare checks that the outputs of all contestants are the same by the row's
// relation. An output is a file or a directory of part files.
func (b *bench) compare(ctx context.Context, r row) error {
	form, ok := canonical[r.same]
	if !ok {
		return nil
	}
	first := ""
	for i, c := range r.contestants {
		if c.missing != "" || c.apart {
			continue
		}
		script := `set -euo pipefail; if [ -d "$1" ]; then find "$1" -type f -name '[!_.]*' -print0 | sort -z | xargs -0 cat; else cat "$1"; fi | ` + form + ` | sha256sum`
		cmd := exec.CommandContext(ctx, "bash", "-c", script, "compare", b.out(r, i))
		cmd.Env = append(os.Environ(), "LC_ALL=C")
		sum, err := cmd.Output()
		switch {
		case err != nil:
			return fmt.Errorf("output of %s: %w", c.name, err)
		case first == "":
			first = string(sum)
		case string(sum) != first:
			return fmt.Errorf("the outputs of %s and %s differ (%s, %s)", r.contestants[0].name, c.name, b.out(r, 0), b.out(r, i))
		}
	}
	return nil
}
