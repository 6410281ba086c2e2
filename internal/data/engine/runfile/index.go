package runfile

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"

	"github.com/cespare/xxhash/v2"
)

const (
	// MaxPartitions is the largest number of partitions of a run, more than a cluster has tasks.
	// It bounds the index, which a reader of an unknown file keeps in memory.
	MaxPartitions = 1 << 22

	// indexPiece is the number of bytes of an index that are read at once.
	indexPiece = 32 << 10
	// minEntry and maxEntry are the lengths of an index entry of three uvarints, in bytes.
	minEntry, maxEntry = 3, 3 * binary.MaxVarintLen64
	// maxBlock is the largest number of bytes of records in a block: a block larger than
	// maxBlockSize has one record.
	maxBlock = MaxRecord + 2*binary.MaxVarintLen32
)

// Scan verifies the header, footer and index of a run of size bytes, and calls visit for each
// partition in ascending order. partitions is the number of partitions that the run must have; 0
// accepts any number up to MaxPartitions. The name is only for errors.
//
// Scan is for a file that somebody else wrote: it reads the index in pieces and needs the same
// small memory for every file. The checksum of the index is compared at the end, so a caller
// must not use what visit has received if Scan returns an error.
func Scan(r io.ReaderAt, size int64, name string, partitions int, visit func(part int, s Section)) error {
	f := &File{r: r, name: name}
	if err := f.readEnds(size); err != nil {
		return err
	}
	part := 0
	return f.scanIndex(size, partitions, func(p *partStat) {
		visit(part, f.section(p))
		part++
	})
}

// scanIndex reads the index in pieces and calls visit for each partition. It refuses a footer
// that does not fit the file or the number of partitions, before it reads the index.
func (f *File) scanIndex(size int64, partitions int, visit func(*partStat)) error {
	off, foot := f.foot.indexOff, f.foot
	if partitions > 0 && foot.partitions != partitions {
		return f.errorAt(size-int64(footerLen), fmt.Errorf("%w: %d partitions instead of %d", ErrCorrupt, foot.partitions, partitions))
	}
	// The footer's checksum proves that the numbers were written like this, not that they are sane. A
	// reader allocates and seeks by them.
	if off < int64(headerLen) || off+int64(foot.indexLen)+int64(footerLen) != size ||
		foot.partitions < 1 || foot.partitions > MaxPartitions || foot.partitions > foot.indexLen/minEntry ||
		foot.indexLen > foot.partitions*maxEntry || foot.maxRaw > maxBlock || foot.maxStored > foot.maxRaw {
		return f.errorAt(size-int64(footerLen), fmt.Errorf("%w: footer does not fit a file of %d bytes", ErrCorrupt, size))
	}
	x := &indexReader{f: f, next: off, end: off + int64(foot.indexLen), buf: make([]byte, min(foot.indexLen, indexPiece))}
	wrong := f.entries(x, visit)
	if x.err != nil {
		return x.err
	}
	// Damage of the index is reported as a wrong checksum and not as the first entry that
	// happens to contradict another.
	if !x.skip() {
		return x.err
	}
	if x.sum.Sum64() != foot.indexSum {
		return f.errorAt(off, fmt.Errorf("index: %w", ErrChecksum))
	}
	return wrong
}

// entries reads the entries of the index and calls visit for each, which must not keep its
// argument. It returns the first contradiction; x.err is the error of a read.
func (f *File) entries(x *indexReader, visit func(*partStat)) error {
	off, at := f.foot.indexOff, int64(headerLen)
	var p partStat // one for all, because visit makes it escape to the heap
	for i := range f.foot.partitions {
		p.offset = at
		for _, field := range []*int64{&p.length, &p.records, &p.raw} {
			v, n := x.uvarint()
			if n <= 0 || int64(v) < 0 {
				return f.errorAt(off, fmt.Errorf("%w: index entry %d", ErrCorrupt, i))
			}
			*field = int64(v)
		}
		// at < p.offset is an overflow of the sum.
		if at += p.length; at > off || at < p.offset {
			return f.errorAt(off, fmt.Errorf("%w: partition %d ends past the index", ErrCorrupt, i))
		}
		if !f.foot.holds(&p) {
			return f.errorAt(off, fmt.Errorf("%w: partition %d of %d bytes cannot hold %d records of %d bytes", ErrCorrupt, i, p.length, p.records, p.raw))
		}
		visit(&p)
	}
	// Bytes between the last block and the index would belong to no partition, and no checksum would
	// cover them.
	if at != off || x.next != x.end || len(x.left) != 0 {
		return f.errorAt(off, fmt.Errorf("%w: index does not cover the file", ErrCorrupt))
	}
	return nil
}

// holds reports whether the blocks of a partition can hold as many records and bytes as the
// index promises. Each block has a header and at most maxRaw bytes, each record takes at
// least two bytes, and a key that is not repeated is in the same block.
func (f *footer) holds(p *partStat) bool {
	most := product(p.length/blockHdrLen, int64(f.maxRaw))
	return p.records <= most/2 && p.raw <= product(p.records, int64(f.maxRaw)) && (p.records > 0) == (p.length > 0)
}

// product returns a·b, or the largest int64 if that is less.
func product(a, b int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(b))
	if high != 0 || int64(low) < 0 {
		return 1<<63 - 1
	}
	return int64(low)
}

// indexReader reads the bytes of an index once, in pieces, and hashes them.
type indexReader struct {
	f         *File
	next, end int64  // offsets of the first byte that is not in left, and of the index's end
	buf       []byte // of at most indexPiece bytes
	left      []byte // bytes of buf that are not consumed
	sum       xxhash.Digest
	err       error // of a read
}

// uvarint consumes an integer. n is 0 or negative, as of binary.Uvarint, if there is none.
func (x *indexReader) uvarint() (v uint64, n int) {
	// An integer may lie across two pieces. Fewer bytes than the longest integer has are joined with
	// the next piece.
	if len(x.left) < binary.MaxVarintLen64 && !x.more() {
		return 0, 0
	}
	if v, n = binary.Uvarint(x.left); n > 0 {
		x.left = x.left[n:]
	}
	return v, n
}

// more reads the next piece behind the bytes that are left. It returns false after an error.
func (x *indexReader) more() bool {
	if x.next == x.end {
		return true
	}
	// The zero Digest is not usable: Reset sets the seed.
	if x.next == x.f.foot.indexOff {
		x.sum.Reset()
	}
	// left is the end of buf, so the copy overlaps; copy allows that.
	have := copy(x.buf, x.left)
	n := have + int(min(int64(len(x.buf)-have), x.end-x.next))
	x.left = x.buf[:n]
	if x.err = x.f.readAt(x.buf[have:n], x.next); x.err != nil {
		return false
	}
	_, _ = x.sum.Write(x.buf[have:n]) // never fails
	x.next += int64(n - have)
	return true
}

// skip hashes the rest of the index. It returns false after an error.
func (x *indexReader) skip() bool {
	for x.next < x.end {
		x.left = nil
		if !x.more() {
			return false
		}
	}
	return true
}

// saturated returns a+b, or the largest int64 if that is less.
func saturated(a, b int64) int64 {
	if a > 1<<63-1-b {
		return 1<<63 - 1
	}
	return a + b
}
