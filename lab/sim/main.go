// Command sim measures how many tasks a second the simulator handles: on clusters of 100, 1,000
// and 10,000 nodes under fifo and fair; with a day of a public trace under every policy, on as
// many nodes as the trace is from and on so few that tasks always wait; and on 100,000 nodes
// that are nearly all idle. A second table has the cost of a heartbeat under every policy. All
// rows are measured in one run, so that the ratios mean something on any machine.
//
//	go -C lab run ./sim                          three rounds, about ten minutes
//	go -C lab run ./sim -n 1 -only '^fifo'
//	go -C lab run ./sim -n 1 -only 'heartbeats|day'
//	SLOTWISE_TRACES=DIR go -C lab run ./sim      with the day, if DIR has the trace
//
// A task is a launched attempt. An event is an arrival, a heartbeat, the end of a stage, a failure
// or a timer; heartbeats of idle nodes count, although the simulator only computes their number.
// So events a second grow with the idleness of a cluster, and tasks a second do not. Times are
// processor times on one processor, which other work on the machine distorts
// least. Rows take turns, and the median of the rounds counts. Memory is the
// largest live heap, without the list of jobs, measured in a separate run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"slices"

	"github.com/slotwise/slotwise/lab/harness"
)

func main() {
	harness.Main("lab/sim", func(ctx context.Context) error {
		return run(ctx, os.Args[1:], os.Stdout, os.Stderr, sizes)
	})
}

// run measures clusters of the given sizes and prints the table.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, sizes []int) error {
	flags := flag.NewFlagSet("sim", flag.ContinueOnError)
	flags.SetOutput(stderr)
	rounds := flags.Int("n", 3, "rounds; the median counts")
	only := flags.String("only", "", "measure only rows whose name matches this regular expression")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 || *rounds < 1 {
		return errors.Join(err, errors.New("usage: sim [-n ROUNDS] [-only EXPRESSION]"))
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	rows, err := rowsFor(sizes, os.Getenv("SLOTWISE_TRACES"))
	if err != nil {
		return err
	}
	rows = slices.DeleteFunc(rows, func(r *row) bool { return !match.MatchString(r.name()) })
	beats := slices.DeleteFunc(beatRows(sizes), func(r *beatRow) bool { return !match.MatchString(r.name()) })
	contestants := make([]contestant, 0, len(rows)+len(beats))
	for _, r := range rows {
		contestants = append(contestants, r)
	}
	for _, r := range beats {
		contestants = append(contestants, r)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	err = harness.Rounds(ctx, *rounds, len(contestants), func(round, i int) error {
		c := contestants[i]
		fmt.Fprintf(stderr, "round %d: %s\n", round+1, c.name())
		if err := c.measure(ctx); err != nil {
			return fmt.Errorf("%s: %w", c.name(), err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(rows) > 0 {
		printTable(stdout, rows)
	}
	if len(beats) > 0 {
		printBeats(stdout, beats)
	}
	return nil
}

// contestant is a row of a table. measure makes the measurement of one round.
type contestant interface {
	name() string
	measure(ctx context.Context) error
}
