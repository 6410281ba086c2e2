package generate

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
)

// partSize is the maximum size of a file of a data set. It is a common split
// size, so that a map task reads about one file.
const partSize = 128 << 20

// part is one file of a data set with many.
type part struct {
	offset int64 // bytes that the files before it may have
	size   int64 // bytes that it may have
	seed   uint64
}

// partFunc writes one part of at most p.size bytes. It writes whole blocks,
// because w is not buffered.
type partFunc func(w io.Writer, p part, params Params) error

// The names of the files of all kinds, except tpch, whose files are called after its tables.
// Names with a verb are formats for the file's number. Overwrite takes a directory with other
// names for one that the user wants to keep.
const (
	textParts     = "text-%05d.txt"
	recordParts   = "records-%05d.dat"
	movieParts    = "movies-%05d.txt"
	edgeParts     = "edges-%05d.txt"
	pointParts    = "points-%05d.txt"
	documentParts = "document-%06d.txt"
	trackersFile  = "trackers.log"
)

var partPatterns = []string{textParts, recordParts, movieParts, edgeParts, pointParts, documentParts}

// inParts makes a data set of files of at most max bytes, with one goroutine
// per core. pattern is the format of a file's name with its number. An empty
// data set has one empty file, so that a job can read it.
func inParts(pattern string, max int64, f partFunc) func(context.Context, Options) error {
	return func(ctx context.Context, o Options) error {
		return inDir(o, func(dir string) error {
			ctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			m := &meter{ctx: ctx, progress: o.Progress}
			parts := cut(o, max)
			var next atomic.Int64
			var all sync.WaitGroup
			for range min(runtime.GOMAXPROCS(0), len(parts)) {
				all.Go(func() {
					// Goroutines take the next part when they are free, so the last ones end together. The
					// bytes do not depend on who writes a part: each has a seed.
					for i := next.Add(1) - 1; i < int64(len(parts)); i = next.Add(1) - 1 {
						err := writeFile(m, dir, fmt.Sprintf(pattern, i), func(w io.Writer) error {
							return f(w, parts[i], o.Params)
						})
						if err != nil {
							// The first error is the context's cause, and ends the other writers.
							cancel(err)
							return
						}
					}
				})
			}
			all.Wait()
			return context.Cause(ctx)
		})
	}
}

// cut divides a data set into parts.
func cut(o Options, max int64) []part {
	parts := []part{}
	for off := int64(0); off < o.Size || off == 0; off += max {
		parts = append(parts, part{
			offset: off,
			size:   min(max, o.Size-off),
			seed:   derive(o.Seed, "part", uint64(len(parts))),
		})
	}
	return parts
}

// meter counts the bytes that all writers of a data set have written, reports
// them, and stops the writers when the context ends.
type meter struct {
	ctx      context.Context
	progress func(int64)
	mu       struct {
		sync.Mutex
		written int64
	}
}

// add counts n bytes.
func (m *meter) add(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.written += int64(n)
	if m.progress != nil {
		m.progress(m.mu.written)
	}
}

// meteredWriter counts the bytes written to w.
type meteredWriter struct {
	m *meter
	w io.Writer
}

// Write writes p. It returns the cause if the context has ended; this check is
// what stops a generator.
func (w meteredWriter) Write(p []byte) (int, error) {
	if w.m.ctx.Err() != nil {
		return 0, context.Cause(w.m.ctx)
	}
	n, err := w.w.Write(p)
	w.m.add(n)
	return n, err
}
