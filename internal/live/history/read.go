package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// OpenRead opens a history for reading and changes nothing. dir is the directory of a master,
// which may be running, or its history directory.
func OpenRead(dir string) (s *Store, err error) {
	// A master's directory may be called history itself.
	if filepath.Base(filepath.Clean(dir)) == subdir && !isDir(filepath.Join(dir, subdir)) {
		dir = filepath.Dir(filepath.Clean(dir))
	}
	path := filepath.Join(dir, subdir, FileName)
	if _, err = os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no history: name the directory of a master (slotwise master --dir)", dir)
	}
	if err != nil {
		return nil, err
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
	_, err := s.checkVersion()
	if err == nil {
		err = s.count()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Head returns a job without its tasks, or a chain with its steps. It does not read the parts
// of a large job. The error wraps fs.ErrNotExist if the history does not have the job.
func (s *Store) Head(name string) (*slotwisev1.HistoryJob, error) {
	key, err := parseName(name)
	if err != nil {
		return nil, err
	}
	s.swap.RLock()
	defer s.swap.RUnlock()
	var packed []byte
	err = s.db.QueryRow("SELECT whole FROM records WHERE id = ?", key).Scan(&packed)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, missing(name)
	}
	h := &slotwisev1.HistoryJob{}
	if err == nil {
		err = decode(packed, h)
	}
	if err != nil {
		return nil, fmt.Errorf("history of %s: %w", name, s.named(err))
	}
	// A small job has its tasks in the same value.
	h.Tasks = nil
	return h, nil
}

func missing(name string) error {
	return fmt.Errorf("%s is not in the history: %w", name, fs.ErrNotExist)
}

// Get returns a job with its tasks, or a chain with its steps. The error wraps
// fs.ErrNotExist if the history does not have it.
func (s *Store) Get(name string) (*slotwisev1.HistoryJob, error) {
	var all *slotwisev1.HistoryJob
	for h, err := range s.Pieces(name) {
		switch {
		case err != nil:
			return nil, err
		case all == nil:
			all = h
		default:
			all.Tasks = append(all.Tasks, h.Tasks...)
		}
	}
	return all, nil
}

// Pieces returns a job in pieces, so that a caller can stop before all tasks are decoded. The
// first piece has everything but the tasks of a large job; each other one has only tasks. All
// are of the same moment. The error wraps fs.ErrNotExist if the history does not have the job.
func (s *Store) Pieces(name string) iter.Seq2[*slotwisev1.HistoryJob, error] {
	return func(yield func(*slotwisev1.HistoryJob, error) bool) {
		key, err := parseName(name)
		if err != nil {
			yield(nil, err)
			return
		}
		known := false
		for p, err := range s.pieces(context.Background(), "id = ?", key) {
			known = true
			if !yield(p.job, err) {
				return
			}
		}
		if !known {
			yield(nil, missing(name))
		}
	}
}

// Each returns all jobs with their tasks, in the order of their numbers. It ends after the
// first error.
func (s *Store) Each(ctx context.Context) iter.Seq2[*slotwisev1.HistoryJob, error] {
	return func(yield func(*slotwisev1.HistoryJob, error) bool) {
		var all *slotwisev1.HistoryJob
		for p, err := range s.pieces(ctx, "id & 1 = 0") {
			switch {
			case err != nil:
				yield(nil, err)
				return
			case !p.first:
				all.Tasks = append(all.Tasks, p.job.Tasks...)
				continue
			// A job is complete only when the next one begins.
			case all != nil && !yield(all, nil):
				return
			}
			all = p.job
		}
		if all != nil {
			yield(all, nil)
		}
	}
}

// piece is the value whole of an entry, or one of its parts.
type piece struct {
	job   *slotwisev1.HistoryJob
	first bool // the value whole, which comes before the parts
}

// pieces returns the pieces of the entries that a condition selects, in the order of their
// numbers. It ends after the first error.
func (s *Store) pieces(ctx context.Context, where string, args ...any) iter.Seq2[piece, error] {
	return func(yield func(piece, error) bool) {
		s.swap.RLock()
		defer s.swap.RUnlock()
		// The join repeats the row of records for each part. Only the first repetition returns
		// whole, or a job of a hundred parts would read it a hundred times.
		rows, err := s.db.QueryContext(ctx, "SELECT id, CASE WHEN coalesce(part, 0) = 0 THEN whole END, tasks FROM records LEFT JOIN parts USING (id) WHERE "+
			where+" ORDER BY id, part", args...)
		if err != nil {
			yield(piece{}, s.named(err))
			return
		}
		defer rows.Close()
		for rows.Next() {
			var id int64
			var values [2][]byte
			if err := rows.Scan(&id, &values[0], &values[1]); err != nil {
				yield(piece{}, s.named(err))
				return
			}
			// whole comes before tasks, because callers add the tasks to it.
			for i, packed := range values {
				if packed == nil {
					continue
				}
				h := &slotwisev1.HistoryJob{}
				if err := decode(packed, h); err != nil {
					yield(piece{}, fmt.Errorf("history of %s: %w", formatKey(id), s.named(err)))
					return
				}
				if !yield(piece{h, i == 0}, nil) {
					return
				}
			}
		}
		if err := rows.Err(); err != nil {
			yield(piece{}, s.named(err))
		}
	}
}
