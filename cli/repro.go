package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/internal/base/durable"
	"github.com/slotwise/slotwise/internal/base/suggest"
	"github.com/slotwise/slotwise/internal/base/terminal"
	simreport "github.com/slotwise/slotwise/internal/virtual/report"
	"github.com/slotwise/slotwise/internal/virtual/repro"
)

// reproFlags are the flags of repro. There is none for a cluster, a workload or a policy's
// parameters, which are parts of an experiment and are in its code beside the paper's numbers.
type reproFlags struct {
	quick, list, json, quiet bool
	overwrite                bool
	seed                     uint64
	out                      string
}

// newRepro returns the command that repeats the papers' experiments.
func newRepro() *cobra.Command {
	f := new(reproFlags)
	c := &cobra.Command{
		Use:   "repro [PAPER|EXPERIMENT|all]",
		Short: "Repeat the experiments of the papers behind the policies",
		Long: `Repeats the experiments of the papers behind the policies on virtual clusters. It
prints the papers' numbers beside ours, with a verdict on each claim.

Without a name it makes all of them. A name is a paper, or one experiment such as
tumm/fig7; --list shows them.`,
		Example: `  slotwise repro --list
  slotwise repro tumm --quick
  slotwise repro tumm/fig7
  slotwise repro all --out result`,
		Args:              atMostOne("paper or experiment"),
		ValidArgsFunction: completeFirst(reproNames, cobra.ShellCompDirectiveNoFileComp),
		RunE:              func(c *cobra.Command, args []string) error { return f.run(c, append(args, "all")[0]) },
	}
	s := c.Flags()
	s.SortFlags = false
	s.BoolVar(&f.quick, "quick", false, "fewer seeds and smaller inputs: seconds, not minutes; verdicts may differ from a full run's")
	s.Uint64Var(&f.seed, "seed", 1, "`seed` of all random numbers")
	s.BoolVar(&f.list, "list", false, "list the experiments without making them")
	s.StringVar(&f.out, "out", "", "`directory` to write repro.md, its figures (SVG) in repro, and repro.json to")
	s.BoolVar(&f.overwrite, "overwrite", false, "replace those files if they exist")
	addPrint(c, &f.json)
	s.BoolVarP(&f.quiet, "quiet", "q", false, "print nothing but errors")
	return c
}

// reproNames returns all names that repro accepts.
func reproNames() []string {
	names := append([]string{"all"}, repro.Papers()...)
	for _, e := range repro.All() {
		names = append(names, e.ID)
	}
	return names
}

// run makes the experiments of a name, prints them, and writes the files of
// --out.
func (f *reproFlags) run(c *cobra.Command, name string) error {
	if names := reproNames(); !slices.Contains(names, name) {
		if suggest.Nearest(name, names) == "" {
			return misuse("unknown paper or experiment %q; slotwise repro --list shows all", name)
		}
		return unknown("paper or experiment", name, names)
	}
	experiments, err := repro.Find(name)
	if err != nil {
		return err
	}
	out := c.OutOrStdout()
	switch {
	case f.quiet:
		out = io.Discard
	case f.list:
		return f.listExperiments(out, experiments)
	}
	// Before the experiments, which take minutes.
	if err := f.checkOut(); err != nil {
		return err
	}
	made, err := f.makeAll(c, out, experiments)
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(reproResults(made), "", "  ")
	if err != nil {
		return err
	}
	data = append(data, '\n')
	if f.json {
		if _, err := out.Write(data); err != nil {
			return err
		}
	} else {
		io.WriteString(out, repro.Summary(made)+"\n")
	}
	if f.out == "" {
		return nil
	}
	return f.write(made, data)
}

// makeAll makes the experiments one after another, each on all processors. Text is printed after
// each one, because all together take many minutes; JSON is one array and waits for the last.
func (f *reproFlags) makeAll(c *cobra.Command, out io.Writer, experiments []repro.Experiment) ([]repro.Made, error) {
	var made []repro.Made
	for _, e := range experiments {
		report, err := e.Run(c.Context(), f.options())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.ID, err)
		}
		m := repro.Made{Experiment: e, Report: report}
		made = append(made, m)
		if f.json {
			continue
		}
		if err := repro.WriteText(out, m); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// options returns the options of all experiments.
func (f *reproFlags) options() repro.Options { return repro.Options{Quick: f.quick, Seed: f.seed} }

// reproFiles are the files that --out writes.
var reproFiles = []string{"repro.md", "repro.json", repro.FigureDir}

// checkOut returns an error if a file would be overwritten. It runs before the
// first experiment.
func (f *reproFlags) checkOut() error {
	if f.out == "" || f.overwrite {
		return nil
	}
	for _, name := range reproFiles {
		if _, err := os.Lstat(filepath.Join(f.out, name)); err == nil {
			return misuse("--out %s: %s exists; --overwrite replaces it", f.out, name)
		}
	}
	return nil
}

// write writes the files of --out: the figures, the page that shows them, and the data. In this
// order, so that a page never shows a figure that is missing.
func (f *reproFlags) write(made []repro.Made, data []byte) error {
	if err := os.MkdirAll(filepath.Join(f.out, repro.FigureDir), 0o777); err != nil {
		return misuse("--out %s: %w", f.out, reason(err))
	}
	for _, m := range made {
		for i := range m.Figures {
			if err := f.draw(&m.Figures[i]); err != nil {
				return err
			}
		}
	}
	var page bytes.Buffer
	if err := repro.WriteMarkdown(&page, made, f.options()); err != nil {
		return err
	}
	if err := f.put("repro.md", page.Bytes()); err != nil {
		return err
	}
	// Last, so that a directory with repro.json is complete.
	return f.put("repro.json", data)
}

// draw writes a figure as SVG, which repro.md shows.
func (f *reproFlags) draw(x *repro.Figure) error {
	var drawing bytes.Buffer
	if err := simreport.Draw(x.Chart).SVG(&drawing); err != nil {
		return fmt.Errorf("figure %s: %w", x.Name, err)
	}
	return f.put(filepath.Join(repro.FigureDir, x.Name+".svg"), drawing.Bytes())
}

// put writes a file of --out atomically.
func (f *reproFlags) put(name string, data []byte) error {
	if err := writeFile(filepath.Join(f.out, name), 0o666, f.overwrite, durable.Bytes(data)); err != nil {
		return misuse("--out %s: %w", f.out, reason(err))
	}
	return nil
}

// listExperiments prints a line for each experiment.
func (f *reproFlags) listExperiments(out io.Writer, experiments []repro.Experiment) error {
	if f.json {
		type experiment struct {
			ID    string `json:"id"`
			Paper string `json:"paper"`
			Title string `json:"title"`
		}
		list := make([]experiment, len(experiments))
		for i, e := range experiments {
			list[i] = experiment{e.ID, e.Paper, e.Title}
		}
		return encode(out, list)
	}
	for _, e := range experiments {
		if _, err := terminal.Fprintf(out, "%-22s %s\n", e.ID, e.Title); err != nil {
			return err
		}
	}
	return nil
}

// reproResult is an experiment as JSON.
type reproResult struct {
	ID          string        `json:"id"`
	Paper       string        `json:"paper"`
	Title       string        `json:"title"`
	Setup       []string      `json:"setup"`
	Assumptions []string      `json:"assumptions"`
	Tables      []repro.Table `json:"tables"`
	Claims      []reproClaim  `json:"claims"`
}

// reproClaim is a claim of a paper with our verdict, in words and as a truth
// value.
type reproClaim struct {
	Text     string `json:"text"`
	Holds    bool   `json:"holds"`
	Verdict  string `json:"verdict"`
	Rule     string `json:"rule"`
	Evidence string `json:"evidence"`
	// Calibrated, World and Headline are "" for most claims; see repro.Claim.
	Calibrated string     `json:"calibrated,omitempty"`
	World      string     `json:"world,omitempty"`
	Headline   string     `json:"headline,omitempty"`
	Why        *repro.Why `json:"why,omitempty"`
}

// reproResults converts experiments to JSON.
func reproResults(made []repro.Made) []reproResult {
	results := []reproResult{}
	for _, m := range made {
		r := reproResult{ID: m.ID, Paper: m.Paper, Title: m.Title, Setup: m.Setup, Assumptions: m.Assumptions,
			Tables: append([]repro.Table{}, m.Tables...), Claims: []reproClaim{}}
		for _, c := range m.Claims {
			claim := reproClaim{Text: c.Text, Holds: c.Verdict > repro.Untold, Verdict: c.Verdict.String(), Rule: c.Rule, Evidence: c.Evidence,
				Calibrated: c.Calibrated, World: c.World, Headline: c.Headline, Why: c.Why}
			r.Claims = append(r.Claims, claim)
		}
		results = append(results, r)
	}
	return results
}
