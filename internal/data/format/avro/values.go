package avro

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/avro"

	"github.com/slotwise/slotwise/internal/data/format"
	"github.com/slotwise/slotwise/internal/data/format/decimal"
)

// isoText is the text of a date or a time, which needs no escapes.
type isoText string

// appendValue adds a value that the decoder returned to the line.
func appendValue(l *format.Line, v any) error {
	if s, ok := v.(isoText); ok {
		l.Text(string(s))
		return nil
	}
	return l.Any(v)
}

// renderers returns one conversion for each type of Avro that may have a logical type, and for
// floating-point numbers. The library calls it for each value with the type that decoded the
// value: the branch of a union, the definition of a named type. A decoded value does not show
// its type any more: a union of date and timestamp-millis gives the same time.Time for both.
func renderers() []avro.SchemaOpt {
	var all []avro.SchemaOpt
	// Strings need none: a uuid in a string is its text already, and the library returns it.
	for _, t := range []string{"int", "long", "float", "double", "bytes", "fixed"} {
		all = append(all, avro.CustomType{AvroType: t, Decode: render})
	}
	return all
}

// render returns a value as Line.Any and encoding/json write it. A logical type on a type for
// which Avro does not define it has no meaning, as the specification asks.
func render(v any, n *avro.SchemaNode) (any, error) {
	// These are the Go types into which the library decodes for any. A value of another type needs no
	// conversion.
	switch v := v.(type) {
	case int32:
		switch n.LogicalType {
		case "date":
			return isoText(time.Unix(int64(v)*24*3600, 0).UTC().Format(time.DateOnly)), nil
		case "time-millis":
			return timeOfDay(int64(v), time.Millisecond)
		}
	case int64:
		return renderLong(v, n.LogicalType)
	case float32:
		return format.JSONFloat(float64(v), 32), nil
	case float64:
		return format.JSONFloat(v, 64), nil
	case []byte:
		return renderBytes(v, n)
	}
	return v, nil
}

// renderLong returns a long.
func renderLong(v int64, logical string) (any, error) {
	switch logical {
	case "time-micros":
		return timeOfDay(v, time.Microsecond)
	case "timestamp-millis":
		return isoText(time.UnixMilli(v).UTC().Format(format.UTCTime)), nil
	case "timestamp-micros":
		return isoText(time.UnixMicro(v).UTC().Format(format.UTCTime)), nil
	case "timestamp-nanos":
		// An int64 of nanoseconds reaches from 1677 to 2262, and every value is a time.
		return isoText(time.Unix(0, v).UTC().Format(format.UTCTime)), nil
	case "local-timestamp-millis":
		return isoText(time.UnixMilli(v).UTC().Format(format.LocalTime)), nil
	case "local-timestamp-micros":
		return isoText(time.UnixMicro(v).UTC().Format(format.LocalTime)), nil
	case "local-timestamp-nanos":
		return isoText(time.Unix(0, v).UTC().Format(format.LocalTime)), nil
	}
	return v, nil
}

// renderBytes returns a value of type bytes or fixed.
func renderBytes(b []byte, n *avro.SchemaNode) (any, error) {
	switch n.LogicalType {
	case "decimal":
		return number(decimal.OfBytes(b, n.Scale))
	case "big-decimal":
		if n.Type == "bytes" {
			return bigDecimal(b)
		}
	case "uuid":
		if n.Type == "fixed" && len(b) == 16 {
			s := hex.EncodeToString(b)
			return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:], nil
		}
	case "duration":
		if n.Type == "fixed" && len(b) == 12 {
			// Months, days and milliseconds, which have no common unit. Line.Any writes them as an object.
			return avro.DurationFromBytes(b), nil
		}
	}
	return b, nil
}

// timeOfDay returns a time since midnight. A longer time would read as one of the next day.
func timeOfDay(n int64, unit time.Duration) (any, error) {
	// Before the multiplication: an int64 of hours in microseconds would overflow a Duration.
	if n < 0 || n >= int64(24*time.Hour/unit) {
		return nil, fmt.Errorf("a time of day is %d × %v after midnight", n, unit)
	}
	return isoText(time.Time{}.Add(time.Duration(n) * unit).Format(format.TimeOfDay)), nil
}

// bigDecimal returns a number that brings its own scale: the length of its integer, the integer,
// the scale.
func bigDecimal(b []byte) (any, error) {
	// Avro's long and Go's Varint are both zigzag in groups of seven bits.
	size, n := binary.Varint(b)
	if n <= 0 || size < 0 || size > int64(len(b)-n) {
		return nil, errBigDecimal
	}
	unscaled, rest := b[n:n+int(size)], b[n+int(size):]
	scale, n := binary.Varint(rest)
	// Java's BigDecimal has an int as its scale. decimal.Text bounds it further.
	if n <= 0 || n != len(rest) || int64(int32(scale)) != scale {
		return nil, errBigDecimal
	}
	return number(decimal.OfBytes(unscaled, int(scale)))
}

var errBigDecimal = errors.New("a big-decimal is damaged: its length and its scale do not fit its bytes")

// number returns digits as a number of encoding/json.
func number(digits string, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return json.Number(digits), nil
}
