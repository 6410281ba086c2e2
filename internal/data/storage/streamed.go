package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/slotwise/slotwise/internal/base/retry"
)

// longestPause bounds the pauses between two streams. A server that takes longer to return
// costs the attempt, which the caller retries.
const longestPause = 5 * time.Second

// Stream opens a stream of a file's bytes, beginning at off. If the stream ends before
// the file, Stream is called again for the rest. Stream and its result must end when
// ctx ends, at the latest after a time-out.
type Stream func(ctx context.Context, off int64) (io.ReadCloser, error)

// StreamOptions configure a StreamedFile. The zero value suits jobs.
type StreamOptions struct {
	// Chunk is the size of a buffer in bytes; 0 means 256 KiB.
	Chunk int
	// Ahead is the number of buffers filled before a read needs them; 0 means 3.
	Ahead int
	// Window is the number of bytes that a stream has unless the file ends before; 0 means that it
	// has the rest of the file. With a window the next stream is requested when half of the present one has
	// been read, so that no reader waits for a round trip to the server.
	Window int64
	// Attempts is the number of consecutive attempts without a byte after which a
	// read fails; 0 means 6.
	Attempts int
	// Backoff is the pause before the second attempt. It doubles before each further
	// attempt, up to 5 s; 0 means 100 ms.
	Backoff time.Duration
	// Permanent reports errors after which another attempt is useless, besides those
	// that StreamedFile names. It may be nil.
	Permanent func(error) bool
	// Failed adds the file's URI to the errors of reads; nil adds nothing.
	Failed func(error) error
	// Version is the file's version.
	Version Version
}

// withDefaults replaces zero values by the defaults.
func (o StreamOptions) withDefaults() StreamOptions {
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
	if o.Failed == nil {
		o.Failed = func(err error) error { return err }
	}
	return o
}

// maxCursors bounds the offsets at which one StreamedFile reads ahead at the same time.
const maxCursors = 4

// StreamedFile is a file of a store that offers streams, such as HDFS and S3. It can be read at
// any offset. A read fails at once if the file is missing or
// forbidden or the context is cancelled, and after StreamOptions.Attempts otherwise.
//
// Jobs read their splits from start to end in small blocks. So a goroutine reads a
// stream ahead of the job, and a new stream is opened only if a read jumps to another
// offset. If a stream breaks, the goroutine opens another one at the same offset.
//
// Each cursor has a goroutine that reads ahead. A cursor belongs to one ReadAt, or
// waits in idle for the next one. So concurrent readers of different parts each keep
// a cursor near their offset.
type StreamedFile struct {
	open   Stream
	size   int64
	opts   StreamOptions
	ctx    context.Context
	cancel context.CancelFunc
	mu     struct {
		sync.Mutex
		idle []*cursor // least recently used first
	}
}

// NewStreamedFile returns a file of the given size. Its reads end when ctx does.
func NewStreamedFile(ctx context.Context, open Stream, size int64, opts StreamOptions) *StreamedFile {
	f := &StreamedFile{open: open, size: size, opts: opts.withDefaults()}
	f.ctx, f.cancel = context.WithCancel(ctx)
	return f
}

// Size returns the size.
func (f *StreamedFile) Size() int64 { return f.size }

// Version implements Versioned.
func (f *StreamedFile) Version() Version { return f.opts.Version }

// Close ends all reading ahead.
func (f *StreamedFile) Close() error {
	f.cancel()
	return nil
}

// ReadAt implements io.ReaderAt.
func (f *StreamedFile) ReadAt(p []byte, off int64) (int, error) {
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
	// The cursor's stream is broken, so it does not become idle. The next read opens another one.
	if err != nil {
		c.cancel()
		return n, f.opts.Failed(err)
	}
	f.give(c)
	if short {
		err = io.EOF
	}
	return n, err
}

// take returns an idle cursor that will soon reach off, or a new one.
func (f *StreamedFile) take(off int64) *cursor {
	f.mu.Lock()
	defer f.mu.Unlock()
	// The most recently used first: a sequential reader finds its own cursor.
	for i := len(f.mu.idle) - 1; i >= 0; i-- {
		if c := f.mu.idle[i]; c.reaches(off) {
			f.mu.idle = append(f.mu.idle[:i], f.mu.idle[i+1:]...)
			return c
		}
	}
	return f.newCursor(off)
}

// give makes a cursor idle. It ends the one that was used least recently if there are
// too many.
func (f *StreamedFile) give(c *cursor) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.idle = append(f.mu.idle, c)
	if len(f.mu.idle) > maxCursors {
		f.mu.idle[0].cancel()
		f.mu.idle = f.mu.idle[1:]
	}
}

// cursor reads ahead from one offset of a file.
type cursor struct {
	f      *StreamedFile
	ctx    context.Context // ends the goroutine
	cancel context.CancelFunc
	chunks chan chunk  // from fill, in the order of the file
	free   chan []byte // buffers for fill to use again
	cur    chunk       // the chunk that readAt copies from
}

// chunk is a part of the file, or the error that ends the cursor.
type chunk struct {
	off  int64
	data []byte
	err  error
}

// newCursor returns a cursor at off and starts its goroutine.
func (f *StreamedFile) newCursor(off int64) *cursor {
	// free has room for every buffer: Ahead in chunks, one that fill reads into and one that readAt
	// copies from.
	c := &cursor{f: f, chunks: make(chan chunk, f.opts.Ahead), free: make(chan []byte, f.opts.Ahead+2)}
	c.ctx, c.cancel = context.WithCancel(f.ctx)
	c.cur = chunk{off: off}
	go c.fill(off)
	return c
}

// reaches reports whether off is in the current chunk or in the next one.
func (c *cursor) reaches(off int64) bool {
	end := c.cur.off + int64(len(c.cur.data))
	// A little forward is cheaper to read through than a new stream is to open.
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
			c.free <- c.cur.data[:0] // never blocks: free has room for all buffers
		}
		// The position stays right even if the wait below is cancelled.
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

// fill sends the chunks from off to the end of the file. It is the cursor's goroutine.
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

// buffer returns a buffer of n bytes.
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

// source reads a file from one offset on, through one stream after the other.
type source struct {
	f    *StreamedFile
	ctx  context.Context
	off  int64
	now  *opening // the present stream; nil before the first one and after an error
	next *opening // the stream after it, requested early; nil if none is
}

// opening is a stream that opens in the background.
type opening struct {
	off, end int64              // end is where the stream ends, the file's end without a window
	cancel   context.CancelFunc // ends the opening and the stream
	done     chan struct{}      // closed when r and err are set
	r        io.ReadCloser
	err      error
}

// request opens the stream at off in the background.
func (s *source) request(off int64) *opening {
	o := &opening{off: off, end: s.f.size, done: make(chan struct{})}
	if w := s.f.opts.Window; w > 0 {
		o.end = min(o.end, off+w)
	}
	var ctx context.Context
	ctx, o.cancel = context.WithCancel(s.ctx)
	go func() {
		o.r, o.err = s.f.open(ctx, off)
		close(o.done)
	}()
	return o
}

// close ends the stream, and its opening if that has not ended. It does not wait for the server.
func (o *opening) close() {
	if o == nil {
		return
	}
	o.cancel()
	shut := func() {
		if <-o.done; o.r != nil {
			_ = o.r.Close() // only reading: an error means nothing
		}
	}
	select {
	case <-o.done:
		shut()
	default:
		// A server that does not answer would hold up the retry that this makes way for.
		go shut()
	}
}

// close closes all streams. The next read opens another one at the same offset.
func (s *source) close() {
	s.now.close()
	s.next.close()
	s.now, s.next = nil, nil
}

// read fills b.
func (s *source) read(b []byte) ([]byte, error) {
	n, failed := 0, 0
	for n < len(b) {
		got, err := s.once(b[n:])
		n += got
		s.off += int64(got)
		// Attempts counts consecutive failures without a byte, so a slow connection that breaks often
		// still succeeds.
		if got > 0 {
			failed = 0
		}
		if err == nil {
			continue
		}
		// The end of this stream, and perhaps not of the file. The next one continues if it begins here.
		if err == io.EOF && s.next != nil && s.next.off == s.off {
			s.now.close()
			s.now, s.next = s.next, nil
			continue
		}
		s.close()
		if err == io.EOF && got > 0 {
			continue
		}
		if failed++; failed >= s.f.opts.Attempts || s.permanent(err) {
			return nil, fmt.Errorf("at byte %d: %w", s.off, noEOF(err))
		}
		if err := retry.Pause(s.ctx, s.f.opts.Backoff, longestPause, failed); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// once reads from the present stream, or from a new one.
func (s *source) once(b []byte) (int, error) {
	if s.now == nil {
		s.now = s.request(s.off)
	}
	if <-s.now.done; s.now.err != nil {
		return 0, s.now.err
	}
	n, err := s.now.r.Read(b)
	// Not sooner: a job that leaves its split before would have requested bytes in vain.
	if end := s.now.end; s.next == nil && end < s.f.size && s.off+int64(n) >= end-s.f.opts.Window/2 {
		s.next = s.request(end)
	}
	return n, err
}

// permanent reports whether another attempt is useless.
func (s *source) permanent(err error) bool {
	return s.ctx.Err() != nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || s.f.opts.Permanent(err)
}

// noEOF replaces io.EOF, which ReadAt's caller would take for the end of the file.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
