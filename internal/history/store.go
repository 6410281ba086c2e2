// Package history keeps a record of every ended job, for lists, reports and
// explanations, across restarts of the master.
//
// Each job has one file (docs/formats/history.md). The file is written under a
// temporary name, flushed and renamed, so after a crash the job is present
// whole or not at all. Beyond the limits the oldest jobs are removed. A damaged
// file is reported to the caller that reads it and hides no other job.
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

	"github.com/slotwise/slotwise/internal/durable"
	"github.com/slotwise/slotwise/internal/job"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// Limits bound a store. Put removes the oldest jobs beyond them, but always keeps
// the newest job.
type Limits struct {
	Jobs  int   // 0 means 10,000
	Bytes int64 // of all files together; 0 means 1 GiB
}

// Store is a directory of ended jobs. Several goroutines of one process may use it
// at the same time.
type Store struct {
	disk   durable.FS
	dir    string
	prefix string // of the names of chains, before the number; "" for jobs
	limits Limits
	mu     struct {
		sync.Mutex
		files []file // sorted by job
		bytes int64  // of all files
	}
}

// file is the file of one job.
type file struct {
	id   job.ID
	size int64
}

// A file is named j, the job's number in ten digits, and suffix. A listing of the
// directory is therefore in the order of jobs.
const suffix = ".history"

func name(id job.ID) string { return fmt.Sprintf("j%010d%s", id, suffix) }

// parseName returns the job of a file that name has named.
func parseName(s string) (job.ID, bool) {
	digits, ok := strings.CutSuffix(s, suffix)
	n, err := strconv.ParseInt(strings.TrimPrefix(digits, "j"), 10, 32)
	return job.ID(n), ok && err == nil && s == name(job.ID(n))
}

// IsFile reports whether a name is the name of a job's file.
func IsFile(name string) bool {
	_, ok := parseName(name)
	return ok
}

// Open opens the store in dir and creates the directory if necessary. It removes
// the incomplete files that a crash has left.
func Open(dir string, limits Limits) (*Store, error) { return openOn(durable.OS(), dir, limits) }

// OpenChains opens a store of ended chains, which has the same form. The number of
// chain-12 is 12.
func OpenChains(dir string, limits Limits) (*Store, error) {
	s, err := openOn(durable.OS(), dir, limits)
	if s != nil {
		s.prefix = "chain-"
	}
	return s, err
}

// number returns the number in the name of a job or chain.
func (s *Store) number(name string) (job.ID, error) {
	if s.prefix == "" {
		return job.ParseID(name)
	}
	digits, ok := strings.CutPrefix(name, s.prefix)
	n, err := strconv.ParseInt(digits, 10, 32)
	if !ok || err != nil || n <= 0 {
		return 0, fmt.Errorf("%q is not the name of a chain", name)
	}
	return job.ID(n), nil
}

// openOn opens the store on a disk; tests use one that fails and loses data.
func openOn(disk durable.FS, dir string, limits Limits) (*Store, error) {
	limits.Jobs = cmp.Or(limits.Jobs, 10_000)
	limits.Bytes = cmp.Or(limits.Bytes, 1<<30)
	if err := durable.MkdirAll(disk, dir, 0o700); err != nil {
		return nil, err
	}
	s := &Store{disk: disk, dir: dir, limits: limits}
	names, err := disk.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		if strings.HasSuffix(n, durable.TempSuffix) {
			if err := disk.Remove(filepath.Join(dir, n)); err != nil {
				return nil, err
			}
		}
		id, ok := parseName(n)
		if !ok {
			continue
		}
		size, err := s.size(id)
		if err != nil {
			return nil, err
		}
		s.mu.files = append(s.mu.files, file{id, size})
		s.mu.bytes += size
	}
	slices.SortFunc(s.mu.files, byID)
	return s, s.trimLocked()
}

func byID(a, b file) int { return cmp.Compare(a.id, b.id) }

func (s *Store) path(id job.ID) string { return filepath.Join(s.dir, name(id)) }

func (s *Store) size(id job.ID) (int64, error) {
	f, err := s.disk.OpenFile(s.path(id), os.O_RDONLY, 0)
	if err != nil {
		return 0, err
	}
	size, err := f.Size()
	return size, errors.Join(err, f.Close())
}

// Put stores a job, replacing an earlier record of the same job. The record is
// durable when Put returns nil. After an error the earlier record remains.
func (s *Store) Put(j *slotwisev1.HistoryJob) error {
	id, err := s.number(j.GetJob().GetId())
	if err != nil {
		return err
	}
	b, err := encode(j)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := durable.WriteFile(s.disk, s.path(id), 0o600, durable.Bytes(b)); err != nil {
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

// trimLocked removes the oldest jobs beyond the limits.
func (s *Store) trimLocked() error {
	for len(s.mu.files) > 1 && (len(s.mu.files) > s.limits.Jobs || s.mu.bytes > s.limits.Bytes) {
		oldest := s.mu.files[0]
		if err := s.disk.Remove(s.path(oldest.id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		s.mu.files = slices.Delete(s.mu.files, 0, 1)
		s.mu.bytes -= oldest.size
	}
	return nil
}

// Get returns a job with its tasks. The error wraps fs.ErrNotExist if the history
// does not have the job.
func (s *Store) Get(id job.ID) (*slotwisev1.HistoryJob, error) {
	f, err := s.disk.OpenFile(s.path(id), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("job %s is not in the history: %w", id, fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	j, err := readJob(content(f))
	if err != nil {
		return nil, fmt.Errorf("history of %s: %w", id, err)
	}
	return j, nil
}

// Query selects the jobs that List returns.
type Query struct {
	User   string // only this user's jobs; "" selects all users
	Before job.ID // only jobs with a lower number; 0 selects all
	Limit  int    // the largest number of jobs to return
}

// List returns jobs without their tasks, newest first. It skips damaged files and
// reports them in the error, beside the other jobs.
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
		case errors.Is(err, fs.ErrNotExist): // Put has removed it meanwhile
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
	f, err := s.disk.OpenFile(s.path(id), os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readSummary(content(f))
}
