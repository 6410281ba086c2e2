package history

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/slotwise/slotwise/internal/base/durable"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// asides collects the reports of a store.
type asides struct {
	paths []string
	errs  []error
}

func (a *asides) add(path string, err error) {
	a.paths, a.errs = append(a.paths, path), append(a.errs, err)
}

// written makes a directory with a closed history of jobs j1 to jn, and returns the path of
// the database.
func written(t *testing.T, dir string, n int) (path string) {
	t.Helper()
	s := open(t, dir, Limits{})
	var list []*slotwisev1.HistoryJob
	for i := 1; i <= n; i++ {
		list = append(list, ended(i, "ann"))
	}
	if err := errors.Join(s.Put(list...), s.Close()); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, subdir, FileName)
}

// overwrite replaces bytes of a file from an offset on.
func overwrite(t *testing.T, path string, at int64, b []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(b, at)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedDatabase opens damaged databases, twice each. The store begins an empty one, and
// the damaged ones keep their content under other names.
func TestDamagedDatabase(t *testing.T) {
	garbage := bytes.Repeat([]byte{0xa5}, 4096)
	for name, damage := range map[string]func(t *testing.T, path string){
		"no database":       func(t *testing.T, path string) { overwrite(t, path, 0, []byte(strings.Repeat("no database ", 1000))) },
		"zeros":             func(t *testing.T, path string) { overwrite(t, path, 0, make([]byte, 8192)) },
		"the schema":        func(t *testing.T, path string) { overwrite(t, path, 100, garbage[:3000]) },
		"other pages":       func(t *testing.T, path string) { overwrite(t, path, 4096, bytes.Repeat(garbage, 8)) },
		"cut in pages":      func(t *testing.T, path string) { truncate(t, path, 4096+100) },
		"cut in the header": func(t *testing.T, path string) { truncate(t, path, 60) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for round := 1; round <= 2; round++ {
				path := written(t, dir, 40)
				damage(t, path)
				before, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				var got asides
				s, err := Open(dir, Limits{}, got.add)
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Put(ended(99, "bob")); err != nil {
					t.Error(err)
				}
				if list := names(t, s, Query{Limit: 10}); list != "j99" {
					t.Errorf("the new history has %s", list)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				if len(got.paths) != 1 || !isDamage(got.errs[0]) {
					t.Fatalf("reports %v, %v", got.paths, got.errs)
				}
				if kept, err := os.ReadFile(got.paths[0]); err != nil || !bytes.Equal(kept, before) {
					t.Errorf("%s does not have the damaged content: %v", got.paths[0], err)
				}
				if n := damagedIn(t, dir); n != round {
					t.Errorf("%d damaged databases are kept, want %d", n, round)
				}
			}
		})
	}
}

func truncate(t *testing.T, path string, size int64) {
	t.Helper()
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

// damagedIn counts the databases that were set aside.
func damagedIn(t *testing.T, dir string) (n int) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, subdir, FileName+damagedInfix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, "-wal") {
			n++
		}
	}
	return n
}

// TestManyDamagedDatabases verifies that their number is bounded, and that the first one,
// which has the most jobs, stays.
func TestManyDamagedDatabases(t *testing.T) {
	dir := t.TempDir()
	var got asides
	for i := range maxDamaged + 3 {
		path := written(t, dir, map[bool]int{true: 200, false: 1}[i == 0])
		overwrite(t, path, 0, []byte("damaged"))
		s, err := Open(dir, Limits{}, got.add)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := damagedIn(t, dir); n != maxDamaged {
		t.Errorf("%d damaged databases are kept, want %d", n, maxDamaged)
	}
	if _, err := os.Stat(got.paths[0]); err != nil {
		t.Errorf("the first one is gone: %v", err)
	}
}

// TestOtherVersions opens databases of a later and of an earlier version, which stay
// unchanged.
func TestOtherVersions(t *testing.T) {
	for _, v := range []int{1, 99} {
		dir := t.TempDir()
		s := open(t, dir, Limits{})
		if _, err := s.db.Exec(fmt.Sprint("PRAGMA user_version = ", v)); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for _, open := range []func() (*Store, error){func() (*Store, error) { return Open(dir, Limits{}, nil) }, func() (*Store, error) { return OpenRead(dir) }} {
			if _, err := open(); err == nil || !strings.Contains(err.Error(), "another version") || !strings.Contains(err.Error(), fmt.Sprintf("(version %d of", v)) {
				t.Errorf("version %d: %v", v, err)
			}
		}
		if n := damagedIn(t, dir); n != 0 {
			t.Errorf("%d databases were set aside", n)
		}
	}
}

// TestLogWithoutDatabase removes the database of a writer that was killed, and leaves its
// log: the log is kept under another name.
func TestLogWithoutDatabase(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Limits{})
	if err := s.Put(ended(1, "ann")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, subdir, FileName)
	content, err := os.ReadFile(path + "-wal")
	if err != nil || len(content) == 0 {
		t.Fatalf("the log of %d bytes: %v", len(content), err)
	}
	other := t.TempDir() // as if the machine had stopped here
	if err := os.Mkdir(filepath.Join(other, subdir), 0o700); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(other, subdir, FileName)
	if err := os.WriteFile(path+"-wal", content, 0o600); err != nil {
		t.Fatal(err)
	}
	var got asides
	s, err = Open(other, Limits{}, got.add)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if list := names(t, s, Query{Limit: 10}); list != "" || len(got.paths) != 1 {
		t.Fatalf("the history has %s, reports %v", list, got.paths)
	}
	if kept, err := os.ReadFile(got.paths[0]); err != nil || !bytes.Equal(kept, content) {
		t.Errorf("the log is not kept: %v", err)
	}
}

// TestDamageWhileOpen damages a table that Open does not read. Put finds the damage, sets the
// database aside and stores the job, while others read.
func TestDamageWhileOpen(t *testing.T) {
	dir := t.TempDir()
	path := written(t, dir, 100)
	s := open(t, dir, Limits{})
	var page, size int64
	if err := errors.Join(s.db.QueryRow("SELECT rootpage FROM sqlite_master WHERE name = 'records'").Scan(&page), s.db.QueryRow("PRAGMA page_size").Scan(&size)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	overwrite(t, path, (page-1)*size, bytes.Repeat([]byte{0xa5}, int(size)))
	var got asides
	s, err := Open(dir, Limits{}, got.add)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if len(got.paths) != 0 {
		t.Fatalf("Open has reported %v", got.errs)
	}
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				_, _ = s.List(t.Context(), Query{Limit: 10}) // it fails until Put
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for n := 101; n <= 110; n++ {
		if err := s.Put(ended(n, "ann")); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	readers.Wait()
	if list := names(t, s, Query{Limit: 3}); list != "j110 j109 j108" || len(got.paths) != 1 {
		t.Errorf("the history has %s, reports %v", list, got.paths)
	}
	if n, err := s.Count(t.Context(), Query{}); n != 10 || err != nil {
		t.Errorf("%d entries, %v", n, err)
	}
}

// TestDatabaseRemoved removes the directory of an open store. What Put stores then is in a
// new database, and not in a file that no other process can find.
func TestDatabaseRemoved(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Limits{})
	if err := s.Put(ended(1, "ann")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, subdir), filepath.Join(dir, "away")); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(ended(2, "ann")); err != nil {
		t.Fatal(err)
	}
	if list := names(t, open(t, dir, Limits{}), Query{Limit: 3}); list != "j2" {
		t.Errorf("the history has %s", list)
	}
	if err := os.Remove(filepath.Join(dir, "away", FileName)); err != nil { // it was whole
		t.Fatal(err)
	}
}

// TestDirectoryMoved moves the directory above the history away, as an operator may under a
// running master. Put fails and creates nothing in its place. When the directory is back, Put
// continues in the same database.
func TestDirectoryMoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "master")
	s := open(t, dir, Limits{})
	if err := s.Put(ended(1, "ann")); err != nil {
		t.Fatal(err)
	}
	move := func(from, to string) {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	move(dir, dir+".moved")
	if err := s.Put(ended(2, "ann")); err == nil || !strings.Contains(err.Error(), dir+" was removed or replaced") {
		t.Errorf("without the directory: %v", err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory was created again: %v", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(ended(2, "ann")); err == nil {
		t.Error("an entry was stored in another directory of the same name")
	}
	if list, err := os.ReadDir(dir); len(list) > 0 || err != nil {
		t.Errorf("the other directory has %v, %v", list, err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	move(dir+".moved", dir)
	if err := s.Put(ended(2, "ann")); err != nil {
		t.Fatal(err)
	}
	if list := names(t, s, Query{Limit: 3}); list != "j2 j1" {
		t.Errorf("the history has %s", list)
	}
}

// TestTwoWriters damages the database of two stores in one directory. Both continue in the
// same new one.
func TestTwoWriters(t *testing.T) {
	dir := t.TempDir()
	path := written(t, dir, 100)
	var got asides
	a, err := Open(dir, Limits{}, got.add)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := Open(dir, Limits{}, got.add)
	if err != nil {
		t.Fatal(err)
	}
	overwrite(t, path, 0, bytes.Repeat([]byte{0xa5}, 20<<12))
	for n := 101; n <= 110; n += 2 {
		if err := errors.Join(a.Put(ended(n, "ann")), b.Put(ended(n+1, "ann"))); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	c := open(t, dir, Limits{})
	for _, s := range []*Store{a, c} {
		if n, err := s.Count(t.Context(), Query{}); n != 10 || err != nil {
			t.Errorf("%d entries, %v; reports %v", n, err, got.errs)
		}
	}
}

// TestTrimFails makes the removal of old entries fail: Put stores the new ones, and Trim
// returns the error.
func TestTrimFails(t *testing.T) {
	s := open(t, t.TempDir(), Limits{Entries: 2})
	if _, err := s.db.Exec("CREATE TRIGGER no BEFORE DELETE ON runs BEGIN SELECT RAISE(FAIL, 'no room'); END"); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 4; n++ {
		if err := s.Put(ended(n, "ann")); err != nil {
			t.Error(err)
		}
	}
	if err := s.Trim(); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("Trim: %v", err)
	}
	if _, err := s.db.Exec("DROP TRIGGER no"); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(ended(5, "ann")); err != nil {
		t.Error(err)
	}
	if list := names(t, s, Query{Limit: 10}); list != "j5 j4" {
		t.Errorf("the history has %s", list)
	}
}

// TestFullDatabase limits the size of the database, as a full disk does. Put fails, keeps
// the earlier entries, and succeeds when there is room again.
func TestFullDatabase(t *testing.T) {
	dir := t.TempDir()
	var got asides
	s, err := Open(dir, Limits{}, got.add)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.db.SetMaxOpenConns(1) // the limit belongs to a connection
	if err := s.Put(ended(1, "ann")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.db.Exec("PRAGMA max_page_count = 1"); err != nil { // becomes the current number
		t.Fatal(err)
	}
	stored := 1
	for ; stored < 1000; stored++ {
		if err = s.Put(ended(stored+1, "ann")); err != nil {
			break
		}
	}
	if err == nil || isDamage(err) || errors.Is(err, ErrRefused) {
		t.Fatalf("a full disk: %v", err)
	}
	if n, err := s.Count(t.Context(), Query{}); n != stored || err != nil || len(got.paths) != 0 {
		t.Errorf("%d entries, want %d, %v; reports %v", n, stored, err, got.errs)
	}
	if _, err := s.db.Exec("PRAGMA max_page_count = 1000000"); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(ended(stored+1, "ann")); err != nil {
		t.Error(err)
	}
	if _, err := s.Get(fmt.Sprint("j", stored+1)); err != nil {
		t.Error(err)
	}
}

// TestLargeValues stores values that the memory of a connection may not hold. The library would panic.
func TestLargeValues(t *testing.T) {
	s := open(t, t.TempDir(), Limits{})
	_, err := s.db.Exec("INSERT INTO records (id, status, whole) VALUES (2, zeroblob(?), x'')", maxPacked+1)
	if !errors.Is(err, sqlite3.TOOBIG) {
		t.Errorf("a value of %d bytes: %v", maxPacked+1, err)
	}
	random := make([]byte, maxPacked+1)
	_, _ = rand.NewChaCha8([32]byte{}).Read(random) // it never fails
	if _, err := encode(wrapperspb.Bytes(random), "j1"); err == nil || !strings.Contains(err.Error(), "history of j1: ") {
		t.Errorf("a record that cannot be compressed: %v", err)
	}
}

// TestLargeRow stores a record whose two values fit one by one and not together: it is refused, and the database is
// not taken for damaged. TestLargeValues has the true limit.
func TestLargeRow(t *testing.T) {
	defer func(limit int) { maxPacked = limit }(maxPacked)
	maxPacked = 1 << 20
	s, err := Open(t.TempDir(), Limits{}, func(aside string, damage error) { t.Errorf("set aside as %s: %v", aside, damage) })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Put(ended(1, "ann")); err != nil {
		t.Fatal(err)
	}
	random := make([]byte, maxPacked/2)
	_, _ = rand.NewChaCha8([32]byte{}).Read(random) // it never fails
	j := ended(2, "bob")
	j.Job.Message = hex.EncodeToString(random) // which compresses to the half, and is in both values
	if err := s.Put(j); !errors.Is(err, ErrRefused) {
		t.Errorf("the record is stored: %v", err)
	}
	j = ended(3, "bob")
	j.Job.Name = strings.Repeat("x", maxPacked)
	if err := s.Put(j); !errors.Is(err, ErrRefused) {
		t.Errorf("the name is stored: %v", err)
	}
	if list := names(t, s, Query{Limit: 3}); list != "j1" {
		t.Errorf("the history has %s", list)
	}
}

// TestRefused stores a record that no database could hold.
func TestRefused(t *testing.T) {
	s := open(t, t.TempDir(), Limits{})
	bad := ended(1, "ann")
	bad.Job.Id = "nothing"
	if err := s.Put(bad); !errors.Is(err, ErrRefused) {
		t.Errorf("a job without a number: %v", err)
	}
	if _, err := s.Get("j1"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestDamageWhileTrimming damages the table from which Open removes old entries: Open begins
// an empty database.
func TestDamageWhileTrimming(t *testing.T) {
	dir := t.TempDir()
	path := written(t, dir, 100)
	s := open(t, dir, Limits{})
	var page, size int64
	if err := errors.Join(s.db.QueryRow("SELECT rootpage FROM sqlite_master WHERE name = 'records'").Scan(&page), s.db.QueryRow("PRAGMA page_size").Scan(&size)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	overwrite(t, path, (page-1)*size, bytes.Repeat([]byte{0xa5}, int(size)))
	var got asides
	s, err := Open(dir, Limits{Entries: 10}, got.add)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if n, err := s.Count(t.Context(), Query{}); n != 0 || err != nil || len(got.paths) != 1 {
		t.Errorf("%d entries, %v, reports %v", n, err, got.errs)
	}
}

// TestOpenAtOnce opens a new history several times at once.
func TestOpenAtOnce(t *testing.T) {
	for range 5 {
		dir := t.TempDir()
		var all sync.WaitGroup
		for n := range 6 {
			all.Go(func() {
				s, err := Open(dir, Limits{}, func(string, error) { t.Error("a new database is damaged") })
				if err != nil {
					t.Error(err)
					return
				}
				if err := errors.Join(s.Put(ended(n+1, "ann")), s.Close()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n, err := open(t, dir, Limits{}).Count(t.Context(), Query{}); n != 6 || err != nil {
			t.Errorf("%d entries, %v", n, err)
		}
	}
}

// TestOpenWhileCreated opens a history that had no database when Open began, and of which
// another Store makes the database before Open continues. Its log is not a lost one.
func TestOpenWhileCreated(t *testing.T) {
	made, dir := t.TempDir(), t.TempDir()
	first := open(t, made, Limits{})
	if err := first.Put(ended(1, "ann")); err != nil {
		t.Fatal(err)
	}
	inside := filepath.Join(dir, subdir)
	if err := os.Mkdir(inside, 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := durable.OS().OpenFile(inside, os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Lock(true); err != nil {
		t.Fatal(err)
	}
	opened := make(chan error, 1)
	go func() {
		s, err := Open(dir, Limits{}, func(string, error) { t.Error("a new database is damaged") })
		if err == nil {
			var n int
			if n, err = s.Count(t.Context(), Query{}); n != 1 {
				t.Errorf("%d entries, %v", n, err)
			}
			err = errors.Join(err, s.Close())
		}
		opened <- err
	}()
	time.Sleep(50 * time.Millisecond) // Open waits for the lock by now, or does so later
	for _, name := range []string{FileName + "-wal", FileName} {
		b, err := os.ReadFile(filepath.Join(made, subdir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(inside, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Error(err)
	}
}

// TestLock locks a history twice.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	first, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(dir); !errors.Is(err, ErrInUse) {
		t.Errorf("the second lock: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

// TestSnapshotIsPrivate copies a history: only its owner can read the copy.
func TestSnapshotIsPrivate(t *testing.T) {
	dir, to := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	written(t, dir, 3)
	for range 2 {
		if err := Snapshot(dir, to); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(to); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the copy: %v, %v", info.Mode(), err)
		}
		if err := os.Remove(to); err != nil {
			t.Fatal(err)
		}
		open(t, dir, Limits{}) // then the copy is made beside a writer
	}
	if err := os.WriteFile(to, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Snapshot(dir, to); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a copy over a file: %v", err)
	}
}
