package input

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zlib"
	"github.com/pierrec/lz4/v4"
	"github.com/ulikunitz/xz"
)

// hadoopBlocks returns data as Hadoop's block codecs write it: blocks of 40,000 bytes
// in chunks of 15,000.
func hadoopBlocks(data []byte, encode func([]byte) []byte) []byte {
	var b bytes.Buffer
	for len(data) > 0 {
		block := data[:min(40_000, len(data))]
		data = data[len(block):]
		binary.Write(&b, binary.BigEndian, uint32(len(block)))
		for len(block) > 0 {
			chunk := encode(block[:min(15_000, len(block))])
			block = block[min(15_000, len(block)):]
			binary.Write(&b, binary.BigEndian, uint32(len(chunk)))
			b.Write(chunk)
		}
	}
	return b.Bytes()
}

func lz4Chunk(src []byte) []byte {
	dst := make([]byte, lz4.CompressBlockBound(len(src)))
	n, err := lz4.CompressBlock(src, dst, nil)
	if err != nil {
		panic(err)
	}
	return dst[:n]
}

// packed returns what a compressor writes.
func packed(t testing.TB, w io.WriteCloser, b *bytes.Buffer, data []byte) []byte {
	_, err := w.Write(data)
	must(t, err)
	must(t, w.Close())
	return b.Bytes()
}

// TestMoreCodecs: files of codecs that only a library here writes give the lines of their
// content, one split each.
func TestMoreCodecs(t *testing.T) {
	data := text(9000)
	var x, l, s, d bytes.Buffer
	xw, err := xz.NewWriter(&x)
	must(t, err)
	for name, stored := range map[string][]byte{
		"a.xz": packed(t, xw, &x, data), "a.lz4": packed(t, lz4.NewWriter(&l), &l, data),
		"a.snappy": packed(t, s2.NewWriter(&s, s2.WriterSnappyCompat()), &s, data), "a.deflate": packed(t, zlib.NewWriter(&d), &d, data),
		"hadoop.lz4":    hadoopBlocks(data, lz4Chunk),
		"hadoop.snappy": hadoopBlocks(data, func(b []byte) []byte { return s2.EncodeSnappy(nil, b) }),
	} {
		names := []string{name}
		if _, suffix, _ := strings.Cut(name, "."); !strings.HasPrefix(name, "hadoop") && suffix != "deflate" {
			names = append(names, "nosuffix")
		}
		for _, n := range names {
			p := write(t, t.TempDir(), n, stored)
			splits, err := Plan(ctx, Options{Inputs: []string{p}, SplitSize: 100})
			must(t, err)
			if len(splits) != 1 {
				t.Errorf("%s: %d splits", name, len(splits))
			}
			recs, err := readSplit(t, nil, splits[0], Format{}, 1000)
			must(t, err)
			same(t, dumbLines(p, data), recs)
			// Members one after the other, as cat makes them, and what may follow them.
			p = write(t, t.TempDir(), name, slices.Concat(stored, stored, stored))
			recs, err = readAll(t, Options{Inputs: []string{p}}, 0)
			must(t, err)
			same(t, dumbLines(p, slices.Concat(data, data, data)), recs)
			for _, rest := range [][]byte{stored[:len(stored)/2], stored[:len(stored)-1], []byte("trailing text"), {'x'}} {
				p := write(t, t.TempDir(), name, slices.Concat(stored, rest))
				if recs, err := readAll(t, Options{Inputs: []string{p}}, 0); err == nil {
					t.Errorf("%s, and %.20q behind it: %d records and no error", name, rest, len(recs))
				}
			}
			for _, cut := range []int{len(stored) / 2, len(stored) - 1} {
				p := write(t, t.TempDir(), name, stored[:cut])
				if _, err := readAll(t, Options{Inputs: []string{p}}, 0); err == nil || !strings.Contains(err.Error(), p) {
					t.Errorf("%s, cut to %d bytes: %v", name, cut, err)
				}
			}
		}
	}
}

// TestToolsFiles reads what the tools xz, lz4, zstd and gzip, and Python's zlib, have
// written.
func TestToolsFiles(t *testing.T) {
	for name, stored := range map[string]string{
		"a.zst":     "28b52ffd04587100006f6e650a74776f0d0a74687265652e970307",
		"a.gz":      "1f8b0800000000000003cbcf4be52a29cfe7e52ac9284a4d0500cd83b98f0e000000",
		"a.deflate": "789ccbcf4be52a29cfe7e52ac9284a4d0500240f04d6",
		"a.xz":      "fd377a585a000004e6d6b4460200210116000000742fe5a301000d6f6e650a74776f0d0a74687265650000000afe09c1f97b00f80001260e081be0041fb6f37d010000000004595a",
		"a.lz4":     "04224d186440a70e0000806f6e650a74776f0d0a74687265650000000067241802",
		"old.lz4":   "02214c180f000000e06f6e650a74776f0d0a7468726565",
	} {
		b, err := hex.DecodeString(stored)
		must(t, err)
		p := write(t, t.TempDir(), name, b)
		recs, err := readAll(t, Options{Inputs: []string{p}}, 0)
		must(t, err)
		same(t, dumbLines(p, []byte("one\ntwo\r\nthree")), recs)
	}
}

// TestHadoopBlocksDamaged: lengths that lie are errors and cost little memory.
func TestHadoopBlocksDamaged(t *testing.T) {
	for name, stored := range map[string]string{
		"huge.lz4":    "\x7f\xff\xff\xff\x7f\xff\xff\xff",
		"block.lz4":   "\xff\xff\xff\xff\x03\x00\x00\x00x",
		"tail.snappy": "\x00\x00\x00\x05\x00\x00\x00\x09x",
		"text.snappy": "this is no snappy at all, only text with the suffix",
		"more.snappy": "\x00\x00\x00\x01" + "\x00\x00\x00\x05" + string(s2.EncodeSnappy(nil, []byte("abc"))),
	} {
		p := write(t, t.TempDir(), name, []byte(stored))
		if _, err := readAll(t, Options{Inputs: []string{p}}, 0); err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestXZDictionary: a file that asks for a dictionary of 4 GiB is refused.
func TestXZDictionary(t *testing.T) {
	b, err := hex.DecodeString("fd377a585a000004e6d6b4460200210116000000742fe5a301000d6f6e650a74776f0d0a74687265650000000afe09c1f97b00f80001260e081be0041fb6f37d010000000004595a")
	must(t, err)
	b[16] = 40 // the size of the dictionary
	p := write(t, t.TempDir(), "a.xz", b)
	if _, err := readAll(t, Options{Inputs: []string{p}}, 0); err == nil || !strings.Contains(err.Error(), "dictionary of 4095 MiB") {
		t.Error(err)
	}
}

// TestRefused: planning refuses archives and binary files by their suffix, and the first
// files of a job by their first bytes, too.
func TestRefused(t *testing.T) {
	tar := append(make([]byte, 257), "ustar\x0000"...)
	copy(tar, "name")
	for content, want := range map[string]string{
		"PK\x03\x04rest": "a ZIP archive", "7z\xbc\xaf\x27\x1c": "a 7-Zip archive", "\x1f\x9d\x90": "compressed by compress",
		"\x89LZO\x00\r\n\x1a\n": "compressed by lzop", "Rar!\x1a\x07\x01\x00": "a RAR archive", string(tar): "a tar archive",
		"ORC\n\x06\x08\x00": "an ORC file",
	} {
		p := write(t, t.TempDir(), "data", []byte(content))
		_, err := Plan(ctx, Options{Inputs: []string{p}})
		if !errors.Is(err, ErrUnreadable) || !strings.Contains(err.Error(), p+": it is "+want) || !strings.Contains(err.Error(), "leave the file out") {
			t.Errorf("%q: %v", content, err)
		}
		if _, err = PlanHadoop(ctx, &HadoopOptions{Inputs: []string{p}}); !errors.Is(err, ErrUnreadable) {
			t.Errorf("%q by Hadoop's rules: %v", content, err)
		}
		for _, f := range []Format{{Kind: Whole}, {Fixed, 1}} {
			if _, err := readAll(t, Options{Inputs: []string{p}, Format: f}, 0); err != nil {
				t.Errorf("%q as %v: %v", content, f, err)
			}
		}
	}
	for _, name := range []string{"a.zip", "a.tar.gz", "a.Z", "a.lzo", "a.7z", "a.orc", "a.br", "a.tgz"} {
		p := write(t, t.TempDir(), name, []byte("a line\n"))
		for _, f := range []Format{{}, {Fixed, 7}} {
			if _, err := Plan(ctx, Options{Inputs: []string{p}, Format: f}); !errors.Is(err, ErrUnreadable) {
				t.Errorf("%s as %v: %v", name, f, err)
			}
		}
		must(t, os.Truncate(p, 0))
		if _, err := Plan(ctx, Options{Inputs: []string{p}}); err != nil {
			t.Errorf("empty %s: %v", name, err)
		}
	}
}

// TestRefusedWhenOpened: planning looks into a few files, and the maps look into all.
func TestRefusedWhenOpened(t *testing.T) {
	dir := t.TempDir()
	for i := range maxProbes {
		write(t, dir, fmt.Sprintf("f%03d", i), []byte("a line\n"))
	}
	write(t, dir, "g", []byte("PK\x03\x04"))
	splits, err := Plan(ctx, Options{Inputs: []string{dir}})
	must(t, err)
	_, err = readSplit(t, nil, splits[0], Format{}, 0)
	if !errors.Is(err, ErrUnreadable) || !strings.Contains(err.Error(), "/g: it is a ZIP archive") {
		t.Error(err)
	}
}

// TestTextThatLooksBinary: text may begin with the letters of a binary format.
func TestTextThatLooksBinary(t *testing.T) {
	for _, s := range []string{"ORC\nGOBLIN\n", "PAR1\tx\n", "PAR1", "SEQUENCE\n", "PK\n", "Obj\n", "7z\n"} {
		p := write(t, t.TempDir(), "data", []byte(s))
		recs, err := readAll(t, Options{Inputs: []string{p}}, 0)
		must(t, err)
		same(t, dumbLines(p, []byte(s)), recs)
	}
}

// TestEmptyFiles: an empty file of a binary format is an error, because all its writers write a
// header. Empty files of lines have no records.
func TestEmptyFiles(t *testing.T) {
	for _, c := range []struct {
		name, rows string
		refused    bool
	}{
		{"a.parquet", "", true}, {"a.avro", "", true}, {"part", "parquet", true}, {"part", "avro", true}, {"part", "sequence", true},
		{"a.parquet", "csv", false}, {"part", "", false}, {"a.csv", "csv", false}, {"a.json", "json", false}, {"a.gz", "", false},
	} {
		dir := t.TempDir()
		p := write(t, dir, c.name, nil)
		_, err := Plan(ctx, Options{Inputs: []string{dir}, Rows: spec(t, c.rows)})
		if refused := err != nil && strings.Contains(err.Error(), p+": it is empty, and so no file of format"); refused != c.refused || err != nil && !refused {
			t.Errorf("%s as %q: %v", c.name, c.rows, err)
		}
		_, err = PlanHadoop(ctx, &HadoopOptions{Inputs: []string{dir}, Rows: spec(t, c.rows), Maps: 1})
		if refused := err != nil && strings.Contains(err.Error(), "it is empty"); refused != c.refused || err != nil && !refused {
			t.Errorf("hadoop, %s as %q: %v", c.name, c.rows, err)
		}
	}
}
