package s3

import (
	"bytes"
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/testkit/faultfs"
)

// TestUndoneCommit: a commit that cannot complete its uploads is undone. The output that it
// has put aside on the server is back, byte for byte, and nothing else is left.
func TestUndoneCommit(t *testing.T) {
	t.Parallel()
	p, f, out := behindProxy(t)
	old, err := job(t.Context(), f, out, 100_000)
	must(t, err)
	denyCommit(t, p, f, out, "f") // the name of the old file
	p.spoil(nil)
	again, err := f.Reopen(t.Context(), out, "t")
	must(t, err)
	must(t, again.Abort(t.Context()))
	if got, err := read(t, f, out+"/f"); err != nil || !bytes.Equal(got, old) {
		t.Errorf("the old output has %d bytes, want %d, error %v", len(got), len(old), err)
	}
	if infos, err := f.List(t.Context(), out); err != nil || len(infos) != 2 {
		t.Errorf("the output is %v, %v", infos, err)
	}
	if left := leftovers(t, f, out); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// TestUnknownVacancy: a new file is not written if the server does not say whether there is one.
func TestUnknownVacancy(t *testing.T) {
	t.Parallel()
	p, f, out := behindProxy(t)
	create := func(content string) error {
		w, err := f.CreateFile(t.Context(), out, false)
		if err == nil {
			_, err = w.Write([]byte(content))
		}
		if err == nil {
			err = w.Commit()
		}
		return err
	}
	must(t, create("first"))
	p.spoil(func(r *http.Request) fault {
		if r.Method == http.MethodHead || is(r, "list") {
			return deny
		}
		return none
	})
	if err := create("second"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("error %v", err)
	}
	p.spoil(nil)
	if got, err := read(t, f, out); err != nil || string(got) != "first" {
		t.Errorf("the file has %q, error %v", got, err)
	}
}

// TestTouchSeldom: touching a staging costs a listing, and writes an object only every few
// minutes. If the listing fails, so does Touch: a staging that cannot be kept alive must not
// seem to be.
func TestTouchSeldom(t *testing.T) {
	m := newMemory()
	now := time.Now()
	m.now = func() time.Time { return now }
	o := stageOps{m}
	_, err := memoryFS{m}.StageShared(t.Context(), "dir/out", "t", storage.ReplaceNothing)
	must(t, err)
	root := ""
	for key := range m.mu.objects {
		if at, found := strings.CutSuffix(key, ownerFile); found {
			root = at
		}
	}
	puts := 0
	m.Inject(faultfs.Rule{Op: faultfs.Put, Path: touchedFile, Call: func() { puts++ }})
	for range 3 {
		must(t, o.Touch(t.Context(), root))
	}
	if puts > 1 {
		t.Errorf("three touches in a moment write %d objects", puts)
	}
	before := puts
	m.mu.objects[root+touchedFile] = stored{modified: now.Add(-storage.OwnTTL)}
	must(t, o.Touch(t.Context(), root))
	if puts != before+1 {
		t.Errorf("an old object is written again %d times", puts-before)
	}
	m.Inject(faultfs.Rule{Op: faultfs.List, Path: touchedFile, Err: syscall.EIO})
	if err := o.Touch(t.Context(), root); !errors.Is(err, syscall.EIO) {
		t.Errorf("error %v", err)
	}
}

// TestForeignDeadStaging: a dead staging that this user may not remove does not keep the user
// from writing beside it. Another failure does: the output may be half replaced.
func TestForeignDeadStaging(t *testing.T) {
	for _, failure := range []error{fs.ErrPermission, syscall.EIO} {
		m := newMemory()
		s, err := memoryFS{m}.StageShared(t.Context(), "dir/out", "dead", storage.ReplaceNothing)
		must(t, err)
		must(t, publishPart(t, s, "x").Commit())
		later := m.restart(storage.SharedTTL + time.Hour)
		later.Inject(faultfs.Rule{Op: faultfs.Remove, Path: "dead", Err: failure})
		_, err = memoryFS{later}.Stage(t.Context(), "dir/out", storage.ReplaceAll)
		if later.Fired() == 0 || (err == nil) != errors.Is(failure, fs.ErrPermission) {
			t.Errorf("the removal fails with %v: %v", failure, err)
		}
	}
}
