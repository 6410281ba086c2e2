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
	"github.com/slotwise/slotwise/internal/secure"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// Exit codes of [Main], the same as those of the slotwise command.
const (
	ExitOK          = 0
	ExitFailed      = 1                       // the job failed
	ExitMisuse      = 2                       // wrong flags or files: nothing was started
	ExitInterrupted = console.ExitInterrupted // Ctrl-C
)

// Main makes a program of a job: it reads flags (-input, -output, -memory, …;
// see -help), runs the job on this machine or, with -master, on a cluster, tells
// of its progress and its counters on standard error, and exits. The first
// interrupt ends the job and cleans up, a second one exits at once.
//
// On a cluster the workers run this same program: what happens before Main is
// called happens for each task, and j must not depend on arguments.
func Main(j *Job) {
	RunAttempt(func(string) (*App, error) {
		return &App{Job: func(Params) (*Job, error) { return j, nil }}, nil
	})
	ctx, stop := console.Interruptible(context.Background(), j.Name, os.Stderr)
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

// clusterFlags are the flags of [Main] for a cluster.
type clusterFlags struct {
	master, tokenFile string
	tls               secure.Files
	files             []string
}

// register declares them.
func (c *clusterFlags) register(f *flag.FlagSet) {
	f.StringVar(&c.master, "master", "", "`address` of a cluster's master, host:port (default: run here)")
	f.Var((*list)(&c.files), "file", "`file` to put into the working directory of tasks on a cluster; may be repeated")
	f.StringVar(&c.tls.CA, "tls-ca", "", "`file` with the certificate of the authority that masters are known by")
	f.StringVar(&c.tls.Cert, "tls-cert", "", "`file` with the own certificate")
	f.StringVar(&c.tls.Key, "tls-key", "", "`file` with its key")
	f.StringVar(&c.tokenFile, "token-file", "", "`file` with the token that says who you are")
}

// remote is the cluster that the flags name, nil if they name none.
func (c *clusterFlags) remote() (*Remote, error) {
	if c.master == "" {
		return nil, nil
	}
	url, cl, err := secure.Dial(c.master, c.tls, c.tokenFile)
	return &Remote{Master: url, HTTP: cl, Files: c.files}, err
}

// mainFlags declares the flags of [Main]; quiet says what to leave unsaid.
func mainFlags(name string, o *Options, cluster *clusterFlags, quiet *bool) *flag.FlagSet {
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
	cluster.register(f)
	f.BoolVar(quiet, "quiet", false, "print nothing but errors")
	return f
}

func runMain(ctx context.Context, j *Job, args []string, stderr io.Writer) int {
	var o Options
	var quiet bool
	var cluster clusterFlags
	f := mainFlags(j.Name, &o, &cluster, &quiet)
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
	var err error
	if o.Remote, err = cluster.remote(); err != nil {
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
	at, err := o.place(ctx)
	if err != nil {
		return nil, err
	}
	r, err := runOn(ctx, at, j, &slotwisev1.Program{App: j.Name}, o)
	return r, errors.Join(err, at.close())
}

// missing says what a command line lacks or has too much, "" if it is complete.
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

// progressLines prints a line now and then, and failures at once.
func progressLines(w io.Writer) func(Progress) {
	var pace console.Pace
	return func(p Progress) {
		for _, line := range []string{pace.Trouble(&p), pace.Line(&p)} {
			if line != "" {
				fmt.Fprintln(w, line)
			}
		}
	}
}
