package format_test

import (
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"hash/adler32"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/base/retry"
	"github.com/slotwise/slotwise/internal/data/compression"
	"github.com/slotwise/slotwise/internal/data/compression/codecs"
	"github.com/slotwise/slotwise/internal/data/format"
	"github.com/slotwise/slotwise/internal/data/format/avro"
	"github.com/slotwise/slotwise/internal/data/format/parquet"
)

func init() {
	compression.Enable(codecs.All()...)
	format.Enable(parquet.Format(), avro.Format())
}

// output parses an output format.
func output(t fataler, text string) *format.Output {
	o, err := format.ParseOutput(text)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// write returns a file with the records, each a key and a value.
func write(o *format.Output, codec string, records [][2][]byte) ([]byte, error) {
	var file bytes.Buffer
	w, err := format.NewWriter(&file, o, codec)
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		if err := w.Write(r[0], r[1]); err != nil {
			return nil, err
		}
	}
	err = w.Close()
	return file.Bytes(), err
}

// decompress implements format.Source.Decompress.
func decompress(codec string, r io.Reader) (io.ReadCloser, error) {
	switch codec {
	case "gzip":
		return gzip.NewReader(r)
	}
	c, err := compression.Get(map[string]compression.ID{"zstd": compression.Zstd, "snappy": compression.Snappy, "deflate": compression.Deflate}[codec])
	if err != nil {
		return nil, err
	}
	return c.NewReader(r)
}

// lines returns the lines of a file, as mappers read them, in two parts that are divided at
// an offset.
func lines(t fataler, file []byte, spec string, at int64) string {
	s, err := format.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
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
			t.Fatal(err)
		}
	}
	return all.String()
}

type fataler interface {
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// TestOutputRoundTrip writes lines in each format and codec with one to four columns, and reads
// them: the lines are the same, whatever bytes the fields have and wherever the file is divided.
func TestOutputRoundTrip(t *testing.T) {
	field := rapid.OneOf(rapid.StringN(0, 8, -1), rapid.StringMatching(`[\\"\t\n\r,;N ]{0,4}`), rapid.Just("\ufeffmark"), rapid.Just(strings.Repeat("long ", 3000)))
	for _, c := range []struct{ format, codec, read string }{
		{"csv", "", "csv"}, {"csv,separator=;,header=no", "", "csv,separator=;,header=no"},
		{"json", "", "json"},
		{"parquet", "none", "parquet"}, {"parquet", "zstd", "parquet"}, {"parquet", "gzip", "parquet"},
		{"parquet", "snappy", "parquet"},
		{"avro", "none", "avro"}, {"avro", "deflate", "avro"}, {"avro", "zstd", "avro"}, {"avro", "snappy", "avro"},
		{"sequence", "none", "sequence"}, {"sequence", "gzip", "sequence"}, {"sequence", "deflate", "sequence"}, {"sequence", "zstd", "sequence"},
		{"sequence", "snappy", "sequence"},
	} {
		t.Run(c.format+"+"+c.codec, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				var records [][2][]byte
				var want strings.Builder
				columns := []string{"b", "d", "a", "c"}[:rapid.IntRange(1, 4).Draw(t, "columns")]
				for range rapid.IntRange(0, 12).Draw(t, "records") {
					if c.format == "sequence" {
						key, value := []byte(field.Draw(t, "key")), []byte(field.Draw(t, "value"))
						records = append(records, [2][]byte{key, format.AppendEscaped([]byte{}, value)})
						want.WriteString(string(format.AppendEscaped(nil, key)) + "\t" + string(format.AppendEscaped(nil, format.AppendEscaped(nil, value))) + "\n")
						continue
					}
					line := []byte{} // nil would be no line
					for i := range columns {
						if i > 0 {
							line = append(line, '\t')
						}
						if rapid.IntRange(0, 4).Draw(t, "null") == 0 {
							line = append(line, `\N`...)
						} else {
							line = format.AppendEscaped(line, []byte(field.Draw(t, "field")))
						}
					}
					record := [2][]byte{line, nil}
					if rapid.Bool().Draw(t, "as value") {
						record = [2][]byte{nil, line}
					}
					records = append(records, record)
					want.WriteString(string(line) + "\n")
				}
				spec, read := c.format, c.read
				if c.format != "sequence" {
					spec += ",columns=" + strings.Join(columns, ",")
				}
				if c.format == "json" {
					read += ",columns=" + strings.Join(columns, ",")
				}
				file, err := write(output(t, spec), c.codec, records)
				if err != nil {
					t.Fatal(err)
				}
				at := int64(rapid.IntRange(1, max(1, len(file))).Draw(t, "at"))
				got := lines(t, file, read, at)
				if got != want.String() {
					t.Fatalf("got %.300q, want %.300q", got, want.String())
				}
			})
		})
	}
}

// TestOutputGroups writes more than one row group, block and sync marker.
func TestOutputGroups(t *testing.T) {
	var records [][2][]byte
	var want strings.Builder
	for i := range 300_000 {
		records = append(records, [2][]byte{fmt.Appendf(nil, "key of some length, which %0100d makes long", i), strconv.AppendInt(nil, int64(i)*7919, 10)})
		fmt.Fprintf(&want, "key of some length, which %0100d makes long\t%d\n", i, i*7919)
	}
	for _, c := range []struct{ format, codec, read string }{
		{"parquet,columns=word,n:int", "none", "parquet"}, {"avro,columns=word,n:int", "deflate", "avro"}, {"sequence", "none", "sequence"}, {"sequence", "deflate", "sequence"},
	} {
		file, err := write(output(t, c.format), c.codec, records)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []int64{1, int64(len(file)) / 2, int64(len(file))} {
			if got := lines(t, file, c.read, at); got != want.String() {
				t.Errorf("%s with %s, divided at %d: %d bytes, want %d", c.format, c.codec, at, len(got), want.Len())
			}
		}
	}
}

// TestBlockChecksum: a changed checksum at the end of any compressed part of a block is an
// error, and every decompressor is closed.
func TestBlockChecksum(t *testing.T) {
	file, err := write(output(t, "sequence"), "deflate", [][2][]byte{{[]byte("key"), []byte("value")}, {[]byte("key 2"), []byte("value 2")}})
	if err != nil {
		t.Fatal(err)
	}
	spec, err := format.Parse("sequence")
	if err != nil {
		t.Fatal(err)
	}
	var ends []int // offsets behind the parts, by the Adler-32 of their contents
	for _, part := range []string{"\x04\x06", "\x03key\x05key 2", "\x06\x08", "\x05value\x07value 2"} {
		sum := binary.BigEndian.AppendUint32(nil, adler32.Checksum([]byte(part)))
		i := bytes.Index(file, sum)
		if i < 0 {
			t.Fatalf("no part %q", part)
		}
		ends = append(ends, i+len(sum))
	}
	for _, end := range append(ends, 0) {
		data := bytes.Clone(file)
		if end > 0 {
			data[end-1] ^= 1
		}
		opened := 0
		src := &format.Source{File: bytes.NewReader(data), Size: int64(len(data)), To: int64(len(data)), Decompress: func(codec string, r io.Reader) (io.ReadCloser, error) {
			d, err := decompress(codec, r)
			opened++
			return &closeCounter{d, &opened}, err
		}}
		r, err := format.Open(src, spec)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if (err != nil) != (end > 0) {
			t.Errorf("checksum before byte %d changed: %q, %v", end, text, err)
		}
		if err := r.Close(); err != nil && end == 0 { // a decompressor may repeat its error
			t.Error(err)
		}
		if opened != 0 {
			t.Errorf("checksum before byte %d changed: %d decompressors are not closed", end, opened)
		}
	}
}

// closeCounter counts a decompressor that is closed.
type closeCounter struct {
	io.ReadCloser
	open *int
}

// Close implements io.Closer.
func (c *closeCounter) Close() error {
	*c.open--
	return c.ReadCloser.Close()
}

// TestOutputFields checks how records become fields and types, by the libraries of Go.
func TestOutputFields(t *testing.T) {
	const typed = "columns=s,b:bytes,i:int,f:float,t:bool"
	for _, c := range []struct {
		format, key, value string
		onlyKey            bool
		want               string // the row as JSON
	}{
		{format: "json", key: `a\n`, value: "b\tc", want: `{"key":"a\\n","value":"b\tc"}`},
		{format: "json", key: "a\tb\tc", onlyKey: true, want: `{"key":"a","value":"b\tc"}`},
		{format: "json", key: "a", onlyKey: true, want: `{"key":"a","value":null}`},
		{format: "json,columns=x:y:int", key: "7", onlyKey: true, want: `{"x:y":7}`},
		{format: "json,columns=word,n:int", key: `\N`, value: "-3", want: `{"word":"\\N","n":-3}`},
		{format: "json,columns=word,n:int", key: "\\N\t\\N", onlyKey: true, want: `{"word":null,"n":null}`},
		{format: "json,escapes=no,columns=word,w2", key: "\\N\ta\\nb", onlyKey: true, want: `{"word":"\\N","w2":"a\\nb"}`},
		{format: "json,columns=k,a,b", key: `\N`, value: "1\\t2\t\\N", want: `{"k":"\\N","a":"1\t2","b":null}`},
		{format: "json," + typed, key: "x\ty\t9223372036854775807\t1e3\ttrue", onlyKey: true, want: `{"s":"x","b":"eQ==","i":9223372036854775807,"f":1000,"t":true}`},
		{format: "json,columns=p:bool,e:bool", key: "True\tFALSE", onlyKey: true, want: `{"p":true,"e":false}`},
		{format: "json," + typed, key: "\t\t\t\t", onlyKey: true, want: `{"s":"","b":"","i":null,"f":null,"t":null}`},
	} {
		value := []byte(c.value)
		if c.onlyKey {
			value = nil
		}
		got, err := write(output(t, c.format), "", [][2][]byte{{[]byte(c.key), value}})
		if err != nil || string(got) != c.want+"\n" || !json.Valid(got) {
			t.Errorf("%s of %q, %q: got %s, want %s (%v)", c.format, c.key, value, got, c.want, err)
		}
	}
	got, err := write(output(t, "csv,columns=a,b:int"), "", [][2][]byte{{[]byte("x, \"y\"\nz"), []byte("5")}, {[]byte("\\N\t"), nil}})
	rows, rerr := csv.NewReader(bytes.NewReader(got)).ReadAll()
	if err != nil || rerr != nil || fmt.Sprintf("%q", rows) != `[["a" "b"] ["x, \"y\"\nz" "5"] ["" ""]]` {
		t.Errorf("csv: %q, %v, %v", rows, err, rerr)
	}
}

// TestOutputErrors: a record that does not fit the columns is an error of the program that
// names the record and the column.
func TestOutputErrors(t *testing.T) {
	for _, c := range []struct{ format, key, want string }{
		{"parquet,columns=a,b:int", "x\ty", `output record 1: column b: "y" is no integer`},
		{"parquet,columns=a,b:float", "x\ty", `is no number`},
		{"csv,columns=a,b:bool", "x\ty", `neither true nor false`},
		{"csv,columns=a,b", "x", `"x" has 1 field, and the format has 2 columns`},
		{"parquet,columns=a,b", "x\t\xff", `declare the column as columns=b:bytes`},
	} {
		_, err := write(output(t, c.format), "none", [][2][]byte{{[]byte(c.key), nil}})
		var record *format.RecordError
		if err == nil || !errors.As(err, &record) || !strings.Contains(err.Error(), c.want) || !errors.Is(err, retry.ErrPermanent) {
			t.Errorf("%s: got %v, want %s", c.format, err, c.want)
		}
	}
}

// TestParseOutput: String returns the text that ParseOutput has parsed, and errors name the
// option.
func TestParseOutput(t *testing.T) {
	for _, text := range []string{
		"avro", "csv", "csv,header=no,separator=tab", "json,escapes=no,columns=a,b:int", "parquet,columns=a:b:string,c:bytes", "sequence",
	} {
		if o := output(t, text); o.String() != text {
			t.Errorf("%s became %s", text, o)
		}
	}
	if o := output(t, "text"); o != nil || o.String() != "" {
		t.Errorf("text: %v", o)
	}
	for text, want := range map[string]string{
		"orc": "want text, csv", "json,header=no": "an option of csv", "csv,separator=ab": "one character", "csv,columns=a,a": "named twice",
		"csv,columns=": "no usable name", "csv,columns=a:date": "unknown type", "sequence,columns=a,b": "key and value", "text,columns=a": "text has no options",
		"csv,lines=single": "unknown option", "csv,columns=a\tb": "no usable name", ",columns=a": "text has no options",
	} {
		if o, err := format.ParseOutput(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v, want %q", text, o, err, want)
		}
	}
	if err := output(t, "parquet").CheckCodec("deflate"); err == nil || !strings.Contains(err.Error(), "one of none, gzip, zstd") {
		t.Errorf("deflate: %v", err)
	}
}
