package mapreduce

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/slotwise/slotwise/internal/console"
	"github.com/slotwise/slotwise/internal/feature"
)

// The exit codes of [Main] are the same as the slotwise command's.
const (
	ExitOK          = 0
	ExitFailed      = 1                       // the job failed
	ExitMisuse      = 2                       // wrong flags or files: nothing was started
	ExitInterrupted = console.ExitInterrupted // Ctrl-C
)

// Feature is an optional part of a program: storage beyond local files, more
// compression, or running jobs on a cluster. A program links the libraries of
// the features that it names and no others.
//
//	mapreduce.Main(job, hdfs.Storage(), s3.Storage(), remote.Client())
//
// The packages hdfs, s3, compression, nodeload and remote below this one make
// features.
type Feature = feature.Feature

// errNoClient is the error of a program without remote.Client().
var errNoClient = errors.New("it has no cluster client: pass remote.Client() of package mapreduce/remote to mapreduce.Main or mapreduce.RunAttempt")

// Main is the main function of a program that runs one job. It reads flags
// (-input, -output, -memory, …; -help lists them), runs the job on this machine,
// prints progress and counters on standard error, and exits with one of the exit
// codes above. The first interrupt kills the job and removes its output; the
// second one exits at once.
//
// With the feature remote.Client() the flag -master runs the job on a cluster.
// Its workers run this same program for each task: what the program does before
// it calls Main happens for each task, and j must not depend on arguments.
func Main(j *Job, features ...Feature) {
	RunAttempt(func(string) (*App, error) {
		return &App{Job: func(Params) (*Job, error) { return j, nil }}, nil
	}, features...)
	ctx, stop := console.Interruptible(context.Background(), j.Name, os.Stderr)
	code := runMain(ctx, j, features, os.Args[1:], os.Stderr)
	stop()
	os.Exit(code)
}

// list is the value of a flag that may be repeated.
type list []string

// String joins the values.
func (l *list) String() string { return strings.Join(*l, ",") }

// Set adds a value.
func (l *list) Set(s string) error {
	*l = append(*l, s)
	return nil
}

// mainFlags declares the flags of [Main] without the flags of the cluster client.
func mainFlags(name string, o *Options, quiet *bool) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.Var((*list)(&o.Inputs), "input", "`file`, directory or glob to read; may be repeated")
	f.Var((*list)(&o.Include), "include", "`glob` of file names to take; may be repeated")
	f.Var((*list)(&o.Exclude), "exclude", "`glob` of file names to leave out; may be repeated")
	f.StringVar(&o.Output, "output", "", "`directory` to write")
	f.BoolVar(&o.Overwrite, "overwrite", false, "replace the output directory, once the job has succeeded")
	f.IntVar(&o.Reduces, "reduces", 0, "`number` of reduce tasks (0: choose)")
	f.Var((*console.Size)(&o.Cluster.Memory), "memory", "`size` of the memory for all tasks together, as 512MiB (0: a quarter of RAM)")
	f.Var((*console.Size)(&o.SplitSize), "split-size", "`size` of the input of one map task (0: choose)")
	f.StringVar(&o.Compress, "compress", "none", "`codec` of intermediate data: none, lz4, s2 or zstd")
	f.IntVar(&o.Cluster.Workers, "workers", 0, "`number` of in-process workers (0: as many as cores)")
	f.StringVar(&o.Cluster.TempDir, "temp-dir", "", "`directory` for spills (default: the system's)")
	f.BoolVar(quiet, "quiet", false, "print nothing but errors")
	return f
}

// clusterFlags declares the flags that name a cluster. After parsing, connect
// returns the cluster, or nil for this process.
func clusterFlags(f *flag.FlagSet, cluster *feature.Cluster) (connect func() (feature.Remote, error)) {
	if cluster != nil {
		return cluster.Flags(f)
	}
	f.Func("master", "not available: this program was built without remote.Client()", func(string) error {
		return fmt.Errorf("this program cannot use a cluster: %w", errNoClient)
	})
	return func() (feature.Remote, error) { return nil, nil }
}

// runMain is Main without the process around it. It returns the exit code.
func runMain(ctx context.Context, j *Job, features []Feature, args []string, stderr io.Writer) int {
	o := Options{Features: features}
	set, err := feature.Combine(features)
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", j.Name, err)
		return ExitMisuse
	}
	var quiet bool
	f := mainFlags(j.Name, &o, &quiet)
	connect := clusterFlags(f, set.Cluster)
	f.SetOutput(stderr)
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
	if why := missing(j, &o, f.Args()); why != "" {
		fmt.Fprintf(stderr, "%s: %s (-help lists the flags)\n", j.Name, why)
		return ExitMisuse
	}
	if !quiet {
		o.Progress = progressLines(stderr)
	}
	if o.Remote, err = connect(); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", j.Name, err)
		return ExitMisuse
	}
	r, err := runMainJob(ctx, j, o)
	if r != nil && !quiet {
		r.Summary(stderr)
	}
	switch {
	case err == nil && quiet:
		return ExitOK
	case err == nil:
		fmt.Fprintf(stderr, "output: %s\n", o.Output)
		return ExitOK
	case ctx.Err() != nil:
		fmt.Fprintf(stderr, "%s: interrupted\n", j.Name)
		return ExitInterrupted
	}
	fmt.Fprintf(stderr, "%s: %v\n", j.Name, err)
	if r == nil {
		return ExitMisuse
	}
	return ExitFailed
}

// runMainJob runs the job of Main, which this program builds again on workers.
func runMainJob(ctx context.Context, j *Job, o Options) (*Result, error) {
	p, err := newPlanner(ctx, &o)
	if err != nil {
		return nil, err
	}
	r, err := p.run(ctx, j, &feature.Recipe{App: j.Name}, o)
	return r, errors.Join(err, p.target.Close())
}

// missing returns an error message for a command line that lacks a flag or has
// arguments, or "".
func missing(j *Job, o *Options, args []string) string {
	switch {
	case len(args) > 0:
		return fmt.Sprintf("%q: files and directories follow -input or -output", args[0])
	case len(o.Inputs) == 0 && j.Synthetic == 0 && j.Mapper != nil:
		return "-input is missing"
	case o.Output == "":
		return "-output is missing"
	}
	return ""
}

// progressLines returns a progress function that prints a line from time to
// time, and failures at once.
func progressLines(w io.Writer) func(Progress) {
	var pace console.Pace
	return func(p Progress) {
		for _, line := range []string{pace.Failures(&p), pace.Line(&p)} {
			if line != "" {
				fmt.Fprintln(w, line)
			}
		}
	}
}
