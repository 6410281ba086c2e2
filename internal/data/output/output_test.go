package output

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/data/format"
	"github.com/slotwise/slotwise/internal/data/input"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/testkit/faultfs"
)

var ctx = context.Background()

type fataler interface{ Fatal(args ...any) }

func must(t fataler, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

type kvPair struct{ key, value []byte }

// write makes an output directory with one part and returns its path.
func write(t fataler, dir, name string, f Format, c Codec, recs []kvPair) string {
	dir, err := os.MkdirTemp(dir, "")
	must(t, err)
	out := filepath.Join(dir, "out")
	st, err := storage.Local{}.Stage(ctx, out, storage.ReplaceNothing)
	must(t, err)
	defer st.Abort(ctx)
	w, err := Open(st, name, Options{Format: f, Codec: c})
	must(t, err)
	defer w.Discard()
	for _, r := range recs {
		must(t, w.Write(r.key, r.value))
	}
	must(t, w.Flush())
	n := w.Bytes()
	must(t, w.Commit())
	must(t, st.Commit(ctx))
	names, err := filepath.Glob(filepath.Join(out, name+"*"))
	must(t, err)
	if len(names) != 1 {
		t.Fatal("files of the part:", names)
	}
	if info, err := os.Stat(names[0]); err != nil || info.Size() != n {
		t.Fatal("Bytes says", n, "of", info, err)
	}
	return names[0]
}

// content reads a file as jobs do, decompressed by its suffix.
func content(t fataler, path string) string {
	splits, err := input.Plan(ctx, input.Options{Inputs: []string{path}})
	must(t, err)
	var all []byte
	for _, s := range splits {
		r, err := input.Open(ctx, nil, s, input.Format{}, 0)
		must(t, err)
		for {
			b, err := r.NextBlock()
			if err == io.EOF {
				break
			}
			must(t, err)
			all = append(all, b...)
		}
	}
	return string(all)
}

// dumb encodes records in the simplest way.
func dumb(f Format, recs []kvPair) string {
	var b bytes.Buffer
	for _, r := range recs {
		b.Write(r.key)
		if f == Text && r.key != nil && r.value != nil {
			b.WriteByte('\t')
		}
		b.Write(r.value)
		if f == Text {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func TestFormatsAgainstDumb(t *testing.T) {
	genBytes := rapid.OneOf(
		rapid.Just[[]byte](nil),
		rapid.SliceOfN(rapid.Byte(), 0, 20),
		rapid.Map(rapid.SampledFrom([]int{100, 5000, bufferSize / 2, bufferSize - 2, bufferSize - 1, bufferSize, bufferSize + 1}), func(n int) []byte { return bytes.Repeat([]byte{'x'}, n) }),
	)
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		recs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) kvPair {
			return kvPair{genBytes.Draw(t, "key"), genBytes.Draw(t, "value")}
		}), 0, 5).Draw(t, "records")
		f := rapid.SampledFrom([]Format{Text, Fixed}).Draw(t, "format")
		c := rapid.SampledFrom([]Codec{None, None, Gzip, Zstd, Deflate}).Draw(t, "codec")
		want := dumb(f, recs)
		path := write(t, dir, ReducePart(7), f, c, recs)
		got := content(t, path)
		if got != want || !strings.HasSuffix(path, "/part-r-00007"+suffixes[c]) {
			t.Fatalf("%s: %d bytes, want %d", path, len(got), len(want))
		}
	})
}

func TestRuns(t *testing.T) {
	var recs []kvPair
	for i := range 20_000 {
		recs = append(recs, kvPair{fmt.Appendf(nil, "%06d", i/3), fmt.Appendf(nil, "v%d", i)})
	}
	for _, c := range []Codec{None, Zstd} {
		path := write(t, t.TempDir(), MapPart(3), Runs, c, recs)
		format := input.Format{Kind: input.Runs}
		splits, err := input.Plan(ctx, input.Options{Inputs: []string{path}, Format: format})
		must(t, err)
		r, err := input.Open(ctx, nil, splits[0], format, 0)
		must(t, err)
		s := r.Records()
		n := 0
		for ; s.Next(); n++ {
			if !bytes.Equal(s.Key(), recs[n].key) || !bytes.Equal(s.Value(), recs[n].value) {
				t.Fatalf("record %d is %q, %q", n, s.Key(), s.Value())
			}
		}
		must(t, s.Err())
		must(t, s.Close())
		if n != len(recs) {
			t.Fatalf("%d records", n)
		}
	}
}

func TestBytesAndEnds(t *testing.T) {
	st, err := storage.Local{}.Stage(ctx, filepath.Join(t.TempDir(), "out"), storage.ReplaceNothing)
	must(t, err)
	defer st.Abort(ctx)
	w, err := Open(st, "x", Options{})
	must(t, err)
	big := strings.Repeat("line\n", bufferSize/4)
	must(t, w.Write([]byte("k"), []byte("v")))
	must(t, w.Write(nil, []byte(big)))
	if n := w.Bytes(); n != int64(5+len(big)) {
		t.Errorf("Bytes says %d", n)
	}
	must(t, w.Commit())
	must(t, w.Discard())
	if w.Write(nil, nil) == nil {
		t.Error("written to after Commit")
	}
	if _, err := Open(st, "z", Options{Format: Runs, Codec: Gzip}); err == nil || !strings.Contains(err.Error(), "gzip") {
		t.Errorf("runs in gzip: %v", err)
	}
}

// TestFullDisk fails one operation of writing in turn: the error comes out of
// some call at the latest of Commit, every later call repeats it, and the part
// does not appear.
func TestFullDisk(t *testing.T) {
	for _, f := range []Format{Text, Runs} {
		for _, c := range []Codec{None, Zstd} {
			for _, op := range []faultfs.Op{faultfs.Create, faultfs.Write, faultfs.Commit} {
				dir := t.TempDir()
				faulty := faultfs.New(storage.Local{})
				faulty.Inject(faultfs.Rule{Op: op, Path: "part-r-00000", Nth: 1, Err: syscall.ENOSPC})
				st, err := faulty.Stage(ctx, filepath.Join(dir, "out"), storage.ReplaceNothing)
				must(t, err)
				err = part(st, f, c)
				if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "part-r-00000") || faulty.Fired() != 1 {
					t.Errorf("%v %v %s: got %v after %d faults", f, c, op, err, faulty.Fired())
				}
				must(t, part(st, f, c)) // the second attempt
				must(t, st.Commit(ctx))
				if names, _ := filepath.Glob(filepath.Join(dir, "*", "part-*")); len(names) != 1 {
					t.Errorf("%v %v %s: %v", f, c, op, names)
				}
			}
		}
	}
}

func part(st storage.Staging, f Format, c Codec) (err error) {
	w, err := Open(st, ReducePart(0), Options{Format: f, Codec: c})
	if err != nil {
		return err
	}
	defer w.Discard()
	for i := range 10_000 {
		if e := w.Write(fmt.Appendf(nil, "%06d", i), bytes.Repeat([]byte("v"), 100)); e != nil {
			err = e
		}
	}
	if e := w.Commit(); err == nil || e == nil || !errors.Is(e, err) {
		return e
	}
	return err
}

func TestNames(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{MapPart(0), "part-m-00000"}, {ReducePart(99_999), "part-r-99999"}, {ReducePart(123_456), "part-r-123456"},
		{Text.String() + Fixed.String() + Runs.String(), "textfixedruns"}, {None.String() + Gzip.String() + Zstd.String(), "nonegzipzstd"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
	for _, n := range CodecNames {
		if c, err := ParseCodec(n); err != nil || c.String() != n {
			t.Errorf("%q is read as %v, %v", n, c, err)
		}
	}
	if c, err := ParseCodec("text"); err == nil {
		t.Errorf("text is read as %v", c)
	}
}

// noFiles is a staging whose files go nowhere.
type noFiles struct{ storage.Staging }

func (noFiles) Create(context.Context, string) (storage.Writer, error) { return noFile{}, nil }

type noFile struct{ storage.Writer }

func (noFile) Write(p []byte) (int, error) { return len(p), nil }

func BenchmarkWriteText(b *testing.B) {
	w, err := Open(noFiles{}, "x", Options{})
	must(b, err)
	key, value := []byte("a key of some length"), []byte("12345")
	b.SetBytes(int64(len(key) + len(value) + 2))
	b.ReportAllocs()
	for b.Loop() {
		must(b, w.Write(key, value))
	}
}

// TestNamesOfOutputFiles: storage knows every name that a task may give its file, in each
// format with each codec. A name that it does not know would make the output one that only
// --force replaces.
func TestNamesOfOutputFiles(t *testing.T) {
	var all []Options
	for f := range formatNames {
		for c := range CodecNames {
			all = append(all, Options{Format: Format(f), Codec: Codec(c)})
		}
	}
	for _, rows := range format.OutputNames {
		for c := range CodecNames {
			parsed, err := format.ParseOutput(rows)
			must(t, err)
			all = append(all, Options{Rows: parsed, Codec: Codec(c)})
		}
	}
	for _, n := range []int{0, 99_999, 100_000, 12_345_678} {
		for _, o := range all {
			for _, part := range []string{MapPart(n), ReducePart(n), OldPart(n)} {
				if name := part + o.extension(); !storage.IsOutputFile(name) || !storage.IsOutputFile("."+name+".crc") {
					t.Errorf("%s: storage takes it for a foreign file", name)
				}
			}
		}
	}
	for _, foreign := range []string{
		"", "part", "part-", "part-r-", "part-r-0000", "part-x-00000", "part-r-0000a", "part-r-00000.tex", "part-r-00000.csv.bak", "part-r-00000.gz.csv",
		"part-r-00000.", "part-r-00000~", "apart-r-00000", "PART-r-00000", "_SUCCESS.gz", "._SUCCESS", ".part-r-00000", ".crc", "..crc", "_logs", "_temporary", "README",
	} {
		if storage.IsOutputFile(foreign) {
			t.Errorf("%q: storage takes it for a file of an output", foreign)
		}
	}
}
