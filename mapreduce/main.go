package mapreduce

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/live/feature"
	"github.com/slotwise/slotwise/internal/live/local"
)

// The exit codes of [Main] are the same as the slotwise command's.
const (
	ExitOK          = 0
	ExitFailed      = 1                        // the job failed
	ExitMisuse      = 2                        // wrong flags or files: nothing was started
	ExitInterrupted = terminal.ExitInterrupted // Ctrl-C
)

// Feature is an optional part of a program: storage beyond local files, more
// compression, or running jobs on a cluster. A program links the libraries of
// the features that it names and no others.
//
//	mapreduce.Main(job, hdfs.Storage(), s3.Storage(), remote.Client())
//
// The packages hdfs, s3, compression, nodeload and remote below this one make
// features.
type Feature interface {
	// FeatureName returns what the feature adds. Only values that these packages return are
	// features.
	FeatureName() string
}

// errNoClient is the error of a program without remote.Client().
var errNoClient = errors.New("it has no cluster client: pass remote.Client() of package mapreduce/remote to mapreduce.Main or mapreduce.RunAttempt")

// Main is the main function of a program that runs one job. It reads flags
// (--input, --output, --memory, …; --help lists them), runs the job on this machine,
// prints progress and counters on standard error, and exits with one of the exit
// codes above. The first interrupt kills the job and removes its output; the
// second one exits at once. [Source].Name lets users name several inputs.
//
// With the feature remote.Client() the flag --master runs the job on a cluster.
// Its workers run this same program for each task: what the program does before
// it calls Main happens for each task, and j must not depend on arguments. A job with
// parameters is an [App]; see [MainApp].
func Main(j *Job, features ...Feature) {
	MainApp(&App{Name: j.Name, Job: func(Params) (*Job, error) { return j, nil }}, features...)
}

// MainApp is the main function of a program that runs one app. Each of the app's
// parameters is a flag, and the app's functions get the values, also on the workers of
// a cluster. Otherwise it behaves like [Main].
func MainApp(a *App, features ...Feature) {
	RunAttempt(func(string) (*App, error) { return a, nil }, features...)
	ctx, stop := terminal.Interruptible(context.Background(), a.Name, os.Stderr)
	code := runMain(ctx, a, features, os.Args[1:], terminal.NewEscaper(os.Stderr))
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
	f.Var((*list)(&o.Inputs), "input", "`file`, directory or glob to read; may be repeated; NAME=PATH for a job with several inputs")
	f.Var((*list)(&o.Include), "include", "`glob` of file names to take; may be repeated")
	f.Var((*list)(&o.Exclude), "exclude", "`glob` of file names to leave out; may be repeated")
	f.StringVar(&o.Output, "output", "", "`directory` to write")
	f.BoolVar(&o.Overwrite, "overwrite", false, "replace an earlier job's output in the directory of -output, once the job has succeeded")
	f.BoolVar(&o.Force, "force", false, "like -overwrite, and replace the directory even if it contains other files")
	f.IntVar(&o.Reduces, "reduces", 0, "`number` of reduce tasks (0: choose)")
	f.Var((*terminal.Size)(&o.Cluster.Memory), "memory", "`size` of the memory for all tasks together, as 512MiB (0: a quarter of RAM)")
	f.Var((*terminal.Size)(&o.SplitSize), "split-size", "`size` of the input of one map task (0: choose)")
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

// appFlags declares a flag for each parameter of the app. The flags set the values that
// it returns.
func appFlags(f *flag.FlagSet, a *App) (Params, error) {
	given := Params{}
	for _, p := range a.Params {
		if f.Lookup(p.Name) != nil {
			return nil, fmt.Errorf("the app's parameter %s has the name of a flag that every program has", p.Name)
		}
		f.Var(&param{given, p.Name, p.Default}, p.Name, p.Help)
	}
	return given, nil
}

// param is the flag of a parameter.
type param struct {
	given    Params
	name     string
	fallback string
}

// String returns the value.
func (p *param) String() string {
	if p.given == nil { // package flag makes a zero value to learn what the default is
		return ""
	}
	if v, ok := p.given[p.name]; ok {
		return v
	}
	return p.fallback
}

// Set sets the value.
func (p *param) Set(v string) error {
	p.given[p.name] = v
	return nil
}

// printFlags prints the flags with two dashes, as the slotwise command has them. Package
// flag accepts one dash, too.
func printFlags(w io.Writer, f *flag.FlagSet) {
	f.VisitAll(func(f *flag.Flag) {
		value, usage := flag.UnquoteUsage(f)
		if value != "" {
			value = " " + value
		}
		fmt.Fprintf(w, "  --%s%s\n    \t%s", f.Name, value, usage)
		if f.DefValue != "" && f.DefValue != "0" && f.DefValue != "false" {
			fmt.Fprintf(w, " (default %s)", f.DefValue)
		}
		fmt.Fprintln(w)
	})
}

// runMain is MainApp without the process around it. It returns the exit code.
func runMain(ctx context.Context, a *App, features []Feature, args []string, stderr io.Writer) int {
	o := Options{Features: features}
	misuse := func(err error) int {
		fmt.Fprintf(stderr, "%s: %v\n", a.Name, err)
		return ExitMisuse
	}
	// Before the flags: the feature of the cluster client declares its own.
	set, err := feature.Combine(features)
	if err != nil {
		return misuse(err)
	}
	defer set.Schemes.CloseIdle() // this process runs no other job
	var quiet bool
	f := mainFlags(a.Name, &o, &quiet)
	connect := clusterFlags(f, set.Cluster)
	given, err := appFlags(f, a)
	if err != nil {
		return misuse(err)
	}
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprintf(stderr, "usage: %s --input PATH --output DIR [flags]\n\n", a.Name)
		printFlags(stderr, f)
	}
	// Parse has printed the error or the help.
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return ExitOK
		}
		return ExitMisuse
	}
	if err := cmp.Or(checkGiven(f, given), checkMain(a, given, &o, f.Args())); err != nil {
		return misuse(fmt.Errorf("%w (--help lists the flags)", err))
	}
	if !quiet {
		// Only now: quiet is known after Parse.
		o.Progress = progressLines(stderr)
	}
	r, err := connect()
	if err != nil {
		return misuse(err)
	}
	// Without --master r is nil, and the job runs in this process. named{nil} would count as a
	// cluster.
	if r != nil {
		o.Remote = named{r}
	}
	results, err := RunApp(ctx, a, given, o)
	for _, r := range results {
		if !quiet {
			r.Summary(stderr)
		}
	}
	switch {
	case err == nil && (quiet || o.Output == ""):
		return ExitOK
	case err == nil:
		fmt.Fprintf(stderr, "output: %s\n", o.Output)
		return ExitOK
	// The error of an interrupted job says that it was killed. The user knows, and scripts
	// need the exit status of an interrupt.
	case ctx.Err() != nil:
		fmt.Fprintf(stderr, "%s: interrupted\n", a.Name)
		return ExitInterrupted
	// No job was submitted, so there is nothing to look up on a cluster.
	case len(results) == 0:
		return misuse(err)
	}
	fmt.Fprintf(stderr, "%s: %v\n", a.Name, err)
	return ExitFailed
}

// named is the cluster that flags name. It implements Remote.
type named struct{ remote feature.Remote }

// Connector implements Remote.
func (n named) Connector() any { return n.remote }

// checkGiven refuses flags that are given with an empty value, as from an unset variable of a
// script: to the program it would mean that the flag was left out. A parameter of the app may
// be empty; the app decides.
func checkGiven(f *flag.FlagSet, params Params) (err error) {
	f.Visit(func(f *flag.Flag) {
		empty := f.Value.String() == ""
		if l, ok := f.Value.(*list); ok {
			empty = slices.Contains(*l, "")
		}
		if _, param := params[f.Name]; empty && !param {
			err = cmp.Or(err, fmt.Errorf("--%s: the value is empty; give a value, or leave the flag out", f.Name))
		}
	})
	return err
}

// checkMain returns an error for a command line that lacks a flag or has arguments. It
// moves inputs with the name of a source from o.Inputs to o.NamedInputs.
func checkMain(a *App, given Params, o *Options, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%q: files and directories follow --input or --output", args[0])
	}
	params, err := a.Check(given)
	if err != nil {
		return err
	}
	reads := true
	if a.Job != nil {
		j, err := a.Job(params)
		if err != nil {
			return err
		}
		if err := nameInputs(j, o); err != nil {
			return err
		}
		reads = j.Synthetic == 0 && j.Mapper != nil
	}
	switch {
	case len(o.Inputs) == 0 && reads:
		return errors.New("--input is missing")
	case o.Output == "" && !a.NoOutput:
		return errors.New("--output is missing")
	}
	return nil
}

// nameInputs finds the sources that inputs of the form NAME=PATH belong to, if the job has
// sources with names.
func nameInputs(j *Job, o *Options) error {
	var names []string
	for _, s := range j.Sources {
		if s.Name != "" {
			names = append(names, s.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	var plain []string
	o.NamedInputs = map[string][]string{}
	for _, in := range o.Inputs {
		name, path, named := strings.Cut(in, "=")
		switch {
		case named && slices.Contains(names, name):
			o.NamedInputs[name] = append(o.NamedInputs[name], path)
		case j.Mapper == nil:
			return fmt.Errorf("--input %s: want NAME=PATH, with one of the names %s", in, strings.Join(names, ", "))
		default:
			plain = append(plain, in)
		}
	}
	o.Inputs = plain
	return checkNames(j.Sources, o.NamedInputs)
}

// progressLines returns a progress function that prints a line from time to
// time, and failures at once.
func progressLines(w io.Writer) func(Progress) {
	var pace local.Pace
	return func(p Progress) {
		for _, line := range []string{pace.Failures((*local.Progress)(&p)), pace.Line((*local.Progress)(&p))} {
			if line != "" {
				fmt.Fprintln(w, line)
			}
		}
	}
}
