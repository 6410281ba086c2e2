package house

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"
)

// pure are the packages that must be deterministic: no goroutines, no dependence on
// the order of maps, no arithmetic that differs between processors. .golangci.yml
// has the same list for its bans of clocks, I/O and unseeded randomness; a test
// compares both.
var pure = []string{
	"internal/base/counters", "internal/base/svg", "internal/live/master/protocol", "internal/live/worker/agent", "internal/tracker",
	"internal/virtual/forecast", "internal/virtual/metrics", "internal/virtual/repro", "internal/virtual/sim", "internal/virtual/workload",
	"policies", "sched", "sim",
}

// mayGo are the pure packages that may start goroutines, because they run whole
// simulations in parallel.
var mayGo = []string{"internal/virtual/sim"}

// unequal are the functions of package math whose last bit differs between
// processors. The other functions are exact, or rounded in the same way everywhere.
var unequal = []string{
	"Acos", "Acosh", "Asin", "Asinh", "Atan", "Atan2", "Atanh", "Cbrt", "Cos", "Cosh", "Erf", "Erfc", "Erfcinv", "Erfinv", "Exp", "Exp2",
	"Expm1", "Gamma", "Hypot", "Lgamma", "Log", "Log10", "Log1p", "Log2", "Pow", "Sin", "Sincos", "Sinh", "Tan", "Tanh",
}

// OrderComment marks a range over a map whose order cannot matter. The comment is on
// the line of the range or on the line above, and gives the reason.
const OrderComment = "//house:sorted "

// checkPurity checks the pure packages without their tests.
func checkPurity(t *Tree) ([]Finding, error) {
	var found []Finding
	var files []*goFile
	for _, f := range t.gos {
		if f.test || !within(f.dir, pure) || within(f.dir, []string{conformance}) {
			continue
		}
		files = append(files, f)
	}
	info, err := t.typeCheck(files)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		v := &purityVisitor{tree: t, file: f, info: info, orderless: orderComments(t, f)}
		ast.Walk(v, f.ast)
		found = append(found, v.found...)
	}
	return found, nil
}

// orderComments returns the lines that an OrderComment with a reason covers: its own
// and the next.
func orderComments(t *Tree, f *goFile) map[int]bool {
	lines := make(map[int]bool)
	for _, group := range f.ast.Comments {
		for _, c := range group.List {
			if reason, ok := strings.CutPrefix(c.Text, OrderComment); ok && strings.TrimSpace(reason) != "" {
				line := t.fset.Position(c.Pos()).Line
				lines[line], lines[line+1] = true, true
			}
		}
	}
	return lines
}

// purityVisitor walks one file and collects findings.
type purityVisitor struct {
	tree      *Tree
	file      *goFile
	info      *types.Info
	orderless map[int]bool // lines on which the order of a map is excused
	sorted    ast.Expr     // the argument of the enclosing slices.Sorted call
	found     []Finding
}

// Visit implements ast.Visitor.
func (v *purityVisitor) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.GoStmt:
		if !within(v.file.dir, mayGo) {
			v.report(n, "go statement: only shells start goroutines")
		}
	case *ast.RangeStmt:
		v.visitRange(n)
	case *ast.CallExpr:
		if pkg, fn := v.function(n.Fun); pkg == "slices" && strings.HasPrefix(fn, "Sorted") && len(n.Args) > 0 {
			v.sorted = n.Args[0]
		} else if pkg == "maps" && slices.Contains([]string{"Keys", "Values", "All"}, fn) && v.sorted != ast.Expr(n) && !v.excused(n) {
			v.report(n, "maps.%s iterates in random order: wrap it in slices.Sorted, or give the reason why the order cannot matter in a %q comment", fn, OrderComment)
		}
	case *ast.Ident:
		v.visitUse(n)
	}
	return v
}

// visitRange reports a range over a map that uses keys or values.
func (v *purityVisitor) visitRange(n *ast.RangeStmt) {
	if n.Key == nil && n.Value == nil {
		return // all iterations are equal
	}
	t := v.info.TypeOf(n.X)
	if t == nil || !isMap(t) || v.excused(n) {
		return
	}
	v.report(n, "range over a map: iterate over slices.Sorted(maps.Keys(m)), or give the reason why the order cannot matter in a %q comment", OrderComment)
}

// isMap reports whether t is a map or a type parameter whose constraint is one.
func isMap(t types.Type) bool {
	if p, ok := types.Unalias(t).(*types.TypeParam); ok {
		c, ok := p.Constraint().Underlying().(*types.Interface)
		for i := 0; ok && i < c.NumEmbeddeds(); i++ {
			if u, isUnion := c.EmbeddedType(i).(*types.Union); isUnion && u.Len() > 0 && isMap(u.Term(0).Type()) {
				return true
			}
		}
		return false
	}
	_, ok := t.Underlying().(*types.Map)
	return ok
}

// visitUse reports arithmetic that differs between processors, also where a function
// is named without being called.
func (v *purityVisitor) visitUse(id *ast.Ident) {
	fn, ok := v.info.Uses[id].(*types.Func)
	if !ok || fn.Pkg() == nil {
		return
	}
	p := fn.Pkg().Path()
	if p == "math" && slices.Contains(unequal, fn.Name()) || p == "math/rand/v2" && (fn.Name() == "NormFloat64" || fn.Name() == "ExpFloat64") {
		v.report(id, "%s.%s: its last bit depends on the processor; package sched/portable has one that does not", p, fn.Name())
	}
}

// function returns the package path and the name of a called package-level function,
// or "" for other calls.
func (v *purityVisitor) function(fun ast.Expr) (pkg, name string) {
	sel, ok := fun.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	fn, ok := v.info.Uses[sel.Sel].(*types.Func)
	if !ok || fn.Pkg() == nil {
		return "", ""
	}
	return fn.Pkg().Path(), fn.Name()
}

// excused reports whether an OrderComment covers the line of n.
func (v *purityVisitor) excused(n ast.Node) bool {
	return v.orderless[v.tree.fset.Position(n.Pos()).Line]
}

// report adds a finding.
func (v *purityVisitor) report(n ast.Node, format string, args ...any) {
	v.found = append(v.found, v.tree.at(n.Pos(), format, args...))
}
