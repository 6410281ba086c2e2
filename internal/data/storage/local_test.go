package storage

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slotwise/slotwise/internal/base/durable"
)

var ctx = context.Background()

// tree returns the files under dir with their contents, hidden ones too.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		rel, _ := filepath.Rel(dir, p)
		files[rel] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func wantTree(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, tree(t, dir)); diff != "" {
		t.Fatalf("files under the directory (-want +got):\n%s", diff)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func stage(t *testing.T, dir string, replace Replace) *staging {
	t.Helper()
	s, err := Local{}.Stage(ctx, dir, replace)
	must(t, err)
	t.Cleanup(func() {
		if err := s.Abort(ctx); !errors.Is(err, ErrPublished) {
			must(t, err)
		}
	})
	return s.(*staging)
}

func put(t *testing.T, s Staging, name, content string) {
	t.Helper()
	w, err := s.Create(ctx, name)
	must(t, err)
	_, err = io.WriteString(w, content)
	must(t, err)
	must(t, w.Commit())
	must(t, w.Discard())
}

func TestStageIsInvisibleUntilCommit(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "new", "out")
	s := stage(t, out, ReplaceNothing)
	put(t, s, "part-r-00000", "a\n")
	put(t, s, "sub/part-r-00001", "b\n")
	left, err := s.Create(ctx, "part-r-00002")
	must(t, err)
	if exists(out) {
		t.Fatal("the output is visible before its commit")
	}
	must(t, s.Commit(ctx))
	wantTree(t, dir, map[string]string{
		"new/out/_SUCCESS": "", "new/out/part-r-00000": "a\n", "new/out/sub/part-r-00001": "b\n",
	})
	if err := left.Commit(); !errors.Is(err, fs.ErrClosed) {
		t.Fatalf("a file committed after the staging: %v", err)
	}
	must(t, left.Discard())
	if _, err := s.Create(ctx, "x"); !errors.Is(err, fs.ErrClosed) {
		t.Fatalf("Create after Commit: %v", err)
	}
	if err := s.Commit(ctx); !errors.Is(err, fs.ErrClosed) {
		t.Fatalf("second Commit: %v", err)
	}
}

func TestTwoAttemptsOfOnePart(t *testing.T) {
	dir := t.TempDir()
	s := stage(t, filepath.Join(dir, "out"), ReplaceNothing)
	a, err := s.Create(ctx, "part-m-00000")
	must(t, err)
	b, err := s.Create(ctx, "part-m-00000")
	must(t, err)
	for _, text := range []string{"1", "2", "3"} {
		_, err = io.WriteString(a, "a"+text)
		must(t, err)
		_, err = io.WriteString(b, "b"+text)
		must(t, err)
	}
	must(t, a.Commit())
	must(t, b.Commit())
	if err := b.Commit(); err == nil {
		t.Fatal("a writer committed twice")
	}
	c, err := s.Create(ctx, "part-m-00000")
	must(t, err)
	_, err = io.WriteString(c, "c")
	must(t, err)
	must(t, c.Discard())
	must(t, s.Commit(ctx))
	wantTree(t, dir, map[string]string{"out/_SUCCESS": "", "out/part-m-00000": "b1b2b3"})
}

func TestAbortLeavesTheOldOutput(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	must(t, os.MkdirAll(out, 0o777))
	must(t, os.WriteFile(filepath.Join(out, "old"), []byte("old"), 0o666))
	s := stage(t, out, ReplaceAll)
	put(t, s, "new", "new")
	must(t, s.Abort(ctx))
	wantTree(t, dir, map[string]string{"out/old": "old"})
}

func TestStageRefuses(t *testing.T) {
	dir := t.TempDir()
	full := filepath.Join(dir, "full")
	must(t, os.Mkdir(full, 0o777))
	file := filepath.Join(full, "file")
	must(t, os.WriteFile(file, nil, 0o666))
	wd, err := os.Getwd()
	must(t, err)
	for _, c := range []struct {
		name, dir string
		replace   Replace
		want      error
		text      string
	}{
		{"full directory", full, ReplaceNothing, fs.ErrExist, full},
		{"a file", file, ReplaceAll, syscall.ENOTDIR, file},
		{"below a file", file + "/x", ReplaceNothing, syscall.ENOTDIR, file},
		{"working directory", wd, ReplaceAll, nil, "holds the working directory"},
		{"its parent", filepath.Dir(wd), ReplaceAll, nil, "holds the working directory"},
		{"root", "/", ReplaceAll, nil, "mount point"},
		{"mount point", "/proc", ReplaceAll, nil, "mount point"},
		{"system directory", "/usr", ReplaceAll, nil, "directory of the operating system"},
	} {
		_, err := Local{}.Stage(ctx, c.dir, c.replace)
		if err == nil || (c.want != nil && !errors.Is(err, c.want)) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: got %v, want %v with %q", c.name, err, c.want, c.text)
		}
	}
	wantTree(t, dir, map[string]string{"full/file": ""})
}

// TestErasable asks about directories that no user can mean to remove. It asks only: the
// test must not destroy the machine that finds the defect.
func TestErasable(t *testing.T) {
	dir := t.TempDir()
	inner := filepath.Join(dir, "a", "b")
	must(t, os.MkdirAll(inner, 0o777))
	link := filepath.Join(dir, "link")
	must(t, os.Symlink("/", link))
	t.Setenv("HOME", filepath.Join(dir, "a"))
	t.Chdir(inner)
	for name, want := range map[string]string{
		"/": "mount point", "//": "mount point", "/usr/..": "mount point",
		"/etc": "operating system", "/usr/": "operating system", "/var/../etc": "operating system", filepath.Join(link, "etc"): "operating system",
		".": "working directory", "..": "working directory", dir: "working directory",
		filepath.Join(dir, "a"): "working directory",
	} {
		if err := CheckErasable(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", name, err, want)
		}
	}
	t.Chdir(dir)
	if err := CheckErasable("a"); err == nil || !strings.Contains(err.Error(), "home directory") {
		t.Errorf("the home: %v", err)
	}
	if err := CheckErasable(inner); err != nil {
		t.Errorf("a directory of a user: %v", err)
	}
	// The home and the working directory are known by names that lead through a link.
	other := filepath.Join(dir, "other")
	must(t, os.Symlink("a", other))
	t.Setenv("HOME", other)
	if err := CheckErasable("a"); err == nil || !strings.Contains(err.Error(), "home directory") {
		t.Errorf("the home behind a link: %v", err)
	}
	t.Setenv("HOME", inner)
	t.Chdir(filepath.Join(other, "b"))
	if err := CheckErasable(inner); err == nil || !strings.Contains(err.Error(), "working directory") {
		t.Errorf("the working directory behind a link: %v", err)
	}
	// A home that does not exist protects nothing.
	t.Setenv("HOME", filepath.Join(dir, "missing"))
	t.Chdir(other)
	if err := CheckErasable(inner); err != nil {
		t.Errorf("a directory of a user without a home: %v", err)
	}
}

// TestRemoveRefuses removes and moves a directory that holds the working directory. Then it
// removes a large directory with a cancelled context.
func TestRemoveRefuses(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o777))
	t.Chdir(filepath.Join(dir, "a", "b"))
	for what, err := range map[string]error{
		"remove": Local{}.Remove(ctx, filepath.Join(dir, "a")),
		"move":   Local{}.Move(ctx, filepath.Join(dir, "a"), filepath.Join(dir, "c")),
	} {
		if err == nil || !strings.Contains(err.Error(), "holds the working directory") {
			t.Errorf("%s: %v", what, err)
		}
	}
	t.Chdir(dir)
	stopped, stop := context.WithCancel(ctx)
	stop()
	if err := (Local{}).Remove(stopped, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("with a cancelled context: %v", err)
	}
	if _, err := os.Stat("a/b"); err != nil {
		t.Errorf("the cancelled removal has removed %v", err)
	}
	must(t, Local{}.Remove(ctx, "a"))
	if _, err := os.Stat("a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the removal: %v", err)
	}
}

func TestEmptyTargetAndRaceForIt(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	must(t, os.Mkdir(out, 0o777))
	a, b := stage(t, out, ReplaceNothing), stage(t, out, ReplaceNothing)
	put(t, a, "x", "a")
	put(t, b, "x", "b")
	must(t, a.Commit(ctx))
	if err := b.Commit(ctx); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("the second job replaced the first one's output: %v", err)
	}
	must(t, b.Abort(ctx))
	wantTree(t, dir, map[string]string{"out/_SUCCESS": "", "out/x": "a"})
}

func TestOverwriteThroughALink(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "disk", "real"), 0o777))
	must(t, os.WriteFile(filepath.Join(dir, "disk", "real", "old"), nil, 0o666))
	link := filepath.Join(dir, "out")
	must(t, os.Symlink(filepath.Join("disk", "real"), link))
	s := stage(t, link, ReplaceAll)
	put(t, s, "x", "new")
	must(t, s.Commit(ctx))
	wantTree(t, filepath.Join(dir, "disk"), map[string]string{"real/_SUCCESS": "", "real/x": "new"})
	if _, err := os.Readlink(link); err != nil {
		t.Fatalf("the link was replaced: %v", err)
	}
}

// TestSweepKeepsLiving: a sweep removes only dead stagings of the same
// target.
func TestSweepKeepsLiving(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	alive := stage(t, out, ReplaceAll)
	put(t, alive, "x", "alive")
	other := filepath.Join(dir, ".out.slotwise-b.slotwise-own-123")
	must(t, os.Mkdir(other, 0o777))
	leftover := filepath.Join(dir, ".out.slotwise-own-456")
	must(t, os.Mkdir(leftover, 0o777))
	stage(t, out, ReplaceAll)
	if !exists(alive.area.Root) || !exists(other) {
		t.Error("a living job's staging or another target's leftover was swept")
	}
	if exists(leftover) {
		t.Error("a dead job's leftover was not swept")
	}
	must(t, alive.Commit(ctx))
	must(t, os.Remove(other))
}

func TestCreateRefusesNamesThatEscape(t *testing.T) {
	s := stage(t, filepath.Join(t.TempDir(), "out"), ReplaceNothing)
	for _, name := range []string{"", ".", "..", "../x", "a/../../x", "/x"} {
		if _, err := s.Create(ctx, name); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("Create(%q): %v", name, err)
		}
	}
}

func TestListAndOpen(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "b"), []byte("bb"), 0o666))
	must(t, os.WriteFile(filepath.Join(dir, ".hidden"), nil, 0o666))
	must(t, os.Mkdir(filepath.Join(dir, "a"), 0o777))
	must(t, os.Symlink("a", filepath.Join(dir, "l")))
	must(t, os.Symlink("nowhere", filepath.Join(dir, "n")))
	must(t, syscall.Mkfifo(filepath.Join(dir, "p"), 0o666))
	infos, err := Local{}.List(ctx, dir)
	must(t, err)
	got := map[string][3]any{}
	for _, i := range infos {
		got[filepath.Base(i.Path)] = [3]any{i.Size, i.Dir, i.Link}
	}
	want := map[string][3]any{
		".hidden": {int64(0), false, false}, "a": {int64(0), true, false}, "b": {int64(2), false, false},
		"l": {int64(0), true, true}, "n": {int64(-1), false, true}, "p": {int64(-1), false, false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("List (-want +got):\n%s", diff)
	}
	for name, want := range map[string]error{
		"a": syscall.EISDIR, "n": fs.ErrNotExist, "p": errNotRegular, "zz": fs.ErrNotExist,
	} {
		if _, err := (Local{}).Open(ctx, filepath.Join(dir, name)); !errors.Is(err, want) || !strings.Contains(err.Error(), name) {
			t.Errorf("Open(%s): %v, want %v", name, err, want)
		}
	}
}

func TestSample(t *testing.T) {
	p := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(p, nil, 0o600))
	sampled, err := Local{}.Sample(ctx, p)
	must(t, err)
	if sampled.Version.Sample == 0 {
		t.Error("an empty file has no sample")
	}
	sampled.Version.Sample = 0
	info, err := Local{}.Stat(ctx, p)
	must(t, err)
	if !sampled.ModTime.Equal(info.ModTime) {
		t.Errorf("Sample has the time %v, Stat %v", sampled.ModTime, info.ModTime)
	}
	if sampled.ModTime = info.ModTime; sampled != info {
		t.Errorf("Sample has %+v, Stat %+v", sampled, info)
	}
	_, err = Local{}.Sample(ctx, p+"x")
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), p+"x") {
		t.Errorf("a missing file: %v", err)
	}
	if os.Geteuid() == 0 {
		return // may read everything
	}
	must(t, os.Chmod(p, 0))
	if _, err := (Local{}).Sample(ctx, p); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("an unreadable file: %v", err)
	}
}

// TestSampleEnds changes one byte of files that are about as large as the sampled ends.
func TestSampleEnds(t *testing.T) {
	for _, size := range []int64{1, sampleEnd - 1, sampleEnd, sampleEnd + 1, 2*sampleEnd - 1, 2 * sampleEnd, 2*sampleEnd + 1, 5 * sampleEnd} {
		b := make([]byte, size)
		want, err := sampleOf(bytes.NewReader(b), size)
		must(t, err)
		grown, err := sampleOf(bytes.NewReader(append(b, 'x')), size)
		must(t, err)
		if grown != want {
			t.Errorf("%d bytes: another sample when bytes are added", size)
		}
		for _, at := range []int64{0, size / 2, min(sampleEnd-1, size-1), max(0, size-sampleEnd), size - 1} {
			b[at] = 'x'
			got, err := sampleOf(bytes.NewReader(b), size)
			must(t, err)
			if b[at] = 0; (got != want) != (at < sampleEnd || at >= size-sampleEnd) {
				t.Errorf("%d bytes, byte %d is another: another sample: %v", size, at, got != want)
			}
		}
		if _, err := sampleOf(bytes.NewReader(b[1:]), size); err == nil {
			t.Errorf("%d bytes: a sample of a shorter file", size)
		}
	}
}

// The target of a shared staging holds a _SUCCESS file that a user has made: one that is
// larger than the memory, then a pipe. A master must survive both.
func TestStageSharedOverStrangeSuccess(t *testing.T) {
	for name, create := range map[string]func(path string) error{
		"sparse": func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<42))
		},
		"pipe": func(path string) error { return syscall.Mkfifo(path, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			target := filepath.Join(t.TempDir(), "out")
			err := os.Mkdir(target, 0o700)
			if err == nil {
				err = create(filepath.Join(target, SuccessFile))
			}
			if err != nil {
				t.Fatal(err)
			}
			s, err := Local{}.StageShared(ctx, target, "abc", ReplaceAll)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Commit(ctx); err != nil {
				t.Fatal(err)
			}
			if b, err := os.ReadFile(filepath.Join(target, SuccessFile)); string(b) != "abc\n" {
				t.Errorf("%q, %v", b, err)
			}
		})
	}
}

// A link in the place of the staging directory is refused: whoever knows the token could
// make the master change the directory behind it.
func TestStagingRootIsNoLink(t *testing.T) {
	dir := t.TempDir()
	target, victim := filepath.Join(dir, "out"), t.TempDir()
	s, err := Local{}.StageShared(ctx, target, "abc", ReplaceNothing)
	if err != nil {
		t.Fatal(err)
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 1 {
		t.Fatalf("%v, %v: want the staging directory alone", names, err)
	}
	root := filepath.Join(dir, names[0].Name())
	if err := s.Abort(ctx); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(victim, 0o700), os.Symlink(victim, root)); err != nil {
		t.Fatal(err)
	}
	if _, err := (Local{}).StageShared(ctx, target, "abc", ReplaceNothing); err == nil {
		if st, err := os.Lstat(root); err != nil || !st.IsDir() {
			t.Errorf("the link was taken for the staging directory: %v", err)
		}
	}
	// The same link, made just before MakeRoot.
	if err := errors.Join(os.RemoveAll(root), os.Symlink(victim, root)); err != nil {
		t.Fatal(err)
	}
	if err := LocalOps(durable.OS(), true).MakeRoot(ctx, root, false); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("MakeRoot on a link: %v", err)
	}
	st, err := os.Stat(victim)
	if err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the directory behind the link has mode %v, %v", st.Mode().Perm(), err)
	}
	if entries, err := os.ReadDir(victim); err != nil || len(entries) > 0 {
		t.Errorf("the directory behind the link has %v, %v", entries, err)
	}
}
