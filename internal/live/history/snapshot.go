package history

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

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
	// integrity_check verifies the structure of the pages. The values have checksums, which
	// decompressing them verifies.
	var result string
	if err := s.db.QueryRow("PRAGMA integrity_check(1)").Scan(&result); err != nil {
		return err
	}
	if result != "ok" {
		return fmt.Errorf("%w: %s", errDamaged, result)
	}
	rows, err := s.db.Query("SELECT id, status, whole FROM records UNION ALL SELECT id, tasks, NULL FROM parts")
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
