package history

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/base/bounds"
)

// Log is the end of what an attempt or a driver has printed. It outlives the worker on
// which that ran.
type Log struct {
	Name   string // of the attempt, such as j1_m_0_0, or of the driver, such as chain-2_1
	End    []byte // the last bytes, at most bounds.KeptLog
	Size   int64  // bytes printed in all
	User   string // of the job or chain
	Failed bool   // the attempt or driver failed
}

// run returns the key of the job or chain to which the log belongs.
func (l *Log) run() (int64, error) { return parseName(RunOf(l.Name)) }

// RunOf returns the name of the job of an attempt, or of the chain of a driver.
func RunOf(name string) string {
	run, _, _ := strings.Cut(name, "_")
	return run
}

// logsSchema creates the table of logs.
const logsSchema = `
CREATE TABLE IF NOT EXISTS logs (
	id INTEGER PRIMARY KEY,
	run INTEGER NOT NULL, name TEXT NOT NULL, user TEXT NOT NULL,
	ended INTEGER NOT NULL, size INTEGER NOT NULL, bytes INTEGER NOT NULL,
	packed BLOB NOT NULL);
CREATE UNIQUE INDEX IF NOT EXISTS logs_by_run ON logs (run, name, bytes);`

// logRowBytes estimates the bytes of a log's keys, index entries and page headers.
const logRowBytes = 100

// PutLogs stores logs in one transaction, replacing earlier ones of the same names, and
// removes the oldest logs beyond the limits. The logs are durable when PutLogs returns nil.
//
// The logs of one job have bounds.JobLogs bytes at most, compressed. Logs of failed attempts
// may have as many again. PutLogs drops a log that finds no room. full lists the jobs and
// chains of which it stores logs of failed attempts only from now on.
func (s *Store) PutLogs(logs []Log) (full []string, err error) {
	// Full jobs make workers send logs of failed attempts only, and these are dropped here,
	// too.
	if s.limits.Logs == 0 {
		for i := range logs {
			full = append(full, RunOf(logs[i].Name))
		}
		return full, nil
	}
	s.write.Lock()
	defer s.write.Unlock()
	if err = s.reopenIfGone(); err == nil {
		full, err = s.putLogsLocked(logs)
	}
	if isDamage(err) {
		if err = s.setAside(err); err == nil {
			full, err = s.putLogsLocked(logs)
		}
	}
	if err == nil {
		// The logs are durable. If the removal of old ones fails, the next one removes more.
		_ = s.trimLogsLocked()
	}
	return full, err
}

func (s *Store) putLogsLocked(logs []Log) (full []string, err error) {
	tx, err := s.db.Begin()
	if err != nil {
		return nil, s.named(err)
	}
	defer tx.Rollback()       // no effect after Commit
	held := map[int64]int64{} // bytes of a run's logs
	isFull := map[string]bool{}
	now := time.Now().UnixMilli()
	more := map[string]int64{} // bytes by user
	for i := range logs {
		l := &logs[i]
		run, err := l.run()
		if err != nil {
			return nil, err
		}
		// One sum for each job in the batch, not for each log: hundreds of logs of one job arrive
		// together.
		if _, known := held[run]; !known {
			var sum int64
			if err := tx.QueryRow("SELECT coalesce(sum(bytes), 0) FROM logs WHERE run = ?", run).Scan(&sum); err != nil {
				return nil, s.named(err)
			}
			held[run] = sum
		}
		room := int64(bounds.JobLogs)
		// The logs of attempts that succeeded fill the room first. Failures come later and are the
		// ones that users look for, so a second room is theirs alone.
		if l.Failed {
			room *= 2
		}
		packed := encoder().EncodeAll(l.End, nil)
		size := int64(len(packed)+len(l.Name)) + logRowBytes
		// A log may be sent twice, because a worker repeats a request without an answer. The
		// second copy replaces the first and is counted once.
		if held[run]+size <= room {
			var old int64
			var oldUser string
			err := tx.QueryRow("SELECT bytes, user FROM logs WHERE run = ? AND name = ?", run, l.Name).Scan(&old, &oldUser)
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return nil, s.named(err)
			}
			_, err = tx.Exec("DELETE FROM logs WHERE run = ? AND name = ?", run, l.Name)
			if err == nil {
				_, err = tx.Exec("INSERT INTO logs (run, name, user, ended, size, bytes, packed) VALUES (?, ?, ?, ?, ?, ?, ?)", run, l.Name, l.User, now, l.Size, size, packed)
			}
			if err != nil {
				return nil, fmt.Errorf("log of %s: %w", l.Name, s.named(err))
			}
			held[run] += size - old
			more[l.User] += size
			more[oldUser] -= old
		} else if !l.Failed {
			isFull[RunOf(l.Name)] = true
		}
	}
	if err := tx.Commit(); err != nil {
		return nil, s.named(err)
	}
	// Counted after the commit: a transaction that is rolled back must not change the sums by
	// which old logs are removed.
	for user, n := range more { //house:sorted sums do not depend on the order
		s.countLogsLocked(user, n)
	}
	for run := range isFull { //house:sorted the order has no meaning
		full = append(full, run)
	}
	return full, nil
}

// countAllLogsLocked reads how many bytes of logs each user has.
func (s *Store) countAllLogsLocked() error {
	s.write.logs, s.write.logsOf = 0, map[string]int64{}
	rows, err := s.db.Query("SELECT user, sum(bytes) FROM logs GROUP BY user")
	if err != nil {
		return err
	}
	for rows.Next() {
		var user string
		var n int64
		if err := rows.Scan(&user, &n); err != nil {
			return errors.Join(err, rows.Close())
		}
		s.countLogsLocked(user, n)
	}
	return errors.Join(rows.Err(), rows.Close())
}

// countLogsLocked adds n bytes to the logs of a user.
func (s *Store) countLogsLocked(user string, n int64) {
	s.write.logs += n
	if s.write.logsOf[user] += n; s.write.logsOf[user] == 0 {
		delete(s.write.logsOf, user)
	}
}

// trimLogsLocked removes the logs that are too old. While the others have too many bytes, it
// removes the oldest logs of the user who has the most, so that one user who prints much
// does not remove the logs of all others.
func (s *Store) trimLogsLocked() error {
	if s.limits.Age > 0 {
		before := time.Now().Add(-s.limits.Age).UnixMilli()
		// In batches, so that the database's write lock is not held for long.
		for removed := trimBatch; removed == trimBatch; {
			var err error
			if removed, err = s.removeLogsLocked("SELECT id, user, bytes FROM (SELECT id, user, bytes, ended FROM logs ORDER BY id LIMIT ?) WHERE ended < ? ORDER BY id", 1<<62, trimBatch, before); err != nil {
				return err
			}
		}
	}
	for s.write.logs > s.limits.Logs {
		greediest := ""
		for user, n := range s.write.logsOf { //house:sorted the name decides between equal ones
			if most := s.write.logsOf[greediest]; n > most || n == most && user < greediest {
				greediest = user
			}
		}
		removed, err := s.removeLogsLocked("SELECT id, user, bytes FROM logs WHERE user = ? ORDER BY id LIMIT ?", s.write.logs-s.limits.Logs, greediest, trimBatch)
		// Without a removal the sums are wrong, and the loop would not end.
		if err != nil || removed == 0 {
			return err
		}
	}
	return nil
}

// removeLogsLocked removes the logs that a query finds, in its order, until they have enough
// bytes. It returns their number.
func (s *Store) removeLogsLocked(query string, enough int64, args ...any) (removed int, err error) {
	rows, err := s.db.Query(query, args...)
	if err != nil {
		return 0, s.named(err)
	}
	var gone []int64
	less := map[string]int64{} // bytes by user
	for enough > 0 && rows.Next() {
		var id, size int64
		var user string
		if err := rows.Scan(&id, &user, &size); err != nil {
			return 0, errors.Join(s.named(err), rows.Close())
		}
		gone = append(gone, id)
		less[user] += size
		enough -= size
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil || len(gone) == 0 {
		return 0, s.named(err)
	}
	tx, err := s.db.Begin()
	if err != nil {
		return 0, s.named(err)
	}
	defer tx.Rollback() // no effect after Commit
	for _, id := range gone {
		if _, err := tx.Exec("DELETE FROM logs WHERE id = ?", id); err != nil {
			return 0, s.named(err)
		}
	}
	// The sums in memory follow only when the deletions stand: wrong sums would make the
	// caller delete too much, or find nothing to delete.
	if err := tx.Commit(); err != nil {
		return 0, s.named(err)
	}
	for user, n := range less { //house:sorted sums do not depend on the order
		s.countLogsLocked(user, -n)
	}
	return len(gone), nil
}

// Log returns the log of an attempt or a driver. For a chain it returns the log of the driver
// that ended last. The error wraps fs.ErrNotExist if the history does not have it.
func (s *Store) Log(name string) (*Log, error) {
	run, err := parseName(RunOf(name))
	if err != nil {
		return nil, err
	}
	s.swap.RLock()
	defer s.swap.RUnlock()
	l := &Log{}
	var packed []byte
	query, args := "SELECT name, user, size, packed FROM logs WHERE run = ? AND name = ?", []any{run, name}
	if name == RunOf(name) {
		query, args = "SELECT name, user, size, packed FROM logs WHERE run = ? ORDER BY id DESC LIMIT 1", []any{run}
	}
	err = s.db.QueryRow(query, args...).Scan(&l.Name, &l.User, &l.Size, &packed)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("the log of %s is not in the history: %w", name, fs.ErrNotExist)
	}
	if err == nil {
		if l.End, err = decoder().DecodeAll(packed, nil); err != nil {
			err = fmt.Errorf("%w: %w", errDamaged, err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", name, s.named(err))
	}
	return l, nil
}
