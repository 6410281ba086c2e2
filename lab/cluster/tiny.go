package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/slotwise/slotwise/lab/harness"
)

// tinyRow is a job of many maps that do almost nothing. measure fills the last two
// fields, one entry for each round.
type tinyRow struct {
	name string
	args []string // of "slotwise submit", without the output
	took []time.Duration
	cpus []float64 // processor seconds
}

// tinyBytes is the size in bytes of a split of the streaming job.
const tinyBytes = 100

// tinyJobs measures how fast a master and two workers run tiny maps.
func tinyJobs(ctx context.Context, s *settings, stdout, stderr io.Writer) (err error) {
	dir, err := os.MkdirTemp(s.data, "cluster")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	input := filepath.Join(dir, "input")
	line := strings.Repeat("x", tinyBytes-1) + "\n"
	if err := os.WriteFile(input, []byte(strings.Repeat(line, s.tiny)), 0o666); err != nil {
		return err
	}
	c, err := startCluster(ctx, s, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	rows := []*tinyRow{
		{name: "pi, 10 points a map", args: []string{"pi", "--param", fmt.Sprint("maps=", s.tiny), "--param", "samples=10"}},
		{name: "streaming, cat of a line a map", args: []string{"--mapper", "cat", "--input", input, "--split-size", fmt.Sprint(tinyBytes)}},
	}
	out := filepath.Join(dir, "output")
	err = harness.Rounds(ctx, s.rounds, len(rows), func(round, i int) error {
		r := rows[i]
		took, cpu, err := c.command(ctx, append([]string{"submit", "--wait", "--no-progress", "--master", c.URL, "--output", out}, r.args...)...)
		if err != nil {
			return err
		}
		r.took, r.cpus = append(r.took, took), append(r.cpus, cpu.Seconds())
		fmt.Fprintf(stderr, "round %d of %s: %v, processor time %v\n", round+1, r.name, took.Round(time.Millisecond), cpu.Round(time.Millisecond))
		return os.RemoveAll(out)
	})
	if err != nil {
		return err
	}
	table := harness.NewTable(stdout, "job", "maps", "s", "tasks/s", "processor time for a task, ms")
	for _, r := range rows {
		sec := harness.Median(r.took).Seconds()
		table.Rowf("%s | %d | %.2f | %.0f | %.2f", r.name, s.tiny, sec, float64(s.tiny)/sec, 1000*harness.Median(r.cpus)/float64(s.tiny))
	}
	return nil
}
