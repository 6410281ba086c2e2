package journal

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
)

// recover finds out what counts, checks it, cuts off a torn end and removes what
// an interrupted snapshot has left.
func (l *Log) recover() error {
	names, err := l.fs.ReadDir(l.dir)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	var logs, stale []string
	l.base = 1
	for _, name := range names {
		if n, ok := numberOf(name, "snapshot-"); ok && n >= l.base {
			l.base, l.snapshot = n, true
		}
	}
	for _, name := range names {
		log, isLog := numberOf(name, "log-")
		snap, isSnap := numberOf(name, "snapshot-")
		switch {
		case isLog && log >= l.base:
			logs = append(logs, name)
		case isLog, isSnap && snap < l.base, strings.HasSuffix(name, ".tmp"):
			stale = append(stale, name)
		}
	}
	slices.Sort(logs)
	if err := l.check(logs); err != nil {
		return err
	}
	// What an earlier process wrote and did not live to sync counts from now on,
	// names too, so it must not be lost with the machine.
	if err := errors.Join(l.file.Sync(), l.fs.SyncDir(l.dir)); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	for _, name := range stale {
		if err := l.fs.Remove(l.path(name)); err != nil {
			return fmt.Errorf("journal: %w", err)
		}
	}
	return nil
}

// check reads the files that count and opens the last segment for writing.
func (l *Log) check(logs []string) error {
	if l.snapshot {
		if err := l.checkSnapshot(); err != nil {
			return err
		}
	}
	for i, name := range logs {
		if n, _ := numberOf(name, "log-"); n != l.base+uint64(i) {
			return fmt.Errorf("journal: %s is missing", l.path(segmentName(l.base+uint64(i))))
		}
		if err := l.checkSegment(name, l.base+uint64(i), i == len(logs)-1); err != nil {
			return err
		}
	}
	switch {
	case len(logs) > 0:
		return nil
	case l.snapshot:
		return fmt.Errorf("journal: %s is missing", l.path(segmentName(l.base)))
	}
	return l.create(1)
}

// checkSegment finds out how far a segment is whole. Only the last may be torn.
func (l *Log) checkSegment(name string, number uint64, last bool) error {
	f, err := l.fs.OpenFile(l.path(name), os.O_RDWR)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	size, err := f.Size()
	if err != nil {
		return errors.Join(fmt.Errorf("journal: %w", err), f.Close())
	}
	if last && size <= headerSize {
		if _, err := readHeader(f, kindSegment, number, size); errors.Is(err, errBad) {
			return errors.Join(f.Close(), l.create(number)) // it was being made
		}
	}
	salt, end, err := l.whole(f, number, size)
	switch {
	case err != nil:
	case end < size && last:
		err = l.cutOff(f, number, end, size)
	case end < size:
		err = &DamageError{l.path(name), end, "what follows is not whole, though later segments are there"}
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.segments = append(l.segments, segment{number, end})
	if !last {
		l.since += end
		return f.Close()
	}
	l.file, l.salt, l.size = f, salt, end
	return f.SeekEnd()
}

// DamageError is that a file of the journal is not what was written and no crash
// explains it.
type DamageError struct {
	File   string
	Offset int64
	What   string
}

// Error says it in words.
func (e *DamageError) Error() string {
	return fmt.Sprintf("journal: %s is damaged at offset %d: %s", e.File, e.Offset, e.What)
}

// whole returns a segment's salt and up to where it consists of whole batches. It
// is a DamageError if something written later follows a batch that is not whole.
func (l *Log) whole(f File, number uint64, size int64) (salt uint64, end int64, err error) {
	name := l.path(segmentName(number))
	if salt, err = readHeader(f, kindSegment, number, size); err != nil {
		return 0, 0, l.blame(name, 0, err)
	}
	var buf []byte
	for end = headerSize; end < size; end += batchSize + int64(len(buf)) {
		if buf, err = readBatch(f, salt, end, size, buf); err != nil {
			break
		}
		if !wellFormed(buf) {
			return 0, 0, &DamageError{name, end, "records of impossible length"}
		}
	}
	if err == nil || !errors.Is(err, errBad) {
		return salt, end, l.blame(name, end, err)
	}
	rest := make([]byte, size-end)
	if err := readFull(f, rest, end); err != nil {
		return 0, 0, l.blame(name, end, err)
	}
	for i := 1; i < len(rest); i++ {
		if _, ok := headAt(rest[i:], salt, end+int64(i)); ok {
			return 0, 0, &DamageError{name, end, fmt.Sprintf("what was written later, at offset %d, is still there", end+int64(i))}
		}
	}
	return salt, end, nil
}

// blame says in which file and where an error occurred, if it is one.
func (l *Log) blame(name string, offset int64, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errBad):
		return &DamageError{name, offset, "a checksum is wrong or something is missing"}
	}
	return fmt.Errorf("journal: %s: %w", name, err)
}

func wellFormed(b []byte) bool {
	for len(b) > 0 {
		_, rest, ok := nextRecord(b)
		if !ok {
			return false
		}
		b = rest
	}
	return true
}

// cutOff makes a segment end where it is whole, durably.
func (l *Log) cutOff(f File, number uint64, end, size int64) error {
	err := f.Truncate(end)
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	l.cut = &Cut{l.path(segmentName(number)), end, size - end}
	return nil
}

// Replay yields the records that were there when the log was opened: those of the
// snapshot, then those appended since. It is to be called before anything is
// appended. A record is valid until the next is drawn. An error ends it.
func (l *Log) Replay() iter.Seq2[[]byte, error] {
	segments := slices.Clone(l.segments)
	base, snapshot := l.base, l.snapshot
	return func(yield func([]byte, error) bool) {
		if snapshot && !l.replayFile(snapshotName(base), kindSnap, base, -1, yield) {
			return
		}
		for _, s := range segments {
			if !l.replayFile(segmentName(s.number), kindSegment, s.number, s.size, yield) {
				return
			}
		}
	}
}

// replayFile yields the records of a file up to a size, or with -1 of all of it,
// and reports whether to go on.
func (l *Log) replayFile(name string, kind byte, number uint64, size int64, yield func([]byte, error) bool) bool {
	f, err := l.fs.OpenFile(l.path(name), os.O_RDONLY)
	if err != nil {
		yield(nil, fmt.Errorf("journal: %w", err))
		return false
	}
	defer f.Close()
	if size < 0 {
		if size, err = f.Size(); err != nil {
			yield(nil, fmt.Errorf("journal: %w", err))
			return false
		}
	}
	salt, err := readHeader(f, kind, number, size)
	if err != nil {
		yield(nil, l.blame(l.path(name), 0, err))
		return false
	}
	var buf []byte
	for at := int64(headerSize); at < size; at += batchSize + int64(len(buf)) {
		if buf, err = readBatch(f, salt, at, size, buf); err != nil {
			yield(nil, l.blame(l.path(name), at, err))
			return false
		}
		for b := buf; len(b) > 0; {
			rec, rest, ok := nextRecord(b)
			if !ok {
				yield(nil, &DamageError{l.path(name), at, "records of impossible length"})
				return false
			}
			if !yield(rec, nil) {
				return false
			}
			b = rest
		}
	}
	return true
}
