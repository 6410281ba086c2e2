// Command papers runs, for each of the five papers, batches of its jobs on a real cluster
// and in the simulator, and compares both with what the paper prints.
//
//	go -C lab run ./papers                            everything, five rounds, half an hour
//	go -C lab run ./papers -only 'tumm' -n 2
//	go -C lab run ./papers -list
//	go -C lab run ./papers -only "tumm|modfair|tyrex|learning|dynamicmr" -markdown lab/results/real-papers.md
//	go -C lab run ./papers -world -n 3                the numbers of the world slotwise-cluster
//	go -C lab run ./papers -only chains -markdown lab/results/real-chains.md
//
// The cluster is a master and worker processes on this machine, with slots as the paper
// divides them. There are two kinds of batches. A batch of times has the paper's tasks with
// their times, shortened by a stated factor: each task sleeps for its time, so that tasks do
// not compete for processors and a slot holds one task, as in the paper. A batch of programs
// runs the paper's applications on generated inputs; all its tasks share the processors of
// this machine.
//
// Both the real run and the simulation read one and the same job mix. The simulator has two
// inputs that are measured before the batches, in each run anew: the processor time of starting an
// attempt, and, for programs, their cost profiles, on other inputs and on a cluster. None of its
// inputs comes from the runs that it is compared with, except the times of submission.
//
// Contestants run in turns. A number is the mean over the rounds, with a 95 % interval.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"time"

	"github.com/slotwise/slotwise/lab/harness"
)

// settings are the flags.
type settings struct {
	only     *regexp.Regexp
	rounds   int
	speedup  float64 // divides the times of batches of times, in addition to their own factor
	data     string  // directory of inputs, profiles, the built program and of runs
	markdown string  // file of the report; "" for none
	json     string  // file of the numbers; "" for none
	list     bool
	cluster  bool          // -world
	timeout  time.Duration // of one run
	starts   int           // number of attempts by which measureStart measures one
}

func main() {
	harness.Main("lab/papers", func(ctx context.Context) error {
		s, err := parseFlags(os.Args[1:])
		if err != nil {
			return err
		}
		return s.run(ctx, batches(), os.Stdout)
	})
}

// parseFlags reads the command line. It exits the process after -help and after a flag that
// does not exist.
func parseFlags(args []string) (*settings, error) {
	s := &settings{starts: 400}
	fs := flag.NewFlagSet("lab/papers", flag.ExitOnError)
	only := fs.String("only", "", "run only batches whose name matches this regular expression")
	fs.IntVar(&s.rounds, "n", 5, "rounds")
	fs.Float64Var(&s.speedup, "speedup", 1, "divide the times of sleeping tasks by this once more, to try the command out")
	fs.StringVar(&s.data, "data", "data/papers", "directory for inputs and the built program, 2 GiB")
	fs.StringVar(&s.markdown, "markdown", "", "write the report to this file")
	fs.StringVar(&s.json, "json", "", "write the numbers to this file")
	fs.BoolVar(&s.cluster, "world", false, "measure the numbers of the world slotwise-cluster and its errors, in place of the batches")
	fs.BoolVar(&s.list, "list", false, "list the batches and stop")
	fs.DurationVar(&s.timeout, "timeout", 5*time.Minute, "give up on a run after this long")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if s.rounds < 1 || s.timeout <= 0 || s.speedup <= 0 || fs.NArg() > 0 {
		return nil, errors.New("-n, -speedup and -timeout must be positive, and no arguments are allowed after the flags")
	}
	var err error
	if s.only, err = regexp.Compile(*only); err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	return s, nil
}

// run measures the batches of all that the user has chosen, and writes the report.
func (s *settings) run(ctx context.Context, all []*batch, out io.Writer) (err error) {
	var chosen []*batch
	for _, b := range all {
		if s.only.MatchString(b.name) {
			chosen = append(chosen, b)
		}
	}
	if s.cluster {
		chosen = []*batch{worldBatch}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("-only %s: no batch has such a name; -list shows them", s.only)
	}
	if s.list {
		for _, b := range chosen {
			fmt.Fprintf(out, "%-18s %s\n", b.name, b.what)
		}
		return nil
	}
	if s.data, err = filepath.Abs(s.data); err != nil {
		return err
	}
	if err := harness.Build(ctx, s.binary()); err != nil {
		return err
	}
	server := harness.StartPages()
	defer server.Close()
	if err := s.prepare(ctx, chosen, server.URL); err != nil {
		return err
	}
	r := &report{Cores: runtime.NumCPU(), Rounds: s.rounds, Busy: harness.CPUBusy()}
	if r.Start, err = s.measureStart(ctx); err != nil {
		return fmt.Errorf("cost of starting an attempt: %w", err)
	}
	fmt.Fprintf(os.Stderr, "starting an attempt takes %v of processor time\n", r.Start)
	if s.cluster {
		return s.world(ctx, out, r.Start)
	}
	if err := s.profiles(ctx, chosen, r.Start); err != nil {
		return err
	}
	for _, b := range chosen {
		x, err := s.measure(ctx, b, r.Start)
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		r.Batches = append(r.Batches, x)
		if err := s.write(r); err != nil {
			return err
		}
	}
	r.print(out)
	return nil
}

// write writes the files of the report, with the batches that have been measured so far.
func (s *settings) write(r *report) error {
	if err := harness.WriteJSON(s.json, r); err != nil || s.markdown == "" {
		return err
	}
	var page bytes.Buffer
	r.print(&page)
	return os.WriteFile(s.markdown, page.Bytes(), 0o666)
}

// binary is the path of the slotwise command that is measured.
func (s *settings) binary() string { return filepath.Join(s.data, "slotwise") }
