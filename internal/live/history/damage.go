package history

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/slotwise/slotwise/internal/base/durable"
)

// A damaged database does not end a master. Open and Put rename the database and begin an
// empty one:
//
//	history.db      → history.db.damaged-20260102T150405Z
//	history.db-wal  → history.db.damaged-20260102T150405Z-wal
//	history.db-shm    is removed: it is an index of the log
//
// sqlite3 opens the two renamed files like any database, and can recover entries. A crash
// between the steps loses nothing: the database is renamed before its log, and Open sets a
// log without a database aside, too. At most maxDamaged databases are kept. Beyond them the
// smallest go, because each one after the first began empty.
//
// Open reads the header, the schema and one index. Damage elsewhere is found when a
// transaction meets it, which is why Put sets databases aside, too. Reading never does.

// Report is called when a damaged database was set aside: with its new path and the error
// by which the damage was found. If the database was removed or replaced while the Store had it
// open, aside is "". A Report must not call the Store.
type Report func(aside string, damage error)

const (
	// damagedInfix separates the name of a database from the time at which it was set aside.
	damagedInfix = ".damaged-"
	// maxDamaged is the number of damaged databases that are kept.
	maxDamaged = 4
)

// isDamage reports whether an error means that the database file is damaged, or is no
// database. A length beyond maxPacked, which Put never stores, is damage. A full or failing disk is not.
func isDamage(err error) bool {
	return errors.Is(err, sqlite3.CORRUPT) || errors.Is(err, sqlite3.NOTADB) || errors.Is(err, sqlite3.TOOBIG)
}

// setAside renames the damaged database and opens an empty one. The caller holds write, or s
// has no other user.
func (s *Store) setAside(damage error) error {
	s.swap.Lock()
	defer s.swap.Unlock()
	// If the steps below fail, the next Put finds no open file and opens the database again.
	s.write.file = nil
	// Closing may fail because of the damage. The log's pages need not reach this database.
	_ = s.closeDB()
	var aside string
	err := s.whileLocked(func() (err error) {
		if aside, err = s.freeName(); err != nil {
			return err
		}
		if err := os.Rename(s.path, aside); err != nil {
			return err
		}
		return s.moveLog(aside)
	})
	if err == nil {
		err = s.openFile()
	}
	if err != nil {
		return fmt.Errorf("%s is damaged (%w) and cannot be replaced: %w", s.path, damage, err)
	}
	// The history works again. Old copies that cannot be removed only take space.
	if err := s.dropDamaged(); err != nil {
		damage = fmt.Errorf("%w (and older damaged databases cannot be removed: %w)", damage, err)
	}
	s.report(aside, damage)
	return nil
}

// setLogAside renames a write-ahead log that has no database. It does nothing if there is
// no log.
func (s *Store) setLogAside() error {
	if info, err := os.Lstat(s.path + "-wal"); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil
	}
	aside, err := s.freeName()
	if err == nil {
		err = s.moveLog(aside)
	}
	if err == nil {
		s.report(aside+"-wal", errors.New("the write-ahead log had no database"))
	}
	return err
}

// moveLog renames the write-ahead log, which may not exist, to the name that belongs to the
// database aside.
func (s *Store) moveLog(aside string) error {
	if err := os.Rename(s.path+"-wal", aside+"-wal"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Remove(s.path + "-shm"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return durable.OS().SyncDir(filepath.Dir(s.path))
}

// freeName returns a path for a damaged database at which there is no file.
func (s *Store) freeName() (string, error) {
	first := s.path + damagedInfix + time.Now().UTC().Format("20060102T150405Z")
	// Both names, because the log of an earlier copy may have stayed without its database.
	for n, name := 1, first; n < 1000; n++ {
		_, err := os.Lstat(name)
		_, err2 := os.Lstat(name + "-wal")
		if errors.Is(err, fs.ErrNotExist) && errors.Is(err2, fs.ErrNotExist) {
			return name, nil
		}
		name = fmt.Sprintf("%s.%d", first, n+1)
	}
	return "", fmt.Errorf("%s: a file of that name exists", first)
}

// dropDamaged removes the smallest damaged databases beyond maxDamaged.
func (s *Store) dropDamaged() error {
	dir := filepath.Dir(s.path)
	names, err := durable.OS().ReadDir(dir)
	if err != nil {
		return err
	}
	sizes := map[string]int64{}
	for _, name := range names {
		if !strings.HasPrefix(name, filepath.Base(s.path)+damagedInfix) {
			continue
		}
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		// A database and its log are one copy: the log alone may hold the latest entries.
		sizes[strings.TrimSuffix(name, "-wal")] += info.Size()
	}
	var list []string
	//house:sorted the list is sorted below
	for name := range sizes {
		list = append(list, name)
	}
	slices.SortFunc(list, func(a, b string) int {
		if sizes[a] != sizes[b] {
			return int(min(max(sizes[a]-sizes[b], -1), 1))
		}
		return strings.Compare(b, a) // of two equal ones the later one goes first
	})
	for len(list) > maxDamaged {
		// The log first. A crash in between leaves a database, which sqlite3 opens; a log without
		// its database cannot be opened.
		for _, name := range []string{list[0] + "-wal", list[0]} {
			if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		list = list[1:]
	}
	return nil
}

// reopenIfGone opens the database again if the path does not lead to the open file: it was
// removed, or another process has set it aside. Entries that Put wrote to the open file would
// be lost. If the directory above was removed or replaced, reopenIfGone fails and creates
// nothing: the directory may return, and entries stored beside it would be lost. The caller
// holds write.
func (s *Store) reopenIfGone() error {
	now, err := os.Lstat(s.path)
	// Compared by the file and not by the path: after a removal another process may have made a new
	// database under the same name.
	if err == nil && s.write.file != nil && os.SameFile(now, s.write.file) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	inside := filepath.Dir(s.path)
	above := filepath.Dir(inside)
	if now, err := os.Stat(above); err != nil || !os.SameFile(now, s.above) {
		return fmt.Errorf("the history's directory %s was removed or replaced while this process was writing to it", above)
	}
	s.swap.Lock()
	defer s.swap.Unlock()
	open := s.write.file != nil // else setAside has closed it, and reported that
	s.write.file = nil
	_ = s.closeDB() // its file is gone or belongs to the damaged ones
	if err := os.Mkdir(inside, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := durable.OS().SyncDir(above); err != nil {
		return err
	}
	if err := s.openFile(); err != nil {
		return err
	}
	if open {
		s.report("", fmt.Errorf("%s was removed or replaced while this process was writing to it", s.path))
	}
	return nil
}
