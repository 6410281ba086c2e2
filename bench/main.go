// Command bench measures slotwise against the tools that one would use
// otherwise, in one run, and prints ratios: they mean something on any machine,
// where seconds do not.
//
//	go run ./bench                     everything at full size (about an hour)
//	go run ./bench -list               the rows
//	go run ./bench -only sort -n 3     rows whose name matches, three rounds
//	go run ./bench -scale 0.01 -n 1    a hundredth of the sizes, to try it out
//
// Each row has contestants that do the same work. They run in turns, so that a
// slow minute of the machine hits all; the median of the rounds counts. Before
// each run the input is in the page cache and nothing waits to be written. The
// time is that of the whole process, from start to exit. Once per row the
// outputs are compared; a row with different answers fails.
//
// Inputs are made by slotwise generate into bench/data and kept. Nothing is
// installed: a tool that is missing is reported as such.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"strings"
	"syscall"
)

// settings are the flags.
type settings struct {
	only    *regexp.Regexp
	rounds  int
	scale   float64
	data    string // directory of inputs and outputs
	json    string // file of results
	python  string // interpreter that has the duckdb module
	slow    bool   // also contestants that take minutes
	list    bool
	workers int
	load    string // not a flag: load averages at the start
}

func main() {
	s, err := parseFlags(os.Args[1:])
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		err = run(ctx, s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parseFlags(args []string) (*settings, error) {
	s := &settings{}
	fs := flag.NewFlagSet("bench", flag.ExitOnError)
	only := fs.String("only", "", "run only rows whose name matches this regular expression")
	fs.IntVar(&s.rounds, "n", 5, "rounds; the median counts")
	fs.Float64Var(&s.scale, "scale", 1, "multiplies all input sizes")
	fs.StringVar(&s.data, "data", "bench/data", "directory for inputs and outputs, 15 GiB at full size")
	fs.StringVar(&s.json, "json", "bench/results/latest.json", "file for the results")
	fs.StringVar(&s.python, "python", "python3", "a Python with the duckdb module")
	fs.BoolVar(&s.slow, "slow", false, "also run contestants that take minutes")
	fs.BoolVar(&s.list, "list", false, "list the rows and stop")
	fs.IntVar(&s.workers, "workers", runtime.NumCPU(), "workers of slotwise")
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

// run measures the chosen rows one after the other. A row that cannot be
// measured is reported and does not stop the others.
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
	s.load = loadAverage()
	fmt.Printf("%d cores; load averages at the start: %s (a machine with other work gives no clean ratios)\n", runtime.NumCPU(), s.load)
	var results []*result
	bad := 0
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
			bad++
		}
		results = append(results, res)
		printRow(os.Stdout, res)
	}
	printSummary(os.Stdout, results)
	if err := writeJSON(s.json, s, results); err != nil {
		return err
	}
	fmt.Printf("\n%d of %d rows hold; details in %s\n", len(results)-bad, len(results), s.json)
	return nil
}

// loadAverage returns how busy the machine was over the last 1, 5 and 15
// minutes, "unknown" if it does not tell.
func loadAverage() string {
	data, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(data))
	if err != nil || len(fields) < 3 {
		return "unknown"
	}
	return strings.Join(fields[:3], " ")
}
