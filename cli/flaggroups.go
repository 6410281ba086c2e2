package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagGroup is an annotation of a flag: the title of its group in the help of a command
// with many flags.
const flagGroup = "group"

// group is a titled part of a command's flags.
type group struct {
	title string
	flags []string
}

// groupFlags makes the help and the manual page of c list its common flags first, in the
// order of names, and then each group under its title. Flags that no group names follow the
// common ones, so that no flag is missing.
func groupFlags(c *cobra.Command, common []string, groups ...group) {
	for _, g := range groups {
		for _, name := range g.flags {
			if err := c.Flags().SetAnnotation(name, flagGroup, []string{g.title}); err != nil {
				panic(err) // the only error is a flag that does not exist
			}
		}
	}
	// cobra would print all flags in one list.
	c.SetUsageFunc(func(c *cobra.Command) error {
		var b strings.Builder
		fmt.Fprintf(&b, "Usage:\n  %s\n", c.UseLine())
		if c.Example != "" {
			fmt.Fprintf(&b, "\nExamples:\n%s\n", c.Example)
		}
		for i, s := range flagSections(c, common, groups) {
			title := "Flags"
			if i > 0 {
				title = groups[i-1].title
			}
			fmt.Fprintf(&b, "\n%s:\n%s\n", title, strings.TrimRight(s.FlagUsages(), "\n"))
		}
		c.Print(b.String())
		return nil
	})
}

// groupOf returns the title of a flag's group, "" for a flag without one.
func groupOf(f *pflag.Flag) string {
	return strings.Join(f.Annotations[flagGroup], "")
}

// flagSections returns the flags of c that are not hidden: the common ones and those without a
// group, then a set for each group. A name in common or in a group that the command lacks is a
// mistake in this package, and panics in every test of the command.
func flagSections(c *cobra.Command, common []string, groups []group) []*pflag.FlagSet {
	section := func() *pflag.FlagSet {
		s := pflag.NewFlagSet("", pflag.ContinueOnError)
		// The order of the lists is the order of the help.
		s.SortFlags = false
		return s
	}
	first := section()
	for _, name := range common {
		first.AddFlag(c.Flags().Lookup(name))
	}
	// LocalFlags leaves out the hidden flags of the root, which every command inherits.
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && groupOf(f) == "" && !slices.Contains(common, f.Name) {
			first.AddFlag(f)
		}
	})
	sections := []*pflag.FlagSet{first}
	for _, g := range groups {
		s := section()
		for _, name := range g.flags {
			s.AddFlag(c.Flags().Lookup(name))
		}
		sections = append(sections, s)
	}
	return sections
}
