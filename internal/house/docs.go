package house

import (
	"go/ast"
	"go/token"
	"strings"
)

// MinDocumented is the share of exported names that must have a comment.
const MinDocumented = 0.95

// checkPackageDocs wants one file of each package to begin with the package
// comment: "Package x ..." or, for a program, any.
func checkPackageDocs(t *Tree) ([]Finding, error) {
	var found []Finding
	for _, files := range t.packages() {
		documented := false
		for _, f := range files {
			name := f.ast.Name.Name
			doc := f.ast.Doc.Text()
			documented = documented || strings.HasPrefix(doc, "Package "+name+" ") || name == "main" && doc != ""
		}
		if !documented {
			name := files[0].ast.Name.Name
			found = append(found, Finding{files[0].path, 0, "package " + name + ` has no comment that begins "Package ` + name + ` "`})
		}
	}
	return found, nil
}

// checkExportedDocs reports undocumented exported names once there are more of
// them than MinDocumented allows.
func checkExportedDocs(t *Tree) ([]Finding, error) {
	missing, total := Undocumented(t)
	if float64(total-len(missing)) >= MinDocumented*float64(total) {
		return nil, nil
	}
	return missing, nil
}

// Undocumented returns the exported names without a comment, and how many
// exported names there are: functions, types, methods of exported types,
// constants and variables, outside tests. A comment on a group of constants or
// variables covers the group.
func Undocumented(t *Tree) (missing []Finding, total int) {
	for _, f := range t.gos {
		if f.test || f.generated {
			continue
		}
		for _, d := range f.ast.Decls {
			for _, n := range exported(d) {
				total++
				if !n.documented {
					missing = append(missing, t.at(n.id.Pos(), "exported %s has no comment", n.id.Name))
				}
			}
		}
	}
	return missing, total
}

// name is an exported name of a declaration.
type name struct {
	id         *ast.Ident
	documented bool
}

func exported(d ast.Decl) []name {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && exportedReceiver(d) {
			return []name{{d.Name, d.Doc != nil}}
		}
	case *ast.GenDecl:
		if d.Tok == token.IMPORT {
			return nil
		}
		var names []name
		for _, s := range d.Specs {
			names = append(names, exportedSpec(s, d.Doc != nil)...)
		}
		return names
	}
	return nil
}

// exportedSpec returns the exported names of one line of a declaration whose
// group has a comment or not.
func exportedSpec(s ast.Spec, group bool) []name {
	var names []name
	switch s := s.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() {
			names = append(names, name{s.Name, group || s.Doc != nil || s.Comment != nil})
		}
	case *ast.ValueSpec:
		for _, id := range s.Names {
			if id.IsExported() {
				names = append(names, name{id, group || s.Doc != nil || s.Comment != nil})
			}
		}
	}
	return names
}

// exportedReceiver reports whether a function is no method, or one of an
// exported type.
func exportedReceiver(fn *ast.FuncDecl) bool {
	if fn.Recv == nil {
		return true
	}
	t := fn.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}
