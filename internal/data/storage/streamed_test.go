package storage

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"
)

func content(n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// TestReads reads random ranges in random order from streams that end early or break.
// The bytes are always the file's.
func TestReads(t *testing.T) {
	data := content(100_000)
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(0, len(data)).Draw(t, "size")
		breakAfter := rapid.IntRange(1, 30_000).Draw(t, "break after")
		kind := rapid.IntRange(0, 2).Draw(t, "kind of stream")
		window := rapid.SampledFrom([]int{0, 500, 7_000, 25_000}).Draw(t, "window")
		var opened, closed atomic.Int32
		open := func(_ context.Context, off int64) (io.ReadCloser, error) {
			end := size
			if window > 0 {
				end = min(end, int(off)+window)
			}
			r := io.Reader(bytes.NewReader(data[off:end]))
			switch kind {
			case 1: // ends early
				r = io.LimitReader(r, int64(breakAfter))
			case 2: // fails, with bytes before it
				r = io.MultiReader(io.LimitReader(r, int64(breakAfter)), iotest.ErrReader(errors.New("reset")))
			}
			opened.Add(1)
			return closing{r, &closed}, nil
		}
		f := NewStreamedFile(context.Background(), open, int64(size), StreamOptions{
			Chunk: rapid.IntRange(1000, 5000).Draw(t, "chunk"), Ahead: 2, Backoff: 1, Window: int64(window),
		})
		defer func() {
			_ = f.Close()
			for end := time.Now().Add(4 * time.Minute); opened.Load() != closed.Load(); time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%d streams were opened and %d closed", opened.Load(), closed.Load())
				}
			}
		}()
		off := 0
		for range rapid.IntRange(1, 30).Draw(t, "reads") {
			switch rapid.IntRange(0, 3).Draw(t, "jump") {
			case 0:
				off = rapid.IntRange(0, len(data)).Draw(t, "offset")
			case 1:
				off = max(0, off-rapid.IntRange(0, 2000).Draw(t, "back"))
			}
			p := make([]byte, rapid.IntRange(0, 20_000).Draw(t, "length"))
			n, err := f.ReadAt(p, int64(off))
			want := data[min(off, size):min(off+len(p), size)]
			if !bytes.Equal(p[:n], want) {
				t.Fatalf("at %d: got %d bytes, want %d", off, n, len(want))
			}
			if (err == io.EOF) != (off+len(p) > size || off >= size) || (err != nil && err != io.EOF) {
				t.Fatalf("at %d+%d of %d: %v", off, len(p), size, err)
			}
			off += n
		}
	})
}

// closing counts the streams that were closed.
type closing struct {
	io.Reader
	closed *atomic.Int32
}

func (c closing) Close() error {
	c.closed.Add(1)
	return nil
}

// TestWindow: the stream of the next window is requested while half of the present one is left, and
// not before. A reader of the rest does not wait for the request.
func TestWindow(t *testing.T) {
	const window, chunk = 4000, 100
	data := content(3 * window)
	requested, answer := make(chan int64, 3), make(chan struct{})
	present := make(chan int) // permits to read
	open := func(ctx context.Context, off int64) (io.ReadCloser, error) {
		requested <- off
		if off == 0 {
			return io.NopCloser(permitted{bytes.NewReader(data[:window]), present}), nil
		}
		select {
		case <-answer:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return io.NopCloser(bytes.NewReader(data[off:min(len(data), int(off)+window)])), nil
	}
	f := NewStreamedFile(t.Context(), open, int64(len(data)), StreamOptions{Chunk: chunk, Window: window})
	defer f.Close()
	go func() {
		for range window / chunk / 2 {
			present <- chunk
		}
	}()
	p := make([]byte, len(data))
	if _, err := f.ReadAt(p[:window/2], 0); err != nil {
		t.Fatal(err)
	}
	if off := <-requested; off != 0 {
		t.Fatalf("the first stream begins at %d", off)
	}
	if off := <-requested; off != window {
		t.Fatalf("after half of a window a stream at %d was requested, want %d", off, window)
	}
	close(present)
	if _, err := f.ReadAt(p[window/2:window], window/2); err != nil {
		t.Fatal(err)
	}
	select {
	case off := <-requested:
		t.Fatalf("the stream at %d was requested before one at %d was there", off, window)
	default:
	}
	close(answer)
	if _, err := f.ReadAt(p[window:], window); err != nil || !bytes.Equal(p, data) {
		t.Fatalf("the rest is wrong, error %v", err)
	}
}

// permitted reads as many bytes at a time as it receives, or without bound once the channel is closed.
type permitted struct {
	r       io.Reader
	present <-chan int
}

func (p permitted) Read(b []byte) (int, error) {
	if n, ok := <-p.present; ok {
		b = b[:min(n, len(b))]
	}
	return p.r.Read(b)
}

func TestErrors(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		err   error
		opens int32
	}{{boom, 3}, {fs.ErrNotExist, 1}, {fs.ErrPermission, 1}} {
		var opens atomic.Int32
		f := NewStreamedFile(context.Background(), func(context.Context, int64) (io.ReadCloser, error) {
			opens.Add(1)
			return nil, c.err
		}, 10, StreamOptions{Attempts: 3, Backoff: 1})
		if n, err := f.ReadAt(make([]byte, 5), 0); n != 0 || !errors.Is(err, c.err) {
			t.Errorf("%v: read %d, %v", c.err, n, err)
		}
		if opens.Load() != c.opens {
			t.Errorf("%v: %d attempts, want %d", c.err, opens.Load(), c.opens)
		}
		// A later read tries again.
		if _, err := f.ReadAt(make([]byte, 5), 0); !errors.Is(err, c.err) {
			t.Errorf("%v: second read: %v", c.err, err)
		}
		_ = f.Close()
	}
	shrunk := NewStreamedFile(context.Background(), func(_ context.Context, off int64) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(make([]byte, 5)[min(off, 5):])), nil
	}, 10, StreamOptions{Attempts: 2, Backoff: 1, Chunk: 4})
	if _, err := shrunk.ReadAt(make([]byte, 10), 0); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a file that ended early: %v", err)
	}
	if _, err := shrunk.ReadAt(make([]byte, 1), -1); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("a negative offset: %v", err)
	}
}

// TestCancel: a read that waits for a silent stream ends with the context, and with
// Close.
func TestCancel(t *testing.T) {
	for _, byClose := range []bool{false, true} {
		ctx, cancel := context.WithCancel(context.Background())
		reading := make(chan struct{})
		var once sync.Once
		f := NewStreamedFile(ctx, func(ctx context.Context, _ int64) (io.ReadCloser, error) {
			once.Do(func() { close(reading) })
			<-ctx.Done()
			return nil, ctx.Err()
		}, 10, StreamOptions{})
		go func() {
			<-reading
			if byClose {
				_ = f.Close()
			} else {
				cancel()
			}
		}()
		if _, err := f.ReadAt(make([]byte, 5), 0); !errors.Is(err, context.Canceled) {
			t.Errorf("closed: %v: got %v", byClose, err)
		}
		cancel()
		_ = f.Close()
	}
}
