// Package output writes the part files of a job's output directory.
//
// A Writer writes one file in one format, optionally compressed, through one buffer.
// The file enters the staged directory when the Writer commits. So a failed attempt,
// or a second attempt of a task, leaves no file.
//
// A file has two ends. Flush writes everything that can fail, however long that takes, and Commit only moves
// the file to its place. An attempt asks for the permission to commit between the two, so the permission is
// held for a moment only.
package output

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/pierrec/lz4/v4"

	"github.com/slotwise/slotwise/internal/data/compression"
	"github.com/slotwise/slotwise/internal/data/engine/runfile"
	"github.com/slotwise/slotwise/internal/data/format"
	"github.com/slotwise/slotwise/internal/data/storage"
)

// Format is the encoding of records in an output file.
type Format uint8

// The formats of output files.
const (
	// Text is key TAB value LF. If the key or the value is nil (not empty), there is
	// no TAB.
	Text Format = iota
	// Fixed is the key followed by the value, without separators.
	Fixed
	// Runs is a run file, the binary format that another job reads fastest. It keeps
	// all bytes of keys and values, and the order of writing.
	Runs
)

var formatNames = []string{"text", "fixed", "runs"}

// String returns the name in messages.
func (f Format) String() string {
	if int(f) < len(formatNames) {
		return formatNames[f]
	}
	return fmt.Sprintf("format(%d)", uint8(f))
}

// Codec is the compression of an output file.
type Codec uint8

// The codecs. Run files, Parquet files and SequenceFiles compress their blocks one by one,
// so they can still be read in parts. Their names get no suffix, and not every codec
// applies to them.
const (
	None      Codec = iota
	Gzip            // .gz
	Zstd            // .zst
	Deflate         // .deflate, Hadoop's DefaultCodec
	Snappy          // .snappy, Hadoop's SnappyCodec
	LZ4             // .lz4, frames of the lz4 command
	HadoopLZ4       // .lz4, Hadoop's Lz4Codec
)

var (
	// CodecNames are the names that ParseCodec accepts.
	CodecNames = []string{"none", "gzip", "zstd", "deflate", "snappy", "lz4", "lz4-hadoop"}
	suffixes   = []string{"", ".gz", ".zst", ".deflate", ".snappy", ".lz4", ".lz4"}
	libraries  = map[Codec]compression.ID{Zstd: compression.Zstd, Deflate: compression.Deflate, Snappy: compression.Snappy}
)

// String returns the name that ParseCodec parses.
func (c Codec) String() string {
	if int(c) < len(CodecNames) {
		return CodecNames[c]
	}
	return fmt.Sprintf("codec(%d)", uint8(c))
}

// ParseCodec returns the codec with a name; the empty name is None. A codec that
// this program has not enabled is an error.
func ParseCodec(name string) (Codec, error) {
	if name == "" {
		return None, nil
	}
	i, err := lookup("output compression", name, CodecNames)
	if id, ok := libraries[Codec(i)]; ok && err == nil {
		_, err = compression.Get(id)
	}
	return Codec(i), err
}

// lookup returns the index of a name.
func lookup(what, name string, names []string) (int, error) {
	for i, n := range names {
		if n == name {
			return i, nil
		}
	}
	return 0, fmt.Errorf("unknown %s %q (one of %s)", what, name, strings.Join(names, ", "))
}

// MapPart returns the name of map n's output file in a job without reduces.
func MapPart(n int) string { return fmt.Sprintf("part-m-%05d", n) }

// ReducePart returns the name of reduce n's output file. Up to 99,999 the names sort in
// the order of the numbers.
func ReducePart(n int) string { return fmt.Sprintf("part-r-%05d", n) }

// OldPart returns the name of output file n as Hadoop's first API spells it, which Hadoop
// Streaming uses for reduces and for maps.
func OldPart(n int) string { return fmt.Sprintf("part-%05d", n) }

// bufferSize is the size of a Writer's buffer in bytes. It keeps system calls, and seeks
// on a shared disk, rare and is small beside a task's other memory.
const bufferSize = 512 << 10

// buffers reuses the buffers of closed files, because a job may write ten thousand small
// files.
var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// Writer writes one output file. One goroutine uses it. After an error every later call
// returns the same error.
//
// Records of Text and Fixed go through buf to w, which is the compressor or stored. Other
// records go through records to stored, or to w if the file is compressed as a whole.
// stored counts the bytes and passes them to dst.
type Writer struct {
	format  Format
	dst     storage.Writer
	stored  *counter
	w       io.Writer
	comp    io.WriteCloser // the compressor; nil if the file is not compressed as a whole
	records recordWriter   // nil for Text and Fixed
	buf     []byte         // nil with records and after Flush
	err     error          // the first error
	done    bool           // Flush or Discard has been called
}

// recordWriter writes the records of a file that is no Text and not Fixed. Close ends the
// file.
type recordWriter interface {
	Write(key, value []byte) error
	Close() error
}

// runRecords writes a run file.
type runRecords struct{ w *runfile.Writer }

// Write implements recordWriter.
func (r runRecords) Write(key, value []byte) error { return r.w.Append(0, key, value) }

// Close implements recordWriter.
func (r runRecords) Close() error { return r.w.Finish() }

var errFlushed = errors.New("output: write after Flush")

// Options describe an output file.
type Options struct {
	Format Format
	// Rows, if not nil, is the format that lines of Text become: CSV, JSON, Parquet or a
	// SequenceFile. Records are divided as format.Writer describes.
	Rows  *format.Output
	Codec Codec
}

// Check returns an error if no file can be written with the options.
func (o *Options) Check() error {
	switch {
	case int(o.Format) >= len(formatNames) || int(o.Codec) >= len(CodecNames):
		return fmt.Errorf("unknown format or compression: %v, %v", o.Format, o.Codec)
	case o.Format == Runs && o.Codec != None && o.Codec != Zstd:
		return fmt.Errorf("format runs cannot be compressed with %v; use zstd or none", o.Codec)
	case o.Rows != nil && o.Format != Text:
		return fmt.Errorf("the job writes its own binary format (%v), so the output cannot be %s", o.Format, o.Rows.Name)
	case o.Rows != nil:
		return o.Rows.Check(o.Codec.String())
	}
	return nil
}

// inParts reports whether the format compresses parts of the file itself.
func (o *Options) inParts() bool {
	if o.Rows != nil {
		return o.Rows.InParts()
	}
	return o.Format == Runs
}

// extension returns what the file's name ends with.
func (o *Options) extension() (ext string) {
	if o.Rows != nil {
		ext = o.Rows.Extension()
	}
	if !o.inParts() {
		ext += suffixes[o.Codec]
	}
	return ext
}

// Open begins the file with the given name, plus the suffixes of format and codec, in a
// staged output directory. The caller ends it with Commit or Discard.
func Open(st storage.Staging, name string, o Options) (*Writer, error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("output %s: %w", name, err)
	}
	name += o.extension()
	// Create is quick. A caller that must stop a long Write discards the file.
	dst, err := st.Create(context.Background(), name)
	if err != nil {
		return nil, err
	}
	w := &Writer{format: o.Format, dst: dst, stored: &counter{w: dst}}
	// The order of the layers from here on: records or buf, then the compressor, then the counter, then the
	// storage. Counting below the compressor gives the size of the file.
	w.w = w.stored
	if !o.inParts() {
		if w.comp, err = compressor(w.stored, o.Codec); err != nil {
			return nil, errors.Join(err, dst.Discard())
		}
		if w.comp != nil {
			w.w = w.comp
		}
	}
	switch {
	case o.Rows != nil:
		rows, err := format.NewWriter(w.w, o.Rows, o.Codec.String())
		if err != nil {
			return nil, errors.Join(err, dst.Discard())
		}
		w.records = rows
	case o.Format == Runs:
		// Unordered: a map of a job without reduces writes its records as they come.
		w.records = runRecords{runfile.NewWriter(w.w, runfile.Options{Partitions: 1, Codec: runCodec(o.Codec), Unordered: true})}
	default:
		w.buf = (*buffers.Get().(*[bufferSize]byte))[:0]
	}
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
	case None:
		return nil, nil
	case Gzip:
		return gzip.NewWriter(w), nil
	case LZ4:
		return lz4.NewWriter(w), nil
	case HadoopLZ4:
		return compression.NewHadoopWriter(w, compression.EncodeLZ4), nil
	}
	c, err := compression.Get(libraries[codec])
	if err != nil {
		return nil, err
	}
	return c.NewWriter(w)
}

// Write writes a record. It keeps no reference to key and value.
func (w *Writer) Write(key, value []byte) error {
	if w.err != nil || w.done {
		return w.closed()
	}
	if w.records != nil {
		// Kept, also if it is a RecordError: the file has the records before the bad one, and must not be
		// committed.
		w.err = w.records.Write(key, value)
		return w.err
	}
	// 2 bytes for TAB and LF.
	// The usual record is one test and three copies. The slow way puts each part alone, so a record of any
	// size passes.
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

// closed returns the error for a call after an error or after Flush.
func (w *Writer) closed() error {
	if w.err != nil {
		return w.err
	}
	return errFlushed
}

// writeSlow writes a record that does not fit into the rest of the buffer. A key or
// value larger than the whole buffer bypasses it.
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

// put appends b to the buffer. If b does not fit, put first writes the buffer.
func (w *Writer) put(b []byte) {
	if len(b) > cap(w.buf)-len(w.buf) {
		w.writeBuffer()
	}
	if len(b) < cap(w.buf) {
		w.buf = append(w.buf, b...)
	} else if w.err == nil {
		_, w.err = w.w.Write(b)
	}
}

// writeBuffer writes the buffer's content and empties the buffer.
func (w *Writer) writeBuffer() {
	if w.err == nil && len(w.buf) > 0 {
		_, w.err = w.w.Write(w.buf)
	}
	w.buf = w.buf[:0]
}

// Flush writes all buffered data and ends the file; later writes fail. An attempt calls
// it before it asks for the commit, so that Commit itself is quick.
func (w *Writer) Flush() error {
	if w.err != nil || w.done {
		return w.err
	}
	w.done = true
	if w.records != nil {
		w.err = w.records.Close()
	} else {
		w.writeBuffer()
		w.free()
	}
	// After the records: the compressor's end must follow the last record.
	if w.comp != nil && w.err == nil {
		w.err = w.comp.Close()
	}
	return w.err
}

// free makes the buffer available to other Writers.
func (w *Writer) free() {
	if cap(w.buf) == bufferSize {
		buffers.Put((*[bufferSize]byte)(w.buf[:bufferSize]))
	}
	w.buf = nil
}

// Bytes returns the size of the file so far, in compressed bytes and including buffered
// ones. It is exact after Flush.
func (w *Writer) Bytes() int64 {
	// buf has uncompressed bytes then.
	if w.comp != nil {
		return w.stored.n
	}
	return w.stored.n + int64(len(w.buf))
}

// Commit flushes the file and makes it part of the staged output. After an error the
// caller calls Discard.
func (w *Writer) Commit() error {
	if err := w.Flush(); err != nil {
		return err
	}
	return w.dst.Commit()
}

// Discard removes the file. It is a no-op after Commit.
func (w *Writer) Discard() error {
	// Without Flush: the bytes in the buffer and in the compressor go with the file. Compressors start no
	// goroutines, so none must be closed.
	w.done = true
	w.free()
	return w.dst.Discard()
}

// counter counts the bytes that are written through it.
type counter struct {
	w io.Writer
	n int64
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	// A storage that takes fewer bytes without an error breaks io.Writer's contract, and would leave a hole
	// in the file.
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return n, err
}
