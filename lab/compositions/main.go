// Command compositions searches the compositions of the papers' parts for one that is good
// everywhere. It simulates them in worlds of two kinds: some to choose a
// composition in, the others to confirm the choice.
//
//	SLOTWISE_TRACES=DIR go -C lab run ./compositions choose     about 20 minutes on one processor
//	SLOTWISE_TRACES=DIR go -C lab run ./compositions confirm    the finalists beside every named policy
//	SLOTWISE_TRACES=DIR go -C lab run ./compositions ablate     the chosen policy, one part replaced at a time
//	SLOTWISE_TRACES=DIR go -C lab run ./compositions heter      why H_TuMM's slots are weaker under fair shares
//	go -C lab run ./compositions real                           the chosen policy beside the named ones on the real engine
//	go -C lab run ./compositions list
//
// DIR has the SWIM trace swim-fb-2009-0.tsv. All runs of a world and seed have the same jobs
// and the same draws of the simulator, so they are compared in pairs.
//
// A loss is how much larger a measure is than the smallest value that any composition or
// policy of the same table reached in that world. choose ranks by the mean of log(1 + loss)
// over all worlds and measures, so halving a time counts as much in each.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/slotwise/slotwise/lab/harness"
)

// settings are the flags.
type settings struct {
	trace string // file of the SWIM trace
	only  *regexp.Regexp
	seeds int
	keep  int // compositions that choose prints
}

func main() {
	harness.Main("lab/compositions", func(ctx context.Context) error { return run(ctx, os.Args[1:]) })
}

// traceFile is a public trace, in the folder that SLOTWISE_TRACES names.
const traceFile = "swim-fb-2009-0.tsv"

func run(ctx context.Context, args []string) error {
	s := &settings{trace: filepath.Join(os.Getenv("SLOTWISE_TRACES"), traceFile)}
	flags := flag.NewFlagSet("compositions", flag.ContinueOnError)
	only := flags.String("only", "", "use only worlds whose name matches this regular expression")
	flags.IntVar(&s.seeds, "seeds", 3, "seeds of each world of confirm, ablate and heter; rounds of real")
	flags.IntVar(&s.keep, "keep", 20, "how many compositions choose prints")
	stages := map[string]func(context.Context, *settings) error{"choose": choose, "confirm": confirm, "ablate": ablate, "heter": heter, "real": onEngine, "list": list}
	if len(args) == 0 || stages[args[0]] == nil {
		return errors.New("the first argument must be choose, confirm, ablate, heter, real or list")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if s.seeds < 2 || s.keep < 1 {
		return errors.New("-seeds must be at least 2 and -keep at least 1")
	}
	var err error
	if s.only, err = regexp.Compile(*only); err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	return stages[args[0]](ctx, s)
}

// list prints the worlds and the number of compositions.
func list(context.Context, *settings) error {
	for _, w := range worlds() {
		use := "confirms"
		if w.chooses {
			use = "chooses"
		}
		fmt.Printf("%-9s %-22s %s\n", use, w.name, w.what)
	}
	fmt.Printf("%d compositions\n", len(everyComposition()))
	return nil
}
