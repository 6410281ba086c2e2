package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/slotwise/slotwise/internal/base/durable"
)

// Options configure a log. The zero value is ready to use.
type Options struct {
	// SegmentBytes is the size at which Sync begins the next segment. 0 means
	// DefaultSegmentBytes.
	SegmentBytes int64
	// FS holds the journal's directory. nil means the machine's file system.
	FS durable.FS
}

// DefaultSegmentBytes is the default of Options.SegmentBytes: 64 MiB.
const DefaultSegmentBytes = 64 << 20

// MaxRecord is the largest length of a record in bytes.
const MaxRecord = 1 << 30

// Log is an open journal. One goroutine uses it.
//
// Append collects records in buf. Sync writes buf as one batch to the last segment
// and flushes the file. A batch is written only after the batch before it is
// durable. So at any time at most one batch, the last one, is partly on disk, and
// Open can tell an interrupted write from damage.
type Log struct {
	fs    durable.FS
	dir   string
	limit int64 // Options.SegmentBytes
	lock  io.Closer

	// base is the number of the first segment to replay. The snapshot has the same
	// number, if there is one.
	base     uint64
	snapshot bool      // there is a snapshot with number base
	segments []segment // from base on, ascending

	file       durable.File // the last segment, open for writing
	salt       uint64       // from the header of the last segment
	size       int64        // bytes in the last segment
	olderBytes int64        // bytes in the segments before the last
	compacting bool         // between Begin and End

	buf    []byte // records appended since the last batch was written
	batch  []byte // reused to encode a batch
	cut    *Cut   // set by Open if it cut off an interrupted write
	failed error  // the first error of Append or Sync; every later call returns it
}

// segment is a segment file with its size, for the last one when the log was opened.
type segment struct {
	number uint64
	size   int64
}

// Cut describes the end of a segment that Open has cut off: a batch that was being
// written when the process or the machine died.
type Cut struct {
	File   string
	Offset int64 // the file's length after the cut
	Bytes  int64 // the number of bytes that were cut off
}

// String returns a message for the log file.
func (c *Cut) String() string {
	return fmt.Sprintf("%s: %d bytes of an unfinished write at offset %d were cut off", c.File, c.Bytes, c.Offset)
}

// ErrLocked is returned by Open if another process has the journal open.
var ErrLocked = errors.New("another process has the journal open")

// Open opens the journal in dir and creates it if necessary. It reads and verifies
// all files, cuts off an interrupted write, and removes leftovers. It returns a
// *DamageError if a file is damaged in a way that no crash explains.
func Open(dir string, opt Options) (*Log, error) {
	l := &Log{fs: opt.FS, dir: dir, limit: opt.SegmentBytes}
	if l.fs == nil {
		l.fs = durable.OS()
	}
	if l.limit <= 0 {
		l.limit = DefaultSegmentBytes
	}
	if err := durable.MkdirAll(l.fs, dir, 0o700); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	lock, err := l.fs.OpenFile(l.path("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	// Two masters on one journal would both append to the last segment. A file system without
	// locks is used all the same; the operator must then start one master only.
	if err := lock.Lock(false); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		if errors.Is(err, durable.ErrLocked) {
			err = ErrLocked
		}
		return nil, errors.Join(fmt.Errorf("journal %s: %w", dir, err), lock.Close())
	}
	l.lock = lock
	// Close gives the lock back, so a master that was refused for damage does not block the
	// next try.
	if err := l.recover(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *Log) path(name string) string { return filepath.Join(l.dir, name) }

// Cut returns what Open has cut off, or nil.
func (l *Log) Cut() *Cut { return l.cut }

// SinceSnapshot returns how many bytes of segments a restart would replay after the
// snapshot.
func (l *Log) SinceSnapshot() int64 { return l.olderBytes + l.size }

// Append adds a copy of rec, which becomes durable at the next Sync. Sync returns
// Append's errors.
func (l *Log) Append(rec []byte) {
	if len(rec) > MaxRecord && l.failed == nil {
		l.failed = fmt.Errorf("journal: a record of %d bytes exceeds the limit of %d bytes", len(rec), MaxRecord)
	}
	// Sync reports the error. A record that was appended after it must not become durable without
	// the ones before.
	if l.failed != nil {
		return
	}
	l.buf = appendRecord(l.buf, rec)
	// A batch beyond maxBatch is written early, so that the records of a large step need not
	// be in memory twice. Records without a Sync may be durable or not in any case.
	if len(l.buf) > maxBatch {
		l.failed = l.flush()
	}
}

// Sync makes all appended records durable. After an error it is unknown which
// records the disk has. So the log refuses every call except Close from then on,
// and Open finds out.
func (l *Log) Sync() error {
	if l.failed == nil {
		l.failed = l.flush()
	}
	// Only after the batch is durable: a segment may end in an incomplete batch only if no
	// later segment exists.
	if l.failed == nil && l.size >= l.limit {
		l.failed = l.rotate()
	}
	return l.failed
}

// flush writes buf as one batch and makes it durable.
func (l *Log) flush() error {
	if len(l.buf) == 0 {
		return nil
	}
	l.batch = appendBatch(l.batch[:0], l.buf, l.salt, l.size)
	// Emptied before the write. After an error it is unknown whether the disk has the batch,
	// so it must not be written a second time.
	l.buf = l.buf[:0]
	if _, err := l.file.Write(l.batch); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if err := l.file.Sync(); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	// Only after the sync: size is where the next batch begins, and replays read up to it.
	l.size += int64(len(l.batch))
	return nil
}

// Check returns an error, and the log refuses every call except Close from then on, if
// the journal's directory was removed or replaced: records that are written now would
// be missing after a restart.
func (l *Log) Check() error {
	last := l.path(segmentName(l.segments[len(l.segments)-1].number))
	// A removed file can still be written and synced without an error.
	if l.failed == nil && !l.file.IsAt(last) {
		l.failed = fmt.Errorf("journal: %s was removed or replaced while this process was writing to it", last)
	}
	return l.failed
}

// rotate begins the next segment. Its name is durable before any batch is written
// to it, so the numbers of segments have no gaps.
func (l *Log) rotate() error {
	if err := l.Check(); err != nil {
		return err
	}
	next := l.segments[len(l.segments)-1].number + 1
	// Closed only after create has succeeded: until then Close needs an open file in l.file.
	before := l.file
	// Replays read the closed segment up to this size.
	l.segments[len(l.segments)-1].size = l.size
	l.olderBytes += l.size
	if err := l.create(next); err != nil {
		return err
	}
	return before.Close()
}

// create makes an empty segment durable and makes it the last one.
func (l *Log) create(number uint64) error {
	salt := newSalt()
	f, err := l.fs.OpenFile(l.path(segmentName(number)), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	_, err = f.Write(header(kindSegment, number, salt))
	if err == nil {
		err = f.Sync()
	}
	// Without the directory's sync a power cut could take the name away, together with all
	// batches that were acknowledged in the file.
	if err == nil {
		err = l.fs.SyncDir(l.dir)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("journal: %w", err), f.Close())
	}
	l.file, l.salt, l.size = f, salt, headerSize
	l.segments = append(l.segments, segment{number: number, size: headerSize})
	return nil
}

// Close closes the log and releases its lock. Records appended since the last Sync
// may be lost.
func (l *Log) Close() error {
	var err error
	if l.file != nil {
		err = l.file.Close()
	}
	if l.failed == nil {
		l.failed = fmt.Errorf("journal: %w", fs.ErrClosed)
	}
	return errors.Join(err, l.lock.Close())
}
