package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/apps"
	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/mapreduce"
)

// newApps returns the command that describes the built-in apps.
func newApps() *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:   "apps [NAME]",
		Short: "List the built-in apps, or describe one",
		Long: `Lists the built-in apps, a line each. With NAME it prints what the app reads and
writes, its parameters with their defaults, and an example.`,
		Example: `  slotwise apps
  slotwise apps grep
  slotwise apps -o json`,
		Args:              atMostOne("app"),
		ValidArgsFunction: completeFirst(appNames, cobra.ShellCompDirectiveNoFileComp),
		RunE: func(c *cobra.Command, args []string) error {
			return showApps(c.OutOrStdout(), c.Root().Name(), asJSON, args)
		},
	}
	addListingPrint(c, &asJSON)
	return c
}

// showApps prints all apps, or the one that args names. The example command
// lines start with program.
func showApps(w io.Writer, program string, asJSON bool, args []string) error {
	if len(args) == 0 {
		if asJSON {
			return appsJSON(w, apps.All())
		}
		t := table(w)
		for _, a := range apps.All() {
			terminal.Fprintf(t, "%s\t%s\n", a.Name, a.Summary)
		}
		return t.Flush()
	}
	a, err := apps.Lookup(args[0])
	if err != nil {
		return misuseError{err}
	}
	if asJSON {
		return appsJSON(w, []*mapreduce.App{a})
	}
	return describeApp(w, program, a)
}

// describeApp prints what a user needs to run an app.
func describeApp(w io.Writer, program string, a *mapreduce.App) error {
	t := table(w)
	terminal.Fprintf(t, "%s: %s\n\n", a.Name, a.Summary)
	if a.Reads != "" {
		terminal.Fprintf(t, "reads\t%s\n", a.Reads)
	}
	terminal.Fprintf(t, "writes\t%s\n", a.Writes)
	// The parameters begin a new table, whose columns have other widths.
	if err := t.Flush(); err != nil {
		return err
	}
	if len(a.Params) > 0 {
		fmt.Fprint(t, "\nparameters\n")
		for _, p := range a.Params {
			value := p.Default
			if p.Required {
				value = "(required)"
			}
			terminal.Fprintf(t, "  %s\t%s\t%s\n", p.Name, value, p.Help)
		}
	}
	terminal.Fprintf(t, "\nexample\n  %s\n", exampleCommand(program, a))
	return t.Flush()
}

// exampleCommand returns a command line that runs an app: what a user must replace is in capitals,
// and flags with defaults are left out.
func exampleCommand(program string, a *mapreduce.App) string {
	words := []string{program + " run", a.Name}
	if a.Reads != "" {
		words = append(words, "--input INPUT")
	}
	for _, p := range a.Params {
		if p.Required {
			words = append(words, "--param "+p.Name+"="+strings.ToUpper(p.Name))
		}
	}
	if !a.Small {
		words = append(words, "--output OUTPUT")
	}
	return strings.Join(words, " ")
}

// appsJSON prints apps as a JSON array, also for one app: a script reads both with one program.
func appsJSON(w io.Writer, list []*mapreduce.App) error {
	type param struct {
		Name     string `json:"name"`
		Default  string `json:"default"`
		Required bool   `json:"required"`
		Help     string `json:"help"`
	}
	type app struct {
		Name    string  `json:"name"`
		Summary string  `json:"summary"`
		Reads   string  `json:"reads"`
		Writes  string  `json:"writes"`
		Params  []param `json:"params"`
	}
	out := make([]app, len(list))
	for i, a := range list {
		out[i] = app{a.Name, a.Summary, a.Reads, a.Writes, []param{}}
		for _, p := range a.Params {
			out[i].Params = append(out[i].Params, param{p.Name, p.Default, p.Required, p.Help})
		}
	}
	return encodeIndented(w, out)
}

// appNames returns the names of the apps, for completion.
func appNames() []string {
	var names []string
	for _, a := range apps.All() {
		names = append(names, a.Name)
	}
	return names
}
