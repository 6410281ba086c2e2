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

	// MaxRecord is the size limit of a record, key and value together: 1 GiB, which
	// every codec can compress as one block.
	MaxRecord = 1 << 30

	// DefaultBlockSize is small enough for hundreds of open streams and large
	// enough that compression and system calls are cheap per byte.
	DefaultBlockSize = 64 << 10

	minBlockSize = 64
	maxBlockSize = 64 << 20
)

// The kinds of damage. Errors wrap them in an Error, which has the offset; test with
// errors.Is.
var (
	ErrMagic     = errors.New("not a run file (bad magic)")
	ErrVersion   = errors.New("unsupported version")
	ErrTruncated = errors.New("truncated")
	ErrChecksum  = errors.New("checksum mismatch")
	ErrCorrupt   = errors.New("corrupt")
)

// Error is an error in reading a run file.
type Error struct {
	Name   string // as passed to Open
	Offset int64  // of the block, index or footer at fault
	Err    error
}

// Error returns a message with the file, the offset and the damage.
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

// put writes the header of the block at offset off. The checksum combines two
// hashes, one of the stored bytes and one of the other header fields with the
// offset, so that the large part needs one call of the fast hash.
func (h *blockHeader) put(b []byte, off int64, stored []byte) {
	b[0] = byte(h.codec)
	binary.LittleEndian.PutUint32(b[1:], uint32(h.raw))
	binary.LittleEndian.PutUint32(b[5:], uint32(h.stored))
	binary.LittleEndian.PutUint64(b[9:], blockSum(b, off, stored))
}

// parseBlockHeader decodes a header. It verifies nothing; see footer.plausible.
func parseBlockHeader(b []byte) blockHeader {
	return blockHeader{
		codec:  Codec(b[0]),
		raw:    int(binary.LittleEndian.Uint32(b[1:])),
		stored: int(binary.LittleEndian.Uint32(b[5:])),
		sum:    binary.LittleEndian.Uint64(b[9:]),
	}
}

// blockSum returns the checksum of a block whose header's first nine bytes are in b.
func blockSum(b []byte, off int64, stored []byte) uint64 {
	return xxhash.Sum64(stored) ^ placeSum(b, off)
}

// placeSum returns the part of a block's checksum that does not depend on its
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

// encode returns the footer with its own checksum and the magic number at its end.
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

// parseFooter decodes the last footerLen bytes of a file. A file that lacks the magic number at its
// end was cut off.
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
