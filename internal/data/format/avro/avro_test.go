package avro

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/avro"
	"github.com/twmb/avro/ocf"
	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/data/format"
)

// schema has each type whose text is not simply the value's.
const schema = `{"type": "record", "name": "r", "fields": [
	{"name": "text", "type": ["null", "string"]}, {"name": "raw", "type": "bytes"}, {"name": "n", "type": ["long", "null"]},
	{"name": "x", "type": "double"}, {"name": "f", "type": "float"}, {"name": "yes", "type": "boolean"},
	{"name": "day", "type": {"type": "int", "logicalType": "date"}},
	{"name": "milli", "type": {"type": "long", "logicalType": "timestamp-millis"}},
	{"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
	{"name": "clock", "type": {"type": "long", "logicalType": "time-micros"}},
	{"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 3}},
	{"name": "four", "type": {"type": "fixed", "name": "f4", "size": 4}},
	{"name": "kind", "type": {"type": "enum", "name": "k", "symbols": ["A", "B"]}}]}`

var escaper = strings.NewReplacer("\\", `\\`, "\t", `\t`, "\n", `\n`, "\r", `\r`)

// TestRoundTrip writes random records by the library and reads their lines, wherever the file
// is divided.
func TestRoundTrip(t *testing.T) {
	format.Enable(Format())
	s, err := avro.Parse(schema)
	if err != nil {
		t.Fatal(err)
	}
	texts := rapid.OneOf(rapid.StringN(0, 8, -1), rapid.StringMatching(`[\\"\t\n\r,;N\x00 ]{0,5}`), rapid.SampledFrom([]string{"", `\N`, "\r\n", "\ufeff"}))
	raws := rapid.SliceOfN(rapid.Byte(), 0, 6)
	floats := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), math.MaxFloat64, math.SmallestNonzeroFloat64}))
	millis := rapid.OneOf(rapid.Int64Range(-62135596800000, 253402300799999), rapid.SampledFrom([]int64{0, -1, -999, 1}))
	rapid.Check(t, func(t *rapid.T) {
		var b bytes.Buffer
		var want strings.Builder
		codec := rapid.SampledFrom([]ocf.WriterOpt{ocf.WithCodec(ocf.DeflateCodec(5)), ocf.WithCodec(ocf.SnappyCodec())}).Draw(t, "codec")
		w, err := ocf.NewWriter(&b, s, codec)
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(0, 6).Draw(t, "records") {
			text, n := texts.Draw(t, "text"), rapid.Int64().Draw(t, "n")
			var textOrNull, nOrNull any = text, n
			textField, nField := escaper.Replace(text), strconv.FormatInt(n, 10)
			if rapid.Bool().Draw(t, "null") {
				textOrNull, textField, nOrNull, nField = nil, `\N`, nil, `\N`
			}
			raw, four := raws.Draw(t, "raw"), rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "four")
			x, f := floats.Draw(t, "x"), rapid.Float32().Draw(t, "f")
			day, milli, micro := rapid.Int32Range(-719162, 2932896).Draw(t, "day"), millis.Draw(t, "milli"), millis.Draw(t, "local")*1000+7
			clock, price := rapid.Int64Range(0, 86_399_999_999).Draw(t, "clock"), rapid.Int64().Draw(t, "price")
			kind := rapid.SampledFrom([]string{"A", "B"}).Draw(t, "kind")
			err := w.Encode(map[string]any{
				"text": textOrNull, "raw": raw, "n": nOrNull, "x": x, "f": f, "yes": n > 0,
				"day": time.Unix(int64(day)*86400, 0).UTC(), "milli": time.UnixMilli(milli).UTC(), "local": time.UnixMicro(micro).UTC(),
				"clock": time.Duration(clock) * time.Microsecond, "price": big.NewRat(price, 1000), "four": [4]byte(four), "kind": kind,
			})
			if err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, "flush") {
				if err := w.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			fmt.Fprintln(&want, strings.Join([]string{
				textField, escaper.Replace(string(raw)), nField, strconv.FormatFloat(x, 'g', -1, 64), strconv.FormatFloat(float64(f), 'g', -1, 32), strconv.FormatBool(n > 0),
				time.Unix(int64(day)*86400, 0).UTC().Format(time.DateOnly), time.UnixMilli(milli).UTC().Format("2006-01-02T15:04:05.999Z"),
				time.UnixMicro(micro).UTC().Format("2006-01-02T15:04:05.999999"), time.UnixMicro(clock).UTC().Format("15:04:05.999999"),
				new(big.Rat).SetFrac64(price, 1000).FloatString(3), escaper.Replace(string(four)), kind,
			}, "\t"))
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		file := b.Bytes()
		at := int64(rapid.IntRange(1, len(file)).Draw(t, "at"))
		if got := readParts(t, file, "avro", at); got != want.String() {
			t.Fatalf("%s:\ngot  %q\nwant %q", hex.EncodeToString(file[:4]), got, want.String())
		}
	})
}

// TestBlockCodecBound: a block of 45 bytes that becomes 1 MiB is an error below that bound, and
// is decompressed at it.
func TestBlockCodecBound(t *testing.T) {
	zeros, err := hex.DecodeString("425a683931415926535938571ce50008084000c0040008200030cc0529a60806c4201e2ee48a70a12070ae39ca")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := optional[0].DecompressBounded(zeros, 1<<20-1); err == nil {
		t.Errorf("%d bytes beyond the bound", len(b))
	}
	if b, err := optional[0].DecompressBounded(zeros, 1<<20); err != nil || len(b) != 1<<20 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

// TestInfiniteConditions: conditions compare the infinities of a column of numbers as numbers, in unions, too.
func TestInfiniteConditions(t *testing.T) {
	format.Enable(Format())
	s, err := avro.Parse(`{"type": "record", "name": "r", "fields": [
		{"name": "id", "type": "int"}, {"name": "x", "type": ["null", "double"]}, {"name": "f", "type": "float"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w, err := ocf.NewWriter(&b, s)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range []float64{1, math.Inf(1), math.Inf(-1), math.NaN(), -2} {
		if err := w.Encode(map[string]any{"id": int32(i), "x": x, "f": float32(x)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for where, want := range map[string]string{"<1": "24", ">=1": "01", "=inf": "1", "!=Infinity": "0234", "<=-inf": "2", "<Infinity": "024", "!=1": "1234"} {
		for _, column := range []string{"x", "f"} {
			spec, err := format.Parse("avro,where=" + column + where + ",columns=id")
			if err != nil {
				t.Fatal(err)
			}
			r, err := format.Open(&format.Source{File: bytes.NewReader(b.Bytes()), Size: int64(b.Len()), To: int64(b.Len())}, spec)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(r); err != nil || strings.ReplaceAll(string(got), "\n", "") != want {
				t.Errorf("%s%s: records %q, want %s (%v)", column, where, got, want, err)
			}
		}
	}
}
