package history

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// The form of the files that earlier versions kept; the package comment describes them.

// magic is the beginning of every file; its last two digits are the version.
const magic = "SWHIST01"

// maxPart bounds a part of a file, both compressed and decompressed. A corrupt length
// must not make the master allocate without limit.
const maxPart = 1 << 30

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errDamaged reports a record whose checksum or structure is wrong.
var errDamaged = errors.New("the record is damaged")

// readPart reads a part and verifies its checksum.
func readPart(r io.Reader) ([]byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, errDamaged
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > maxPart {
		return nil, errDamaged
	}
	var part bytes.Buffer // grows with the bytes that exist, whatever length the file claims
	if got, err := io.CopyN(&part, r, int64(n)); err != nil || got != int64(n) {
		return nil, errDamaged
	}
	if crc32.Checksum(part.Bytes(), castagnoli) != binary.LittleEndian.Uint32(head[4:]) {
		return nil, errDamaged
	}
	return part.Bytes(), nil
}

// readSummary reads the job's state, the first part of a file.
func readSummary(r io.Reader) (*slotwisev1.JobStatus, error) {
	var head [len(magic)]byte
	if _, err := io.ReadFull(r, head[:]); err != nil || string(head[:]) != magic {
		return nil, fmt.Errorf("%w: it does not begin with %s", errDamaged, magic)
	}
	part, err := readPart(r)
	if err != nil {
		return nil, err
	}
	s := &slotwisev1.JobStatus{}
	return s, proto.Unmarshal(part, s)
}

// readJob reads and verifies a whole file.
func readJob(r io.Reader) (*slotwisev1.HistoryJob, error) {
	if _, err := readSummary(r); err != nil {
		return nil, err
	}
	packed, err := readPart(r)
	if err != nil {
		return nil, err
	}
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPart))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	all, err := z.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	j := &slotwisev1.HistoryJob{}
	return j, proto.Unmarshal(all, j)
}

// Verify reads the whole file of a job and returns an error if it is damaged.
func Verify(content io.Reader) error {
	_, err := readJob(content)
	return err
}
