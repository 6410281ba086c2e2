// Command policies measures what schedulers gain on real work: mixes of jobs
// under several policies, run by slotwise in turns, in one run, so that the
// ratios mean something on any machine.
//
//	go run ./bench/policies                   everything, five rounds, about eight minutes
//	go run ./bench/policies -only '^grep' -n 3
//	go run ./bench/policies -list
//
// There are three experiments. In typed, one worker has a map slot and a reduce
// slot, and jobs that need a processor are run alone and mixed: what do policies
// gain that give slots to either kind? In overload, four workers fetch pages from
// a slow server on the loopback interface while another job computes: what do
// policies gain that learn how many tasks a worker bears, over a fixed number? In
// behind, ten small jobs come after a large one: how much longer do they take
// than by themselves?
//
// Seconds count from the first submission to the last end, without the start of
// the process. A gain is that of the median round, each against the first policy
// of the same round.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"
	"time"
)

// settings are the flags.
type settings struct {
	only    *regexp.Regexp
	rounds  int
	data    string
	json    string
	list    bool
	timeout time.Duration
}

func main() {
	s, err := parseFlags(os.Args[1:])
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		err = run(ctx, s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/policies:", err)
		os.Exit(1)
	}
}

func parseFlags(args []string) (*settings, error) {
	s := &settings{}
	fs := flag.NewFlagSet("bench/policies", flag.ExitOnError)
	only := fs.String("only", "", "run only mixes whose name matches this regular expression")
	fs.IntVar(&s.rounds, "n", 5, "rounds; the median counts")
	fs.StringVar(&s.data, "data", "bench/data/policies", "directory for inputs and the built program, 100 MiB")
	fs.StringVar(&s.json, "json", "", "file for the results")
	fs.BoolVar(&s.list, "list", false, "list the mixes and stop")
	fs.DurationVar(&s.timeout, "timeout", 30*time.Second, "give up on a run after so long")
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

func run(ctx context.Context, s *settings) error {
	inputs := &inputs{dir: s.data}
	mixes := everyMix(inputs)
	if s.list {
		for _, m := range mixes {
			fmt.Printf("%-9s %-14s %s\n", m.experiment, m.name, m.what)
		}
		return nil
	}
	if err := prepare(ctx, s, inputs); err != nil {
		return err
	}
	before := cpuBusy()
	server := startPages()
	defer server.Close()
	if err := writeURLs(inputs.text("urls"), server.URL); err != nil {
		return err
	}
	r := report{Cores: runtime.NumCPU(), Busy: before, Rounds: s.rounds}
	fmt.Printf("%d cores, %.0f %% busy with other work when this began\n", r.Cores, 100*r.Busy)
	for _, m := range everyMix(inputs) {
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
	return r.write(s.json)
}

// prepare builds slotwise and makes the inputs that are not there yet.
func prepare(ctx context.Context, s *settings, in *inputs) error {
	dir, err := filepath.Abs(s.data)
	if err != nil {
		return err
	}
	s.data, in.dir = dir, dir
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", s.binary(), "./cmd/slotwise").CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	for name, size := range textSizes {
		text := in.text(name)
		if _, err := os.Stat(text); err == nil {
			continue
		}
		if out, err := exec.CommandContext(ctx, s.binary(), "generate", "text", "--size", size, "--seed", "1",
			"--output", text).CombinedOutput(); err != nil {
			return fmt.Errorf("slotwise generate: %w\n%s", err, out)
		}
	}
	return nil
}

func (s *settings) binary() string { return filepath.Join(s.data, "slotwise") }
