package parquet

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	types "github.com/parquet-go/parquet-go/format"

	"github.com/slotwise/slotwise/internal/data/format"
)

// TestConvertedTypes reads a file as writers made it before there were logical types: its schema has converted
// types alone. The values and the types of the columns are as with logical types.
func TestConvertedTypes(t *testing.T) {
	schema := parquet.NewSchema("t", parquet.Group{
		"date": parquet.Date(), "dec": parquet.Decimal(2, 9, parquet.Int32Type), "enum": parquet.Enum(), "json": parquet.JSON(),
		"ms": parquet.Time(parquet.Millisecond), "stamp": parquet.Timestamp(parquet.Microsecond), "text": parquet.String(), "u": parquet.Uint(8),
	})
	var b bytes.Buffer
	w := parquet.NewGenericWriter[any](&b, schema)
	row := parquet.Row{
		parquet.Int32Value(19844), parquet.Int32Value(-1234), parquet.ByteArrayValue([]byte("A")), parquet.ByteArrayValue([]byte("{}")),
		parquet.Int32Value(30_600_500), parquet.Int64Value(1_714_550_400_000_001), parquet.ByteArrayValue([]byte("x\ty")), parquet.Int32Value(200),
	}
	for i := range row {
		row[i] = row[i].Level(0, 0, i)
	}
	if _, err := w.WriteRows([]parquet.Row{row}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	const want = "2024-05-01\t-12.34\tA\t{}\t08:30:00.5\t2024-05-01T08:00:00.000001Z\tx\\ty\t200\n"
	meta, at := footer(t, b.Bytes())
	for _, old := range []bool{false, true} {
		for i := range meta.Schema {
			if e := &meta.Schema[i]; old && e.Type.Valid {
				if !e.ConvertedType.Valid {
					t.Fatalf("column %s has no converted type", e.Name)
				}
				e.LogicalType = types.LogicalType{}
			}
		}
		file := withFooter(t, b.Bytes()[:at], meta)
		if got, err := lines(file, "parquet"); err != nil || got != want {
			t.Errorf("old %v: %q, %v; want %q", old, got, err, want)
		}
		columns, _, err := format.Types(&format.Source{File: bytes.NewReader(file), Size: int64(len(file)), To: int64(len(file))}, &format.Spec{Name: format.Parquet})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []string{"date", "decimal(9,2)", "string", "string", "time", "timestamp UTC", "string", "int"} {
			if columns[i].Type != want {
				t.Errorf("old %v: column %s has the type %s, want %s", old, columns[i].Name, columns[i].Type, want)
			}
		}
	}
}

// TestDecimalWithoutScale reads decimals whose converted type has no scale, which stands for 0.
func TestDecimalWithoutScale(t *testing.T) {
	var b bytes.Buffer
	w := parquet.NewGenericWriter[any](&b, parquet.NewSchema("t", parquet.Group{
		"a": parquet.Decimal(2, 9, parquet.Int32Type), "b": parquet.Decimal(2, 20, parquet.FixedLenByteArrayType(9)), "c": parquet.List(parquet.Decimal(2, 20, parquet.ByteArrayType)),
	}))
	minus := []byte("\xff\xff\xff\xff\xff\xff\xff\xff\x85") // -123
	row := parquet.Row{parquet.Int32Value(-123).Level(0, 0, 0), parquet.FixedLenByteArrayValue(minus).Level(0, 0, 1), parquet.ByteArrayValue(minus).Level(0, 1, 2)}
	if _, err := w.WriteRows([]parquet.Row{row}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	meta, at := footer(t, b.Bytes())
	for i := range meta.Schema {
		if e := &meta.Schema[i]; e.Type.Valid {
			e.LogicalType, e.Scale = types.LogicalType{}, thrift.Null[int32]{}
		}
	}
	file := withFooter(t, b.Bytes()[:at], meta)
	if got, err := lines(file, "parquet"); err != nil || got != "-123\t-123\t[-123]\n" {
		t.Errorf("%q, %v", got, err)
	}
	columns, _, err := format.Types(&format.Source{File: bytes.NewReader(file), Size: int64(len(file)), To: int64(len(file))}, &format.Spec{Name: format.Parquet})
	if err != nil || columns[0].Type != "decimal(9,0)" || columns[1].Type != "decimal(20,0)" {
		t.Errorf("the columns have the types %v, %v", columns, err)
	}
	// A damaged schema must not make bytes of a number.
	meta.Schema[1].Type = thrift.New(types.Float)
	if got, err := lines(withFooter(t, b.Bytes()[:at], meta), "parquet"); err == nil || !strings.Contains(err.Error(), "decimal of type FLOAT") {
		t.Errorf("decimals in floats: %q, %v", got, err)
	}
}

// TestTimeOfDay: a time is less than a day, and one beyond is an error and not a time of the next day.
func TestTimeOfDay(t *testing.T) {
	k := &kind{physical: parquet.Int64, layout: format.TimeOfDay, unit: time.Microsecond}
	const day = 24 * 3600 * 1_000_000
	for n, want := range map[int64]string{0: "00:00:00", day - 1: "23:59:59.999999", -1: "", day: ""} {
		v := parquet.Int64Value(n)
		got, err := k.value(&v)
		if want == "" && err == nil || want != "" && got != want {
			t.Errorf("%d: %v, %v; want %q", n, got, err, want)
		}
	}
}
