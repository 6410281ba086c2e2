package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
)

// The values of plan.storage.
const (
	localStorage = "local"
	s3Storage    = "s3"
	hdfsStorage  = "hdfs"
)

// store is the shared storage of one run. It holds the directories in (the input) and
// out (the outputs). Tests read it without the product's code.
type store interface {
	// uri returns the URI of a directory or file below the store's directory.
	uri(name string) string
	// env returns the variables that lead the run's processes to the storage.
	env() []string
	// names returns the sorted names in a directory; fs.ErrNotExist if it is absent.
	names(dir string) ([]string, error)
	// read returns the content of a file.
	read(file string) ([]byte, error)
	// leftovers returns files that a job has left behind outside its output.
	leftovers() ([]string, error)
	// servers returns the addresses of the storage's servers, all on loopback; none of local files.
	servers() ([]string, error)
	// target is the lock that a fault of the storage holds while it lasts.
	target() *sync.Mutex
	close() error
}

// openStore opens the storage of a run in a directory that no other run uses, and copies
// the input into it. The caller must close a store that comes with an error, too.
func (s *settings) openStore(ctx context.Context, p plan, dir string, in *input) (store, error) {
	switch p.storage {
	case s3Storage:
		if opened, err := newS3Store(ctx, s.keeper, filepath.Join(dir, "s3"), in, p.seed); opened != nil {
			return opened, err
		} else {
			return nil, err
		}
	case hdfsStorage:
		if opened, err := s.hdfs.take(p.name, in); opened != nil {
			return opened, err
		} else {
			return nil, err
		}
	}
	d := &directory{dir: dir, in: in.dir}
	return d, os.MkdirAll(filepath.Join(dir, "out"), 0o777)
}

// directory is a store in a directory of this machine.
type directory struct {
	sync.Mutex
	dir string
	in  string // the input is elsewhere, because all runs share it
}

func (d *directory) uri(name string) string {
	if name == "in" {
		return d.in
	}
	return filepath.Join(d.dir, name)
}

func (d *directory) env() []string { return nil }

func (d *directory) names(dir string) ([]string, error) { return namesIn(filepath.Join(d.dir, dir)) }

// namesIn returns the sorted names in a directory of this machine.
func namesIn(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (d *directory) read(file string) ([]byte, error) {
	return os.ReadFile(filepath.Join(d.dir, file))
}

func (d *directory) leftovers() ([]string, error) { return hidden(d) }

func (d *directory) servers() ([]string, error) { return nil, nil }

func (d *directory) target() *sync.Mutex { return &d.Mutex }

func (d *directory) close() error { return nil }

// hidden returns the names in out that begin with a dot: staged outputs.
func hidden(s store) (left []string, err error) {
	names, err := s.names("out")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, name := range names {
		if strings.HasPrefix(name, ".") {
			left = append(left, path.Join("out", name))
		}
	}
	return left, err
}

// exists reports whether a directory of the store exists.
func exists(s store, dir string) (bool, error) {
	_, err := s.names(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot list %s: %w", s.uri(dir), err)
	}
	return true, nil
}
