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

	"github.com/slotwise/slotwise/internal/durable"
)

// Store keeps results of cells in the directory of a study, one file each, under the
// digest of all inputs. A file is complete or absent, also after a crash.
type Store struct {
	dir string // of the study
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
	case len(entries) > 0 && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == cellsDir }):
		return nil, fmt.Errorf("%s: is not empty and holds no study; name another directory", dir)
	}
	return &Store{dir}, durable.MkdirAll(durable.OS(), filepath.Join(dir, cellsDir), 0o777)
}

// StoreAt returns the store of a directory that may not exist, for reading.
func StoreAt(dir string) *Store { return &Store{dir} }

// Has reports whether the result of a key is there.
func (s *Store) Has(key string) bool {
	_, err := os.Stat(s.path(key))
	return err == nil
}

func (s *Store) path(key string) string { return filepath.Join(s.dir, cellsDir, key+".json.gz") }

// save writes a result.
func (s *Store) save(key string, v any) error {
	return durable.WriteFile(durable.OS(), s.path(key), 0o666, func(w io.Writer) error {
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
	if err != nil {
		return false, fmt.Errorf("%s: %w; remove the file to run its cell again", s.path(key), err)
	}
	return true, nil
}
