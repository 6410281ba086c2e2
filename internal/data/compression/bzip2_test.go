package compression

import (
	"bytes"
	"compress/bzip2"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/base/retry"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// compressed returns data as the program bzip2 compresses it, or skips the test if there is
// none. Level 1 makes blocks of 100 kB of content.
func compressed(t testing.TB, level int, data []byte) []byte {
	t.Helper()
	c := exec.Command("bzip2", fmt.Sprintf("-%d", level), "-c")
	c.Stdin = bytes.NewReader(data)
	out, err := c.Output()
	if errors.Is(err, exec.ErrNotFound) && os.Getenv("CI") == "" {
		t.Skip("needs bzip2")
	}
	must(t, err)
	return out
}

// words returns n bytes of lines of random words.
func words(n int) []byte {
	rnd := rand.New(rand.NewPCG(1, uint64(n)))
	b := make([]byte, 0, n+100)
	for len(b) < n {
		for range rnd.IntN(12) {
			b = fmt.Appendf(b, "w%d ", rnd.IntN(5000))
		}
		b = append(b, '\n')
	}
	return b[:n]
}

// read returns the content of the blocks that begin in a range.
func read(stored []byte, from, to int64) ([]byte, error) {
	end := int64(-1)
	r := NewBzip2Reader(bytes.NewReader(stored), int64(len(stored)), from, to, func(n int64) { end = n })
	var all []byte
	buf := make([]byte, 10_000)
	for end < 0 {
		n, err := r.Read(buf)
		all = append(all, buf[:n]...)
		if err != nil && err != io.EOF {
			return all, err
		}
	}
	return all[:end], nil
}

// ranges reads a file in the ranges between positions, and returns the content of all.
func ranges(stored []byte, cuts []int64) ([]byte, error) {
	slices.Sort(cuts)
	cuts = append(cuts, int64(len(stored)))
	var all []byte
	from := int64(0)
	for _, to := range slices.Compact(cuts) {
		part, err := read(stored, from, to)
		all = append(all, part...)
		if err != nil {
			return all, err
		}
		from = to
	}
	return all, nil
}

// TestRanges: the ranges of a file have the content of the file, wherever it is cut. Some
// files have several streams, as parallel compressors write them, and empty ones.
func TestRanges(t *testing.T) {
	data := words(210_000)
	one := compressed(t, 1, data)
	var small, content []byte
	for i := range 20 {
		part := words(i * 37 % 500)
		small = append(small, compressed(t, 1+i%9, part)...)
		content = append(content, part...)
	}
	runs := bytes.Repeat([]byte("aaaaaaaa\n"), 60_000)
	for name, c := range map[string]struct{ stored, want []byte }{
		"blocks":  {one, data},
		"streams": {small, content},
		"runs":    {compressed(t, 1, runs), runs},
		"empty":   {compressed(t, 9, nil), nil},
	} {
		t.Run(name, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(2, 3))
			for n := range 8 {
				var cuts []int64
				for range n {
					cuts = append(cuts, rnd.Int64N(int64(len(c.stored))+1))
				}
				got, err := ranges(c.stored, slices.Clone(cuts))
				if err != nil || !bytes.Equal(got, c.want) {
					t.Fatalf("cut at %d: %d bytes instead of %d, error %v", cuts, len(got), len(c.want), err)
				}
			}
		})
	}
}

// TestEmptyStreams: the memory does not grow with the number of empty streams between blocks.
func TestEmptyStreams(t *testing.T) {
	block := compressed(t, 1, []byte("a line\n"))
	stored := slices.Concat(block, bytes.Repeat(compressed(t, 1, nil), 100_000), block)
	r := NewBzip2Reader(bytes.NewReader(stored), int64(len(stored)), 0, int64(len(stored)), func(int64) {})
	got, err := io.ReadAll(r)
	if err != nil || string(got) != "a line\na line\n" || cap(r.buf) > 4*chunk {
		t.Errorf("%q, error %v, a buffer of %d bytes for a file of %d", got, err, cap(r.buf), len(stored))
	}
}

// TestPython: files that Python's bz2 has written, in steps as a program that logs does.
func TestPython(t *testing.T) {
	script := "import bz2, sys\nc = bz2.BZ2Compressor(1)\nfor line in sys.stdin.buffer: sys.stdout.buffer.write(c.compress(line))\nsys.stdout.buffer.write(c.flush())"
	data := words(300_000)
	c := exec.Command("python3", "-c", script)
	c.Stdin = bytes.NewReader(data)
	stored, err := c.Output()
	if errors.Is(err, exec.ErrNotFound) && os.Getenv("CI") == "" {
		t.Skip("needs python3")
	}
	must(t, err)
	got, err := ranges(stored, []int64{1000, 30_000, 30_001, 50_000})
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes instead of %d, error %v", len(got), len(data), err)
	}
}

// The bits of a block that codes bytes by themselves: symbol n below 254 has the code n, in
// 8 bits. So a block can hold any bytes, such as a magic number.
func plainBlock(symbols []byte) []byte {
	const all = 258 // two symbols for runs, 255 for positions, and the end of the block
	block := func(crc uint32) (b []byte, n uint) {
		w := bitWriter{}
		w.put(blockMagic, magicBits)
		w.put(uint64(crc), crcBits)
		w.put(0, 1+24) // not random; the last column's first row
		for range 1 + 16 {
			w.put(1<<16-1, 16) // all bytes occur
		}
		selectors := uint64(len(symbols)+1+49) / 50
		w.put(2, 3)
		w.put(selectors, 15)
		for range selectors {
			w.put(0, 1)
		}
		for range 2 {
			w.put(8, 5)
			for s := range all {
				if s == 254 {
					w.put(0b10, 2) // 9 bits from here on
				}
				w.put(0, 1)
			}
		}
		for _, s := range symbols {
			w.put(uint64(s), 8)
		}
		w.put(511, 9)
		n = 8*uint(len(w.b)) + w.n
		w.put(0, (8-w.n)%8)
		return w.b, n
	}
	// The decoder finds the content, and with it the checksum.
	b, n := block(0)
	content, _ := io.ReadAll(bzip2.NewReader(bytes.NewReader(appendStream([]byte("BZh9"), append(b, 0), 0, n, 0))))
	return slices.Concat([]byte{byte(n >> 8), byte(n)}, fix(b, content))
}

// fix sets the checksum of a block.
func fix(b, content []byte) []byte {
	crc := checksum(content)
	b[6], b[7], b[8], b[9] = byte(crc>>24), byte(crc>>16), byte(crc>>8), byte(crc)
	return b
}

// checksum returns the checksum of bzip2: a CRC-32 of reversed bits.
func checksum(content []byte) uint32 {
	reversed := make([]byte, len(content))
	for i, c := range content {
		reversed[i] = bits.Reverse8(c)
	}
	return bits.Reverse32(crc32.ChecksumIEEE(reversed))
}

// stream returns a stream of blocks of plainBlock, and its content.
func stream(blocks ...[]byte) []byte {
	w := bitWriter{b: []byte("BZh9")}
	crc := uint32(0)
	for _, b := range blocks {
		n := uint(b[0])<<8 | uint(b[1])
		b = b[2:]
		crc = bits.RotateLeft32(crc, 1) ^ (uint32(b[6])<<24 | uint32(b[7])<<16 | uint32(b[8])<<8 | uint32(b[9]))
		for i := range n {
			w.put(uint64(b[i/8]>>(7-i%8)&1), 1)
		}
	}
	w.put(endMagic, magicBits)
	w.put(uint64(crc), crcBits)
	w.put(0, (8-w.n)%8)
	return w.b
}

// TestFalseMagic: blocks contain the magic numbers by chance. Every cut of the file gives
// the same content.
func TestFalseMagic(t *testing.T) {
	begin, end := []byte("\x31\x41\x59\x26\x53\x59"), []byte("\x17\x72\x45\x38\x50\x90")
	some := func(n int) []byte { return bytes.Repeat([]byte{40, 41, 77, 200, 3}, n) }
	stored := stream(
		plainBlock(some(30)),
		plainBlock(slices.Concat(some(20), begin, some(15))),
		plainBlock(slices.Concat(some(10), end, some(15), begin, some(4))),
		plainBlock(some(7)),
	)
	want, err := io.ReadAll(bzip2.NewReader(bytes.NewReader(stored)))
	must(t, err)
	for cut := int64(0); cut < int64(len(stored)); cut += 19 {
		got, err := ranges(stored, []int64{cut})
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("cut at %d of %d: %d bytes instead of %d, error %v", cut, len(stored), len(got), len(want), err)
		}
	}
	if got, err := ranges(stored, []int64{50, 100, 150, 200, 250, 300, 350}); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d bytes instead of %d, error %v", len(got), len(want), err)
	}
}

// TestDamaged: a changed or missing byte is an error that names an offset, for the file and
// for the range that contains the damage.
func TestDamaged(t *testing.T) {
	data := words(300_000)
	whole := compressed(t, 1, data)
	size := int64(len(whole))
	for name, c := range map[string]struct {
		change func(b []byte) []byte
		text   string
	}{
		"bit":       {func(b []byte) []byte { b[size*6/10] ^= 4; return b }, "the block at byte "},
		"truncated": {func(b []byte) []byte { return b[:size*6/10] }, "the block at byte "},
		"no end":    {func(b []byte) []byte { return b[:size-5] }, "the block at byte "},
		"checksum":  {func(b []byte) []byte { b[size-2] ^= 8; return b }, "the checksum of the stream"},
		"magic":     {func(b []byte) []byte { b[5] ^= 1; return b }, "no block begins at byte 4"},
		"garbage":   {func(b []byte) []byte { return append(b, "garbage"...) }, fmt.Sprintf("no stream begins at byte %d", size)},
	} {
		stored := c.change(bytes.Clone(whole))
		for _, cuts := range [][]int64{nil, {size / 4, size / 2, size * 3 / 4}} {
			if name == "checksum" && cuts != nil {
				continue // no range has the whole stream
			}
			_, err := ranges(stored, slices.Clone(cuts))
			if err == nil || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%s, %d cuts: error %v, want %q", name, len(cuts), err, c.text)
			}
		}
	}
}

// FuzzBzip2 reads changed files in one range and in several, and compares them with the
// standard library.
func FuzzBzip2(f *testing.F) {
	f.Add(stream(plainBlock([]byte{40, 41, 77}), plainBlock([]byte{9, 9})), uint16(200))
	f.Add(compressed(f, 9, []byte("one\ntwo\nthree")), uint16(20))
	f.Add([]byte("BZh9\x17\x72\x45\x38\x50\x90\x00\x00\x00\x00"), uint16(3))
	f.Fuzz(func(t *testing.T, stored []byte, cut uint16) {
		want, err := io.ReadAll(io.LimitReader(bzip2.NewReader(bytes.NewReader(stored)), 1<<22))
		if len(want) == 1<<22 {
			return
		}
		got, ownErr := ranges(stored, nil)
		if (err == nil) != (ownErr == nil) || err == nil && !bytes.Equal(got, want) {
			t.Fatalf("%d bytes and error %v, want %d bytes and error %v", len(got), ownErr, len(want), err)
		}
		parts, partsErr := ranges(stored, []int64{min(int64(cut), int64(len(stored)))})
		if err == nil && (partsErr != nil || !bytes.Equal(parts, want)) {
			t.Fatalf("cut at %d: %d bytes and error %v, want %d bytes", cut, len(parts), partsErr, len(want))
		}
	})
}

// TestRandomised reads a file that BZip2Codec of Hadoop 3.4.2 wrote in Java from 20,000 equal
// lines. It cannot be read, and the error says what it is and what to do, at once.
func TestRandomised(t *testing.T) {
	file, err := os.ReadFile("testdata/hadoop-java.bz2")
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadAll(NewBzip2Reader(bytes.NewReader(file), int64(len(file)), 0, int64(len(file)), func(int64) {}))
	if !errors.Is(err, retry.ErrPermanent) || !strings.Contains(err.Error(), "the block at byte 4 is randomised") || !strings.Contains(err.Error(), "bzcat FILE | bzip2") {
		t.Error(err)
	}
}
