package journal

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/slotwise/slotwise/internal/base/durable"
)

// recover brings the directory into a consistent state. It picks the newest snapshot
// and the segments from its number on, verifies them, writes the last segment anew
// without an interrupted write, and removes leftovers. All names are durable when
// it removes the files that a snapshot has replaced.
func (l *Log) recover() error {
	names, err := l.fs.ReadDir(l.dir)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	logs, replaced, unfinished := l.sort(names)
	if err := l.remove(unfinished); err != nil { // first, because the disk may be full
		return err
	}
	if err := l.check(logs); err != nil {
		return err
	}
	return l.remove(replaced)
}

// sort sets base and snapshot from the names in the directory. It returns the names of
// the segments that count, in order, of the files that the snapshot has replaced, and
// of unfinished files.
func (l *Log) sort(names []string) (logs, replaced, unfinished []string) {
	l.base, l.snapshot = 1, false
	for _, name := range names {
		if n, ok := parseNumber(name, "snapshot-"); ok && n >= l.base {
			l.base, l.snapshot = n, true
		}
	}
	for _, name := range names {
		log, isLog := parseNumber(name, "log-")
		snap, isSnap := parseNumber(name, "snapshot-")
		switch {
		case isLog && log >= l.base:
			logs = append(logs, name)
		case strings.HasSuffix(name, tempSuffix):
			unfinished = append(unfinished, name)
		case isLog, isSnap && snap < l.base:
			replaced = append(replaced, name)
		}
	}
	slices.Sort(logs)
	return logs, replaced, unfinished
}

// remove removes files of the journal's directory.
func (l *Log) remove(names []string) error {
	for _, name := range names {
		// Not synced. If a power cut brings a name back, the next Open finds and removes it again.
		if err := l.fs.Remove(l.path(name)); err != nil {
			return fmt.Errorf("journal: %w", err)
		}
	}
	return nil
}

// check verifies the snapshot and the segments, and opens the last segment for
// writing. Without any files it creates the first segment.
func (l *Log) check(logs []string) error {
	if l.snapshot {
		if err := l.checkSnapshot(); err != nil {
			return err
		}
	}
	for i, name := range logs {
		// Segments are created in order and removed only up to a snapshot, so no crash leaves a
		// gap.
		if n, _ := parseNumber(name, "log-"); n != l.base+uint64(i) {
			return fmt.Errorf("journal: %s is missing", l.path(segmentName(l.base+uint64(i))))
		}
		if err := l.checkSegment(name, l.base+uint64(i), i == len(logs)-1); err != nil {
			return err
		}
	}
	switch {
	case len(logs) > 0:
		return nil
	// The segment with the snapshot's number was durable before the snapshot was begun.
	case l.snapshot:
		return fmt.Errorf("journal: %s is missing", l.path(segmentName(l.base)))
	}
	return l.create(1)
}

// checkSegment verifies a segment, and writes the last one anew. Only the last segment
// may end in an incomplete batch, which is cut off.
func (l *Log) checkSegment(name string, number uint64, last bool) error {
	f, err := l.fs.OpenFile(l.path(name), os.O_RDONLY, 0)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	size, err := f.Size()
	if err != nil {
		return errors.Join(fmt.Errorf("journal: %w", err), f.Close())
	}
	if last && size <= headerSize {
		if _, err := readHeader(f, kindSegment, number, size); errors.Is(err, errTorn) {
			return errors.Join(f.Close(), l.create(number)) // a crash interrupted create
		}
	}
	salt, end, err := l.wholePrefix(f, number, size)
	switch {
	case err != nil:
	case last:
		if end < size {
			l.cut = &Cut{l.path(name), end, size - end}
		}
		err = l.rewrite(f, number, salt, end)
	// The next segment begins only after the last batch of this one was flushed.
	case end < size:
		err = &DamageError{l.path(name), end, "a batch is incomplete, although later segments exist"}
	default:
		l.segments = append(l.segments, segment{number, end})
		l.olderBytes += end
	}
	return errors.Join(err, f.Close())
}

// rewrite replaces the last segment by a copy of its first end bytes, under a new salt,
// and opens the copy for writing.
//
// It is not enough to sync the segment again. An earlier process may have ended because
// a sync of its last batch had failed. The system then returns the batch to readers
// and has forgotten that the disk does not have it, so another sync succeeds and
// writes nothing. The copy is written as a whole, and the old file stays until then.
func (l *Log) rewrite(old durable.File, number, salt uint64, end int64) error {
	path := l.path(segmentName(number))
	temp := path + tempSuffix
	f, err := l.fs.OpenFile(temp, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	fresh := newSalt()
	err = copyBatches(f, old, number, salt, fresh, end)
	if err == nil {
		err = f.Sync()
	}
	// The rename comes after the sync: a crash must find the old segment or a complete new one
	// under the name.
	if err == nil {
		err = l.fs.Rename(temp, path)
	}
	if err == nil {
		err = l.fs.SyncDir(l.dir)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("journal: writing %s anew: %w", path, err), f.Close())
	}
	l.segments = append(l.segments, segment{number, end})
	l.file, l.salt, l.size = f, fresh, end
	return nil
}

// copyBatches writes a segment's header and its batches up to end with another salt.
func copyBatches(to io.Writer, from io.ReaderAt, number, salt, fresh uint64, end int64) error {
	if _, err := to.Write(header(kindSegment, number, fresh)); err != nil {
		return err
	}
	var buf, batch []byte
	for at := int64(headerSize); at < end; at += int64(len(batch)) {
		var err error
		if buf, err = readBatch(from, salt, at, end, buf); err != nil {
			return err
		}
		// At the same offset, so all lengths and positions stay, and the copy has the size of the prefix.
		batch = appendBatch(batch[:0], buf, fresh, at)
		if _, err := to.Write(batch); err != nil {
			return err
		}
	}
	return nil
}

// DamageError reports that a file has changed on the disk after it was written, in a way
// that no crash explains. The operator must restore the file or move the journal away.
type DamageError struct {
	File   string
	Offset int64
	What   string
}

// Error implements error.
func (e *DamageError) Error() string {
	return fmt.Sprintf("journal: %s is damaged at offset %d: %s", e.File, e.Offset, e.What)
}

// wholePrefix returns a segment's salt and the length of its prefix of complete
// batches. If a batch's head follows later in the file, the incomplete batch was
// durable once, since batches are written one after the other. Then it returns a
// *DamageError.
func (l *Log) wholePrefix(f durable.File, number uint64, size int64) (salt uint64, end int64, err error) {
	name := l.path(segmentName(number))
	if salt, err = readHeader(f, kindSegment, number, size); err != nil {
		return 0, 0, l.inFile(name, 0, err)
	}
	var buf []byte
	for end = headerSize; end < size; end += batchSize + int64(len(buf)) {
		if buf, err = readBatch(f, salt, end, size, buf); err != nil {
			break
		}
		// The checksum is right, so the bytes were written like this. Cutting them off as an
		// interrupted write would lose records that were acknowledged.
		if !wellFormed(buf) {
			return 0, 0, &DamageError{name, end, "the lengths of the records exceed the batch"}
		}
	}
	if err == nil || !errors.Is(err, errTorn) {
		return salt, end, l.inFile(name, end, err)
	}
	// At most a batch and a segment. Only a torn end gets here.
	rest := make([]byte, size-end)
	if err := readFull(f, rest, end); err != nil {
		return 0, 0, l.inFile(name, end, err)
	}
	// The length of the damaged batch cannot be trusted, so the next head may begin at any
	// byte. The head's checksum covers its offset, so a chance match is as unlikely as a
	// collision.
	for i := 1; i < len(rest); i++ {
		if _, ok := parseHead(rest[i:], salt, end+int64(i)); ok {
			return 0, 0, &DamageError{name, end, fmt.Sprintf("the batch is incomplete, although a later batch follows at offset %d", end+int64(i))}
		}
	}
	return salt, end, nil
}

// inFile adds the file and the offset to an error; nil stays nil.
func (l *Log) inFile(name string, offset int64, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errTorn):
		return &DamageError{name, offset, "a checksum is wrong or bytes are missing"}
	}
	return fmt.Errorf("journal: %s: %w", name, err)
}

// wellFormed reports whether b consists of complete records.
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

// Replay yields the records of the journal as Open found it: first the snapshot's,
// then the segments'. Call it before the first Append. A record is valid until the
// next one is yielded. After an error Replay yields nothing more.
func (l *Log) Replay() iter.Seq2[[]byte, error] {
	// Cloned, because the iterator may run after a compaction has changed the list.
	return l.replay(l.base, l.snapshot, slices.Clone(l.segments))
}

// current yields the records that the log has now, without the ones that were appended after the
// last Sync.
func (l *Log) current() iter.Seq2[[]byte, error] {
	segments := slices.Clone(l.segments)
	segments[len(segments)-1].size = l.size
	return l.replay(l.base, l.snapshot, segments)
}

// replay yields the records of a snapshot, if there is one, and of segments.
func (l *Log) replay(base uint64, snapshot bool, segments []segment) iter.Seq2[[]byte, error] {
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

// replayFile yields the records in the first size bytes of a file; size -1 means the
// whole file. It returns false if the replay must end.
func (l *Log) replayFile(name string, kind byte, number uint64, size int64, yield func([]byte, error) bool) bool {
	f, err := l.fs.OpenFile(l.path(name), os.O_RDONLY, 0)
	if err != nil {
		yield(nil, fmt.Errorf("journal: %w", err))
		return false
	}
	defer f.Close()
	// Only segments have a recorded size: Open may have cut off the end of the last one. A
	// snapshot is complete or refused.
	if size < 0 {
		if size, err = f.Size(); err != nil {
			yield(nil, fmt.Errorf("journal: %w", err))
			return false
		}
	}
	salt, err := readHeader(f, kind, number, size)
	if err != nil {
		yield(nil, l.inFile(l.path(name), 0, err))
		return false
	}
	var buf []byte
	for at := int64(headerSize); at < size; at += batchSize + int64(len(buf)) {
		// Verified again although Open has done so: a compaction may read the file days later.
		if buf, err = readBatch(f, salt, at, size, buf); err != nil {
			yield(nil, l.inFile(l.path(name), at, err))
			return false
		}
		for b := buf; len(b) > 0; {
			rec, rest, ok := nextRecord(b)
			if !ok {
				yield(nil, &DamageError{l.path(name), at, "the lengths of the records exceed the batch"})
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
