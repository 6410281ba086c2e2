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

	"github.com/slotwise/slotwise/internal/client"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// The same on both sides: two workers with a map and a reduce slot each, and so
// much memory for all tasks.
const (
	realWorkers = 2
	realMemory  = 1 << 30
)

// realLimit is what a cluster's run may cost, as a multiple of slotwise run.
const realLimit = 1.3

// quickLimit is the time that a job of 1 MiB may take.
const quickLimit = 500 * time.Millisecond

// realCluster is a master and its workers.
type realCluster struct {
	binary  string
	url     string
	dir     string
	members []*process
}

// startCluster starts one and waits until all workers are registered.
func startCluster(ctx context.Context, s *settings, dir string) (c *realCluster, err error) {
	c = &realCluster{binary: s.binary, dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stop())
		}
	}()
	var args []string
	if s.profile != "" {
		args = []string{"--cpuprofile", s.profile}
	}
	master, url, err := startMaster(ctx, s.binary, dir, args...)
	if err != nil {
		return c, err
	}
	c.members, c.url = append(c.members, master), url
	for i := range realWorkers {
		p, err := startProcess(s.binary, "worker", "--master", url, "--dir", filepath.Join(dir, fmt.Sprint("w", i)), "--host", "localhost",
			"--map-slots", "1", "--reduce-slots", "1", "--memory", fmt.Sprint(realMemory/realWorkers))
		if err != nil {
			return c, err
		}
		c.members = append(c.members, p)
	}
	cl, err := client.New(url, client.Options{})
	if err != nil {
		return c, err
	}
	for {
		resp, err := client.Call(ctx, cl, cl.RPC().Cluster, &slotwisev1.ClusterRequest{})
		if err != nil || int(resp.Nodes) == realWorkers {
			return c, err
		}
		if !pause(ctx, 20*time.Millisecond) {
			return c, context.Cause(ctx)
		}
	}
}

// stop ends the workers, then the master.
func (c *realCluster) stop() (err error) {
	for _, p := range slices.Backward(c.members) {
		err = errors.Join(err, p.stop())
	}
	c.members = nil
	return err
}

// realRow is a job that both sides do.
type realRow struct {
	name, app, kind string
	size            int64
	rounds          int
	local, cluster  []time.Duration
	cpus            [2][]float64 // seconds of processors, local and cluster
}

// ratios are the cluster's times over the local ones, round by round.
func (r *realRow) ratios() (out []float64) {
	for i, d := range r.cluster {
		out = append(out, float64(d)/float64(r.local[i]))
	}
	slices.Sort(out)
	return out
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
	defer func() { err = errors.Join(err, c.stop()) }()
	rows := []*realRow{
		{name: "word count", app: "wordcount", kind: "text", size: s.size, rounds: s.rounds},
		{name: "sort of records", app: "terasort", kind: "records", size: s.size, rounds: s.rounds},
		{name: "word count", app: "wordcount", kind: "text", size: 1 << 20, rounds: s.quick},
	}
	for _, r := range rows {
		if err := c.measure(ctx, s, r, stderr); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	printReal(stdout, rows)
	return nil
}

// measure runs a row's job in turns on both sides.
func (c *realCluster) measure(ctx context.Context, s *settings, r *realRow, stderr io.Writer) error {
	input := filepath.Join(s.data, fmt.Sprint(r.kind, "-", r.size))
	if _, err := os.Stat(input); err != nil {
		if _, _, err := c.command(ctx, "generate", r.kind, "--size", fmt.Sprint(r.size), "--seed", "1", "--output", input); err != nil {
			return err
		}
	}
	outs := [2]string{filepath.Join(c.dir, "local"), filepath.Join(c.dir, "cluster")}
	common := []string{r.app, "--input", input, "--reduces", fmt.Sprint(realWorkers), "--no-progress"}
	local := append([]string{"run", "--output", outs[0], "--workers", fmt.Sprint(realWorkers), "--map-slots", "1", "--reduce-slots", "1",
		"--memory", fmt.Sprint(realMemory)}, common...)
	cluster := append([]string{"submit", "--wait", "--output", outs[1], "--master", c.url}, common...)
	for round := range r.rounds {
		for i, args := range [][]string{local, cluster} {
			took, cpu, err := c.command(ctx, args...)
			if err != nil {
				return err
			}
			r.cpus[i] = append(r.cpus[i], cpu.Seconds())
			list := []*[]time.Duration{&r.local, &r.cluster}[i]
			*list = append(*list, took)
			fmt.Fprintf(stderr, "round %d of %s: %s %v, processors %v\n", round+1, r.name, args[0], took.Round(time.Millisecond), cpu.Round(time.Millisecond))
		}
		if err := sameOutput(outs[0], outs[1]); err != nil {
			return err
		}
		for _, out := range outs {
			if err := os.RemoveAll(out); err != nil {
				return err
			}
		}
	}
	return nil
}

// command runs slotwise and returns for how long, and the processor time that it and
// the cluster have used.
func (c *realCluster) command(ctx context.Context, args ...string) (took, cpu time.Duration, err error) {
	cmd := exec.CommandContext(ctx, c.binary, args...)
	before, err := c.cpu()
	if err != nil {
		return 0, 0, err
	}
	start := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, 0, fmt.Errorf("slotwise %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	took = time.Since(start)
	after, err := c.cpu()
	return took, after - before + cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), err
}

// cpu is the processor time that the cluster has used, attempts that have ended
// included.
func (c *realCluster) cpu() (sum time.Duration, err error) {
	for _, p := range c.members {
		used, err := p.cpu()
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

// sameOutput compares the files of two outputs.
func sameOutput(a, b string) error {
	names, err := filepath.Glob(filepath.Join(a, "part-*"))
	if err != nil || len(names) == 0 {
		return errors.Join(err, errors.New("there is no output"))
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
	fmt.Fprint(w, "| job | input | `run`, s | cluster, s: median, max | ratio: median (range) | processor time, s | |\n|---|---|---|---|---|---|---|\n")
	for _, r := range rows {
		ratios := r.ratios()
		slices.Sort(r.local)
		slices.Sort(r.cluster)
		middle := func(d []time.Duration) time.Duration { return (d[len(d)/2] + d[(len(d)-1)/2]) / 2 }
		var cpus [2]float64
		for i, list := range r.cpus {
			slices.Sort(list)
			cpus[i] = (list[len(list)/2] + list[(len(list)-1)/2]) / 2
		}
		mid := (ratios[len(ratios)/2] + ratios[(len(ratios)-1)/2]) / 2
		verdict := fmt.Sprintf("must ≤ %.1f×: %s", realLimit, holds(mid <= realLimit))
		if r.size <= 1<<20 {
			verdict = fmt.Sprintf("must ≤ %v: %s", quickLimit, holds(middle(r.cluster) <= quickLimit))
		}
		fmt.Fprintf(w, "| %s | %d MiB | %.2f | %.2f, %.2f | %.2f (%.2f to %.2f) | %.2f, %.2f: %.2f× | %s |\n", r.name, r.size>>20, middle(r.local).Seconds(),
			middle(r.cluster).Seconds(), r.cluster[len(r.cluster)-1].Seconds(), mid, ratios[0], ratios[len(ratios)-1],
			cpus[0], cpus[1], cpus[1]/cpus[0], verdict)
	}
}

func holds(ok bool) string {
	if ok {
		return "ok"
	}
	return "short"
}
