package runfile

import (
	"fmt"
	"io"
	"sync"

	"github.com/slotwise/slotwise/internal/data/kv"
)

// ReadOptions tune the streams of a file.
type ReadOptions struct {
	// Buffer is the number of bytes that a stream reads at once; 0 is one block,
	// which takes the least memory. For many streams from one spinning disk, 1 MiB
	// or more is faster.
	Buffer int
}

// File is an open run. It and its streams may be used from several goroutines,
// each stream by one.
type File struct {
	r      io.ReaderAt
	name   string
	opts   ReadOptions
	foot   footer
	parts  []partStat
	closer sync.Once
}

var _ kv.Partitioned = (*File)(nil)

// Open reads the index of a run of size bytes. The name is only for errors.
// On success the File owns r: Release closes it if it is an io.Closer.
func Open(r io.ReaderAt, size int64, name string) (*File, error) {
	return OpenWith(r, size, name, ReadOptions{})
}

// OpenWith is Open with options.
func OpenWith(r io.ReaderAt, size int64, name string, opts ReadOptions) (*File, error) {
	f := &File{r: r, name: name, opts: opts}
	if err := f.readEnds(size); err != nil {
		return nil, err
	}
	if err := f.readIndex(size); err != nil {
		return nil, err
	}
	return f, nil
}

// readEnds checks the header and reads the footer. It checks the header first, so
// that the error for another kind of file does not speak of damage.
func (f *File) readEnds(size int64) error {
	// A file shorter than a header is read as far as it goes: an empty one is not a run file, a short
	// one is cut off.
	head := make([]byte, min(size, int64(headerLen)))
	if err := f.readAt(head, 0); err != nil {
		return err
	}
	n := min(len(head), len(magic))
	if string(head[:n]) != magic[:n] || n == 0 {
		return f.errorAt(0, ErrMagic)
	}
	if size < int64(headerLen+footerLen) {
		return f.errorAt(size, fmt.Errorf("%w: %d bytes are too few", ErrTruncated, size))
	}
	// Before the footer, whose layout may differ in another version.
	if v := head[len(magic)]; v != version {
		return f.errorAt(int64(len(magic)), fmt.Errorf("%w %d (this program reads %d)", ErrVersion, v, version))
	}
	tail := make([]byte, footerLen)
	at := size - int64(footerLen)
	if err := f.readAt(tail, at); err != nil {
		return err
	}
	foot, err := parseFooter(tail)
	if err != nil {
		return f.errorAt(at, err)
	}
	f.foot = foot
	return nil
}

// readIndex reads the index into memory.
func (f *File) readIndex(size int64) error {
	return f.scanIndex(size, 0, func(p *partStat) { f.parts = append(f.parts, *p) })
}

// Partitions returns the number of partitions.
func (f *File) Partitions() int { return len(f.parts) }

// Partition opens the records of partition p. The stream keeps the bytes that its method Memory returns until its
// records have been read, or it is closed.
func (f *File) Partition(p int) (kv.Stream, error) {
	if p < 0 || p >= len(f.parts) {
		return nil, fmt.Errorf("run file %s: no partition %d of %d", f.name, p, len(f.parts))
	}
	return newStream(f, &f.parts[p]), nil
}

// Size returns the number of records in partition p and the total size of their keys
// and values. Both are 0 for a partition that does not exist.
func (f *File) Size(p int) (records, bytes int64) {
	if p < 0 || p >= len(f.parts) {
		return 0, 0
	}
	return f.parts[p].records, f.parts[p].raw
}

// window returns the largest number of stored bytes that a stream keeps: the largest
// block, its header and the next header.
func (f *File) window() int { return max(f.foot.maxStored+2*blockHdrLen, f.opts.Buffer) }

// Name returns the name given to Open.
func (f *File) Name() string { return f.name }

// Release closes the underlying reader if it can be closed. Streams must not
// be used after it. Only the first call has an effect.
func (f *File) Release() {
	f.closer.Do(func() {
		if c, ok := f.r.(io.Closer); ok {
			_ = c.Close() // nothing was written through it
		}
	})
}

// readAt fills b from offset off.
func (f *File) readAt(b []byte, off int64) error {
	n, err := f.r.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	// The index has promised these bytes, so an end here is damage of the file and not a normal end
	// of reading.
	if err == nil || err == io.EOF || err == io.ErrUnexpectedEOF {
		return f.errorAt(off+int64(n), ErrTruncated)
	}
	return f.errorAt(off, err)
}

func (f *File) errorAt(off int64, err error) error {
	return &Error{Name: f.name, Offset: off, Err: err}
}
