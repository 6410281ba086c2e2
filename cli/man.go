package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newMan returns the hidden command that writes manual pages. deploy/package calls it when it
// builds a package, so the pages are of the program beside them.
func newMan(s *setup) *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write manual pages",
		Long:    "Writes a manual page for each command into DIR, for man(1).",
		Example: "  slotwise man /usr/local/share/man/man1",
		Hidden:  true,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return misuse("man takes one argument: the directory to write to")
			}
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return err
			}
			return writeManPages(newRoot(s, io.Discard), args[0]) // the executed tree has no other commands
		},
	}
}

// writeManPages writes the pages of c and of all its subcommands.
func writeManPages(c *cobra.Command, dir string) error {
	// The texts of these two are cobra's.
	if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
		return nil
	}
	name := strings.ReplaceAll(c.CommandPath(), " ", "-")
	if err := os.WriteFile(filepath.Join(dir, name+".1"), []byte(manPage(c)), 0o666); err != nil {
		return err
	}
	for _, sub := range c.Commands() {
		if err := writeManPages(sub, dir); err != nil {
			return err
		}
	}
	return nil
}

// manPage returns a command's page in the man macros. It has no date, so that a
// page changes only with its command.
func manPage(c *cobra.Command) string {
	var b strings.Builder
	name := strings.ReplaceAll(c.CommandPath(), " ", "-")
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"slotwise %s\"\n", strings.ToUpper(roff(name)), roff(version()))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(name), roff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(c.UseLine()))
	if c.Long != "" {
		fmt.Fprintf(&b, ".SH DESCRIPTION\n%s\n", strings.ReplaceAll(roff(c.Long), "\n\n", "\n.PP\n"))
	}
	manFlags(&b, c)
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(c.Example))
	}
	manSeeAlso(&b, c)
	return b.String()
}

// manFlags writes the section on flags that are not hidden, if there are any, with a
// subsection for each group.
func manFlags(b *strings.Builder, c *cobra.Command) {
	heading := ".SH OPTIONS\n"
	// In the order of the first flag of each, which is the order of the help.
	groups := []string{""}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if g := groupOf(f); !f.Hidden && !slices.Contains(groups, g) {
			groups = append(groups, g)
		}
	})
	for _, g := range groups {
		if g != "" {
			heading += ".SS " + roff(g) + "\n"
		}
		manGroup(b, c, g, &heading)
	}
}

// manGroup writes the flags of a group. It writes heading before the first one and empties it.
func manGroup(b *strings.Builder, c *cobra.Command, group string, heading *string) {
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || groupOf(f) != group {
			return
		}
		// The name of the value is the word in backquotes of the usage, as in the help.
		value, usage := pflag.UnquoteUsage(f)
		fmt.Fprintf(b, "%s.TP\n", *heading)
		if f.Shorthand != "" {
			fmt.Fprintf(b, "\\fB\\-%s\\fR, ", roff(f.Shorthand))
		}
		fmt.Fprintf(b, "\\fB\\-\\-%s\\fR", roff(f.Name))
		if value != "" {
			fmt.Fprintf(b, " \\fI%s\\fR", roff(value))
		}
		fmt.Fprintf(b, "\n%s", roff(usage))
		if hasDefault(f) {
			fmt.Fprintf(b, " (default %s)", roff(f.DefValue))
		}
		b.WriteString("\n")
		*heading = ""
	})
}

// hasDefault reports whether a flag has a default worth printing. pflag hides zero values of the
// types that it knows by the same rule, so the page and --help agree.
func hasDefault(f *pflag.Flag) bool {
	switch f.DefValue {
	case "", "0", "0s", "false", "[]":
		return false
	}
	return true
}

// manSeeAlso writes references to the parent command and the subcommands.
func manSeeAlso(b *strings.Builder, c *cobra.Command) {
	var pages []string
	page := func(o *cobra.Command) {
		pages = append(pages, "\\fB"+roff(strings.ReplaceAll(o.CommandPath(), " ", "-"))+"\\fR(1)")
	}
	if c.HasParent() {
		page(c.Parent())
	}
	for _, sub := range c.Commands() {
		if !sub.Hidden && sub.Name() != "help" && sub.Name() != "completion" {
			page(sub)
		}
	}
	if len(pages) > 0 {
		fmt.Fprintf(b, ".SH SEE ALSO\n%s\n", strings.Join(pages, ", "))
	}
}

// roff escapes text so that roff does not read a part as a request: a line that begins with a point
// or an apostrophe is one. A hyphen is escaped, because man shows a plain one as a typographic
// hyphen, which cannot be copied into a shell.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
