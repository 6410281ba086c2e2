package worker

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/slotwise/slotwise/internal/job"
)

// logFile is what a running attempt prints, bounded: when the file has half the
// limit it becomes the old one, in place of an older, and a new one begins. So
// at least the newest half is there.
type logFile struct {
	path string
	half int64
	mu   struct {
		sync.Mutex
		file    *os.File
		start   int64         // where file begins in all that was printed
		old     int64         // where the old file begins; start if there is none
		end     int64         // bytes printed
		changed chan struct{} // closed and replaced when there is more
		closed  bool
		err     error // of writing: the rest is dropped
	}
}

func newLog(path string, limit int64) (*logFile, error) {
	l := &logFile{path: path, half: max(1, limit/2)}
	_ = os.Remove(path + ".old") // of an attempt with the same name, long ago
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	l.mu.file, l.mu.changed = f, make(chan struct{})
	return l, nil
}

// Write never fails: an attempt must not die of a full disk of logs.
func (l *logFile) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(b)
	for len(b) > 0 && l.mu.err == nil && !l.mu.closed {
		room := l.half - (l.mu.end - l.mu.start)
		if room <= 0 {
			l.mu.err = l.rotateLocked()
			continue
		}
		k := min(int64(len(b)), room)
		var w int
		w, l.mu.err = l.mu.file.Write(b[:k])
		l.mu.end += int64(w)
		b = b[w:]
	}
	close(l.mu.changed)
	l.mu.changed = make(chan struct{})
	return n, nil
}

func (l *logFile) rotateLocked() error {
	if err := l.mu.file.Close(); err != nil {
		return err
	}
	if err := os.Rename(l.path, l.path+".old"); err != nil {
		return err
	}
	f, err := os.Create(l.path)
	l.mu.file, l.mu.old, l.mu.start = f, l.mu.start, l.mu.end
	return err
}

// Close ends the log; followers get the rest and their end.
func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		return nil
	}
	l.mu.closed = true
	close(l.mu.changed)
	return l.mu.file.Close()
}

// next reads what was printed from an offset on. If that is gone it begins
// where the oldest part does. more is what to wait for, nil at the end.
func (l *logFile) next(at int64, b []byte) (n int, from int64, more <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at = max(at, l.mu.old)
	if at >= l.mu.end {
		if l.mu.closed {
			return 0, at, nil, nil
		}
		return 0, at, l.mu.changed, nil
	}
	path, start, end := l.path, l.mu.start, l.mu.end
	if at < l.mu.start {
		path, start, end = l.path+".old", l.mu.old, l.mu.start
	}
	f, err := os.Open(path)
	if err != nil {
		return 0, at, nil, err
	}
	defer f.Close()
	n, err = f.ReadAt(b[:min(int64(len(b)), end-at)], at-start)
	if errors.Is(err, io.EOF) && n > 0 {
		err = nil
	}
	return n, at, l.mu.changed, err
}

// copyTo writes the log to w, with follow until it ends. sent is called after
// each piece.
func (l *logFile) copyTo(ctx context.Context, w io.Writer, follow bool, sent func()) error {
	b := make([]byte, 32<<10)
	at := int64(0)
	for {
		n, from, more, err := l.next(at, b)
		if err != nil {
			return err
		}
		if n > 0 {
			if _, err := w.Write(b[:n]); err != nil {
				return err
			}
			at = from + int64(n)
			sent()
			continue
		}
		if more == nil || !follow {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil
		}
	}
}

// tail returns the end of the log in one line, for messages.
func (l *logFile) tail(n int64) string {
	l.mu.Lock()
	at := max(l.mu.old, l.mu.end-n)
	l.mu.Unlock()
	var s strings.Builder
	b := make([]byte, n)
	for {
		k, from, _, err := l.next(at, b)
		if k == 0 || err != nil {
			break
		}
		s.Write(b[:k])
		at = from + int64(k)
	}
	return strings.Join(strings.FieldsFunc(s.String(), func(r rune) bool { return r == '\n' || r == '\r' }), " | ")
}

// logPath is where an attempt's log lies.
func (h *home) logPath(id job.AttemptID) string { return filepath.Join(h.logs(), id.String()+".log") }

// copyLog writes the log of an attempt that has ended, perhaps long ago.
func (h *home) copyLog(id job.AttemptID, w io.Writer) error {
	found := false
	for _, path := range []string{h.logPath(id) + ".old", h.logPath(id)} {
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		found = true
		_, err = io.Copy(w, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	if !found {
		return fs.ErrNotExist
	}
	return nil
}

// trimLogs removes the oldest logs until the rest is small enough.
func (h *home) trimLogs(limit int64, running func(name string) bool) error {
	entries, err := os.ReadDir(h.logs())
	if err != nil {
		return err
	}
	var files []fs.FileInfo
	var total int64
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			files = append(files, info)
			total += info.Size()
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), strings.Compare(a.Name(), b.Name()))
	})
	for _, f := range files {
		name, _, _ := strings.Cut(f.Name(), ".")
		if total <= limit {
			break
		}
		if running(name) {
			continue
		}
		if err := os.Remove(filepath.Join(h.logs(), f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		total -= f.Size()
	}
	return nil
}
