// Command faults runs clusters of real processes and injects faults: a master,
// three or four workers, a few small jobs, and a schedule of faults drawn from a
// seed. The seed also draws the storage (local files, S3 or HDFS) and the security. After each run every job must have ended, with the right answer or with an
// error that a fault explains. Its output must be complete and published once. No
// process and no temporary file may be left.
//
//	go -C lab run ./faults                        ten runs
//	go -C lab run ./faults -runs 200 -at-once 3
//	go -C lab run ./faults -seed 4711 -runs 1     one run again
//	go -C lab run ./faults -kinds                 list the kinds of faults
//	go -C lab run ./faults -masters 3 -runs 60    three masters that replace each other
//
// Run i of a command has the seed -seed + i. A seed determines the jobs, the faults
// and their times. Which task or file a fault hits also depends on the speed of the
// machine, so it may take a few tries to reproduce a failure. The directory of a
// failed run is kept, with the logs of all its processes.
//
// Connections from workers to the master, between workers, and from clients to the
// master go through proxies in this process, which can cut, delay and stop them.
// If this process may mount disks, which needs root, each worker has a small disk.
// The command prints what the machine does not permit, and leaves it out.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/slotwise/slotwise/lab/harness"
)

// settings are the flags.
type settings struct {
	seed    uint64
	runs    int
	atOnce  int
	limit   time.Duration // from the end of the last fault until the jobs must have ended
	page    string        // file for the page of documentation; "" for none
	kinds   bool
	trios   int    // number of masters: 1 or 3
	storage string // of runs with three masters
	before  string // program of an earlier version, for upgrades of three masters; "" for none

	dir         string // parent of the runs' directories
	binary      string // slotwise
	keeper      string // keepertest; see harness.StartServers
	credentials credentials
	machine     machine
	missing     []error // what the machine does not permit
	hdfs        *hdfsPool
	networks    networks
}

func main() {
	s := &settings{}
	flag.Uint64Var(&s.seed, "seed", 1, "seed of the first run")
	flag.IntVar(&s.runs, "runs", 10, "number of runs")
	flag.IntVar(&s.atOnce, "at-once", 2, "number of runs at the same time")
	flag.DurationVar(&s.limit, "limit", 2*time.Minute, "time in which jobs must end after the last fault")
	flag.StringVar(&s.page, "page", "", "write the results as a page of documentation to this file")
	flag.BoolVar(&s.kinds, "kinds", false, "list the kinds of faults and stop")
	flag.IntVar(&s.trios, "masters", 1, "number of masters: 1, or 3 with faults of the masters, which needs root and ip(8)")
	flag.StringVar(&s.before, "before", "", "with -masters 3: path of an earlier slotwise program, with which every third run begins")
	flag.StringVar(&s.storage, "storage", localStorage, "with -masters 3: the storage of inputs and outputs, local, s3 or hdfs; other runs draw it")
	flag.Parse()
	if s.kinds {
		for _, k := range kinds {
			fmt.Printf("%-14s %s\n", k.name, k.what)
		}
		for _, f := range append(trioFaults, upgrade) {
			fmt.Printf("-masters 3: %-14s %s\n", f.name, f.what)
		}
		return
	}
	harness.Main("lab/faults", func(ctx context.Context) error { return command(ctx, s, os.Stdout) })
}

// interrupted is closed when the user interrupts the command. Waits for processes look at it: most of them
// may last for startLimit.
var interrupted = make(chan struct{})

// command makes the runs without and with faults and writes the report.
func command(ctx context.Context, s *settings, out io.Writer) error {
	defer context.AfterFunc(ctx, func() { close(interrupted) })()
	if s.runs < 1 || s.atOnce < 1 || flag.NArg() > 0 || s.trios != 1 && s.trios != 3 {
		return errors.New("-runs and -at-once must be positive, -masters is 1 or 3, and no arguments are allowed")
	}
	if !slices.Contains([]string{localStorage, s3Storage, hdfsStorage}, s.storage) || s.trios == 1 && s.storage != localStorage {
		return errors.New("-storage is local, s3 or hdfs, and needs -masters 3")
	}
	dir, err := os.MkdirTemp("", "slotwise-faults-")
	if err != nil {
		return err
	}
	prepare := s.prepare
	if s.trios == 3 {
		prepare = s.prepareTrios
	}
	if err := prepare(ctx, dir); err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	in, err := makeInput(filepath.Join(dir, "in"))
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	if s.trios == 3 {
		return s.campaign(ctx, in, out)
	}
	s.hdfs = newHDFSPool(s.keeper, dir, (s.atOnce+1)/2)
	for _, e := range s.missing {
		fmt.Fprintln(out, "left out:", e)
	}
	r := &report{began: time.Now(), atOnce: s.atOnce, calm: map[string][]time.Duration{}}
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
	err = s.hdfs.stop()
	r.took = time.Since(r.began)
	fmt.Fprintln(out)
	r.write(out)
	if s.page != "" {
		err = errors.Join(err, r.writePage(s.page))
	}
	if n := len(r.failed); n > 0 { // runs that the user interrupted are not among them
		return errors.Join(err, fmt.Errorf("%d runs failed; see %s", n, dir))
	}
	return errors.Join(err, ctx.Err(), os.RemoveAll(dir))
}

// plans returns the plans of all runs. It starts with one run without faults for
// each mix on each storage. Every tenth of the following runs has no faults either, because the
// load of the machine varies over time.
func (s *settings) plans() (all []plan) {
	storages := s.machine.storages()
	calm := func(i int) {
		all = append(all, plan{name: fmt.Sprint("calm-", i), mix: i % len(mixes), workers: 3 + i/len(mixes)%2,
			storage: storages[i/len(mixes)%len(storages)], security: securities[i%len(securities)]})
	}
	bases := len(mixes) * len(storages)
	for i := range bases {
		calm(i)
	}
	for i := range s.runs {
		if i%10 == 9 {
			calm(bases + i/10)
		}
		all = append(all, draw(s.seed+uint64(i), s.machine))
	}
	return all
}

// each calls f with 0 to n-1, at most atOnce calls at the same time, and waits for all.
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
