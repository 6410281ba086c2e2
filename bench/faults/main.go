// Command faults runs clusters of real processes and hurts them: a master, three
// or four workers, a few small jobs, and a schedule of faults drawn from a seed.
// After each run every job must have ended with the right answer, or with an error
// that a fault explains, its output must be there once and whole, and nothing may be left: no
// process, no temporary file.
//
//	go run ./bench/faults                        ten runs
//	go run ./bench/faults -runs 200 -at-once 3
//	go run ./bench/faults -seed 4711 -runs 1     one run again
//	go run ./bench/faults -kinds                 what faults there are
//
// Run i of a command has the seed -seed + i. A seed gives the same jobs and the same faults at
// the same times; what they hit depends on how fast the machine is, so a failure
// may need a few tries to come again. The directory of a failed run is kept, with
// the logs of all its processes.
//
// Connections from workers to the master, between workers and from who submits go
// through links of this process that can be cut, slowed and stopped. Each worker
// has a small disk of its own if this process may mount one (as root); otherwise
// no disk runs full.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// settings are the flags.
type settings struct {
	seed   uint64
	runs   int
	atOnce int
	limit  time.Duration // for the jobs of a run to end, once all faults are over
	page   string
	kinds  bool

	dir    string // of everything
	binary string // slotwise
	disks  bool   // small ones can be mounted
}

func main() {
	s := &settings{}
	flag.Uint64Var(&s.seed, "seed", 1, "seed of the first run")
	flag.IntVar(&s.runs, "runs", 10, "number of runs")
	flag.IntVar(&s.atOnce, "at-once", 2, "runs side by side")
	flag.DurationVar(&s.limit, "limit", 2*time.Minute, "time for jobs to end after the last fault")
	flag.StringVar(&s.page, "page", "", "write the results as a page of documentation to this file")
	flag.BoolVar(&s.kinds, "kinds", false, "list the kinds of faults and stop")
	flag.Parse()
	if s.kinds {
		for _, k := range kinds {
			fmt.Printf("%-14s %s\n", k.name, k.what)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, s, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench/faults:", err)
		os.Exit(1)
	}
}

// command is the whole of it: undisturbed runs, disturbed ones, the table.
func command(ctx context.Context, s *settings, out io.Writer) error {
	if s.runs < 1 || s.atOnce < 1 || flag.NArg() > 0 {
		return errors.New("-runs and -at-once must be positive, and there are no arguments")
	}
	dir, err := os.MkdirTemp("", "slotwise-faults-")
	if err != nil {
		return err
	}
	if err := s.prepare(ctx, dir); err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	in, err := makeInput(filepath.Join(dir, "in"))
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	r := &report{began: time.Now(), atOnce: s.atOnce, disks: s.disks, calm: map[int][]time.Duration{}}
	one := func(p plan) {
		if ctx.Err() != nil {
			return
		}
		if o := s.run(ctx, p, in); ctx.Err() == nil {
			r.add(o, out)
		}
	}
	plans := s.plans()
	each(s.atOnce, len(plans), func(i int) { one(plans[i]) })
	r.took = time.Since(r.began)
	fmt.Fprintln(out)
	r.write(out)
	if s.page != "" {
		err = r.writePage(s.page)
	}
	if n := len(r.failed); n > 0 { // what was interrupted is not among them
		return errors.Join(err, fmt.Errorf("%d runs failed; see %s", n, dir))
	}
	return errors.Join(err, ctx.Err(), os.RemoveAll(dir))
}

// plans are those of all runs: each mix undisturbed at first, then runs with
// faults, and among them others without, as the machine's load varies.
func (s *settings) plans() (all []plan) {
	calm := func(i int) {
		all = append(all, plan{name: fmt.Sprint("calm-", i), mix: i % len(mixes), workers: 3 + i/len(mixes)%2})
	}
	for i := range mixes {
		calm(i)
	}
	for i := range s.runs {
		if i%7 == 6 {
			calm(len(mixes) + i/7)
		}
		all = append(all, draw(s.seed+uint64(i), s.disks))
	}
	return all
}

// prepare builds slotwise below dir and tries out disks.
func (s *settings) prepare(ctx context.Context, dir string) error {
	s.dir, s.binary = dir, filepath.Join(dir, "slotwise")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", s.binary, "github.com/slotwise/slotwise/cmd/slotwise").CombinedOutput()
	if err != nil {
		return fmt.Errorf("go build: %w: %s", err, out)
	}
	probe := filepath.Join(dir, "disk")
	s.disks = mountDisk(probe) == nil && unmountDisk(probe) == nil
	return nil
}

// each calls f with 0 to n-1, so many at once.
func each(atOnce, n int, f func(i int)) {
	var all sync.WaitGroup
	free := make(chan struct{}, atOnce)
	for i := range n {
		free <- struct{}{}
		all.Go(func() {
			f(i)
			<-free
		})
	}
	all.Wait()
}
