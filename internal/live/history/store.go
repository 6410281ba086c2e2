package history

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"
	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/base/durable"
	"github.com/slotwise/slotwise/internal/base/retry"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// Limits bound a store. Put and Trim remove the entries that ended first beyond them, but
// always keep the newest entry.
type Limits struct {
	Entries int           // jobs and chains; 0 means DefaultEntries
	Bytes   int64         // of all entries together, compressed; 0 means DefaultBytes
	Age     time.Duration // since the end of the job; 0 means no limit
	Logs    int64         // bytes of the logs of attempts, compressed; 0 means DefaultLogs, negative means none
}

// Defaults of Limits.
const (
	DefaultEntries = 250_000
	DefaultBytes   = 4 << 30
	DefaultLogs    = 1 << 30
)

// Store is an open history. Several goroutines may use it at the same time.
type Store struct {
	limits Limits
	report Report      // never nil
	path   string      // of the database
	above  fs.FileInfo // the directory that holds the history's, as Open found it
	fresh  bool        // Open has found no database

	// swap guards db: readers of the Store hold it shared, and setAside and reopen exclusively.
	swap sync.RWMutex
	db   *sql.DB

	// write serialises changes, so that they need not wait for each other's locks. It is
	// locked before swap.
	write struct {
		sync.Mutex
		entries int
		bytes   int64
		logs    int64            // bytes of the logs
		logsOf  map[string]int64 // the same, by user
		file    fs.FileInfo      // of the open database; nil if it must be opened again
	}
}

// FileName is the name of the database in DIR/history.
const FileName = "history.db"

// Other names below a master's directory.
const (
	subdir   = "history"
	lockName = "lock" // of the file that Lock locks
)

// schema creates the tables. An entry's id is twice its number, plus one for a chain. search
// has the name of the job and its title, in lower case. The index by_submitted holds all
// columns by which a list can be filtered, so a list that skips most entries reads nothing
// else. A large job has its tasks in parts, any other job in whole.
const schema = `
CREATE TABLE IF NOT EXISTS runs (
	id INTEGER PRIMARY KEY,
	submitted INTEGER NOT NULL, ended INTEGER NOT NULL, state INTEGER NOT NULL,
	user TEXT NOT NULL, pool TEXT NOT NULL, search TEXT NOT NULL,
	bytes INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS by_submitted ON runs (submitted, state, user, pool, search);
CREATE INDEX IF NOT EXISTS by_user ON runs (user, id);
CREATE INDEX IF NOT EXISTS by_ended ON runs (ended);
CREATE TABLE IF NOT EXISTS records (
	id INTEGER PRIMARY KEY,
	status BLOB NOT NULL, whole BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS parts (
	id INTEGER NOT NULL, part INTEGER NOT NULL, tasks BLOB NOT NULL,
	PRIMARY KEY (id, part));
PRAGMA user_version = 2;`

// version is the version of the schema, by which a program recognizes a database that it
// cannot read.
const version = 2

// partTasks is the number of tasks in a part of a large job. A job with at most as many is
// one value.
const partTasks = 2000

// rowBytes estimates the bytes of an entry's keys, index entries and page headers.
const rowBytes = 400

// Open opens the history below a master's directory and creates it if necessary. A damaged
// database is set aside, and an empty one takes its place. report, which may be nil, is
// called then and whenever Put sets one aside. A database of another version is an error.
func Open(dir string, limits Limits, report Report) (*Store, error) {
	limits.Entries = cmp.Or(limits.Entries, DefaultEntries)
	limits.Bytes = cmp.Or(limits.Bytes, DefaultBytes)
	limits.Logs = max(0, cmp.Or(limits.Logs, DefaultLogs))
	inside := filepath.Join(dir, subdir)
	if err := durable.MkdirAll(durable.OS(), inside, 0o700); err != nil {
		return nil, err
	}
	if report == nil {
		report = func(string, error) {}
	}
	s := &Store{path: filepath.Join(inside, FileName), limits: limits, report: report}
	// Remembered to notice later that the directory was moved away or replaced.
	above, err := os.Stat(filepath.Dir(inside))
	if err != nil {
		return nil, err
	}
	s.above = above
	_, err = os.Lstat(s.path)
	s.fresh = errors.Is(err, fs.ErrNotExist)
	if err = s.openFile(); err == nil {
		err = s.Trim()
	}
	// Damage may show only when Trim reads pages that opening does not touch.
	if isDamage(err) {
		if err = s.setAside(err); err == nil {
			err = s.Trim()
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the history: %w", err), s.Close())
	}
	return s, nil
}

// Fresh reports whether Open has found no database and made one. A master whose journal has
// jobs in the history has lost it then.
func (s *Store) Fresh() bool { return s.fresh }

// ErrInUse is wrapped by the error of Lock.
var ErrInUse = errors.New("another process adds jobs to this history")

// Lock reserves the history in dir for one process that numbers its own jobs, until it
// closes the result or ends. A master needs no Lock: its journal is locked.
func Lock(dir string) (io.Closer, error) {
	inside := filepath.Join(dir, subdir)
	if err := durable.MkdirAll(durable.OS(), inside, 0o700); err != nil {
		return nil, err
	}
	f, err := durable.OS().OpenFile(filepath.Join(inside, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.Lock(false); err != nil {
		if errors.Is(err, durable.ErrLocked) {
			err = fmt.Errorf("%s: %w", dir, ErrInUse)
		}
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// openFile opens the database for writing and creates it if necessary. The caller holds
// write and swap, or s has no other user.
func (s *Store) openFile() error {
	if err := s.whileLocked(s.createFile); err != nil {
		return err
	}
	if err := s.open("rwc"); err != nil {
		return err
	}
	v, err := s.checkVersion()
	if err != nil {
		return err
	}
	// Also after a crash between creating the file and the schema: the version is still 0, and
	// each statement skips tables that exist.
	if v == 0 { // the schema's last statement sets the version
		if _, err := s.db.Exec(logsSchema + schema); err != nil {
			return s.named(err)
		}
	}
	if err := s.countAllLogsLocked(); err != nil {
		return s.named(err)
	}
	// Remembered to notice later that the path leads to another file (reopenIfGone).
	file, err := os.Lstat(s.path)
	if err != nil {
		return err
	}
	s.write.file = file
	return s.countLocked()
}

// whileLocked calls f while no other Store creates this database or sets it aside. Otherwise
// a Store that has seen no database could take the log of one made since for a lost log.
func (s *Store) whileLocked(f func() error) error {
	// The lock is on the directory and not on a file in it, because setAside renames files.
	dir, err := durable.OS().OpenFile(filepath.Dir(s.path), os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	err = dir.Lock(true)
	if err == nil {
		err = f()
	}
	return errors.Join(err, dir.Close())
}

// createFile makes an empty database file if there is no file. SQLite's other files get the
// permissions of this one. A write-ahead log beside it has lost its database, for
// example because setAside was interrupted. SQLite would remove it.
func (s *Store) createFile() error {
	if _, err := os.Lstat(s.path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := s.setLogAside(); err != nil {
		return err
	}
	f, err := os.OpenFile(s.path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), durable.OS().SyncDir(filepath.Dir(s.path)))
}

// open opens the database. Each transaction ends with a sync of the write-ahead log.
func (s *Store) open(mode string) error {
	path, err := filepath.Abs(s.path)
	if err != nil {
		return err
	}
	// A transaction takes the lock of writers at its start. One that reads first may not get it
	// later.
	q := url.Values{"_txlock": {"immediate"}, "_pragma": {fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds())}}
	switch mode {
	case "immutable":
		q.Set("immutable", "1")
	case "ro":
		q.Set("mode", mode)
	default:
		q.Set("mode", mode)
		q["_pragma"] = append(q["_pragma"], "journal_mode(WAL)", "synchronous(FULL)")
	}
	if mode != "immutable" {
		q.Set("modeof", path) // the log gets the owner and the permissions of the database
		s.createIndex()
	}
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: q.Encode()}
	if s.db, err = driver.Open(u.String(), limitValues); err != nil {
		return err
	}
	s.db.SetMaxOpenConns(4)
	return nil
}

// limitValues makes SQLite refuse values of more than maxPacked bytes. A connection has 256 MiB of memory,
// and the library panics when they do not suffice, for example for a length that damage has made.
func limitValues(c *sqlite3.Conn) error {
	c.Limit(sqlite3.LIMIT_LENGTH, maxPacked)
	return nil
}

// createIndex makes an empty index of the write-ahead log, if there is none, with the owner of the
// database. The library would make it without. An index that root owns, because root has read the
// history of a master that was killed, would keep the master from its history. A failure has no
// effect: either the library makes the index, or this process may not write here.
func (s *Store) createIndex() {
	info, err := os.Stat(s.path)
	if err != nil {
		return
	}
	f, err := os.OpenFile(s.path+"-shm", os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm())
	if err != nil {
		return
	}
	_ = f.Chmod(info.Mode().Perm()) // whatever this process's umask leaves
	if owner, ok := info.Sys().(*syscall.Stat_t); ok {
		_ = f.Chown(int(owner.Uid), int(owner.Gid))
	}
	_ = f.Close()
}

// closeDB closes the database if it is open. Its last connection removes the write-ahead
// log, unless the database file was renamed.
func (s *Store) closeDB() error {
	if s.db == nil {
		return nil
	}
	return s.db.Close()
}

const (
	// busyTimeout is the time for which SQLite waits for the locks of other processes.
	busyTimeout = 30 * time.Second
	// busyPause is the time between two tries where SQLite does not wait: if two processes
	// open a new database at once, both begin its write-ahead log, and one fails.
	busyPause = 5 * time.Millisecond
)

// isBusy reports whether an error means that another process has locked the database.
func isBusy(err error) bool {
	return errors.Is(err, sqlite3.BUSY)
}

// checkVersion returns the version of the database, 0 if it is empty. It returns an error if
// a program with another schema has written it.
func (s *Store) checkVersion() (v int, err error) {
	// SQLite does not wait by itself here, so the tries are as frequent as its own.
	o := retry.Options{FirstPause: busyPause, LastPause: busyPause, Patience: func(err error) time.Duration {
		if isBusy(err) {
			return busyTimeout
		}
		return -1
	}}
	err = retry.Run(context.Background(), o, func(context.Context) error { return s.db.QueryRow("PRAGMA user_version").Scan(&v) })
	if err != nil {
		return 0, s.named(err)
	}
	if v != 0 && v != version {
		return 0, fmt.Errorf("%s: another version of slotwise has written it (version %d of the schema, this program reads %d): use that version, or move the directory %s away",
			s.path, v, version, filepath.Dir(s.path))
	}
	return v, nil
}

// count counts the entries and their bytes.
func (s *Store) count() error {
	s.write.Lock()
	defer s.write.Unlock()
	return s.countLocked()
}

func (s *Store) countLocked() error {
	return s.named(s.db.QueryRow("SELECT count(*), coalesce(sum(bytes), 0) FROM runs").Scan(&s.write.entries, &s.write.bytes))
}

// named adds the path of the database to an error, and the reason if the disk is full: the library reports that as
// a failure of the disk, because it compares the error of a file with an error number.
func (s *Store) named(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, sqlite3.IOERR) {
		if full := needRoom(filepath.Dir(s.path)); errors.Is(full, syscall.ENOSPC) || errors.Is(full, syscall.EDQUOT) {
			return fmt.Errorf("%s: %w: %w", s.path, err, full)
		}
	}
	return fmt.Errorf("%s: %w", s.path, err)
}

// needRoom writes and removes a file of a megabyte, which is more than most records need.
func needRoom(dir string) error {
	f, err := os.CreateTemp(dir, FileName+".room-")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 1<<20))
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// Close closes the database. Calls under way fail.
func (s *Store) Close() error {
	s.write.Lock()
	defer s.write.Unlock()
	return s.closeDB()
}

// chainPrefix begins the name of a chain, before its number.
const chainPrefix = "chain-"

// parseName returns the key of the job or the chain with a name.
func parseName(name string) (key int64, err error) {
	digits, isChain := strings.CutPrefix(name, chainPrefix)
	if !isChain {
		id, err := job.ParseID(name)
		return int64(id) << 1, err
	}
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || n <= 0 {
		return 0, fmt.Errorf("%q is not the name of a chain", name)
	}
	return n<<1 | 1, nil
}

// entry is an encoded job or chain.
type entry struct {
	key           int64 // as parseName returns it
	status        *slotwisev1.JobStatus
	packed, whole []byte // compressed: the status, and the HistoryJob without the tasks in parts
	parts         [][]byte
}

func (e *entry) bytes() int64 {
	n := rowBytes + int64(len(e.packed)+len(e.whole))
	for _, p := range e.parts {
		n += int64(len(p))
	}
	return n + 2*int64(len(e.search())+len(e.status.GetUser())+len(e.status.GetPool()))
}

// search returns the text in which lists search.
func (e *entry) search() string {
	return strings.ToLower(e.status.GetId() + "\n" + e.status.GetName())
}

// encoder compresses values. Each frame has a checksum of its content. EncodeAll may be
// called by several goroutines.
var encoder = sync.OnceValue(func() *zstd.Encoder {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(true))
	if err != nil {
		panic(err) // the options are constants
	}
	return z
})

// maxPart bounds a decompressed value, and maxPacked a compressed one. A corrupt length must not make
// the master allocate without limit.
const maxPart = 1 << 30

// It is a variable, because compressing so many bytes takes a test a minute under the race detector.
var maxPacked = 64 << 20

// errDamaged reports a record whose checksum or structure is wrong.
var errDamaged = errors.New("the record is damaged")

// decoder is the inverse of encoder.
var decoder = sync.OnceValue(func() *zstd.Decoder {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxPart))
	if err != nil {
		panic(err)
	}
	return z
})

// newEntry encodes a job or a chain.
func newEntry(h *slotwisev1.HistoryJob) (*entry, error) {
	key, err := parseName(h.GetJob().GetId())
	if err != nil {
		return nil, err
	}
	packed, err := encode(h.Job, h.Job.Id)
	if err != nil {
		return nil, err
	}
	e := &entry{key: key, status: h.Job, packed: packed}
	// One value is read with one query. Beyond partTasks, a head would decode all tasks and
	// show none.
	head, tasks := h, h.Tasks
	if len(tasks) <= partTasks {
		tasks = nil
	} else {
		head = &slotwisev1.HistoryJob{Job: h.Job, Request: h.Request, Held: h.Held, Steps: h.Steps}
	}
	if e.whole, err = encode(head, h.Job.Id); err != nil {
		return nil, err
	}
	// The limit of SQLite holds for a row, too. Its error would count as damage, and set a good database aside.
	if texts := len(e.search()) + len(h.Job.User) + len(h.Job.Pool); len(packed)+len(e.whole) > maxPacked-rowBytes || texts > maxPacked-rowBytes {
		return nil, fmt.Errorf("history of %s: %d compressed bytes are more than a record may have", h.Job.Id, len(packed)+len(e.whole)+texts)
	}
	for tasks := range slices.Chunk(tasks, partTasks) {
		part, err := encode(&slotwisev1.HistoryJob{Tasks: tasks}, h.Job.Id)
		if err != nil {
			return nil, err
		}
		e.parts = append(e.parts, part)
	}
	return e, nil
}

// encode compresses a message of the entry with a name.
func encode(m proto.Message, name string) ([]byte, error) {
	b, err := proto.Marshal(m)
	if err != nil {
		return nil, err
	}
	if len(b) > maxPart {
		return nil, fmt.Errorf("history of %s: %d bytes are more than a record may have", name, len(b))
	}
	packed := encoder().EncodeAll(b, nil)
	if len(packed) > maxPacked-rowBytes {
		return nil, fmt.Errorf("history of %s: %d compressed bytes are more than a record may have", name, len(packed))
	}
	return packed, nil
}

// decode decompresses a value into m.
func decode(packed []byte, m proto.Message) error {
	b, err := decoder().DecodeAll(packed, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	return proto.Unmarshal(b, m)
}

// Put stores jobs and chains in one transaction, replacing earlier records of the same ones,
// and removes the oldest entries beyond the limits. The records are durable when Put returns
// nil. After an error the earlier records remain. The error wraps ErrRefused if no database
// could hold the records; any other error may be gone at the next try. If the database is
// damaged, Put sets it aside and stores the records in an empty one.
func (s *Store) Put(list ...*slotwisev1.HistoryJob) error {
	entries := make([]*entry, len(list))
	for i, h := range list {
		e, err := newEntry(h)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrRefused, err)
		}
		entries[i] = e
	}
	s.write.Lock()
	defer s.write.Unlock()
	err := s.reopenIfGone()
	if err == nil {
		err = s.putLocked(entries)
	}
	// One more try only: an empty database that is damaged again means that the disk is
	// broken.
	if isDamage(err) {
		if err = s.setAside(err); err == nil {
			err = s.putLocked(entries)
		}
	}
	if err == nil {
		// The records are durable. If the removal of old ones fails, the next one removes more.
		_ = s.trimAllLocked()
	}
	return err
}

// ErrRefused is wrapped by errors of Put that do not depend on the database.
var ErrRefused = errors.New("the record cannot be stored")

func (s *Store) putLocked(list []*entry) error {
	tx, err := s.db.Begin()
	if err != nil {
		return s.named(err)
	}
	defer tx.Rollback() // no effect after Commit
	entries, bytes := s.write.entries, s.write.bytes
	for _, e := range list {
		var old int64
		// A record that is stored again replaces its predecessor, and must be counted once.
		switch err := tx.QueryRow("SELECT bytes FROM runs WHERE id = ?", e.key).Scan(&old); {
		case err == nil:
			bytes -= old
		case errors.Is(err, sql.ErrNoRows):
			entries++
		default:
			return s.named(err)
		}
		j := e.status
		_, err := tx.Exec("INSERT OR REPLACE INTO runs (id, submitted, ended, state, user, pool, search, bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
			e.key, j.GetSubmittedMs(), j.GetEndedMs(), int32(j.GetState()), j.GetUser(), j.GetPool(), e.search(), e.bytes())
		if err == nil {
			_, err = tx.Exec("INSERT OR REPLACE INTO records (id, status, whole) VALUES (?, ?, ?)", e.key, e.packed, e.whole)
		}
		// A repeated Put may have fewer parts than the first. Parts that stayed would be read as
		// tasks of this entry.
		if err == nil {
			_, err = tx.Exec("DELETE FROM parts WHERE id = ?", e.key)
		}
		for i := 0; i < len(e.parts) && err == nil; i++ {
			_, err = tx.Exec("INSERT INTO parts (id, part, tasks) VALUES (?, ?, ?)", e.key, i, e.parts[i])
		}
		if err != nil {
			return fmt.Errorf("history of %s: %w", j.GetId(), s.named(err))
		}
		bytes += e.bytes()
	}
	// The counters change only with the database.
	if err := tx.Commit(); err != nil {
		return s.named(err)
	}
	s.write.entries, s.write.bytes = entries, bytes
	return nil
}

// trimBatch is the number of entries that one transaction removes.
const trimBatch = 256

// Trim removes the oldest entries beyond the limits.
func (s *Store) Trim() error {
	s.write.Lock()
	defer s.write.Unlock()
	return s.trimAllLocked()
}

func (s *Store) trimAllLocked() error {
	for {
		removed, err := s.trimLocked()
		if err != nil {
			return s.named(err)
		}
		if removed < trimBatch {
			return s.trimLogsLocked()
		}
	}
}

// trimLocked removes up to trimBatch entries beyond the limits.
func (s *Store) trimLocked() (removed int, err error) {
	var before int64
	if s.limits.Age > 0 {
		before = time.Now().Add(-s.limits.Age).UnixMilli()
	}
	over := s.write.entries > s.limits.Entries || s.write.bytes > s.limits.Bytes
	if !over && before == 0 {
		return 0, nil
	}
	entries, bytes := s.write.entries, s.write.bytes
	rows, err := s.db.Query("SELECT id, ended, bytes FROM runs ORDER BY ended, id LIMIT ?", trimBatch)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var gone []int64
	// The newest entry stays even if it alone exceeds the limit: a user who looks at his job
	// at its end must find it.
	for rows.Next() && entries > 1 {
		var id, ended, size int64
		if err := rows.Scan(&id, &ended, &size); err != nil {
			return 0, err
		}
		if entries <= s.limits.Entries && bytes <= s.limits.Bytes && ended >= before {
			break
		}
		gone = append(gone, id)
		entries--
		bytes -= size
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil || len(gone) == 0 {
		return 0, err
	}
	tx, err := s.db.Begin()
	if err != nil {
		return 0, err
	}
	defer tx.Rollback() // no effect after Commit
	for _, id := range gone {
		for _, table := range []string{"runs", "records", "parts"} {
			if _, err := tx.Exec("DELETE FROM "+table+" WHERE id = ?", id); err != nil {
				return 0, err
			}
		}
	}
	if err := tx.Commit(); err != nil {
		return 0, err
	}
	s.write.entries, s.write.bytes = entries, bytes
	return len(gone), nil
}
