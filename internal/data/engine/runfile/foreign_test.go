package runfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"runtime"
	"testing"

	"github.com/cespare/xxhash/v2"
	"pgregory.net/rapid"
)

// sparse is a file of any size whose bytes are zeros but for some pieces.
type sparse struct {
	size   int64
	pieces map[int64][]byte // by offset
}

func (s *sparse) ReadAt(b []byte, off int64) (int, error) {
	n := int(min(int64(len(b)), max(0, s.size-off)))
	clear(b[:n])
	for at, piece := range s.pieces {
		if from := max(off, at); from < min(off+int64(n), at+int64(len(piece))) {
			copy(b[from-off:n], piece[from-at:])
		}
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// crafted returns a run file with a footer that the test chooses. All checksums fit.
func crafted(foot footer, index []byte) *sparse {
	s := &sparse{pieces: map[int64][]byte{0: append([]byte(magic), version)}}
	h := xxhash.New()
	_, _ = h.Write(index)
	zeros := make([]byte, 1<<16)
	for left := foot.indexLen - len(index); left > 0; left -= len(zeros) {
		_, _ = h.Write(zeros[:min(left, len(zeros))])
	}
	foot.indexSum = h.Sum64()
	s.pieces[foot.indexOff] = index
	end := foot.indexOff + int64(foot.indexLen)
	s.pieces[end] = foot.encode()
	s.size = end + int64(footerLen)
	return s
}

// allocated returns the bytes that f allocates.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// scanMost is the largest number of bytes that Scan may allocate for any file: one piece of the
// index and errors.
const scanMost = indexPiece + 16<<10

// TestIndexBomb opens sparse files with huge indexes, as a process of a job could write them in
// no time. Scan refuses runs with another number of partitions than the job's before it reads
// the index, and needs the same memory for every file.
func TestIndexBomb(t *testing.T) {
	for _, partitions := range []int{1 << 16, MaxPartitions, MaxPartitions + 1, 40_000_000, math.MaxUint32 / minEntry} {
		f := crafted(footer{indexOff: int64(headerLen), indexLen: min(partitions, MaxPartitions+1) * minEntry, partitions: partitions}, nil)
		if partitions > MaxPartitions { // too long to hash in a test; a checksum is compared later
			f = crafted(footer{indexOff: int64(headerLen), partitions: partitions}, nil)
			foot := footer{indexOff: int64(headerLen), indexLen: partitions * minEntry, partitions: partitions}
			f.size = int64(headerLen+footerLen) + int64(foot.indexLen)
			f.pieces[f.size-int64(footerLen)] = foot.encode()
		}
		for _, want := range []int{0, 1, 1000} {
			var err error
			got := allocated(func() { err = Scan(f, f.size, "f", want, func(int, Section) {}) })
			if got > scanMost {
				t.Errorf("a file of %d partitions for a job of %d: %d bytes", partitions, want, got)
			}
			if refuse := want > 0 || partitions > MaxPartitions; (err != nil) != refuse {
				t.Errorf("a file of %d partitions for a job of %d: %v", partitions, want, err)
			}
		}
	}
}

// TestCraftedIndex opens run files whose footer and index are drawn at random or contradict
// each other, with checksums that fit. Scan and Open may not panic, Scan's memory is bounded
// by a constant and Open's by the number of partitions, and files that they accept are consistent.
func TestCraftedIndex(t *testing.T) {
	numbers := []uint64{0, 1, 2, 17, 18, 1 << 16, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1 << 62, 1<<63 - 1, 1 << 63, math.MaxUint64}
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.OneOf(rapid.SampledFrom(numbers), rapid.Uint64(), rapid.Uint64Max(100))
		var index []byte
		entries := rapid.IntRange(0, 2000).Draw(t, "entries")
		pattern := rapid.SliceOfN(number, 1, 9).Draw(t, "pattern")
		for i := range 3 * entries {
			index = binary.AppendUvarint(index, pattern[i%len(pattern)])
		}
		index = append(index, rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "rest")...)
		foot := footer{
			indexOff: int64(headerLen) + int64(number.Draw(t, "offset")%(1<<61)), indexLen: len(index),
			partitions: entries, maxRaw: int(uint32(number.Draw(t, "raw"))), maxStored: int(uint32(number.Draw(t, "stored"))),
		}
		if rapid.Bool().Draw(t, "another number") {
			foot.partitions = int(uint32(number.Draw(t, "partitions")))
		}
		f := crafted(foot, index)
		if rapid.Bool().Draw(t, "another footer") { // one that does not fit the file
			foot.indexLen = int(uint32(number.Draw(t, "length")))
			f.pieces[f.size-int64(footerLen)] = foot.encode()
		}
		var err error
		var total int64
		n := 0
		if got := allocated(func() {
			err = Scan(f, f.size, "f", 0, func(part int, s Section) {
				if part != n || s.Offset < int64(headerLen) || s.Length < 0 || s.Records < 0 || s.Bytes < 0 {
					t.Errorf("partition %d: %+v", part, s)
				}
				n++
				total += s.Length
			})
		}); got > scanMost {
			t.Errorf("Scan allocated %d bytes for %d partitions", got, foot.partitions)
		}
		if err == nil && (n != foot.partitions || total != foot.indexOff-int64(headerLen)) {
			t.Errorf("%d partitions of %d bytes in all; the footer is %+v", n, total, foot)
		}
		var file *File
		got := allocated(func() { file, _ = Open(f, f.size, "f") })
		if most := int64(scanMost + 200*min(n, MaxPartitions)); got > most {
			t.Errorf("Open allocated %d bytes for %d partitions", got, n)
		}
		if (file != nil) != (err == nil) {
			t.Errorf("Scan returned %v and Open %v", err, file)
		}
		for p := range min(n, 10) {
			if file == nil {
				break
			}
			s, err := file.Partition(p)
			if err != nil {
				t.Fatal(err)
			}
			if m := s.(*stream).Memory(); m < 0 || m > 3*maxBlock {
				t.Errorf("a stream of %d bytes of buffers", m)
			}
		}
	})
}

// TestScan compares Scan with Open on real files, and refuses each with another number of
// partitions. An index longer than a piece is read in several.
func TestScan(t *testing.T) {
	for _, partitions := range []int{1, 3, 5000, 20_000} {
		parts := make([][]record, partitions)
		for i := range parts {
			if i%3 == 0 {
				parts[i] = []record{{fmt.Sprint("key", i), "value"}, {fmt.Sprint("key", i), ""}}
			}
		}
		b := writeRun(t, parts, Options{})
		file, err := Open(bytes.NewReader(b), int64(len(b)), "f")
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		err = Scan(bytes.NewReader(b), int64(len(b)), "f", partitions, func(part int, s Section) {
			if want, ok := file.Section(part); part != n || !ok || s != want {
				t.Errorf("partition %d of %d: %+v, want %+v", part, partitions, s, want)
			}
			n++
		})
		if err != nil || n != partitions || file.Partitions() != partitions {
			t.Errorf("%d of %d partitions, Open has %d: %v", n, partitions, file.Partitions(), err)
		}
		for _, other := range []int{partitions + 1, 2 * partitions, max(1, partitions/2)} {
			if err := Scan(bytes.NewReader(b), int64(len(b)), "f", other, func(int, Section) {}); (err == nil) != (other == partitions) {
				t.Errorf("a file of %d partitions for a job of %d: %v", partitions, other, err)
			}
		}
		for at := int(file.foot.indexOff); at < len(b); at += 1 + len(b)/50 {
			b[at] ^= 1
			if err := Scan(bytes.NewReader(b), int64(len(b)), "f", 0, func(int, Section) {}); err == nil {
				t.Errorf("a flipped bit at %d is not noticed", at)
			}
			b[at] ^= 1
		}
	}
}
