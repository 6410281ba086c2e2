package mapreduce

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// Exit codes of [Main], the same as those of the slotwise command.
const (
	ExitOK          = 0
	ExitFailed      = 1   // the job failed
	ExitMisuse      = 2   // wrong flags
	ExitInterrupted = 130 // Ctrl-C
)

// Main makes a program of a job: it reads flags (-input, -output, -reduces, …;
// see -help), runs the job on this machine, prints a summary to standard error
// and exits.
func Main(j *Job) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := runMain(ctx, j, os.Args[1:], os.Stderr)
	stop()
	os.Exit(code)
}

// list is a flag that may be given several times.
type list []string

// String joins the values.
func (l *list) String() string { return strings.Join(*l, ",") }

// Set adds a value.
func (l *list) Set(s string) error {
	*l = append(*l, s)
	return nil
}

func runMain(ctx context.Context, j *Job, args []string, stderr io.Writer) int {
	var o Options
	f := flag.NewFlagSet(j.Name, flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Var((*list)(&o.Inputs), "input", "file, directory or glob to read; may be repeated")
	f.Var((*list)(&o.Include), "include", "glob of file names to take; may be repeated")
	f.StringVar(&o.Output, "output", "", "directory to write")
	f.BoolVar(&o.Overwrite, "overwrite", false, "replace the output directory if it exists, once the job has succeeded")
	f.IntVar(&o.Reduces, "reduces", 0, "number of reduce tasks (0: choose)")
	f.IntVar(&o.Cluster.Workers, "workers", 0, "number of in-process workers (0: as many as cores)")
	f.Usage = func() {
		fmt.Fprintf(stderr, "usage: %s -input PATH -output DIR [flags]\n\n", j.Name)
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return ExitOK
		}
		return ExitMisuse
	}
	if o.Output == "" || (len(o.Inputs) == 0 && j.Synthetic == 0 && j.Mapper != nil) || f.NArg() > 0 {
		f.Usage()
		return ExitMisuse
	}
	r, err := Run(ctx, j, o)
	switch {
	case err == nil:
		fmt.Fprintf(stderr, "%s: succeeded in %.2f s, output in %s\n", j.Name, r.Elapsed.Seconds(), o.Output)
		return ExitOK
	case ctx.Err() != nil:
		fmt.Fprintf(stderr, "%s: interrupted\n", j.Name)
		return ExitInterrupted
	}
	fmt.Fprintf(stderr, "%s: %v\n", j.Name, err)
	return ExitFailed
}
