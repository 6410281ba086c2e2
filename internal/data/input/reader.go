package input

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"github.com/slotwise/slotwise/internal/base/retry"
	"github.com/slotwise/slotwise/internal/data/format"
	"github.com/slotwise/slotwise/internal/data/storage"
)

// DefaultBlock is the size of blocks in bytes if Open gets 0.
const DefaultBlock = 256 << 10

// Reader reads a split block by block. One goroutine uses it; only BytesRead may be
// called from others.
//
// A life: openNext opens the next piece, and begin chooses its source: a window over the file
// (beginPlain), window over decoded lines (beginRows, beginBlocks, beginDecoded) or a mapping (beginMapped).
// block cuts blocks until io.EOF, and finish verifies that the file is still the planned one.
type Reader struct {
	schemes *storage.Schemes
	ctx     context.Context
	split   Split
	format  Format
	rows    *format.Spec // the split's Rows
	read    atomic.Int64
	next    int // index of the piece after the current one
	win     window

	mapFiles bool
	mapped   mapped

	groupsRead, groupsExcluded int64
	badRecords                 int64 // left out because they have not the form of their format

	piece   *Piece        // the current piece; nil before the first
	file    storage.File  // of the current piece; nil between pieces
	decoded io.ReadCloser // decompresses file, or turns its records into lines; nil if file is read unchanged
}

// Open returns a reader for a split. size is the size of blocks in bytes; 0 means
// DefaultBlock. The reader opens one file at a time. When ctx ends, the next call of
// NextBlock returns its cause.
func Open(ctx context.Context, schemes *storage.Schemes, split Split, in Format, size int) (*Reader, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	if size <= 0 {
		size = DefaultBlock
	}
	// Permanent, because the text was written by the planner: every attempt would parse the same.
	rows, err := format.Parse(split.Rows)
	if err != nil {
		return nil, retry.Permanent(fmt.Errorf("the format of a split: %w", err))
	}
	rows.First = split.First
	r := &Reader{ctx: ctx, schemes: schemes, split: split, format: in, rows: rows}
	r.win.size = size
	return r, nil
}

// File returns the URI of the file that holds the last block, in the form of
// Piece.URI.
func (r *Reader) File() string {
	if r.piece == nil {
		return ""
	}
	return r.piece.URI
}

// Offset returns the offset of the last block in its file, in bytes. In a compressed
// file it is the offset in the decompressed content of the piece.
func (r *Reader) Offset() int64 {
	if r.mapped.file != nil {
		return r.mapped.last
	}
	return r.win.base
}

// Groups returns the number of groups of records, such as row groups of Parquet, that were read so far
// or are being read, and the number of groups that the conditions on columns excluded.
func (r *Reader) Groups() (read, excluded int64) { return r.groupsRead, r.groupsExcluded }

// Bad returns the number of records that were left out so far because they have not the form of their format.
func (r *Reader) Bad() int64 { return r.badRecords }

// partitionsOf returns the columns in the path of a file.
func partitionsOf(uri string, rows *format.Spec) []format.Partition {
	if rows.NoPartitions {
		return nil
	}
	return format.PartitionsOf(uri)
}

// BytesRead returns the number of stored bytes read so far, at most Split.Bytes. Any
// goroutine may call it.
func (r *Reader) BytesRead() int64 { return min(r.read.Load(), r.split.Bytes) }

// NextBlock returns the next block, or io.EOF. A block holds whole records of one file, and is valid until
// the next call. Each line ends with '\n', except possibly the last one of a file. A nil block without an
// error says that records were read that do not meet the conditions, or that a file has ended: the caller
// reports that it is alive, and calls again. For Whole a block is a file's whole content. Run files have no
// blocks; see Records.
func (r *Reader) NextBlock() ([]byte, error) {
	if r.format.Kind == Runs {
		return nil, errors.New("run files are read as records, not as blocks")
	}
	for {
		// For each block, because reads of local files do not look at the context.
		if err := context.Cause(r.ctx); err != nil {
			return nil, err
		}
		if r.file == nil {
			if err := r.openNext(); err != nil {
				return nil, err
			}
		}
		block, err := r.block()
		if err == nil {
			return block, nil
		}
		switch err {
		case errPaused:
			return nil, nil
		// The check of the file comes before the next piece is opened. If it fails, the blocks that were
		// returned are void, since the attempt fails.
		case io.EOF:
			err = r.finish()
		}
		// A split may have thousands of files without a record that meets the conditions. Opening each
		// takes time, so the caller hears of each.
		if err == nil && len(r.rows.Where) > 0 {
			return nil, nil
		}
		if err != nil {
			return nil, r.named(err)
		}
	}
}

// block returns the next block of the current piece, or io.EOF.
func (r *Reader) block() ([]byte, error) {
	if r.mapped.file != nil {
		before := r.mapped.base
		block, err := r.mapped.next(r.win.size)
		// The last line ends behind the piece, or no line starts in it: either way the whole piece
		// counts as read.
		if err == io.EOF {
			r.mapped.base = max(r.mapped.base, r.mapped.end)
		}
		r.read.Add(r.mapped.base - before)
		if err != nil && err != io.EOF {
			// Some file systems map no files, and a process has a limit of mappings. The rest of the
			// piece is read.
			if err := r.mapped.unmap(); err != nil {
				return nil, err
			}
			// From here on the piece is read as a file that was never mapped. No block has been lost:
			// base is the next one.
			r.mapped.file = nil
			r.win.reset(r.section(r.mapped.base), r.mapped.base, r.mapped.end)
			r.win.start = r.mapped.start
			return r.win.lines()
		}
		return block, err
	}
	switch r.format.Kind {
	case Fixed:
		return r.win.fixed(r.format.RecordLen)
	case Whole:
		return r.win.all(r.hint())
	default:
		return r.win.lines()
	}
}

// hint returns the length of a whole file's content, or 0 if it is unknown.
func (r *Reader) hint() int64 {
	// The file's size is the size of its compressed bytes.
	if r.decoded != nil {
		return 0
	}
	return r.piece.FileSize
}

// openNext opens the next piece, or returns io.EOF.
func (r *Reader) openNext() error {
	if r.next == len(r.split.Pieces) {
		return io.EOF
	}
	r.piece = &r.split.Pieces[r.next]
	r.next++
	fs, path, err := r.schemes.Resolve(r.piece.URI)
	if err != nil {
		return err
	}
	if r.file, err = fs.Open(r.ctx, path); err != nil {
		return r.named(err)
	}
	// Close, because r.file is set already and no later call would close it.
	if err := r.begin(); err != nil {
		return r.named(errors.Join(err, r.Close()))
	}
	return nil
}

// begin positions the window at the first record of the piece. A piece of lines is read
// from one byte before its offset: if that byte is a '\n', a line starts exactly at the
// offset and belongs to the piece.
func (r *Reader) begin() error {
	p := r.piece
	// Attempts read the file at different times. Without the check one job would read records
	// of both files, and cut the records at the end of the old one's size.
	if err := storage.CheckUnchanged(r.file, p.Version, p.FileSize); err != nil {
		return err
	}
	// A part of a file without Rows is text, as planning has found. Only these others may have another
	// content.
	if p.whole() || r.split.Rows != "" || r.split.Sample {
		c, err := contentOf(r.file, p.URI, r.format, r.rows)
		if err != nil {
			return err
		}
		switch {
		case c.rows != nil:
			return r.beginRows(&c)
		case c.codec.divides() && r.format.lines():
			r.decoded = r.beginBlocks(&r.win, c.codec)
			return nil
		// A sample from the middle of a file that must be read from its start. The sample at offset 0
		// covers this file.
		case c.codec != nil && p.Offset > 0:
			r.win.reset(nil, 0, 0)
			return nil
		case c.codec != nil:
			return r.beginDecoded(c.codec)
		}
	}
	// For a small piece the mapping costs more than the copy.
	if file, ok := r.file.(storage.Mappable); ok && r.mapFiles && r.format.Kind == Text && p.Length > int64(r.win.size) {
		r.beginMapped(file)
		return nil
	}
	return r.beginPlain(&r.win)
}

// beginMapped is beginPlain for a file that is mapped into memory.
func (r *Reader) beginMapped(file storage.Mappable) {
	p := r.piece
	// One byte before the piece, as in beginPlain.
	base := max(0, p.Offset-1)
	r.mapped = mapped{file: file, size: p.FileSize, from: base, base: base, end: p.Offset + p.Length, start: p.Offset > 0}
}

// beginPlain positions a window at the first record of a piece that is not decoded.
func (r *Reader) beginPlain(w *window) error {
	p := r.piece
	base, end := p.Offset, p.Offset+p.Length
	switch r.format.Kind {
	case Fixed:
		rec := int64(r.format.RecordLen)
		if p.FileSize%rec != 0 {
			return retry.Permanent(fmt.Errorf("its %d bytes are not a multiple of the record length %d", p.FileSize, rec))
		}
		// Both borders are rounded up, so the record that crosses a border belongs to the piece in
		// which it starts.
		base, end = (base+rec-1)/rec*rec, (end+rec-1)/rec*rec
	// For the piece at 0 base stays 0, and start below is false: its first line begins with the file.
	case Text, KeyValue:
		base = max(0, base-1)
	}
	w.reset(r.section(base), base, end)
	w.start = r.format.lines() && p.Offset > 0
	return nil
}

// beginBlocks positions a window at the first line of the piece's blocks, and returns the
// decompressor. A line that begins where a block of the piece begins belongs to the piece
// of the block before, because only that piece knows that a line ends there. So a piece
// that begins within the file drops the bytes up to and including the first '\n', and every
// piece includes the line that begins at the end of its content.
func (r *Reader) beginBlocks(w *window, c *codec) io.ReadCloser {
	p := r.piece
	from, to := p.Offset, p.Offset+p.Length
	d := &decoder{ReadCloser: io.NopCloser(c.blocks(&counted{r: r}, p.FileSize, from, to, func(n int64) { w.end = n + 1 })), codec: c}
	d.src.failed = true // nothing notes the errors of the file, so none of the decoder's is permanent
	w.reset(d, 0, unbounded)
	w.start = from > 0
	return d
}

// beginRows positions the window at the first line of a file whose records become lines.
func (r *Reader) beginRows(c *content) error {
	p := r.piece
	src := &format.Source{
		File: &counted{r: r}, Size: p.FileSize, From: p.Offset, To: p.Offset + p.Length, Decompress: decompress,
		Partitions: partitionsOf(p.URI, r.rows), Pauses: true,
		CountGroups: func(read, excluded int) {
			r.groupsRead += int64(read)
			r.groupsExcluded += int64(excluded)
		},
		CountBad: func() { r.badRecords++ },
	}
	if !c.rows.Binary() {
		if err := r.openText(c, src); err != nil {
			return err
		}
	}
	d, err := format.Open(src, r.rows.As(c.rows.Name))
	if err != nil {
		return errors.Join(err, closeText(src))
	}
	r.decoded = &joined{d, src}
	r.win.reset(r.decoded, 0, unbounded)
	r.win.pauses = true
	return nil
}

// openText sets the source of a format of text: the lines that start in the piece. A file
// that cannot be divided is read whole by the piece at its start.
func (r *Reader) openText(c *content, src *format.Source) (err error) {
	p := r.piece
	w := &window{size: r.win.size}
	switch {
	case c.codec.divides() && c.rows.Divide(r.rows):
		r.beginBlocks(w, c.codec)
		if p.Offset > 0 {
			src.FirstLine = func() ([]byte, error) { return r.firstLine(c.codec) }
		}
		src.Text = &windowReader{w: w}
		return nil
	case c.codec != nil || !c.rows.Divide(r.rows):
		src.Text = strings.NewReader("")
		if p.Offset > 0 {
			return nil // a sample
		}
		src.Text = r.section(0)
		if c.codec != nil {
			src.Text, err = c.codec.decode(src.Text)
		}
		return err
	case p.Offset > 0:
		src.FirstLine = func() ([]byte, error) { return r.firstLine(nil) }
	}
	src.Text = &windowReader{w: w}
	return r.beginPlain(w)
}

// firstLine returns the first line of the current file, which a codec decompresses unless
// it is nil.
func (r *Reader) firstLine(c *codec) ([]byte, error) {
	var src io.Reader = r.section(0)
	if c != nil {
		d, err := c.decode(src)
		if err != nil {
			return nil, err
		}
		defer d.Close()
		src = d
	}
	// A small window, because one line is wanted. A long line makes it grow.
	w := &window{size: lookahead}
	// An end of 1 makes the window return the one line that begins at 0.
	w.reset(src, 0, 1)
	return w.lines()
}

// closeText closes the decompressor of a source.
func closeText(src *format.Source) error {
	if c, ok := src.Text.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// joined are the lines of a source, whose decompressor it closes, too.
type joined struct {
	io.ReadCloser
	src *format.Source
}

// Close implements io.Closer.
func (j *joined) Close() error { return errors.Join(j.ReadCloser.Close(), closeText(j.src)) }

// windowReader reads the lines of a window as a stream.
type windowReader struct {
	w    *window
	rest []byte // of the last block
}

// Read implements io.Reader.
func (r *windowReader) Read(p []byte) (n int, err error) {
	if len(r.rest) == 0 {
		if r.rest, err = r.w.lines(); err != nil {
			return 0, err
		}
	}
	n = copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// beginDecoded positions the window at the start of a compressed file.
func (r *Reader) beginDecoded(c *codec) error {
	d, err := c.decode(r.section(0))
	if err != nil {
		return err
	}
	r.decoded = d
	r.win.reset(d, 0, unbounded)
	return nil
}

func (r *Reader) section(off int64) *section {
	return &section{f: r.file, off: off, end: r.piece.FileSize, read: &r.read}
}

// named adds the file's URI to an error without it. The URI of the input's first file, which a
// LayoutError has, may begin with the URI of this file.
func (r *Reader) named(err error) error {
	_, layout := errors.AsType[*format.LayoutError](err)
	if r.piece == nil || !layout && strings.Contains(err.Error(), r.piece.URI) {
		return err
	}
	return fmt.Errorf("input %s: %w", r.piece.URI, err)
}

// finish closes the current file, whose piece has been read to its end. A file that was
// overwritten meanwhile has given records of both contents, so it fails the attempt.
func (r *Reader) finish() error {
	if r.file == nil {
		return r.Close()
	}
	// Close is called even if the check fails: NextBlock returns the error, and no later call would close the
	// file.
	err := storage.CheckUnchanged(r.file, r.piece.Version, r.piece.FileSize)
	return errors.Join(err, r.Close())
}

// Close closes the current file. After io.EOF it is not needed.
func (r *Reader) Close() error {
	var err error
	if r.mapped.file != nil {
		err = r.mapped.unmap()
		r.mapped.file = nil
	}
	if r.decoded != nil {
		err = errors.Join(err, r.decoded.Close())
	}
	if r.file != nil {
		err = errors.Join(err, r.file.Close())
	}
	r.decoded, r.file = nil, nil
	return err
}

// section reads the bytes [off, end) of a file. It returns io.EOF together with the last
// bytes, which saves a call.
type section struct {
	f    storage.File
	off  int64
	end  int64         // the file's size when the job was planned
	read *atomic.Int64 // counts the bytes
}

// errShorter reports a file that has lost its end since the job was planned.
var errShorter = fmt.Errorf("it became shorter while it was read: %w", io.ErrUnexpectedEOF)

// Read implements io.Reader. A file that has become shorter since the plan is an error: its lost
// end would otherwise pass for the end of the split.
func (s *section) Read(p []byte) (int, error) {
	// Bytes that were appended since the job was planned are not read: attempts at different times must
	// agree.
	if left := s.end - s.off; int64(len(p)) > left {
		p = p[:left]
	}
	if len(p) == 0 && s.off >= s.end {
		return 0, io.EOF
	}
	n, err := s.f.ReadAt(p, s.off)
	s.off += int64(n)
	s.read.Add(int64(n))
	switch {
	case n == len(p) && s.off >= s.end:
		return n, io.EOF
	case n == len(p):
		return n, nil
	case err == io.EOF:
		return n, errShorter
	}
	return n, err
}
