package sched_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"github.com/slotwise/slotwise/sched"
)

// methodLine matches a line of a comment that documents a method.
var methodLine = regexp.MustCompile(`(?m)^//\t([A-Z]\w*)\(`)

// The comment of each view type lists exactly the methods that the type has, so
// that policy authors need not read internal packages.
func TestViewsDocumentTheirMethods(t *testing.T) {
	views := map[string]reflect.Type{
		"Job":      reflect.TypeFor[*sched.Job](),
		"Task":     reflect.TypeFor[*sched.Task](),
		"Attempt":  reflect.TypeFor[*sched.Attempt](),
		"JobList":  reflect.TypeFor[*sched.JobList](),
		"Node":     reflect.TypeFor[*sched.Node](),
		"NodeList": reflect.TypeFor[*sched.NodeList](),
	}
	file, err := parser.ParseFile(token.NewFileSet(), "model.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || views[spec.Name.Name] == nil {
			return true
		}
		checked++
		var documented, has []string
		for _, line := range spec.Doc.List {
			if m := methodLine.FindStringSubmatch(line.Text); m != nil {
				documented = append(documented, m[1])
			}
		}
		view := views[spec.Name.Name]
		for i := range view.NumMethod() {
			has = append(has, view.Method(i).Name)
		}
		for _, name := range documented {
			if !slices.Contains(has, name) {
				t.Errorf("model.go documents %s.%s, which does not exist", spec.Name.Name, name)
			}
		}
		for _, name := range has {
			if !slices.Contains(documented, name) {
				t.Errorf("the comment of %s in model.go does not list the method %s", spec.Name.Name, name)
			}
		}
		return true
	})
	if checked != len(views) {
		t.Errorf("model.go declares %d of %d views", checked, len(views))
	}
}
