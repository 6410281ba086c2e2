package journal

import (
	"errors"
	"fmt"
	"iter"
	"os"
)

// Snapshot makes records stand for everything appended so far, which it makes
// durable first. It is there entirely or not at all. If it cannot be written the
// log is as it was and goes on, unless Sync says otherwise from then on.
func (l *Log) Snapshot(records iter.Seq[[]byte]) error {
	if err := l.Sync(); err != nil {
		return err
	}
	next := l.segments[len(l.segments)-1].number + 1
	temp := l.path(snapshotName(next) + ".tmp")
	if err := l.writeSnapshot(temp, next, records); err != nil {
		return errors.Join(err, ignoreMissing(l.fs.Remove(temp)))
	}
	// From here on a failure leaves it open what is on disk, until the log is
	// opened again.
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
	return l.forget(next)
}

// forget removes what the snapshot of a number stands for. What cannot be removed
// does no harm and goes when the log is opened.
func (l *Log) forget(next uint64) error {
	var errs []error
	if l.snapshot {
		errs = append(errs, l.fs.Remove(l.path(snapshotName(l.base))))
	}
	for _, s := range l.segments[:len(l.segments)-1] {
		errs = append(errs, l.fs.Remove(l.path(segmentName(s.number))))
	}
	l.segments = l.segments[len(l.segments)-1:]
	l.base, l.snapshot, l.since = next, true, 0
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("journal: the snapshot is made, but: %w", err)
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// writeSnapshot writes a whole snapshot aside. Its last batch is empty, which no
// other is.
func (l *Log) writeSnapshot(path string, number uint64, records iter.Seq[[]byte]) (err error) {
	f, err := l.fs.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_RDWR)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := &snapshotWriter{f: f, salt: newSalt()}
	w.write(header(kindSnap, number, w.salt))
	for rec := range records {
		if len(rec) > MaxRecord {
			w.err = fmt.Errorf("a record of %d bytes; the longest may have %d", len(rec), MaxRecord)
		}
		if w.err != nil {
			break
		}
		w.add(rec)
	}
	if w.flush(); w.err == nil {
		w.write(seal(nil, nil, w.salt, w.size))
	}
	if w.err == nil {
		w.err = f.Sync()
	}
	if w.err != nil {
		return fmt.Errorf("journal: snapshot: %w", w.err)
	}
	return nil
}

// snapshotWriter gathers records to batches. After an error it does nothing.
type snapshotWriter struct {
	f       File
	salt    uint64
	size    int64
	records []byte
	batch   []byte
	err     error
}

func (w *snapshotWriter) add(rec []byte) {
	if w.records = appendRecord(w.records, rec); len(w.records) >= maxBatch/4 {
		w.flush()
	}
}

func (w *snapshotWriter) flush() {
	if len(w.records) > 0 {
		w.batch = seal(w.batch[:0], w.records, w.salt, w.size)
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

// checkSnapshot reads the snapshot and makes sure that it is whole: it was renamed
// only after it was durable.
func (l *Log) checkSnapshot() error {
	name := l.path(snapshotName(l.base))
	f, err := l.fs.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	salt, err := readHeader(f, kindSnap, l.base, size)
	if err != nil {
		return l.blame(name, 0, err)
	}
	var buf []byte
	for at := int64(headerSize); ; at += batchSize + int64(len(buf)) {
		buf, err = readBatch(f, salt, at, size, buf)
		switch {
		case err != nil:
			return l.blame(name, at, err)
		case !wellFormed(buf):
			return &DamageError{name, at, "records of impossible length"}
		case len(buf) == 0 && at+batchSize != size:
			return &DamageError{name, at + batchSize, "something follows the end"}
		case len(buf) == 0:
			return nil
		}
	}
}
