package storage

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func stageShared(t *testing.T, dir, token string, replace Replace) *staging {
	t.Helper()
	s, err := Local{}.StageShared(ctx, dir, token, replace)
	must(t, err)
	return s.(*staging)
}

func reopen(t *testing.T, dir, token string) *staging {
	t.Helper()
	s, err := Local{}.Reopen(ctx, dir, token)
	must(t, err)
	return s.(*staging)
}

// TestSharedDirectory: the staging below a directory that hands its group on has that group,
// so that the master and the writers of part files may be different users.
func TestSharedDirectory(t *testing.T) {
	dir := t.TempDir()
	st, err := os.Stat(dir)
	must(t, err)
	group := int(st.Sys().(*syscall.Stat_t).Gid)
	if os.Geteuid() == 0 {
		group = 12345 // only root may choose a group that it is not in
		must(t, os.Chown(dir, -1, group))
	}
	must(t, os.Chmod(dir, 0o770|fs.ModeSetgid))
	mask := syscall.Umask(0o002)
	defer syscall.Umask(mask)
	out, token := filepath.Join(dir, "out"), NewToken()
	stageShared(t, out, token, ReplaceNothing)
	put(t, reopen(t, out, token), "sub/part-0", "a")
	must(t, filepath.WalkDir(filepath.Join(localRoot(out, token), dataDir), func(path string, e fs.DirEntry, err error) error {
		must(t, err)
		st, err := e.Info()
		must(t, err)
		want := fs.FileMode(0o664)
		if e.IsDir() {
			want = 0o775
		}
		if got := int(st.Sys().(*syscall.Stat_t).Gid); got != group || st.Mode().Perm() != want {
			t.Errorf("%s has mode %v and group %d, want %v and %d", path, st.Mode(), got, want, group)
		}
		return nil
	}))
}

// TestSharedStaging: several processes write into one staging, and another commits it.
func TestSharedStaging(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	token := NewToken()
	stageShared(t, out, token, ReplaceNothing)
	a, b := reopen(t, out, token), reopen(t, out, token)
	put(t, a, "part-0", "a")
	put(t, b, "part-0", "b")
	put(t, b, "sub/deep/part-1", "b")
	late, err := a.Create(ctx, "sub/part-2")
	must(t, err)
	must(t, stage(t, out, ReplaceAll).Abort(ctx)) // does not sweep it
	again := stageShared(t, out, token, ReplaceNothing)
	must(t, again.Commit(ctx))
	must(t, again.Commit(ctx))
	if err := again.Abort(ctx); !errors.Is(err, ErrPublished) {
		t.Errorf("abort after the commit: %v", err)
	}
	want := map[string]string{"out/_SUCCESS": token + "\n", "out/part-0": "b", "out/sub/deep/part-1": "b"}
	wantTree(t, dir, want)
	if err := late.Commit(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was committed after the staging: %v", err)
	}
	if _, err := b.Create(ctx, "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made after the commit elsewhere: %v", err)
	}
	done := reopen(t, out, token)
	if _, err := done.Create(ctx, "x"); !errors.Is(err, fs.ErrClosed) || !strings.Contains(err.Error(), "has published its output already") {
		t.Errorf("a file was made after the commit: %v", err)
	}
	must(t, done.Commit(ctx))
	must(t, b.Commit(ctx)) // finds it done
	for _, late := range []Staging{done, b, reopen(t, out, token)} {
		if err := late.Abort(ctx); !errors.Is(err, ErrPublished) {
			t.Errorf("abort after the commit: %v", err)
		}
	}
	wantTree(t, dir, want)
}

func TestSharedAbort(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	token := NewToken()
	s := stageShared(t, out, token, ReplaceAll)
	w, err := reopen(t, out, token).Create(ctx, "sub/x")
	must(t, err)
	_, err = io.WriteString(w, "x")
	must(t, err)
	must(t, reopen(t, out, token).Abort(ctx))
	if err := w.Commit(); err == nil {
		t.Error("a file was committed after the abort")
	}
	must(t, s.Abort(ctx))
	if err := s.Commit(ctx); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("commit after abort: %v", err)
	}
	if _, err := (Local{}).Reopen(ctx, out, token); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reopened after abort: %v", err)
	}
	for _, bad := range []string{"", "-", "a/b", "..", "-a", "a.b", string(make([]byte, 65))} {
		if _, err := (Local{}).Reopen(ctx, out, bad); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("token %q: %v", bad, err)
		}
	}
	wantTree(t, dir, map[string]string{})
}

func TestSharedWithoutOverwrite(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	stageShared(t, out, "a", ReplaceNothing)
	put(t, stageShared(t, out, "b", ReplaceNothing), "x", "b")
	must(t, reopen(t, out, "b").Commit(ctx))
	a := reopen(t, out, "a")
	put(t, a, "x", "a")
	for range 2 {
		if err := reopen(t, out, "a").Commit(ctx); !errors.Is(err, fs.ErrExist) {
			t.Fatalf("the second job replaced the first one's output: %v", err)
		}
	}
	must(t, a.Abort(ctx))
	if _, err := (Local{}).StageShared(ctx, out, "c", ReplaceNothing); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("staged over an output: %v", err)
	}
	wantTree(t, dir, map[string]string{"out/_SUCCESS": "b\n", "out/x": "b"})
}

// TestAbandonedShared: a shared staging that was not touched for SharedTTL is removed.
// Reopening a staging and committing a file count as touching.
func TestAbandonedShared(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	age := func(token string) {
		old := time.Now().Add(-SharedTTL - time.Hour)
		root := localRoot(out, token)
		for _, d := range []string{dataDir, tmpDir, ""} {
			must(t, os.Chtimes(filepath.Join(root, d), old, old))
		}
	}
	for _, token := range []string{"dead", "reopened", "written"} {
		put(t, stageShared(t, out, token, ReplaceAll), "x", token)
	}
	w, err := reopen(t, out, "written").Create(ctx, "y")
	must(t, err)
	for _, token := range []string{"dead", "reopened", "written"} {
		age(token)
	}
	reopen(t, out, "reopened")
	must(t, w.Commit())
	must(t, stage(t, out, ReplaceAll).Abort(ctx))
	for token, want := range map[string]bool{"dead": false, "reopened": true, "written": true} {
		if got := exists(localRoot(out, token)); got != want {
			t.Errorf("%s: it exists: %v", token, got)
		}
	}
}
