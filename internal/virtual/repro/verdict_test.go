package repro

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// literals returns the positions at which a source states a verdict: calls of holds whose
// condition names nothing but true and false, and calls of claim with a constant verdict.
func literals(t *testing.T, name string, source any) (found []string) {
	t.Helper()
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, name, source, 0)
	if err != nil {
		t.Fatal(err)
	}
	constant := []string{"true", "false", "Fails", "InSize", "AsPrint"}
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) < 2 {
			return true
		}
		s, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || s.Sel.Name != "holds" && s.Sel.Name != "claim" {
			return true
		}
		measured := false
		ast.Inspect(call.Args[1], func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && !slices.Contains(constant, id.Name) {
				measured = true
			}
			return true
		})
		if !measured {
			found = append(found, files.Position(call.Pos()).String())
		}
		return true
	})
	return found
}

// A verdict follows from numbers of a run. Nothing states one.
func TestNoVerdictIsALiteral(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".go") && !strings.HasSuffix(e.Name(), "_test.go") {
			for _, at := range literals(t, e.Name(), nil) {
				t.Errorf("%s: the verdict is a literal", at)
			}
		}
	}
	control := "package p\nfunc f(x *lab, a int) {\nx.holds(\"a\", true, \"e\")\nx.holds(\"b\", !false || 1 < 2, \"e\")\nx.claim(\"c\", AsPrint, \"e\")\nx.holds(\"d\", a > 1, \"e\")\n}"
	if got := literals(t, "control.go", control); len(got) != 3 {
		t.Errorf("of three literals, found %q", got)
	}
}

// A conclusion follows from its experiment: each of its sentences has a number or a list of the experiment.
func TestConclusionsAreDerived(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".go") && !strings.HasSuffix(e.Name(), "_test.go") {
			for _, s := range assertions(t, e.Name(), nil) {
				t.Errorf("%s: %q could contradict the table", e.Name(), s)
			}
		}
	}
	control := "package p\nfunc f(x *lab) {\nx.explain(1, \"a\", nil, \"It is %s. So it \"+\"is large\", 1)\nx.explainAll(nil, \"a\", nil, \"At 1.5 it is %d\", 2)\n}"
	if got := assertions(t, "control.go", control); !slices.Equal(got, []string{"So it is large"}) {
		t.Errorf("of one assertion, found %q", got)
	}
}

// assertions returns the sentences without a formatted value in the conclusions of a source.
func assertions(t *testing.T, name string, source any) (found []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), name, source, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) < 4 {
			return true
		}
		if s, ok := call.Fun.(*ast.SelectorExpr); !ok || s.Sel.Name != "explain" && s.Sel.Name != "explainAll" {
			return true
		}
		text := ""
		ast.Inspect(call.Args[3], func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok {
				part, err := strconv.Unquote(l.Value)
				if err != nil {
					t.Fatal(err)
				}
				text += part
			}
			return true
		})
		for _, s := range strings.FieldsFunc(strings.NewReplacer(". ", "|", "; ", "|", "%%", "").Replace(text), func(r rune) bool { return r == '|' }) {
			if !strings.Contains(s, "%") {
				found = append(found, s)
			}
		}
		return true
	})
	return found
}

// Each claim that is judged by a number or a word of the paper has a negative control: some
// number for which it holds, and some for which it does not.
func TestEveryClaimCanFail(t *testing.T) {
	tried := 0
	for _, e := range All() {
		for id, c := range e.claims {
			var passes func(v float64) bool
			rule, text, _ := strings.Cut(c.By, ": ")
			switch {
			case rule == "size":
				p := parsePrinted(strings.Split(text, ", ")[0])
				passes = func(v float64) bool { return p.judge(v) != Fails }
			case rule == "word" && words[text] != nil:
				passes = words[text]
			case rule == "bound" && strings.ContainsAny(text[:1], "<>") && !strings.Contains(text, ","):
				passes = func(v float64) bool { return inBound(text, v) }
			default:
				continue // the experiment compares; see TestNoVerdictIsALiteral
			}
			tried++
			yes, no := 0, 0
			for _, size := range []float64{0, 0.01, 0.04, 0.1, 0.2, 0.3, 0.5, 0.6, 1, 1.5, 2, 4, 8, 10, 34, 100, 600, 1000, 2000, 1e4} {
				yes += count(passes(size)) + count(passes(-size))
				no += count(!passes(size)) + count(!passes(-size))
			}
			if yes == 0 || no == 0 {
				t.Errorf("%s, claim %s (%s): %d numbers pass, %d do not", e.ID, id, c.By, yes, no)
			}
		}
	}
	if tried < 30 {
		t.Errorf("only %d claims tried", tried)
	}
}

// Claims of one paper differ in their words, so that none is counted twice, and every marked
// claim says in words what its mark means.
func TestClaimsAreDistinct(t *testing.T) {
	seen, headlines := map[string]string{}, map[string]bool{}
	for _, e := range All() {
		for id, c := range e.claims {
			key := e.Paper + ": " + c.Text + ", " + c.From
			if seen[key] != "" {
				t.Errorf("%s and %s/%s are the same claim: %s", seen[key], e.ID, id, c.Text)
			}
			seen[key] = e.ID + "/" + id
			headlines[e.Paper] = headlines[e.Paper] || c.Headline != ""
		}
	}
	for _, p := range Papers() {
		if !headlines[p] {
			t.Errorf("%s has no headline", p)
		}
	}
}
