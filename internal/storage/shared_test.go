package storage

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func stageShared(t *testing.T, dir, token string, overwrite bool) *sharedStaging {
	t.Helper()
	s, err := Local{}.StageShared(ctx, dir, token, overwrite)
	must(t, err)
	return s.(*sharedStaging)
}

func reopen(t *testing.T, dir, token string) *sharedStaging {
	t.Helper()
	s, err := Local{}.Reopen(ctx, dir, token)
	must(t, err)
	return s.(*sharedStaging)
}

// TestSharedStaging: several openings of one staging write, another commits.
func TestSharedStaging(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	token := NewToken()
	stageShared(t, out, token, false)
	a, b := reopen(t, out, token), reopen(t, out, token)
	put(t, a, "part-0", "a")
	put(t, b, "part-0", "b")
	put(t, b, "sub/deep/part-1", "b")
	late, err := a.Create(ctx, "sub/part-2")
	must(t, err)
	stage(t, out, true) // does not sweep it
	again := stageShared(t, out, token, false)
	must(t, again.Commit(ctx))
	must(t, again.Commit(ctx))
	must(t, again.Abort(ctx))
	want := map[string]string{"out/_SUCCESS": token + "\n", "out/part-0": "b", "out/sub/deep/part-1": "b"}
	wantTree(t, dir, want)
	if err := late.Commit(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was committed after the staging: %v", err)
	}
	if _, err := b.Create(ctx, "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made after the commit elsewhere: %v", err)
	}
	done := reopen(t, out, token)
	if _, err := done.Create(ctx, "x"); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("a file was made after the commit: %v", err)
	}
	must(t, done.Commit(ctx))
	must(t, b.Commit(ctx)) // finds it done
	must(t, done.Abort(ctx))
	wantTree(t, dir, want)
}

func TestSharedAbort(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	token := NewToken()
	s := stageShared(t, out, token, true)
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

// TestCrashInSharedCommit stops the commit at each of its steps, as a killed
// process would, and lets another process finish it, or give it up where it
// may still be given up. Another job's Stage in between changes nothing.
func TestCrashInSharedCommit(t *testing.T) {
	token := "job-1"
	older := map[string]string{"out/_SUCCESS": "", "out/part": "old"}
	newer := map[string]string{"out/_SUCCESS": token + "\n", "out/part": "new", "out/more": "new"}
	for _, step := range []string{"success", "decide", "rename", "between", "clean", "retired"} {
		for _, noExchange := range []bool{false, true} {
			for _, finish := range []bool{true, false} {
				if step == "between" && !noExchange {
					continue
				}
				dir := t.TempDir()
				out := filepath.Join(dir, "out")
				s := stage(t, out, false)
				put(t, s, "part", "old")
				must(t, s.Commit(ctx))
				crashShared(t, out, token, step, noExchange)

				must(t, stage(t, out, true).Abort(ctx))
				x := reopen(t, out, token)
				x.noExchange = noExchange
				want := newer
				if finish {
					must(t, x.Commit(ctx))
					must(t, reopen(t, out, token).Commit(ctx))
				} else {
					must(t, x.Abort(ctx))
					if step != "clean" && step != "retired" {
						want = older
					}
				}
				if diff := cmp.Diff(want, tree(t, dir)); diff != "" {
					t.Errorf("killed at %s (no exchange: %v, finished: %v) (-want +got):\n%s", step, noExchange, finish, diff)
				}
				if left, _ := os.ReadDir(dir); len(left) != 1 {
					t.Errorf("killed at %s: left %v", step, left)
				}
			}
		}
	}
}

func crashShared(t *testing.T, out, token, step string, noExchange bool) {
	t.Helper()
	s := stageShared(t, out, token, true)
	put(t, s, "part", "new")
	put(t, s, "more", "new")
	dead := errors.New("killed")
	s.noExchange = noExchange
	reached := false
	s.crash = func(at string) error {
		if at == step {
			reached = true
			return dead
		}
		return nil
	}
	if err := s.Commit(ctx); !reached || (err == nil) != (step == "retired") {
		t.Fatalf("%s: reached: %v, the commit ended with %v", step, reached, err)
	}
	if s.lock != nil {
		_ = s.lock.Close() // what the system does for a dead process
	}
}

// TestReplacedMeanwhile: while a commit lies interrupted, another job publishes
// the same target. The later commit wins, whole.
func TestReplacedMeanwhile(t *testing.T) {
	for _, step := range []string{"rename", "between", "clean"} {
		dir := t.TempDir()
		out := filepath.Join(dir, "out")
		s := stage(t, out, false)
		put(t, s, "part", "old")
		must(t, s.Commit(ctx))
		crashShared(t, out, "t", step, true)
		s = stage(t, out, true)
		put(t, s, "part", "other")
		must(t, s.Commit(ctx))
		must(t, reopen(t, out, "t").Commit(ctx))
		want := map[string]string{"out/_SUCCESS": "t\n", "out/part": "new", "out/more": "new"}
		if step == "clean" { // it had been published before the other
			want = map[string]string{"out/_SUCCESS": "", "out/part": "other"}
		}
		wantTree(t, dir, want)
	}
}

func TestSharedWithoutOverwrite(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	stageShared(t, out, "a", false)
	put(t, stageShared(t, out, "b", false), "x", "b")
	must(t, reopen(t, out, "b").Commit(ctx))
	a := reopen(t, out, "a")
	put(t, a, "x", "a")
	for range 2 {
		if err := reopen(t, out, "a").Commit(ctx); !errors.Is(err, fs.ErrExist) {
			t.Fatalf("the second job replaced the first one's output: %v", err)
		}
	}
	must(t, a.Abort(ctx))
	if _, err := (Local{}).StageShared(ctx, out, "c", false); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("staged over an output: %v", err)
	}
	wantTree(t, dir, map[string]string{"out/_SUCCESS": "b\n", "out/x": "b"})
}

// TestSharedThroughALink: while the target is aside, the link to it leads
// nowhere, and still finds the staging.
func TestSharedThroughALink(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "disk", "real"), 0o777))
	must(t, os.WriteFile(filepath.Join(dir, "disk", "real", "old"), nil, 0o666))
	link := filepath.Join(dir, "out")
	must(t, os.Symlink(filepath.Join("disk", "real"), link))
	crashShared(t, link, "t", "between", true)
	must(t, reopen(t, link, "t").Commit(ctx))
	wantTree(t, filepath.Join(dir, "disk"), map[string]string{"real/_SUCCESS": "t\n", "real/part": "new", "real/more": "new"})
}

// TestAbandonedShared: what nobody touched for SharedTTL goes, what somebody
// works in stays.
func TestAbandonedShared(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	age := func(token string) {
		old := time.Now().Add(-SharedTTL - time.Hour)
		root := sharedRoot(out, token)
		for _, d := range []string{dataDir, tmpDir, ""} {
			must(t, os.Chtimes(filepath.Join(root, d), old, old))
		}
	}
	for _, token := range []string{"dead", "reopened", "written"} {
		put(t, stageShared(t, out, token, true), "x", token)
	}
	w, err := reopen(t, out, "written").Create(ctx, "y")
	must(t, err)
	for _, token := range []string{"dead", "reopened", "written"} {
		age(token)
	}
	reopen(t, out, "reopened")
	must(t, w.Commit())
	must(t, stage(t, out, true).Abort(ctx))
	for token, want := range map[string]bool{"dead": false, "reopened": true, "written": true} {
		if got := exists(sharedRoot(out, token)); got != want {
			t.Errorf("%s: there is one: %v", token, got)
		}
	}
}

// TestFrozenInCommit stops a writer in its commit, right before the rename, while
// another commits the same file.
func TestFrozenInCommit(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	token := NewToken()
	stageShared(t, out, token, false)
	a, b := reopen(t, out, token), reopen(t, out, token)
	frozen, err := a.Create(ctx, "part")
	must(t, err)
	CrashAt(a, func(step string) error {
		if step == "file" {
			put(t, b, "part", "successor")
		}
		return nil
	})
	if err := frozen.Commit(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the commit of a writer that was shut out: %v", err)
	}
	must(t, b.Commit(ctx))
	wantTree(t, filepath.Dir(out), map[string]string{"out/_SUCCESS": token + "\n", "out/part": "successor"})
}
