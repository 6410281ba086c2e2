package house

import (
	"go/ast"
	"go/types"
	"slices"
	"strconv"
	"strings"
)

// pure are the packages that must be deterministic: no clock, no I/O, no
// randomness of their own, no dependence on the order of goroutines or maps.
var pure = []string{
	"internal/counters", "internal/job", "internal/cluster", "sched", "internal/sched", "internal/tracker", "sim",
	"internal/sim", "internal/worker/agent", "internal/workload", "internal/repro", "internal/metrics", "internal/portable",
	"internal/master/protocol",
}

// mayGo are the pure packages that may start goroutines, since they run
// whole simulations beside each other.
var mayGo = []string{"internal/sim"}

// impureImports are packages that reach outside or are seeded at random; those
// below them are meant too.
var impureImports = []string{
	"os", "net", "syscall", "log", "path/filepath", "io/ioutil", "crypto/rand", "hash/maphash", "golang.org/x/sys",
}

// impureCalls are the functions that read or wait for the wall clock.
var impureCalls = map[string][]string{
	"time":    {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"},
	"context": {"WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause"},
}

// unequal are functions of package math whose last bit differs between
// processors; those that are not among them are exact, or rounded alike.
var unequal = []string{
	"Acos", "Acosh", "Asin", "Asinh", "Atan", "Atan2", "Atanh", "Cbrt", "Cos", "Cosh", "Erf", "Erfc", "Erfcinv", "Erfinv", "Exp", "Exp2",
	"Expm1", "Gamma", "Hypot", "Lgamma", "Log", "Log10", "Log1p", "Log2", "Pow", "Sin", "Sincos", "Sinh", "Tan", "Tanh",
}

// seeded are what of the math/rand packages takes its seed from the caller;
// all their other functions use the global generator.
var seeded = []string{"New", "NewSource", "NewZipf", "NewPCG", "NewChaCha8"}

// OrderComment marks the range over a map whose order cannot matter. It stands
// on the line of the range or above it, followed by the reason.
const OrderComment = "//house:sorted "

// checkPurity looks through the pure packages without their tests.
func checkPurity(t *Tree) ([]Finding, error) {
	var found []Finding
	var files []*goFile
	for _, f := range t.gos {
		if f.test || !within(f.dir, pure) || within(f.dir, []string{conformance}) {
			continue
		}
		files = append(files, f)
		for _, spec := range f.ast.Imports {
			if p, _ := strconv.Unquote(spec.Path.Value); within(p, impureImports) {
				found = append(found, t.at(spec.Pos(), "%s imports %s: what is outside comes in as a value or an io.Reader", f.dir, p))
			}
		}
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

// orderComments returns the lines covered by an OrderComment with a reason:
// its own and the next.
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

type purityVisitor struct {
	tree      *Tree
	file      *goFile
	info      *types.Info
	orderless map[int]bool
	sorted    ast.Expr // the call whose order the enclosing call undoes
	found     []Finding
}

// Visit implements ast.Visitor.
func (v *purityVisitor) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.GoStmt:
		if !within(v.file.dir, mayGo) {
			v.report(n, "go statement: the shells have goroutines, the core has none")
		}
	case *ast.RangeStmt:
		v.visitRange(n)
	case *ast.CallExpr:
		if pkg, fn := v.function(n.Fun); pkg == "slices" && strings.HasPrefix(fn, "Sorted") && len(n.Args) > 0 {
			v.sorted = n.Args[0]
		} else if pkg == "maps" && slices.Contains([]string{"Keys", "Values", "All"}, fn) && v.sorted != ast.Expr(n) && !v.excused(n) {
			v.report(n, "maps.%s yields in random order: wrap it in slices.Sorted, or say why order cannot matter in a %q comment", fn, OrderComment)
		}
	case *ast.Ident:
		v.visitUse(n)
	}
	return v
}

func (v *purityVisitor) visitRange(n *ast.RangeStmt) {
	if n.Key == nil && n.Value == nil {
		return // as many turns as there are entries, all alike
	}
	t := v.info.TypeOf(n.X)
	if t == nil || !isMap(t) || v.excused(n) {
		return
	}
	v.report(n, "range over a map: walk slices.Sorted(maps.Keys(m)), or say why order cannot matter in a %q comment", OrderComment)
}

// isMap reports whether t is a map, also a type parameter that must be one.
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

// visitUse reports banned functions wherever they are named, called or not.
func (v *purityVisitor) visitUse(id *ast.Ident) {
	fn, ok := v.info.Uses[id].(*types.Func)
	if !ok || fn.Pkg() == nil {
		return
	}
	p := fn.Pkg().Path()
	switch {
	case p == "math" && slices.Contains(unequal, fn.Name()),
		p == "math/rand/v2" && (fn.Name() == "NormFloat64" || fn.Name() == "ExpFloat64"):
		v.report(id, "%s.%s: its last bit depends on the processor; internal/portable has one that does not", p, fn.Name())
	case fn.Signature().Recv() != nil:
	case slices.Contains(impureCalls[p], fn.Name()):
		v.report(id, "%s.%s: time is a value passed in", p, fn.Name())
	case (p == "math/rand" || p == "math/rand/v2") && !slices.Contains(seeded, fn.Name()):
		v.report(id, "%s.%s: randomness is a seeded generator passed in", p, fn.Name())
	}
}

// function returns the package path and name of a called package-level
// function, "" if it is something else.
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

func (v *purityVisitor) excused(n ast.Node) bool {
	return v.orderless[v.tree.fset.Position(n.Pos()).Line]
}

func (v *purityVisitor) report(n ast.Node, format string, args ...any) {
	v.found = append(v.found, v.tree.at(n.Pos(), format, args...))
}
