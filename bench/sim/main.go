// Command sim measures what the simulator costs: for clusters of 100, 1,000 and
// 10,000 nodes under fifo and fair, and for a day of a public trace, in one run, so
// that the ratios mean something on any machine.
//
//	go run ./bench/sim                          three rounds, about five minutes
//	go run ./bench/sim -n 1 -only '^fifo'
//	SLOTWISE_TRACES=DIR go run ./bench/sim      with the day, if DIR has the trace
//
// An event is one entry taken from the queue that was not overtaken; a decision is
// a launch. Time is that of the processor, one at a time, so that what else the
// machine does counts as little as possible; rows take turns and the median of the
// rounds counts. Memory is the most that is alive beside the list of jobs, looked
// at in a run of its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr, sizes); err != nil {
		fmt.Fprintln(os.Stderr, "bench/sim:", err)
		os.Exit(1)
	}
}

// run measures clusters of some sizes and prints the tables.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, sizes []int) error {
	flags := flag.NewFlagSet("sim", flag.ContinueOnError)
	flags.SetOutput(stderr)
	rounds := flags.Int("n", 3, "rounds")
	only := flags.String("only", "", "measure the rows whose names match this expression")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 || *rounds < 1 {
		return errors.Join(err, errors.New("usage: sim [-n ROUNDS] [-only EXPRESSION]"))
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	rows, err := rowsFor(sizes, os.Getenv("SLOTWISE_TRACES"))
	if err != nil {
		return err
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for round := range *rounds {
		for _, r := range rows {
			if !match.MatchString(r.name()) {
				continue
			}
			fmt.Fprintf(stderr, "round %d: %s\n", round+1, r.name())
			if err := r.measure(ctx); err != nil {
				return fmt.Errorf("%s: %w", r.name(), err)
			}
		}
	}
	return printTable(stdout, rows)
}
