package input

import (
	"bytes"
	"compress/zlib"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/slotwise/slotwise/internal/base/retry"
	"github.com/slotwise/slotwise/internal/data/engine/runfile"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/testkit/faultfs"
)

// readAll plans and reads all records. Splits go through JSON, as on
// their way to a worker.
func readAll(t testing.TB, opts Options, block int) ([]record, error) {
	t.Helper()
	splits, err := Plan(ctx, opts)
	if err != nil {
		return nil, err
	}
	wire, err := json.Marshal(splits)
	must(t, err)
	splits = nil
	must(t, json.Unmarshal(wire, &splits))
	var all []record
	for _, s := range splits {
		recs, err := readSplit(t, opts.Schemes, s, opts.Format, block)
		all = append(all, recs...)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

func gz(t testing.TB, data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(data)
	must(t, err)
	must(t, w.Close())
	return b.Bytes()
}

func zst(t testing.TB, data []byte) []byte {
	e, err := zstd.NewWriter(nil)
	must(t, err)
	return e.EncodeAll(data, nil)
}

// bz2 is "one\ntwo\r\nthree" compressed: there is no bzip2 writer here.
const bz2 = "BZh91AY&SY\xb1h\x8f\xad" +
	"\x00\x00\x04\xc1\x80\x00\x12\x02A\x94\x80 \x001\x06LA\x03M\x1e\xa5[z\xbb\x04\x10\xfc]\xc9\x14\xe1BB\xc5\xa2>\xb4"

func text(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "line %d of some length\r\n", i*i)
	}
	return b.Bytes()
}

// TestCompressed: compressed files give the lines of their content, whether
// the name or only the content tells, in one member or several, in one split.
func TestCompressed(t *testing.T) {
	data := text(5000)
	for name, stored := range map[string][]byte{
		"a.gz": gz(t, data), "nosuffix1": gz(t, data), "a.zst": zst(t, data), "nosuffix2": zst(t, data),
		"two.gz":  append(gz(t, data[:333]), gz(t, data[333:])...),
		"two.zst": append(zst(t, data[:333]), zst(t, data[333:])...),
	} {
		p := write(t, t.TempDir(), name, stored)
		splits, err := Plan(ctx, Options{Inputs: []string{p}, SplitSize: 100})
		must(t, err)
		if len(splits) != 1 {
			t.Errorf("%s: %d splits", name, len(splits))
		}
		recs, err := readSplit(t, nil, splits[0], Format{}, 1000)
		must(t, err)
		same(t, dumbLines(p, data), recs)
	}
}

// TestBzip2: the lines of a bzip2 file are the same, whatever the size of splits. A small
// split holds one block of the file or none.
func TestBzip2(t *testing.T) {
	stored := []byte(bz2 + bz2 + bz2)
	want := dumbLines("", []byte(strings.Repeat("one\ntwo\r\nthree", 3)))
	for _, name := range []string{"a.bz2", "nosuffix"} {
		p := write(t, t.TempDir(), name, stored)
		for size := int64(1); size < int64(len(stored))+10; size += 6 {
			splits, err := Plan(ctx, Options{Inputs: []string{p}, SplitSize: size})
			must(t, err)
			if least := min(3, int64(len(stored))/(size+size/slop)); int64(len(splits)) < least {
				t.Errorf("size %d: %d splits", size, len(splits))
			}
			recs, err := readAll(t, Options{Inputs: []string{p}, SplitSize: size}, 5)
			must(t, err)
			for i := range recs {
				recs[i].file, recs[i].off = "", want[min(i, len(want)-1)].off
			}
			same(t, want, recs)
		}
	}
}

// TestBzip2Blocks reads a file of many blocks as lines, JSON and CSV, in splits of several
// sizes: lines cross blocks and splits, and one line is longer than a block.
func TestBzip2Blocks(t *testing.T) {
	var data []byte
	for i := range 9000 {
		data = fmt.Appendf(data, "{\"n\":%d,\"s\":\"%x\"}\n", i, i*i*i)
	}
	long := slices.Concat(data[:60_000], bytes.Repeat([]byte("long "), 50_000), data[60_000:])
	csv := append([]byte("a,b\n"), bytes.ReplaceAll(data, []byte{'"'}, nil)...)
	for _, c := range []struct {
		rows string
		data []byte
	}{{"", data}, {"", long}, {"json,columns=n,s", data}, {"csv,lines=single,columns=b", csv}} {
		plain := write(t, t.TempDir(), "plain", c.data)
		packed := write(t, t.TempDir(), "packed.bz2", compressedBy(t, "bzip2", c.data))
		want, err := rowLines(t, plain, c.rows, 0)
		must(t, err)
		for _, size := range []int64{3001, 20_000, 0} {
			got, err := rowLines(t, packed, c.rows, size)
			if err != nil || !slices.Equal(got, want) {
				t.Fatalf("%q, splits of %d: %d lines instead of %d, error %v", c.rows, size, len(got), len(want), err)
			}
		}
	}
}

// compressedBy returns data as a program compresses it at level 1, or skips the test if
// there is no such program.
func compressedBy(t *testing.T, program string, data []byte) []byte {
	t.Helper()
	c := exec.Command(program, "-1", "-c")
	c.Stdin = bytes.NewReader(data)
	out, err := c.Output()
	if errors.Is(err, exec.ErrNotFound) && os.Getenv("CI") == "" {
		t.Skip("needs " + program)
	}
	must(t, err)
	return out
}

// TestDamaged: a truncated file, or one that does not match its suffix, is an error that
// names the file and the damage, and never the end of the data.
func TestDamaged(t *testing.T) {
	data := text(5000)
	g, z := gz(t, data), zst(t, data)
	flipped := bytes.Clone(g)
	flipped[len(flipped)-6] ^= 1 // in the checksum
	for name, c := range map[string]struct {
		stored    []byte
		text      string
		permanent bool
	}{
		"half.gz":    {g[:len(g)/2], "truncated gzip data", false},
		"head.gz":    {g[:5], "truncated gzip data", false},
		"tail.gz":    {g[:len(g)-1], "truncated gzip data", false},
		"second.gz":  {append(bytes.Clone(g), g[:1]...), "truncated gzip data", false},
		"half.zst":   {z[:len(z)/2], "truncated zstd data", false},
		"half.bz2":   {[]byte(bz2[:len(bz2)/2]), "truncated bzip2 data", false},
		"flipped.gz": {flipped, "gzip: invalid checksum", false},
		"plain.gz":   {data, "gzip: invalid header", true},
		"plain.zst":  {data, "reading zstd data", true},
		"plain.bz2":  {data, "reading bzip2 data", false}, // bzip2 is divided, where errors are not told apart
		"one.gz":     {append(bytes.Clone(g), 'x'), "bytes that are no gzip follow the end of the gzip data", true},
		"eight.gz":   {append(bytes.Clone(g), "trailing"...), "bytes that are no gzip follow", true},
		"begins.gz":  {append(bytes.Clone(g), "\x1fmore than a header"...), "bytes that are no gzip follow", true},
		"zeros.gz":   {append(append(bytes.Clone(g), make([]byte, 700)...), 'x'), "bytes that are no gzip follow", true},
	} {
		p := write(t, t.TempDir(), name, c.stored)
		_, err := readAll(t, Options{Inputs: []string{p}}, 0)
		if err == nil || !strings.Contains(err.Error(), p) || !strings.Contains(err.Error(), c.text) || errors.Is(err, retry.ErrPermanent) != c.permanent {
			t.Errorf("%s: got %v (permanent: %v), want %q", name, err, errors.Is(err, retry.ErrPermanent), c.text)
		}
	}
	var b bytes.Buffer
	d := packed(t, zlib.NewWriter(&b), &b, data)
	p := write(t, t.TempDir(), "text.deflate", append(bytes.Clone(d), "trailing"...))
	if _, err := readAll(t, Options{Inputs: []string{p}}, 0); !errors.Is(err, retry.ErrPermanent) || !strings.Contains(err.Error(), "bytes that are no deflate follow the end of the deflate data") {
		t.Errorf("text behind deflate: %v", err)
	}
	p = write(t, t.TempDir(), "padded.gz", append(append(bytes.Clone(g), g...), make([]byte, 512)...))
	recs, err := readAll(t, Options{Inputs: []string{p}}, 0)
	must(t, err)
	same(t, dumbLines(p, append(bytes.Clone(data), data...)), recs)
}

func TestFixed(t *testing.T) {
	var data []byte
	for i := range 300 {
		data = fmt.Appendf(data, "%07d", i)
	}
	dir := t.TempDir()
	plain := write(t, dir, "plain", data)
	packed := write(t, dir, "packed.gz", gz(t, data))
	for _, p := range []string{plain, packed} {
		for _, size := range []int64{1, 8, 100, 2100, 0} {
			for _, block := range []int{1, 50, 0} {
				recs, err := readAll(t, Options{Inputs: []string{p}, SplitSize: size, Format: Format{Fixed, 7}}, block)
				must(t, err)
				for i, r := range recs {
					if r.data != fmt.Sprintf("%07d", i) || r.off != int64(7*i) {
						t.Fatalf("%s, split %d, block %d: record %d is %v", p, size, block, i, r)
					}
				}
				if len(recs) != 300 {
					t.Fatalf("%s, split %d, block %d: %d records", p, size, block, len(recs))
				}
			}
		}
		_, err := readAll(t, Options{Inputs: []string{p}, Format: Format{Fixed, 11}}, 0)
		if err == nil || !strings.Contains(err.Error(), p+": its 2100 bytes are not a multiple of the record length 11") {
			t.Errorf("%s in records of 11: %v", p, err)
		}
	}
	splits, err := Plan(ctx, Options{Inputs: []string{plain}, SplitSize: 50, Format: Format{Fixed, 7}})
	must(t, err)
	for _, s := range splits {
		if s.Bytes%7 != 0 || s.Pieces[0].Offset%7 != 0 {
			t.Errorf("a split cuts a record: %+v", s)
		}
	}
	// A split that another planner cut in the middle of a record.
	s := Split{Pieces: []Piece{{URI: plain, Offset: 3, Length: 11, FileSize: 2100}}, Bytes: 11}
	recs, err := readSplit(t, nil, s, Format{Fixed, 7}, 0)
	must(t, err)
	same(t, []record{{plain, 7, "0000001"}}, recs)
}

func TestWhole(t *testing.T) {
	dir := t.TempDir()
	var want []record
	for i, n := range []int{0, 1, 1000, 300_000} {
		data := bytes.Repeat([]byte{byte(i)}, n)
		want = append(want, record{write(t, dir, fmt.Sprint(i), data), 0, string(data)})
	}
	want = append(want, record{write(t, dir, "4.gz", gz(t, text(9000))), 0, string(text(9000))})
	recs, err := readAll(t, Options{Inputs: []string{dir}, SplitSize: 1000, Format: Format{Kind: Whole}}, 0)
	must(t, err)
	same(t, want, recs)
}

func TestRuns(t *testing.T) {
	dir := t.TempDir()
	var want []string
	for f := range 3 {
		var b bytes.Buffer
		w := runfile.NewWriter(&b, runfile.Options{Partitions: 2, BlockSize: 100})
		for i := range 200 {
			k := fmt.Sprintf("%d-%03d", f, i)
			must(t, w.Append(i/150, []byte(k), []byte("v"+k)))
			want = append(want, k+"=v"+k)
		}
		must(t, w.Finish())
		write(t, dir, fmt.Sprint(f), b.Bytes())
	}
	format := Format{Kind: Runs}
	splits, err := Plan(ctx, Options{Inputs: []string{dir}, Format: format, SplitSize: 1})
	must(t, err)
	var got []string
	for _, s := range splits {
		r, err := Open(ctx, nil, s, format, 0)
		must(t, err)
		if _, err := r.NextBlock(); err == nil || err == io.EOF {
			t.Fatalf("NextBlock of runs: %v", err)
		}
		recs := r.Records()
		for recs.Next() {
			got = append(got, fmt.Sprintf("%s=%s", recs.Key(), recs.Value()))
		}
		must(t, recs.Err())
		must(t, recs.Close())
		must(t, recs.Close())
		if r.BytesRead() == 0 {
			t.Error("no bytes were counted")
		}
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Fatalf("got %q", got)
	}
	p := write(t, dir, "9", []byte("this is no run file, however long it is, and says so"))
	r, err := Open(ctx, nil, Split{Pieces: []Piece{{URI: p, Length: 52, FileSize: 52}}, Bytes: 52}, format, 0)
	must(t, err)
	recs := r.Records()
	if recs.Next() || recs.Err() == nil || !strings.Contains(recs.Err().Error(), p) {
		t.Errorf("a text file as run: %v", recs.Err())
	}
	must(t, recs.Close())
}

// TestChangedFile: a file that shrank since it was planned is an error; of one
// that grew the old part is read.
func TestChangedFile(t *testing.T) {
	p := write(t, t.TempDir(), "log", []byte("one\ntwo\nthr"))
	splits, err := Plan(ctx, Options{Inputs: []string{p}})
	must(t, err)
	must(t, os.WriteFile(p, []byte("one\ntwo\nthree\nfour\n"), 0o666))
	recs, err := readSplit(t, nil, splits[0], Format{}, 0)
	must(t, err)
	same(t, dumbLines(p, []byte("one\ntwo\nthr")), recs)
	must(t, os.Truncate(p, 5))
	if _, err = readSplit(t, nil, splits[0], Format{}, 0); err == nil || !strings.Contains(err.Error(), p+": it shrank from 11 to 5 bytes") {
		t.Errorf("a shrunken file: %v", err)
	}
}

// TestReplacedFile: of a file that was replaced since the job was planned nothing is read, also
// if the new one is as large or larger. A new name of the old file changes nothing.
func TestReplacedFile(t *testing.T) {
	dir := t.TempDir()
	p := filepath.Join(dir, "f")
	for _, c := range []struct {
		what    string
		content string // of the new file; "" for none
		rename  bool   // into the place of the old one, instead of writing into that
		want    string
	}{
		{"as large", "1\n2\n3\n", true, "was replaced"},
		{"larger", "old\n2\n3\n4\n", true, "was replaced"},
		{"rewritten", "1\n2\n3\n", false, "was replaced"},
		{"smaller", "1\n", true, "shrank"},
		{"left alone", "", false, ""},
	} {
		must(t, os.RemoveAll(p))
		write(t, dir, "f", []byte("old\nx\n"))
		splits, err := Plan(ctx, Options{Inputs: []string{p}})
		must(t, err)
		time.Sleep(20 * time.Millisecond) // the clock of file systems ticks slowly
		at := "f"
		if c.rename {
			at = "new"
		}
		if c.content != "" {
			write(t, dir, at, []byte(c.content))
			must(t, os.Rename(filepath.Join(dir, at), p))
		}
		recs, err := readSplit(t, nil, splits[0], Format{}, 0)
		if c.want == "" {
			must(t, err)
			same(t, dumbLines(p, []byte("old\nx\n")), recs)
			continue
		}
		if err == nil || !strings.Contains(err.Error(), p+": it "+c.want) || !errors.Is(err, retry.ErrPermanent) || len(recs) > 0 {
			t.Errorf("%s: %d records, error %v", c.what, len(recs), err)
		}
	}
}

// TestRewrittenFile changes a file of several splits, of one, and one that shares its split:
// bytes are added, it is overwritten in place with more, or another file of the same time takes
// its name. Only the first is the file that was planned.
func TestRewrittenFile(t *testing.T) {
	old := strings.Repeat("old\n", 100)
	rewrite := func(p string) error { return os.WriteFile(p, []byte(strings.Repeat("newer\n", 100)), 0o666) }
	for what, c := range map[string]struct {
		change func(p string) error
		fails  bool
	}{
		"grown": {func(p string) error {
			f, err := os.OpenFile(p, os.O_APPEND|os.O_WRONLY, 0)
			if err == nil {
				_, err = f.WriteString("more\n")
				err = errors.Join(err, f.Close())
			}
			return err
		}, false},
		"overwritten": {rewrite, true},
		"overwritten with one tick of the clock": {func(p string) error {
			st, err := os.Stat(p)
			if err == nil {
				err = rewrite(p)
			}
			return errors.Join(err, os.Chtimes(p, st.ModTime(), st.ModTime()))
		}, true},
		"of the same time": {func(p string) error {
			st, err := os.Stat(p)
			if err == nil {
				err = os.WriteFile(p+".new", []byte(strings.Repeat("new\n", 100)), 0o666)
			}
			if err == nil {
				err = os.Chtimes(p+".new", st.ModTime(), st.ModTime())
			}
			return errors.Join(err, os.Rename(p+".new", p))
		}, true},
	} {
		for _, size := range []int64{90, 400, 1 << 20} {
			p := write(t, t.TempDir(), "f", []byte(old))
			write(t, filepath.Dir(p), "another", nil)
			splits, err := Plan(ctx, Options{Inputs: []string{filepath.Dir(p)}, SplitSize: size})
			must(t, err)
			if (size == 90) != (len(splits) > 1) {
				t.Fatalf("%d splits of %d bytes", len(splits), size)
			}
			time.Sleep(20 * time.Millisecond) // the clock of file systems ticks slowly
			must(t, c.change(p))
			n := 0
			for _, s := range splits {
				recs, err := readSplit(t, nil, s, Format{}, 0)
				if n += len(recs); c.fails != (err != nil) || c.fails && !strings.Contains(err.Error(), "was replaced since the job was planned") {
					t.Errorf("%s, splits of %d bytes: %d records, error %v", what, size, len(recs), err)
				}
			}
			if want := map[bool]int{false: 100}[c.fails]; n != want {
				t.Errorf("%s, splits of %d bytes: %d records, want %d", what, size, n, want)
			}
		}
	}
}

// TestRewrittenWhileRead overwrites a file after a task has read its first block: the records of
// both contents fail the task. A line that is added meanwhile does not.
func TestRewrittenWhileRead(t *testing.T) {
	for _, added := range []bool{true, false} {
		p := write(t, t.TempDir(), "f", []byte(strings.Repeat("old\n", 100)))
		splits, err := Plan(ctx, Options{Inputs: []string{p}})
		must(t, err)
		r, err := Open(ctx, nil, splits[0], Format{}, 64)
		must(t, err)
		_, err = r.NextBlock()
		must(t, err)
		time.Sleep(20 * time.Millisecond)
		content := strings.Repeat("newer\n", 100)
		if added {
			content = strings.Repeat("old\n", 100) + "more\n"
		}
		f, err := os.OpenFile(p, os.O_WRONLY, 0)
		must(t, err)
		_, err = f.WriteString(content)
		must(t, err)
		must(t, f.Close())
		for err == nil {
			_, err = r.NextBlock()
		}
		if (err == io.EOF) != added || !added && !strings.Contains(err.Error(), "was replaced since the job was planned") {
			t.Errorf("added %v: error %v", added, err)
		}
		must(t, r.Close())
	}
}

// TestFaults fails each kind of operation and wants the error with the file's
// name; and where it was a passing one, the right records at the second try.
func TestFaults(t *testing.T) {
	faulty := faultfs.New(storage.Local{})
	schemes, err := (*storage.Schemes)(nil).With("inputfaults", faulty.Driver())
	must(t, err)
	dir := t.TempDir()
	data := text(3000)
	p := write(t, dir, "a.txt", data)
	opts := Options{Schemes: schemes, Inputs: []string{"inputfaults://" + dir}, SplitSize: 20_000}
	for _, c := range []struct {
		op  faultfs.Op
		nth int
	}{{faultfs.Stat, 1}, {faultfs.List, 1}, {faultfs.Open, 1}, {faultfs.Open, 2}, {faultfs.Open, 3}, {faultfs.Read, 1}, {faultfs.Read, 2}, {faultfs.Read, 7}} {
		faulty.Reset()
		faulty.Inject(faultfs.Rule{Op: c.op, Nth: c.nth, Err: syscall.EIO})
		_, err := readAll(t, opts, 4000)
		if !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), dir) || faulty.Fired() != 1 {
			t.Errorf("%s %d: got %v after %d faults", c.op, c.nth, err, faulty.Fired())
		}
		recs, err := readAll(t, opts, 4000)
		must(t, err)
		same(t, dumbLines("inputfaults://"+p, data), recs)
	}
}

// TestEach: the records of each format, and the end at the first error.
func TestEach(t *testing.T) {
	block := []byte("a\tb\nc\nd\te")
	for _, c := range []struct {
		f    Format
		want string
	}{
		{Format{}, `["" "a\tb"]["" "c"]["" "d\te"]`},
		{Format{Kind: KeyValue}, `["a" "b"]["c" ""]["d" "e"]`},
		{Format{Kind: Whole}, `["file" "a\tb\nc\nd\te"]`},
		{Format{Fixed, 3}, `["" "a\tb"]["" "\nc\n"]["" "d\te"]`},
	} {
		var got strings.Builder
		must(t, c.f.Each(block, "file", func(k, v []byte) error {
			fmt.Fprintf(&got, "[%q %q]", k, v)
			return nil
		}))
		if got.String() != c.want {
			t.Errorf("%v: got %s, want %s", c.f, got.String(), c.want)
		}
		calls := 0
		err := c.f.Each(block, "file", func(_, _ []byte) error {
			calls++
			return io.ErrClosedPipe
		})
		if calls != 1 || err != io.ErrClosedPipe {
			t.Errorf("%v: %d calls after an error, then %v", c.f, calls, err)
		}
	}
}

// BenchmarkBlocks measures reading and cutting into lines, from the cache.
func BenchmarkBlocks(b *testing.B) {
	p := filepath.Join(b.TempDir(), "text")
	must(b, os.WriteFile(p, bytes.Repeat(text(1000), 4000), 0o666))
	splits, err := Plan(ctx, Options{Inputs: []string{p}})
	must(b, err)
	for name, lines := range map[string]bool{"blocks": false, "lines": true} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				for _, s := range splits {
					r, err := Open(ctx, nil, s, Format{}, 0)
					must(b, err)
					for {
						block, err := r.NextBlock()
						if err == io.EOF {
							break
						}
						must(b, err)
						if lines {
							Lines(block, func([]byte) bool { n++; return true })
						}
					}
				}
			}
			var total int64
			for _, s := range splits {
				total += s.Bytes
			}
			b.SetBytes(total)
		})
	}
}
