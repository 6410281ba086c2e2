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

// magic begins a file; the last digit is the version.
const magic = "SWHIST01"

// maxPart is the most bytes of a part of a file, before it is unpacked.
const maxPart = 1 << 30

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode makes a file: the magic, the job's state alone, then all of it,
// compressed. Each part is preceded by its length and its checksum.
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

func appendPart(b, part []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(part)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(part, castagnoli))
	return append(b, part...)
}

// errDamaged is the error of a file that is not what was written.
var errDamaged = errors.New("the file is damaged")

// readPart reads a part and checks it.
func readPart(r io.Reader) ([]byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, errDamaged
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > maxPart {
		return nil, errDamaged
	}
	var part bytes.Buffer // grows as far as there is something, whatever the length says
	if got, err := io.CopyN(&part, r, int64(n)); err != nil || got != int64(n) {
		return nil, errDamaged
	}
	if crc32.Checksum(part.Bytes(), castagnoli) != binary.LittleEndian.Uint32(head[4:]) {
		return nil, errDamaged
	}
	return part.Bytes(), nil
}

// readSummary reads the job's state from the front of a file.
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

// decode reads a whole file.
func decode(b []byte) (*slotwisev1.HistoryJob, error) {
	r := bytes.NewReader(b)
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
