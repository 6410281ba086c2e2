package durable_test

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/slotwise/slotwise/internal/base/durable"
	"github.com/slotwise/slotwise/internal/testkit/faultfs"
)

const seeds = 20

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// TestWriteFileCrashes cuts the power after each operation of WriteFile. The file holds
// the old content or the new one, and the new one once WriteFile has returned.
func TestWriteFileCrashes(t *testing.T) {
	const older, newer = "the old content, longer than a page", "the new content, which is longer than two pages"
	stopped := true
	for after := 0; stopped; after++ {
		for seed := range uint64(seeds) {
			disk := faultfs.NewDisk()
			disk.Put("d/f", []byte(older))
			disk.StopAfter(after)
			err := durable.WriteFile(disk, "d/f", 0o600, durable.Bytes(newer))
			stopped = disk.Stopped()
			if err == nil == stopped {
				t.Fatalf("stopped: %v, and WriteFile returned %v", stopped, err)
			}
			got := string(disk.Crash(rng(seed)).Bytes("d/f"))
			if got != newer && (got != older || !stopped) {
				t.Fatalf("after %d operations, seed %d: %q", after, seed, got)
			}
		}
	}
}

// TestWriteFileFails makes each operation of WriteFile fail, and the function that
// writes the content. The old content stays, and no temporary file.
func TestWriteFileFails(t *testing.T) {
	for _, op := range []faultfs.Op{faultfs.Create, faultfs.Write, faultfs.Sync, faultfs.Rename, faultfs.Commit} {
		disk := faultfs.NewDisk()
		disk.Put("f", []byte("old"))
		disk.Inject(faultfs.Rule{Op: op, Nth: 1, Err: syscall.ENOSPC})
		err := durable.WriteFile(disk, "f", 0o600, func(w io.Writer) error {
			if op == faultfs.Commit {
				return syscall.ENOSPC
			}
			_, err := io.WriteString(w, "new")
			return err
		})
		if !errors.Is(err, syscall.ENOSPC) || string(disk.Bytes("f")) != "old" || len(disk.Names()) != 1 {
			t.Errorf("%s: %v; %q in %v", op, err, disk.Bytes("f"), disk.Names())
		}
	}
}

// TestSyncDirFails: the content is complete, but WriteFile must not say that it is
// durable.
func TestSyncDirFails(t *testing.T) {
	disk := faultfs.NewDisk()
	disk.Inject(faultfs.Rule{Op: faultfs.SyncDir})
	if err := durable.WriteFile(disk, "f", 0o600, durable.Bytes("new")); !errors.Is(err, syscall.EIO) {
		t.Errorf("WriteFile: %v", err)
	}
	if err := durable.MkdirAll(disk, "a/b", 0o700); !errors.Is(err, syscall.EIO) {
		t.Errorf("MkdirAll: %v", err)
	}
}

// TestMkdirAllCrashes stops a process after each operation of MkdirAll, lets the next
// process repeat the call, and cuts the power. The directories stay.
func TestMkdirAllCrashes(t *testing.T) {
	stopped := true
	for after := 0; stopped; after++ {
		for seed := range uint64(seeds) {
			disk := faultfs.NewDisk()
			disk.StopAfter(after)
			_ = durable.MkdirAll(disk, "a/b/c", 0o700)
			stopped = disk.Stopped()
			disk = disk.Kill()
			if err := durable.MkdirAll(disk, "a/b/c", 0o700); err != nil {
				t.Fatal(err)
			}
			disk = disk.Crash(rng(seed))
			if got := disk.Names(); !slices.Equal(got, []string{"a", "a/b", "a/b/c"}) {
				t.Fatalf("stopped after %d operations, seed %d: %v", after, seed, got)
			}
		}
	}
}

// TestMkdirAll: a file in the way is an error that names it.
func TestMkdirAll(t *testing.T) {
	for name, disk := range map[string]durable.FS{"memory": faultfs.NewDisk(), "machine": durable.OS()} {
		dir := t.TempDir()
		if err := durable.MkdirAll(disk, filepath.Join(dir, "a"), 0o700); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "a", "file")
		if err := durable.WriteFile(disk, file, 0o600, durable.Bytes("x")); err != nil {
			t.Fatal(err)
		}
		for _, below := range []string{file, filepath.Join(file, "x"), filepath.Join(file, "x", "y")} {
			if err := durable.MkdirAll(disk, below, 0o700); !errors.Is(err, syscall.ENOTDIR) || !strings.Contains(err.Error(), file) {
				t.Errorf("%s: %s: %v", name, below, err)
			}
		}
	}
}

// TestSyncTree cuts the power after SyncTree. Everything below the directory stays.
func TestSyncTree(t *testing.T) {
	for seed := range uint64(seeds) {
		disk := faultfs.NewDisk()
		disk.Put("other", nil)
		for _, dir := range []string{"d", "d/e", "d/e/f"} {
			if err := disk.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			f, err := disk.OpenFile(dir+"/file", os.O_CREATE|os.O_RDWR, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(f, "more than one page of "+dir); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(durable.SyncTree(disk, "d", true), disk.SyncDir(".")); err != nil {
			t.Fatal(err)
		}
		disk = disk.Crash(rng(seed))
		for _, dir := range []string{"d", "d/e", "d/e/f"} {
			if got := string(disk.Bytes(dir + "/file")); got != "more than one page of "+dir {
				t.Fatalf("seed %d: %s/file is %q", seed, dir, got)
			}
		}
	}
}

// TestSyncTreeDeep refuses directories that no writer of slotwise has nested so deep.
func TestSyncTreeDeep(t *testing.T) {
	disk := faultfs.NewDisk()
	dir := "d"
	for depth := range 80 {
		if err := disk.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := durable.SyncTree(disk, "d", true); (depth > 64) != errors.Is(err, durable.ErrTooDeep) {
			t.Errorf("%d levels: %v", depth, err)
		}
		dir += "/d"
	}
}

// TestSyncTreeErrors makes each operation of SyncTree fail. SyncTree returns the error: the
// caller must not report data as durable.
func TestSyncTreeErrors(t *testing.T) {
	for n := 1; ; n++ {
		disk := faultfs.NewDisk()
		if err := disk.Mkdir("d", 0o700); err != nil {
			t.Fatal(err)
		}
		disk.Put("d/file", []byte("x"))
		failure := errors.New("no")
		disk.Inject(faultfs.Rule{Op: faultfs.Any, Nth: n, Err: failure})
		err := durable.SyncTree(disk, ".", true)
		if disk.Fired() == 0 {
			if err != nil || n < 4 {
				t.Errorf("after %d operations: %v", n-1, err)
			}
			return
		}
		if !errors.Is(err, failure) {
			t.Errorf("%s failed: %v", disk.LastFired(), err)
		}
	}
}

// TestNoSync: a file that cannot be opened is no file that is never synced.
func TestNoSync(t *testing.T) {
	f, err := durable.NoSync(durable.OS()).OpenFile(t.TempDir()+"/missing", os.O_RDONLY, 0)
	if !errors.Is(err, fs.ErrNotExist) || f != nil {
		t.Errorf("%v, %v", f, err)
	}
}

// TestFailedSync: after a sync has failed, the data are readable and not on the disk,
// whatever a later sync returns. The next crash loses them. This is how Linux behaves.
func TestFailedSync(t *testing.T) {
	disk := faultfs.NewDisk()
	disk.Put("f", nil)
	f, err := disk.OpenFile("f", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("x", 40)
	if _, err := io.WriteString(f, text); err != nil {
		t.Fatal(err)
	}
	disk.Inject(faultfs.Rule{Op: faultfs.Sync, Nth: 1})
	if err := f.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("the first sync: %v", err)
	}
	disk = disk.Kill()
	if f, err = disk.OpenFile("f", os.O_RDWR, 0); err == nil {
		err = f.Sync()
	}
	if err != nil {
		t.Fatal(err)
	}
	if b, err := durable.ReadFile(disk, "f"); err != nil || string(b) != text {
		t.Errorf("read %q, %v", b, err)
	}
	if got := string(disk.Crash(rng(1)).Bytes("f")); strings.Contains(got, "x") {
		t.Errorf("after a crash: %q", got)
	}
}

// TestRenameNew: RenameNew and PublishNew replace neither a file, a directory nor a link,
// also if it appears while the content is written.
func TestRenameNew(t *testing.T) {
	for name, disk := range map[string]durable.Tree{"memory": faultfs.NewDisk(), "machine": durable.OS(), "shared": durable.Shared()} {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		at := func(base string) string { return filepath.Join(dir, base) }
		put := func(base string) error {
			return durable.WriteFile(disk, at(base), 0o600, durable.Bytes(base))
		}
		err = errors.Join(durable.MkdirAll(disk, dir, 0o700), put("a"), put("b"),
			disk.Mkdir(at("dir"), 0o700), disk.Mkdir(at("empty"), 0o700))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range [][2]string{{"a", "b"}, {"a", "empty"}, {"dir", "b"}, {"dir", "empty"}} {
			if err := disk.RenameNew(at(c[0]), at(c[1])); !errors.Is(err, fs.ErrExist) {
				t.Errorf("%s: %s to %s: %v", name, c[0], c[1], err)
			}
		}
		for _, c := range [][2]string{{"a", "new"}, {"dir", "newdir"}} {
			if err := disk.RenameNew(at(c[0]), at(c[1])); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := disk.RenameNew(at("missing"), at("new2")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: a missing file: %v", name, err)
		}
		fill := func(w io.Writer) error {
			_, err := w.Write([]byte("late"))
			return errors.Join(err, put("late"))
		}
		if err := durable.PublishNew(disk, at("temp"), at("late"), 0o600, fill); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: a file that appears: %v", name, err)
		}
		if err := durable.PublishNew(disk, at("temp"), at("fresh"), 0o600, durable.Bytes("fresh")); err != nil {
			t.Errorf("%s: a new file: %v", name, err)
		}
		names, err := disk.ReadDir(dir)
		if want := []string{"b", "empty", "fresh", "late", "new", "newdir"}; err != nil || !slices.Equal(names, want) {
			t.Errorf("%s: left %v, want %v, error %v", name, names, want, err)
		}
		for base, want := range map[string]string{"b": "b", "late": "late", "fresh": "fresh", "new": "a"} {
			if got, err := durable.ReadFile(disk, at(base)); string(got) != want || err != nil {
				t.Errorf("%s: %s has %q, want %q, error %v", name, base, got, want, err)
			}
		}
	}
}

// TestIsAt: a file that was moved, removed or replaced is recognised, also by a
// directory above it.
func TestIsAt(t *testing.T) {
	for name, disk := range map[string]durable.Tree{"memory": faultfs.NewDisk(), "machine": durable.OS()} {
		dir := t.TempDir()
		path := filepath.Join(dir, "d", "f")
		open := func() durable.File {
			if err := errors.Join(durable.MkdirAll(disk, filepath.Dir(path), 0o700), durable.WriteFile(disk, path, 0o600, durable.Bytes("x"))); err != nil {
				t.Fatal(err)
			}
			f, err := disk.OpenFile(path, os.O_RDONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if !f.IsAt(path) {
				t.Errorf("%s: a new file is not at its path", name)
			}
			return f
		}
		for what, change := range map[string]func() error{
			"removed":   func() error { return disk.Remove(path) },
			"replaced":  func() error { return durable.WriteFile(disk, path, 0o600, durable.Bytes("x")) },
			"directory": func() error { return disk.Rename(filepath.Join(dir, "d"), filepath.Join(dir, "moved")) },
		} {
			f := open()
			if err := change(); err != nil {
				t.Fatal(err)
			}
			if f.IsAt(path) {
				t.Errorf("%s: %s: it is still there", name, what)
			}
			if err := errors.Join(f.Close(), disk.RemoveAll(filepath.Join(dir, "moved"))); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestLocks: a locked file cannot be locked again, and can be when it is closed.
func TestLocks(t *testing.T) {
	for name, disk := range map[string]durable.FS{"memory": faultfs.NewDisk(), "machine": durable.OS()} {
		path := filepath.Join(t.TempDir(), "lock")
		if err := durable.MkdirAll(disk, filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		open := func() durable.File {
			f, err := disk.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
		a, b := open(), open()
		if err := a.Lock(false); err != nil {
			t.Fatal(err)
		}
		if err := b.Lock(false); !errors.Is(err, durable.ErrLocked) {
			t.Errorf("%s: locked twice: %v", name, err)
		}
		got := make(chan error)
		go func() { got <- b.Lock(true) }()
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-got; err != nil {
			t.Errorf("%s: after a close: %v", name, err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// brokenFile fails when its size or its content is read.
type brokenFile struct {
	durable.File
	size, read error
}

func (f brokenFile) Size() (int64, error) {
	n, err := f.File.Size()
	return n, errors.Join(err, f.size)
}

func (f brokenFile) ReadAt(b []byte, at int64) (int, error) {
	if f.read != nil {
		b = b[:len(b)/2]
	}
	n, err := f.File.ReadAt(b, at)
	return n, errors.Join(err, f.read)
}

// brokenFiles opens brokenFiles.
type brokenFiles struct {
	durable.FS
	size, read error
}

func (f brokenFiles) OpenFile(path string, flag int, perm fs.FileMode) (durable.File, error) {
	file, err := f.FS.OpenFile(path, flag, perm)
	return brokenFile{file, f.size, f.read}, err
}

// TestReadFile: ReadFile returns the whole content or an error, never a part without one.
func TestReadFile(t *testing.T) {
	disk := faultfs.NewDisk()
	disk.Put("f", []byte("content"))
	disk.Put("empty", nil)
	for name, want := range map[string]string{"f": "content", "empty": ""} {
		if b, err := durable.ReadFile(disk, name); string(b) != want || err != nil {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if _, err := durable.ReadFile(disk, "missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	for what, files := range map[string]brokenFiles{"size": {disk, syscall.EIO, nil}, "read": {disk, nil, syscall.EIO}} {
		if b, err := durable.ReadFile(files, "f"); !errors.Is(err, syscall.EIO) {
			t.Errorf("the %s fails: %q, %v", what, b, err)
		}
	}
}
