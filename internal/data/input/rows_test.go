package input

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/slotwise/slotwise/internal/base/retry"
	"github.com/slotwise/slotwise/internal/data/format"
	"github.com/slotwise/slotwise/internal/data/format/avro"
	"github.com/slotwise/slotwise/internal/data/format/parquet"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/testkit/faultfs"
)

// The tests use all formats. A program enables its formats in the same way.
func init() { format.Enable(parquet.Format(), avro.Format()) }

// spec parses a format.
func spec(t testing.TB, text string) *format.Spec {
	t.Helper()
	s, err := format.Parse(text)
	must(t, err)
	return s
}

// rowLines returns the lines of an input in a format, for one size of splits.
func rowLines(t testing.TB, path, rows string, splitSize int64) ([]string, error) {
	t.Helper()
	recs, err := readAll(t, Options{Inputs: []string{path}, Rows: spec(t, rows), SplitSize: splitSize}, 3000)
	lines := make([]string, 0, len(recs))
	for _, r := range recs {
		lines = append(lines, r.data)
	}
	return lines, err
}

// golden returns the lines of a file in the tests' data.
func golden(t testing.TB, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	if len(b) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

var formatData = filepath.Join("..", "format")

// sizes are sizes of splits: from many splits, some without a record, to one for the whole
// file.
var sizes = []int64{777, 5000, 0}

// TestParquetAndAvro: pyarrow, Avro's Java library and fastavro have read the same records, and the
// size of splits changes nothing.
func TestParquetAndAvro(t *testing.T) {
	for _, pattern := range []string{"parquet/testdata/*.parquet", "avro/testdata/*.avro"} {
		paths, err := filepath.Glob(filepath.Join(formatData, pattern))
		must(t, err)
		if len(paths) < 3 {
			t.Fatalf("%s: %d files", pattern, len(paths))
		}
		for _, p := range paths {
			expected := filepath.Join(filepath.Dir(p), "rows.jsonl")
			switch name := filepath.Base(p); {
			case strings.HasPrefix(name, "runs"): // booleans in runs, pages and dictionaries without values
				expected = filepath.Join(filepath.Dir(p), "runs.jsonl")
			case strings.HasPrefix(name, "named"): // named types used again, recursion, unions of logical types
				expected = filepath.Join(filepath.Dir(p), "named.jsonl")
			}
			want := golden(t, expected)
			for _, size := range sizes {
				got, err := rowLines(t, p, "auto,as=json", size)
				must(t, err)
				sameObjects(t, p, want, got)
			}
		}
	}
}

// sameObjects compares JSON lines by value.
func sameObjects(t *testing.T, what string, want, got []string) {
	t.Helper()
	if len(want) != len(got) {
		t.Errorf("%s: %d records, want %d", what, len(got), len(want))
		return
	}
	for i := range want {
		var w, g any
		must(t, json.Unmarshal([]byte(want[i]), &w))
		if err := json.Unmarshal([]byte(got[i]), &g); err != nil || !reflect.DeepEqual(w, g) {
			t.Errorf("%s, record %d: got %s, want %s (%v)", what, i, got[i], want[i], err)
			return
		}
	}
}

// TestSequenceFiles: hadoop fs -text of Hadoop 3.4.2 has printed the same lines.
func TestSequenceFiles(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(formatData, "testdata", "*.seq"))
	must(t, err)
	if len(paths) < 9 {
		t.Fatalf("%d files", len(paths))
	}
	for _, p := range paths {
		want := golden(t, strings.TrimSuffix(p, ".seq")+".txt")
		for _, size := range sizes {
			got, err := rowLines(t, p, "auto,as=raw", size)
			must(t, err)
			if len(got) != len(want) {
				t.Fatalf("%s, splits of %d bytes: %d records, want %d", p, size, len(got), len(want))
			}
			for i := range want {
				if !sameText(want[i], got[i]) {
					t.Fatalf("%s, splits of %d bytes, record %d: got %q, want %q", p, size, i, got[i], want[i])
				}
			}
		}
		var out bytes.Buffer
		fs, path, err := Options{}.Schemes.Resolve(p)
		must(t, err)
		must(t, Decoded(ctx, fs, path, &out))
		if lines := strings.Count(out.String(), "\n"); lines != len(want) {
			t.Errorf("fs -text prints %d lines of %s, want %d", lines, p, len(want))
		}
	}
}

// sameText compares lines. Numbers with a point may differ in their last digit: Java before
// version 19 printed more digits than a number needs.
func sameText(want, got string) bool {
	if want == got {
		return true
	}
	w, g := strings.LastIndexByte(want, '\t'), strings.LastIndexByte(got, '\t')
	if w < 0 || g < 0 || want[:w] != got[:g] || !strings.Contains(want[w:], ".") {
		return false
	}
	for _, bits := range []int{32, 64} {
		x, xerr := strconv.ParseFloat(want[w+1:], bits)
		y, yerr := strconv.ParseFloat(got[g+1:], bits)
		if xerr == nil && yerr == nil && x == y {
			return true
		}
	}
	return false
}

// TestColumns: lines of fields have escapes and the wanted order.
func TestColumns(t *testing.T) {
	dir := t.TempDir()
	csv := write(t, dir, "a.csv", []byte("\xef\xbb\xbfid,name,\"no\"\"te\"\r\n1,\"a\tb\nc\",x\r\n2,,\\N\n"))
	jsonl := write(t, dir, "a.jsonl", []byte(`{"id":1,"name":"a\tb","sub":{"x": [1, 2]},"f":1.50}`+"\n\n"+`{"id":12345678901234567890,"name":null}`))
	for _, c := range []struct{ path, rows, want string }{ // ^ compares the first record only
		{csv, "csv", `1	a\tb\nc	x|2	\N	\\N`},
		{csv, `csv,columns=no"te,id`, `x	1|\\N	2`},
		{csv, "csv,as=json,columns=id,name", `{"id":"1","name":"a\tb\nc"}|{"id":"2","name":null}`},
		{csv, "csv,header=no,columns=2", `name|a\tb\nc|\N`},
		{csv, "", "\xef\xbb\xbfid,name,\"no\"\"te\"\r|1,\"a\tb|c\",x\r|2,,\\N"},
		{jsonl, "json", `{"id":1,"name":"a\tb","sub":{"x": [1, 2]},"f":1.50}|{"id":12345678901234567890,"name":null}`},
		{jsonl, "json,columns=name,id,f,sub", `a\tb	1	1.50	{"x":[1,2]}|\N	12345678901234567890	\N	\N`},
		{jsonl, "json,as=json,columns=sub", `{"sub":{"x":[1,2]}}|{"sub":null}`},
		{filepath.Join(formatData, "parquet/testdata/zstd.parquet"), "^columns=tags,id", "\\N\t0"},
		{filepath.Join(formatData, "avro/testdata/null.avro"), "^columns=kind,name", "A\t\\N"},
		{filepath.Join(formatData, "testdata/plain.seq"), "^columns=value", ""},
	} {
		got, err := rowLines(t, c.path, strings.Replace(c.rows, "^", "auto,", 1), 0)
		if strings.HasPrefix(c.rows, "^") {
			got = got[:min(1, len(got))]
		}
		must(t, err)
		if joined := strings.Join(got, "|"); joined != c.want {
			t.Errorf("%s as %s: got %q, want %q", c.path, c.rows, joined, c.want)
		}
	}
}

// TestDividedText: CSV with the promise of single lines and JSON lines give the same
// records for any splits; other CSV is never divided.
func TestDividedText(t *testing.T) {
	var c, j bytes.Buffer
	c.WriteString("id;text\n")
	for i := range 500 {
		fmt.Fprintf(&c, "%d;\"t %d\"\n", i, i)
		fmt.Fprintf(&j, "{\"id\":%d,\"text\":\"t %d\"}\n", i, i)
	}
	dir := t.TempDir()
	for _, x := range []struct {
		rows string
		data []byte
		one  bool
	}{
		{"csv,separator=;,lines=single,columns=text,id", c.Bytes(), false},
		{"csv,separator=;,columns=text,id", c.Bytes(), true},
		{"json,columns=text,id", j.Bytes(), false},
	} {
		for name, data := range map[string][]byte{"plain": x.data, "packed.gz": gz(t, x.data)} {
			p := write(t, dir, name, data)
			for _, size := range []int64{7, 1000, 0} {
				splits, err := Plan(ctx, Options{Inputs: []string{p}, Rows: spec(t, x.rows), SplitSize: size})
				must(t, err)
				if one := x.one || size == 0 || name != "plain"; one != (len(splits) == 1) {
					t.Errorf("%s, %s: %d splits of %d bytes", x.rows, name, len(splits), size)
				}
				got, err := rowLines(t, p, x.rows, size)
				must(t, err)
				if len(got) != 500 || got[0] != "t 0\t0" || got[499] != "t 499\t499" {
					t.Errorf("%s, %s, splits of %d bytes: %d records, %q", x.rows, name, size, len(got), got[:min(2, len(got))])
				}
			}
		}
	}
}

// TestEmptyFirstLine: a reader of the whole CSV file skips empty lines before the header. A part
// of the file has only the first line for the names, so it fails and says why.
func TestEmptyFirstLine(t *testing.T) {
	p := write(t, t.TempDir(), "empty", []byte("\na,b\n1,2\n3,4\n5,6\n"))
	if got, err := rowLines(t, p, "csv", 6); err != nil || len(got) != 3 {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := rowLines(t, p, "csv,lines=single", 6); err == nil || !strings.Contains(err.Error(), "leave out lines=single") {
		t.Errorf("%q, %v", got, err)
	}
}

// TestLineEndsOfMacs reads a CSV file whose lines end with CR, and one with CR in the fields of LF
// lines, in splits of every size.
func TestLineEndsOfMacs(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ text, want string }{
		{"a,b\r1,\"2\rx\"\r3,4\r\r5,6\r", `1	2\rx|3	4|5	6`},
		{"a,b\n1,2\rx\n3,4\n5,6\r\n", `1	2\rx|3	4|5	6`},
		{"a\rx,b\n1,2\n3\r,4\n5,6", `1	2|3\r	4|5	6`}, // a stray CR in the first record divides none
		{"a,b\r1,2\r3,4\r5,6", "1	2|3	4|5	6"},
	} {
		p := write(t, dir, "file", []byte(c.text))
		for _, rows := range []string{"csv", "csv,lines=single"} {
			for size := range len(c.text) {
				got, err := rowLines(t, p, rows, int64(size+1))
				if err != nil || strings.Join(got, "|") != c.want {
					t.Errorf("%q, %s, splits of %d bytes: %q, %v; want %q", c.text, rows, size+1, got, err, c.want)
				}
			}
		}
	}
}

// TestMixedLineEnds reads CSV files that have both CR and LF: rows are never taken for a part of
// another one or of the header.
func TestMixedLineEnds(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("x", 40<<10)
	for what, c := range map[string]struct{ text, rows, want, fails string }{
		"an empty LF line before CR":        {"\na,b\r1,2\r3,4\r", "csv", "1	2|3	4", ""},
		"empty CR LF and LF lines":          {"\r\n\n\na,b\r1,2\r3,4", "csv", "1	2|3	4", ""},
		"an LF at the end":                  {"a,b\r1,2\r3,4\n", "csv", "", "does the file mix the line ends"},
		"a CR LF at the end":                {"a,b\r1,2\r3,4\r\n", "csv", "", "does the file mix the line ends"},
		"one CR LF":                         {"a,b\r\n1,2\r3,4\r5,6", "csv", "", "it has 4 fields, and the first record of the file has 2"},
		"CR CR LF":                          {"a,b\r\r\n1,2\r\r\n", "csv", "1	2\\r", ""},
		"a header alone":                    {"a,b\r", "csv", "", ""},
		"a CR in a quoted name":             {"\"a\rb\",c\n", "csv", "", ""},
		"a stray CR in a long first record": {long + "\r" + long + "\ny\n", "csv,header=no", long + "\\r" + long + "|y", ""},
		"long records that end with CR":     {long + "\r" + long + "\ry", "csv,header=no", long + "|" + long + "|y", ""},
	} {
		got, err := rowLines(t, write(t, dir, "file", []byte(c.text)), c.rows, 0)
		if text := strings.Join(got, "|"); text != c.want || (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %.60q (%d bytes), error %v", what, text, len(text), err)
		}
	}
}

// TestRowErrors: the error names the file and the reason. Planning finds errors in the head
// of the first file.
func TestRowErrors(t *testing.T) {
	dir := t.TempDir()
	text := write(t, dir, "text", []byte("a,b\n1,2\n3\n"))
	quote := write(t, dir, "quote", []byte("a,b\n1,\"2\n3,4\n"))
	array := write(t, dir, "array", []byte("[\n {\"a\": 1}\n]\n"))
	latin := write(t, dir, "latin", []byte("{\"a\":\"\xef\xbf\xbd \\uFFFD\"}\n{\"a\":\"\xe9\"}\n"))
	half := write(t, dir, "half", []byte("{\"a\":\"\\ud83d\\ude00\"}\n{\"a\":\"\\ufffd\\ud800\"}\n"))
	packed := filepath.Join(formatData, "parquet/testdata/zstd.parquet")
	for _, c := range []struct {
		path, rows, want string
		planned          bool
	}{
		{packed, "parquet,columns=idd", `no column "idd"; the file has id, name`, true},
		{text, "csv,columns=c", `no column "c"; the file has a, b`, true},
		{text, "csv", "record on line 3: it has 1 field, and the first record of the file has 2", false},
		{quote, "csv", "record on line 2", false},
		{array, "json", "line 1: it is no JSON object", false},
		{latin, "json,columns=a", "line 2: column a: its text is not UTF-8", false},
		{half, "json,columns=a", "line 2: column a: its text has half of a surrogate pair", false},
		{text, "parquet", "it is no Parquet file", true},
		{text, "avro", "it is no Avro file", true},
		{text, "sequence", "it is no SequenceFile", true},
		{packed, "csv", "it is a Parquet file, which cannot be read here: read it as lines with the format parquet", true},
		{packed, "text", "it is a Parquet file", true},
		{text, "auto,columns=a", "the file is text: name its format", true},
	} {
		_, err := Plan(ctx, Options{Inputs: []string{c.path}, Rows: spec(t, c.rows)})
		if (err != nil) != c.planned {
			t.Errorf("%s as %s: planning gives %v", c.path, c.rows, err)
		}
		if err == nil {
			_, err = rowLines(t, c.path, c.rows, 0)
		}
		if err == nil || !strings.Contains(err.Error(), c.path) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s as %s: got %v, want %q", c.path, c.rows, err, c.want)
		}
		if !errors.Is(err, retry.ErrPermanent) {
			t.Errorf("%s as %s: the error is not permanent: %v", c.path, c.rows, err)
		}
	}
	if _, err := Plan(ctx, Options{Inputs: []string{text}, Format: Format{Kind: Whole}, Rows: spec(t, "csv")}); err == nil {
		t.Error("csv as whole files")
	}
}

// TestPassingErrors: an error of the storage is not permanent, wherever in a file it strikes,
// also if the format's reader takes it for damage.
func TestPassingErrors(t *testing.T) {
	faulty := faultfs.New(storage.Local{})
	schemes, err := (*storage.Schemes)(nil).With("passingfaults", faulty.Driver())
	must(t, err)
	dir := t.TempDir()
	csv := []byte("a,b\n1,2\n3,4\n")
	files := map[string][]byte{"a.csv": csv, "b.csv.gz": gz(t, csv), "c.csv.bz2": compressedBy(t, "bzip2", csv), "d.json": []byte("{\"a\":1}\n"), "e.gz": gz(t, csv)}
	for _, name := range []string{"parquet/testdata/gzip.parquet", "avro/testdata/deflate.avro", "testdata/block.seq", "testdata/record.seq"} {
		data, err := os.ReadFile(filepath.Join(formatData, name))
		must(t, err)
		files[filepath.Base(name)] = data
	}
	for name, data := range files {
		p := write(t, dir, name, data)
		rows := ""
		if s := strings.Split(name, "."); s[1] == "csv" || s[1] == "json" {
			rows = s[1]
		}
		opts := Options{Schemes: schemes, Inputs: []string{"passingfaults://" + p}, Rows: spec(t, rows)}
		fired := 0
		for nth := 1; nth == fired+1 && nth < 100; nth++ {
			faulty.Reset()
			faulty.Inject(faultfs.Rule{Op: faultfs.Read, Nth: nth, Err: syscall.EIO})
			if _, err = readAll(t, opts, 0); faulty.Fired() > 0 {
				if fired++; err == nil || errors.Is(err, retry.ErrPermanent) {
					t.Errorf("%s, read %d fails: %v", name, nth, err)
				}
			}
		}
		if must(t, err); fired == 0 {
			t.Errorf("%s: no read failed", name)
		}
	}
}

// TestTornFiles: cut files and files with changed bytes give an error that names the file,
// or records, and never a panic.
func TestTornFiles(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{"parquet/testdata/snappy.parquet", "avro/testdata/deflate.avro", "testdata/block.seq", "testdata/record.seq", "testdata/plain.seq"} {
		whole, err := os.ReadFile(filepath.Join(formatData, name))
		must(t, err)
		suffix := filepath.Ext(name)
		kind := map[string]string{".parquet": "parquet", ".avro": "avro", ".seq": "sequence"}[suffix]
		for i := range 30 {
			data := bytes.Clone(whole)
			if i%2 == 0 {
				data = data[:rnd.IntN(len(data))]
			} else {
				for range 1 + rnd.IntN(4) {
					data[rnd.IntN(len(data))] ^= byte(1 + rnd.IntN(255))
				}
			}
			if len(data) == 0 {
				continue
			}
			p := write(t, t.TempDir(), "torn"+suffix, data)
			_, err := rowLines(t, p, kind, 0)
			if err != nil && !strings.Contains(err.Error(), p) {
				t.Errorf("%s: %v", name, err)
			}
			if suffix == ".parquet" && i%2 == 0 && err == nil {
				t.Errorf("%s: cut to %d bytes, it is read without an error", name, len(data))
			}
		}
	}
}
