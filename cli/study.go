package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/virtual/study/sweep"
)

// studyFlags are the flags of study. The file and not the flags describe the simulations, so that the
// file alone makes a result again; the flags say where, how fast and in which form.
type studyFlags struct {
	setup *setup
	out   string
	// 0 is no limit.
	memory terminal.Size
	// 0 is one run for each processor.
	workers int
	dryRun  bool
	json    bool
	quiet   bool
}

// newStudy returns the command that runs studies.
func newStudy(setup *setup) *cobra.Command {
	f := &studyFlags{setup: setup}
	c := &cobra.Command{
		Use:   "study FILE",
		Short: "Simulate a grid of policies, parameters, clusters, worlds, autoscaling, loads and seeds",
		Long: `Runs every combination that a study file describes, on all processors, and compares
the policies pair by pair with confidence intervals. slotwise formats study has every
key of the file. A small one:

  workload: swim:trace.tsv
  clusters: ["nodes=600,maps=4,reduces=2,racks=20"]
  policies:
    - fifo
    - name: dynamictags
      set: {threshold: [1, 2, 4]}
  loads: [0.5, 1, 2]
  seeds: 5

The directory of --out gets runs.csv and runs.parquet (a row for each run),
comparisons.csv and .parquet, study.json, plots (SVG) and report.html, a page that
needs no other file. Results of runs are kept there as they end: after an interrupt
the same command goes on, and a changed study runs only what is new.`,
		Example: `  slotwise study study.yaml
  slotwise study study.yaml --dry-run
  slotwise study study.yaml --out result --memory 8GiB -o json`,
		// atMostOne and oneArg would call the argument by a single word.
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return misuse("%s takes one argument, the file of a study", c.Name())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, args[0]) },
	}
	s := c.Flags()
	s.SortFlags = false
	s.StringVar(&f.out, "out", "", "`directory` of the results (default: the file's name without .yaml, with .study)")
	// By estimate, because a run's memory is known only when it has ended.
	s.Var(&f.memory, "memory", "memory for all runs at the same time, by estimate (default: no limit)")
	s.IntVar(&f.workers, "workers", 0, "`number` of runs at the same time (default: one for each processor)")
	s.BoolVar(&f.dryRun, "dry-run", false, "print the runs, and which of them have results, and run nothing")
	addPrint(c, &f.json)
	s.BoolVarP(&f.quiet, "quiet", "q", false, "show no progress")
	return c
}

// run is the command.
func (f *studyFlags) run(c *cobra.Command, file string) error {
	if f.workers < 0 || f.workers > 4096 {
		return misuse("--workers %d: must be from 1 to 4096, or 0 for one for each processor", f.workers)
	}
	in, err := os.Open(file)
	if err != nil {
		return misuse("%w", pathLast(file, err))
	}
	spec, err := sweep.Read(file, in)
	in.Close() // it was only read
	if err != nil {
		return misuse("%w", err)
	}
	// Results of another build are not reused: it may simulate differently.
	program, err := buildDigest()
	if err != nil {
		return err
	}
	made := recordOf(c, []string{file})
	if err := addFiles(made, "study", file); err != nil {
		return err
	}
	// The plan has read all inputs and knows each cell's key, a hash of the inputs, the settings and
	// the program.
	plan, err := sweep.NewPlan(c.Context(), spec, sweep.Options{Record: made, Registry: f.setup.policies(), Dir: filepath.Dir(file),
		Inputs: studyInputs(), Program: program})
	if err != nil {
		return misuse("%s: %w", file, err)
	}
	// Beside the file and not in the working directory, where another study may have the name.
	if f.out == "" {
		f.out = strings.TrimSuffix(strings.TrimSuffix(file, ".yaml"), ".yml") + ".study"
	}
	// Before the store is opened, which would create its directory.
	if f.dryRun {
		return f.list(c.OutOrStdout(), plan)
	}
	// It takes no lock. Two commands may use one directory: a cell's key is a hash of all that decides
	// its result, so both write the same.
	store, err := sweep.OpenStore(f.out)
	if err != nil {
		return misuse("--out %w", pathLast(f.out, err))
	}
	result, err := f.simulate(c, plan, store)
	if err != nil {
		return err
	}
	// Before the result is printed: the last line names the report.
	if err := result.Write(store); err != nil {
		return err
	}
	if f.json {
		err = encode(c.OutOrStdout(), result)
	} else if err = result.Print(c.OutOrStdout()); err == nil {
		terminal.Fprintf(c.ErrOrStderr(), "report: %s\n", filepath.Join(f.out, "report.html"))
	}
	return errors.Join(err, failedCells(result))
}

// simulate runs the cells that have no results and reads all results.
func (f *studyFlags) simulate(c *cobra.Command, plan *sweep.Plan, store *sweep.Store) (*sweep.Result, error) {
	show := newSimProgress(c.ErrOrStderr(), f.quiet)
	defer show.close()
	show.warn(plan.Warnings...)
	if done := len(plan.Cells) - len(plan.Missing(store)); done > 0 && !f.quiet {
		terminal.Fprintf(c.ErrOrStderr(), "%d of %s have results in %s\n", done, terminal.Plural(len(plan.Cells), "run"), f.out)
	}
	err := plan.Run(c.Context(), store, sweep.RunOptions{Memory: int64(f.memory), Workers: f.workers, Progress: show,
		Warn: func(text string) { show.warn(text) }})
	if err != nil {
		// The results of ended runs are on the disk, and a user who has interrupted hours of work should
		// know it.
		if c.Context().Err() != nil && !f.quiet {
			show.close()
			terminal.Fprintf(c.ErrOrStderr(), "%d of %s have ended; the same command goes on\n",
				len(plan.Cells)-len(plan.Missing(store)), terminal.Plural(len(plan.Cells), "run"))
		}
		return nil, err
	}
	result, err := plan.Result(store)
	if err == nil {
		// Only the new ones; the plan's were shown before the runs.
		show.warn(result.Warnings[len(plan.Warnings):]...)
	}
	return result, err
}

// failedCells returns the error of a study some of whose runs have failed, or nil. The others are
// compared and printed all the same: one failed run of thousands is no reason to lose them.
func failedCells(r *sweep.Result) error {
	var errs []error
	failed := r.Failed()
	for _, row := range failed[:min(mostFaults, len(failed))] {
		errs = append(errs, fmt.Errorf("%s on %s, seed %d: %s", row.Label(), row.Title(), row.Seed, row.Error))
	}
	if more := len(failed) - len(errs); more > 0 {
		errs = append(errs, fmt.Errorf("and %d more failed runs, which the report lists", more))
	}
	return errors.Join(errs...)
}

// list prints the cells of a study. It opens no store, since that would make the directory, and a
// dry run must leave nothing.
func (f *studyFlags) list(out io.Writer, plan *sweep.Plan) error {
	type cell struct {
		Policy    string  `json:"policy"`
		Reference bool    `json:"reference,omitempty"`
		Cluster   string  `json:"cluster"`
		World     string  `json:"world"`
		Autoscale string  `json:"autoscale"`
		Load      float64 `json:"load"`
		Seed      uint64  `json:"seed"`
		Done      bool    `json:"done"`
	}
	missing := make(map[string]bool)
	// A cell is done if the store has a result for the same inputs and program.
	for _, c := range plan.Missing(sweep.StoreAt(f.out)) {
		missing[c.Key] = true
	}
	var cells []cell
	for _, c := range plan.Cells {
		cells = append(cells, cell{c.Policy(), c.Reference(), c.Cluster(), c.World(), c.Autoscale, c.Load, c.Seed, !missing[c.Key]})
	}
	if f.json {
		return encode(out, cells)
	}
	done := 0
	for i, c := range plan.Cells {
		state := "to run"
		if cells[i].Done {
			state = "done"
			done++
		}
		terminal.Fprintf(out, "%-6s  %s\n", state, c.Describe())
	}
	_, err := terminal.Fprintf(out, "%s, %d done\n", terminal.Plural(len(cells), "run"), done)
	return err
}

// buildDigest identifies this build of the program: results of another build are not used again. It
// is the hash of the executable and not the version, which two builds of changed sources share.
func buildDigest() (string, error) {
	// A link or an upgrade may change the file while it runs. Then results are computed again, which
	// only costs time.
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
