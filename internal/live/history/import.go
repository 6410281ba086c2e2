package history

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/slotwise/slotwise/internal/base/durable"
)

// Earlier versions kept one file for each job in DIR/history, and for each chain in
// DIR/chains. Open imports them: it stores a batch of files in one transaction, and removes
// the files once the transaction is durable. A crash may come between the two steps. The next
// import then skips the entries that the database has and removes their files. Open keeps
// damaged files.

// suffix ends the name of a file: j, the number in ten digits, and suffix.
const suffix = ".history"

// IsFile reports whether a name is the name of a file of an earlier version.
func IsFile(name string) bool {
	digits, ok := strings.CutSuffix(name, suffix)
	n, err := strconv.ParseInt(strings.TrimPrefix(digits, "j"), 10, 32)
	return ok && err == nil && name == fmt.Sprintf("j%010d%s", n, suffix)
}

// oldFiles returns the paths of the files of an earlier version below a master's directory.
func oldFiles(dir string) (paths []string, err error) {
	for _, sub := range []string{subdir, oldChains} {
		names, err := durable.OS().ReadDir(filepath.Join(dir, sub))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, n := range names {
			if IsFile(n) {
				paths = append(paths, filepath.Join(dir, sub, n))
			}
		}
	}
	return paths, nil
}

// importBatch is the number of files that one transaction imports.
const importBatch = 200

// importAll imports the files of an earlier version and removes them if remove is set.
func (s *Store) importAll(dir string, remove bool) error {
	paths, err := oldFiles(dir)
	if err != nil {
		return err
	}
	for len(paths) > 0 {
		n := min(importBatch, len(paths))
		if err := s.importFiles(paths[:n], remove); err != nil {
			return err
		}
		paths = paths[n:]
	}
	return nil
}

// importFiles imports one batch of files.
func (s *Store) importFiles(paths []string, remove bool) error {
	var list []*entry
	var done []string
	for _, p := range paths {
		e, err := readOld(p)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			if s.broken == nil {
				s.broken = map[string]int{}
			}
			s.broken[filepath.Dir(p)]++
			continue
		}
		list, done = append(list, e), append(done, p)
	}
	if err := s.put(list, "IGNORE"); err != nil || !remove {
		return err
	}
	for _, p := range done {
		if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// readOld reads a file of an earlier version.
func readOld(path string) (*entry, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h, err := readJob(f)
	if err != nil {
		return nil, err
	}
	return newEntry(h)
}

// Broken describes the files of an earlier version that cannot be read; "" if there are
// none. They stay where they are.
func (s *Store) Broken() string {
	var parts []string
	for dir, n := range s.broken {
		parts = append(parts, fmt.Sprintf("%d files in %s", n, dir))
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, " and ") + " are damaged and were not imported"
}

// OpenRead opens a history for reading and changes nothing. dir is the directory of a master,
// which may be running, or its history directory. Files of an earlier version are imported
// into a temporary database, which Close removes.
func OpenRead(dir string) (s *Store, err error) {
	if filepath.Base(filepath.Clean(dir)) == subdir && !isDir(filepath.Join(dir, subdir)) {
		dir = filepath.Dir(filepath.Clean(dir))
	}
	old, err := oldFiles(dir)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, subdir, FileName)
	_, err = os.Stat(path)
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case missing && len(old) == 0:
		return nil, fmt.Errorf("%s has no history: name the directory of a master (slotwise master --dir)", dir)
	case err != nil && !missing:
		return nil, err
	case len(old) > 0:
		return openOld(dir, !missing)
	}
	return openRead(path)
}

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// openRead opens a database for reading. A database without a write-ahead log has no writer.
// It is opened as a file that does not change, so that SQLite creates no files beside it.
func openRead(path string) (*Store, error) {
	s := &Store{path: path}
	mode := "immutable"
	if hasLog(path) {
		mode = "ro"
	}
	if err := s.open(mode); err != nil {
		return nil, err
	}
	v, err := s.checkVersion()
	s.parted = v >= 2
	if err == nil {
		err = s.count()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// openOld opens a temporary database with the files of an earlier version, and, if copyDB is
// set, the entries of the database beside them.
func openOld(dir string, copyDB bool) (*Store, error) {
	temp, err := os.MkdirTemp("", "slotwise-history-")
	if err != nil {
		return nil, err
	}
	s, err := fillTemp(temp, dir, copyDB)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(temp))
	}
	s.temp = temp
	return s, nil
}

func fillTemp(temp, dir string, copyDB bool) (*Store, error) {
	inside := filepath.Join(temp, subdir)
	if err := os.Mkdir(inside, 0o700); err != nil {
		return nil, err
	}
	if copyDB {
		if err := Snapshot(dir, filepath.Join(inside, FileName)); err != nil {
			return nil, err
		}
	}
	s, err := Open(temp, Limits{Entries: 1 << 40, Bytes: 1 << 60, Logs: 1 << 60}, nil)
	if err != nil {
		return nil, err
	}
	if err := s.importAll(dir, false); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Snapshot copies the state of the database below a master's directory at one moment to a
// new file, and verifies the copy. The master may be running. Only the owner can read the
// copy. The error wraps fs.ErrNotExist if there is no database.
func Snapshot(dir, to string) error {
	path := filepath.Join(dir, subdir, FileName)
	for {
		quiet, err := copyDatabase(path, to)
		if err != nil {
			return err
		}
		// A database without a write-ahead log was read without locks. If there is a log by
		// now, a writer may have changed the database meanwhile.
		if !quiet || !hasLog(path) {
			return verify(to)
		}
		if err := os.Remove(to); err != nil {
			return err
		}
	}
}

// copyDatabase copies a database to a new file. quiet says that it was opened as a file that
// does not change.
func copyDatabase(path, to string) (quiet bool, err error) {
	if _, err := os.Stat(path); err != nil {
		return false, err
	}
	quiet = !hasLog(path)
	s, err := openRead(path)
	if err != nil {
		return quiet, err
	}
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) // SQLite takes an empty file
	if err != nil {
		return quiet, errors.Join(err, s.Close())
	}
	if err = f.Close(); err == nil {
		_, err = s.db.Exec("VACUUM INTO ?", to)
	}
	return quiet, errors.Join(s.named(err), s.Close())
}

// hasLog reports whether a database has a write-ahead log: a writer has it open, or was
// killed.
func hasLog(path string) bool {
	_, err := os.Stat(path + "-wal")
	return !errors.Is(err, fs.ErrNotExist)
}

// verify checks the structure of a database and the checksum of each value.
func verify(path string) error {
	s, err := openRead(path)
	if err != nil {
		return err
	}
	defer s.Close()
	var result string
	if err := s.db.QueryRow("PRAGMA integrity_check(1)").Scan(&result); err != nil {
		return err
	}
	if result != "ok" {
		return fmt.Errorf("%w: %s", errDamaged, result)
	}
	// integrity_check verifies the structure of the pages. The values have checksums, which
	// decompressing them verifies.
	query := "SELECT id, status, whole FROM records"
	// A database of the first version that is only read has no such table.
	if s.parted {
		query += " UNION ALL SELECT id, tasks, NULL FROM parts"
	}
	rows, err := s.db.Query(query)
	if err != nil {
		return err
	}
	defer rows.Close()
	var buffer []byte
	for rows.Next() {
		var id int64
		var values [2][]byte
		if err := rows.Scan(&id, &values[0], &values[1]); err != nil {
			return err
		}
		for _, v := range values {
			if buffer, err = decoder().DecodeAll(v, buffer[:0]); err != nil {
				return fmt.Errorf("history of %s: %w: %w", formatKey(id), errDamaged, err)
			}
		}
	}
	return rows.Err()
}
