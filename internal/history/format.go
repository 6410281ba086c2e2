package history

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// magic is the beginning of every file; its last two digits are the version.
const magic = "SWHIST01"

// maxPart bounds a part of a file, both compressed and decompressed. A corrupt length
// must not make the master allocate without limit.
const maxPart = 1 << 30

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode returns the content of a job's file: the magic, the job's state, and the
// compressed HistoryJob. The state is stored apart so that List need not decompress
// anything.
func encode(j *slotwisev1.HistoryJob) ([]byte, error) {
	summary, err := proto.Marshal(j.Job)
	if err != nil {
		return nil, err
	}
	all, err := proto.Marshal(j)
	if err != nil {
		return nil, err
	}
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	b := appendPart([]byte(magic), summary)
	return appendPart(b, z.EncodeAll(all, nil)), z.Close()
}

// appendPart appends a part with its length and checksum before it.
func appendPart(b, part []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(part)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(part, castagnoli))
	return append(b, part...)
}

// errDamaged reports that a file differs from what Put has written.
var errDamaged = errors.New("the file is damaged")

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

// content returns a reader for a whole file.
func content(f io.ReaderAt) io.Reader { return io.NewSectionReader(f, 0, math.MaxInt64) }

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

// Read reads and verifies the file of a job.
func Read(content io.Reader) (*slotwisev1.HistoryJob, error) { return readJob(content) }

// Verify reads the whole file of a job and returns an error if it is damaged.
func Verify(content io.Reader) error {
	_, err := readJob(content)
	return err
}
