// Package house holds the rules that every file of the project keeps, as code:
// which package may import which, what the deterministic packages must not
// call, how long files and functions may be, and what must be documented.
//
// Its test runs all of them over the repository, so that breaking a rule fails
// the build with the rule's reason and the place. The rules read source text
// and types only; they run nothing.
package house

import (
	"cmp"
	"fmt"
	"go/token"
	"slices"
)

// Finding is one place where a rule is broken.
type Finding struct {
	File string // relative to the repository's root, with slashes
	Line int    // from 1; 0 if the finding is about the whole file
	Text string // what is wrong and, if it is not plain, what to do instead
}

// String formats a finding as compilers do, so that editors jump to it.
func (f Finding) String() string {
	if f.Line == 0 {
		return fmt.Sprintf("%s: %s", f.File, f.Text)
	}
	return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Text)
}

// Rule is a named check. Check returns findings in no particular order and an
// error only if it could not look.
type Rule struct {
	Name  string
	Why   string // shown with the findings
	Check func(*Tree) ([]Finding, error)
}

// Rules returns all rules.
func Rules() []Rule {
	return []Rule{
		{"imports", "scheduling knows nothing of files, and moving data knows nothing of scheduling", checkImports},
		{"purity", "the same seed must give the same bytes: time, randomness and order are values passed in", checkPurity},
		{"size", "a reader holds a screen in mind, not a scroll", checkSize},
		{"package-docs", "the package comment is where a reader starts", checkPackageDocs},
		{"exported-docs", "an exported name is a promise, and a promise is written down", checkExportedDocs},
		{"words", "what is committed is finished and works on any machine", checkWords},
	}
}

// Run applies a rule and returns its findings by file and line.
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

// at makes a finding at a position in one of the tree's Go files.
func (t *Tree) at(pos token.Pos, format string, args ...any) Finding {
	p := t.fset.Position(pos)
	return Finding{p.Filename, p.Line, fmt.Sprintf(format, args...)}
}
