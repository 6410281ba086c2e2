package history

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// These tests compose the files that a loss of power may leave. The tests' file system that forgets
// unsynced writes would replace the library's own access to files, which decides when a file is synced
// and so must be tested, too. So the tests take copies of the files between two syncs, and let each
// sector that was written in between be old, new or garbage.

// sector is the number of bytes that a disk writes as one.
const sector = 512

// mix returns after with some sectors of before or of garbage in its place, where the two
// differ. The result may be cut anywhere behind the end of before.
func mix(rng *rand.Rand, before, after []byte) []byte {
	out := bytes.Clone(after)
	for at := 0; at < len(out); at += sector {
		end := min(at+sector, len(out))
		var old []byte
		if at < len(before) {
			old = before[at:min(end, len(before))]
		}
		if bytes.Equal(old, out[at:end]) {
			continue
		}
		switch rng.IntN(4) {
		case 0:
			clear(out[at:end])
			copy(out[at:end], old)
		case 1:
			from := at
			if len(old) < end-at {
				from += len(old) // synced bytes of a sector that was written later survive
			}
			for i := from; i < end; i++ {
				out[i] = byte(rng.Uint32())
			}
		}
	}
	if len(out) > len(before) {
		out = out[:len(before)+rng.IntN(len(out)-len(before)+1)]
	}
	return out
}

// files are the contents of a database and of its write-ahead log.
type files struct{ db, log []byte }

// read copies the files of an open store.
func read(t *testing.T, s *Store) (f files) {
	t.Helper()
	var err error
	if f.db, err = os.ReadFile(s.path); err != nil {
		t.Fatal(err)
	}
	if f.log, err = os.ReadFile(s.path + "-wal"); err != nil {
		t.Fatal(err)
	}
	return f
}

// checkFiles opens a history with the files and verifies that it has the jobs j1 to jn, and
// possibly later ones, whole, and that it takes further ones.
func checkFiles(t *testing.T, f files, n int) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, subdir, FileName)
	for _, err := range []error{os.Mkdir(filepath.Dir(path), 0o700), os.WriteFile(path, f.db, 0o600), os.WriteFile(path+"-wal", f.log, 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var got asides
	s, err := Open(dir, Limits{}, got.add)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	found, err := s.Count(t.Context(), Query{})
	if err != nil || found < n || len(got.paths) > 0 {
		t.Fatalf("%d entries, want at least %d, %v; reports %v", found, n, err, got.errs)
	}
	for i := 1; i <= found; i++ {
		if _, err := s.Get(fmt.Sprint("j", i)); err != nil {
			t.Error(err)
		}
	}
	if err := s.Put(ended(found+1, "ann")); err != nil {
		t.Error(err)
	}
}

// TestPowerCut cuts the power while entries are written, and while the log is copied to the
// database.
func TestPowerCut(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	s := open(t, t.TempDir(), Limits{})
	states := []files{read(t, s)}
	const entries = 24
	for n := 1; n <= entries; n++ {
		j := ended(n, fmt.Sprint("user", rng.Uint64()))
		j.Job.Message = fmt.Sprint(rng.Perm(1 + rng.IntN(2000))) // one page or several
		if err := s.Put(j); err != nil {
			t.Fatal(err)
		}
		states = append(states, read(t, s))
	}
	if len(states[entries].db) != len(states[0].db) {
		t.Fatal("the log was copied to the database before the test wants it")
	}
	for range 40 {
		synced := rng.IntN(entries)
		later := synced + 1 + rng.IntN(min(3, entries-synced))
		checkFiles(t, files{states[0].db, mix(rng, states[synced].log, states[later].log)}, synced)
	}
	if _, err := s.db.Exec("PRAGMA wal_checkpoint(FULL)"); err != nil {
		t.Fatal(err)
	}
	after := read(t, s)
	if bytes.Equal(after.db, states[entries].db) {
		t.Fatal("the log was not copied to the database")
	}
	for range 20 {
		checkFiles(t, files{mix(rng, states[entries].db, after.db), states[entries].log}, entries)
	}
}

// TestSyncs verifies that each connection syncs the log at the end of a transaction.
func TestSyncs(t *testing.T) {
	s := open(t, t.TempDir(), Limits{})
	for range 4 { // all connections of the pool
		c, err := s.db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var mode string
		var level int
		if err := c.QueryRowContext(t.Context(), "PRAGMA journal_mode").Scan(&mode); err != nil {
			t.Fatal(err)
		}
		if err := c.QueryRowContext(t.Context(), "PRAGMA synchronous").Scan(&level); err != nil {
			t.Fatal(err)
		}
		if mode != "wal" || level != 2 {
			t.Errorf("journal mode %s, synchronous %d, want wal and 2 (FULL)", mode, level)
		}
	}
}
