// Command policies measures what schedulers gain on real work: slotwise runs
// mixes of jobs under several policies in turns, in one run, so that the ratios
// mean something on any machine.
//
//	go -C lab run ./policies                   everything, five rounds, about eight minutes
//	go -C lab run ./policies -only '^grep' -n 3
//	go -C lab run ./policies -list
//
// There are three experiments. In typed, one worker has a map slot and a reduce
// slot, and jobs that need the processor run alone and mixed. It shows the gain of
// policies that lend slots of one kind to the other. In overload, four workers
// fetch pages from a slow server on the loopback interface while another job
// computes. It shows the gain of policies that learn how many tasks a worker can
// bear. In behind, ten small jobs follow a large one. It shows the small jobs'
// slowdown: their response time over their time alone.
//
// Seconds count from the first submission to the last end, without the start of
// the process. A gain is the first policy's time divided by the policy's own, in
// the same round; the table has the median over the rounds.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"time"

	"github.com/slotwise/slotwise/lab/harness"
)

// settings are the flags.
type settings struct {
	only    *regexp.Regexp
	rounds  int
	data    string // directory of inputs, of the built program and of outputs
	json    string // file of results; "" for none
	list    bool
	timeout time.Duration // of one run of slotwise
}

func main() {
	harness.Main("lab/policies", func(ctx context.Context) error {
		s, err := parseFlags(os.Args[1:])
		if err != nil {
			return err
		}
		return run(ctx, s)
	})
}

// parseFlags reads the command line. It exits the process after -help and after
// a flag that does not exist.
func parseFlags(args []string) (*settings, error) {
	s := &settings{}
	fs := flag.NewFlagSet("lab/policies", flag.ExitOnError)
	only := fs.String("only", "", "run only mixes whose name matches this regular expression")
	fs.IntVar(&s.rounds, "n", 5, "rounds; the median counts")
	fs.StringVar(&s.data, "data", "data/policies", "directory for inputs and the built program, 100 MiB")
	fs.StringVar(&s.json, "json", "", "write the results to this file")
	fs.BoolVar(&s.list, "list", false, "list the mixes and stop")
	fs.DurationVar(&s.timeout, "timeout", 30*time.Second, "give up on a run after this long")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if s.rounds < 1 || s.timeout <= 0 {
		return nil, errors.New("-n and -timeout must be positive")
	}
	var err error
	if s.only, err = regexp.Compile(*only); err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	return s, nil
}

// run measures the chosen mixes one after the other and prints each.
func run(ctx context.Context, s *settings) error {
	if s.list {
		for _, m := range everyMix(s.data) {
			fmt.Printf("%-9s %-14s %s\n", m.experiment, m.name, m.what)
		}
		return nil
	}
	if err := prepare(ctx, s); err != nil {
		return err
	}
	r := report{Cores: runtime.NumCPU(), Busy: harness.CPUBusy(), Rounds: s.rounds}
	server := harness.StartPages()
	defer server.Close()
	if err := harness.WriteURLs(filepath.Join(s.data, "urls"), server.URL, pageCount); err != nil {
		return err
	}
	fmt.Printf("%d cores, %.0f %% busy with other work at the start\n", r.Cores, 100*r.Busy)
	for _, m := range everyMix(s.data) {
		if !s.only.MatchString(m.name) {
			continue
		}
		res, err := measure(ctx, s, m)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		r.Results = append(r.Results, res)
		res.print(os.Stdout)
	}
	return harness.WriteJSON(s.json, r)
}

// prepare makes the data directory absolute, builds slotwise, and generates the
// inputs that do not exist yet.
func prepare(ctx context.Context, s *settings) (err error) {
	if s.data, err = filepath.Abs(s.data); err != nil {
		return err
	}
	if err := harness.Build(ctx, s.binary()); err != nil {
		return err
	}
	for name, size := range textSizes {
		if _, err := harness.Generate(ctx, s.binary(), "text", size, filepath.Join(s.data, name)); err != nil {
			return err
		}
	}
	return nil
}

// binary is the path of the slotwise command that is measured.
func (s *settings) binary() string { return filepath.Join(s.data, "slotwise") }
