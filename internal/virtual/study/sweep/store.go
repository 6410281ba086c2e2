package sweep

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/slotwise/slotwise/internal/base/durable"
)

// Store keeps results of cells in the directory of a study, one file each, under the
// digest of all inputs. A file is complete or absent, also after a crash. Several processes
// may write into one directory.
type Store struct {
	dir string // of the study

	mu       sync.Mutex
	complete map[string]bool // keys whose files were found complete
	damaged  map[string]bool // keys whose files cannot be read
}

// The names in the directory of a study.
const (
	cellsDir   = "cells"
	resultName = "study.json"
)

// OpenStore opens the directory of a study and creates it. A directory with other
// content than a study's is an error.
func OpenStore(dir string) (*Store, error) {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	// The directory of cells marks a study's directory: report files are replaced in it without a question.
	case len(entries) > 0 && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == cellsDir }):
		return nil, fmt.Errorf("%s: is not empty and holds no study; name another directory", dir)
	}
	// The directory of cells is made first of all: a study that is interrupted before its first cell is a
	// study's directory from then on.
	return StoreAt(dir), durable.MkdirAll(durable.OS(), filepath.Join(dir, cellsDir), 0o777)
}

// StoreAt returns the store of a directory that may not exist, for reading.
func StoreAt(dir string) *Store {
	return &Store{dir: dir, complete: make(map[string]bool), damaged: make(map[string]bool)}
}

// Has reports whether the whole result of a key is there. It reads the file once and checks
// its checksum.
func (s *Store) Has(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.complete[key] {
		return true
	}
	var whole json.RawMessage
	found, err := s.load(key, &whole)
	s.damaged[key] = err != nil
	s.complete[key] = found && err == nil
	return s.complete[key]
}

// Damaged reports whether the file of a key was there and could not be read when Has was
// last called.
func (s *Store) Damaged(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.damaged[key]
}

func (s *Store) path(key string) string { return filepath.Join(s.dir, cellsDir, key+".json.gz") }

// saves numbers the temporary files of this process.
var saves atomic.Int64

// save writes a result. Two studies that run at the same time may write the same one: the
// temporary files differ, and the results are equal.
func (s *Store) save(key string, v any) error {
	path := s.path(key)
	// The number of the process, because another process may save the same key, and a counter for the
	// goroutines of this one.
	temp := fmt.Sprintf("%s.%d-%d%s", path, os.Getpid(), saves.Add(1), durable.TempSuffix)
	return durable.Publish(durable.OS(), temp, path, 0o666, func(w io.Writer) error {
		z := gzip.NewWriter(w)
		return errors.Join(json.NewEncoder(z).Encode(v), z.Close())
	})
}

// load reads a result. It reports false if there is none.
func (s *Store) load(key string, v any) (bool, error) {
	file, err := os.Open(s.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err == nil {
		err = json.NewDecoder(z).Decode(v)
	}
	if err == nil {
		// The decoder stops after the value and drops the error of that read. Only a read up to the end
		// returns the error of a wrong checksum.
		_, err = io.Copy(io.Discard, z)
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", s.path(key), err)
	}
	return true, nil
}
