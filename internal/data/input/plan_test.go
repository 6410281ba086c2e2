package input

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fixture returns a directory with every kind of file that Plan distinguishes.
func fixture(t *testing.T) string {
	dir := t.TempDir()
	for _, name := range []string{
		"a.go", "b.txt", "sub/c.go", "sub/deep/d.go", "sub/testdata/e.go", "z[1].go",
		".hidden.go", "_temporary/f.go", "sub/_SUCCESS", ".git/g.go",
	} {
		write(t, dir, name, []byte(name+"\n"))
	}
	write(t, dir, "empty.go", nil)
	return dir
}

// files returns the planned files below dir, or the error.
func files(dir string, opts Options) ([]string, error) {
	for i, in := range opts.Inputs {
		opts.Inputs[i] = filepath.Join(dir, in)
	}
	splits, err := Plan(ctx, opts)
	var names []string
	for _, s := range splits {
		for _, p := range s.Pieces {
			names = append(names, strings.TrimPrefix(p.URI, dir+"/"))
		}
	}
	return names, err
}

func TestPlanFindsFiles(t *testing.T) {
	dir := fixture(t)
	for _, c := range []struct {
		inputs, include, exclude, want string
	}{
		{".", "", "", "a.go b.txt sub/c.go sub/deep/d.go sub/testdata/e.go z[1].go"},
		{".", "*.go", "", "a.go sub/c.go sub/deep/d.go sub/testdata/e.go z[1].go"},
		{".", "*.go", "testdata", "a.go sub/c.go sub/deep/d.go z[1].go"},
		{".", "*.go *.txt", "sub", "a.go b.txt z[1].go"},
		{".", "sub/*.go", "", "sub/c.go"},
		{".", "**/d.go", "", "sub/deep/d.go"},
		{".", "sub/**/*.go", "sub/deep/**", "sub/c.go sub/testdata/e.go"},
		{"b.txt a.go", "", "", "a.go b.txt"},
		{"a.go a.go", "", "", "a.go a.go"},
		{".hidden.go", "", "", ".hidden.go"},
		{"_temporary", "", "", "_temporary/f.go"},
		{"*.go", "", "", "a.go z[1].go"},
		{".h*", "", "", ".hidden.go"},
		{"*/*.go", "", "", "sub/c.go"},
		{"*/deep", "", "", "sub/deep/d.go"},
		{"s?b/{deep,testdata,deep}/*", "", "", "sub/deep/d.go sub/testdata/e.go"},
		{"{a,b}.{go,txt}", "", "", "a.go b.txt"},
		{"{a,su{b,c}/c}.go", "", "", "a.go sub/c.go"},
		{"z[1].go", "", "", "z[1].go"},
		{`z\[1\].go`, "", "", "z[1].go"},
		{"empty.go", "", "", ""},
	} {
		got, err := files(dir, Options{
			Inputs: strings.Fields(c.inputs), Include: strings.Fields(c.include), Exclude: strings.Fields(c.exclude),
		})
		must(t, err)
		if diff := cmp.Diff(strings.Fields(c.want), got, cmp.Transformer("nil", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
			t.Errorf("%q include %q exclude %q (-want +got):\n%s", c.inputs, c.include, c.exclude, diff)
		}
	}
}

func TestPlanErrors(t *testing.T) {
	dir := fixture(t)
	must(t, os.Mkdir(filepath.Join(dir, "void"), 0o777))
	must(t, os.Symlink("nowhere", filepath.Join(dir, "dangling.lnk")))
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe.fifo"), 0o666))
	for _, c := range []struct {
		input, include string
		is             error
		text           string
	}{
		{"missing", "", fs.ErrNotExist, "input " + dir + "/missing: "},
		{"a.go/x", "", syscall.ENOTDIR, "a.go/x"},
		{"*.zip", "", ErrNoFiles, dir + "/*.zip"},
		{".", "*.zip", ErrNoFiles, `(with include "*.zip")`},
		{"a.go", "*.txt", ErrNoFiles, `include "*.txt"`},
		{"void", "", ErrNoFiles, "/void: no files found"},
		{".", "*.lnk", fs.ErrNotExist, "dangling.lnk"},
		{".", "*.fifo", nil, "pipe.fifo: not a regular file"},
		{"pipe.fifo", "", nil, "pipe.fifo: not a regular file"},
		{".", "[", nil, `pattern "["`},
		{"{a,b", "", nil, "{ without a matching }"},
		{"q[", "", nil, "syntax error in pattern"},
	} {
		opts := Options{Inputs: []string{c.input}}
		if c.include != "" {
			opts.Include = []string{c.include}
		}
		_, err := files(dir, opts)
		if err == nil || (c.is != nil && !errors.Is(err, c.is)) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s include %s: got %v, want %v with %q", c.input, c.include, err, c.is, c.text)
		}
	}
	for text, opts := range map[string]Options{
		"no input":                   {},
		"split size":                 {Inputs: []string{dir}, SplitSize: -1},
		"record length":              {Inputs: []string{dir}, Format: Format{Kind: Fixed}},
		`no storage scheme "gopher"`: {Inputs: []string{"gopher://x"}},
	} {
		if _, err := Plan(ctx, opts); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("want an error with %q, got %v", text, err)
		}
	}
}

// TestPlanLinks: links to files and directories are followed, links back up
// are not, and nothing is read for ever.
func TestPlanLinks(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "in/a", []byte("a"))
	write(t, dir, "out/b", []byte("b"))
	must(t, os.Symlink("../out", filepath.Join(dir, "in", "other")))
	must(t, os.Symlink("../in", filepath.Join(dir, "out", "back")))
	must(t, os.Symlink(".", filepath.Join(dir, "in", "self")))
	must(t, os.Symlink("a", filepath.Join(dir, "in", "z")))
	got, err := files(dir, Options{Inputs: []string{"in"}})
	must(t, err)
	if want := []string{"in/a", "in/other/b", "in/z"}; !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

// TestPlanSizes: splits cover all files once and in order, small files share a
// split, and none is larger than it must be.
func TestPlanSizes(t *testing.T) {
	dir := t.TempDir()
	const n, size = 500, 1 << 19
	for i := range n {
		write(t, dir, fmt.Sprintf("small-%04d", i), []byte("x\n"))
	}
	write(t, dir, "small-0300-big", make([]byte, 3*size+size/20))
	splits, err := Plan(ctx, Options{Inputs: []string{dir}, SplitSize: size})
	must(t, err)
	if most := n*(openCost+2)/size + 5; len(splits) > most {
		t.Errorf("%d splits, want at most %d", len(splits), most)
	}
	var last Piece
	pieces := 0
	for _, s := range splits {
		var sum int64
		for _, p := range s.Pieces {
			next := p.Offset == 0 && p.URI > last.URI && last.Offset+last.Length == last.FileSize
			if more := p.URI == last.URI && p.Offset == last.Offset+last.Length; !next && !more {
				t.Fatalf("%+v follows %+v", p, last)
			}
			last, sum, pieces = p, sum+p.Length, pieces+1
		}
		if sum != s.Bytes || sum > size+size/slop {
			t.Fatalf("a split of %d bytes says %d", sum, s.Bytes)
		}
	}
	if pieces != n+3 {
		t.Fatalf("%d pieces, want %d", pieces, n+3)
	}
}
