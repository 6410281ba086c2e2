package journal_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slotwise/slotwise/internal/journal"
	"github.com/slotwise/slotwise/internal/storage/faultfs"
)

// TestFailedSyncAcrossRestart fails each sync of a journal's life in turn. The process
// ends, and the next one on the same machine opens the journal and appends. Then the
// power fails. All records that the second process replayed or synced are there: it
// must not trust bytes that it can read and the disk does not have.
func TestFailedSyncAcrossRestart(t *testing.T) {
	fired := true
	for nth := 1; fired; nth++ {
		for seed := range uint64(10) {
			rng := rand.New(rand.NewPCG(seed, uint64(nth)))
			files := faultfs.NewDisk()
			files.Inject(faultfs.Rule{Op: faultfs.Sync, Nth: nth})
			l, err := journal.Open("j", journal.Options{FS: files, SegmentBytes: 150})
			for n := 1; err == nil && n <= 12; n++ {
				l.Append(fmt.Appendf(nil, "%d %s", n, strings.Repeat("x", 20)))
				err = l.Sync()
				if err == nil && n%5 == 0 {
					err = l.Snapshot(one(fmt.Sprint("upto ", n)))
				}
			}
			fired = files.Fired() > 0
			files = files.Kill() // the end of the process; the machine runs on
			l = open(t, files, 150)
			n, err := load(l)
			if err != nil {
				t.Fatalf("sync %d: %v", nth, err)
			}
			l.Append(fmt.Appendf(nil, "%d", n+1))
			if err := l.Sync(); err != nil {
				t.Fatalf("sync %d: %v", nth, err)
			}
			again, err := load(open(t, files.Crash(rng), 150))
			if err != nil || again != n+1 {
				t.Fatalf("sync %d failed, seed %d: %d records after the power cut, %d before: %v", nth, seed, again, n+1, err)
			}
		}
	}
}

// TestReplacedDirectory removes, moves and replaces the journal's directory under an
// open log. Check and the next segment notice, and the log refuses from then on.
func TestReplacedDirectory(t *testing.T) {
	changes := map[string]func(dir string) error{
		"removed": os.RemoveAll,
		"moved":   func(dir string) error { return os.Rename(dir, dir+"-moved") },
		"parent":  func(dir string) error { return os.Rename(filepath.Dir(dir), filepath.Dir(dir)+"-moved") },
		"replaced": func(dir string) error {
			return errors.Join(os.Rename(dir, dir+"-moved"), os.CopyFS(dir, os.DirFS(dir+"-moved")))
		},
	}
	for name, change := range changes {
		for _, notices := range []string{"Check", "segment"} {
			dir := filepath.Join(t.TempDir(), "m", "j")
			l, err := journal.Open(dir, journal.Options{SegmentBytes: 100})
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Check(); err != nil {
				t.Fatal(err)
			}
			if err := change(dir); err != nil {
				t.Fatal(err)
			}
			if notices == "Check" {
				err = l.Check()
			} else {
				l.Append(make([]byte, 100))
				err = l.Sync()
			}
			if err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "removed or replaced") {
				t.Errorf("%s, %s: %v", name, notices, err)
			}
			if again := l.Sync(); again == nil {
				t.Errorf("%s, %s: the log accepts more records", name, notices)
			}
			_ = l.Close()
		}
	}
}

// TestSnapshotOfBrokenGenerator: a generator of records that fails leaves the log as it
// is, and no snapshot.
func TestSnapshotOfBrokenGenerator(t *testing.T) {
	broken := errors.New("broken")
	files := faultfs.NewDisk()
	l := open(t, files, 0)
	c := counter{}
	for range 3 {
		l.Append(c.next(5))
	}
	err := l.Snapshot(func(yield func([]byte, error) bool) {
		_ = yield([]byte("upto 2"), nil) && yield(nil, broken)
	})
	if !errors.Is(err, broken) {
		t.Fatalf("the snapshot: %v", err)
	}
	l.Append(c.next(5))
	if err := errors.Join(l.Sync(), l.Close()); err != nil {
		t.Fatal(err)
	}
	for _, name := range files.Names() {
		if strings.Contains(name, "snapshot") {
			t.Errorf("%s is left", name)
		}
	}
	if n, err := load(open(t, files, 0)); n != 4 || err != nil {
		t.Errorf("%d records: %v", n, err)
	}
}

// TestLockFails: a lock that the system cannot take for another reason than another
// process is an error, too.
func TestLockFails(t *testing.T) {
	files := faultfs.NewDisk()
	l := open(t, files, 0)
	if _, err := journal.Open("j", journal.Options{FS: files}); !errors.Is(err, journal.ErrLocked) {
		t.Errorf("opened twice: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	files.Inject(faultfs.Rule{Op: faultfs.Open, Path: "lock", Err: syscall.EACCES})
	if _, err := journal.Open("j", journal.Options{FS: files}); !errors.Is(err, syscall.EACCES) {
		t.Errorf("opened without the lock: %v", err)
	}
}
