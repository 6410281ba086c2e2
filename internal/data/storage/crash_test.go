package storage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/base/durable"
)

// TestMain makes the test binary also the process that TestKilledJob kills.
func TestMain(m *testing.M) {
	if out := os.Getenv("SLOTWISE_TEST_STAGE"); out != "" {
		stageAndHang(out)
	}
	os.Exit(m.Run())
}

// stageAndHang begins a staging, writes half a part, and waits to be killed.
func stageAndHang(out string) {
	s, err := Local{}.Stage(ctx, out, ReplaceAll)
	if err == nil {
		var w Writer
		if w, err = s.Create(ctx, "part"); err == nil {
			_, err = io.WriteString(w, "half")
		}
	}
	fmt.Println("ready", err)
	time.Sleep(time.Hour)
	os.Exit(1)
}

// TestKilledJob kills a real process that writes an output. It shows that the system
// releases the staging's lock.
func TestKilledJob(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	old := stage(t, out, ReplaceNothing)
	put(t, old, "part", "old")
	must(t, old.Commit(ctx))

	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SLOTWISE_TEST_STAGE="+out)
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || line != "ready <nil>\n" {
		t.Errorf("the other process printed %q, %v", line, err)
	}
	must(t, stage(t, out, ReplaceAll).Abort(ctx))
	if n := len(tree(t, dir)); n != 5 {
		t.Errorf("%d files while the other job lives, want its own with two markers and the old two", n)
	}
	must(t, cmd.Process.Kill())
	if err := cmd.Wait(); err == nil {
		t.Error("the other process ended before it was killed")
	}
	must(t, stage(t, out, ReplaceAll).Abort(ctx))
	wantTree(t, dir, map[string]string{"out/_SUCCESS": "", "out/part": "old"})
}

// TestConcurrentReplacement: several jobs replace the same output at once. At every
// moment there is an output, and in the end it is one job's, whole.
func TestConcurrentReplacement(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	first := stage(t, out, ReplaceNothing)
	put(t, first, "part", "0")
	must(t, first.Commit(ctx))
	if probe := filepath.Join(dir, "probe"); os.Mkdir(probe, 0o777) != nil || durable.OS().Exchange(probe, out) != nil {
		t.Skip("this file system cannot swap directories")
	}
	must(t, durable.OS().Exchange(filepath.Join(dir, "probe"), out))
	must(t, os.Remove(filepath.Join(dir, "probe")))

	var wg sync.WaitGroup
	for job := range 4 {
		wg.Go(func() {
			for range 10 {
				s, err := Local{}.Stage(ctx, out, ReplaceAll)
				if err != nil {
					t.Error(err)
					return
				}
				w, err := s.Create(ctx, "part")
				if err == nil {
					_, _ = fmt.Fprint(w, job)
					err = w.Commit()
				}
				if err == nil {
					err = s.Commit(ctx)
				}
				if err != nil {
					t.Error(err)
				}
				if !exists(filepath.Join(out, SuccessFile)) {
					t.Error("there is no output")
				}
			}
		})
	}
	wg.Wait()
	got := tree(t, dir)
	if len(got) != 2 || len(got["out/part"]) != 1 {
		t.Errorf("left: %v", got)
	}
}

// blindOps finds the target empty in its first looks.
type blindOps struct {
	localOps
	target string
	looks  *int // that are left
}

// Entries implements StageOps.
func (o blindOps) Entries(ctx context.Context, dir string, each func(string, fs.FileMode) bool) error {
	if dir == o.target && *o.looks > 0 {
		*o.looks--
		return nil
	}
	return o.localOps.Entries(ctx, dir, each)
}

// TestPublishedSinceTheLook has another job publish between a commit's look at the target and its step. A job
// that may replace outputs replaces this one, too, and another job fails with the error for an output that exists.
func TestPublishedSinceTheLook(t *testing.T) {
	for replace, want := range map[Replace]error{ReplaceAll: nil, ReplaceOutput: nil, ReplaceNothing: fs.ErrExist} {
		dir := t.TempDir()
		out := filepath.Join(dir, "out")
		looks := 3 // when the staging begins, and two in its commit
		wrap := func(ops RenameOps) RenameOps { return blindOps{ops.(localOps), out, &looks} }
		s, err := Local{wrapOps: &wrap}.Stage(ctx, out, replace)
		must(t, err)
		put(t, s, "part-00000", "new")
		other := stage(t, out, ReplaceNothing)
		put(t, other, "part-00000", "other")
		must(t, other.Commit(ctx))
		if err := s.Commit(ctx); !errors.Is(err, want) {
			t.Errorf("%v: the commit returns %v, want %v", replace, err, want)
		}
		_ = s.Abort(ctx) // ErrPublished after a commit
		part := "new"
		if want != nil {
			part = "other"
		}
		wantTree(t, dir, map[string]string{"out/_SUCCESS": "", "out/part-00000": part})
	}
}
