// Package readahead makes a file that can be read at any offset of a store that
// gives streams. Jobs read their splits from the start to the end in small
// blocks, so a stream is read ahead of them in a goroutine and asked for anew
// only where they jump. A stream that breaks is opened again where it broke.
package readahead

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"sync"
	"time"
)

// Stream opens a stream of a file's bytes from off on. It may end early: then
// it is opened again where it ended. It, and the stream, end when ctx does,
// within a time-out of their own at worst.
type Stream func(ctx context.Context, off int64) (io.ReadCloser, error)

// Options tell how to read. The zero value is what jobs want.
type Options struct {
	Chunk     int              // bytes per buffer; 0 is 256 KiB
	Ahead     int              // buffers filled before they are asked for; 0 is 3
	Attempts  int              // to read on, with none bringing a byte, until an error is returned; 0 is 6
	Backoff   time.Duration    // before the second attempt, doubled before each further one up to 5 s; 0 is 100 ms
	Permanent func(error) bool // errors for which another attempt is useless; nil: those of File's contract
}

func (o Options) withDefaults() Options {
	if o.Chunk == 0 {
		o.Chunk = 256 << 10
	}
	if o.Ahead == 0 {
		o.Ahead = 3
	}
	if o.Attempts == 0 {
		o.Attempts = 6
	}
	if o.Backoff == 0 {
		o.Backoff = 100 * time.Millisecond
	}
	if o.Permanent == nil {
		o.Permanent = func(error) bool { return false }
	}
	return o
}

// maxCursors is how many places of a file are read ahead of at once.
const maxCursors = 4

// File implements storage.File. What is missing or forbidden, and a cancelled
// context, end a read at once; other errors only after Options.Attempts.
type File struct {
	open   Stream
	size   int64
	opts   Options
	ctx    context.Context
	cancel context.CancelFunc
	mu     struct {
		sync.Mutex
		idle []*cursor // least recently used first
	}
}

// New returns a file of the given size. Its reads end when ctx does.
func New(ctx context.Context, open Stream, size int64, opts Options) *File {
	f := &File{open: open, size: size, opts: opts.withDefaults()}
	f.ctx, f.cancel = context.WithCancel(ctx)
	return f
}

// Size returns the size.
func (f *File) Size() int64 { return f.size }

// Close ends all reading ahead.
func (f *File) Close() error {
	f.cancel()
	return nil
}

// ReadAt implements io.ReaderAt.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fs.ErrInvalid
	}
	if off >= f.size {
		return 0, io.EOF
	}
	short := int64(len(p)) > f.size-off
	if short {
		p = p[:f.size-off]
	}
	c := f.take(off)
	n, err := c.readAt(p, off)
	if err != nil {
		c.cancel()
		return n, err
	}
	f.give(c)
	if short {
		err = io.EOF
	}
	return n, err
}

// take returns a cursor that can read at off: one that waits near it, or a new
// one.
func (f *File) take(off int64) *cursor {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := len(f.mu.idle) - 1; i >= 0; i-- {
		if c := f.mu.idle[i]; c.reaches(off) {
			f.mu.idle = append(f.mu.idle[:i], f.mu.idle[i+1:]...)
			return c
		}
	}
	return f.newCursor(off)
}

func (f *File) give(c *cursor) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.idle = append(f.mu.idle, c)
	if len(f.mu.idle) > maxCursors {
		f.mu.idle[0].cancel()
		f.mu.idle = f.mu.idle[1:]
	}
}

// cursor reads ahead from one place of a file.
type cursor struct {
	f      *File
	ctx    context.Context
	cancel context.CancelFunc
	chunks chan chunk
	free   chan []byte
	cur    chunk // the chunk being handed out
}

// chunk is a part of the file, or the error that takes its place.
type chunk struct {
	off  int64
	data []byte
	err  error
}

func (f *File) newCursor(off int64) *cursor {
	c := &cursor{f: f, chunks: make(chan chunk, f.opts.Ahead), free: make(chan []byte, f.opts.Ahead+2)}
	c.ctx, c.cancel = context.WithCancel(f.ctx)
	c.cur = chunk{off: off}
	go c.fill(off)
	return c
}

// reaches tells whether the bytes at off are in the current chunk or come soon.
func (c *cursor) reaches(off int64) bool {
	end := c.cur.off + int64(len(c.cur.data))
	return c.cur.off <= off && off <= end+int64(c.f.opts.Chunk)
}

// readAt fills p.
func (c *cursor) readAt(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		at := off + int64(n) - c.cur.off
		if at < int64(len(c.cur.data)) {
			n += copy(p[n:], c.cur.data[at:])
			continue
		}
		if c.cur.data != nil {
			c.free <- c.cur.data[:0] // has room for all there are
		}
		c.cur = chunk{off: c.cur.off + int64(len(c.cur.data))}
		select {
		case c.cur = <-c.chunks:
		case <-c.ctx.Done():
			c.cur.err = context.Cause(c.ctx)
		}
		if c.cur.err != nil {
			return n, c.cur.err
		}
	}
	return n, nil
}

// fill reads from off to the end.
func (c *cursor) fill(off int64) {
	s := &source{f: c.f, ctx: c.ctx, off: off}
	defer s.close()
	for s.off < c.f.size {
		next := chunk{off: s.off}
		next.data, next.err = s.read(c.buffer(min(c.f.size-s.off, int64(c.f.opts.Chunk))))
		select {
		case c.chunks <- next:
		case <-c.ctx.Done():
			return
		}
		if next.err != nil {
			return
		}
	}
}

func (c *cursor) buffer(n int64) []byte {
	select {
	case b := <-c.free:
		if int64(cap(b)) >= n {
			return b[:n]
		}
	default:
	}
	return make([]byte, n)
}

// source reads a stream on, opening it anew where it breaks.
type source struct {
	f   *File
	ctx context.Context
	off int64
	r   io.ReadCloser
}

func (s *source) close() {
	if s.r != nil {
		_ = s.r.Close() // nothing was written
		s.r = nil
	}
}

// read fills b.
func (s *source) read(b []byte) ([]byte, error) {
	n, failed := 0, 0
	for n < len(b) {
		got, err := s.once(b[n:])
		n += got
		s.off += int64(got)
		if got > 0 {
			failed = 0
		}
		if err == nil {
			continue
		}
		s.close()
		if err == io.EOF && got > 0 {
			continue // the end of this stream, not of the file
		}
		if failed++; failed >= s.f.opts.Attempts || s.hopeless(err) {
			return nil, fmt.Errorf("at byte %d: %w", s.off, noEOF(err))
		}
		if err := Sleep(s.ctx, s.f.opts.Backoff, failed); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (s *source) once(b []byte) (int, error) {
	if s.r == nil {
		r, err := s.f.open(s.ctx, s.off)
		if err != nil {
			return 0, err
		}
		s.r = r
	}
	return s.r.Read(b)
}

func (s *source) hopeless(err error) bool {
	return s.ctx.Err() != nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || s.f.opts.Permanent(err)
}

// noEOF keeps a stream's early end from being taken for the file's end.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Sleep waits before an attempt after the failed-th failure in a row: base,
// doubled for each failure but the first, at most 5 s, up to half of it less at
// random. It returns the cause of ctx if that ends first.
func Sleep(ctx context.Context, base time.Duration, failed int) error {
	d := min(base<<min(failed-1, 16), 5*time.Second)
	t := time.NewTimer(d - rand.N(d/2+1))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
