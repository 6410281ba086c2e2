// Command cluster measures masters and workers that are real processes.
//
//	go -C lab run ./cluster              1,000 pretended workers and 200 jobs on one master
//	go -C lab run ./cluster -rate 4000   the same at a rate of launches
//	go -C lab run ./cluster -wordcount   jobs on 1 master and 2 workers against slotwise run
//	go -C lab run ./cluster -tiny 2000   tiny maps a second on 1 master and 2 workers
//
// The first form loads a master. The workers are clients, in processes of their
// own, that speak the whole protocol but run nothing: an attempt takes some time,
// fetches nothing and reports success. The command prints the master's response
// times and its use of processor and memory. The workers share the processors with the master: at full speed the
// response times are those of a queue for processors, so -rate sets a load that leaves some of them idle. A job that does not succeed, or a task
// that does not succeed exactly once, is an error.
//
// The second form runs the same jobs on the same inputs with the same memory and
// slots, on a cluster and in one process, in turns. The median of the ratios
// counts.
//
// The third form runs jobs of many maps that do almost nothing, so that the cost of
// starting attempts shows.
//
// -cpuprofile writes a processor profile of the master.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/slotwise/slotwise/lab/harness"
)

// settings are the flags.
type settings struct {
	load      loadPlan
	rate      float64 // sets load.Task
	wordcount bool
	tiny      int // maps of a tiny job; 0 measures something else
	rounds    int
	quick     int    // rounds of the small job, whose response time is measured
	size      int64  // bytes of input of a real job
	data      string // directory of generated inputs and the binary; kept
	binary    string // slotwise; "" builds it from this tree
	profile   string // file for a processor profile of the master; "" for none
	master    string // URL; set if this process is to run pretended workers
}

func main() {
	harness.Main("lab/cluster", func(ctx context.Context) error {
		return run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	})
}

// parse reads the command line.
func parse(args []string, stderr io.Writer) (*settings, error) {
	s := new(settings)
	f := flag.NewFlagSet("cluster", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.IntVar(&s.load.Workers, "n", 1000, "pretended workers")
	f.IntVar(&s.load.First, "first", 0, "number of the first pretended worker")
	f.IntVar(&s.load.Processes, "processes", 2, "processes that the pretended workers run in")
	f.IntVar(&s.load.Jobs, "jobs", 200, "jobs")
	f.IntVar(&s.load.Maps, "maps", 200, "maps per job")
	f.IntVar(&s.load.Reduces, "reduces", 10, "reduces per job")
	f.DurationVar(&s.load.Task, "task", 2*time.Second, "mean time of a task")
	f.Float64Var(&s.rate, "rate", 0, "launches of maps a second at which all map slots are in use, in place of -task; 0 for none")
	f.StringVar(&s.load.Policy, "policy", "fair", "policy of the master")
	f.BoolVar(&s.wordcount, "wordcount", false, "measure real jobs on two workers instead")
	f.IntVar(&s.tiny, "tiny", 0, "measure jobs of this many tiny maps on two workers instead")
	f.IntVar(&s.rounds, "rounds", 3, "rounds of real jobs")
	f.IntVar(&s.quick, "quick", 10, "rounds of the small job")
	f.Int64Var(&s.size, "size", 1<<30, "bytes of input of a real job")
	f.StringVar(&s.data, "data", filepath.Join("data"), "directory for inputs and the binary")
	f.StringVar(&s.binary, "binary", "", "slotwise command to measure; by default built from this tree")
	f.StringVar(&s.profile, "cpuprofile", "", "write a processor profile of the master to this file")
	f.StringVar(&s.master, "as-workers-of", "", "internal: run pretended workers of this master until standard input ends")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	// Attempts end whether or not the master keeps up, so that with fewer launches than it could make its answers
	// show what it takes for each, and not how long its queue is.
	if s.rate > 0 {
		s.load.Task = time.Duration(mapSlots * float64(s.load.Workers) / s.rate * float64(time.Second))
	}
	l := s.load
	if f.NArg() > 0 || min(l.Workers, l.Processes, l.Jobs, l.Maps, s.rounds, s.quick) < 1 || min(l.Reduces, s.tiny) < 0 || l.Task <= 0 || s.size < 1 {
		return nil, errors.New("all numbers must be positive, and no arguments are allowed after the flags")
	}
	return s, nil
}

// run executes one of the two forms, or the pretended workers of the first.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	s, err := parse(args, stderr)
	if err != nil {
		return err
	}
	if s.master != "" {
		return runFleet(ctx, s, stdin, stdout)
	}
	if s.data, err = filepath.Abs(s.data); err != nil {
		return err
	}
	if s.binary == "" {
		s.binary = filepath.Join(s.data, "bin", "slotwise")
		if err := harness.Build(ctx, s.binary); err != nil {
			return err
		}
	}
	fmt.Fprintf(stdout, "%d cores; load averages at the start: %s\n\n", runtime.NumCPU(), harness.Load())
	if s.tiny > 0 {
		return tinyJobs(ctx, s, stdout, stderr)
	}
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

// runFleet runs pretended workers until standard input ends, and then writes their
// measurements as JSON. The parent process closes the pipe, also by dying.
func runFleet(ctx context.Context, s *settings, stdin io.Reader, stdout io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, stdin) // a read error ends the workers too
		stop()
	}()
	return json.NewEncoder(stdout).Encode(newFleet(s.master, s.load).run(ctx))
}
