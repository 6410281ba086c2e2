package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/live/feature"
	"github.com/slotwise/slotwise/internal/live/profile"
	"github.com/slotwise/slotwise/internal/virtual/workload"
)

// profileFlags are the flags of profile: the flags of run that affect the cost of a task, and the
// number of runs. run is the whole of run's flags, of which most stay zero here.
type profileFlags struct {
	run   runFlags
	again []string
	runs  int
}

// newProfile returns the command that measures an app. It declares only the flags of run that
// change what a task costs, with help texts that say so; the others keep their zero values.
func newProfile(setup *setup) *cobra.Command {
	f := profileFlags{run: runFlags{policyFlags: policyFlags{setup: setup}}}
	c := &cobra.Command{
		Use:   "profile APP --input INPUT --output FILE",
		Short: "Measure the cost of an app, for the simulator",
		Long: `Runs an app several times on this machine and writes its cost profile to a file, for
slotwise sim --profiles and for job mixes. A profile has the processor seconds for
each task, for each MB of a map's input, for each MB that a map sorts, and for each
MB of a reduce's input; and the ratio of output to input bytes of each step. Half of
the runs have splits of a quarter of the size, to separate the cost of a task from
the cost of its bytes. Numbers are medians of the runs. A chain of jobs gives one
profile for each job.

The numbers are processor time, so that other work on the machine has little effect.
The effect of a fold or a combiner depends on the size of a map: choose the
--split-size of the jobs that you want to simulate. An input of another size in
--again separates the costs of reduces.`,
		Example: `  slotwise profile wordcount --input book.txt --output wordcount.yaml
  slotwise profile grep --param regex=error --input logs --again more-logs --output grep.yaml
  slotwise profile sort big.txt --split-size 64MiB --runs 5 --output sort.yaml`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeFirst(appNames, cobra.ShellCompDirectiveDefault),
		RunE:              func(c *cobra.Command, args []string) error { return f.measure(c, args) },
	}
	// Not register, which declares all flags of run: an output format or a policy would not be
	// measured.
	s, r := c.Flags(), &f.run
	s.SortFlags = false
	s.StringArrayVar(&r.inputs, "input", nil, "`file`, directory or glob to read (repeatable)")
	s.StringArrayVar(&f.again, "again", nil, "another `input`, of another size, to measure on as well (repeatable)")
	s.StringArrayVar(&r.include, "include", nil, "read only files whose names match this `glob` (repeatable)")
	s.StringArrayVar(&r.exclude, "exclude", nil, "leave out files whose names match this `glob` (repeatable)")
	s.StringVar(&r.output, "output", "", "`file` to write")
	s.BoolVar(&r.overwrite, "overwrite", false, "replace the file if it exists")
	s.StringArrayVar(&r.params, "param", nil, "parameter of the app, `name=value` (repeatable)")
	// The first run reads the input from the disk and the others from memory, so it is not counted.
	s.IntVar(&f.runs, "runs", 3, "`number` of runs with each size of splits, after one that does not count")
	s.IntVar(&r.reduces, "reduces", 0, "`number` of reduce tasks (default: the job's choice)")
	s.Var(&r.splitSize, "split-size", "bytes of input of one map task (default: chosen by the input's size)")
	s.Var(&r.memory, "memory", "memory for all tasks together (default: a quarter of RAM)")
	s.StringVar(&r.compress, "compress", "none", "`codec` of intermediate data: none, lz4, s2 or zstd")
	s.StringVar(&r.tempDir, "temp-dir", "", "`directory` for spills and results (default: the system's)")
	s.IntVar(&r.workers, "workers", 0, "`number` of workers (default: one for each core)")
	s.BoolVarP(&r.quiet, "quiet", "q", false, "print nothing but errors")
	addPrint(c, &r.json)
	completeWords(c, "compress", codecs)
	return c
}

// measure is the command.
func (f *profileFlags) measure(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return misuse("what to measure is missing: an app (slotwise apps lists them)")
	}
	if f.runs < 1 {
		return misuse("--runs %d: must be positive", f.runs)
	}
	// Streaming commands are measured many times, and their messages would come as often.
	p, inputs, err := f.run.program(args, io.Discard)
	if err != nil {
		return err
	}
	// A profile states costs for each MB of input.
	if p.app.Reads == "" {
		return misuse("%s reads no input, so it has no cost for each MB of it", p.name)
	}
	f.run.outputCompress = "none" // this command has no such flag
	o, err := f.run.options(inputs)
	if err != nil {
		return err
	}
	if err := f.check(c.Context(), p, o.Inputs); err != nil {
		return err
	}
	// Each --again is measured apart: costs for each task show only if the sizes differ.
	sizes := [][]string{o.Inputs}
	for _, in := range f.again {
		sizes = append(sizes, []string{in})
	}
	list, err := profile.Measure(c.Context(), p.app, p.params, profile.Options{Sizes: sizes, Runs: f.runs, Job: o,
		Done: func(done, all int) {
			if !f.run.quiet {
				terminal.Fprintf(c.ErrOrStderr(), "%s: run %d of %d\n", p.name, done, all)
			}
		}})
	if errors.Is(err, profile.ErrEmpty) {
		return misuse("--input: %w", err)
	}
	if err != nil {
		return err
	}
	if err := f.write(list); err != nil {
		return fmt.Errorf("--output %s: %w", f.run.output, reason(err))
	}
	switch {
	case f.run.json:
		return encodeProfiles(c.OutOrStdout(), list)
	case !f.run.quiet:
		return printProfiles(c.OutOrStdout(), list)
	}
	return nil
}

// check returns an error if the app cannot be measured or the file cannot be written. It runs
// before the first measurement. The output of this command is a file, where run has a directory, so
// the check of run must not see it.
func (f *profileFlags) check(ctx context.Context, p *program, inputs []string) error {
	out := f.run.output
	f.run.output = ""
	err := f.run.check(ctx, p, append(inputs[:len(inputs):len(inputs)], f.again...), feature.Outages{})
	f.run.output = out
	if err != nil {
		return err
	}
	if out == "" {
		return misuse("--output is missing: the file to write")
	}
	return checkResult("--output", out, f.run.overwrite)
}

// write writes the output file atomically, when all runs have ended: a profile of some of the runs
// would look like any other.
func (f *profileFlags) write(list []workload.Profile) error {
	return writeFile(f.run.output, 0o644, f.run.overwrite, func(w io.Writer) error { return workload.WriteProfiles(w, list) })
}

// encodeProfiles prints the profiles as JSON, with the keys of the file. The YAML is written and
// read again, because the file's keys are stated once, in the writer of package workload.
func encodeProfiles(w io.Writer, list []workload.Profile) error {
	var text bytes.Buffer
	if err := workload.WriteProfiles(&text, list); err != nil {
		return err
	}
	var v any
	if err := yaml.Unmarshal(text.Bytes(), &v); err != nil {
		return err
	}
	return encode(w, v)
}

// printProfiles prints the costs of each job in a table.
func printProfiles(w io.Writer, list []workload.Profile) error {
	// Numbers are read by column, so they end in the same column; the name comes last, because names
	// have any length.
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "a map, ms\tmap s/GB\tsort s/GB\ta reduce, ms\treduce s/GB\tmerge s/GB\temitted/read\tleft/emitted\twritten/left\t  job")
	for i := range list {
		p := &list[i]
		terminal.Fprintf(t, "%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.3f\t%.3g\t%.3g\t%.3g\t  %s\n", 1000*p.MapStart, 1000*p.MapCPU, 1000*p.SortCPU,
			1000*p.ReduceStart, 1000*p.ReduceCPU, 1000*p.MergeCPU, p.MapSelectivity, p.CombinerRatio, p.ReduceSelectivity, p.App)
	}
	return t.Flush()
}
