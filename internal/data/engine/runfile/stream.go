package runfile

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/slotwise/slotwise/internal/data/kv"
)

// stream reads one partition. Records are slices of the current block: of the window
// for an uncompressed block, else of the decoded copy.
type stream struct {
	f    *File
	next int64 // file offset of the first byte not yet in the window
	end  int64 // file offset at which the partition ends

	win []byte // stored bytes read ahead; win[pos:] are not consumed yet
	// borrowed is set if win belongs to the caller of OpenBytes and contains the
	// whole section.
	borrowed bool
	pos      int
	raw      []byte // decoded block
	left     []byte // records of the current block not yet read

	key, value []byte
	same       bool
	records    int64 // unread records, by the index
	bytes      int64 // size of their keys and values
	memory     int   // see Memory
	err        error
}

var _ kv.Stream = (*stream)(nil)

// newStream returns a stream before the first record. It allocates no buffer before the first Next.
func newStream(f *File, p *partStat) *stream {
	// A job of many maps and reduces has partitions much smaller than a block.
	// The section's own bounds count as well: a lying footer must not make a small partition reserve a
	// large buffer.
	window := min(int64(f.window()), p.length)
	decoded := min(int64(f.foot.maxRaw), saturated(p.raw, product(p.records, 2*binary.MaxVarintLen32)))
	return &stream{
		f: f, next: p.offset, end: p.offset + p.length,
		records: p.records, bytes: p.raw, memory: bufferCap(int(window)) + bufferCap(int(decoded)),
	}
}

func (s *stream) Key() []byte   { return s.key }
func (s *stream) Value() []byte { return s.value }
func (s *stream) Err() error    { return s.err }

// Same reports whether the current key is known to equal the previous one. It may be
// false for equal keys, at a block's start. Merges use it to skip comparisons.
func (s *stream) Same() bool { return s.same }

// Memory returns the largest size of the stream's buffers in bytes. Before the first
// Next and after the last it has no buffers.
func (s *stream) Memory() int { return s.memory }

// Remaining returns the number of unread records and the total size of their keys
// and values.
func (s *stream) Remaining() (records, bytes int64) { return s.records, s.bytes }

// Next moves to the next record. Every length is checked against the block before it is used,
// because a checksum protects from damage and not from a file that was made to be wrong.
func (s *stream) Next() bool {
	b := s.left
	if len(b) == 0 {
		if !s.load() {
			return false
		}
		b = s.left
	}
	var klen, vlen, at int
	// Nearly all lengths take one byte each, for which this is faster than the general decoding.
	if len(b) >= 2 && b[0]|b[1] < 0x80 {
		klen, vlen, at = int(b[0])-1, int(b[1]), 2
	} else if klen, vlen, at = longLengths(b); at == 0 {
		return s.corrupt("record lengths")
	}
	// Length 0 in the file means the same key as before. The first record of a block has no key
	// before it, because blocks are decoded alone.
	if klen < 0 {
		if s.key == nil || vlen > len(b)-at {
			return s.corrupt("record without a key")
		}
		s.same = true
		klen = len(s.key)
	} else {
		if klen > len(b)-at || vlen > len(b)-at-klen {
			return s.corrupt("record longer than its block")
		}
		s.same = false
		s.key = b[at : at+klen : at+klen]
		at += klen
	}
	s.value = b[at : at+vlen : at+vlen]
	s.left = b[at+vlen:]
	s.records--
	s.bytes -= int64(klen + vlen)
	return true
}

// longLengths decodes lengths of any size; at is 0 if they are not valid.
func longLengths(b []byte) (klen, vlen, at int) {
	k, n := binary.Uvarint(b)
	if n <= 0 || k > MaxRecord+1 {
		return 0, 0, 0
	}
	v, m := binary.Uvarint(b[n:])
	if m <= 0 || v > MaxRecord {
		return 0, 0, 0
	}
	return int(k) - 1, int(v), n + m
}

// load makes the next block current.
func (s *stream) load() bool {
	// The block's memory is about to be overwritten, and a block begins with a whole key.
	s.key, s.value, s.same = nil, nil, false
	if s.err != nil {
		return false
	}
	at := s.next - int64(len(s.win)-s.pos)
	if at >= s.end {
		// A file that was cut at the end of a block has blocks with correct checksums. Only the
		// index knows that records are missing.
		if s.records != 0 || s.bytes != 0 {
			return s.corrupt("partition does not hold the records that the index promises")
		}
		s.free()
		return false
	}
	// Usually there already: the read of the block before has brought this header along.
	if !s.fill(blockHdrLen) {
		return false
	}
	hdr := s.win[s.pos : s.pos+blockHdrLen]
	h := parseBlockHeader(hdr)
	if err := s.f.foot.plausible(h, at, s.end); err != nil {
		s.err = s.f.errorAt(at, err)
		return false
	}
	// Reading the next block's header as well makes one read per block.
	if !s.fill(blockHdrLen + h.stored + blockHdrLen) {
		return false
	}
	// Sliced again, because fill may have moved the window.
	hdr = s.win[s.pos : s.pos+blockHdrLen]
	stored := s.win[s.pos+blockHdrLen : s.pos+blockHdrLen+h.stored]
	if blockSum(hdr, at, stored) != h.sum {
		s.err = s.f.errorAt(at, fmt.Errorf("block: %w", ErrChecksum))
		return false
	}
	s.pos += blockHdrLen + h.stored
	return s.decode(h, stored, at)
}

// plausible checks the header of the block at offset at, before memory is allocated
// for the lengths in it. The checksum can be checked only when the block is read.
func (f *footer) plausible(h blockHeader, at, end int64) error {
	switch {
	case at+blockHdrLen+int64(h.stored) > end:
		return fmt.Errorf("%w: block ends past its partition", ErrCorrupt)
	case h.raw < 2 || h.raw > f.maxRaw || h.stored > f.maxStored:
		return fmt.Errorf("%w: block of %d bytes", ErrCorrupt, h.raw)
	case !h.codec.valid():
		return fmt.Errorf("%w: unknown %v", ErrCorrupt, h.codec)
	case h.codec == None && h.raw != h.stored:
		return fmt.Errorf("%w: uncompressed block of %d bytes for %d", ErrCorrupt, h.stored, h.raw)
	}
	return nil
}

// decode makes the block's records available in left.
func (s *stream) decode(h blockHeader, stored []byte, at int64) bool {
	if h.codec == None {
		s.left = stored
		return true
	}
	if cap(s.raw) < h.raw {
		putBuffer(s.raw)
		s.raw = getBuffer(h.raw)
	}
	s.raw = s.raw[:h.raw]
	n, err := coders[h.codec].decode(s.raw, stored)
	if err == nil && n != h.raw {
		err = fmt.Errorf("%d bytes instead of %d", n, h.raw)
	}
	if err != nil {
		s.err = s.f.errorAt(at, fmt.Errorf("%w: %v: %w", ErrCorrupt, h.codec, err))
		return false
	}
	s.left = s.raw
	return true
}

// fill reads until the window contains n unread bytes or the rest of the partition.
// It may move records of the previous block, which are no longer valid.
func (s *stream) fill(n int) bool {
	have := len(s.win) - s.pos
	// Never beyond the partition: the bytes behind it may not be in a section's reader at all.
	rest := s.end - s.next
	n = int(min(int64(n), int64(have)+rest))
	if have >= n {
		return true
	}
	want := int(min(max(int64(n), int64(s.f.opts.Buffer)), int64(have)+rest))
	buf := s.win
	if cap(buf) < want {
		buf = getBuffer(want)
	}
	buf = buf[:want]
	copy(buf, s.win[s.pos:])
	// A new buffer is always larger, so equal capacities mean that win was reused.
	if cap(buf) != cap(s.win) {
		putBuffer(s.win)
	}
	s.win, s.pos = buf, 0
	if err := s.f.readAt(buf[have:], s.next); err != nil {
		s.err, s.win = err, buf[:have]
		return false
	}
	s.next += int64(want - have)
	return true
}

// corrupt ends the stream with an error at the current block, and returns false.
func (s *stream) corrupt(what string) bool {
	at := s.next - int64(len(s.win)-s.pos)
	s.err = s.f.errorAt(at, fmt.Errorf("%w: before here: %s", ErrCorrupt, what))
	s.key, s.value, s.left = nil, nil, nil
	return false
}

// Close returns the buffers to the pool. It never fails.
func (s *stream) Close() error {
	// So that Next after Close reports the end and not a partition with missing records.
	s.next, s.records, s.bytes = s.end, 0, 0
	s.free()
	return nil
}

// free returns the buffers. Slices that the stream has returned are no longer valid.
func (s *stream) free() {
	if !s.borrowed {
		putBuffer(s.win)
	}
	putBuffer(s.raw)
	s.win, s.raw, s.left, s.pos = nil, nil, nil, 0
	s.key, s.value = nil, nil
}

// pooled is the size of the buffers that are kept for reuse: a default block, its
// header and the next header. A reduce opens and closes a stream for each map.
const pooled = DefaultBlockSize + 2*blockHdrLen

var buffers = sync.Pool{New: func() any { return new([pooled]byte) }}

// bufferCap is the capacity of the buffer that getBuffer returns for n bytes.
func bufferCap(n int) int {
	if n > pooled/2 && n <= pooled {
		return pooled
	}
	return n
}

// getBuffer returns n bytes, from the pool if they have about a block's size.
func getBuffer(n int) []byte {
	if bufferCap(n) == pooled {
		return buffers.Get().(*[pooled]byte)[:n]
	}
	return make([]byte, n)
}

func putBuffer(b []byte) {
	if cap(b) == pooled {
		buffers.Put((*[pooled]byte)(b[:pooled]))
	}
}
