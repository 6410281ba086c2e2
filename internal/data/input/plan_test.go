package input

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slotwise/slotwise/internal/data/format"
	"github.com/slotwise/slotwise/internal/data/storage"
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
	// Through a link to a directory above the input its files are not read again.
	must(t, os.Remove(filepath.Join(dir, "out", "back")))
	must(t, os.Symlink("..", filepath.Join(dir, "in", "up")))
	got, err = files(dir, Options{Inputs: []string{"in"}})
	must(t, err)
	if want := []string{"in/a", "in/other/b", "in/up/out/b", "in/z"}; !slices.Equal(got, want) {
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

// together is a file system whose calls return only when several of a kind wait at the same time: a planner
// that makes them one after the other never gets an answer.
type together struct {
	storage.FS
	opens, lists chan struct{}
}

// meet waits for the others. Each pair of calls sends and receives.
func (together) meet(ctx context.Context, c chan struct{}) error {
	select {
	case c <- struct{}{}:
	case <-c:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

func (f together) Open(ctx context.Context, p string) (storage.File, error) {
	if err := f.meet(ctx, f.opens); err != nil {
		return nil, err
	}
	return f.FS.Open(ctx, p)
}

func (f together) List(ctx context.Context, p string) ([]storage.Info, error) {
	if strings.Contains(p, "day=") {
		if err := f.meet(ctx, f.lists); err != nil {
			return nil, err
		}
	}
	return f.FS.List(ctx, p)
}

// TestPlanTogether: planning lists directories and opens files several at a time. The error is
// the error of the first file that has one, in the order of their names.
func TestPlanTogether(t *testing.T) {
	dir := t.TempDir()
	for i := range 40 {
		write(t, dir, fmt.Sprintf("day=%02d/a.txt", i), bytes.Repeat([]byte("a line of text\n"), 100))
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("a call waited for another one, which did not come"))
	defer cancel()
	schemes, err := (*storage.Schemes)(nil).With("together", storage.Opener(func(rest string) (storage.FS, string, error) {
		local, p, err := (*storage.Schemes)(nil).Resolve(rest)
		return together{local, make(chan struct{}), make(chan struct{})}, p, err
	}))
	must(t, err)
	opts := Options{Schemes: schemes, Inputs: []string{"together://" + dir}, Rows: &format.Spec{Name: format.Text}, SplitSize: 1000}
	splits, err := Plan(ctx, opts)
	must(t, err)
	if len(splits) < 40 || !strings.Contains(splits[0].Pieces[0].URI, "day=00") {
		t.Errorf("%d splits, the first %+v", len(splits), splits[0])
	}
	opts.Inputs[0], opts.Rows = dir, nil // after an error a call may stay alone
	for _, day := range []int{38, 21, 20} {
		write(t, dir, fmt.Sprintf("day=%02d/a.txt", day), append([]byte("PK\x03\x04"), make([]byte, 2000)...))
		if _, err := Plan(ctx, opts); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("day=%02d", day)) {
			t.Errorf("with an archive of day %d: %v", day, err)
		}
	}
}
