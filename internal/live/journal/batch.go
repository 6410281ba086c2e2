package journal

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// Segments and snapshots consist of a header and batches.
const (
	magic       = "slotjnl"
	version     = 1
	headerSize  = 32      // magic, version, kind and number of the file, salt, checksum
	batchSize   = 20      // bytes of a batch before its records
	maxBatch    = 4 << 20 // bytes of records at which Append writes a batch early
	kindSegment = 'l'
	kindSnap    = 's'
)

var order = binary.LittleEndian

func segmentName(number uint64) string  { return fmt.Sprintf("log-%016d", number) }
func snapshotName(number uint64) string { return fmt.Sprintf("snapshot-%016d", number) }

// tempSuffix ends the name of a file that is not complete.
const tempSuffix = ".tmp"

// parseNumber returns the number in a name that segmentName or snapshotName made.
func parseNumber(name, prefix string) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, prefix)
	n, err := strconv.ParseUint(digits, 10, 64)
	// Exactly the names that this package writes: any other file in the directory is left alone.
	return n, ok && err == nil && n > 0 && len(digits) == 16
}

// header returns the first bytes of a file. The number has 56 bits.
func header(kind byte, number, salt uint64) []byte {
	b := append([]byte(magic), version)
	b = order.AppendUint64(b, uint64(kind)<<56|number)
	b = order.AppendUint64(b, salt)
	return order.AppendUint64(b, xxhash.Sum64(b))
}

// newSalt returns a random salt for a file. It is part of every batch's checksum. So
// a batch that an older file left on disk, or that a user put into a record, is not
// taken for a batch of this file.
func newSalt() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return order.Uint64(b[:])
}

// readHeader verifies a file's header and returns its salt. It returns errTorn if the
// header is incomplete, corrupt, or of another kind or number.
func readHeader(f io.ReaderAt, kind byte, number uint64, size int64) (salt uint64, err error) {
	b := make([]byte, min(size, headerSize))
	if err := readFull(f, b, 0); err != nil {
		return 0, err
	}
	if len(b) < headerSize {
		return 0, errTorn
	}
	salt = order.Uint64(b[16:])
	if !bytes.Equal(b, header(kind, number, salt)) {
		return 0, errTorn
	}
	return salt, nil
}

// appendRecord appends a record with its length to the records of a batch.
func appendRecord(b, rec []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(rec))), rec...)
}

// appendBatch appends a batch for the given offset of a file: the length of records,
// their checksum, the head's checksum, and records.
func appendBatch(b, records []byte, salt uint64, offset int64) []byte {
	at := len(b)
	b = order.AppendUint32(b, uint32(len(records)))
	b = order.AppendUint64(b, xxhash.Sum64(records))
	b = order.AppendUint64(b, headSum(b[at:], salt, offset))
	return append(b, records...)
}

// headSum returns the checksum of a batch's head. It covers the file's salt and the
// batch's offset, so a batch is valid in one file and at one offset only.
func headSum(head []byte, salt uint64, offset int64) uint64 {
	b := append(make([]byte, 0, 32), head...)
	b = order.AppendUint64(b, salt)
	return xxhash.Sum64(order.AppendUint64(b, uint64(offset)))
}

// errTorn reports a header or a batch that is incomplete or corrupt. Its callers
// decide whether a crash explains it.
var errTorn = errors.New("damaged")

// parseHead reports whether b, the bytes at offset of a file, begins with the head of
// a batch, and returns the length of the batch's records.
func parseHead(b []byte, salt uint64, offset int64) (length int, ok bool) {
	if len(b) < batchSize || order.Uint64(b[12:]) != headSum(b[:12], salt, offset) {
		return 0, false
	}
	return int(order.Uint32(b)), true
}

// readBatch reads the records of the batch at offset from a file of size bytes. It
// uses buf if the records fit. It returns errTorn if there is no complete batch.
func readBatch(f io.ReaderAt, salt uint64, offset, size int64, buf []byte) ([]byte, error) {
	var head [batchSize]byte
	if size-offset < batchSize {
		return nil, errTorn
	}
	if err := readFull(f, head[:], offset); err != nil {
		return nil, err
	}
	length, ok := parseHead(head[:], salt, offset)
	// Also against a length that a damaged head claims: it bounds the buffer below by the file's
	// size.
	if !ok || int64(length) > size-offset-batchSize {
		return nil, errTorn
	}
	if length > cap(buf) {
		buf = make([]byte, length)
	}
	buf = buf[:length]
	if err := readFull(f, buf, offset+batchSize); err != nil {
		return nil, err
	}
	if xxhash.Sum64(buf) != order.Uint64(head[4:]) {
		return nil, errTorn
	}
	return buf, nil
}

// readFull fills b with the bytes at offset. Unlike ReadAt it returns no error if the
// file ends with the last byte.
func readFull(f io.ReaderAt, b []byte, offset int64) error {
	n, err := f.ReadAt(b, offset)
	if n == len(b) {
		return nil
	}
	return err
}

// nextRecord splits the first record off the records of a batch.
func nextRecord(b []byte) (rec, rest []byte, ok bool) {
	n, used := binary.Uvarint(b)
	if used <= 0 || n > uint64(len(b)-used) {
		return nil, nil, false
	}
	return b[used : used+int(n)], b[used+int(n):], true
}
