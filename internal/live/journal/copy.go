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

// copyTries limits how often Copy begins again because the journal's files change.
const copyTries = 20

// Copy reads the journal in dir, which another process may have open, and calls add with
// the name, size and content of each file of a consistent copy. The copy equals the
// journal after a power cut at this moment: all records that were durable when Copy
// began, and perhaps later ones up to some point. Copy verifies all checksums. It leaves
// out a batch that is being written.
//
// All files are open before the first one is read. So a snapshot that replaces them
// meanwhile takes nothing away.
func Copy(files durable.FS, dir string, add func(name string, size int64, content io.Reader) error) error {
	// Without the lock, which the running master holds: a copy only reads.
	l := &Log{fs: files, dir: dir}
	for try := 1; ; try++ {
		open, err := l.openAll()
		if errors.Is(err, fs.ErrNotExist) && try < copyTries {
			continue // a snapshot has replaced a file since it was listed
		}
		if err == nil {
			err = l.copyAll(open, add)
		}
		for _, f := range open {
			err = errors.Join(err, f.Close())
		}
		return err
	}
}

// openAll opens the snapshot, if there is one, and the segments, in this order. After
// an error it returns the files that it has opened.
func (l *Log) openAll() (open []durable.File, err error) {
	names, err := l.fs.ReadDir(l.dir)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	logs, _, _ := l.sort(names)
	if len(logs) == 0 {
		return nil, fmt.Errorf("journal: %s holds no segments: %w", l.dir, fs.ErrNotExist)
	}
	// A compaction that removed files while the directory was listed leaves such a gap. Copy
	// then begins again.
	for i, name := range logs {
		if want := segmentName(l.base + uint64(i)); name != want {
			return nil, fmt.Errorf("journal: %s is missing: %w", l.path(want), fs.ErrNotExist)
		}
	}
	if l.snapshot {
		logs = append([]string{snapshotName(l.base)}, logs...)
	}
	for _, name := range logs {
		f, err := l.fs.OpenFile(l.path(name), os.O_RDONLY, 0)
		if err != nil {
			for _, f := range open {
				err = errors.Join(err, f.Close())
			}
			return nil, fmt.Errorf("journal: %w", err)
		}
		open = append(open, f)
	}
	return open, nil
}

// copyAll verifies the open files and calls add with each.
func (l *Log) copyAll(open []durable.File, add func(name string, size int64, content io.Reader) error) error {
	if l.snapshot {
		size, err := l.wholeSnapshot(open[0], l.base)
		if err == nil {
			err = add(snapshotName(l.base), size, io.NewSectionReader(open[0], 0, size))
		}
		if err != nil {
			return err
		}
		open = open[1:]
	}
	for i, f := range open {
		number := l.base + uint64(i)
		size, err := f.Size()
		if err != nil {
			return fmt.Errorf("journal: %w", err)
		}
		// The log creates the file first and then writes its header, so a copy may see it without.
		if i > 0 && i == len(open)-1 && size <= headerSize {
			if _, err := readHeader(f, kindSegment, number, size); errors.Is(err, errTorn) {
				break // it is being created
			}
		}
		// size was taken before the read: batches that are appended meanwhile belong to the next copy.
		_, end, err := l.wholePrefix(f, number, size)
		// A batch that is being written can be in the last segment only.
		if err == nil && end < size && i < len(open)-1 {
			err = &DamageError{l.path(segmentName(number)), end, "a batch is incomplete, although later segments exist"}
		}
		if err == nil {
			err = add(segmentName(number), end, io.NewSectionReader(f, 0, end))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// IsFile reports whether a name is the name of a segment or of a snapshot.
func IsFile(name string) bool {
	_, log := parseNumber(name, "log-")
	_, snapshot := parseNumber(name, "snapshot-")
	return (log || snapshot) && name == filepath.Base(name)
}
