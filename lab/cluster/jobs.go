package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/slotwise/slotwise/lab/harness"
)

// Both contestants have two workers with a map slot and a reduce slot each, and
// this memory in bytes for all tasks together.
const (
	realWorkers = 2
	realMemory  = 1 << 30
)

// realLimit is the most that a job on the cluster may take, as a multiple of its
// time under "slotwise run".
const realLimit = 1.3

// quickLimit is the most that a job with 1 MiB of input may take on the cluster.
const quickLimit = 500 * time.Millisecond

// realCluster is a cluster that real jobs run on.
type realCluster struct {
	*harness.Cluster
	binary, dir string
}

// startCluster starts a master and workers that share realMemory. Their files are in dir.
func startCluster(ctx context.Context, s *settings, dir string) (*realCluster, error) {
	var master []string
	if s.profile != "" {
		master = []string{"--cpuprofile", s.profile}
	}
	worker := []string{"--map-slots", "1", "--reduce-slots", "1", "--memory", fmt.Sprint(realMemory / realWorkers)}
	c, err := harness.StartCluster(ctx, s.binary, dir, master, slices.Repeat([][]string{worker}, realWorkers))
	return &realCluster{c, s.binary, dir}, err
}

// realRow is a job that both contestants run. measure fills the last three fields,
// one entry for each round.
type realRow struct {
	name, app, kind string
	size            int64 // bytes of input
	rounds          int
	local, cluster  []time.Duration
	cpus            [2][]float64 // processor seconds, local and cluster
}

// realJobs measures all rows and prints them.
func realJobs(ctx context.Context, s *settings, stdout, stderr io.Writer) (err error) {
	dir, err := os.MkdirTemp(s.data, "cluster")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c, err := startCluster(ctx, s, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	rows := []*realRow{
		{name: "word count", app: "wordcount", kind: "text", size: s.size, rounds: s.rounds},
		{name: "sort of records", app: "terasort", kind: "records", size: s.size, rounds: s.rounds},
		{name: "word count", app: "wordcount", kind: "text", size: harness.MiB, rounds: s.quick},
	}
	for _, r := range rows {
		if err := c.measure(ctx, s, r, stderr); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	printReal(stdout, rows)
	return nil
}

// measure runs a row's job in turns in one process and on the cluster, and compares
// the outputs after every round.
func (c *realCluster) measure(ctx context.Context, s *settings, r *realRow, stderr io.Writer) error {
	input := filepath.Join(s.data, fmt.Sprint(r.kind, "-", r.size))
	if _, err := harness.Generate(ctx, c.binary, r.kind, r.size, input); err != nil {
		return err
	}
	outs := [2]string{filepath.Join(c.dir, "local"), filepath.Join(c.dir, "cluster")}
	common := []string{r.app, "--input", input, "--reduces", fmt.Sprint(realWorkers), "--no-progress"}
	local := append([]string{"run", "--output", outs[0], "--workers", fmt.Sprint(realWorkers), "--map-slots", "1", "--reduce-slots", "1",
		"--memory", fmt.Sprint(realMemory)}, common...)
	cluster := append([]string{"submit", "--wait", "--output", outs[1], "--master", c.URL}, common...)
	args, times := [2][]string{local, cluster}, [2]*[]time.Duration{&r.local, &r.cluster}
	return harness.Rounds(ctx, r.rounds, 2, func(round, i int) error {
		took, cpu, err := c.command(ctx, args[i]...)
		if err != nil {
			return err
		}
		*times[i] = append(*times[i], took)
		r.cpus[i] = append(r.cpus[i], cpu.Seconds())
		fmt.Fprintf(stderr, "round %d of %s: %s %v, processor time %v\n", round+1, r.name, args[i][0], took.Round(time.Millisecond), cpu.Round(time.Millisecond))
		if i == 0 {
			return nil
		}
		return errors.Join(sameOutput(outs[0], outs[1]), os.RemoveAll(outs[0]), os.RemoveAll(outs[1]))
	})
}

// command runs slotwise. It returns its wall time, and the processor time that the
// command and the cluster used in that time.
func (c *realCluster) command(ctx context.Context, args ...string) (took, cpu time.Duration, err error) {
	cmd := exec.CommandContext(ctx, c.binary, args...)
	before, err := c.CPU()
	if err != nil {
		return 0, 0, err
	}
	start := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, 0, fmt.Errorf("slotwise %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	took = time.Since(start)
	after, err := c.CPU()
	return took, after - before + cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), err
}

// sameOutput compares the part files of two output directories byte for byte.
func sameOutput(a, b string) error {
	names, err := filepath.Glob(filepath.Join(a, "part-*"))
	if err != nil || len(names) == 0 {
		return errors.Join(err, fmt.Errorf("%s has no part files", a))
	}
	for _, name := range names {
		if out, err := exec.Command("cmp", name, filepath.Join(b, filepath.Base(name))).CombinedOutput(); err != nil {
			return fmt.Errorf("the outputs differ: %w: %s", err, out)
		}
	}
	return nil
}

// printReal writes the table.
func printReal(w io.Writer, rows []*realRow) {
	table := harness.NewTable(w, "job", "input", "`run`, s", "cluster, s: median, max", "ratio: median (range)", "processor time, s", "")
	for _, r := range rows {
		ratios := harness.Ratios(r.cluster, r.local)
		ratio, local, cluster := harness.Median(ratios), harness.Median(r.local), harness.Median(r.cluster)
		cpus := [2]float64{harness.Median(r.cpus[0]), harness.Median(r.cpus[1])}
		outcome := harness.Limit(ratio <= realLimit, fmt.Sprintf("must ≤ %.1f×", realLimit))
		if r.size <= harness.MiB {
			outcome = harness.Limit(cluster <= quickLimit, fmt.Sprintf("must ≤ %v", quickLimit))
		}
		table.Rowf("%s | %d MiB | %.2f | %.2f, %.2f | %.2f (%.2f to %.2f) | %.2f, %.2f: %.2f× | %s", r.name, r.size/harness.MiB, local.Seconds(),
			cluster.Seconds(), slices.Max(r.cluster).Seconds(), ratio, slices.Min(ratios), slices.Max(ratios),
			cpus[0], cpus[1], cpus[1]/cpus[0], outcome)
	}
}
