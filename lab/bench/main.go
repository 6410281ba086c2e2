// Command bench measures slotwise against the tools that one would use
// otherwise, in one run, and prints ratios: they mean something on any machine,
// where seconds do not.
//
//	go -C lab run ./bench                     everything at full size (about an hour)
//	go -C lab run ./bench -list               the rows
//	go -C lab run ./bench -only sort -n 3     rows whose name matches, three rounds
//	go -C lab run ./bench -scale 0.01 -n 1    a hundredth of the sizes, to try it out
//
// Each row has contestants that do the same work. They run in turns, and the
// median of the rounds counts. Before each run the input is in the page cache and
// no earlier output waits to be written to disk. Times are of whole
// processes, from start to exit. Once per row the outputs are compared; a row with
// different answers fails.
//
// Inputs are made by slotwise generate into bench/data and kept for the next
// run. The benchmark installs nothing: it reports a missing tool as missing.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"

	"github.com/slotwise/slotwise/lab/harness"
)

// settings are the flags.
type settings struct {
	only    *regexp.Regexp
	rounds  int
	scale   float64
	data    string // directory of inputs and outputs
	json    string // file of results
	python  string // interpreter that has the duckdb module
	slow    bool   // also run contestants that take minutes
	list    bool
	workers int
}

func main() {
	harness.Main("bench", func(ctx context.Context) error {
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
	fs := flag.NewFlagSet("bench", flag.ExitOnError)
	only := fs.String("only", "", "run only rows whose name matches this regular expression")
	fs.IntVar(&s.rounds, "n", 5, "rounds; the median counts")
	fs.Float64Var(&s.scale, "scale", 1, "multiply all input sizes by this")
	fs.StringVar(&s.data, "data", "data", "directory for inputs and outputs, 15 GiB at full size")
	fs.StringVar(&s.json, "json", "data/results/latest.json", "write the results to this file")
	fs.StringVar(&s.python, "python", "python3", "a Python with the duckdb module")
	fs.BoolVar(&s.slow, "slow", false, "also run contestants that take minutes")
	fs.BoolVar(&s.list, "list", false, "list the rows and stop")
	fs.IntVar(&s.workers, "workers", runtime.NumCPU(), "number of slotwise workers")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if s.rounds < 1 || s.scale <= 0 || s.workers < 1 {
		return nil, fmt.Errorf("-n, -scale and -workers must be positive")
	}
	var err error
	if s.only, err = regexp.Compile(*only); err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	return s, nil
}

// run measures the chosen rows one after the other. It reports a row that cannot
// be measured and continues with the next one.
func run(ctx context.Context, s *settings) error {
	b := newBench(s)
	if s.list {
		for _, r := range b.rows() {
			fmt.Printf("%-16s %s\n", r.name, r.what)
		}
		return nil
	}
	if err := b.prepare(ctx); err != nil {
		return err
	}
	out := report{Cores: runtime.NumCPU(), Load: harness.Load(), Rounds: s.rounds, Scale: s.scale, Workers: s.workers}
	fmt.Printf("%d cores; load averages at the start: %s (other work on the machine distorts the ratios)\n", out.Cores, out.Load)
	missed := 0
	for _, r := range b.rows() {
		if !s.only.MatchString(r.name) {
			continue
		}
		res, err := b.measure(ctx, r)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			res = &result{Row: r.name, What: r.what, Error: err.Error()}
		}
		if !res.ok() {
			missed++
		}
		out.Results = append(out.Results, res)
		printRow(os.Stdout, res)
	}
	printSummary(os.Stdout, out.Results)
	printPatterns(os.Stdout, out.Results)
	if err := harness.WriteJSON(s.json, out); err != nil {
		return err
	}
	fmt.Printf("\n%d of %d rows are within their limits; details in %s\n", len(out.Results)-missed, len(out.Results), s.json)
	return nil
}
