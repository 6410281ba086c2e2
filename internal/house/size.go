package house

import (
	"bytes"
	"fmt"
	"go/ast"
)

// The caps. They are what is tolerated, not what is aimed at: files of 250
// lines and functions of 25 are.
const (
	MaxFileLines = 800
	MaxFuncLines = 100
)

// checkSize holds files and functions against the caps, tests too, generated
// files not.
func checkSize(t *Tree) ([]Finding, error) {
	var found []Finding
	for _, f := range t.gos {
		if f.generated {
			continue
		}
		if n := bytes.Count(f.src, []byte("\n")); n > MaxFileLines {
			found = append(found, Finding{f.path, 0, fmt.Sprintf("%d lines, the cap is %d", n, MaxFileLines)})
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			if n := t.fset.Position(fn.End()).Line - t.fset.Position(fn.Pos()).Line + 1; n > MaxFuncLines {
				found = append(found, t.at(fn.Pos(), "func %s has %d lines, the cap is %d", fn.Name.Name, n, MaxFuncLines))
			}
		}
	}
	return found, nil
}
