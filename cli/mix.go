package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/apps"
	"github.com/slotwise/slotwise/cli/internal/jobmix"
	"github.com/slotwise/slotwise/internal/base/durable"
	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/live/feature"
	"github.com/slotwise/slotwise/internal/virtual/study"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/sched"
)

// mixFile is the content of --jobs: a program for each job, and the swaps.
type mixFile struct {
	// In the order of the file; a class of several jobs has been drawn.
	jobs  []mapreduce.MixJob
	swaps []mapreduce.Swap
	notes []string // about jobs that sleep in place of a program
}

// readMix reads the file of --jobs. Drawn jobs depend on seed; what streaming commands print goes
// to stderr. Errors name the file and the line. Policies of swaps are built here and thrown away: a
// wrong one would be found an hour later.
func readMix(known *sched.Registry, name string, seed uint64, stderr io.Writer) (*mixFile, error) {
	// As the simulator opens it, so a file that ends with .gz is decompressed.
	in, err := study.Open(name)
	if err != nil {
		return nil, misuse("--jobs %s: %w", name, reason(err))
	}
	defer in.Close()
	m, err := workload.ReadMix(name, in)
	if err != nil {
		return nil, misuse("--jobs: %w", err)
	}
	f := &mixFile{}
	if f.jobs, f.notes, err = jobmix.Programs(m, seed, apps.Lookup, stderr); err != nil {
		return nil, misuse("--jobs: %w", err)
	}
	for i, s := range m.Swaps {
		if _, err := known.Build(s.Policy, sched.Options{Seed: seed, Set: s.Set, Live: true}); err != nil {
			return nil, misuse("--jobs: %s: swap %d: %w", name, i+1, err)
		}
		f.swaps = append(f.swaps, mapreduce.Swap{At: s.At, Policy: s.Policy, Set: s.Set})
	}
	return f, nil
}

// checkInputs returns an error that names the job and the input if an input does not exist
// before the first job starts. It leaves out inputs that another job of the file writes, and
// jobs that wait for others, whose programs may write their inputs. file is the value of
// --jobs.
func (f *mixFile) checkInputs(ctx context.Context, file string, w feature.Outages) error {
	for i := range f.jobs {
		j := &f.jobs[i]
		if len(j.After) > 0 {
			continue
		}
		for _, in := range j.Options.Inputs {
			if f.writes(in) {
				continue
			}
			if err := checkInput(ctx, fmt.Sprintf("--jobs %s: job %s: input", file, j.Name), in, w); err != nil {
				return err
			}
		}
	}
	return nil
}

// writes reports whether an input is, or lies below, the output of a job of the file.
func (f *mixFile) writes(input string) bool {
	return slices.ContainsFunc(f.jobs, func(j mapreduce.MixJob) bool {
		out := strings.TrimRight(j.Options.Output, "/")
		return out != "" && (input == out || strings.HasPrefix(input, out+"/"))
	})
}

// runMix is the command with --jobs. It runs the jobs of the file side by side on the in-process
// cluster. The order is the one of run: the file, its outputs and inputs, then the events, what the
// policy has learned, and last the pages and the history.
//
// A value of an entry of the file wins over the flag, and the flag over the default. --overwrite
// and --force are for all jobs, since they are permissions of the user and no property of a job.
func (f *runFlags) runMix(c *cobra.Command, args []string) error {
	if err := checkMixFlags(c, args, "output"); err != nil {
		return err
	}
	show := newJobDisplay(c.ErrOrStderr(), f.quiet || f.noProgress)
	mix, err := readMix(f.setup.policies(), f.jobs, f.seed, show)
	if err != nil {
		return err
	}
	for _, note := range mix.notes {
		show.warn(note)
	}
	o, err := f.options(nil)
	if err != nil {
		return err
	}
	if err := jobmix.CheckOutputs(mix.jobs); err != nil {
		return misuse("--jobs %s: %w", f.jobs, err)
	}
	// All inputs before the first job starts, so that a typing error in the last entry does
	// not cost an hour.
	if err := mix.checkInputs(c.Context(), f.jobs, feature.Outages{Storage: o.StorageRetry, Notify: f.notify(show)}); err != nil {
		return err
	}
	o.Cluster.Warn = show.warn
	closeEvents, err := f.openEvents(&o)
	if err != nil {
		return err
	}
	// Before the pages: a file that cannot be read ends the command, and the address of its pages must not
	// have been printed by then.
	learned, err := f.readLearned()
	if err != nil {
		return err
	}
	for i := range mix.jobs {
		p := &mix.jobs[i].Options
		p.Progress, p.Overwrite, p.Force, p.Stderr = show.update, f.overwrite, f.force, show
		// Flags are for all jobs. An entry of the file that states a value keeps its own.
		p.OutputCompress = cmp.Or(p.OutputCompress, f.outputCompress)
		p.Request, p.StorageRetry, p.Notify = p.Request.Or(o.Request), o.StorageRetry, f.notify(show)
	}
	watching, err := f.watch(c)
	if err != nil {
		return errors.Join(err, closeEvents())
	}
	r, err := mapreduce.RunMix(c.Context(), mix.jobs, mapreduce.MixOptions{
		Features: append(features(), watching.features...),
		Cluster:  o.Cluster, Compress: f.compress, Swaps: mix.swaps, Alone: f.alone, Learned: learned,
	})
	show.close()
	err = errors.Join(err, watching.end())
	// Nothing was started.
	if r == nil {
		return errors.Join(err, closeEvents())
	}
	// Also after a failed job: what the policy has learned from the others is worth keeping.
	err = errors.Join(err, closeEvents(), f.writeLearned(r.Learned))
	if f.json {
		return errors.Join(err, encode(c.OutOrStdout(), struct {
			*mapreduce.MixResult
			*failure
		}{r, failureOf(c.Context(), err)}))
	}
	// To standard output, unlike a single job's summary: here the table is the result.
	printMix(c.OutOrStdout(), r)
	if f.explain {
		for i := range r.Jobs {
			printWaits(c.OutOrStdout(), r.Jobs[i].Name, r.Jobs[i].Results)
		}
	}
	return err
}

// checkMixFlags rejects arguments and flags that describe a single job, because
// the file of --jobs describes each of its jobs itself. more are further such
// flags of the command.
func checkMixFlags(c *cobra.Command, args []string, more ...string) error {
	if len(args) > 0 {
		return misuse("%s: with --jobs the file names the apps and their inputs", args[0])
	}
	if c.Flags().Changed("merge") {
		return misuse("--merge: is for a single job, not for --jobs")
	}
	for _, name := range []string{"where", "missing"} {
		if c.Flags().Changed(name) {
			return misuse("--%s: with --jobs the file states it for each job, as an option in the key format: csv,missing=null,where=part=0", name)
		}
	}
	// A flag for all jobs would be a trap: --reduces 1 with a file of twenty jobs is more likely a
	// mistake than a wish. The flags that remain, such as --output-compress and --deadline, are
	// defaults for entries that state none.
	single := []string{"name", "input", "include", "exclude", "param", "mapper", "combiner", "reducer",
		"format", "columns", "output-format", "output-columns", "reduces", "split-size", "slow-start", "user", "pool", "priority"}
	for _, name := range append(single, more...) {
		if c.Flags().Changed(name) {
			key := name
			if name == "param" {
				key = "params"
			}
			return misuse("--%s: with --jobs the file states it for each job, as the key %s", name, key)
		}
	}
	return nil
}

// readLearned reads the file of --learned. It returns nil if the flag or the
// file is absent.
func (f *runFlags) readLearned() ([]byte, error) {
	if f.learned == "" {
		return nil, nil
	}
	b, err := os.ReadFile(f.learned)
	// The first run of a series has nothing to read.
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, misuse("--learned: %w", err)
	}
	return b, nil
}

// writeLearned replaces the file of --learned atomically. Of two runs with one file the one that
// ends last wins; each starts from the file as it found it, and neither sees a part of the other's.
func (f *runFlags) writeLearned(b []byte) error {
	if f.learned == "" {
		return nil
	}
	if err := writeFile(f.learned, 0o644, true, durable.Bytes(b)); err != nil {
		return fmt.Errorf("--learned: %w", err)
	}
	return nil
}

// printMix prints a line for each job of a mix, and the use of slots.
func printMix(w io.Writer, r *mapreduce.MixResult) {
	t := table(w)
	alone := false
	for _, e := range r.Jobs {
		// The columns appear only if --alone has measured them.
		alone = alone || e.Alone > 0
	}
	head := "job\tid\tstate\tsubmitted\twaited\tran\tnode-local"
	if alone {
		head += "\talone\tslowdown"
	}
	io.WriteString(t, head+"\n")
	for _, e := range r.Jobs {
		ids, local, all := []string{}, 0, 0
		for _, x := range e.Results {
			ids = append(ids, x.ID)
			local += x.Locality.Node
			all += x.Locality.Node + x.Locality.Rack + x.Locality.Any
		}
		terminal.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s", e.Name, strings.Join(ids, ","), e.State,
			terminal.Duration(e.Submit), terminal.Duration(e.Wait), terminal.Duration(e.Run), share(local, all))
		if alone {
			terminal.Fprintf(t, "\t%s\t%.2f", terminal.Duration(e.Alone), e.Slowdown)
		}
		fmt.Fprintln(t)
	}
	t.Flush()
	terminal.Fprintf(w, "policy %s: makespan %s, map slots used %.0f %%, reduce slots %.0f %%\n",
		r.Policy, terminal.Duration(r.Makespan), 100*r.MapUse, 100*r.ReduceUse)
	for _, e := range r.Jobs {
		printWarnings(w, e.Name, e.Results)
	}
}

// printWarnings prints the warnings that the counters of a job contain. A job that has succeeded
// may have left out records, which users do not look for in a table of counters.
func printWarnings(w io.Writer, name string, results []*mapreduce.Result) {
	for _, r := range results {
		for _, text := range terminal.Warnings(name, r.User) {
			terminal.Fprintf(w, "warning: %s\n", text)
		}
	}
}

// share formats a fraction in per cent, or a dash if all is 0: maps over local
// files have no locality.
func share(part, all int) string {
	if all == 0 {
		return "-"
	}
	// Rounded down, so that 100 % means all.
	return fmt.Sprintf("%d %%", 100*part/all)
}

// printWaits prints the wait reasons of the jobs of a run.
func printWaits(w io.Writer, name string, results []*mapreduce.Result) {
	for _, r := range results {
		printWait(w, name, r.ID, r.Waits)
	}
}

// printWait prints the three longest wait reasons of a job. run and sim print them alike, so that a
// simulated run can be compared with a real one.
func printWait(w io.Writer, name, id string, waits []mapreduce.Wait) {
	terminal.Fprintf(w, "%s (%s) waited for\n", name, id)
	if len(waits) == 0 {
		fmt.Fprintln(w, "  nothing to speak of")
	}
	// The longest first; the rest are moments that a user would read as reasons.
	for _, x := range waits[:min(3, len(waits))] {
		terminal.Fprintf(w, "  %8s  %s: %s\n", terminal.Duration(x.For), x.Tasks, x.Reason)
	}
}
