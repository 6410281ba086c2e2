package repro

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// Experiment is the re-made version of a table or figure of a paper, or of several
// that share their runs.
type Experiment struct {
	// ID is the paper's short name and the experiment's, such as tumm/fig7.
	ID string
	// Paper is the paper's short name, Title what a reader would call the
	// experiment.
	Paper, Title string
	// Setup has the paper's statements about its set-up. Assumptions has our
	// choices where the paper says nothing, with reasons. Numbers that are
	// calibrated name their source.
	Setup, Assumptions []string

	claims     map[string]claimData
	hypotheses map[string]string
	printed    map[string][][]float64
	run        func(*lab)
}

// Run executes the experiment. It returns ctx's error if ctx is cancelled.
func (e *Experiment) Run(ctx context.Context, o Options) (r *Report, err error) {
	x := &lab{ctx: ctx, Options: o, Report: new(Report), exp: e}
	defer func() {
		// Only the lab's own value is an error of the run. Any other panic is a mistake in an experiment or
		// in the simulator, and must be seen.
		switch v := recover().(type) {
		case nil:
		case stopped:
			r, err = nil, v.err
		default:
			panic(v)
		}
	}()
	e.run(x)
	return x.Report, nil
}

// printed returns a table of the paper's numbers, row by row.
func (x *lab) printed(table string) [][]float64 {
	rows, ok := x.exp.printed[table]
	if !ok {
		panic("repro: " + x.exp.Paper + " has no printed table " + table)
	}
	return rows
}

// statements is a list of sentences. In a paper's file it may contain other lists,
// by YAML aliases, which are flattened.
type statements []string

// UnmarshalYAML implements yaml.Unmarshaler.
func (s *statements) UnmarshalYAML(n *yaml.Node) error {
	switch n.Kind {
	// The decoder does not follow aliases for a type with its own UnmarshalYAML.
	case yaml.AliasNode:
		return s.UnmarshalYAML(n.Alias)
	case yaml.SequenceNode:
		for _, c := range n.Content {
			if err := s.UnmarshalYAML(c); err != nil {
				return err
			}
		}
		return nil
	}
	*s = append(*s, strings.TrimSpace(n.Value))
	return nil
}

// paperData is the content of a paper's file in the directory papers. The files have
// everything that the paper says: its set-up, its claims, and its numbers; and what
// we assume where it says nothing.
type paperData struct {
	Title   string
	Shared  yaml.Node              // lists that experiments refer to by aliases
	Printed map[string][][]float64 // numbers of tables, for columns beside ours
	// Experiments are in the order of the report.
	Experiments []struct {
		ID, Title          string
		Setup, Assumptions statements
		Claims             map[string]claimData
		Hypotheses         map[string]string
	}
}

//go:embed papers/*.yaml
var files embed.FS

// paper is a paper with its experiments.
type paper struct {
	name        string // short, for commands
	title       string
	experiments []Experiment
}

// runners are the functions of the experiments of each paper, by the id in the
// paper's file. The papers are in the order of the report.
var runners = []struct {
	paper string
	runs  map[string]func(*lab)
}{
	{"tumm", tumm()}, {"modfair", modfair()}, {"tyrex", tyrex()}, {"learning", learningRuns()}, {"dynamicmr", dynamicMR()},
}

// papers reads the papers' files when they are first needed. They are part of the
// program, so an error in them is a programming error.
var papers = sync.OnceValue(func() []paper {
	var all []paper
	for _, r := range runners {
		var d paperData
		text, err := files.ReadFile(path.Join("papers", r.paper+".yaml"))
		if err == nil {
			dec := yaml.NewDecoder(bytes.NewReader(text))
			// A misspelt key would otherwise drop an assumption or a claim from the report in silence.
			dec.KnownFields(true)
			err = dec.Decode(&d)
		}
		if err != nil {
			panic(fmt.Sprintf("repro: papers/%s.yaml: %v", r.paper, err))
		}
		p := paper{name: r.paper, title: d.Title}
		for _, e := range d.Experiments {
			p.experiments = append(p.experiments, Experiment{ID: r.paper + "/" + e.ID, Paper: r.paper, Title: e.Title, Setup: e.Setup,
				Assumptions: e.Assumptions, claims: e.Claims, hypotheses: e.Hypotheses, printed: d.Printed, run: r.runs[e.ID]})
		}
		all = append(all, p)
	}
	return all
})

// Papers returns the short names of the papers in the order of the report.
func Papers() []string {
	names := make([]string, len(papers()))
	for i, p := range papers() {
		names[i] = p.name
	}
	return names
}

// PaperTitle returns the full title of a paper, or "" if there is none of that name.
func PaperTitle(name string) string {
	for _, p := range papers() {
		if p.name == name {
			return p.title
		}
	}
	return ""
}

// All returns every experiment in the order of the report.
func All() []Experiment {
	var all []Experiment
	for _, p := range papers() {
		all = append(all, p.experiments...)
	}
	return all
}

// Find returns the experiments of a paper, the one with an ID, or every experiment
// for "all".
func Find(name string) ([]Experiment, error) {
	var found []Experiment
	for _, e := range All() {
		if name == "all" || e.Paper == name || e.ID == name {
			found = append(found, e)
		}
	}
	if found == nil {
		names := slices.Concat([]string{"all"}, Papers())
		return nil, fmt.Errorf("there is no experiment %q; give %s, or an ID such as %s", name, strings.Join(names, ", "), All()[0].ID)
	}
	return found, nil
}
