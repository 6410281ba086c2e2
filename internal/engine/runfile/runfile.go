// Package runfile is the on-disk form of a sorted, partitioned run: a spill, a
// map's output, and the binary output with which jobs are chained.
//
//	┌────────┬───────┬───────┬───┬───────┬───────┬────────┐
//	│ header │ block │ block │ … │ block │ index │ footer │
//	└────────┴───────┴───────┴───┴───────┴───────┴────────┘
//
// The blocks of partition 0 come first, then those of partition 1, and so on;
// no block holds records of two partitions. A block is compressed on its own
// and carries a checksum that also covers its place in the file, so a flipped
// bit, a cut tail and a block that landed elsewhere are all errors, never
// wrong records. The index says how many bytes, records and blocks' worth of
// data each partition has. docs/formats/runfile.md gives every field.
//
// A key equal to the one before it is not written again. Longer shared
// prefixes are written in full on purpose: a record read back is then two
// slices of the decoded block, with nothing copied and nothing allocated, and
// a compressing codec removes most of the repetition anyway.
package runfile

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"
)

const (
	version     = 1
	magic       = "slotrun"  // followed by the version byte
	tailMagic   = "slotrun." // the file's last bytes
	headerLen   = len(magic) + 1
	blockHdrLen = 17
	footerLen   = 48

	// MaxRecord is the most bytes that a record's key and value may have
	// together: 1 GiB, well inside what every codec can hold in one block.
	MaxRecord = 1 << 30

	// DefaultBlockSize is small enough for hundreds of open streams and large
	// enough that compression and system calls are cheap per byte.
	DefaultBlockSize = 64 << 10

	minBlockSize = 64
	maxBlockSize = 64 << 20
)

// What can be wrong with a file. They are wrapped in an Error, which says
// where; test with errors.Is.
var (
	ErrMagic     = errors.New("not a run file (bad magic)")
	ErrVersion   = errors.New("unsupported version")
	ErrTruncated = errors.New("truncated")
	ErrChecksum  = errors.New("checksum mismatch")
	ErrCorrupt   = errors.New("corrupt")
)

// Error is the failure to read a run file.
type Error struct {
	Name   string // as given to Open
	Offset int64  // of the block, index or footer at fault
	Err    error
}

// Error names the file, the offset and what is wrong.
func (e *Error) Error() string {
	return fmt.Sprintf("run file %s: at offset %d: %v", e.Name, e.Offset, e.Err)
}

// Unwrap gives access to the kind of damage or to the reader's own error.
func (e *Error) Unwrap() error { return e.Err }

// blockHeader precedes each block's stored bytes.
type blockHeader struct {
	codec  Codec
	raw    int // bytes of records
	stored int // bytes in the file
	sum    uint64
}

// put writes the header of the block that starts at offset off. Its checksum
// is that of the stored bytes, mixed with that of the header's other fields
// and the offset: the large part then needs one call of the fast hash.
func (h *blockHeader) put(b []byte, off int64, stored []byte) {
	b[0] = byte(h.codec)
	binary.LittleEndian.PutUint32(b[1:], uint32(h.raw))
	binary.LittleEndian.PutUint32(b[5:], uint32(h.stored))
	binary.LittleEndian.PutUint64(b[9:], blockSum(b, off, stored))
}

func parseBlockHeader(b []byte) blockHeader {
	return blockHeader{
		codec:  Codec(b[0]),
		raw:    int(binary.LittleEndian.Uint32(b[1:])),
		stored: int(binary.LittleEndian.Uint32(b[5:])),
		sum:    binary.LittleEndian.Uint64(b[9:]),
	}
}

// blockSum is the checksum of a block whose header's first nine bytes are in b.
func blockSum(b []byte, off int64, stored []byte) uint64 {
	return xxhash.Sum64(stored) ^ placeSum(b, off)
}

// placeSum is the part of a block's checksum that does not depend on its
// stored bytes.
func placeSum(b []byte, off int64) uint64 {
	var place [17]byte
	copy(place[:9], b)
	binary.LittleEndian.PutUint64(place[9:], uint64(off))
	return xxhash.Sum64(place[:])
}

// footer is the fixed-size end of the file, by which it is opened.
type footer struct {
	indexOff   int64
	indexLen   int
	partitions int
	maxRaw     int // bytes of records in the largest block
	maxStored  int // bytes in the file of the largest block
	indexSum   uint64
}

func (f *footer) encode() []byte {
	b := make([]byte, footerLen)
	binary.LittleEndian.PutUint64(b[0:], uint64(f.indexOff))
	binary.LittleEndian.PutUint32(b[8:], uint32(f.indexLen))
	binary.LittleEndian.PutUint32(b[12:], uint32(f.partitions))
	binary.LittleEndian.PutUint32(b[16:], uint32(f.maxRaw))
	binary.LittleEndian.PutUint32(b[20:], uint32(f.maxStored))
	binary.LittleEndian.PutUint64(b[24:], f.indexSum)
	binary.LittleEndian.PutUint64(b[32:], xxhash.Sum64(b[:32]))
	copy(b[40:], tailMagic)
	return b
}

func parseFooter(b []byte) (footer, error) {
	if string(b[40:]) != tailMagic {
		return footer{}, fmt.Errorf("%w: no footer", ErrTruncated)
	}
	if binary.LittleEndian.Uint64(b[32:]) != xxhash.Sum64(b[:32]) {
		return footer{}, fmt.Errorf("footer: %w", ErrChecksum)
	}
	return footer{
		indexOff:   int64(binary.LittleEndian.Uint64(b[0:])),
		indexLen:   int(binary.LittleEndian.Uint32(b[8:])),
		partitions: int(binary.LittleEndian.Uint32(b[12:])),
		maxRaw:     int(binary.LittleEndian.Uint32(b[16:])),
		maxStored:  int(binary.LittleEndian.Uint32(b[20:])),
		indexSum:   binary.LittleEndian.Uint64(b[24:]),
	}, nil
}
