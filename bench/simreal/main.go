// Command simreal runs mixes of jobs for real and in the simulator, and compares
// when each job ended.
//
//	go run ./bench/simreal                        all mixes, five rounds
//	go run ./bench/simreal -scale 0.1 -n 1        a tenth of the sizes, to try it out
//	go run ./bench/simreal -markdown docs/sim-vs-real.md
//
// First it measures the profile of each app as slotwise profile does, on inputs
// that no mix reads. Then it runs each mix in the local shell, and simulates it
// on a cluster of as many workers on one machine, from the profiles and the
// sizes of the splits: of a run only the times of submission go into its
// simulation.
//
// Other work on the machine makes the real runs slower, which no profile can
// know. So real times are taken by a clock that stands still while others have
// the processors that we could use; on a quiet machine it is the time. With
// -quiet above 0 a round counts only if the clock went for at least that part of
// the time, up to -tries rounds for each that is wanted; then those with the
// largest parts are taken. Below a half or so the clock is only a makeshift: a
// page for others to read wants a quiet machine, some 3 GiB of free memory and
// five minutes.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/slotwise/slotwise/internal/workload"
)

// settings are the flags.
type settings struct {
	data     string
	markdown string
	only     string
	scale    float64
	rounds   int
	tries    int     // at most, for each round that counts
	quiet    float64 // the least part of the time that the clock goes in a round that counts
	workers  int
	log      io.Writer // progress
}

func main() {
	s := &settings{log: os.Stderr}
	flag.StringVar(&s.data, "data", "", "directory for inputs and results, best in memory; a temporary one by default")
	flag.StringVar(&s.markdown, "markdown", "", "file for the report")
	flag.Float64Var(&s.scale, "scale", 1, "multiplies all sizes and times of submission")
	flag.IntVar(&s.rounds, "n", 5, "rounds; the median counts")
	flag.IntVar(&s.tries, "tries", 4, "give up on quiet after so many rounds for each that counts, and take the quietest")
	flag.Float64Var(&s.quiet, "quiet", 0, "least `part` of the time that the machine was ours in a round that counts")
	flag.StringVar(&s.only, "mix", "", "only the mixes whose names contain `this`")
	flag.IntVar(&s.workers, "workers", runtime.NumCPU(), "workers, and nodes of the simulated cluster")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := s.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "simreal:", err)
		os.Exit(1)
	}
}

func (s *settings) run(ctx context.Context) error {
	if !slices.ContainsFunc(mixes, func(m mix) bool { return strings.Contains(m.name, s.only) }) {
		return fmt.Errorf("-mix %s: there is no such mix", s.only)
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

// report is all that was measured.
type report struct {
	settings *settings
	load     string // averages at the start
	profiles []workload.Profile
	mixes    []*mixReport
}

// compare makes the inputs, measures the profiles and compares each mix.
func (s *settings) compare(ctx context.Context) (*report, error) {
	r := &report{settings: s, load: loadAverage()}
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

func loadAverage() string {
	var one, five, fifteen string
	f, err := os.Open("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	if _, err := fmt.Fscan(f, &one, &five, &fifteen); err != nil {
		return "unknown"
	}
	return one + " " + five + " " + fifteen
}
