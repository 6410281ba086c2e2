package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/slotwise/slotwise/lab/harness"
)

// timing has the measurements of a contestant, one of each kind for each round.
type timing struct {
	Name  string    `json:"name"`
	Full  []float64 `json:"full_seconds"`  // with the input
	Empty []float64 `json:"empty_seconds"` // with empty files
	CPU   []float64 `json:"cpu_seconds"`   // of the client, more than with empty files
}

// rates returns the bytes per second of each round. The time with empty files is
// subtracted from the time with the input.
func (t *timing) rates(size int64) []float64 {
	rates := make([]float64, len(t.Full))
	for i := range rates {
		rates[i] = float64(size) / (t.Full[i] - t.Empty[i])
	}
	return rates
}

// result is a measured row.
type result struct {
	Row    string  `json:"row"`
	Bytes  int64   `json:"bytes"`
	Ours   *timing `json:"ours"`
	Theirs *timing `json:"theirs"`
}

// ratios returns our rate divided by the other's, for each round.
func (r *result) ratios() []float64 {
	return harness.Ratios(r.Ours.rates(r.Bytes), r.Theirs.rates(r.Bytes))
}

// measure checks that the contestants of a row move the same bytes, if they write them to
// standard output, and then runs them in turns.
func (b *bench) measure(ctx context.Context, r row) (*result, error) {
	if r.same {
		ours, err := digest(ctx, r.ours)
		if err != nil {
			return nil, err
		}
		theirs, err := digest(ctx, r.theirs)
		if err != nil {
			return nil, err
		}
		if ours != theirs {
			return nil, fmt.Errorf("slotwise and %s wrote different bytes", r.theirs.name)
		}
	}
	res := &result{Row: r.name, Bytes: b.size, Ours: &timing{Name: r.ours.name}, Theirs: &timing{Name: r.theirs.name}}
	err := harness.Rounds(ctx, b.rounds, 2, func(_, i int) error {
		c, t := r.ours, res.Ours
		if i == 1 {
			c, t = r.theirs, res.Theirs
		}
		empty, emptyCPU, err := once(ctx, c, "empty", nil)
		if err != nil {
			return err
		}
		full, fullCPU, err := once(ctx, c, "full", nil)
		if err != nil {
			return err
		}
		if full <= empty {
			return fmt.Errorf("%s took %v with empty files and %v with the input, which is too small", c.name, empty, full)
		}
		t.Empty, t.Full = append(t.Empty, empty.Seconds()), append(t.Full, full.Seconds())
		t.CPU = append(t.CPU, (fullCPU - emptyCPU).Seconds())
		return nil
	})
	return res, err
}

// digest returns a checksum of what the only command of c writes.
func digest(ctx context.Context, c contestant) (string, error) {
	sum := sha256.New()
	_, _, err := once(ctx, c, "full", sum)
	return fmt.Sprintf("%x", sum.Sum(nil)), err
}

// once runs the commands of c at the same time and returns how long they took, and the
// processor time of their processes. out gets the standard output of the only command; if
// it is nil, all outputs are thrown away.
func once(ctx context.Context, c contestant, input string, out io.Writer) (took, cpu time.Duration, err error) {
	syscall.Sync() // so that no contestant pays for writing back what the one before wrote
	commands := c.commands(input)
	used, errs := make([]time.Duration, len(commands)), make([]error, len(commands))
	var all sync.WaitGroup
	start := time.Now()
	for i, argv := range commands {
		all.Go(func() {
			cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
			cmd.Env = append(os.Environ(), c.env...)
			harness.InGroup(cmd)
			var stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = out, &stderr
			if err := cmd.Run(); err != nil {
				errs[i] = fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, stderr.String())
				return
			}
			used[i] = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		})
	}
	all.Wait()
	took = time.Since(start)
	for _, u := range used {
		cpu += u
	}
	return took, cpu, errors.Join(errs...)
}

// report writes the table of the results.
func report(w io.Writer, results []*result) {
	fmt.Fprintln(w)
	t := harness.NewTable(w, "row", "client", "MiB/s", "start, s", "CPU s/GiB", "our rate to the other's")
	for _, r := range results {
		for _, c := range []*timing{r.Ours, r.Theirs} {
			ratio := ""
			if c == r.Ours {
				all := r.ratios()
				median := harness.Median(all)
				ratio = harness.Limit(median >= minRatio, fmt.Sprintf("%.2f (%.2f to %.2f), must ≥ %.1f",
					median, harness.Quantile(all, 0), harness.Quantile(all, 1), minRatio))
			}
			t.Row(r.Row, c.Name, fmt.Sprintf("%.0f", harness.Median(c.rates(r.Bytes))/harness.MiB),
				fmt.Sprintf("%.2f", harness.Median(c.Empty)),
				fmt.Sprintf("%.1f", harness.Median(c.CPU)/(float64(r.Bytes)/harness.GiB)), ratio)
		}
	}
}
