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
		open := func(_ context.Context, off int64) (io.ReadCloser, error) {
			r := io.Reader(bytes.NewReader(data[off:size]))
			switch kind {
			case 1: // ends early
				r = io.LimitReader(r, int64(breakAfter))
			case 2: // fails, with bytes before it
				r = io.MultiReader(io.LimitReader(r, int64(breakAfter)), iotest.ErrReader(errors.New("reset")))
			}
			return io.NopCloser(r), nil
		}
		f := NewStreamedFile(context.Background(), open, int64(size), StreamOptions{
			Chunk: rapid.IntRange(1000, 5000).Draw(t, "chunk"), Ahead: 2, Backoff: 1,
		})
		defer f.Close()
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
