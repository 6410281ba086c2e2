package tools

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/analysis/suite/vet"
	"golang.org/x/tools/go/packages"
)

// TestMacOS type-checks all packages with their tests for macOS, and vets each package that has different files for
// different systems. It reads the declarations of dependencies from source, because compiling these for a second
// system takes minutes of processor time and would find the same mistakes in our code.
func TestMacOS(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range []string{root, filepath.Join(root, "lab")} {
		pkgs, err := packages.Load(&packages.Config{
			Mode: packages.LoadAllSyntax, Tests: true, Dir: module, Env: append(os.Environ(), "GOOS=darwin", "GOARCH=arm64"),
			ParseFile: func(files *token.FileSet, name string, text []byte) (*ast.File, error) {
				f, err := parser.ParseFile(files, name, text, parser.ParseComments|parser.SkipObjectResolution)
				// The main package of a test is a file without .go in Go's cache.
				if err == nil && !strings.HasPrefix(name, root) && filepath.Ext(name) == ".go" {
					for _, d := range f.Decls {
						if function, ok := d.(*ast.FuncDecl); ok {
							function.Body = nil
						}
					}
				}
				return f, err
			},
		}, "./...")
		if err != nil {
			t.Fatal(err)
		}
		var some []*packages.Package
		packages.Visit(pkgs, nil, func(p *packages.Package) {
			if strings.HasPrefix(p.PkgPath, "github.com/slotwise/slotwise") {
				for _, e := range p.Errors {
					t.Error(e)
				}
				if len(p.IgnoredFiles) > 0 {
					some = append(some, p)
				}
			}
			p.IllTyped = false // without its bodies a dependency uses few of its imports, which is an error
		})
		if len(some) == 0 || t.Failed() {
			t.Fatalf("%s: %d packages, of which %d have files for some systems only", module, len(pkgs), len(some))
		}
		graph, err := checker.Analyze(vet.Suite, some, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, act := range graph.Roots {
			if act.Err != nil {
				t.Error(act.Err)
			}
			for _, d := range act.Diagnostics {
				t.Errorf("%s: %s", act.Package.Fset.Position(d.Pos), d.Message)
			}
		}
	}
}
