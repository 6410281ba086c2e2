package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/sched"
)

// newPolicies returns the command that describes the scheduling policies. All text comes from the
// tables of package policies, where a parameter's unit, default and meaning are stated once; the
// READMEs and the error messages use the same.
func newPolicies(s *setup) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:   "policies [NAME]",
		Short: "List the scheduling policies, or describe one",
		Long: `Lists the scheduling policies, a line each. With NAME, or a composition such as
slots=static,order=fifo, it prints the four parts of the policy and their
parameters with defaults.`,
		Example: `  slotwise policies
  slotwise policies fifo
  slotwise policies slots=static,order=fifo,place=greedy,speculate=none
  slotwise policies -o json`,
		Args:              atMostOne("policy"),
		ValidArgsFunction: s.completePolicies,
		RunE: func(c *cobra.Command, args []string) error {
			return s.showPolicies(c.OutOrStdout(), asJSON, args)
		},
	}
	addListingPrint(c, &asJSON)
	return c
}

// showPolicies prints all policies, or the one that args names.
func (s *setup) showPolicies(w io.Writer, asJSON bool, args []string) error {
	names := args
	if len(args) == 0 {
		names = s.policies().Names()
	}
	infos := make([]sched.Info, len(names))
	for i, name := range names {
		var err error
		// Describe knows compositions, too, and its error lists the parts of a wrong one.
		if infos[i], err = s.policies().Describe(name); err != nil {
			return misuseError{err}
		}
	}
	switch {
	case asJSON:
		return policiesJSON(w, infos)
	case len(args) > 0:
		return s.describePolicy(w, infos[0])
	}
	t := table(w)
	for _, i := range infos {
		terminal.Fprintf(t, "%s\t%s\n", i.Name, i.Summary)
	}
	return t.Flush()
}

// describePolicy prints the parts of a policy, then their parameters and profiles, and an example
// that works: a policy that needs forecasts, or knows the future, cannot run jobs in one process.
func (s *setup) describePolicy(w io.Writer, i sched.Info) error {
	terminal.Fprintf(w, "%s: %s\n", i.Name, i.Summary)
	if i.Paper != "" {
		terminal.Fprintf(w, "paper: %s\n", i.Paper)
	}
	t := table(w)
	fmt.Fprint(t, "\nparts\n")
	params := 0
	for _, p := range i.Parts {
		terminal.Fprintf(t, "  %s\t%s\t%s\n", p.Part, p.Name, p.Summary)
		params += len(p.Params)
	}
	// Parameters follow without columns: their explanations are long.
	if err := t.Flush(); err != nil {
		return err
	}
	if params > 0 {
		fmt.Fprint(w, "\nparameters (--policy-set name=value)\n")
	}
	for _, p := range i.Parts {
		for _, q := range p.Params {
			describeParam(w, p.Part, q)
		}
	}
	if len(i.Profiles) > 0 {
		fmt.Fprint(w, "\nprofiles (--policy-set profile=name): many settings at once\n")
	}
	for _, p := range i.Profiles {
		terminal.Fprintf(w, "  %s\n", p.Name)
		printWrapped(w, p.Summary)
		for _, name := range slices.Sorted(maps.Keys(p.Set)) {
			terminal.Fprintf(w, "      %s=%s\n", name, p.Set[name])
		}
	}
	example := "run wordcount --policy %s --input INPUT --output OUTPUT"
	p, err := s.policies().Build(i.Name, sched.Options{Live: true})
	if _, chooses := p.(sched.Chooser); chooses || err != nil { // run would refuse it
		example = "sim --workload mix.yaml --cluster nodes=20,maps=4,reduces=2 --policy %s"
	}
	_, err = terminal.Fprintf(w, "\nexample\n  %s "+example+"\n", s.program, i.Name)
	return err
}

// describeParam prints a parameter: its name, default and aliases, then its description. An alias
// is the paper's or Hadoop's name.
func describeParam(w io.Writer, part string, q sched.Param) {
	terminal.Fprintf(w, "  %s=%s  (%s)", q.Name, q.Default, part)
	if len(q.Aliases) > 0 {
		terminal.Fprintf(w, ", also %s", strings.Join(q.Aliases, ", "))
	}
	fmt.Fprintln(w)
	printWrapped(w, q.Help)
}

// printWrapped prints an indented paragraph in lines of at most 80 columns. The width is fixed, so
// that the text is the same in a terminal, in a pipe and in a test.
func printWrapped(w io.Writer, text string) {
	const indent, width = "      ", 80
	line := indent
	for _, word := range strings.Fields(text) {
		if len(line) > len(indent) {
			// In characters and not bytes: the texts have symbols of papers.
			if utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
				terminal.Fprintf(w, "%s\n", line)
				line = indent
			} else {
				line += " "
			}
		}
		line += word
	}
	terminal.Fprintf(w, "%s\n", line)
}

// policiesJSON prints policies as a JSON array.
func policiesJSON(w io.Writer, infos []sched.Info) error {
	type param struct {
		Name    string `json:"name"`
		Default string `json:"default"`
		Help    string `json:"help"`
	}
	type part struct {
		Part    string  `json:"part"`
		Name    string  `json:"name"`
		Summary string  `json:"summary"`
		Paper   string  `json:"paper,omitempty"`
		Params  []param `json:"params"`
	}
	type policy struct {
		Name    string `json:"name"`
		Summary string `json:"summary"`
		Paper   string `json:"paper,omitempty"`
		Parts   []part `json:"parts"`
	}
	// Lists are empty and not null, so that a reader can loop over them untested.
	out := make([]policy, len(infos))
	for n, i := range infos {
		out[n] = policy{i.Name, i.Summary, i.Paper, []part{}}
		for _, p := range i.Parts {
			made := part{p.Part, p.Name, p.Summary, p.Paper, []param{}}
			for _, q := range p.Params {
				made.Params = append(made.Params, param{q.Name, q.Default, q.Help})
			}
			out[n].Parts = append(out[n].Parts, made)
		}
	}
	return encodeIndented(w, out)
}

// completePolicies completes the name of a policy. Compositions are not completed: there are
// thousands.
func (s *setup) completePolicies(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return s.policies().Names(), cobra.ShellCompDirectiveNoFileComp
}
