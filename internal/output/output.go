// Package output writes the files of a job's output directory.
//
// A Writer writes one part file in one format, optionally compressed, through
// one buffer. The file takes its place in the staged directory when the writer
// commits, so a failed or surplus attempt leaves nothing.
package output

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"

	"github.com/slotwise/slotwise/internal/compression"
	"github.com/slotwise/slotwise/internal/engine/runfile"
	"github.com/slotwise/slotwise/internal/storage"
)

// Format is how records become bytes.
type Format uint8

// The formats of output files.
const (
	// Text is key TAB value LF; without the TAB if the key or the value is nil,
	// as opposed to empty.
	Text Format = iota
	// Fixed is the key and then the value with nothing between or after them.
	Fixed
	// Runs is the binary form that another job reads fastest, with every byte
	// of keys and values and in the order of writing.
	Runs
)

var formatNames = []string{"text", "fixed", "runs"}

// String returns the name that ParseFormat reads.
func (f Format) String() string {
	if int(f) < len(formatNames) {
		return formatNames[f]
	}
	return fmt.Sprintf("format(%d)", uint8(f))
}

// ParseFormat finds a format by its name.
func ParseFormat(name string) (Format, error) {
	i, err := lookup("output format", name, formatNames)
	return Format(i), err
}

// Codec is how an output file is compressed.
type Codec uint8

// The codecs. A run compresses inside, block by block, and so can still be
// read in parts; its file has no suffix, and gzip is not open to it.
const (
	None Codec = iota
	Gzip       // .gz
	Zstd       // .zst
)

var (
	codecNames = []string{"none", "gzip", "zstd"}
	suffixes   = []string{"", ".gz", ".zst"}
)

// String returns the name that ParseCodec reads.
func (c Codec) String() string {
	if int(c) < len(codecNames) {
		return codecNames[c]
	}
	return fmt.Sprintf("codec(%d)", uint8(c))
}

// ParseCodec returns the codec with a name; the empty name is None. A codec that
// this program has not enabled is an error.
func ParseCodec(name string) (Codec, error) {
	if name == "" {
		return None, nil
	}
	i, err := lookup("output compression", name, codecNames)
	if err == nil && Codec(i) == Zstd {
		_, err = compression.Get(compression.Zstd)
	}
	return Codec(i), err
}

func lookup(what, name string, names []string) (int, error) {
	for i, n := range names {
		if n == name {
			return i, nil
		}
	}
	return 0, fmt.Errorf("unknown %s %q (one of %s)", what, name, strings.Join(names, ", "))
}

// MapPart names the output file of map n in a job without reduces.
func MapPart(n int) string { return fmt.Sprintf("part-m-%05d", n) }

// ReducePart names the output file of reduce n. The names sort in the order of
// the numbers up to 99,999.
func ReducePart(n int) string { return fmt.Sprintf("part-r-%05d", n) }

// bufferSize keeps the number of system calls and, on a shared disk, of seeks
// small without costing a task noticeable memory.
const bufferSize = 512 << 10

// buffers are kept from one file to the next: a job may write ten thousand
// small ones.
var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// Writer writes one output file. It is used by one goroutine. After an error
// every later call returns the same error, and Commit refuses.
type Writer struct {
	format Format
	dst    storage.Writer
	stored *counter       // counts what reaches dst
	w      io.Writer      // stored, or the compressor before it
	comp   io.WriteCloser // nil if not compressed
	run    *runfile.Writer
	buf    []byte
	err    error
	done   bool // flushed
}

var errFlushed = errors.New("output: written to after Flush")

// Open begins the file called name, with the codec's suffix, in a staged
// output directory. It ends with Commit or Discard.
func Open(st storage.Staging, name string, format Format, codec Codec) (*Writer, error) {
	if int(format) >= len(formatNames) || int(codec) >= len(codecNames) {
		return nil, fmt.Errorf("output %s: unknown format or compression: %v, %v", name, format, codec)
	}
	if format == Runs && codec == Gzip {
		return nil, fmt.Errorf("output %s: runs are compressed with zstd or not at all, not with gzip", name)
	}
	if format != Runs {
		name += suffixes[codec]
	}
	// Creating is a local act or quick; what takes long is writing, which the
	// caller stops by discarding.
	dst, err := st.Create(context.Background(), name)
	if err != nil {
		return nil, err
	}
	w := &Writer{format: format, dst: dst, stored: &counter{w: dst}}
	w.w = w.stored
	if format == Runs {
		w.run = runfile.NewWriter(w.w, runfile.Options{Partitions: 1, Codec: runCodec(codec), Unordered: true})
		return w, nil
	}
	if w.comp, err = compressor(w.stored, codec); err != nil {
		return nil, errors.Join(err, dst.Discard())
	}
	if w.comp != nil {
		w.w = w.comp
	}
	w.buf = (*buffers.Get().(*[bufferSize]byte))[:0]
	return w, nil
}

func runCodec(c Codec) runfile.Codec {
	if c == Zstd {
		return runfile.Zstd
	}
	return runfile.None
}

func compressor(w io.Writer, codec Codec) (io.WriteCloser, error) {
	switch codec {
	case Gzip:
		return gzip.NewWriter(w), nil
	case Zstd:
		c, err := compression.Get(compression.Zstd)
		if err != nil {
			return nil, err
		}
		return c.NewWriter(w)
	}
	return nil, nil
}

// Write writes a record, which is copied.
func (w *Writer) Write(key, value []byte) error {
	if w.err != nil || w.done {
		return w.closed()
	}
	if w.run != nil {
		w.err = w.run.Append(0, key, value)
		return w.err
	}
	if len(key)+len(value)+2 > cap(w.buf)-len(w.buf) {
		return w.writeSlow(key, value)
	}
	b := append(w.buf, key...)
	if w.format == Text {
		if key != nil && value != nil {
			b = append(b, '\t')
		}
		b = append(append(b, value...), '\n')
	} else {
		b = append(b, value...)
	}
	w.buf = b
	return nil
}

func (w *Writer) closed() error {
	if w.err != nil {
		return w.err
	}
	return errFlushed
}

// writeSlow writes a record for which the buffer has no room. One larger than
// the buffer goes out from where it lies.
func (w *Writer) writeSlow(key, value []byte) error {
	w.put(key)
	if w.format == Text && key != nil && value != nil {
		w.put([]byte{'\t'})
	}
	w.put(value)
	if w.format == Text {
		w.put([]byte{'\n'})
	}
	return w.err
}

// WriteRaw writes bytes that already are in the file's format, such as whole
// lines, as they are. Runs have no such bytes.
func (w *Writer) WriteRaw(b []byte) error {
	if w.err != nil || w.done {
		return w.closed()
	}
	if w.run != nil {
		w.err = errors.New("output: runs take records, not bytes")
		return w.err
	}
	w.put(b)
	return w.err
}

// put appends b to the buffer, which it empties when b does not fit.
func (w *Writer) put(b []byte) {
	if len(b) > cap(w.buf)-len(w.buf) {
		w.empty()
	}
	if len(b) < cap(w.buf) {
		w.buf = append(w.buf, b...)
	} else if w.err == nil {
		_, w.err = w.w.Write(b)
	}
}

// empty writes the buffer out.
func (w *Writer) empty() {
	if w.err == nil && len(w.buf) > 0 {
		_, w.err = w.w.Write(w.buf)
	}
	w.buf = w.buf[:0]
}

// Flush writes all that is buffered and ends the file, so that Commit has
// nothing left to do that takes long: an attempt that has asked for leave to
// commit should use it at once. Nothing can be written afterwards.
func (w *Writer) Flush() error {
	if w.err != nil || w.done {
		return w.err
	}
	w.done = true
	if w.run != nil {
		w.err = w.run.Finish()
		return w.err
	}
	w.empty()
	w.free()
	if w.comp != nil && w.err == nil {
		w.err = w.comp.Close()
	}
	return w.err
}

// free gives the buffer back; nothing is written afterwards.
func (w *Writer) free() {
	if cap(w.buf) == bufferSize {
		buffers.Put((*[bufferSize]byte)(w.buf[:bufferSize]))
	}
	w.buf = nil
}

// Bytes returns how many bytes the file has so far, compressed and with what
// is buffered; exact after Flush.
func (w *Writer) Bytes() int64 {
	if w.comp != nil {
		return w.stored.n
	}
	return w.stored.n + int64(len(w.buf))
}

// Commit flushes and gives the file its place. After an error the caller
// discards.
func (w *Writer) Commit() error {
	if err := w.Flush(); err != nil {
		return err
	}
	return w.dst.Commit()
}

// Discard drops the file. It is a no-op after Commit.
func (w *Writer) Discard() error {
	w.done = true
	w.free()
	return w.dst.Discard()
}

// counter counts what is written through it.
type counter struct {
	w io.Writer
	n int64
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return n, err
}
