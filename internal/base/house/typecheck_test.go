package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// typeCheck resolves the names in files. It checks the module's own packages from
// the tree. Other packages come from the compiler's export data, which go list finds
// in the build cache. Type errors are ignored, because the compiler reports them:
// names that cannot be resolved stay unknown.
func (t *Tree) typeCheck(files []*goFile) (*types.Info, error) {
	c := &checker{
		tree: t,
		info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}},
		done: map[string]*types.Package{},
		pkgs: t.packages(),
	}
	dirs := make(map[string]bool)
	for _, f := range files {
		dirs[f.dir] = true
	}
	exports, err := exportData(c.foreign(dirs))
	if err != nil {
		return nil, err
	}
	c.others = importer.ForCompiler(t.fset, "gc", func(path string) (io.ReadCloser, error) {
		file, ok := exports[path]
		if !ok {
			return nil, fmt.Errorf("no export data for %s", path)
		}
		return os.Open(file)
	})
	for dir := range dirs {
		if _, err := c.Import(Module + "/" + dir); err != nil {
			return nil, err
		}
	}
	return c.info, nil
}

// checker is a types.Importer that type-checks the module's packages when they are
// first imported.
type checker struct {
	tree   *Tree
	info   *types.Info
	pkgs   map[string][]*goFile
	done   map[string]*types.Package
	others types.Importer
}

// Import implements types.Importer.
func (c *checker) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	if p, ok := c.done[path]; ok {
		return p, nil
	}
	dir, ours := strings.CutPrefix(path, Module+"/")
	if !ours {
		return c.others.Import(path)
	}
	c.done[path] = types.NewPackage(path, dir) // ends an import cycle
	conf := types.Config{Importer: c, Error: func(error) {}, FakeImportC: true}
	var asts []*ast.File
	for _, f := range c.pkgs[dir] {
		if builds(f) {
			asts = append(asts, f.ast)
		}
	}
	pkg, _ := conf.Check(path, c.tree.fset, asts, c.info) // errors: see typeCheck
	c.done[path] = pkg
	return pkg, nil
}

// builds reports whether a file is part of a build on this machine.
func builds(f *goFile) bool {
	ctx := build.Default
	ctx.OpenFile = func(string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(f.src)), nil }
	ok, err := ctx.MatchFile("", f.path[strings.LastIndexByte(f.path, '/')+1:])
	return ok && err == nil
}

// foreign returns the packages outside the module that the packages in dirs import,
// directly or through other packages of the module.
func (c *checker) foreign(dirs map[string]bool) []string {
	var out []string
	seen := make(map[string]bool)
	var visit func(dir string)
	visit = func(dir string) {
		if seen[dir] {
			return
		}
		seen[dir] = true
		for _, f := range c.pkgs[dir] {
			for _, spec := range f.ast.Imports {
				p, _ := strconv.Unquote(spec.Path.Value)
				if own, ours := strings.CutPrefix(p, Module+"/"); ours {
					visit(own)
				} else if p != "unsafe" && p != "C" {
					out = append(out, p)
				}
			}
		}
	}
	for dir := range dirs {
		visit(dir)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// known caches the files of export data by import path. Running go list takes longer
// than everything else here.
var known struct {
	sync.Mutex
	files map[string]string
}

// exportData returns the files of export data of packages and their dependencies.
// go list compiles packages that are not in the build cache. The result may have
// more packages than requested.
func exportData(paths []string) (map[string]string, error) {
	known.Lock()
	defer known.Unlock()
	unknown := slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return known.files[p] != "" })
	if len(unknown) == 0 {
		return maps.Clone(known.files), nil
	}
	args := append([]string{"list", "-e", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}", "--"}, unknown...)
	cmd := exec.Command("go", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, stderr.Bytes())
	}
	if known.files == nil {
		known.files = make(map[string]string)
	}
	for line := range strings.Lines(string(out)) {
		if p, file, _ := strings.Cut(strings.TrimSpace(line), "\t"); file != "" {
			known.files[p] = file
		}
	}
	return maps.Clone(known.files), nil
}
