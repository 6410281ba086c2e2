package history

import (
	"context"
	"errors"
	"fmt"
	"strings"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// Kind selects jobs, chains or both.
type Kind byte

// Kinds of entries.
const (
	Jobs Kind = iota
	Chains
	All
)

// Query selects entries. Zero fields select all jobs.
type Query struct {
	Kind       Kind
	Text       string // part of the id or the name, in any case
	User, Pool string
	State      slotwisev1.JobState
	From, To   int64  // submitted between these times, in ms since the Unix epoch; 0 is no bound
	Since      int64  // ended at or after this time
	Before     string // only entries with a lower number than this job or chain
	Offset     int
	Limit      int // the largest number of entries to return
}

// where returns the condition of a query and the values of its parameters.
func (q *Query) where() (condition string, args []any, err error) {
	terms := []string{"1"}
	add := func(term string, value any) { terms, args = append(terms, term), append(args, value) }
	if q.Kind != All {
		// The lowest bit of an id distinguishes chains from jobs.
		add("id & 1 = ?", int(q.Kind))
	}
	if q.User != "" {
		add("user = ?", q.User)
	}
	if q.Pool != "" {
		add("pool = ?", q.Pool)
	}
	if q.State != 0 {
		add("state = ?", int32(q.State))
	}
	if q.From != 0 {
		add("submitted >= ?", q.From)
	}
	if q.To != 0 {
		add("submitted <= ?", q.To)
	}
	if q.Since != 0 {
		add("ended >= ?", q.Since)
	}
	if q.Text != "" {
		add("instr(search, ?) > 0", strings.ToLower(q.Text))
	}
	// Pages continue by number and not by offset, so that jobs that end meanwhile do not move
	// rows from one page to the next.
	if q.Before != "" {
		key, err := parseName(q.Before)
		if err != nil {
			return "", nil, err
		}
		add("id < ?", key)
	}
	return strings.Join(terms, " AND "), args, nil
}

// List returns the entries that a query selects without tasks and steps, newest first: by
// number, or, with jobs and chains together, by the time of submission. It skips damaged
// entries and reports them in the error, beside the other entries.
func (s *Store) List(ctx context.Context, q Query) ([]*slotwisev1.HistoryJob, error) {
	where, args, err := q.where()
	if err != nil {
		return nil, err
	}
	order := "id DESC"
	if q.Kind == All {
		order = "submitted DESC, id DESC"
	}
	s.swap.RLock()
	defer s.swap.RUnlock()
	// The inner query reads the small table runs and its indexes only. Joining first would
	// read and skip the large values of all entries before the page.
	rows, err := s.db.QueryContext(ctx, "SELECT id, status FROM records JOIN runs USING (id) WHERE id IN (SELECT id FROM runs WHERE "+where+
		" ORDER BY "+order+" LIMIT ? OFFSET ?) ORDER BY "+order, append(args, max(0, q.Limit), max(0, q.Offset))...)
	if err != nil {
		return nil, s.named(err)
	}
	defer rows.Close()
	var out []*slotwisev1.HistoryJob
	var errs []error
	for rows.Next() {
		var id int64
		var packed []byte
		if err := rows.Scan(&id, &packed); err != nil {
			return out, s.named(err)
		}
		j := &slotwisev1.JobStatus{}
		if err := decode(packed, j); err != nil {
			// One damaged entry must not hide all others.
			errs = append(errs, fmt.Errorf("history of %s: %w", formatKey(id), s.named(err)))
			continue
		}
		out = append(out, &slotwisev1.HistoryJob{Job: j})
	}
	return out, errors.Join(append(errs, s.named(rows.Err()))...)
}

// formatKey is the inverse of parseName.
func formatKey(key int64) string {
	if key&1 == 1 {
		return fmt.Sprintf("%s%d", chainPrefix, key>>1)
	}
	return fmt.Sprintf("j%d", key>>1)
}

// Page returns the results of List and Count. It counts only if the list does not show the number,
// because counting searches all names once more.
func (s *Store) Page(ctx context.Context, q Query) (list []*slotwisev1.HistoryJob, total int, err error) {
	list, err = s.List(ctx, q)
	// An empty page behind the first says nothing about the number.
	if n := len(list); err == nil && n < q.Limit && (n > 0 || q.Offset <= 0) {
		return list, max(0, q.Offset) + n, nil
	}
	total, failed := s.Count(ctx, q)
	return list, total, errors.Join(err, failed)
}

// Count returns the number of entries that a query selects, whatever its Offset and Limit.
func (s *Store) Count(ctx context.Context, q Query) (n int, err error) {
	where, args, err := q.where()
	if err != nil {
		return 0, err
	}
	s.swap.RLock()
	defer s.swap.RUnlock()
	err = s.db.QueryRowContext(ctx, "SELECT count(*) FROM runs WHERE "+where, args...).Scan(&n)
	return n, s.named(err)
}

// Names returns the names of all jobs and chains.
func (s *Store) Names(ctx context.Context) (list []string, err error) {
	s.swap.RLock()
	defer s.swap.RUnlock()
	rows, err := s.db.QueryContext(ctx, "SELECT id FROM runs ORDER BY id")
	if err != nil {
		return nil, s.named(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, s.named(err)
		}
		list = append(list, formatKey(id))
	}
	return list, s.named(rows.Err())
}

// Last returns the highest number of a job, 0 if there is none.
func (s *Store) Last(ctx context.Context) (id job.ID, err error) {
	s.swap.RLock()
	defer s.swap.RUnlock()
	err = s.db.QueryRowContext(ctx, "SELECT coalesce(max(id) / 2, 0) FROM runs WHERE id & 1 = 0").Scan(&id)
	return id, s.named(err)
}
