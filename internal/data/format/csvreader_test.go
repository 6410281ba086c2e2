package format

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// csvTable returns the records of a text as own reads them, each field in quotes if it is not
// null, and the error.
func csvTable(r io.Reader) (records []string, err error) {
	c := newCSVReader(r, ';')
	for {
		fields, err := c.read()
		if err != nil {
			return records, err
		}
		var b strings.Builder
		for _, f := range fields {
			if f.isNull() {
				b.WriteString("null ")
			} else {
				fmt.Fprintf(&b, "%q ", f.text)
			}
		}
		records = append(records, b.String())
	}
}

// TestCSVReader compares csvReader with encoding/csv on random texts. It leaves out what they
// should do differently: a CR before an LF within quotes, quotes of empty fields, empty lines.
func TestCSVReader(t *testing.T) {
	text := rapid.StringMatching(`("([a;\n]|""){0,3}"|[aé ]{0,2}|[a"\r]{0,2}|[;\n]|\r\n|;){0,12}`)
	rapid.Check(t, func(t *rapid.T) {
		text := text.Draw(t, "text")
		got, err := csvTable(strings.NewReader(text))
		slow, slowErr := csvTable(iotest.OneByteReader(strings.NewReader(text)))
		if !slices.Equal(got, slow) || err.Error() != slowErr.Error() {
			t.Fatalf("%q gives %q (%v), byte by byte %q (%v)", text, got, err, slow, slowErr)
		}
		if strings.Contains(text, "\r\n") && strings.Contains(text, `"`) {
			return
		}
		c := newCSVReader(strings.NewReader(text), ';')
		if c.decideEnds(); c.ends == endsCR {
			return // TestCSVLineEnds has texts whose records end with CR
		}
		theirs := csv.NewReader(strings.NewReader(text))
		theirs.Comma, theirs.FieldsPerRecord = ';', -1
		var want []string
		for {
			fields, theirErr := theirs.Read()
			if theirErr != nil {
				if (theirErr == io.EOF) != (err == io.EOF) {
					t.Fatalf("%q: got %v, want %v", text, err, theirErr)
				}
				break
			}
			var b strings.Builder
			for _, f := range fields {
				fmt.Fprintf(&b, "%q ", f)
			}
			want = append(want, b.String())
		}
		got = slices.DeleteFunc(got, func(s string) bool { return s == "null " })
		for i := range got {
			got[i] = strings.ReplaceAll(got[i], "null", `""`)
		}
		if err == io.EOF && !slices.Equal(got, want) {
			t.Fatalf("%q: got %q, want %q", text, got, want)
		}
	})
}

// TestCSVLineEnds writes tables with each line end: a CR alone ends the records of a file
// without an LF outside quotes. In quotes it is always part of the field, and in other files without
// quotes, too.
func TestCSVLineEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		end := rapid.SampledFrom([]string{"\n", "\r\n", "\r"}).Draw(t, "end")
		var text, want strings.Builder
		var starts []int64
		line := int64(1)
		records := rapid.IntRange(1, 5).Draw(t, "records")
		for range records {
			plain := `[a\r ]{0,2}a`
			if end == "\r" || records == 1 { // one record without a line end shows no LF
				plain = `[a ]{0,2}a`
			}
			starts = append(starts, line)
			for j := range rapid.IntRange(1, 3).Draw(t, "fields") {
				if j > 0 {
					text.WriteString(";")
				}
				field := rapid.StringMatching(plain).Draw(t, "plain")
				if rapid.Bool().Draw(t, "quoted") {
					field = rapid.StringMatching(`[a;\r\n"]{0,5}`).Draw(t, "field")
					text.WriteString(`"` + strings.ReplaceAll(field, `"`, `""`) + `"`)
					n := strings.Count(field, "\n")
					if end == "\r" {
						n += strings.Count(field, "\r") - strings.Count(field, "\r\n")
					}
					line += int64(n)
				} else {
					text.WriteString(field)
				}
				fmt.Fprintf(&want, "%q ", field)
			}
			text.WriteString(end)
			want.WriteString("|")
			line++
		}
		file := text.String()
		if rapid.Bool().Draw(t, "no last end") {
			file = strings.TrimSuffix(file, end)
		}
		for _, r := range []io.Reader{strings.NewReader(file), iotest.OneByteReader(strings.NewReader(file))} {
			got, err := csvTable(r)
			if strings.Join(got, "|")+"|" != want.String() || err != io.EOF {
				t.Fatalf("%q: %q (%v), want %q", file, got, err, want.String())
			}
		}
		c := newCSVReader(strings.NewReader(file), ';')
		for _, want := range starts {
			if _, err := c.read(); err != nil || c.line != want {
				t.Fatalf("%q: a record starts on line %d (%v), want %d", file, c.line, err, want)
			}
		}
	})
}

// TestCSVFields checks what encoding/csv does not keep, and the errors.
func TestCSVFields(t *testing.T) {
	for _, c := range []struct{ text, want, err string }{
		{"a;\"x\r\ny\"\r\n", `"a" "x\r\ny" `, ""},
		{"\"\";;\"\"\n\n\"\"\r\n\r\n", `"" null "" |null |"" |null `, ""},
		{"x\na\rb;c\r\n\"d\re\";\r", `"x" |"a\rb" "c" |"d\re" null `, ""},
		{"a;b\r1;\"2\r\n\"\r\r3;4\r5;6\r", `"a" "b" |"1" "2\r\n" |null |"3" "4" |"5" "6" `, ""},
		{"first\rnote\nsecond\nthi\rrd\n", `"first\rnote" |"second" |"thi\rrd" `, ""},
		{"\"a\r\"\r\"b\r\n\r\"\r\"c", `"a\r" |"b\r\n\r" `, "record on line 6: a quoted field has no closing quote"},
		{`"a""b";""""`, `"a\"b" "\"" `, ""},
		{"a\n\"b\nc\n", `"a" `, "record on line 2: a quoted field has no closing quote"},
		{"a\n\n\"b\n\"\nc;d\"e\n", `"a" |null |"b\n" `, "record on line 5: field 2 has a quote and does not begin with one"},
		{"\"a\"b;c\n", ``, `record on line 1: field 1 goes on after its closing quote, with "b;c"`},
	} {
		got, err := csvTable(strings.NewReader(c.text))
		if strings.Join(got, "|") != c.want || c.err == "" && err != io.EOF || c.err != "" && !strings.HasPrefix(err.Error(), c.err) {
			t.Errorf("%q: %s, %v; want %s, %s", c.text, strings.Join(got, "|"), err, c.want, c.err)
		}
	}
}

// TestCSVBounds: a quote that is never closed ends at a bound, and errors of the source are
// returned without a prefix.
func TestCSVBounds(t *testing.T) {
	endless := io.MultiReader(strings.NewReader("a\n\"b"), &repeated{"some text\n", maxRecord + 3<<20})
	if got, err := csvTable(endless); len(got) != 1 || err == nil || err.Error() != "record on line 2: a record is longer than 64 MiB; is a quote missing?" {
		t.Errorf("%q, %v", got, err)
	}
	broken := errors.New("broken")
	if got, err := csvTable(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken))); len(got) != 1 || err != broken {
		t.Errorf("%q, %v", got, err)
	}
}

// repeated is a text that repeats until it has left bytes.
type repeated struct {
	text string
	left int
}

// Read implements io.Reader.
func (r *repeated) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, io.EOF
	}
	n := copy(p, r.text)
	r.left -= n
	return n, nil
}

// BenchmarkCSV compares csvReader with encoding/csv on a file without quotes, and on one where
// each field has them.
func BenchmarkCSV(b *testing.B) {
	for name, line := range map[string]string{"plain": "1234;some text;2024-05-01;12.5;x\n", "quoted": `"1234";"some ""text""";"2024-05-01";"12.5";"x"` + "\n"} {
		text := strings.Repeat(line, 100_000)
		b.Run(name+"/own", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				c := newCSVReader(strings.NewReader(text), ';')
				for {
					if _, err := c.read(); err != nil {
						break
					}
				}
			}
		})
		b.Run(name+"/encoding", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				c := csv.NewReader(strings.NewReader(text))
				c.Comma, c.ReuseRecord = ';', true
				for {
					if _, err := c.Read(); err != nil {
						break
					}
				}
			}
		})
	}
}
