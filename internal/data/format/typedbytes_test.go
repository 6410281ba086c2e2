package format

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
)

// typedText returns the typed bytes of a string.
func typedText(s string) string { return string(AppendTypedString(nil, []byte(s))) }

// TestTypedText compares with the toString of Hadoop 3.4.2's TypedBytesWritable. Java before version 19
// prints some floating-point numbers with more digits than they need, and this program never does.
func TestTypedText(t *testing.T) {
	for in, want := range map[string]string{
		"\x00\x00\x00\x00\x03\x00a\xff":                 "0061ff",
		"\x32\x00\x00\x00\x01\x10":                      "10",
		"\x01\x80":                                      "-128",
		"\x02\x00":                                      "false",
		"\x02\x07":                                      "true",
		"\x03\xff\xff\xff\xfe":                          "-2",
		"\x04\x00\x00\x00\x01\x00\x00\x00\x00":          "4294967296",
		"\x05\x3f\x80\x00\x00":                          "1.0",
		"\x05\x3d\xcc\xcc\xcd":                          "0.1",
		"\x06\x80\x00\x00\x00\x00\x00\x00\x00":          "-0.0",
		"\x06\x7f\xf0\x00\x00\x00\x00\x00\x00":          "Infinity",
		"\x06\x41\x63\x12\xd0\x00\x00\x00\x00":          "1.0E7",
		typedText("é\n"):                                "é\n",
		"\x07\x00\x00\x00\x04a\xe2\x82b":                "a\ufffdb",
		"\x07\x00\x00\x00\x05\xff\xfe\xed\xa0\x80":      "\ufffd\ufffd\ufffd",
		"\x08\x00\x00\x00\x00":                          "[]",
		"\x08\x00\x00\x00\x02\x01\x01" + typedText("b"): "[1, b]",
		"\x09\xff":                                      "[]",
		"\x09\x01\x01\x09\x01\x02\xff\xff":              "[1, [2]]",
		"\x0a\x00\x00\x00\x03" + typedText("b") + "\x01\x01" + typedText("a") + "\x01\x02" + typedText("b") + "\x01\x03": "{a=2, b=3}",
		"\x0a\x00\x00\x00\x02\x01\x05\x01\x01\x01\xfb\x01\x02":                                                           "{-5=2, 5=1}",
	} {
		got, err := AppendTypedText([]byte("|"), []byte(in))
		if err != nil || string(got) != "|"+want {
			t.Errorf("%q: %q, %v, want %q", in, got, err, want)
		}
	}
	for _, in := range []string{
		"\x0a\x00\x00\x00\x02\x01\x05\x01\x01" + typedText("a") + "\x01\x02", // keys of two types
		"\x0a\x00\x00\x00\x01\x09\xff\x01\x01",                               // a list as a key
	} {
		if got, err := AppendTypedText(nil, []byte(in)); err == nil || !strings.Contains(err.Error(), "write a list of pairs") {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
}

// TestTypedReader divides the same records wherever reads of the output end.
func TestTypedReader(t *testing.T) {
	records := []string{typedText("k"), "\x04\x00\x00\x00\x00\x00\x00\x00\x07", "\x09" + typedText("x") + "\x08\x00\x00\x00\x02\x01\x01\x0a\x00\x00\x00\x01\x02\x01\x09\xff\xff", "\x08\x00\x00\x00\x00", "\x01\x05", "\x00\x00\x00\x00\x02\xff\xff"}
	whole := strings.Join(records, "")
	for size := 1; size <= len(whole); size++ {
		var r TypedReader
		var got []string
		for at := 0; at < len(whole); at += size {
			err := r.Feed([]byte(whole[at:min(at+size, len(whole))]), func(key, value []byte) error {
				got = append(got, string(key), string(value))
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := r.End(); err != nil || strings.Join(got, "|") != strings.Join(records, "|") {
			t.Fatalf("by %d: %q, %v", size, got, err)
		}
	}
	stop := errors.New("stop")
	if err := new(TypedReader).Feed([]byte(whole), func(_, _ []byte) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
}

// TestTypedGarbage: output that is no typed bytes is an error with its place, and needs no memory.
func TestTypedGarbage(t *testing.T) {
	for in, want := range map[string]string{
		"hello\n": "a record of more than 268435456 bytes at byte 0; a command that prints lines needs", "1\t2\n": "the unknown type byte 49 at byte 0",
		typedText("a") + "\x0b":                      "the unknown type byte 11 at byte 6",
		"\x07\x7f\xff\xff\xff":                       "a record of more than 268435456 bytes at byte 0",
		"\x07\xff\xff\xff\xff":                       "the length -1 at byte 0",
		"\xff":                                       "the end of a list (type byte 255) outside of a list",
		"\x08\x00\x00\x00\x01\xff":                   "the end of a list",
		"\x09\x08\x00\x00\x00\x01\xff":               "the end of a list",
		strings.Repeat("\x09", 101):                  "deeper than 100",
		typedText("a"):                               "ends with a key without a value, at byte 6",
		typedText("a") + "\x03\x00":                  "ends inside a record of typed bytes, which begins at byte 0",
		typedText("a") + typedText("b") + "\x07\x00": "begins at byte 12",
		"\x08\x7f\xff\xff\xff" + typedText("abc"):    "ends inside a record",
	} {
		var r TypedReader
		err := r.Feed([]byte(in), func(_, _ []byte) error { return nil })
		if err == nil {
			err = r.End()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
}

// FuzzTypedReader checks that all records are found whichever way the output is divided, that
// together they are the output, and that each has a text or an error.
func FuzzTypedReader(f *testing.F) {
	f.Add([]byte(typedText("k")+typedText("v")), 3)
	f.Add([]byte("\x09\x01\x01\xff\x0a\x00\x00\x00\x01\x01\x01\x02\x01"), 1)
	f.Add([]byte("\x08\x00\x00\x00\x02\x06\x00\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00\x01\x01"), 7)
	f.Fuzz(func(t *testing.T, in []byte, cut int) {
		read := func(parts ...[]byte) (out []byte, err error) {
			var r TypedReader
			for _, p := range parts {
				err = r.Feed(p, func(key, value []byte) error {
					out = append(append(out, key...), value...)
					for _, b := range [][]byte{key, value} {
						if _, err := AppendTypedText(nil, b); err != nil && !strings.Contains(err.Error(), "map of typed bytes") {
							t.Fatalf("%q: %v", b, err)
						}
					}
					return nil
				})
				if err != nil {
					return out, err
				}
			}
			return out, r.End()
		}
		cut = int(uint(cut) % uint(len(in)+1))
		one, err := read(in)
		two, err2 := read(in[:cut], in[cut:])
		if !bytes.Equal(one, two) || (err == nil) != (err2 == nil) || err == nil && !bytes.Equal(one, in) {
			t.Errorf("%q at %d: %q, %v; %q, %v", in, cut, one, err, two, err2)
		}
		// Bytes that are no typed value are an error and no panic.
		_, _ = AppendTypedText(nil, in)
	})
}

// TestJavaFloatOrder is the order of Java's Double.compareTo.
func TestJavaFloatOrder(t *testing.T) {
	order := []float64{math.Inf(-1), -1, math.Copysign(0, -1), 0, 1, math.Inf(1), math.NaN()}
	for i, x := range order {
		for j, y := range order {
			if got := compareJava(x, y); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%v and %v: %d", x, y, got)
			}
		}
	}
}
