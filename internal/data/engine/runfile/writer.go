package runfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"

	"github.com/slotwise/slotwise/internal/base/retry"
)

// Options shape a run being written. The zero value is not valid: Partitions
// must be at least 1.
type Options struct {
	// Partitions is the number of partitions, including empty ones.
	Partitions int
	// Codec compresses blocks. A block that does not shrink is stored uncompressed.
	Codec Codec
	// BlockSize is the number of record bytes at which a block is closed; 0
	// is DefaultBlockSize. Each open stream keeps one block in memory, so smaller
	// blocks suit runs that are merged by the thousand. A record larger than a
	// block gets its own block.
	BlockSize int
	// Unordered allows keys in any order, for files that are not merged: the output
	// of one job that is the input of another.
	Unordered bool
}

// partStat is the index entry of a partition.
type partStat struct {
	offset  int64 // of its first block
	length  int64 // bytes of all its blocks
	records int64
	raw     int64 // bytes of keys and values
}

// Writer writes a run from its first record to its last. It buffers one block
// and writes each with a single call, so w needs no buffering. After
// an error the run is useless and every later call returns the same error.
type Writer struct {
	w     io.Writer
	opts  Options
	off   int64 // bytes written
	parts []partStat
	part  int // the partition being written

	buf    []byte // room for a block header, then the open block's records
	packed []byte // room for a block header, then compressed bytes
	last   []byte // the previous key, in buf or in keep; nil at a partition's start
	keep   []byte // where last lives once its block has been written

	maxRaw, maxStored int
	err               error
	done              bool
}

var errFinished = errors.New("run file writer: used after Finish")

// NewWriter begins a run. Wrong options are reported by the first call of
// Append or Finish.
func NewWriter(w io.Writer, opts Options) *Writer {
	if opts.BlockSize == 0 {
		opts.BlockSize = DefaultBlockSize
	}
	opts.BlockSize = min(max(opts.BlockSize, minBlockSize), maxBlockSize)
	wr := &Writer{w: w, opts: opts}
	switch {
	case opts.Partitions < 1 || opts.Partitions > MaxPartitions:
		wr.err = fmt.Errorf("run file writer: %d partitions; must be from 1 to %d", opts.Partitions, MaxPartitions)
	case !opts.Codec.valid():
		wr.err = fmt.Errorf("run file writer: unknown %v", opts.Codec)
	default:
		wr.parts = make([]partStat, opts.Partitions)
		wr.parts[0].offset = int64(headerLen)
		wr.write(append([]byte(magic), version))
	}
	return wr
}

// Append adds a record, which is copied. Partitions must come in ascending
// order and, unless Unordered, keys in ascending order within one; equal keys
// keep their order.
func (w *Writer) Append(part int, key, value []byte) error {
	if w.err != nil {
		return w.err
	}
	if part != w.part {
		if err := w.advance(part); err != nil {
			return err
		}
	}
	size := len(key) + len(value)
	// Permanent: the job's code would emit the record in every attempt.
	if size > MaxRecord {
		w.err = retry.Permanent(fmt.Errorf("a record of %d bytes is longer than 1 GiB, the most between map and reduce and in run files: emit it in parts", size))
		return w.err
	}
	same := false
	// An error here fails the attempt that wrote the keys. A merge would find the mistake only
	// later, on another machine.
	if w.last != nil {
		c := bytes.Compare(w.last, key)
		if c > 0 && !w.opts.Unordered {
			return w.fail("keys out of order in partition %d: %.40q after %.40q", part, key, w.last)
		}
		same = c == 0
	}
	// The open block ends before this record, unless it is empty: then the record is larger than a
	// block and fills one alone.
	if len(w.buf)+size+2*binary.MaxVarintLen32 > w.opts.BlockSize+blockHdrLen && len(w.buf) > blockHdrLen {
		w.flush()
	}
	w.put(key, value, same)
	st := &w.parts[part]
	st.records++
	st.raw += int64(size)
	return w.err
}

// put encodes a record into the open block. It writes the key's length plus one, or
// zero if the key equals the previous one in this block.
func (w *Writer) put(key, value []byte, same bool) {
	b := w.buf
	if len(b) < blockHdrLen {
		if cap(b) == 0 {
			b = getBuffer(blockHdrLen + max(w.opts.BlockSize, len(key)+len(value)+2*binary.MaxVarintLen32))[:0]
		}
		b = b[:blockHdrLen]
		// Blocks are decoded alone, so each one begins with a whole key.
		same = false
	}
	if same {
		b = append(b, 0)
		b = binary.AppendUvarint(b, uint64(len(value)))
		w.buf = append(b, value...)
		return
	}
	b = binary.AppendUvarint(b, uint64(len(key))+1)
	b = binary.AppendUvarint(b, uint64(len(value)))
	at := len(b)
	b = append(b, key...)
	w.last = b[at:len(b):len(b)]
	w.buf = append(b, value...)
}

// advance closes the current partition and those between it and part.
func (w *Writer) advance(part int) error {
	if w.done {
		w.err = errFinished
		return w.err
	}
	if part < w.part || part >= len(w.parts) {
		return w.fail("partition %d after %d of %d", part, w.part, len(w.parts))
	}
	w.closeParts(part)
	return w.err
}

// closeParts ends the current partition and makes next the current one.
func (w *Writer) closeParts(next int) {
	w.flush()
	w.last = nil
	w.parts[w.part].length = w.off - w.parts[w.part].offset
	// Partitions without records lie between two offsets that are equal.
	for p := w.part + 1; p <= next && p < len(w.parts); p++ {
		w.parts[p].offset = w.off
	}
	w.part = next
}

// flush writes the open block, if it has any records.
func (w *Writer) flush() {
	raw := len(w.buf) - blockHdrLen
	if raw <= 0 || w.err != nil {
		return
	}
	h := blockHeader{codec: None, raw: raw, stored: raw}
	block := w.buf
	if w.opts.Codec != None {
		if cap(w.packed) < blockHdrLen {
			w.packed = getBuffer(blockHdrLen + w.opts.BlockSize)[:0]
		}
		packed, err := coders[w.opts.Codec].encode(w.packed[:blockHdrLen], w.buf[blockHdrLen:])
		if err != nil {
			w.err = fmt.Errorf("run file writer: %v: %w", w.opts.Codec, err)
			return
		}
		// A block that does not shrink is cheaper to read as it stands.
		if n := len(packed) - blockHdrLen; n < raw {
			h.codec, h.stored, block = w.opts.Codec, n, packed
		}
		w.packed = w.shed(packed)
	}
	h.put(block, w.off, block[blockHdrLen:])
	w.write(block)
	w.maxRaw, w.maxStored = max(w.maxRaw, h.raw), max(w.maxStored, h.stored)
	// last points into the block's buffer, which is filled again.
	w.keep = append(w.keep[:0], w.last...)
	w.last = w.keep
	w.buf = w.shed(w.buf)
}

// shed empties a buffer. It drops a buffer that a huge record has made large.
func (w *Writer) shed(b []byte) []byte {
	if cap(b) > 4*w.opts.BlockSize {
		return nil
	}
	return b[:0]
}

// Finish writes the open block, the index and the footer. It does not close the
// underlying writer.
func (w *Writer) Finish() error {
	if w.done {
		return errFinished
	}
	if w.err != nil {
		return w.err
	}
	// Also closes the empty partitions behind the last record.
	w.closeParts(len(w.parts))
	w.done = true
	var index []byte
	for i := range w.parts {
		p := &w.parts[i]
		index = binary.AppendUvarint(index, uint64(p.length))
		index = binary.AppendUvarint(index, uint64(p.records))
		index = binary.AppendUvarint(index, uint64(p.raw))
	}
	f := footer{
		indexOff:   w.off,
		indexLen:   len(index),
		partitions: len(w.parts),
		maxRaw:     w.maxRaw,
		maxStored:  w.maxStored,
		indexSum:   xxhash.Sum64(index),
	}
	w.write(append(index, f.encode()...))
	// The process of a worker writes a file for each of thousands of small maps.
	putBuffer(w.buf)
	putBuffer(w.packed)
	w.buf, w.packed = nil, nil
	return w.err
}

// Size returns the bytes written so far: after Finish, the file's size.
func (w *Writer) Size() int64 { return w.off }

// write writes bytes and advances the offset. The first error is kept, and nothing is written after
// it.
func (w *Writer) write(b []byte) {
	if w.err != nil {
		return
	}
	n, err := w.w.Write(b)
	// Also after an error, whose message has the offset.
	w.off += int64(n)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		w.err = fmt.Errorf("writing run file at offset %d: %w", w.off, err)
	}
}

func (w *Writer) fail(format string, args ...any) error {
	w.err = fmt.Errorf("run file writer: "+format, args...)
	return w.err
}
