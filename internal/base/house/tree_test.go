package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Module is the path that the project's own imports begin with.
const Module = "github.com/slotwise/slotwise"

// Tree is the parsed repository.
type Tree struct {
	fset  *token.FileSet
	files []textFile
	gos   []*goFile
}

// textFile is a committed file that is not binary.
type textFile struct {
	path string
	data []byte
}

// goFile is a parsed Go file.
type goFile struct {
	path string // relative to the root
	dir  string // its package's directory, "." for the root
	src  []byte
	ast  *ast.File
	test bool // _test.go
}

// skipped are directories without committed files.
var skipped = []string{".git", "lab/data"}

// maxSize is the largest size in bytes of a text file. Larger files are data or
// binaries.
const maxSize = 1 << 20

// Load reads all files below the root of fsys and parses the Go files. It leaves out
// job outputs, which are directories with a _SUCCESS file. A Go file that does not
// parse is an error.
func Load(fsys fs.FS) (*Tree, error) {
	t := &Tree{fset: token.NewFileSet()}
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains(skipped, p) || isOutput(fsys, p)):
			return fs.SkipDir
		case !d.Type().IsRegular() || p == ".git": // a file in additional worktrees
			return nil
		}
		if info, err := d.Info(); err != nil || info.Size() > maxSize {
			return err
		}
		data, err := fs.ReadFile(fsys, p)
		if err != nil {
			return err
		}
		return t.add(p, data)
	})
	return t, err
}

// isOutput reports whether a directory is the output of a job.
func isOutput(fsys fs.FS, dir string) bool {
	_, err := fs.Stat(fsys, path.Join(dir, "_SUCCESS"))
	return err == nil
}

// add adds one file, and parses it if it is Go. It ignores binary files, which have a
// NUL byte in their first 8,000 bytes.
func (t *Tree) add(p string, data []byte) error {
	if bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0 {
		return nil
	}
	t.files = append(t.files, textFile{p, data})
	if path.Ext(p) != ".go" || strings.Contains("/"+p, "/testdata/") {
		return nil
	}
	f, err := parser.ParseFile(t.fset, p, data, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("parse: %w", err)
	}
	t.gos = append(t.gos, &goFile{
		path: p,
		dir:  path.Dir(p),
		src:  data,
		ast:  f,
		test: strings.HasSuffix(p, "_test.go"),
	})
	return nil
}

// packages returns the files that are not tests by directory.
func (t *Tree) packages() map[string][]*goFile {
	m := make(map[string][]*goFile)
	for _, f := range t.gos {
		if !f.test {
			m[f.dir] = append(m[f.dir], f)
		}
	}
	return m
}

// within reports whether dir is one of the roots or a directory below one.
func within(dir string, roots []string) bool {
	return slices.ContainsFunc(roots, func(r string) bool {
		return dir == r || strings.HasPrefix(dir, r+"/")
	})
}
