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
)

// result is a measured row.
type result struct {
	Row      string    `json:"row"`
	What     string    `json:"what"`
	Timings  []*timing `json:"timings"` // ours first
	Verdicts []verdict `json:"verdicts"`
	Error    string    `json:"error,omitempty"`
}

// timing is what one contestant took; all but Runs are medians.
type timing struct {
	Name    string    `json:"name"`
	Bytes   int64     `json:"bytes"` // of input
	Seconds float64   `json:"seconds"`
	CPU     float64   `json:"cpu_seconds"` // of the process and all that it waited for
	PeakRSS int64     `json:"peak_rss"`    // bytes, of the largest single process
	Runs    []float64 `json:"runs"`        // seconds of each round
	Missing string    `json:"missing,omitempty"`

	cpus []float64
	rss  []int64
}

// ok reports whether the row was measured and everything that must hold does.
func (r *result) ok() bool {
	return r.Error == "" && !slices.ContainsFunc(r.Verdicts, func(v verdict) bool { return !v.OK })
}

// measure runs the contestants of a row in turns and judges them.
func (b *bench) measure(ctx context.Context, r row) (*result, error) {
	res := &result{Row: r.name, What: r.what}
	for _, c := range r.contestants {
		if err := c.input.make(ctx, b.binary()); err != nil {
			return nil, err
		}
		res.Timings = append(res.Timings, &timing{Name: c.name, Bytes: c.input.size, Missing: c.missing})
	}
	for round := range b.rounds {
		for i, c := range r.contestants {
			if c.missing != "" {
				continue
			}
			if err := b.once(ctx, c, b.out(r, i), res.Timings[i]); err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
		}
		if round == 0 {
			if err := b.compare(ctx, r); err != nil {
				return nil, err
			}
		}
	}
	for i := range r.contestants {
		if err := removeOut(b.out(r, i)); err != nil {
			return nil, err
		}
		res.Timings[i].summarize()
	}
	for _, l := range r.limits {
		res.Verdicts = append(res.Verdicts, l.judge(res.Timings))
	}
	return res, nil
}

// out names the output of the i-th contestant of a row.
func (b *bench) out(r row, i int) string {
	return filepath.Join(b.data, fmt.Sprintf("out-%s-%d", r.name, i))
}

// removeOut removes an output and what a script left beside it.
func removeOut(out string) error {
	return errors.Join(os.RemoveAll(out), os.RemoveAll(out+".1"), os.RemoveAll(out+".2"))
}

// once runs a contestant and adds what it took to t. What it has started dies
// with it.
func (b *bench) once(ctx context.Context, c contestant, out string, t *timing) error {
	if err := removeOut(out); err != nil {
		return err
	}
	syscall.Sync() // nobody pays for what another has written
	argv := []string{"bash", "-c", "set -euo pipefail; " + c.shell}
	if c.shell == "" {
		argv = slices.Clone(c.argv)
	}
	for i := range argv {
		argv[i] = strings.ReplaceAll(argv[i], "{out}", out)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), c.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
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
	t.rss = append(t.rss, usage.Maxrss*kib)
	return nil
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "; ")
}

func (t *timing) summarize() {
	if t.Missing == "" {
		t.Seconds, t.CPU, t.PeakRSS = median(t.Runs), median(t.cpus), median(t.rss)
	}
}

// median returns the middle of an odd number of values and the mean of the two
// in the middle of an even one. It panics if there are none.
func median[T int64 | float64](values []T) T {
	s := slices.Sorted(slices.Values(values))
	m := len(s) / 2
	if len(s)%2 == 1 {
		return s[m]
	}
	return (s[m-1] + s[m]) / 2
}

// canonical are the scripts that print an output in a form that two right ones
// share; $1 is the output, a file or a directory of part files.
var canonical = map[sameness]string{
	exactly:    `cat`,
	asSorted:   `cat | sort -S 1G`,
	uniqCounts: `cat | sed -E 's/^ *([0-9]+) /\1 /' | sort -S 1G`,
}

// compare checks that all contestants gave the same output.
func (b *bench) compare(ctx context.Context, r row) error {
	form, ok := canonical[r.same]
	if !ok {
		return nil
	}
	first := ""
	for i, c := range r.contestants {
		if c.missing != "" {
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
