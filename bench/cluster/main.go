// Command cluster measures masters and workers that are real processes.
//
//	go run ./bench/cluster              1,000 pretended workers and 200 jobs on one master
//	go run ./bench/cluster -wordcount   jobs on 1 master and 2 workers against slotwise run
//
// In the first, the workers are clients in processes of their own that speak all of
// the protocol but run nothing: an attempt takes some time, fetches nothing and
// reports success. Printed is what the master needs for them and how long it lets
// them wait. A job that does not end well, or a task that is finished other than
// once, is an error.
//
// In the second, the contestants do the same job on the same input with the same
// memory and slots, in turns, and the median of the ratios counts.
//
// -cpuprofile writes a profile of the master, which is what one improves.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// settings are the flags.
type settings struct {
	load      loadPlan
	wordcount bool
	rounds    int
	quick     int // jobs whose latency is measured
	size      int64
	data      string // of generated inputs and the binary, kept
	binary    string // instead of one that is built
	profile   string
	workers   string // not by hand: be workers of this master
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench/cluster:", err)
		os.Exit(1)
	}
}

func parse(args []string, stderr io.Writer) (*settings, error) {
	s := new(settings)
	f := flag.NewFlagSet("cluster", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.IntVar(&s.load.Workers, "n", 1000, "pretended workers")
	f.IntVar(&s.load.First, "first", 0, "number of the first")
	f.IntVar(&s.load.Processes, "processes", 2, "processes that they are in")
	f.IntVar(&s.load.Jobs, "jobs", 200, "jobs")
	f.IntVar(&s.load.Maps, "maps", 200, "maps of a job")
	f.IntVar(&s.load.Reduces, "reduces", 10, "reduces of a job")
	f.DurationVar(&s.load.Task, "task", 2*time.Second, "mean time of a task")
	f.StringVar(&s.load.Policy, "policy", "fair", "policy of the master")
	f.BoolVar(&s.wordcount, "wordcount", false, "measure real jobs on two workers instead")
	f.IntVar(&s.rounds, "rounds", 3, "rounds of real jobs")
	f.IntVar(&s.quick, "quick", 10, "small jobs whose latency is measured")
	f.Int64Var(&s.size, "size", 1<<30, "bytes of input of a real job")
	f.StringVar(&s.data, "data", filepath.Join("bench", "data"), "directory for inputs and the binary")
	f.StringVar(&s.binary, "binary", "", "slotwise to measure, instead of this tree's")
	f.StringVar(&s.profile, "cpuprofile", "", "file for a profile of the master")
	f.StringVar(&s.workers, "as-workers-of", "", "be pretended workers of this master until standard input ends")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	l := s.load
	if f.NArg() > 0 || min(l.Workers, l.Processes, l.Jobs, l.Maps, s.rounds, s.quick) < 1 || l.Reduces < 0 || l.Task <= 0 || s.size < 1 {
		return nil, errors.New("numbers must be positive, and there are no arguments but flags")
	}
	return s, nil
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	s, err := parse(args, stderr)
	if err != nil {
		return err
	}
	if s.workers != "" {
		return beWorkers(ctx, s, stdin, stdout)
	}
	if s.data, err = filepath.Abs(s.data); err != nil {
		return err
	}
	if s.binary == "" {
		s.binary = filepath.Join(s.data, "bin", "slotwise")
		build := exec.CommandContext(ctx, "go", "build", "-o", s.binary, "./cmd/slotwise")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("go build: %w\n%s", err, out)
		}
	}
	fmt.Fprintf(stdout, "%d cores; load averages at the start: %s\n\n", runtime.NumCPU(), loadAverage())
	if s.wordcount {
		return realJobs(ctx, s, stdout, stderr)
	}
	r, err := measureLoad(ctx, s, stderr)
	if err != nil {
		return err
	}
	r.print(stdout)
	return nil
}

// beWorkers is a process of pretended workers. What they have seen is written
// when standard input ends.
func beWorkers(ctx context.Context, s *settings, stdin io.Reader, stdout io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, stdin) // an error is an end too
		stop()
	}()
	return json.NewEncoder(stdout).Encode(newFleet(s.workers, s.load).run(ctx))
}

// loadAverage returns how busy the machine was over the last 1, 5 and 15 minutes.
func loadAverage() string {
	var a, b, c string
	data, err := os.ReadFile("/proc/loadavg")
	if _, scan := fmt.Sscan(string(data), &a, &b, &c); err != nil || scan != nil {
		return "unknown"
	}
	return a + " " + b + " " + c
}
