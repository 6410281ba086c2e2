package parquet

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	types "github.com/parquet-go/parquet-go/format"
	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/data/format"
)

// lines returns the lines of a file.
func lines(file []byte, spec string) (string, error) {
	format.Enable(Format())
	s, err := format.Parse(spec)
	if err != nil {
		return "", err
	}
	r, err := format.Open(&format.Source{File: bytes.NewReader(file), Size: int64(len(file)), To: int64(len(file))}, s)
	if err != nil {
		return "", err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	return string(b), err
}

// footer returns the metadata of a file, and the offset where they begin.
func footer(t testing.TB, file []byte) (*types.FileMetaData, int) {
	t.Helper()
	at := len(file) - 8 - int(binary.LittleEndian.Uint32(file[len(file)-8:]))
	var meta types.FileMetaData
	if err := thrift.Unmarshal(new(thrift.CompactProtocol), file[at:len(file)-8], &meta); err != nil {
		t.Fatal(err)
	}
	return &meta, at
}

// withFooter returns a file with a body and metadata.
func withFooter(t testing.TB, body []byte, meta *types.FileMetaData) []byte {
	t.Helper()
	b, err := thrift.Marshal(new(thrift.CompactProtocol), *meta)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(body, b, binary.LittleEndian.AppendUint32(nil, uint32(len(b))), []byte(magic))
}

// row is a row of the tests' files. N has no levels, S has, and L is nested. R does not compress.
type row struct {
	N int64    `parquet:"n"`
	R int64    `parquet:"r,plain"`
	S *string  `parquet:"s,optional,dict"`
	L []string `parquet:"l,list"`
}

// tableOf returns a file of n rows, and its lines.
func tableOf(t testing.TB, n int, codec compress.Codec, version int) (file []byte, want string) {
	t.Helper()
	var b bytes.Buffer
	var text strings.Builder
	w := parquet.NewGenericWriter[row](&b, parquet.Compression(codec), parquet.DataPageVersion(version), parquet.PageBufferSize(4000), parquet.MaxRowsPerRowGroup(int64(n/3+1)))
	rnd := rand.New(rand.NewPCG(1, uint64(version)))
	for i := range n {
		x := row{N: int64(i), R: rnd.Int64(), L: make([]string, i%3)}
		s := fmt.Sprintf("text %d", i%50)
		null := `\N`
		if i%7 > 0 {
			x.S, null = &s, s
		}
		for j := range x.L {
			x.L[j] = strconv.Itoa(j)
		}
		list, err := json.Marshal(x.L)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "%d\t%d\t%s\t%s\n", x.N, x.R, null, list)
		if _, err := w.Write([]row{x}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), text.String()
}

// codecsOfPages are the codecs that are read.
var codecsOfPages = map[string]compress.Codec{
	"none": &parquet.Uncompressed, "snappy": &parquet.Snappy, "gzip": &parquet.Gzip, "brotli": &parquet.Brotli, "zstd": &parquet.Zstd, "lz4": &parquet.Lz4Raw,
}

// TestCodecs reads files of each codec and version of pages, whose pages compress well or not at
// all, with levels and without. The library alone reads zeros from some pages of LZ4_RAW.
func TestCodecs(t *testing.T) {
	for name, codec := range codecsOfPages {
		for _, version := range []int{1, 2} {
			file, want := tableOf(t, 20_000, codec, version)
			got, err := lines(file, "parquet")
			if err != nil || got != want {
				t.Errorf("%s, pages of version %d: %d bytes instead of %d, error %v", name, version, len(got), len(want), err)
			}
			got, err = lines(file, "parquet,columns=r")
			if err != nil || strings.Count(got, "\n") != 20_000 || strings.SplitN(want, "\t", 3)[1] != strings.SplitN(got, "\n", 2)[0] {
				t.Errorf("%s, pages of version %d, one column: %.100q, error %v", name, version, got, err)
			}
		}
	}
}

// TestMixedCodecs joins the row groups of two files with different codecs. The library alone
// decompresses both with the codec of the first.
func TestMixedCodecs(t *testing.T) {
	for _, version := range []int{1, 2} {
		for _, pair := range [][2]string{{"none", "snappy"}, {"snappy", "none"}, {"gzip", "zstd"}, {"zstd", "lz4"}, {"lz4", "brotli"}} {
			one, want := tableOf(t, 900, codecsOfPages[pair[0]], version)
			two, _ := tableOf(t, 900, codecsOfPages[pair[1]], version)
			meta, end := footer(t, one)
			more, moreEnd := footer(t, two)
			for _, g := range more.RowGroups {
				g.Ordinal = int16(len(meta.RowGroups))
				for i := range g.Columns {
					m := &g.Columns[i].MetaData
					if m.DataPageOffset += int64(end); m.DictionaryPageOffset > 0 {
						m.DictionaryPageOffset += int64(end)
					}
				}
				meta.RowGroups = append(meta.RowGroups, g)
			}
			meta.NumRows += more.NumRows
			got, err := lines(withFooter(t, slices.Concat(one[:end], two[:moreEnd]), meta), "parquet")
			if err != nil || got != want+want {
				t.Errorf("%v, pages of version %d: %d bytes instead of %d, error %v", pair, version, len(got), 2*len(want), err)
			}
		}
	}
}

// TestRefusedChunks: chunks that cannot be read are an error when the file is opened, unless
// their column is not wanted.
func TestRefusedChunks(t *testing.T) {
	file, _ := tableOf(t, 900, &parquet.Snappy, 1)
	for want, change := range map[string]func(*types.ColumnChunk){
		"row group 1, column s: its codec LZ4 is not supported":       func(c *types.ColumnChunk) { c.MetaData.Codec = types.Lz4 },
		"row group 1, column s: its codec LZO is not supported":       func(c *types.ColumnChunk) { c.MetaData.Codec = types.LZO },
		`row group 1, column s: its data are in another file, "part"`: func(c *types.ColumnChunk) { c.FilePath = "part" },
		"row group 1, column s: it is encrypted": func(c *types.ColumnChunk) {
			c.CryptoMetadata.Value = &types.EncryptionWithFooterKey{}
		},
	} {
		meta, end := footer(t, file)
		change(&meta.RowGroups[1].Columns[2])
		changed := withFooter(t, file[:end], meta)
		if got, err := lines(changed, "parquet"); got != "" || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %d bytes, %v; want %s", len(got), err, want)
		}
		if got, err := lines(changed, "parquet,columns=n,l"); err != nil || strings.Count(got, "\n") != 900 {
			t.Errorf("other columns: %d bytes, %v", len(got), err)
		}
	}
}

// TestTornPages changes bytes of LZ4_RAW files: the result is an error or rows, and no panic. A
// size that a header states is not reserved before the data have shown that it may be true.
func TestTornPages(t *testing.T) {
	file, _ := tableOf(t, 900, &parquet.Lz4Raw, 2)
	_, end := footer(t, file)
	rnd := rand.New(rand.NewPCG(1, 2))
	failed := 0
	for range 500 {
		data := bytes.Clone(file)
		data[4+rnd.IntN(end-4)] ^= byte(1 + rnd.IntN(255))
		if _, err := lines(data, "parquet"); err != nil {
			failed++
		}
	}
	if failed < 100 {
		t.Errorf("%d of 500 torn files are errors", failed)
	}
	c := &chunk{meta: &types.ColumnMetaData{Codec: types.Lz4Raw}}
	if _, err := c.decompress(nil, make([]byte, 100), math.MaxInt32); err == nil || !strings.Contains(err.Error(), "100 bytes cannot become 2147483647") {
		t.Errorf("a page of 100 bytes that states 2 GiB: %v", err)
	}
}

// TestTimeConditions compares conditions on dates and times with the records that they choose by hand. Each
// row group has one record, so a wrong order of bounds would lose records.
func TestTimeConditions(t *testing.T) {
	type record struct {
		ID   int32    `parquet:"id"`
		Day  int32    `parquet:"day,date"`
		At   int64    `parquet:"at,timestamp(microsecond)"`
		Open int64    `parquet:"open,time(microsecond)"`
		F    float64  `parquet:"f"`
		U    [16]byte `parquet:"u,uuid"`
	}
	at := time.Date(2024, 1, 1, 6, 0, 0, 0, time.UTC).UnixMicro()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[record](&b, parquet.MaxRowsPerRowGroup(1))
	for i, day := range []int32{19723, 19726, 19727, 2932897, -719529, 3_000_000} { // 2024-01-01, 04, 05, 10000-01-01, -0001-12-31, 10183
		f := []float64{1, math.Inf(1), math.Inf(-1), math.NaN(), 0, -2}[i]
		r := record{int32(i), day, at + int64(i)*int64(time.Hour/time.Microsecond), int64(8+i) * int64(time.Hour/time.Microsecond), f, [16]byte{15: byte(i)}}
		if _, err := w.Write([]record{r}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for where, want := range map[string]string{
		"day>=2024-1-5": "235", "day>=2024-01-01": "01235", "day<2024-01-01": "4", "day='2024-01-04'": "1", "day!=10000-01-01": "01245",
		"day<=2024-01-04T00:00+00:00":   "014",
		"at>=2024-01-01T10:00:00+02:00": "2345", "at=2024-01-01T08:00:00+00:00": "2", "at>2024-01-01T08:00Z": "345", "at<2024-01-01 08": "01",
		"open=10:00": "2", "open>9:30:00.5": "2345", "f=Infinity": "1", "f>0": "01", "f<=-inf": "2", "f<Infinity": "0245", "f!=inf": "02345",
		"u=00000000-0000-0000-0000-000000000003": "3",
	} {
		got, err := lines(b.Bytes(), "parquet,where="+where+",columns=id")
		if got = strings.ReplaceAll(got, "\n", ""); err != nil || got != want {
			t.Errorf("%s: records %s, want %s (%v)", where, got, want, err)
		}
	}
	for _, where := range []string{"day=yesterday", "day=20240105", "day=10:00", "at=2024-02-30", "open=2024-01-01", "open=10"} {
		if _, err := lines(b.Bytes(), "parquet,where="+where); err == nil || !strings.Contains(err.Error(), "the condition "+where[:3]) {
			t.Errorf("%s: %v", where, err)
		}
	}
}

// TestHalf compares all numbers of 16 bits with their definition, in a column and in a list.
func TestHalf(t *testing.T) {
	type halves struct {
		H [2]byte   `parquet:"h"`
		L [][2]byte `parquet:"l,list"`
	}
	var b bytes.Buffer
	w := parquet.NewGenericWriter[halves](&b)
	for i := range 1 << 16 {
		bits := [2]byte{byte(i), byte(i >> 8)}
		if _, err := w.Write([]halves{{bits, [][2]byte{bits}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	meta, end := footer(t, b.Bytes())
	for i := range meta.Schema {
		if meta.Schema[i].Type.Valid {
			meta.Schema[i].LogicalType.Value = &types.Float16Type{}
		}
	}
	text, err := lines(withFooter(t, b.Bytes()[:end], meta), "parquet")
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for line := range strings.Lines(text) {
		sign, exponent, fraction := 1-2*float64(i>>15), i>>10&31, float64(i&1023)/1024
		want := sign * math.Exp2(float64(exponent-15)) * (1 + fraction)
		switch {
		case exponent == 0:
			want = sign * math.Exp2(-14) * fraction
		case exponent == 31 && fraction == 0:
			want = math.Inf(int(sign))
		case exponent == 31:
			want = math.NaN()
		}
		number := strconv.FormatFloat(want, 'g', -1, 32)
		item := number
		if exponent == 31 {
			item = `"` + number + `"`
		}
		if line != number+"\t["+item+"]\n" {
			t.Fatalf("%#x is read as %q, want %s", i, line, number)
		}
		i++
	}
	if i != 1<<16 {
		t.Errorf("%d rows", i)
	}
}

// dated has the types that slotwise reads and does not write.
type dated struct {
	Day    int32    `parquet:"day,date"`
	Milli  int64    `parquet:"milli,timestamp(millisecond)"`
	Micro  int64    `parquet:"micro,timestamp(microsecond:local)"`
	Nano   int64    `parquet:"nano,timestamp(nanosecond)"`
	Clock  int64    `parquet:"clock,time(microsecond)"`
	U32    uint32   `parquet:"u32"`
	U64    uint64   `parquet:"u64"`
	I8     int8     `parquet:"i8"`
	F32    float32  `parquet:"f32"`
	Price  int64    `parquet:"price,decimal(3:18)"`
	ID     [16]byte `parquet:"id,uuid"`
	Absent *int32   `parquet:"absent,optional"`
}

// TestTypesRoundTrip writes random values of types with a notation, at the borders of their
// ranges too, and reads their text.
func TestTypesRoundTrip(t *testing.T) {
	i64 := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-1e15, 1e15), rapid.SampledFrom([]int64{0, -1, 1, 999, -999, math.MaxInt64, math.MinInt64}))
	rapid.Check(t, func(t *rapid.T) {
		var b bytes.Buffer
		var want strings.Builder
		codec := rapid.SampledFrom([]compress.Codec{&parquet.Uncompressed, &parquet.Lz4Raw, &parquet.Zstd}).Draw(t, "codec")
		w := parquet.NewGenericWriter[dated](&b, parquet.Compression(codec), parquet.DataPageVersion(rapid.IntRange(1, 2).Draw(t, "version")))
		for range rapid.IntRange(0, 5).Draw(t, "rows") {
			x := dated{
				Day: rapid.Int32().Draw(t, "day"), Milli: i64.Draw(t, "milli"), Micro: i64.Draw(t, "micro"), Nano: i64.Draw(t, "nano"),
				Clock: rapid.Int64Range(0, 86_399_999_999).Draw(t, "clock"), U32: rapid.Uint32().Draw(t, "u32"), U64: rapid.Uint64().Draw(t, "u64"),
				I8: rapid.Int8().Draw(t, "i8"), F32: rapid.Float32().Draw(t, "f32"), Price: rapid.Int64Range(-1e17, 1e17).Draw(t, "price"),
			}
			copy(x.ID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
			if _, err := w.Write([]dated{x}); err != nil {
				t.Fatal(err)
			}
			price := fmt.Sprintf("%+05d", x.Price)
			price = strings.TrimPrefix(price[:len(price)-3]+"."+price[len(price)-3:], "+")
			fmt.Fprintf(&want, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\t%x-%x-%x-%x-%x\t\\N\n",
				time.Unix(0, 0).UTC().AddDate(0, 0, int(x.Day)).Format(time.DateOnly), time.UnixMilli(x.Milli).UTC().Format("2006-01-02T15:04:05.999Z"),
				time.UnixMicro(x.Micro).UTC().Format("2006-01-02T15:04:05.999999"), time.Unix(0, x.Nano).UTC().Format("2006-01-02T15:04:05.999999999Z"),
				time.UnixMicro(x.Clock).UTC().Format("15:04:05.999999"), x.U32, x.U64, x.I8, strconv.FormatFloat(float64(x.F32), 'g', -1, 32), price,
				x.ID[:4], x.ID[4:6], x.ID[6:8], x.ID[8:10], x.ID[10:])
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		got, err := lines(b.Bytes(), "parquet")
		if err != nil || got != want.String() {
			t.Fatalf("got %s, want %s (%v)", got, want.String(), err)
		}
	})
}

// TestDecodeBooleans decodes what an encoder of the test makes of random booleans, in random
// runs of both kinds. Torn input is an error, or fewer booleans; it is never more than asked for.
func TestDecodeBooleans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var runs []byte
		var want []bool
		for range rapid.IntRange(0, 6).Draw(t, "runs") {
			if n := rapid.IntRange(1, 200).Draw(t, "length"); rapid.Bool().Draw(t, "repeated") {
				bit := rapid.Bool().Draw(t, "bit")
				runs = append(binary.AppendUvarint(runs, uint64(n)<<1), map[bool]byte{true: 1}[bit])
				want = append(want, slices.Repeat([]bool{bit}, n)...)
				continue
			}
			packed := rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "packed")
			runs = append(binary.AppendUvarint(runs, uint64(len(packed))<<1|1), packed...)
			for _, b := range packed {
				for i := range 8 {
					want = append(want, b>>i&1 == 1)
				}
			}
		}
		src := append(binary.LittleEndian.AppendUint32(nil, uint32(len(runs))), runs...)
		most := rapid.IntRange(0, len(want)).Draw(t, "most")
		bits, err := decodeBooleans(src, most)
		if err != nil {
			t.Fatal(err)
		}
		if len(bits) != (most+7)/8 {
			t.Fatalf("%d bytes for %d booleans", len(bits), most)
		}
		for i := range most {
			if got := bits[i/8]>>(i%8)&1 == 1; got != want[i] {
				t.Fatalf("boolean %d of %d is %v", i, most, got)
			}
		}
		torn := src[:rapid.IntRange(0, len(src)).Draw(t, "torn")]
		if bits, err := decodeBooleans(torn, most); err == nil && len(torn) < len(src) || len(bits) > (most+7)/8 {
			t.Fatalf("%d of %d bytes: %d bytes of booleans, error %v", len(torn), len(src), len(bits), err)
		}
	})
}
