package format

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"
	"unicode/utf8"
)

// Line builds the line of a record, field by field, in the way that a Spec asks for. The caller adds
// the fields that the file has; the Line adds the fields of the file's path, and leaves out a record that
// does not meet the conditions.
//
// A record of numbers and texts costs no allocation: buf is the caller's, text is reused, and fields stays
// nil unless the input has conditions or columns in its paths. The methods add the next field of the file in
// turn; n finds its row in fields.
type Line struct {
	buf    []byte
	start  int // of the line in buf
	json   bool
	raw    bool    // as Java's toString, without escapes unless stream is set
	stream string  // Spec.Stream
	fields []field // only if some field is fixed, hidden or has conditions
	names  []string
	n      int // fields so far, fixed and hidden ones included

	dropped bool   // a condition does not hold for the current record
	text    []byte // of a field with conditions; reused
}

// field is a field of a line.
type field struct {
	name       string
	fixed      *Partition // its value for all records of the file; else nil
	hidden     bool       // it is for the conditions only, and behind all fields that are not
	conditions []Condition
}

// NewLine returns a Line for records with the given fields.
func NewLine(s *Spec, names []string) *Line {
	fields := make([]field, len(names))
	for i := range names {
		fields[i].name = names[i]
	}
	return newLine(s, fields)
}

// newLine returns a Line. Of names, only JSON lines need the field.
func newLine(s *Spec, fields []field) *Line {
	l := &Line{json: s.JSON, raw: s.Raw || s.Stream == StreamBytes || s.Stream == StreamString, stream: s.Stream}
	for i := range fields {
		f := &fields[i]
		if l.json {
			l.names = append(l.names, string(appendJSON(nil, []byte(f.name)))+":")
		}
		// Files without such fields keep l.fields nil, so that each field costs one comparison more and
		// nothing else.
		if f.fixed != nil || f.hidden || len(f.conditions) > 0 {
			l.fields = fields
		}
	}
	return l
}

// Begin begins a line after the content of buf.
func (l *Line) Begin(buf []byte) {
	// The fields of a dropped record are written all the same, until End cuts them off. Testing dropped in
	// every method would cost every record of a job without conditions.
	l.buf, l.n, l.start, l.dropped = buf, 0, len(buf), false
	if l.json {
		l.buf = append(l.buf, '{')
	}
}

// End ends the line and returns the buffer, without the line if the record does not meet the
// conditions.
func (l *Line) End() []byte {
	// Columns of the path may be the last ones, and their conditions must be tested before dropped is
	// read.
	l.addFixed()
	// The line is cut off here and not where a condition failed: a record is known to be wanted only
	// when all its fields have been tested.
	if l.dropped {
		return l.buf[:l.start]
	}
	if l.json {
		l.buf = append(l.buf, '}')
	}
	return append(l.buf, '\n')
}

// addFixed adds the fields before the next one that the file has.
func (l *Line) addFixed() {
	for l.n < len(l.fields) && l.fields[l.n].fixed != nil {
		f := &l.fields[l.n]
		switch l.test(f, []byte(f.fixed.Value), f.fixed.Null, classUntyped); {
		// Its position is behind all visible fields, so no separator is due.
		case f.hidden:
			l.n++
		case f.fixed.Null:
			l.next()
			l.appendNull()
		default:
			l.next()
			l.appendString([]byte(f.fixed.Value))
		}
	}
}

// special reports whether the next field that the file has is hidden or has conditions. It adds the
// fixed fields before that field.
func (l *Line) special() bool {
	l.addFixed()
	f := &l.fields[l.n]
	return f.hidden || len(f.conditions) > 0
}

// test compares a field with its conditions.
func (l *Line) test(f *field, text []byte, null bool, is class) {
	for i := range f.conditions {
		// After the first failure match is not called again for this record.
		l.dropped = l.dropped || !f.conditions[i].match(text, null, is)
	}
}

// skips tests the next field and reports whether it is not a part of the line.
func (l *Line) skips(text []byte, null bool, is class) bool {
	f := &l.fields[l.n]
	l.test(f, text, null, is)
	if f.hidden {
		l.n++
	}
	return f.hidden
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
	if l.fields != nil && l.special() && l.skips(nil, true, classText) {
		return
	}
	l.next()
	l.appendNull()
}

// appendNull appends a null.
func (l *Line) appendNull() {
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
	if l.fields != nil && l.special() && l.skips(strconv.AppendBool(nil, b), false, classText) {
		return
	}
	l.next()
	l.buf = strconv.AppendBool(l.buf, b)
}

// Int adds an integer.
func (l *Line) Int(n int64) {
	if l.fields != nil && l.special() {
		if l.text = strconv.AppendInt(l.text[:0], n, 10); l.skips(l.text, false, classNumber) {
			return
		}
	}
	l.next()
	l.buf = strconv.AppendInt(l.buf, n, 10)
}

// Uint adds an integer.
func (l *Line) Uint(n uint64) {
	if l.fields != nil && l.special() {
		if l.text = strconv.AppendUint(l.text[:0], n, 10); l.skips(l.text, false, classNumber) {
			return
		}
	}
	l.next()
	l.buf = strconv.AppendUint(l.buf, n, 10)
}

// Float adds a floating-point number with the given size in bits.
func (l *Line) Float(f float64, bits int) {
	if l.fields != nil && l.special() {
		if l.text = strconv.AppendFloat(l.text[:0], f, 'g', -1, bits); l.skips(l.text, false, classNumber) {
			return
		}
	}
	l.next()
	// JSON has no such numbers. As text they stay readable, and the line stays valid.
	// Other programs read "NaN" as text and can convert it. A bare NaN would make the whole line unreadable
	// for them.
	if l.json && (math.IsNaN(f) || math.IsInf(f, 0)) {
		l.buf = append(strconv.AppendFloat(append(l.buf, '"'), f, 'g', -1, bits), '"')
		return
	}
	l.buf = strconv.AppendFloat(l.buf, f, 'g', -1, bits)
}

// Number adds a number that is text already.
func (l *Line) Number(s string) {
	if l.fields != nil && l.special() && l.skips([]byte(s), false, classNumber) {
		return
	}
	l.next()
	l.buf = append(l.buf, s...)
}

// Text adds a date or a time, whose text needs no escapes. Conditions compare it as a point in time.
func (l *Line) Text(s string) {
	if l.fields != nil && l.special() && l.skips([]byte(s), false, classTime) {
		return
	}
	l.next()
	if l.json {
		l.buf = append(append(append(l.buf, '"'), s...), '"')
		return
	}
	l.buf = append(l.buf, s...)
}

// String adds text that its file declares as text.
func (l *Line) String(s []byte) { l.addText(s, classText) }

// Untyped adds text of a file without types. Conditions with a date or a time compare it as one.
func (l *Line) Untyped(s []byte) { l.addText(s, classUntyped) }

// addText adds text, which conditions compare as the class says.
func (l *Line) addText(s []byte, is class) {
	if l.fields != nil && l.special() && l.skips(s, false, is) {
		return
	}
	l.next()
	l.appendString(s)
}

// appendString appends text.
func (l *Line) appendString(s []byte) {
	switch {
	case l.json:
		l.buf = appendJSON(l.buf, s)
	// fs -text prints what the file has. A streaming job with as=bytes or as=string passes the line to a
	// reader of fields, so there a TAB in a text must stay data.
	case l.raw && l.stream == "":
		l.buf = append(l.buf, s...)
	default:
		l.buf = AppendEscaped(l.buf, s)
	}
}

// Bytes adds bytes that are no text: base64 in JSON.
func (l *Line) Bytes(b []byte) {
	// Without JSON bytes are text with escapes, which loses nothing: four bytes have escapes, and all others
	// stay.
	if !l.json {
		l.String(b)
		return
	}
	if l.fields != nil && l.special() && l.skips(b, false, classText) {
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
	if l.fields != nil && l.special() && l.skips(text, false, classText) {
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
	case beyondJSON:
		// The text is JSONFloat's, so the error cannot occur for values of this program's own formats.
		f, err := strconv.ParseFloat(string(v), 64)
		if err != nil {
			return err
		}
		l.Float(f, 64) // NaN and the infinities have the same text in all sizes
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
		// For bytes that are no UTF-8 DecodeRune returns U+FFFD and 1, so each becomes one replacement and
		// none is skipped.
		r, n := utf8.DecodeRune(s)
		buf = utf8.AppendRune(buf, r)
		s = s[n:]
	}
	return append(buf, '"')
}
