// Package history keeps what became of jobs that have ended, for lists, reports
// and questions, over restarts.
//
// Each job has a file of its own (docs/formats/history.md), written aside,
// flushed and renamed, so a job is there whole or not at all. The oldest jobs go
// when there are too many. A damaged file is reported by whoever reads it and
// hides no other job.
package history

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/slotwise/slotwise/internal/job"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// Limits bound a store. What is beyond is removed, oldest jobs first; one job
// always stays.
type Limits struct {
	Jobs  int   // default 10,000
	Bytes int64 // of all files; default 1 GiB
}

// Store is a directory of ended jobs. It is safe for concurrent use by one
// process.
type Store struct {
	dir    string
	limits Limits
	mu     struct {
		sync.Mutex
		files []file // by job
		bytes int64
	}
}

// file is a job's.
type file struct {
	id   job.ID
	size int64
}

// The names of files: j followed by the job's number, in ten digits so that a
// listing of the directory is in order.
const (
	suffix     = ".history"
	tempSuffix = ".new"
)

func name(id job.ID) string { return fmt.Sprintf("j%010d%s", id, suffix) }

func parseName(s string) (job.ID, bool) {
	digits, ok := strings.CutSuffix(s, suffix)
	n, err := strconv.ParseInt(strings.TrimPrefix(digits, "j"), 10, 32)
	return job.ID(n), ok && err == nil && s == name(job.ID(n))
}

// Open opens the store in a directory, which is made if there is none. What a
// crash left half written is removed.
func Open(dir string, limits Limits) (*Store, error) {
	limits.Jobs = cmp.Or(limits.Jobs, 10_000)
	limits.Bytes = cmp.Or(limits.Bytes, 1<<30)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	s := &Store{dir: dir, limits: limits}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), tempSuffix) {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return nil, err
			}
		}
		id, ok := parseName(e.Name())
		info, err := e.Info()
		if !ok || err != nil {
			continue
		}
		s.mu.files = append(s.mu.files, file{id, info.Size()})
		s.mu.bytes += info.Size()
	}
	slices.SortFunc(s.mu.files, byID)
	return s, s.trimLocked()
}

func byID(a, b file) int { return cmp.Compare(a.id, b.id) }

// Put enters a job, in place of an earlier entry of the same. It is durable when
// Put returns.
func (s *Store) Put(j *slotwisev1.HistoryJob) error {
	id, err := job.ParseID(j.GetJob().GetId())
	if err != nil {
		return err
	}
	b, err := encode(j)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := writeDurably(filepath.Join(s.dir, name(id)), b); err != nil {
		return fmt.Errorf("history of %s: %w", id, err)
	}
	at, found := slices.BinarySearchFunc(s.mu.files, file{id: id}, byID)
	if found {
		s.mu.bytes -= s.mu.files[at].size
		s.mu.files[at].size = int64(len(b))
	} else {
		s.mu.files = slices.Insert(s.mu.files, at, file{id, int64(len(b))})
	}
	s.mu.bytes += int64(len(b))
	return s.trimLocked()
}

// writeDurably makes a file that has the content even after a crash.
func writeDurably(path string, b []byte) error {
	f, err := os.OpenFile(path+tempSuffix, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// trimLocked removes the oldest jobs beyond the limits.
func (s *Store) trimLocked() error {
	for len(s.mu.files) > 1 && (len(s.mu.files) > s.limits.Jobs || s.mu.bytes > s.limits.Bytes) {
		old := s.mu.files[0]
		if err := os.Remove(filepath.Join(s.dir, name(old.id))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		s.mu.files = slices.Delete(s.mu.files, 0, 1)
		s.mu.bytes -= old.size
	}
	return nil
}

// Get returns a job with its tasks. The error wraps fs.ErrNotExist if it is not
// there.
func (s *Store) Get(id job.ID) (*slotwisev1.HistoryJob, error) {
	b, err := os.ReadFile(filepath.Join(s.dir, name(id)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("job %s is not in the history: %w", id, fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	j, err := decode(b)
	if err != nil {
		return nil, fmt.Errorf("history of %s: %w", id, err)
	}
	return j, nil
}

// Query says which jobs List returns.
type Query struct {
	User   string // only this user's; "" is everybody's
	Before job.ID // only jobs before this one; 0 is no limit
	Limit  int    // at most so many
}

// List returns jobs, newest first, without their tasks. Damaged files are left
// out and reported beside the others.
func (s *Store) List(q Query) ([]*slotwisev1.HistoryJob, error) {
	s.mu.Lock()
	files := slices.Clone(s.mu.files)
	s.mu.Unlock()
	var out []*slotwisev1.HistoryJob
	var errs []error
	for _, f := range slices.Backward(files) {
		if len(out) >= q.Limit {
			break
		}
		if q.Before != 0 && f.id >= q.Before {
			continue
		}
		j, err := s.summary(f.id)
		switch {
		case errors.Is(err, fs.ErrNotExist): // trimmed meanwhile
		case err != nil:
			errs = append(errs, fmt.Errorf("history of %s: %w", f.id, err))
		case q.User == "" || j.GetUser() == q.User:
			out = append(out, &slotwisev1.HistoryJob{Job: j})
		}
	}
	return out, errors.Join(errs...)
}

// summary reads the first part of a job's file.
func (s *Store) summary(id job.ID) (*slotwisev1.JobStatus, error) {
	f, err := os.Open(filepath.Join(s.dir, name(id)))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readSummary(f)
}
