package parquet

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	types "github.com/parquet-go/parquet-go/format"

	"github.com/slotwise/slotwise/internal/data/format"
	"github.com/slotwise/slotwise/internal/data/format/decimal"
)

// kind renders the values of a leaf by its physical and its logical type.
type kind struct {
	physical parquet.Kind
	text     bool // bytes are text
	unsigned bool
	uuid     bool
	half     bool // a floating-point number of 16 bits
	decimal  bool
	scale    int
	// precision is the number of a decimal's digits.
	precision int
	layout    string        // of a date or a time; "" for a number
	unit      time.Duration // of a date or a time
}

// newKind returns the kind of a leaf. leaves are the elements of the leaves in the file's schema.
func newKind(c *parquet.Column, leaves []*types.SchemaElement) *kind {
	k := &kind{physical: c.Type().Kind()}
	// Spark, Hive and Impala write timestamps so. Int96 has no logical type: Spark stores UTC, Impala local
	// time, and the file does not say which.
	if k.physical == parquet.Int96 {
		k.layout = format.LocalTime // by convention, a time without a zone
	}
	// Files of old writers, such as parquet-mr before 1.11 in Spark 2, have converted types alone. The library turns
	// each into the logical type that replaced it, except INTERVAL, which stays bytes here.
	if l := c.Type().LogicalType(); l != nil && l.Value != nil {
		k.logical(l)
	}
	// Two types are taken from the schema, because the library does not pass them on: FLOAT16, and a converted
	// DECIMAL without a scale, whose scale is 0.
	e := leaves[c.Index()]
	switch _, half := e.LogicalType.Value.(*types.Float16Type); {
	case half:
		k.half = true
	case e.LogicalType.Value == nil && e.ConvertedType.Valid && e.ConvertedType.V == deprecated.Decimal:
		k.decimal, k.scale, k.precision = true, int(e.Scale.V), int(e.Precision.V)
	}
	return k
}

// logical applies a logical type.
func (k *kind) logical(l *types.LogicalType) {
	switch v := l.Value.(type) {
	case *types.StringType, *types.EnumType, *types.JsonType:
		k.text = true
	case *types.UUIDType:
		k.uuid = true
	case *types.DecimalType:
		k.decimal, k.scale, k.precision = true, int(v.Scale), int(v.Precision)
	case *types.IntType:
		k.unsigned = !v.IsSigned
	case *types.DateType:
		k.layout, k.unit = time.DateOnly, 24*time.Hour
	case *types.TimeType:
		k.layout, k.unit = format.TimeOfDay, unitOf(v.Unit)
	case *types.TimestampType:
		k.layout, k.unit = format.LocalTime, unitOf(v.Unit)
		if v.IsAdjustedToUTC {
			k.layout = format.UTCTime
		}
	}
}

// leavesOf returns the leaves of a schema. Their indexes are those of Column.Index.
func leavesOf(schema []types.SchemaElement) (all []*types.SchemaElement) {
	for i := range schema {
		if schema[i].Type.Valid { // no group
			all = append(all, &schema[i])
		}
	}
	return all
}

// unitOf returns the unit of a time.
func unitOf(u types.TimeUnit) time.Duration {
	switch u.Value.(type) {
	case *types.MilliSeconds:
		return time.Millisecond
	case *types.MicroSeconds:
		return time.Microsecond
	}
	// NANOS has existed since format 2.6, and has no converted type.
	return time.Nanosecond
}

// append adds a value that is not null to a line.
func (k *kind) append(l *format.Line, v *parquet.Value) error {
	switch {
	// Logical types come first: a date is an int32 as well, and would be written as a number of
	// days.
	case k.layout != "" || k.decimal || k.uuid:
		any, err := k.value(v)
		if err != nil {
			return err
		}
		switch n, ok := any.(json.Number); {
		case ok:
			l.Number(string(n))
		// By String, since Text is for dates and times, which conditions compare as such.
		case k.uuid:
			l.String([]byte(any.(string)))
		default:
			l.Text(any.(string))
		}
	case k.physical == parquet.Boolean:
		l.Bool(v.Boolean())
	// UINT_32 is stored in the bits of an int32. Without this case 4294967295 would be -1.
	case k.physical == parquet.Int32 && k.unsigned:
		l.Uint(uint64(v.Uint32()))
	case k.physical == parquet.Int32:
		l.Int(int64(v.Int32()))
	case k.physical == parquet.Int64 && k.unsigned:
		l.Uint(v.Uint64())
	case k.physical == parquet.Int64:
		l.Int(v.Int64())
	case k.physical == parquet.Float:
		l.Float(float64(v.Float()), 32)
	case k.physical == parquet.Double:
		l.Float(v.Double(), 64)
	case k.half:
		l.Float(half(v.ByteArray()), 32)
	case k.text:
		l.String(v.ByteArray())
	default:
		l.Bytes(v.ByteArray())
	}
	return nil
}

// value returns a value as encoding/json writes it.
func (k *kind) value(v *parquet.Value) (any, error) {
	switch {
	case v.IsNull():
		return nil, nil
	// The order of the cases is the order of append: the meaning first, then the physical type. Without a
	// meaning an int96 would have no case, since JSON has no number for its 12 bytes.
	case k.decimal:
		s, err := k.decimalText(v)
		return json.Number(s), err
	case k.uuid:
		return formatUUID(v.ByteArray()), nil
	case k.physical == parquet.Int96:
		return julian(v.Int96()).Format(k.layout), nil
	case k.layout != "":
		at := k.time(v)
		// As in Avro files: a longer time would read as one of the next day.
		if seconds := at.Unix(); k.layout == format.TimeOfDay && (seconds < 0 || seconds >= 24*3600) {
			return nil, fmt.Errorf("a time of day is %v after midnight", at.Sub(time.Unix(0, 0)))
		}
		return at.Format(k.layout), nil
	case k.physical == parquet.Boolean:
		return v.Boolean(), nil
	case k.physical == parquet.Int32 && k.unsigned:
		return v.Uint32(), nil
	case k.physical == parquet.Int32:
		return v.Int32(), nil
	case k.physical == parquet.Int64 && k.unsigned:
		return v.Uint64(), nil
	case k.physical == parquet.Int64:
		return v.Int64(), nil
	case k.physical == parquet.Float:
		return format.JSONFloat(float64(v.Float()), 32), nil
	case k.physical == parquet.Double:
		return format.JSONFloat(v.Double(), 64), nil
	case k.half:
		return format.JSONFloat(half(v.ByteArray()), 32), nil
	case k.text:
		return string(v.ByteArray()), nil
	}
	return v.ByteArray(), nil // base64 in JSON
}

// time returns a date or a time.
func (k *kind) time(v *parquet.Value) time.Time {
	n := v.Int64()
	if k.physical == parquet.Int32 {
		n = int64(v.Int32())
	}
	// Only dates. Their unit does not divide a second, so the lines below would divide by zero.
	if k.unit >= time.Second {
		return time.Unix(n*int64(k.unit/time.Second), 0).UTC()
	}
	// Divided first: a timestamp in milliseconds may lie beyond the 292 years that fit into
	// nanoseconds.
	perSecond := int64(time.Second / k.unit)
	seconds, rest := n/perSecond, n%perSecond
	return time.Unix(seconds, rest*int64(k.unit)).UTC()
}

// julian returns the time of an Int96: nanoseconds of a day, and the day's Julian number.
func julian(i deprecated.Int96) time.Time {
	const epoch = 2440588 // 1970-01-01
	nanos := int64(uint64(i[1])<<32 | uint64(i[0]))
	return time.Unix((int64(i[2])-epoch)*24*3600, nanos).UTC()
}

// decimalText returns the digits of a decimal.
func (k *kind) decimalText(v *parquet.Value) (string, error) {
	// The writer chooses by the precision: up to 9 digits an int32, up to 18 an int64, else bytes. Hive, and
	// Spark in its legacy format, always write fixed bytes.
	switch k.physical {
	case parquet.Int32:
		return decimal.Text(big.NewInt(int64(v.Int32())), k.scale)
	case parquet.Int64:
		return decimal.Text(big.NewInt(v.Int64()), k.scale)
	case parquet.ByteArray, parquet.FixedLenByteArray:
		return decimal.OfBytes(v.ByteArray(), k.scale)
	}
	return "", fmt.Errorf("the schema is corrupt: a decimal of type %v", k.physical)
}

// half returns the number of 16 bits, in IEEE 754's format, whose little-endian bytes are b.
func half(b []byte) float64 {
	// The schema promises FIXED_LEN_BYTE_ARRAY(2). A damaged one must not panic here.
	if len(b) != 2 {
		return math.NaN()
	}
	bits := binary.LittleEndian.Uint16(b)
	exponent, fraction := int(bits>>10&0x1f), float64(bits&0x3ff)
	var f float64
	switch exponent {
	case 0: // no implied one before the point
		f = math.Ldexp(fraction, -24)
	case 0x1f:
		if f = math.Inf(1); fraction != 0 {
			f = math.NaN()
		}
	default:
		f = math.Ldexp(fraction+0x400, exponent-25)
	}
	if bits>>15 != 0 {
		f = math.Copysign(f, -1)
	}
	return f
}

// formatUUID returns the usual notation of 16 bytes.
func formatUUID(b []byte) string {
	if len(b) != 16 {
		return hex.EncodeToString(b)
	}
	s := hex.EncodeToString(b)
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}
