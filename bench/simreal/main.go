// Command simreal runs mixes of jobs for real and in the simulator, and compares
// when each job ended.
//
//	go run ./bench/simreal                        all mixes, five rounds
//	go run ./bench/simreal -scale 0.1 -n 1        a tenth of the sizes, to try it out
//	go run ./bench/simreal -markdown docs/sim-vs-real.md
//
// First the command measures the cost profile of each app, as "slotwise profile"
// does, on inputs that no mix reads. Then it runs each mix in the local shell. It
// simulates every run on a cluster with the same number of workers on one machine,
// from the cost profiles and the sizes of the splits. The submission times are all
// that the simulation takes from the real run.
//
// Other work on the machine makes the real runs slower, and no profile can predict
// that. Real times are therefore measured with a clock that pauses while other
// processes use the processors that this one could use. On a quiet machine it
// never pauses. With -quiet above 0, a round counts only if the clock ran for at
// least that share of the time. After -tries rounds for each one that must count,
// the rounds with the largest shares are used. Below a share of about one half the
// clock is not reliable: a report for publication needs a quiet machine, 3 GiB of
// free memory and five minutes.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/slotwise/slotwise/bench/harness"
	"github.com/slotwise/slotwise/internal/workload"
)

// settings are the flags.
type settings struct {
	data     string
	markdown string
	only     string
	scale    float64
	rounds   int
	tries    int     // the most rounds to run for each one that counts
	quiet    float64 // the least share of the time that the clock must run in a round that counts
	workers  int
	log      io.Writer // progress
}

func main() {
	s := &settings{log: os.Stderr}
	flag.StringVar(&s.data, "data", "", "directory for inputs and results, best in memory; a temporary one by default")
	flag.StringVar(&s.markdown, "markdown", "", "write the report to this file")
	flag.Float64Var(&s.scale, "scale", 1, "multiply all sizes and submission times by this")
	flag.IntVar(&s.rounds, "n", 5, "rounds; the median counts")
	flag.IntVar(&s.tries, "tries", 4, "with -quiet: run at most this many rounds for each one that counts, then use the quietest")
	flag.Float64Var(&s.quiet, "quiet", 0, "least `share` of the time that the clock must run in a round that counts")
	flag.StringVar(&s.only, "mix", "", "run only the mixes whose names contain `this`")
	flag.IntVar(&s.workers, "workers", runtime.NumCPU(), "number of workers, and of nodes of the simulated cluster")
	flag.Parse()
	harness.Main("bench/simreal", s.run)
}

// run measures and prints the report.
func (s *settings) run(ctx context.Context) error {
	if !slices.ContainsFunc(mixes, func(m mix) bool { return strings.Contains(m.name, s.only) }) {
		return fmt.Errorf("-mix %s: no mix has this in its name", s.only)
	}
	if s.scale <= 0 || s.rounds < 1 || s.tries < 1 || s.workers < 1 {
		return fmt.Errorf("-scale, -n, -tries and -workers must be positive")
	}
	if s.data == "" {
		dir, err := os.MkdirTemp("", "simreal-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		s.data = dir
	}
	r, err := s.compare(ctx)
	if err != nil {
		return err
	}
	r.print(os.Stdout)
	if s.markdown == "" {
		return nil
	}
	f, err := os.Create(s.markdown)
	if err != nil {
		return err
	}
	r.print(f)
	return f.Close()
}

// report has all measurements.
type report struct {
	settings *settings
	profiles []workload.Profile
	mixes    []*mixReport
}

// compare makes the inputs, measures the cost profiles, and runs and simulates
// each mix.
func (s *settings) compare(ctx context.Context) (*report, error) {
	r := &report{settings: s}
	if err := s.makeInputs(ctx); err != nil {
		return nil, err
	}
	for i := range programs {
		p, err := s.profile(ctx, &programs[i])
		if err != nil {
			return nil, fmt.Errorf("profile of %s: %w", programs[i].name, err)
		}
		r.profiles = append(r.profiles, p)
	}
	var list []*mix
	for i := range mixes {
		if strings.Contains(mixes[i].name, s.only) {
			list = append(list, &mixes[i])
		}
	}
	var err error
	r.mixes, err = s.compareMixes(ctx, list, r.profiles)
	return r, err
}
