package mapreduce

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

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

// Main is the main function of a program that runs one job. It reads the flags of slotwise run
// that are about a job and its data (--input, --format, --where, --output, --memory, --max-attempts,
// …; --help lists them), runs the job on this machine,
// prints progress and counters on standard error, or with --json a [RunSummary] on standard
// output, also of a run that failed before its first job, and exits with one of the exit codes above. The first interrupt kills the job and removes its output; the
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
	// First: in a worker this process runs one attempt and never returns from here.
	RunAttempt(func(string) (*App, error) { return a, nil }, features...)
	ctx, stop := terminal.Interruptible(context.Background(), a.Name, os.Stderr)
	code := runMain(ctx, a, features, os.Args[1:], os.Stdout, terminal.NewEscaper(os.Stderr))
	// Before the exit, which runs no deferred functions.
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

// words is a list whose values are also separated by commas.
type words []string

// String joins the values.
func (w *words) String() string { return strings.Join(*w, ",") }

// Set adds values.
func (w *words) Set(s string) error {
	*w = append(*w, strings.Split(s, ",")...)
	return nil
}

// stdFlags declares flags in package flag.
type stdFlags struct{ *flag.FlagSet }

// StringArrayVar implements feature.FlagSet.
func (f stdFlags) StringArrayVar(to *[]string, name string, _ []string, usage string) {
	f.Var((*list)(to), name, usage)
}

// StringSliceVar implements feature.FlagSet.
func (f stdFlags) StringSliceVar(to *[]string, name string, _ []string, usage string) {
	f.Var((*words)(to), name, usage)
}

// Value implements feature.FlagSet.
func (f stdFlags) Value(v feature.FlagValue, name, usage string) { f.Var(v, name, usage) }

// shown are the flags about what the program prints.
type shown struct{ quiet, json bool }

// mainFlags declares the flags of [Main] without the flags of the cluster client. The flags of a
// job are the slotwise command's.
func mainFlags(name string, o *Options, show *shown) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	data := feature.DataFlags{
		Name: &o.Name, Inputs: &o.Inputs, Include: &o.Include, Exclude: &o.Exclude, Format: &o.Format, Missing: &o.Missing,
		Columns: &o.Columns, Where: &o.Where, Output: &o.Output, Overwrite: &o.Overwrite, Force: &o.Force,
		OutputFormat: &o.OutputFormat, OutputCompress: &o.OutputCompress, OutputColumns: &o.OutputColumns,
		Reduces: &o.Reduces, SplitSize: (*terminal.Size)(&o.SplitSize), Compress: &o.Compress, StorageRetry: &o.StorageRetry,
	}
	data.Declare(stdFlags{f})
	f.Lookup("input").Usage += "; NAME=PATH for a job with several inputs"
	local := feature.LocalFlags{Memory: (*terminal.Size)(&o.Cluster.Memory), TempDir: &o.Cluster.TempDir, Workers: &o.Cluster.Workers}
	local.Declare(stdFlags{f})
	feature.DeclareRequest(stdFlags{f}, &o.Request)
	f.BoolVar(&show.quiet, "quiet", false, "print nothing but results and errors")
	f.BoolVar(&show.json, "json", false, "print the result as one JSON object on standard output")
	return f
}

// clusterFlags declares the flags that name a cluster. After parsing, connect
// returns the cluster, or nil for this process.
func clusterFlags(f *flag.FlagSet, cluster *feature.Cluster) (connect func() (feature.Remote, error)) {
	if cluster != nil {
		return cluster.Flags(f)
	}
	// Declared nevertheless, so that --master has an error with a remedy and not "flag provided but not
	// defined".
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
		// Package flag would panic, with a text that does not name the app.
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
		if t, typed := f.Value.(feature.FlagValue); typed && value == "value" {
			value = t.Type() // as in the command's help
		}
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
func runMain(ctx context.Context, a *App, features []Feature, args []string, stdout, stderr io.Writer) int {
	o := Options{Features: features}
	var show shown
	// printFailure prints the summary of a run without jobs for a script that reads standard output.
	printFailure := func(err error) int {
		if show.json || wantsJSON(args) {
			sum := RunSummary{Program: a.Name, State: "failed", Error: err.Error(), Exit: ExitMisuse}
			_ = sum.WriteJSON(stdout) // the exit status still reports the failure
		}
		return ExitMisuse
	}
	misuse := func(err error) int {
		fmt.Fprintf(stderr, "%s: %v\n", a.Name, err)
		return printFailure(err)
	}
	// Before the flags: the feature of the cluster client declares its own.
	set, err := feature.Combine(features)
	if err != nil {
		return misuse(err)
	}
	defer set.Schemes.CloseIdle() // this process runs no other job
	f := mainFlags(a.Name, &o, &show)
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
		return printFailure(err)
	}
	if err := cmp.Or(checkGiven(f, given), checkMain(a, given, &o, f.Args())); err != nil {
		return misuse(fmt.Errorf("%w (--help lists the flags)", err))
	}
	// A negative time means no retries; 0 is the default of Options and the user's wish for none.
	o.StorageRetry = cmp.Or(o.StorageRetry, -1)
	if !show.quiet {
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
	began := time.Now()
	results, err := RunApp(ctx, a, given, o)
	// No job was submitted, so there is nothing to look up on a cluster. The error of an interrupt
	// is no misuse.
	refused := err != nil && len(results) == 0 && ctx.Err() == nil
	if show.json && !refused {
		sum := RunSummary{Program: a.Name, State: "succeeded", Output: o.Output, Elapsed: time.Since(began), Jobs: results}
		sum.setError(ctx, err)
		if err := sum.WriteJSON(stdout); err != nil {
			fmt.Fprintf(stderr, "%s: %v\n", a.Name, err)
			return ExitMisuse
		}
	}
	for _, r := range results {
		if !show.quiet && !show.json {
			r.Summary(stderr)
		}
	}
	switch {
	case err == nil && (show.quiet || show.json || o.Output == ""):
		return ExitOK
	case err == nil:
		fmt.Fprintf(stderr, "output: %s\n", o.Output)
		return ExitOK
	// The error of an interrupted job says that it was killed. The user knows, and scripts
	// need the exit status of an interrupt.
	case ctx.Err() != nil:
		fmt.Fprintf(stderr, "%s: interrupted\n", a.Name)
		return ExitInterrupted
	case refused:
		return misuse(err)
	}
	fmt.Fprintf(stderr, "%s: %v\n", a.Name, err)
	return ExitFailed
}

// wantsJSON reports whether a command line has the flag --json. The flags behind a mistake have not
// been parsed.
func wantsJSON(args []string) bool {
	// Arguments behind -- are no flags.
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.ContainsFunc(args, func(a string) bool {
		flag, value, given := strings.Cut(a, "=")
		on, err := strconv.ParseBool(value)
		return (flag == "--json" || flag == "-json") && (!given || err == nil && on)
	})
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
		switch l := f.Value.(type) {
		case *list:
			empty = slices.Contains(*l, "")
		case *words:
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
	reads, synthetic := true, false
	if a.Job != nil {
		// Built once more than needed, to know its inputs. So Job must be cheap and leave files to
		// Prepare.
		j, err := a.Job(params)
		if err != nil {
			return err
		}
		if err := nameInputs(j, o); err != nil {
			return err
		}
		reads, synthetic = j.Synthetic == 0 && j.Mapper != nil, j.Synthetic > 0
	} else if nameChainInputs(a, params, o); len(o.NamedInputs) > 0 {
		reads = false // or a step will miss the input
	}
	choice := o.choice()
	switch {
	// A chain counts as reading, because its function alone knows; one with only named inputs does not.
	case len(o.Inputs) == 0 && reads:
		return errors.New("--input is missing")
	// Else the options of a format would be ignored in silence.
	case synthetic && choice.Given():
		return errors.New("this program reads no input: leave --format, --columns, --where and --missing out")
	case o.Output == "" && !a.NoOutput:
		return errors.New("--output is missing")
	}
	return nil
}

// nameInputs finds the sources that inputs of the form NAME=PATH belong to, if the job has
// sources with names.
func nameInputs(j *Job, o *Options) error {
	names := sourceNames(j)
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
			// The path may contain a "=", and such a path belongs to the main input.
			plain = append(plain, in)
		}
	}
	o.Inputs = plain
	return checkNames(j.Sources, o.NamedInputs)
}

// nameChainInputs moves the inputs NAME=PATH of a chain from o.Inputs to o.NamedInputs if a step has a
// source of that name. It builds the steps with the chain's parameters. A step that needs others
// fails here, which is no error of the user: its names then stay unknown.
func nameChainInputs(a *App, params Params, o *Options) {
	var names []string
	for _, build := range a.Steps {
		if j, err := build(maps.Clone(params)); err == nil && j != nil {
			names = append(names, sourceNames(j)...)
		}
	}
	var plain []string
	for _, in := range o.Inputs {
		name, path, named := strings.Cut(in, "=")
		if !named || !slices.Contains(names, name) {
			plain = append(plain, in)
			continue
		}
		if o.NamedInputs == nil {
			o.NamedInputs = map[string][]string{}
		}
		o.NamedInputs[name] = append(o.NamedInputs[name], path)
	}
	o.Inputs = plain
}

// sourceNames returns the names of a job's sources.
func sourceNames(j *Job) []string {
	var names []string
	for _, s := range j.Sources {
		if s.Name != "" {
			names = append(names, s.Name)
		}
	}
	return names
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
