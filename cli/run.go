package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/apps"
	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/data/format"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/live/feature"
	"github.com/slotwise/slotwise/mapreduce"
)

// newRun returns the command that runs jobs in this process.
func newRun(s *setup) *cobra.Command {
	f := &runFlags{policyFlags: policyFlags{setup: s}}
	c := &cobra.Command{
		Use:   "run APP [INPUT]... --output DIR",
		Short: "Run a job, or a file of jobs, on this machine",
		Long: `Runs an app, or a job of any two commands, over files. The workers run in this
process and need no set-up. Inputs are files, directories (with all files below
them), or globs.

With --mapper or --reducer the job is streaming: each command reads lines on
standard input and writes lines "key TAB value"; the reducer gets them sorted by
key.

An app with a small result prints it if there is no --output. --output - prints any
result on standard output, and --merge FILE writes it to one file. The input - is
standard input, which is first copied to --temp-dir.

With --jobs it runs the jobs of a file side by side, each submitted at its time, and
prints how long each waited and ran. slotwise formats jobmix describes the file,
which slotwise submit --jobs and slotwise sim --workload take as well.`,
		Example: `  slotwise run wordcount --input book.txt --output counts
  slotwise run grep --param regex='fail(ed|ure)' --input /var/log --include '*.log' --output hits
  slotwise run sort big.txt --memory 2GiB --compress lz4 --output sorted
  slotwise run wordcount --input - --output -
  slotwise run --jobs mix.yaml --policy fair --alone --explain
  slotwise run --jobs mix.yaml --policy tumm --ui --history runs
  slotwise run --mapper 'tr -s " " "\n"' --reducer 'uniq -c' --input book.txt --output counts`,
		// The first argument is an app and the others are inputs, or all are inputs of a streaming job.
		// Only program knows which, so it checks them. The shell completes an app first, and files after
		// it.
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeFirst(appNames, cobra.ShellCompDirectiveDefault),
		RunE:              func(c *cobra.Command, args []string) error { return f.run(c, args) },
	}
	f.register(c)
	return c
}

// program is the program of a command line: an app or a streaming job. An app may be a chain of
// several jobs, so its run has a list of results.
type program struct {
	name string
	app  *mapreduce.App // nil for a streaming job
	// As given. RunApp fills in the defaults.
	params mapreduce.Params
	job    *mapreduce.Job
}

// run runs the program and returns the result of each of its jobs.
func (p *program) run(ctx context.Context, o mapreduce.Options) ([]*mapreduce.Result, error) {
	if p.app != nil {
		return mapreduce.RunApp(ctx, p.app, p.params, o)
	}
	r, err := mapreduce.Run(ctx, p.job, o)
	if r == nil {
		return nil, err
	}
	return []*mapreduce.Result{r}, err
}

// run is the command.
//
// Its order is: flags, then the input and the output, then what leaves traces. Standard input is
// copied before the check, which looks at the copy. The location of the result comes next, then the
// file of events, and last the pages and the history, because only they are seen by others.
//
// An interrupt cancels the context of p.run. The jobs are killed, their staged output is removed,
// and run returns with what the jobs have counted, so the summary comes and the history is
// complete. After a second interrupt nothing of that happens: the staged output and the scratch
// files stay until the next run that uses the same directories sweeps them, by their locks, which
// are free then.
func (f *runFlags) run(c *cobra.Command, args []string) error {
	if f.jobs != "" {
		if f.dryRun {
			return misuse("--dry-run: is for a single job; slotwise sim --workload %s simulates the jobs of the file", f.jobs)
		}
		return f.runMix(c, args)
	}
	if f.dryRun {
		return f.plan(c, args)
	}
	if f.alone || f.learned != "" {
		return misuse("--alone and --learned need --jobs")
	}
	// The display comes before the program, because streaming commands write their standard error to
	// it.
	show := newJobDisplay(c.ErrOrStderr(), f.quiet || f.noProgress)
	p, inputs, err := f.program(args, show)
	if err != nil {
		return err
	}
	o, err := f.options(inputs)
	if err != nil {
		return err
	}
	// Through the display, so that a notice does not land in the middle of a bar.
	o.Notify = f.notify(show)
	spooled, err := f.spoolInput(c, &o)
	if err != nil {
		return err
	}
	defer spooled.close()
	if err := f.check(c.Context(), p, o.Inputs, feature.Outages{Storage: o.StorageRetry, Notify: o.Notify}); err != nil {
		return err
	}
	o.Progress, o.Stderr, o.Cluster.Warn = show.update, show, show.warn
	// A program that reads JSON can have the plan from --dry-run; here the line is for people.
	if !f.quiet && !f.json {
		o.Planned = func(p mapreduce.Plan) {
			if p.Bytes >= tellPlan {
				io.WriteString(show, planLine(&p))
			}
		}
	}
	out, err := f.openOutput(p, &o)
	if err != nil {
		return err
	}
	defer out.close()
	closeEvents, err := f.openEvents(&o)
	if err != nil {
		return err
	}
	// Last of all that can fail, because it serves pages and locks a history.
	watching, err := f.watch(c)
	if err != nil {
		return errors.Join(err, closeEvents())
	}
	o.Features = append(o.Features, watching.features...)
	start := time.Now()
	results, err := p.run(c.Context(), o)
	// The bars are gone before the first line of the summary, and the time does not include that.
	took := time.Since(start)
	show.close()
	if err != nil && len(results) == 0 {
		err = misuseError{err} // nothing was started, so the command line is wrong
	}
	// The history is durable before the summary says that the job has ended. A failure to write it or
	// the events fails the command, whose result is kept all the same.
	err = errors.Join(err, watching.end(), closeEvents())
	return f.finish(c, outcome{program: p, results: results, elapsed: took, output: out, err: err})
}

// tellPlan is the size of an input in bytes from which run prints the plan before it starts. Smaller
// jobs end about as soon as the line has been read.
const tellPlan = 256 << 20

// plan is the command with --dry-run.
//
// It opens the output, too, though nothing is written there: its report on a wrong command
// line is the report of the run.
func (f *runFlags) plan(c *cobra.Command, args []string) error {
	p, inputs, err := f.program(args, c.ErrOrStderr())
	if err != nil {
		return err
	}
	o, err := f.options(inputs)
	if err != nil {
		return err
	}
	if slices.Contains(o.Inputs, standard) {
		return misuse("--dry-run: the size of standard input is not known before it has been read; name files")
	}
	if err := f.check(c.Context(), p, o.Inputs, feature.Outages{Storage: o.StorageRetry, Notify: f.notify(c.ErrOrStderr())}); err != nil {
		return err
	}
	// A temporary directory is removed again; it makes the plan name the file of --merge.
	out, err := f.openOutput(p, &o)
	if err != nil {
		return err
	}
	defer out.close()
	var plan *mapreduce.Plan
	o.DryRun = true
	// Of a chain only the first job is planned: the others read its output.
	o.Planned = func(p mapreduce.Plan) { plan = &p }
	if _, err := p.run(c.Context(), o); err != nil {
		return misuseError{err}
	}
	if plan == nil {
		return fmt.Errorf("%s has not planned a job", p.name)
	}
	plan.Output = out.name()
	if f.json {
		return encode(c.OutOrStdout(), plan)
	}
	_, err = io.WriteString(raw(c.OutOrStdout()), planLine(plan))
	return err
}

// planLine describes a plan in a few lines.
//
// It names the tasks that run at once, because memory and time follow from them, and not from the
// number of all tasks.
func planLine(p *mapreduce.Plan) string {
	s := fmt.Sprintf("%s: %s in %s", terminal.Escape(p.Job), terminal.Bytes(p.Bytes), terminal.Plural(p.Files, "file"))
	if p.FilesSkipped > 0 {
		s += fmt.Sprintf(" (%s skipped by --where)", terminal.Plural(p.FilesSkipped, "file"))
	}
	s += fmt.Sprintf("; %s of at most %s, %d at a time", terminal.Plural(p.Maps, "map"), terminal.Bytes(p.LargestSplit), min(p.Maps, p.MapSlots))
	// A job without reduces sorts nothing and has no temporary files.
	if p.Reduces > 0 {
		s += fmt.Sprintf("; %s, %d at a time", terminal.Plural(p.Reduces, "reduce"), min(p.Reduces, p.ReduceSlots))
	}
	s += fmt.Sprintf("; at most %s in memory, %s for a map's sorting", terminal.Bytes(p.Memory), terminal.Bytes(p.MapBuffer))
	if p.Reduces > 0 {
		s += ", more in temporary files"
	}
	return s + "\n"
}

// program returns the program of the command line, and the remaining arguments,
// which are inputs. stderr receives the standard error of streaming commands.
//
// Any of the three commands makes a streaming job. A job with only a reducer passes its lines to
// the shuffle unchanged; mapreduce.Streaming refuses a combiner without a reducer.
func (f *runFlags) program(args []string, stderr io.Writer) (*program, []string, error) {
	if f.mapper != "" || f.reducer != "" || f.combiner != "" {
		if err := appBesideCommands(args); err != nil {
			return nil, nil, err
		}
		p, err := f.streaming(stderr)
		return p, args, err
	}
	if len(args) == 0 {
		return nil, nil, misuse("what to run is missing: an app (slotwise apps lists them), --mapper or --reducer")
	}
	app, err := apps.Lookup(args[0])
	if err != nil {
		return nil, nil, misuseError{err}
	}
	params, err := f.appParams(app)
	return &program{name: app.Name, app: app, params: params}, args[1:], err
}

// appBesideCommands returns an error if the first input of a streaming job is the name of an app
// and no file: the user has then asked for both. A file of that name wins, or a directory called
// sort could not be an input.
func appBesideCommands(args []string) error {
	if len(args) == 0 {
		return nil
	}
	if _, err := apps.Lookup(args[0]); err != nil {
		return nil
	}
	if _, err := os.Stat(args[0]); err == nil {
		return nil
	}
	return misuse("%s is an app, and --mapper, --combiner and --reducer are the commands of a streaming job: give one or the other", args[0])
}

// streaming makes the job of --mapper and --reducer. Commands run by a shell on this machine, or on
// the workers of a cluster, which need the programs.
func (f *runFlags) streaming(stderr io.Writer) (*program, error) {
	if len(f.params) > 0 {
		return nil, misuse("--param %s: a streaming job has no parameters", f.params[0])
	}
	j, err := mapreduce.Streaming(mapreduce.StreamingOptions{
		Mapper:   f.mapper,
		Combiner: f.combiner,
		Reducer:  f.reducer,
		Stderr:   stderr,
	})
	if err != nil {
		return nil, misuseError{err}
	}
	return &program{name: j.Name, job: j}, nil
}

// appParams returns the values of --param. It reports unknown and missing
// parameters in terms of the flag.
func (f *runFlags) appParams(app *mapreduce.App) (mapreduce.Params, error) {
	given, err := parseAssignments("param", f.params)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, p := range app.Params {
		names = append(names, p.Name)
	}
	// A misspelt parameter is unknown, and the right one is missing: the spelling is the cause. In the
	// order of names, so that the same command line always gives the same error.
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(names, name) {
			return nil, unknown(app.Name+" parameter", name, names)
		}
	}
	for _, p := range app.Params {
		if _, ok := given[p.Name]; p.Required && !ok {
			return nil, misuse("--param %s=… is missing: %s", p.Name, p.Help)
		}
	}
	return given, nil
}

// notify returns the function that tells the user what the command waits for, or nil if
// --quiet forbids it.
func (f *runFlags) notify(out io.Writer) func(text string) {
	if f.quiet {
		return nil
	}
	return notifyOn(out, f.setup.program)
}

// check returns an error for a job that cannot run, before anything is started.
func (f *runFlags) check(ctx context.Context, p *program, inputs []string, w feature.Outages) error {
	reads := p.app == nil || p.app.Reads != ""
	switch {
	case reads && len(inputs) == 0:
		return misuse("--input is missing: %s reads %s", p.name, p.reads())
	case !reads && len(inputs) > 0:
		return misuse("--input %s: %s reads no input", inputs[0], p.name)
	// Such a flag would be ignored without a word, for example --include with pi.
	case !reads:
		if flag := f.inputFlag(); flag != "" {
			return misuse("--%s: %s reads no input: leave the flag out", flag, p.name)
		}
	}
	for i, in := range inputs {
		err := checkInput(ctx, "--input", in, w)
		// Users of Hadoop write the output as the last argument, behind the inputs.
		if err != nil && i > 0 && i == len(inputs)-1 && f.output == "" && f.merge == "" && errors.Is(err, fs.ErrNotExist) {
			return misuse("%w; write --output %s if it names the output", err, in)
		}
		if err != nil {
			return err
		}
	}
	if f.merge != "" {
		return f.checkMerge()
	}
	if f.output == "" || f.output == standard {
		return nil
	}
	return checkOutput(ctx, f.output, storage.ReplaceOf(f.overwrite, f.force), w)
}

// reads describes the program's input.
func (p *program) reads() string {
	if p.app == nil {
		return "lines of text"
	}
	return p.app.Reads
}

// openEvents opens the file of --events. The returned function closes it and reports write errors.
// The file has its name from the start, unlike a result: a file that a crash has cut short is
// needed to find the reason, and a pipe or /dev/stdout can be named.
func (f *runFlags) openEvents(o *mapreduce.Options) (func() error, error) {
	if f.events == "" {
		return func() error { return nil }, nil
	}
	// --overwrite is for the output first of all, so it replaces only files that look like events.
	if err := checkEvents(f.events, f.overwrite || f.force, false); err != nil {
		return nil, err
	}
	file, err := os.Create(f.events)
	if err != nil {
		return nil, misuse("--events: %w", err)
	}
	o.Cluster.Events = file
	return func() error {
		if err := file.Close(); err != nil {
			return fmt.Errorf("--events: %w", err)
		}
		return nil
	}, nil
}

// runOutput is the directory that a run writes: the user's or, for a result that is printed or
// merged, a temporary one. A job always writes a directory, with the same commit, wherever its
// result goes afterwards.
type runOutput struct {
	dir   string
	temp  *storage.DirScratch // removed at the end; nil for the user's directory
	merge string              // the file of --merge; else ""
	head  bool                // each output file begins with a header, which is printed once
}

// openOutput returns the output directory of the program. Only an app that says that its result is
// small prints it unasked: gigabytes on a terminal are never what a user meant.
func (f *runFlags) openOutput(p *program, o *mapreduce.Options) (*runOutput, error) {
	anySize := f.output == standard || f.merge != ""
	if f.output != "" && !anySize {
		return &runOutput{dir: f.output}, nil
	}
	if !anySize && (p.app == nil || !p.app.Small) {
		return nil, misuse("--output is missing: the directory for what %s writes, or - for standard output", p.name)
	}
	// Two documents on one stream, of which one is not JSON.
	if f.output == standard && f.json {
		return nil, misuse("--output -: -o json prints on standard output, too; use --merge FILE")
	}
	// Here the result goes to a terminal. With --output - the user has asked for the bytes, and may
	// redirect them.
	if !anySize && f.outputCompress != "none" {
		return nil, misuse("--output-compress %s: needs --output", f.outputCompress)
	}
	temp, err := storage.NewDirScratch(f.tempDir)
	if err != nil {
		return nil, err
	}
	out := &runOutput{dir: filepath.Join(temp.Dir(), "result"), temp: temp, merge: f.merge}
	// Errors have been reported by checkOutputFormat.
	if rows, err := f.outputRows(); err == nil && rows != nil {
		out.head = rows.Name == format.CSV && !rows.NoHeader
	}
	o.Output = out.dir
	return out, nil
}

// close removes a temporary directory.
func (p *runOutput) close() {
	if p.temp != nil {
		p.temp.Close()
	}
}

// print copies the output files to w in the order of their names, which is the order of the result.
// Names that begin with _ or . are no output, as in Hadoop: _SUCCESS, and files of unfinished
// copies.
func (p *runOutput) print(w io.Writer) error {
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return err
	}
	skipHead := false
	for _, e := range entries {
		if e.IsDir() || strings.HasPrefix(e.Name(), "_") || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if err := copyFile(w, filepath.Join(p.dir, e.Name()), skipHead); err != nil {
			return err
		}
		// From the second file on, so that the result has one header.
		skipHead = p.head
	}
	return nil
}

// copyFile copies a file to w, without its first line if skipHead is set. A header has no quoted
// line ends, because the names of columns cannot have any.
func copyFile(w io.Writer, path string, skipHead bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 256<<10)
	for skipHead {
		_, err := r.ReadSlice('\n')
		// A header may be longer than the buffer: then the rest of its line is skipped, too.
		skipHead = errors.Is(err, bufio.ErrBufferFull)
		if err == io.EOF {
			return nil
		}
	}
	_, err = io.Copy(w, r)
	return err
}

// outcome is the result of a run and its output directory. results is empty if nothing was started,
// and may have jobs that succeeded before the one that failed.
type outcome struct {
	program *program
	results []*mapreduce.Result
	elapsed time.Duration
	output  *runOutput
	err     error
	pending bool // the job was accepted, and its end is not awaited
}

// finish prints the summary and, without --output, the result. It returns the error of the run, or
// else its own. The summary goes to standard error before the result goes to standard output, so
// that on a terminal the result comes last.
func (f *runFlags) finish(c *cobra.Command, o outcome) error {
	if f.json && o.err != nil && len(o.results) == 0 {
		return o.err // execute prints the failure
	}
	// Before anything is printed: a summary must not report a result that then cannot be written.
	if o.err == nil && o.output.merge != "" {
		o.err = o.output.writeMerged(f.overwrite || f.force)
	}
	if f.json {
		return errors.Join(o.err, printJSON(c.OutOrStdout(), &o))
	}
	if f.quiet { // a warning may change the meaning of a result
		printWarnings(c.ErrOrStderr(), o.program.name, o.results)
	} else {
		printSummary(c.ErrOrStderr(), &o)
	}
	if f.explain {
		printWaits(c.ErrOrStderr(), o.program.name, o.results)
	}
	if o.err == nil && o.output.temp != nil && o.output.merge == "" {
		return o.output.print(raw(c.OutOrStdout()))
	}
	return o.err
}

// printJSON prints one object on one line, also for a failed run. Its fields are the ones of
// mapreduce.RunSummary, so programs of mapreduce.Main print the same.
func printJSON(w io.Writer, o *outcome) error {
	s := mapreduce.RunSummary{Program: o.program.name, State: "succeeded", Elapsed: o.elapsed, Jobs: o.results}
	s.Output = o.output.name()
	switch {
	// Asked before other errors, as in report.
	case errors.Is(o.err, terminal.ErrInterrupted):
		s.State, s.Error, s.Exit = "killed", terminal.ErrInterrupted.Error(), exitInterrupted
	case o.err != nil:
		s.State, s.Error, s.Exit = "failed", oneLine(o.err), statusOf(o.err)
	case o.pending:
		s.State = "accepted"
	// Only a small result is part of the object. openOutput has refused --output - with JSON.
	case o.output.temp != nil:
		if o.output.merge == "" {
			var text strings.Builder
			if err := o.output.print(&text); err != nil {
				return err
			}
			result := text.String()
			s.Result = &result
		}
		for _, r := range s.Jobs {
			// The path of a temporary directory is useless to the user.
			if strings.HasPrefix(r.Output, o.output.temp.Dir()) {
				r.Output = ""
			}
		}
	}
	return s.WriteJSON(w)
}

// printSummary prints a line for each job of the run, and its counters. One job's line has its time
// already, so the line of the whole run is for chains.
func printSummary(w io.Writer, o *outcome) {
	for _, r := range o.results {
		r.Summary(w)
	}
	if len(o.results) > 1 {
		terminal.Fprintf(w, "%s: %s in %s\n", o.program.name, terminal.Plural(len(o.results), "job"), terminal.Duration(o.elapsed))
	}
	if name := o.output.name(); o.err == nil && name != "" {
		terminal.Fprintf(w, "output: %s\n", name)
	}
}
