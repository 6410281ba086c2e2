package journal

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"

	"github.com/slotwise/slotwise/internal/base/durable"
)

// Compaction replaces the records that the journal had when Log.Begin returned it by a
// snapshot, while the log accepts further records. After a crash either the snapshot
// counts or the files that it replaces.
//
// The steps are ordered so that no crash can lose records:
//
//  1. Begin syncs the log and begins the next segment, so the records to replace are in
//     files that are closed;
//  2. Write writes the snapshot to a temporary file and flushes it;
//  3. Write renames the snapshot to its final name and flushes the directory;
//  4. End makes the log forget the files that the snapshot replaces;
//  5. Remove removes these files. Not before End: the owner may read the log at any moment until then.
//
// The owner of the log calls Begin and End. Any goroutine may call Records, Write and Remove.
type Compaction struct {
	log      *Log      // only for its directory
	next     uint64    // number of the snapshot, and of the first segment that it does not replace
	base     uint64    // number of the snapshot that is replaced
	snapshot bool      // there is such a snapshot
	segments []segment // that are replaced

	published bool  // the snapshot has its final name
	fatal     error // it is unknown which files the disk has
}

// errCompacting reports that a compaction is under way.
var errCompacting = errors.New("journal: a snapshot is being written already")

// Begin begins a compaction of all records that were appended so far. End must follow
// before the next Begin. After an error the log refuses further calls, like after a
// failed Sync.
func (l *Log) Begin() (*Compaction, error) {
	if l.compacting {
		return nil, errors.Join(l.Sync(), errCompacting)
	}
	next, err := l.split()
	if err != nil {
		return nil, err
	}
	return l.beginAt(next), nil
}

// split makes all records durable and begins the next segment, whose number it returns.
func (l *Log) split() (next uint64, err error) {
	if err := l.Sync(); err != nil {
		return 0, err
	}
	// A compaction that failed may have left an empty segment.
	// With one segment and without another one, the snapshot would have the number of the present snapshot and replace
	// nothing. So a segment begins even if the last one is empty.
	if len(l.segments) == 1 || l.size > headerSize {
		if l.failed = l.rotate(); l.failed != nil {
			return 0, l.failed
		}
	}
	return l.segments[len(l.segments)-1].number, nil
}

// beginAt begins a compaction of the segments before next, a result of split since the last
// compaction. No other compaction may be under way.
func (l *Log) beginAt(next uint64) *Compaction {
	l.compacting = true
	n := int(next - l.segments[0].number)
	return &Compaction{log: l, next: next, base: l.base, snapshot: l.snapshot, segments: slices.Clone(l.segments[:n])}
}

// Records yields the records that the snapshot replaces, in order. A record is valid
// until the next one is yielded. After an error Records yields nothing more.
func (c *Compaction) Records() iter.Seq2[[]byte, error] {
	return c.log.replay(c.base, c.snapshot, c.segments)
}

// Write writes the snapshot and returns its size in bytes. If records yields an error, Write returns it, and
// nothing is replaced.
func (c *Compaction) Write(records iter.Seq2[[]byte, error]) (int64, error) {
	l := c.log
	temp := l.path(snapshotName(c.next) + tempSuffix)
	size, err := l.writeSnapshot(temp, c.next, records)
	if err != nil {
		return 0, errors.Join(err, ignoreMissing(l.fs.Remove(temp)))
	}
	err = l.fs.Rename(temp, l.path(snapshotName(c.next)))
	if err == nil {
		err = l.fs.SyncDir(l.dir)
	}
	// It is unknown whether the rename has reached the disk. The old files and the snapshot
	// stay, and opening the log again decides which of the two count.
	if err != nil {
		c.fatal = fmt.Errorf("journal: %w", err)
		return 0, c.fatal
	}
	c.published = true
	return size, nil
}

// Remove removes the files that a snapshot has replaced, after End. It does nothing if Write has failed. A file that
// cannot be removed is harmless: the next Open removes it.
func (c *Compaction) Remove() error {
	if !c.published {
		return nil
	}
	var errs []error
	if c.snapshot {
		errs = append(errs, c.log.fs.Remove(c.log.path(snapshotName(c.base))))
	}
	for _, s := range c.segments {
		errs = append(errs, c.log.fs.Remove(c.log.path(segmentName(s.number))))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("journal: an older file could not be removed: %w", err)
	}
	return nil
}

// End ends a compaction after Write has returned, or without Write. Remove should follow. If it is unknown
// whether the snapshot has its name, the log refuses further calls, and Open finds out.
// After another error of Write nothing is replaced.
func (l *Log) End(c *Compaction) {
	l.compacting = false
	if l.failed == nil {
		l.failed = c.fatal
	}
	// The files that should have been replaced still count.
	if !c.published {
		return
	}
	for _, s := range c.segments {
		l.olderBytes -= s.size
	}
	l.segments = slices.Delete(l.segments, 0, len(c.segments))
	l.base, l.snapshot = c.next, true
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// writeSnapshot writes a snapshot to a temporary file, flushes it and returns its size. An
// empty batch marks its end; no other batch is empty.
func (l *Log) writeSnapshot(path string, number uint64, records iter.Seq2[[]byte, error]) (size int64, err error) {
	f, err := l.fs.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return 0, fmt.Errorf("journal: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := &snapshotWriter{f: f, salt: newSalt()}
	w.write(header(kindSnap, number, w.salt))
	for rec, err := range records {
		if err == nil && len(rec) > MaxRecord {
			err = fmt.Errorf("a record of %d bytes exceeds the limit of %d bytes", len(rec), MaxRecord)
		}
		if w.err == nil {
			w.err = err
		}
		if w.err != nil {
			break
		}
		w.add(rec)
	}
	// The end mark makes a file that was cut off at a batch's end recognisable.
	if w.flush(); w.err == nil {
		w.write(appendBatch(nil, nil, w.salt, w.size))
	}
	if w.err == nil {
		w.err = f.Sync()
	}
	if w.err != nil {
		return 0, fmt.Errorf("journal: snapshot: %w", w.err)
	}
	return w.size, nil
}

// snapshotWriter collects records into batches of about maxBatch/4. After an error
// its methods do nothing.
type snapshotWriter struct {
	f       durable.File
	salt    uint64
	size    int64  // bytes written
	records []byte // not written yet
	batch   []byte // reused to encode a batch
	err     error  // the first error
}

func (w *snapshotWriter) add(rec []byte) {
	if w.records = appendRecord(w.records, rec); len(w.records) >= maxBatch/4 {
		w.flush()
	}
}

func (w *snapshotWriter) flush() {
	if len(w.records) > 0 {
		w.batch = appendBatch(w.batch[:0], w.records, w.salt, w.size)
		w.records = w.records[:0]
		w.write(w.batch)
	}
}

func (w *snapshotWriter) write(b []byte) {
	if w.err == nil {
		_, w.err = w.f.Write(b)
		w.size += int64(len(b))
	}
}

// checkSnapshot verifies the snapshot.
func (l *Log) checkSnapshot() error {
	f, err := l.fs.OpenFile(l.path(snapshotName(l.base)), os.O_RDONLY, 0)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	_, err = l.wholeSnapshot(f, l.base)
	return errors.Join(err, f.Close())
}

// wholeSnapshot verifies a snapshot and returns its size. It must be complete, because
// it received its name only after it was durable.
func (l *Log) wholeSnapshot(f durable.File, number uint64) (int64, error) {
	name := l.path(snapshotName(number))
	size, err := f.Size()
	if err != nil {
		return 0, fmt.Errorf("journal: %w", err)
	}
	salt, err := readHeader(f, kindSnap, number, size)
	if err != nil {
		return 0, l.inFile(name, 0, err)
	}
	var buf []byte
	for at := int64(headerSize); ; at += batchSize + int64(len(buf)) {
		buf, err = readBatch(f, salt, at, size, buf)
		switch {
		case err != nil:
			return 0, l.inFile(name, at, err)
		case !wellFormed(buf):
			return 0, &DamageError{name, at, "the lengths of the records exceed the batch"}
		case len(buf) == 0 && at+batchSize != size:
			return 0, &DamageError{name, at + batchSize, "bytes follow the final batch"}
		case len(buf) == 0:
			return size, nil
		}
	}
}
