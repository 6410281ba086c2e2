package format

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zlib"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "auto": "", "text": "text", "csv": "csv", "csv,header=no,separator=;,lines=single": "csv,header=no,lines=single,separator=;",
		"csv,separator=tab": "csv,separator=tab", "parquet,as=json,columns=a,b c": "parquet,as=json,columns=a,b c",
		",columns=a": "auto,columns=a", "auto,as=json": "auto,as=json", "sequence,as=raw": "sequence,as=raw",
	} {
		s, err := Parse(text)
		if err != nil || s.String() != want {
			t.Errorf("%q: %v, %v", text, s, err)
			continue
		}
		if again, err := Parse(s.String()); err != nil || again.String() != want {
			t.Errorf("%q again: %v, %v", want, again, err)
		}
	}
	for text, want := range map[string]string{
		"xml": "want auto", "parquet,header=no": "an option of csv", "csv,separator=ab": "unknown option", "csv,columns=": "empty name",
		"csv,columns=a,a": "named twice", "text,columns=a": "format text has no columns", "csv,separator=\"": "unknown option", "json,x": "unknown option",
	} {
		if s, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, want %q", text, s, err, want)
		}
	}
}

// decompress knows deflate, as the fuzz test needs it.
func decompress(codec string, r io.Reader) (io.ReadCloser, error) {
	if codec != "deflate" {
		return nil, errors.New("no codec " + codec)
	}
	return zlib.NewReader(r)
}

// FuzzSequence: no file makes the reader of SequenceFiles panic, read forever or
// allocate what a length states, and a source that ends earlier has the first records.
func FuzzSequence(f *testing.F) {
	paths, err := filepath.Glob(filepath.Join("testdata", "*.seq"))
	if err != nil {
		f.Fatal(err)
	}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[:min(len(b), 4096)], 500)
	}
	f.Fuzz(func(t *testing.T, data []byte, border int) {
		size := int64(len(data))
		at := min(max(0, int64(border)), size)
		whole, err := sequenceLines(data, 0, size)
		first, firstErr := sequenceLines(data, 0, at)
		if err == nil && (firstErr != nil || !bytes.HasPrefix(whole, first)) {
			t.Fatalf("the part before %d has other records: %v", at, firstErr)
		}
		_, _ = sequenceLines(data, at, size)
	})
}

func sequenceLines(data []byte, from, to int64) ([]byte, error) {
	s, err := Parse("sequence")
	if err != nil {
		return nil, err
	}
	r, err := openSequence(&Source{File: bytes.NewReader(data), Size: int64(len(data)), From: from, To: to, Decompress: decompress}, s)
	if err != nil {
		return nil, err
	}
	var out []byte
	for {
		if out, err = r.Next(out); err == io.EOF {
			return out, nil
		} else if err != nil {
			return nil, err
		}
	}
}

func TestJavaFloat(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0.0", 1: "1.0", -2.5: "-2.5", 1e7: "1.0E7", 9999999: "9999999.0", 0.001: "0.001", 0.0001: "1.0E-4", 1.5e-10: "1.5E-10", 1e300: "1.0E300",
	} {
		if got := JavaFloat(f, 64); got != want {
			t.Errorf("%v: %s, want %s", f, got, want)
		}
	}
}
