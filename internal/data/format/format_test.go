package format

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
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
		"json,bad=skip": "json,bad=skip", "csv,bad=skip,lines=single": "csv,lines=single,bad=skip",
		"csv,separator=tab": "csv,separator=tab", "parquet,as=json,columns=a,b c": "parquet,as=json,columns=a,b c",
		",columns=a": "auto,columns=a", "auto,as=json": "auto,as=json", "sequence,as=raw": "sequence,as=raw", "sequence,as=bytes": "sequence,as=bytes",
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
		"xml": "want auto", "parquet,header=no": "an option of csv", "auto,bad=skip": "an option of csv and json", "csv,bad=null": "unknown option", "csv,separator=ab": "unknown option", "csv,columns=": "empty name",
		"csv,columns=a,a": "named twice", "text,columns=a": "format text has no columns", "csv,separator=\"": "unknown option", "json,x": "unknown option", "csv,as=typed": "unknown option",
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

// Keys and values are the fields that the streaming of Hadoop 3.4.2 gave to cat as a mapper: with stream.map.input=typedbytes
// and SequenceFileInputFormat, and as text with AutoInputFormat. Random bytes are no lines that cat's output shows.
func TestStreamedSequences(t *testing.T) {
	for name, want := range map[string][2]string{ // SHA-256 of the mapper's input
		"bytes":  {"6e9956278ed4a7a05236a2bdf5a38bc9f3c2f25b0b7bb7e43e04ceb4648a8eed", ""},
		"small":  {"3f95526d740b289eb285121d04327136ab1a8a136ab844f125ab4fc6e7904de4", "ba67c9c8866337738978f2dc797b98a9a34398d17c8176fc44aef47d52a28766"},
		"vint":   {"4a3649284e173914c855d19b3ad3cb2bec71ab487645569ce33ee85e8a4cc53e", "9bc3dd59ab263701dfe2595b807f78ad1206de4a2b84af223a12d532c5d06cba"},
		"record": {"c1d9f48a78ac0a3216227f9777ebf6eb67d4b8f8f2e5249a898af4f4b8c7e254", "e160d0bb8fbb237fe685753fb30ecd177ef9df9aacab437dfe6cf856791bd35e"},
	} {
		for i, spec := range []string{"sequence,as=typed", "sequence,as=bytes"} {
			var out []byte
			for _, line := range bytes.SplitAfter(readSequence(t, filepath.Join("testdata", name+".seq"), spec), []byte("\n")) {
				key, value, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte("\t"))
				if out = AppendUnescaped(out, key); i == 1 && len(line) > 0 {
					out = append(out, '\t')
				}
				if out = AppendUnescaped(out, value); i == 1 && len(line) > 0 {
					out = append(out, '\n')
				}
			}
			if got := fmt.Sprintf("%x", sha256.Sum256(out)); got != want[i] && want[i] != "" {
				t.Errorf("%s, %s: %s", name, spec, got)
			}
		}
	}
}

// readSequence returns the lines of a SequenceFile.
func readSequence(t *testing.T, name, text string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	s, err2 := Parse(text)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	r, err := Open(&Source{File: bytes.NewReader(b), Size: int64(len(b)), To: int64(len(b)), Decompress: decompress}, s)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return lines
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
