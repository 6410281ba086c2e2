package worker

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// logFile is the bounded log of a running attempt. When the file reaches half the
// limit it replaces the .old file and a new file begins. So at least the newest
// half of limit bytes is always there. Positions count bytes since the attempt's
// first output. An attempt that prints nothing has no file, since making one takes longer
// than many a task.
type logFile struct {
	home *home
	name string // of the attempt or driver
	path string
	half int64
	mu   struct {
		sync.Mutex
		file    *os.File      // nil before the first output
		start   int64         // position of the first byte of file
		old     int64         // position of the first byte of the .old file; start if there is none
		end     int64         // bytes written
		changed chan struct{} // closed and replaced at each write
		closed  bool
		err     error // of a write; output after it is dropped
	}
}

// newLog begins the log, of at most limit bytes, of an attempt or driver. A log of an
// earlier one with the same name is removed.
func (h *home) newLog(name string, limit int64) (*logFile, error) {
	// A log of the same name belongs to a former master's job of the same number.
	l := &logFile{home: h, name: name, path: h.logPath(name), half: max(1, limit/2)}
	for _, path := range []string{l.path + ".old", l.path} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	h.silent.remove(name)
	l.mu.changed = make(chan struct{})
	return l, nil
}

// Write implements io.Writer. It never returns an error, because a full disk must not
// fail the attempt: it drops output instead.
func (l *logFile) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(b)
	// closed, because a process that the attempt left behind may still print.
	if l.mu.file == nil && n > 0 && l.mu.err == nil && !l.mu.closed {
		l.mu.file, l.mu.err = os.Create(l.path)
	}
	for len(b) > 0 && l.mu.err == nil && !l.mu.closed {
		// A write may cross the border, so one call can fill the rest of one file and begin the next.
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
	// Followers wait for this channel, and each write closes one.
	close(l.mu.changed)
	l.mu.changed = make(chan struct{})
	return n, nil
}

// rotateLocked makes the file the .old file and begins a new one.
func (l *logFile) rotateLocked() error {
	if err := l.mu.file.Close(); err != nil {
		return err
	}
	// The rename replaces the older half, so for a moment only one half exists and never none.
	if err := os.Rename(l.path, l.path+".old"); err != nil {
		return err
	}
	f, err := os.Create(l.path)
	l.mu.file, l.mu.old, l.mu.start = f, l.mu.start, l.mu.end
	return err
}

// Close ends the log. Followers read the rest and return.
func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		return nil
	}
	l.mu.closed = true
	close(l.mu.changed)
	if l.mu.file == nil {
		l.home.silent.add(l.name)
		return nil
	}
	return l.mu.file.Close()
}

// next reads into b from position at, or from the oldest byte that is left if at is
// older. from is the position of the first byte read. At the end of the log n
// is 0 and more is closed at the next write; more is nil after Close.
func (l *logFile) next(at int64, b []byte) (n int, from int64, more <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// A slow reader may have been overtaken by a rotation. It continues with the oldest byte that is left.
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
	// The file is opened anew, because the writer's file has its position at the end. The lock
	// keeps the files from being renamed meanwhile.
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

// copyTo copies the log to w. With follow it continues until the log is closed or ctx
// is cancelled. It calls sent after each write, to flush w.
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
			// from is beyond at if a rotation has removed the bytes between them.
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

// printed returns the number of bytes written to the log.
func (l *logFile) printed() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.end
}

// last returns the last n bytes of the log, or fewer if it is shorter or cannot be read to
// its end, and the number of bytes written to it.
func (l *logFile) last(n int64) (end []byte, size int64) {
	l.mu.Lock()
	at, size := max(l.mu.old, l.mu.end-n), l.mu.end
	l.mu.Unlock()
	// The length is fixed before the reads, so a process that prints without end does not make this one read
	// without end.
	b := make([]byte, size-at)
	for got := 0; ; {
		k, from, _, err := l.next(at, b[got:])
		if got += k; k == 0 || err != nil || got == len(b) {
			return b[:got], size
		}
		at = from + int64(k)
	}
}

// tail returns the last n bytes of the log with line breaks replaced by " | ", for
// error messages.
func (l *logFile) tail(n int64) string {
	end, _ := l.last(n)
	return strings.Join(strings.FieldsFunc(string(end), func(r rune) bool { return r == '\n' || r == '\r' }), " | ")
}

// logPath returns the path of the log of an attempt or driver.
func (h *home) logPath(name string) string { return filepath.Join(h.logs(), name+".log") }

// silentNames are the names of the latest attempts and drivers that have ended and printed
// nothing.
type silentNames struct {
	mu struct {
		sync.Mutex
		names map[string]bool
		ring  []string // the names in the order of their ends; "" where one was removed
		next  int      // index of the oldest name once the ring is full
	}
}

// mostSilent bounds silentNames.
const mostSilent = 10000

func (s *silentNames) add(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.names[name] {
		return
	}
	if s.mu.names == nil {
		s.mu.names = map[string]bool{}
	}
	s.mu.names[name] = true
	// A map of names would grow with every task that prints nothing, which most tasks are.
	if len(s.mu.ring) < mostSilent {
		s.mu.ring = append(s.mu.ring, name)
		return
	}
	delete(s.mu.names, s.mu.ring[s.mu.next])
	s.mu.ring[s.mu.next] = name
	s.mu.next = (s.mu.next + 1) % mostSilent
}

func (s *silentNames) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mu.names[name] {
		return
	}
	delete(s.mu.names, name)
	s.mu.ring[slices.Index(s.mu.ring, name)] = ""
}

func (s *silentNames) has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.names[name]
}

// copyLog copies the log of an attempt or driver that has ended to w. It returns
// fs.ErrNotExist if there is no log: it has been removed, or the attempt ended long ago and
// had printed nothing.
func (h *home) copyLog(name string, w io.Writer) error {
	found := false
	// The older half first. Nothing rotates any more, so both are read without the lock.
	for _, path := range []string{h.logPath(name) + ".old", h.logPath(name)} {
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
	if !found && !h.silent.has(name) {
		return fs.ErrNotExist
	}
	return nil
}

// trimLogs removes the logs that were written to longest ago until the rest has at
// most limit bytes. Logs of running attempts stay.
func (h *home) trimLogs(limit int64, running func(name string) bool) error {
	files, total, err := oldestFirst(h.logs(), func(string) bool { return true })
	if err != nil {
		return err
	}
	for _, f := range files {
		// Both files of a log belong to the attempt: the newer one, and the older one with .old.
		name, _, _ := strings.Cut(f.Name(), ".")
		if total <= limit {
			break
		}
		if running(name) {
			continue
		}
		// A log may be gone because an attempt of the same name has begun a new one.
		if err := os.Remove(filepath.Join(h.logs(), f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		total -= f.Size()
	}
	return nil
}
