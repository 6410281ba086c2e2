// Command simreal runs mixes of jobs for real and in the simulator, and compares
// when each job ended.
//
//	go -C lab run ./simreal                        all mixes, five rounds
//	go -C lab run ./simreal -scale 0.1 -n 1        a tenth of the sizes, to try it out
//	go -C lab run ./simreal -markdown results/sim-vs-real.md
//	go -C lab run ./simreal -wide -n 3 -markdown results/sim-vs-real.md
//	go -C lab run ./simreal -known -n 3 -markdown results/sim-vs-real-known.md
//
// The report has two parts, and one run makes one part. The first has mixes on one worker
// of 1+1 slots for each processor. The second, with -wide, has one mix under every policy, and
// jobs with memory limits, on 4 workers of 2+2 slots. A run with -markdown replaces its part of
// the file.
//
// With -known tasks sleep for stated times, which leaves the decisions and their timing to compare; the
// result is on another page.
//
// In each round the command first measures the cost profile of each app, as "slotwise profile"
// does, on inputs that no mix reads. Then it runs each mix in the local shell. It
// simulates every run on a cluster with the same number of workers on one machine,
// from the cost profiles and the sizes of the splits. A reference loop beside profiles and mixes
// shows whether the speed of the machine has changed between them; then the simulated nodes get that speed. The median of the simulated times is
// compared with the median of the real ones. The submission times are all
// that the simulation takes from the real run.
//
// Other work on the machine makes the real runs slower, and no profile can predict
// that. Real times are therefore measured with a clock that pauses while other
// processes use the processors that this one could use. On a quiet machine it
// never pauses. With -quiet above 0, a round counts only if the clock ran for at
// least that share of the time. After -tries rounds for each one that must count,
// the rounds with the largest shares are used. Below a share of about one half the
// clock is not reliable: a report for publication needs a quiet machine, 3 GiB of
// free memory and five minutes. -mix and -except cut a run into shorter ones.
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

	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/lab/harness"
)

// settings are the flags.
type settings struct {
	data     string
	markdown string
	only     string // -mix
	except   string
	scale    float64
	rounds   int
	tries    int     // the most rounds to run for each one that counts
	quiet    float64 // the least share of the time that the clock must run in a round that counts
	wide     bool
	asleep   bool  // -known
	shape    shape // of the cluster
	// contention has for each program its processor time beside others over that alone; it is
	// measured in each round, and the median over the rounds counts for the report.
	contention []float64
	// speed is the speed of the simulated nodes relative to the machine's when the profiles were
	// measured; 0 is 1.
	speed float64
	log   io.Writer // progress
}

func main() {
	s := &settings{log: os.Stderr}
	flag.StringVar(&s.data, "data", "", "directory for inputs and results, best in memory; a temporary one by default")
	flag.StringVar(&s.markdown, "markdown", "", "write the report to this file")
	flag.Float64Var(&s.scale, "scale", 1, "multiply all sizes and submission times by this")
	flag.IntVar(&s.rounds, "n", 5, "rounds; the median counts")
	flag.IntVar(&s.tries, "tries", 4, "with -quiet: run at most this many rounds for each one that counts, then use the quietest")
	flag.Float64Var(&s.quiet, "quiet", 0, "least `share` of the time that the clock must run in a round that counts")
	flag.StringVar(&s.only, "mix", "", "run only the mixes whose names contain one of `these`, or of these policies, with commas between")
	flag.StringVar(&s.except, "except", "", "leave out the mixes of `these` policies, with commas between")
	flag.BoolVar(&s.wide, "wide", false, "make the second part: every policy, and memory limits, on 4 workers of 2+2 slots")
	flag.BoolVar(&s.asleep, "known", false, "run the part with known durations: sleeping tasks under policies that do not learn")
	workers := flag.Int("workers", 0, "number of workers, and of nodes of the simulated cluster (default: that of the part)")
	slots := flag.String("slots", "", "map and reduce slots of a worker, as `2+2` (default: those of the part)")
	flag.Parse()
	harness.Main("lab/simreal", func(ctx context.Context) error {
		if err := s.setShape(*workers, *slots); err != nil {
			return err
		}
		return s.run(ctx)
	})
}

// shape is the form of a cluster, real and simulated.
type shape struct {
	workers, maps, reduces int   // workers, and slots of a worker
	memory                 int64 // bytes of all workers together; 0 is the local shell's default
}

// plainShape is the cluster of the first part: no more tasks of a kind than processors.
var plainShape = shape{workers: runtime.NumCPU(), maps: 1, reduces: 1}

// wideShape is the cluster of the second part. Its memory is 64 MiB for each slot.
var wideShape = shape{workers: 4, maps: 2, reduces: 2, memory: 16 * wideSlot}

// wideSlot is the memory of a slot of wideShape in bytes.
const wideSlot = 64 * harness.MiB

// setShape sets the shape of the chosen part, and then what the flags -workers and -slots say.
func (s *settings) setShape(workers int, slots string) error {
	s.shape = plainShape
	if s.wide {
		s.shape = wideShape
	}
	if workers < 0 {
		return fmt.Errorf("-workers %d must not be negative", workers)
	}
	if workers > 0 {
		s.shape.workers = workers
	}
	if slots != "" {
		if n, err := fmt.Sscanf(slots+"\n", "%d+%d\n", &s.shape.maps, &s.shape.reduces); n != 2 || err != nil || s.shape.maps < 1 || s.shape.reduces < 1 {
			return fmt.Errorf("-slots %s: want two numbers above 0, as 2+2", slots)
		}
	}
	if s.wide {
		s.shape.memory = int64(s.shape.workers*(s.shape.maps+s.shape.reduces)) * wideSlot
	}
	return nil
}

// mixes returns the mixes of the chosen part.
func (s *settings) mixes() []mix {
	if s.wide {
		return wideMixes()
	}
	return mixes
}

// run measures and prints the report.
func (s *settings) run(ctx context.Context) error {
	if !s.asleep && !slices.ContainsFunc(s.mixes(), s.chosen) {
		return fmt.Errorf("-mix %s: no mix has this in its name or is of that policy", s.only)
	}
	if s.scale <= 0 || s.rounds < 1 || s.tries < 1 {
		return fmt.Errorf("-scale, -n and -tries must be positive")
	}
	if s.data == "" {
		dir, err := os.MkdirTemp("", "simreal-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		s.data = dir
	}
	if s.asleep {
		return s.known(ctx)
	}
	r, err := s.compare(ctx)
	if err != nil {
		return err
	}
	r.print(os.Stdout)
	if s.markdown == "" {
		return nil
	}
	return r.replacePart(s.markdown)
}

// chosen reports whether the flags -mix and -except choose a mix.
func (s *settings) chosen(m mix) bool {
	if s.except != "" && slices.Contains(strings.Split(s.except, ","), m.policy) {
		return false
	}
	return slices.ContainsFunc(strings.Split(s.only, ","), func(of string) bool { return strings.Contains(m.name, of) || m.policy == of })
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
	var list []*mix
	for _, m := range s.mixes() {
		if s.chosen(m) {
			list = append(list, &m)
		}
	}
	var err error
	r.mixes, r.profiles, err = s.compareRounds(ctx, list)
	return r, err
}
