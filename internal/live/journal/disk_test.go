package journal_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/slotwise/slotwise/internal/live/journal"
	"github.com/slotwise/slotwise/internal/testkit/faultfs"
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
					err = snapshot(l, one(fmt.Sprint("upto ", n)))
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
	err := snapshot(l, func(yield func([]byte, error) bool) {
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

// TestForeignNames: only names that the journal makes are its files. Others stay where
// they are and mean nothing.
func TestForeignNames(t *testing.T) {
	for name, want := range map[string]bool{
		"log-0000000000000001": true, "snapshot-0000000000000002": true,
		"log-0000000000000000": false, "log-1": false, "log-00000000000000001": false, "0000000000000001": false,
		"log-000000000000000x": false, "snapshot-0000000000000002.tmp": false, "lock": false, "": false,
	} {
		if got := journal.IsFile(name); got != want {
			t.Errorf("IsFile(%q) = %v", name, got)
		}
	}
	files, _, _ := written(t)
	for _, name := range []string{"j/0000000000000007", "j/log-7", "j/notes"} {
		files.Put(name, []byte("foreign"))
	}
	if n, err := load(open(t, files, 0)); n != 10 || err != nil {
		t.Errorf("%d records beside foreign files: %v", n, err)
	}
	if names := files.Names(); len(names) != 6 {
		t.Errorf("left: %v", names)
	}
}

// TestReplayStopsAtErrors: a file that cannot be read while the journal is replayed
// yields one error, and no record of a later file.
func TestReplayStopsAtErrors(t *testing.T) {
	files := faultfs.NewDisk()
	l := open(t, files, 100)
	c := counter{}
	for range 6 {
		l.Append(c.next(40))
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	for _, rule := range []faultfs.Rule{
		{Op: faultfs.Open, Path: "log-", Nth: 1}, {Op: faultfs.Read, Path: "log-", Nth: 1}, {Op: faultfs.Read, Path: "log-", Nth: 2},
		{Op: faultfs.Read, Path: "log-", Nth: 3, FlipBit: true}, {Op: faultfs.Read, Path: "log-", Nth: 5},
	} {
		disk := files.Kill()
		l := open(t, disk, 100)
		disk.Inject(rule)
		failures := 0
		for _, err := range l.Replay() {
			if failures > 0 {
				t.Errorf("%+v: a record follows the error", rule)
			}
			if err != nil {
				failures++
			}
		}
		if failures != 1 || disk.Fired() != 1 {
			t.Errorf("%+v: %d errors, %d faults", rule, failures, disk.Fired())
		}
	}
}

// TestReplayStopsEarly: a caller may stop in the middle of the replay.
func TestReplayStopsEarly(t *testing.T) {
	files, _, _ := written(t)
	for n := range 4 {
		seen := 0
		for range open(t, files.Kill(), 0).Replay() {
			if seen++; seen > n {
				break
			}
		}
		if seen != n+1 {
			t.Errorf("%d records before the break, want %d", seen, n+1)
		}
	}
}

// FuzzSnapshot puts arbitrary bytes in the place of a snapshot. Open and Copy refuse it,
// or both read the same records.
func FuzzSnapshot(f *testing.F) {
	const name = "j/snapshot-0000000000000002"
	files := faultfs.NewDisk()
	l := open(f, files, 0)
	l.Append([]byte("1"))
	if err := errors.Join(snapshot(l, one("upto 1")), l.Close()); err != nil {
		f.Fatal(err)
	}
	whole := files.Bytes(name)
	f.Add(whole, 0, []byte{})
	f.Add(whole, 40, []byte{1})
	f.Add(whole[:len(whole)-1], 0, []byte{})
	f.Add(append(slices.Clone(whole), 0), 0, []byte{})
	f.Fuzz(func(t *testing.T, data []byte, at int, with []byte) {
		data = slices.Clone(data)
		if at >= 0 && at < len(data) {
			copy(data[at:], with)
		}
		files := files.Kill()
		files.Put(name, data)
		image, copyErr := copied(files)
		l, err := journal.Open("j", journal.Options{FS: files})
		if (err == nil) != (copyErr == nil) {
			t.Fatalf("Open: %v; Copy: %v", err, copyErr)
		}
		if err != nil {
			return
		}
		records, err := replay(l)
		again, err2 := replay(open(t, image, 0))
		if err != nil || err2 != nil || !slices.Equal(records, again) {
			t.Fatalf("%d records, %v; %d records of the copy, %v", len(records), err, len(again), err2)
		}
	})
}
