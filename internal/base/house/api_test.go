package house

import (
	"bytes"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// publicPackages are the packages of authors of jobs. Package sched is left out: it gives
// types of internal packages public names, because policies work on the tracker's own
// objects. So does sim for the names of job states.
var publicPackages = []string{
	"cli", "mapreduce", "mapreduce/compression", "mapreduce/formats", "mapreduce/hdfs", "mapreduce/mrtest",
	"mapreduce/nodeload", "mapreduce/remote", "mapreduce/s3",
}

// modulePath is the module's path.
const modulePath = "github.com/slotwise/slotwise/"

// TestPublicAPI: no exported name of a public package mentions a type of an internal
// package. A caller cannot name such a type, and its documentation is hidden.
func TestPublicAPI(t *testing.T) {
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}
	for _, p := range publicPackages {
		args = append(args, modulePath+p)
	}
	c := exec.Command("go", args...)
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	imp := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		b, err := os.ReadFile(files[path])
		return io.NopCloser(bytes.NewReader(b)), err
	})
	for _, p := range publicPackages {
		pkg, err := imp.Import(modulePath + p)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range pkg.Scope().Names() {
			if o := pkg.Scope().Lookup(name); o.Exported() {
				w := &apiWalk{pkg: pkg}
				w.object(o)
				for _, leak := range w.leaks {
					t.Errorf("%s.%s mentions %s", p, name, leak)
				}
			}
		}
	}
}

// apiWalk collects the internal types that an exported object mentions.
type apiWalk struct {
	pkg   *types.Package
	leaks []string
	seen  []types.Type
}

// object walks the type of an exported object, and the methods of a type that it declares.
func (w *apiWalk) object(o types.Object) {
	name, ok := o.(*types.TypeName)
	if !ok {
		w.visit(o.Type())
		return
	}
	if name.IsAlias() {
		w.visit(types.Unalias(o.Type()))
		return
	}
	w.visit(o.Type().Underlying())
	if named, ok := o.Type().(*types.Named); ok {
		for m := range named.Methods() {
			if m.Exported() {
				w.visit(m.Type())
			}
		}
	}
}

// visit walks a type.
func (w *apiWalk) visit(t types.Type) {
	if slices.Contains(w.seen, t) {
		return
	}
	w.seen = append(w.seen, t)
	switch t := t.(type) {
	case *types.Alias:
		w.visit(types.Unalias(t))
	case *types.Named:
		if p := t.Obj().Pkg(); p != nil && strings.HasPrefix(p.Path(), modulePath) && strings.Contains(p.Path(), "/internal/") {
			w.leaks = append(w.leaks, t.String())
		}
		for a := range t.TypeArgs().Types() {
			w.visit(a)
		}
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() {
				w.visit(f.Type())
			}
		}
	case *types.Interface:
		for m := range t.Methods() {
			if m.Exported() {
				w.visit(m.Type())
			}
		}
	case *types.Signature:
		for v := range t.Params().Variables() {
			w.visit(v.Type())
		}
		for v := range t.Results().Variables() {
			w.visit(v.Type())
		}
	case *types.Map:
		w.visit(t.Key())
		w.visit(t.Elem())
	case interface{ Elem() types.Type }: // pointers, slices, arrays, channels
		w.visit(t.Elem())
	}
}
