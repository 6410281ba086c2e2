// Package house has the rules of the project that no linter checks: which package
// may import which, what pure packages must not do, which readings of a paper comments
// cite, and which words must not be committed. All other rules are golangci-lint's; see .golangci.yml.
//
// Import layers are here and not in a linter's configuration because they share
// lists and have exceptions: one line of Go for each layer would be a page of YAML.
//
// The test of this package runs all rules over the repository. A violation fails the
// test with its place and the reason of the rule. The rules read source text and
// types; they do not run anything.
package house

import (
	"cmp"
	"fmt"
	"go/token"
	"slices"
)

// Finding is one violation of a rule.
type Finding struct {
	File string // relative to the repository's root, with slashes
	Line int    // from 1; 0 if the finding is about the whole file
	Text string // the violation and, unless it is obvious, what to do instead
}

// String formats a finding as compilers do, so that editors can jump to it.
func (f Finding) String() string {
	if f.Line == 0 {
		return fmt.Sprintf("%s: %s", f.File, f.Text)
	}
	return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Text)
}

// Rule is a named check. Check returns findings in any order, and an error only if
// it could not read the tree.
type Rule struct {
	Name  string
	Why   string // shown with the findings
	Check func(*Tree) ([]Finding, error)
}

// Rules returns all rules.
func Rules() []Rule {
	return []Rule{
		{"imports", "scheduling does not depend on files, and moving data does not depend on scheduling", checkImports},
		{"purity", "the same seed must give the same bytes on every machine", checkPurity},
		{"readings", "a reader can look up each choice where the paper is silent, ambiguous or wrong", checkReadings},
		{"words", "a commit is finished work that runs on any machine", checkWords},
	}
}

// Run applies the rule and returns its findings sorted by file and line.
func (r Rule) Run(t *Tree) ([]Finding, error) {
	found, err := r.Check(t)
	if err != nil {
		return nil, fmt.Errorf("rule %s: %w", r.Name, err)
	}
	slices.SortFunc(found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Text, b.Text))
	})
	return found, nil
}

// at returns a finding at a position in one of the tree's Go files.
func (t *Tree) at(pos token.Pos, format string, args ...any) Finding {
	p := t.fset.Position(pos)
	return Finding{p.Filename, p.Line, fmt.Sprintf(format, args...)}
}
