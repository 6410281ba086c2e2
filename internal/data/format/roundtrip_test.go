package format_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/data/format"
)

// cell is a random value of a table: its text as a field of a line, before escapes.
type cell struct {
	null bool
	text string
}

// Generators of values that formats get wrong: line ends, quotes, separators, escapes, NUL,
// spaces, marks of byte order, bytes that are not UTF-8, the borders of integers and floats.
var (
	texts = rapid.OneOf(
		rapid.StringN(0, 8, -1),
		rapid.StringMatching(`[\\"'\t\n\r,;N{}: ]{0,5}`),
		rapid.StringMatching(`(\r\n|\n|\r|"|,|;){0,4}`),
		rapid.SampledFrom([]string{"", "\x00", "\x00\xc2\x85\u2028", "\ufeff", "\ufeffmark", `\N`, "null", "NaN", "true", "-0", "007", "1e5", " ", "\u00a0", "é😀", "\U0010ffff", "\ufffd"}),
		rapid.Just(strings.Repeat("long\r\n ", 2000)),
	)
	anyBytes = rapid.OneOf(texts, rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 6), func(b []byte) string { return string(b) }),
		rapid.SampledFrom([]string{"\xff", "a\xc3", "\xed\xa0\x80", "\xef\xbb\xbf", "\xef\xbb"}))
	ints = rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{0, -1, math.MaxInt64, math.MinInt64, 1 << 53, 1<<53 + 1}))
	// A NaN has one text, whatever its bits.
	floats = rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1),
		math.MaxFloat64, math.SmallestNonzeroFloat64, 2.2250738585072014e-308, 0.1, 1e21, 1e-7, 123456789012345680}))
)

// draw returns a random value of a type, for a writer and as its text. Strings are UTF-8 where
// the format wants that.
func draw(t *rapid.T, kind format.Type, utf8 bool) (format.Value, cell) {
	if rapid.IntRange(0, 4).Draw(t, "null") == 0 {
		return format.Value{Null: true}, cell{null: true}
	}
	switch kind {
	case format.Int:
		n := ints.Draw(t, "int")
		return format.Value{Int: n}, cell{text: strconv.FormatInt(n, 10)}
	case format.Float:
		f := floats.Draw(t, "float")
		return format.Value{Float: f}, cell{text: strconv.FormatFloat(f, 'g', -1, 64)}
	case format.Bool:
		b := rapid.Bool().Draw(t, "bool")
		return format.Value{Bool: b}, cell{text: strconv.FormatBool(b)}
	case format.String:
		if utf8 {
			s := texts.Draw(t, "text")
			return format.Value{Bytes: []byte(s)}, cell{text: s}
		}
	}
	s := anyBytes.Draw(t, "bytes")
	return format.Value{Bytes: []byte(s)}, cell{text: s}
}

var escaper = strings.NewReplacer("\\", `\\`, "\t", `\t`, "\n", `\n`, "\r", `\r`)

// lineOf returns the line that a mapper reads.
func lineOf(row []cell) string {
	fields := make([]string, len(row))
	for i, c := range row {
		if fields[i] = escaper.Replace(c.text); c.null {
			fields[i] = `\N`
		}
	}
	return strings.Join(fields, "\t") + "\n"
}

// columnNames are names with separators, quotes, dots and letters beyond ASCII.
var columnNames = []string{"a", "b c", `q"q`, "semi;colon", "com,ma", "dot.ted", "größe", "1", `back\slash`, " edge "}

// TestRoundTrip writes random tables in each format and codec, and reads them as lines and as
// JSON: the values are the same, wherever the file is divided.
func TestRoundTrip(t *testing.T) {
	for _, c := range []struct{ write, codec, read string }{
		{"csv", "", "csv"}, {"csv,header=no", "", "csv,header=no"}, {"csv,separator=tab", "", "csv,separator=tab"}, {"csv,separator=;,header=no", "", "csv,separator=;,header=no"},
		{"json", "", "json"},
		{"parquet", "none", "parquet"}, {"parquet", "zstd", "parquet"}, {"parquet", "gzip", "parquet"},
		{"sequence", "none", "sequence"}, {"sequence", "deflate", "sequence"}, {"sequence", "gzip", "sequence"}, {"sequence", "zstd", "sequence"},
	} {
		t.Run(c.write+"+"+c.codec, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				o, f := output(t, c.write), formatOf(t, c.write)
				for i := range rapid.IntRange(1, 4).Draw(t, "columns") {
					o.Columns = append(o.Columns, format.Column{Name: columnNames[(i+rapid.IntRange(0, 2).Draw(t, "name")*3)%10], Type: format.Type(rapid.IntRange(0, 4).Draw(t, "type"))})
				}
				if o.Name == format.Sequence {
					o.Columns = []format.Column{{Name: "key"}, {Name: "value"}}
				}
				distinct(o.Columns)
				var file bytes.Buffer
				w, err := f.Create(&file, o, c.codec)
				if err != nil {
					t.Fatal(err)
				}
				var table [][]cell
				for range rapid.IntRange(0, 8).Draw(t, "rows") {
					values, row := make([]format.Value, len(o.Columns)), make([]cell, len(o.Columns))
					for i, col := range o.Columns {
						values[i], row[i] = draw(t, col.Type, f.UTF8)
						if o.Name == format.Sequence {
							row[i].null = false // docs/formats/output.md: null is an empty Text
						}
					}
					table = append(table, row)
					if err := w.WriteRow(values); err != nil {
						t.Fatal(err)
					}
				}
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
				checkTable(t, file.Bytes(), o, c.read, table)
			})
		})
	}
}

// distinct makes the names of columns distinct.
func distinct(columns []format.Column) {
	seen := map[string]bool{}
	for i := range columns {
		for seen[columns[i].Name] {
			columns[i].Name += "+"
		}
		seen[columns[i].Name] = true
	}
}

// formatOf returns the format that an output format writes.
func formatOf(t fataler, text string) *format.Format {
	name, _, _ := strings.Cut(text, ",")
	f, err := format.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// checkTable reads a file in two ways and compares it with the rows that were written.
func checkTable(t *rapid.T, file []byte, o *format.Output, read string, table [][]cell) {
	s, err := format.Parse(read)
	if err != nil {
		t.Fatal(err)
	}
	if s.Name == format.JSON { // columns in another order than the fields of the objects
		for _, col := range o.Columns {
			s.Columns = append([]string{col.Name}, s.Columns...)
		}
	}
	var want strings.Builder
	for _, row := range table {
		fields := make([]cell, len(row))
		for i, c := range row {
			if s.Name == format.JSON {
				if o.Columns[i].Type == format.Bytes {
					c.text = base64.StdEncoding.EncodeToString([]byte(c.text))
				}
				fields[len(row)-1-i] = c
				continue
			}
			fields[i] = c
		}
		want.WriteString(lineOf(fields))
	}
	at := int64(rapid.IntRange(1, max(1, len(file))).Draw(t, "at"))
	if got := linesOf(t, file, s, at); got != want.String() {
		t.Fatalf("file %.300q: got %.300q, want %.300q", file, got, want.String())
	}
	s.JSON = true
	got := linesOf(t, file, s, int64(len(file)))
	for i, row := range table {
		var line string
		line, got, _ = strings.Cut(got, "\n")
		checkObject(t, line, o, s, row, i)
	}
	if got != "" {
		t.Fatalf("more records: %.300q", got)
	}
}

// checkObject compares a row with its JSON object. Numbers are compared by their text.
func checkObject(t *rapid.T, line string, o *format.Output, s *format.Spec, row []cell, n int) {
	var object map[string]any
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	if err := d.Decode(&object); err != nil || len(object) != len(row) {
		t.Fatalf("row %d: %.300q: %v", n, line, err)
	}
	for i, c := range row {
		name, kind := o.Columns[i].Name, o.Columns[i].Type
		if s.NoHeader {
			name = strconv.Itoa(i + 1)
		}
		var want any = c.text
		switch binary := s.Name == format.Parquet || s.Name == format.JSON; {
		case c.null:
			want = nil
		case kind == format.Bytes && binary:
			want = base64.StdEncoding.EncodeToString([]byte(c.text))
		case kind == format.Bool && binary:
			want = c.text == "true"
		case (kind == format.Int || kind == format.Float) && binary && !strings.ContainsAny(c.text, "NI"):
			want = json.Number(c.text)
		case kind <= format.Bytes:
			want = strings.ToValidUTF8(c.text, "") // compared below
			if want != c.text {
				continue // docs/formats/input.md: bytes of text that are not UTF-8 are replaced in JSON
			}
		}
		if got, ok := object[name]; !ok || got != want {
			t.Fatalf("row %d, column %s: got %#v, want %#v (%.300q)", n, name, got, want, line)
		}
	}
}

// linesOf returns the lines of a file that is divided at an offset.
func linesOf(t fataler, file []byte, s *format.Spec, at int64) string {
	var all strings.Builder
	for _, part := range [][2]int64{{0, at}, {at, int64(len(file))}} {
		src := &format.Source{File: bytes.NewReader(file), Size: int64(len(file)), From: part[0], To: part[1], Decompress: decompress}
		if s.Name == format.CSV || s.Name == format.JSON {
			if part[0] > 0 {
				continue
			}
			src.Text = bytes.NewReader(file)
		}
		r, err := format.Open(src, s)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(&all, r); err != nil {
			t.Fatal(fmt.Errorf("%w in %.300q", err, file))
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}
