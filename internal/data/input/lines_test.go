package input

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/data/storage"
)

var ctx = context.Background()

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, dir, name string, data []byte) string {
	t.Helper()
	p := filepath.Join(dir, name)
	must(t, os.MkdirAll(filepath.Dir(p), 0o777))
	must(t, os.WriteFile(p, data, 0o666))
	return p
}

// record is a record with the place it was read from.
type record struct {
	file string
	off  int64
	data string
}

// readSplit reads a split's records and checks what holds for every block.
func readSplit(t fataler, schemes *storage.Schemes, s Split, f Format, size int) ([]record, error) {
	return readWith(t, schemes, s, f, size, false)
}

func readWith(t fataler, schemes *storage.Schemes, s Split, f Format, size int, mapFiles bool) ([]record, error) {
	r, err := Open(ctx, schemes, s, f, size)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if mapFiles {
		r.MapFiles()
	}
	var recs []record
	for {
		block, err := r.NextBlock()
		if err == io.EOF {
			if r.BytesRead() > s.Bytes || mapFiles && r.BytesRead() < s.Bytes {
				t.Fatalf("%d bytes read of a split of %d", r.BytesRead(), s.Bytes)
			}
			return recs, nil
		}
		if err != nil {
			return recs, err
		}
		if block == nil {
			continue // a pause
		}
		if len(block) == 0 && f.Kind != Whole {
			t.Fatalf("an empty block of %s", r.File())
		}
		recs = append(recs, cut(block, f, r.File(), r.Offset())...)
	}
}

type fataler interface {
	Fatalf(format string, args ...any)
}

func cut(block []byte, f Format, file string, off int64) (recs []record) {
	switch f.Kind {
	case Whole:
		return []record{{file, off, string(block)}}
	case Fixed:
		for ; len(block) > 0; block = block[f.RecordLen:] {
			recs = append(recs, record{file, off, string(block[:f.RecordLen])})
			off += int64(f.RecordLen)
		}
	default:
		Lines(block, func(line []byte) bool {
			recs = append(recs, record{file, off, string(line)})
			off += int64(len(line)) + 1
			return true
		})
	}
	return recs
}

// dumbLines returns the lines of a file, found in the simplest way.
func dumbLines(file string, data []byte) (recs []record) {
	off := int64(0)
	for _, l := range strings.SplitAfter(string(data), "\n") {
		if l != "" {
			recs = append(recs, record{file, off, strings.TrimSuffix(l, "\n")})
			off += int64(len(l))
		}
	}
	return recs
}

var genLine = rapid.OneOf(
	rapid.SampledFrom([]string{"", "", "\r", "a\r", "\x00", "\xff\xfe", "a\tb", "word"}),
	rapid.StringN(0, 40, -1),
	rapid.Map(rapid.IntRange(1, 9000), func(n int) string { return strings.Repeat("x", n) }),
)

// genText draws a text with all that is odd about lines.
func genText(t *rapid.T, label string) []byte {
	text := strings.Join(rapid.SliceOfN(genLine, 0, 30).Draw(t, label), "\n")
	if rapid.Bool().Draw(t, label+" ends in a newline") {
		text += "\n"
	}
	return []byte(text)
}

// TestLinesExactlyOnce: whatever the text, the split size and the block size,
// the lines of all splits in order are the lines of all files in order.
func TestLinesExactlyOnce(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		d, err := os.MkdirTemp(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		var want []record
		var total int
		for _, name := range []string{"a", "b", "c"} {
			data := genText(t, name)
			p := filepath.Join(d, name)
			if err := os.WriteFile(p, data, 0o666); err != nil {
				t.Fatal(err)
			}
			want = append(want, dumbLines(p, data)...)
			total += len(data)
		}
		size := rapid.OneOf(rapid.Int64Range(1, 20), rapid.Int64Range(1, 300), rapid.Int64Range(300, 50_000)).Draw(t, "split size")
		size = max(size, int64(total/300)) // more splits take long and show nothing new
		block := rapid.OneOf(rapid.IntRange(1, 20), rapid.IntRange(1, 20_000)).Draw(t, "block size")
		splits, err := Plan(ctx, Options{Inputs: []string{d}, SplitSize: size})
		if err != nil {
			t.Fatal(err)
		}
		for _, mapFiles := range []bool{false, true} {
			var got []record
			for _, s := range splits {
				recs, err := readWith(t, nil, s, Format{}, block, mapFiles)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, recs...)
			}
			same(t, want, got)
		}
	})
}

func same(t fataler, want, got []record) {
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || want[i] != got[i] {
			t.Fatalf("record %d of %d (want %d) differs:\nwant %.200q\ngot  %.200q", i, len(got), len(want), at(want, i), at(got, i))
		}
	}
}

func at(r []record, i int) any {
	if i < len(r) {
		return []any{r[i].file, r[i].off, r[i].data}
	}
	return "nothing"
}

// TestHugeLine reads a 100 MB line between two short ones in many splits.
func TestHugeLine(t *testing.T) {
	p := filepath.Join(t.TempDir(), "huge")
	f, err := os.Create(p)
	must(t, err)
	_, err = f.WriteAt([]byte("first\n"), 0) // and zeros, on no disk
	must(t, err)
	_, err = f.WriteAt([]byte("\nlast"), 100_000_006)
	must(t, err)
	must(t, f.Close())
	splits, err := Plan(ctx, Options{Inputs: []string{p}, SplitSize: 7 << 20})
	must(t, err)
	for _, mapFiles := range []bool{false, true} {
		lens := []int{}
		for _, s := range splits {
			r, err := Open(ctx, nil, s, Format{}, 0)
			must(t, err)
			if mapFiles {
				r.MapFiles()
			}
			block, err := r.NextBlock()
			for ; err == nil; block, err = r.NextBlock() {
				Lines(block, func(line []byte) bool {
					lens = append(lens, len(line))
					return true
				})
			}
			if err != io.EOF {
				t.Fatal(err)
			}
		}
		if len(splits) < 13 || len(lens) != 3 || lens[0] != 5 || lens[1] != 100_000_000 || lens[2] != 4 {
			t.Fatalf("%d splits gave lines of %v bytes", len(splits), lens)
		}
	}
}

func TestLinesStopsAndSplitTab(t *testing.T) {
	n := 0
	Lines([]byte("a\nb\nc"), func([]byte) bool { n++; return n < 2 })
	if n != 2 {
		t.Errorf("Lines went on after false: %d calls", n)
	}
	for _, c := range []struct {
		line, key, value string
		tab              bool
	}{{"k\tv\tw", "k", "v\tw", true}, {"k", "k", "", false}, {"k\t", "k", "", true}, {"\tv", "", "v", true}, {"", "", "", false}} {
		k, v := SplitTab([]byte(c.line))
		if string(k) != c.key || string(v) != c.value || (v != nil) != c.tab {
			t.Errorf("SplitTab(%q) = %q, %q (nil: %v)", c.line, k, v, v == nil)
		}
	}
}

// TestCancel: a reader ends at the block after its context does.
func TestCancel(t *testing.T) {
	p := write(t, t.TempDir(), "a", bytes.Repeat([]byte("line\n"), 1000))
	stop := errors.New("stop")
	c, cancel := context.WithCancelCause(ctx)
	splits, err := Plan(c, Options{Inputs: []string{p}})
	must(t, err)
	r, err := Open(c, nil, splits[0], Format{}, 100)
	must(t, err)
	defer r.Close()
	_, err = r.NextBlock()
	must(t, err)
	cancel(stop)
	if _, err := r.NextBlock(); !errors.Is(err, stop) {
		t.Fatalf("after the cancel: %v", err)
	}
}

// TestCountLines compares the count with the lines that Lines finds.
func TestCountLines(t *testing.T) {
	for _, block := range []string{"", "\n", "a", "a\n", "a\nb", "\n\n", "a\r\nb\r\n", "\na"} {
		var want int64
		Lines([]byte(block), func([]byte) bool { want++; return true })
		if got := CountLines([]byte(block)); got != want {
			t.Errorf("%q: %d lines, want %d", block, got, want)
		}
	}
}
