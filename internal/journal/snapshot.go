package journal

import (
	"errors"
	"fmt"
	"iter"
	"os"

	"github.com/slotwise/slotwise/internal/durable"
)

// Snapshot replaces everything appended so far by records. After a crash either the
// snapshot counts or the segments it replaces. If records yields an error, Snapshot
// returns it, and nothing is replaced.
//
// The steps are ordered so that no crash can lose records:
//
//  1. Sync;
//  2. write the snapshot to a temporary file and flush it;
//  3. begin the next segment;
//  4. rename the snapshot to its final name and flush the directory;
//  5. remove the files that it replaces.
//
// An error in step 2, of records or of a full disk, leaves the log usable. After an error in
// another step before 5 the log refuses further calls, like after a failed Sync.
func (l *Log) Snapshot(records iter.Seq2[[]byte, error]) error {
	if err := l.Sync(); err != nil {
		return err
	}
	next := l.segments[len(l.segments)-1].number + 1
	temp := l.path(snapshotName(next) + tempSuffix)
	if err := l.writeSnapshot(temp, next, records); err != nil {
		return errors.Join(err, ignoreMissing(l.fs.Remove(temp)))
	}
	// After an error from here on only Open can find out which files the disk has.
	if l.failed = l.rotate(); l.failed != nil {
		return l.failed
	}
	err := l.fs.Rename(temp, l.path(snapshotName(next)))
	if err == nil {
		err = l.fs.SyncDir(l.dir)
	}
	if err != nil {
		l.failed = fmt.Errorf("journal: %w", err)
		return l.failed
	}
	return l.removeReplaced(next)
}

// removeReplaced removes the files that the snapshot with number next replaces. A
// file that cannot be removed is harmless: the next Open removes it.
func (l *Log) removeReplaced(next uint64) error {
	var errs []error
	if l.snapshot {
		errs = append(errs, l.fs.Remove(l.path(snapshotName(l.base))))
	}
	for _, s := range l.segments[:len(l.segments)-1] {
		errs = append(errs, l.fs.Remove(l.path(segmentName(s.number))))
	}
	l.segments = l.segments[len(l.segments)-1:]
	l.base, l.snapshot, l.olderBytes = next, true, 0
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("journal: the snapshot is complete, but an older file could not be removed: %w", err)
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// writeSnapshot writes a snapshot to a temporary file and flushes it. An empty batch
// marks its end; no other batch is empty.
func (l *Log) writeSnapshot(path string, number uint64, records iter.Seq2[[]byte, error]) (err error) {
	f, err := l.fs.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
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
	if w.flush(); w.err == nil {
		w.write(appendBatch(nil, nil, w.salt, w.size))
	}
	if w.err == nil {
		w.err = f.Sync()
	}
	if w.err != nil {
		return fmt.Errorf("journal: snapshot: %w", w.err)
	}
	return nil
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
