package runfile

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/cespare/xxhash/v2"
)

// FuzzOpen opens any bytes as a run file and reads all its records. With reseal the
// checksums are made to fit first, as a faulty or hostile writer would do, so that the
// input reaches the code behind them.
func FuzzOpen(f *testing.F) {
	parts := [][]record{{{"a", "1"}, {"a", "2"}, {"b", ""}}, nil, {{"", "x"}}}
	for _, codec := range []Codec{None, LZ4} {
		b := writeRun(f, parts, Options{Codec: codec})
		f.Add(b, true)
		f.Add(b[:len(b)-1], false)
	}
	f.Fuzz(func(t *testing.T, b []byte, reseal bool) {
		if reseal {
			b = resealed(b)
		}
		file, err := Open(bytes.NewReader(b), int64(len(b)), "f")
		if err != nil {
			return
		}
		defer file.Release()
		for p := range min(file.Partitions(), 100) {
			drainPartition(t, file, p, len(b))
			section, _ := file.Section(p)
			if section.Offset+section.Length > int64(len(b)) {
				t.Fatalf("a section of %d bytes at %d in a file of %d bytes", section.Length, section.Offset, len(b))
			}
			verify(section, b[section.Offset:section.Offset+section.Length])
		}
	})
}

// drainPartition reads all records of a partition.
func drainPartition(t *testing.T, file *File, p, size int) {
	s, err := file.Partition(p)
	if err != nil {
		return
	}
	for n := 0; s.Next(); n++ {
		_, _ = s.Key(), s.Value()
		if n > 1<<20 {
			t.Fatalf("a file of %d bytes has more than %d records", size, n)
		}
	}
	s.Close()
}

// verify reads a section in the ways of a reduce that has fetched it.
func verify(section Section, b []byte) {
	v := NewVerifier(section, "f")
	for len(b) > 0 {
		n := min(7, len(b))
		if _, err := v.Write(b[:n]); err != nil {
			return
		}
		b = b[n:]
	}
	v.Finish()
}

// resealed returns a copy of b in which the checksums of the footer, of the index and of
// the blocks fit, as far as the lengths in it lead to them.
func resealed(b []byte) []byte {
	b = bytes.Clone(b)
	if len(b) < headerLen+footerLen {
		return b
	}
	for at := headerLen; at+blockHdrLen <= len(b)-footerLen; {
		h := parseBlockHeader(b[at:])
		end := at + blockHdrLen + h.stored
		if h.stored < 0 || end > len(b)-footerLen {
			break
		}
		h.put(b[at:], int64(at), b[at+blockHdrLen:end])
		at = end
	}
	foot := b[len(b)-footerLen:]
	offset, length := binary.LittleEndian.Uint64(foot), uint64(binary.LittleEndian.Uint32(foot[8:]))
	if offset < uint64(len(b)) && length <= uint64(len(b))-offset {
		binary.LittleEndian.PutUint64(foot[24:], xxhash.Sum64(b[offset:offset+length]))
	}
	binary.LittleEndian.PutUint64(foot[32:], xxhash.Sum64(foot[:32]))
	copy(foot[40:], tailMagic)
	return b
}
