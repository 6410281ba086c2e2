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

// Both sorts of files begin with a header and go on with batches.
const (
	magic       = "slotjnl"
	version     = 1
	headerSize  = 32 // magic, version, kind and number of the file, salt, checksum
	batchSize   = 20 // of a batch before its records
	maxBatch    = 4 << 20
	kindSegment = 'l'
	kindSnap    = 's'
)

var order = binary.LittleEndian

func segmentName(number uint64) string  { return fmt.Sprintf("log-%016d", number) }
func snapshotName(number uint64) string { return fmt.Sprintf("snapshot-%016d", number) }

// numberOf reads what segmentName or snapshotName wrote after the prefix.
func numberOf(name, prefix string) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, prefix)
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, ok && err == nil && n > 0 && len(digits) == 16
}

// header is how a file of a kind and number begins. The number has 56 bits.
func header(kind byte, number, salt uint64) []byte {
	b := append([]byte(magic), version)
	b = order.AppendUint64(b, uint64(kind)<<56|number)
	b = order.AppendUint64(b, salt)
	return order.AppendUint64(b, xxhash.Sum64(b))
}

// newSalt draws what tells the batches of a file from bytes that look like one,
// which somebody may have put into a record.
func newSalt() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return order.Uint64(b[:])
}

// readHeader returns the salt of a file of a kind and number, or errBad.
func readHeader(f io.ReaderAt, kind byte, number uint64, size int64) (salt uint64, err error) {
	b := make([]byte, min(size, headerSize))
	if err := readFull(f, b, 0); err != nil {
		return 0, err
	}
	if len(b) < headerSize {
		return 0, errBad
	}
	salt = order.Uint64(b[16:])
	if !bytes.Equal(b, header(kind, number, salt)) {
		return 0, errBad
	}
	return salt, nil
}

// appendRecord adds a record to those of a batch.
func appendRecord(b, rec []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(rec))), rec...)
}

// seal adds a batch of records that is to stand at an offset of a file: length,
// checksum of the records, checksum of these two and of the place.
func seal(b, records []byte, salt uint64, offset int64) []byte {
	at := len(b)
	b = order.AppendUint32(b, uint32(len(records)))
	b = order.AppendUint64(b, xxhash.Sum64(records))
	b = order.AppendUint64(b, place(b[at:], salt, offset))
	return append(b, records...)
}

// place is the checksum of a batch's head, which binds it to its place: a batch
// that lies elsewhere, or was left from an older file, is none.
func place(head []byte, salt uint64, offset int64) uint64 {
	b := append(make([]byte, 0, 32), head...)
	b = order.AppendUint64(b, salt)
	return xxhash.Sum64(order.AppendUint64(b, uint64(offset)))
}

// errBad is that what stands at an offset is no whole batch.
var errBad = errors.New("damaged")

// headAt reports whether the head of a batch stands at the beginning of b, which
// is what follows an offset in a file, and how long its records are.
func headAt(b []byte, salt uint64, offset int64) (length int, ok bool) {
	if len(b) < batchSize || order.Uint64(b[12:]) != place(b[:12], salt, offset) {
		return 0, false
	}
	return int(order.Uint32(b)), true
}

// readBatch reads the records of the batch at an offset of a file that has so
// many bytes, into buf if they fit. It returns errBad if no whole one is there.
func readBatch(f io.ReaderAt, salt uint64, offset, size int64, buf []byte) ([]byte, error) {
	var head [batchSize]byte
	if size-offset < batchSize {
		return nil, errBad
	}
	if err := readFull(f, head[:], offset); err != nil {
		return nil, err
	}
	length, ok := headAt(head[:], salt, offset)
	if !ok || int64(length) > size-offset-batchSize {
		return nil, errBad
	}
	if length > cap(buf) {
		buf = make([]byte, length)
	}
	buf = buf[:length]
	if err := readFull(f, buf, offset+batchSize); err != nil {
		return nil, err
	}
	if xxhash.Sum64(buf) != order.Uint64(head[4:]) {
		return nil, errBad
	}
	return buf, nil
}

// readFull fills b from an offset on. Being at the end of the file too is no
// error.
func readFull(f io.ReaderAt, b []byte, offset int64) error {
	n, err := f.ReadAt(b, offset)
	if n == len(b) {
		return nil
	}
	return err
}

// nextRecord splits the first record off those of a batch.
func nextRecord(b []byte) (rec, rest []byte, ok bool) {
	n, used := binary.Uvarint(b)
	if used <= 0 || n > uint64(len(b)-used) {
		return nil, nil, false
	}
	return b[used : used+int(n)], b[used+int(n):], true
}
