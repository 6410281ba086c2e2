// Package journal is a log of records that outlives the process: what Sync has
// returned for is there after a crash at any later point.
//
// The log lies in a directory as segments, of which the last is written to, and
// at most one snapshot, which stands for all segments before it. Records are
// opaque. docs/formats/journal.md describes the files.
//
// What holds after a crash, whatever of the unsynced bytes the disk has kept:
//
//	what was synced is replayed, in order, once
//	what was not is replayed as far as it is whole up to some point, or cut off
//	a snapshot replaces what it stands for entirely, or not at all
//
// Damage elsewhere than in the last batch is no crash's doing and is refused with
// the file and the offset.
package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Options are the settings of a log; the zero value is good.
type Options struct {
	// SegmentBytes is the size from which on a new segment is begun. Default
	// 64 MiB.
	SegmentBytes int64
	// FS is where the log lies. Default is the machine's own file system.
	FS FS
}

// DefaultSegmentBytes is the default of Options.SegmentBytes.
const DefaultSegmentBytes = 64 << 20

// MaxRecord is the length of the longest record in bytes.
const MaxRecord = 1 << 30

// Log is an open journal. It belongs to one goroutine.
type Log struct {
	fs    FS
	dir   string
	limit int64
	lock  io.Closer
	// base is the number of the first segment that counts, which is that of the
	// snapshot if there is one.
	base     uint64
	snapshot bool
	segments []segment // from base on, ascending
	file     File      // the last segment
	salt     uint64    // of the last segment
	size     int64     // of the last segment
	since    int64     // bytes in the segments before the last
	buf      []byte    // records of the batch under way
	batch    []byte    // room for the batch
	cut      *Cut
	failed   error
}

// segment is a segment as it was when the log was opened.
type segment struct {
	number uint64
	size   int64
}

// Cut says what was cut off when the log was opened: the end of a batch that was
// being written when the process or the machine died.
type Cut struct {
	File   string
	Offset int64 // where the file ends now
	Bytes  int64 // how many there were beyond
}

// String says it in words.
func (c *Cut) String() string {
	return fmt.Sprintf("%s: %d bytes of an unfinished write at offset %d were cut off", c.File, c.Bytes, c.Offset)
}

// ErrLocked is the error of opening a log that a process has open.
var ErrLocked = errors.New("another process has the journal open")

// Open opens the log in a directory, which is made if there is none. All files
// are read and checked.
func Open(dir string, opt Options) (*Log, error) {
	l := &Log{fs: opt.FS, dir: dir, limit: opt.SegmentBytes}
	if l.fs == nil {
		l.fs = osFS{}
	}
	if l.limit <= 0 {
		l.limit = DefaultSegmentBytes
	}
	if err := l.fs.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	lock, err := l.fs.Lock(l.path("lock"))
	if err != nil {
		return nil, fmt.Errorf("journal %s: %w", dir, err)
	}
	l.lock = lock
	if err := l.recover(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *Log) path(name string) string { return filepath.Join(l.dir, name) }

// Cut returns what Open had to cut off, or nil.
func (l *Log) Cut() *Cut { return l.cut }

// SinceSnapshot is how many bytes of log would be replayed after the snapshot.
func (l *Log) SinceSnapshot() int64 { return l.since + l.size }

// Append adds a record, which is durable only after Sync. It is copied. An error
// is returned by Sync.
func (l *Log) Append(rec []byte) {
	if len(rec) > MaxRecord && l.failed == nil {
		l.failed = fmt.Errorf("journal: a record of %d bytes; the longest may have %d", len(rec), MaxRecord)
	}
	if l.failed != nil {
		return
	}
	l.buf = appendRecord(l.buf, rec)
	if len(l.buf) > maxBatch {
		l.failed = l.flush()
	}
}

// Sync makes all records appended so far durable. After an error it is not known
// which are, and the log refuses everything but being closed and opened again.
func (l *Log) Sync() error {
	if l.failed == nil {
		l.failed = l.flush()
	}
	if l.failed == nil && l.size >= l.limit {
		l.failed = l.rotate()
	}
	return l.failed
}

// flush writes the records under way as one batch and syncs it. A batch is begun
// only after the one before it is durable; that is what lets Open tell a torn
// write from damage.
func (l *Log) flush() error {
	if len(l.buf) == 0 {
		return nil
	}
	l.batch = seal(l.batch[:0], l.buf, l.salt, l.size)
	l.buf = l.buf[:0]
	if _, err := l.file.Write(l.batch); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if err := l.file.Sync(); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	l.size += int64(len(l.batch))
	return nil
}

// rotate begins the next segment. The directory knows of it before anything is
// written there, so segments have no gaps.
func (l *Log) rotate() error {
	next := l.segments[len(l.segments)-1].number + 1
	before := l.file
	l.since += l.size
	if err := l.create(next); err != nil {
		return err
	}
	return before.Close()
}

// create makes an empty segment, durably, and the last one.
func (l *Log) create(number uint64) error {
	salt := newSalt()
	f, err := l.fs.OpenFile(l.path(segmentName(number)), os.O_CREATE|os.O_TRUNC|os.O_RDWR)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	_, err = f.Write(header(kindSegment, number, salt))
	if err == nil {
		err = f.Sync()
	}
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

// Close closes the log and gives its lock up. What was appended since the last
// Sync may be lost.
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
