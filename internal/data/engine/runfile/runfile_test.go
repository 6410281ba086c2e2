package runfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/base/retry"
	"github.com/slotwise/slotwise/internal/data/engine/mem"
)

type record struct{ key, value string }

// writeRun writes parts[p] as partition p and returns the file's bytes.
func writeRun(t testing.TB, parts [][]record, opts Options) []byte {
	t.Helper()
	var out bytes.Buffer
	opts.Partitions = len(parts)
	w := NewWriter(&out, opts)
	for p, recs := range parts {
		for _, r := range recs {
			if err := w.Append(p, []byte(r.key), []byte(r.value)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	if w.Size() != int64(out.Len()) {
		t.Fatalf("Size %d, wrote %d", w.Size(), out.Len())
	}
	return out.Bytes()
}

// readRun reads everything; an error stops it.
func readRun(b []byte, opts ReadOptions) ([][]record, error) {
	f, err := OpenWith(bytes.NewReader(b), int64(len(b)), "test.run", opts)
	if err != nil {
		return nil, err
	}
	defer f.Release()
	var parts [][]record
	for p := range f.Partitions() {
		s, err := f.Partition(p)
		if err != nil {
			return nil, err
		}
		var recs []record
		var size int64
		for s.Next() {
			recs = append(recs, record{string(s.Key()), string(s.Value())})
			size += int64(len(s.Key()) + len(s.Value()))
		}
		if err := errors.Join(s.Err(), s.Close()); err != nil {
			return nil, err
		}
		if n, raw := f.Size(p); n != int64(len(recs)) || raw != size {
			return nil, fmt.Errorf("partition %d: Size says %d, %d", p, n, raw)
		}
		parts = append(parts, recs)
	}
	return parts, nil
}

func genParts(t *rapid.T) [][]record {
	key := rapid.OneOf(rapid.SampledFrom([]string{"", "a", "aa", "b"}), rapid.StringN(0, 200, 300))
	rec := rapid.Custom(func(t *rapid.T) record {
		value := rapid.OneOf(rapid.StringN(0, 200, 300), rapid.SampledFrom([]string{"", strings.Repeat("pack ", 50)}))
		return record{key.Draw(t, "key"), value.Draw(t, "value")}
	})
	parts := rapid.SliceOfN(rapid.SliceOfN(rec, 0, 40), 1, 6).Draw(t, "parts")
	for _, recs := range parts {
		slices.SortStableFunc(recs, func(a, b record) int { return strings.Compare(a.key, b.key) })
	}
	return parts
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		parts := genParts(rt)
		opts := Options{
			Codec:     rapid.SampledFrom([]Codec{None, LZ4, S2, Zstd}).Draw(rt, "codec"),
			BlockSize: rapid.SampledFrom([]int{0, 64, 100, 4096}).Draw(rt, "block"),
		}
		read := ReadOptions{Buffer: rapid.SampledFrom([]int{0, 1, 1000, 1 << 20}).Draw(rt, "buffer")}
		got, err := readRun(writeRun(t, parts, opts), read)
		if err != nil {
			rt.Fatal(err)
		}
		for p := range parts {
			if !slices.Equal(got[p], parts[p]) {
				rt.Fatalf("partition %d: got %q, want %q", p, got[p], parts[p])
			}
		}
	})
}

func TestWriterRefuses(t *testing.T) {
	type call struct {
		part int
		key  string
	}
	for _, tc := range []struct {
		name  string
		opts  Options
		calls []call
		want  string
	}{
		{"keys descend", Options{Partitions: 1}, []call{{0, "b"}, {0, "a"}}, `keys out of order in partition 0: "a" after "b"`},
		{"keys descend over blocks", Options{Partitions: 1, BlockSize: 64}, []call{{0, strings.Repeat("x", 99)}, {0, "a"}}, "out of order"},
		{"partitions descend", Options{Partitions: 2}, []call{{1, "a"}, {0, "b"}}, "partition 0 after 1 of 2"},
		{"partition past the end", Options{Partitions: 2}, []call{{2, "a"}}, "partition 2"},
		{"negative partition", Options{Partitions: 2}, []call{{-1, "a"}}, "partition -1"},
		{"no partitions", Options{}, []call{{0, "a"}}, "0 partitions"},
		{"codec", Options{Partitions: 1, Codec: 9}, []call{{0, "a"}}, "codec(9)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := NewWriter(&bytes.Buffer{}, tc.opts)
			var err error
			for _, c := range tc.calls {
				err = w.Append(c.part, []byte(c.key), nil)
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want %q", err, tc.want)
			}
			if again := w.Finish(); again != err {
				t.Fatalf("Finish after an error: %v", again)
			}
		})
	}
}

func TestFinishedWriter(t *testing.T) {
	w := NewWriter(&bytes.Buffer{}, Options{Partitions: 1})
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	if err := w.Append(0, []byte("k"), nil); !errors.Is(err, errFinished) {
		t.Fatalf("Append: %v", err)
	}
	if err := w.Finish(); !errors.Is(err, errFinished) {
		t.Fatalf("Finish: %v", err)
	}
}

func smallRun(t testing.TB, codec Codec) ([]byte, [][]record) {
	parts := make([][]record, 4)
	for i := range 24 {
		p := i / 8
		parts[p] = append(parts[p], record{fmt.Sprintf("key%02d", i/3), strings.Repeat("v", 3*i)})
	}
	return writeRun(t, parts, Options{Codec: codec, BlockSize: 100}), parts
}

// TestCodecs checks that each codec compresses and that its output decompresses to the
// same bytes.
func TestCodecs(t *testing.T) {
	plain, _ := smallRun(t, None)
	for codec := range coders {
		b, want := smallRun(t, Codec(codec))
		got, err := readRun(b, ReadOptions{})
		if err != nil {
			t.Fatalf("%v: %v", Codec(codec), err)
		}
		for p := range want {
			if !slices.Equal(got[p], want[p]) {
				t.Errorf("%v: partition %d: got %q, want %q", Codec(codec), p, got[p], want[p])
			}
		}
		if packed := len(b) < len(plain); packed != (Codec(codec) != None) {
			t.Errorf("%v: %d bytes, plain %d", Codec(codec), len(b), len(plain))
		}
	}
}

// TestDamage flips each byte of a file and cuts it at each length. Every such
// file is an error, never other records and never a panic.
func TestDamage(t *testing.T) {
	for codec := range coders {
		good, _ := smallRun(t, Codec(codec))
		for i := range good {
			for _, flip := range []byte{0x01, 0xff} {
				bad := slices.Clone(good)
				bad[i] ^= flip
				var e *Error
				if _, err := readRun(bad, ReadOptions{}); !errors.As(err, &e) || e.Name != "test.run" {
					t.Fatalf("%v: byte %d flipped by %#x: %v", Codec(codec), i, flip, err)
				}
			}
			if _, err := readRun(good[:i], ReadOptions{}); err == nil {
				t.Fatalf("%v: cut at %d: no error", Codec(codec), i)
			}
		}
	}
}

func TestDamageKinds(t *testing.T) {
	good, _ := smallRun(t, None)
	edit := func(i int, v byte) []byte {
		b := slices.Clone(good)
		b[i] = v
		return b
	}
	swapped := slices.Clone(good) // the third block's bytes in the place of others
	copy(swapped[headerLen:], good[300:500])
	for _, tc := range []struct {
		name string
		file []byte
		want error
		text string
	}{
		{"empty", nil, ErrMagic, "run file test.run: at offset 0: not a run file (bad magic)"},
		{"other kind", []byte("hello, world"), ErrMagic, "bad magic"},
		{"only a header", good[:20], ErrTruncated, "truncated: 20 bytes are too few"},
		{"cut in half", good[:len(good)/2], ErrTruncated, "truncated: no footer"},
		{"version", edit(7, 9), ErrVersion, "unsupported version 9 (this program reads 1)"},
		{"block", edit(40, 'x'), ErrChecksum, "at offset 8: block: checksum mismatch"},
		{"footer", edit(len(good)-20, 'x'), ErrChecksum, "footer: checksum mismatch"},
		{"index", edit(len(good)-footerLen-2, 'x'), ErrChecksum, "index: checksum mismatch"},
		{"misplaced", swapped, nil, "at offset 8"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := readRun(tc.file, ReadOptions{})
			if err == nil || !strings.Contains(err.Error(), tc.text) {
				t.Fatalf("got %v, want %q", err, tc.text)
			}
			if tc.want != nil && !errors.Is(err, tc.want) {
				t.Fatalf("got %v, want %v", err, tc.want)
			}
		})
	}
}

// TestMovedBlock swaps two whole blocks of equal length, which only a checksum
// that covers the place can notice.
func TestMovedBlock(t *testing.T) {
	big := strings.Repeat("x", 200)
	b := writeRun(t, [][]record{{{"a", big}, {"b", big}}}, Options{BlockSize: 64})
	n := blockHdrLen + 3 + 1 + len(big)
	first, second := b[headerLen:headerLen+n], b[headerLen+n:headerLen+2*n]
	saved := slices.Clone(first)
	copy(first, second)
	copy(second, saved)
	if _, err := readRun(b, ReadOptions{}); !errors.Is(err, ErrChecksum) {
		t.Fatalf("got %v", err)
	}
}

func TestGarbage(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	good, _ := smallRun(t, Zstd)
	for range 1000 {
		b := slices.Clone(good)
		for range 1 + rng.IntN(5) {
			at := rng.IntN(len(b))
			for i := at; i < min(len(b), at+rng.IntN(100)); i++ {
				b[i] = byte(rng.Uint32())
			}
		}
		_, _ = readRun(b, ReadOptions{Buffer: rng.IntN(200)})
	}
}

func TestHugeRecord(t *testing.T) {
	for codec, size := range map[Codec]int{None: 3 << 20, S2: 100 << 20} {
		big := strings.Repeat("0123456789", size/10)
		key := big[:1<<20]
		want := []record{{key, ""}, {key, "x"}, {"a", "small"}, {"b", big}, {"b", "again"}}
		got, err := readRun(writeRun(t, [][]record{want}, Options{Codec: codec}), ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got[0], want) {
			t.Fatalf("%v: %d records differ", codec, len(got[0]))
		}
	}
}

func TestIncompressible(t *testing.T) {
	value := make([]byte, 10_000)
	for i := range value {
		value[i] = byte(rand.Uint32())
	}
	plain := writeRun(t, [][]record{{{"k", string(value)}}}, Options{})
	for codec := range coders {
		if b := writeRun(t, [][]record{{{"k", string(value)}}}, Options{Codec: Codec(codec)}); len(b) != len(plain) {
			t.Errorf("%v: %d bytes, plain %d", Codec(codec), len(b), len(plain))
		}
	}
}

func TestCodecNames(t *testing.T) {
	for i := range coders {
		c, err := ParseCodec(Codec(i).String())
		if err != nil || c != Codec(i) {
			t.Errorf("%v: %v, %v", Codec(i), c, err)
		}
	}
	if _, err := ParseCodec("gzip"); err == nil || !strings.Contains(err.Error(), "none, lz4, s2, zstd") {
		t.Errorf("gzip: %v", err)
	}
}

func TestNoAllocations(t *testing.T) {
	recs := make([]record, 20_000)
	for i := range recs {
		recs[i] = record{fmt.Sprintf("key%07d", i), "some value or other"}
	}
	b := writeRun(t, [][]record{recs}, Options{Codec: LZ4})
	f, err := Open(bytes.NewReader(b), int64(len(b)), "x")
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(5, func() {
		s, _ := f.Partition(0)
		n := 0
		for s.Next() {
			n++
		}
		if n != len(recs) || s.Err() != nil {
			t.Fatalf("%d records, %v", n, s.Err())
		}
		_ = s.Close()
	}); n > 10 {
		t.Errorf("%v allocations for reading %d records", n, len(recs))
	}
}

// TestStreamMemory: no stream holds more than it said before it was read, and
// none anything after its end.
func TestStreamMemory(t *testing.T) {
	for i := range 2 * len(coders) {
		codec, block := i/2, []int{1000, 0}[i%2]
		var parts [][]record
		for n := range 8 {
			var recs []record
			for i := range n * n * 20 {
				recs = append(recs, record{fmt.Sprintf("key%06d", i), strings.Repeat("v", i%50)})
			}
			parts = append(parts, recs)
		}
		b := writeRun(t, parts, Options{Codec: Codec(codec), BlockSize: block})
		f, err := Open(bytes.NewReader(b), int64(len(b)), "x")
		if err != nil {
			t.Fatal(err)
		}
		most := bufferCap(f.window()) + bufferCap(f.foot.maxRaw)
		for p, recs := range parts {
			opened, _ := f.Partition(p)
			s := opened.(*stream)
			said, held := s.Memory(), 0
			for s.Next() {
				held = max(held, cap(s.win)+cap(s.raw))
			}
			if held > said || said > most || (len(recs) == 0 && said != 0) {
				t.Errorf("%v: partition %d holds %d bytes, said %d of %d", Codec(codec), p, held, said, most)
			}
			if s.win != nil || s.raw != nil {
				t.Errorf("%v: partition %d keeps buffers at its end", Codec(codec), p)
			}
		}
	}
}

func TestReadErrorKeepsCause(t *testing.T) {
	cause := errors.New("disk on fire")
	good, _ := smallRun(t, None)
	r := &failingReader{Reader: bytes.NewReader(good), from: 100, err: cause}
	f, err := Open(r, int64(len(good)), "test.run")
	if err != nil {
		t.Fatal(err)
	}
	s, _ := f.Partition(0)
	r.armed = true
	for s.Next() {
	}
	if !errors.Is(s.Err(), cause) || !strings.Contains(s.Err().Error(), "test.run") {
		t.Fatalf("got %v", s.Err())
	}
}

type failingReader struct {
	*bytes.Reader
	from  int64
	err   error
	armed bool
}

func (r *failingReader) ReadAt(b []byte, off int64) (int, error) {
	if r.armed && off+int64(len(b)) > r.from {
		return 0, r.err
	}
	return r.Reader.ReadAt(b, off)
}

func benchRecords(n int) ([][]byte, []byte) {
	rng := rand.New(rand.NewPCG(7, 7))
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "%010d", rng.Uint64N(1e10))
	}
	slices.SortFunc(keys, bytes.Compare)
	return keys, bytes.Repeat([]byte("lorem 4711 ipsum42 "), 5)[:90]
}

func BenchmarkWrite(b *testing.B) {
	keys, value := benchRecords(200_000)
	for codec := range coders {
		b.Run(Codec(codec).String(), func(b *testing.B) {
			b.SetBytes(int64(len(keys) * 100))
			for b.Loop() {
				w := NewWriter(discard{}, Options{Partitions: 1, Codec: Codec(codec)})
				for i, k := range keys {
					value[i%90]++
					_ = w.Append(0, k, value)
				}
				if err := w.Finish(); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(len(keys)*100)/float64(w.Size()), "ratio")
			}
		})
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

func BenchmarkRead(b *testing.B) {
	keys, value := benchRecords(200_000)
	for codec := range coders {
		b.Run(Codec(codec).String(), func(b *testing.B) {
			var out bytes.Buffer
			w := NewWriter(&out, Options{Partitions: 1, Codec: Codec(codec)})
			for i, k := range keys {
				value[i%90]++
				_ = w.Append(0, k, value)
			}
			if err := w.Finish(); err != nil {
				b.Fatal(err)
			}
			f, err := Open(bytes.NewReader(out.Bytes()), int64(out.Len()), "bench")
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(keys) * 100))
			for b.Loop() {
				s, _ := f.Partition(0)
				n := 0
				for s.Next() {
					n += len(s.Key())
				}
				if s.Err() != nil || n != 10*len(keys) {
					b.Fatal(s.Err(), n)
				}
				_ = s.Close()
			}
		})
	}
}

// TestLongestRecord: a record beyond the limit is refused for good, with what to do about it.
func TestLongestRecord(t *testing.T) {
	// Addresses without memory: the length alone decides, so nothing reads them.
	r, err := mem.Reserve(mem.NewPool(0), MaxRecord+1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	w := NewWriter(io.Discard, Options{Partitions: 1})
	err = w.Append(0, nil, r.Bytes())
	if !errors.Is(err, retry.ErrPermanent) || !strings.Contains(err.Error(), "emit it in parts") {
		t.Errorf("error %v", err)
	}
}
