package format

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"
	"unicode/utf8"
)

// Line builds the line of a record, field by field, in the way that a Spec asks for.
type Line struct {
	buf   []byte
	json  bool
	raw   bool
	names []string // JSON: of the fields, as JSON strings with a colon
	n     int      // fields so far
}

// NewLine returns a Line for records with the given fields.
func NewLine(s *Spec, names []string) *Line {
	l := &Line{json: s.JSON, raw: s.Raw}
	if l.json {
		for _, n := range names {
			l.names = append(l.names, string(appendJSON(nil, []byte(n)))+":")
		}
	}
	return l
}

// Begin begins a line after the content of buf.
func (l *Line) Begin(buf []byte) {
	l.buf, l.n = buf, 0
	if l.json {
		l.buf = append(l.buf, '{')
	}
}

// End ends the line and returns the buffer.
func (l *Line) End() []byte {
	if l.json {
		l.buf = append(l.buf, '}')
	}
	return append(l.buf, '\n')
}

// next begins a field.
func (l *Line) next() {
	switch {
	case l.n == 0:
	case l.json:
		l.buf = append(l.buf, ',')
	default:
		l.buf = append(l.buf, '\t')
	}
	if l.json {
		l.buf = append(l.buf, l.names[l.n]...)
	}
	l.n++
}

// Null adds a null.
func (l *Line) Null() {
	l.next()
	switch {
	case l.json:
		l.buf = append(l.buf, "null"...)
	case l.raw:
		l.buf = append(l.buf, "(null)"...)
	default:
		l.buf = append(l.buf, `\N`...)
	}
}

// Bool adds a truth value.
func (l *Line) Bool(b bool) {
	l.next()
	l.buf = strconv.AppendBool(l.buf, b)
}

// Int adds an integer.
func (l *Line) Int(n int64) {
	l.next()
	l.buf = strconv.AppendInt(l.buf, n, 10)
}

// Uint adds an integer.
func (l *Line) Uint(n uint64) {
	l.next()
	l.buf = strconv.AppendUint(l.buf, n, 10)
}

// Float adds a floating-point number with the given size in bits.
func (l *Line) Float(f float64, bits int) {
	l.next()
	if l.json && (math.IsNaN(f) || math.IsInf(f, 0)) {
		l.buf = append(strconv.AppendFloat(append(l.buf, '"'), f, 'g', -1, bits), '"')
		return
	}
	l.buf = strconv.AppendFloat(l.buf, f, 'g', -1, bits)
}

// Number adds a number that is text already.
func (l *Line) Number(s string) {
	l.next()
	l.buf = append(l.buf, s...)
}

// Text adds text that needs no escapes, such as a date.
func (l *Line) Text(s string) {
	l.next()
	if l.json {
		l.buf = append(append(append(l.buf, '"'), s...), '"')
		return
	}
	l.buf = append(l.buf, s...)
}

// String adds text.
func (l *Line) String(s []byte) {
	l.next()
	switch {
	case l.json:
		l.buf = appendJSON(l.buf, s)
	case l.raw:
		l.buf = append(l.buf, s...)
	default:
		l.buf = AppendEscaped(l.buf, s)
	}
}

// Bytes adds bytes that are no text: base64 in JSON.
func (l *Line) Bytes(b []byte) {
	if !l.json {
		l.String(b)
		return
	}
	l.next()
	l.buf = append(l.buf, '"')
	l.buf = base64.StdEncoding.AppendEncode(l.buf, b)
	l.buf = append(l.buf, '"')
}

// Nested adds a list or an object as JSON text.
func (l *Line) Nested(text []byte) {
	if !l.json {
		l.String(text)
		return
	}
	l.next()
	l.buf = append(l.buf, text...)
}

// Any adds a value of a type that encoding/json has for any, or one of Go's numbers.
func (l *Line) Any(v any) error {
	switch v := v.(type) {
	case nil:
		l.Null()
	case bool:
		l.Bool(v)
	case int:
		l.Int(int64(v))
	case int32:
		l.Int(int64(v))
	case int64:
		l.Int(v)
	case float32:
		l.Float(float64(v), 32)
	case float64:
		l.Float(v, 64)
	case string:
		l.String([]byte(v))
	case []byte:
		l.Bytes(v)
	case json.Number:
		l.Number(string(v))
	default:
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		// The line is data and no page: "<" must stay "<".
		e.SetEscapeHTML(false)
		if err := e.Encode(v); err != nil {
			return err
		}
		l.Nested(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	}
	return nil
}

// AppendEscaped appends a field of a line with escapes. A field that would read as null gets one,
// too.
func AppendEscaped(buf, s []byte) []byte {
	from := 0
	for i, c := range s {
		var e byte
		switch c {
		case '\t':
			e = 't'
		case '\n':
			e = 'n'
		case '\r':
			e = 'r'
		case '\\':
			e = '\\'
		default:
			continue
		}
		buf = append(append(buf, s[from:i]...), '\\', e)
		from = i + 1
	}
	return append(buf, s[from:]...)
}

const hexDigits = "0123456789abcdef"

// appendJSON appends text as a JSON string. Bytes that are not UTF-8 become U+FFFD.
func appendJSON(buf, s []byte) []byte {
	buf = append(buf, '"')
	for len(s) > 0 {
		c := s[0]
		if c < utf8.RuneSelf {
			switch {
			case c == '"' || c == '\\':
				buf = append(buf, '\\', c)
			case c == '\n':
				buf = append(buf, '\\', 'n')
			case c == '\t':
				buf = append(buf, '\\', 't')
			case c < ' ':
				buf = append(buf, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			default:
				buf = append(buf, c)
			}
			s = s[1:]
			continue
		}
		r, n := utf8.DecodeRune(s)
		buf = utf8.AppendRune(buf, r)
		s = s[n:]
	}
	return append(buf, '"')
}
