package format

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/slotwise/slotwise/internal/base/retry"
)

// jsonRecords reads lines with a JSON object each.
//
// Without columns and conditions each line is checked and passed on unchanged: its numbers keep all digits,
// and its names their order. Otherwise the wanted fields are decoded.
type jsonRecords struct {
	r    *bufio.Reader
	src  *Source
	part bool // the source begins within the file
	spec *Spec
	// line takes the fields of names. Without the option columns these are the columns of conditions, and
	// the line itself is the one of the file.
	line  *Line
	names []string
	long  []byte // a line that is longer than r's buffer
	n     int64  // lines so far
}

// openJSON implements Format.Open.
func openJSON(src *Source, s *Spec) (Records, error) {
	r := &jsonRecords{r: bufio.NewReaderSize(src.Text, fillTo), src: src, part: src.FirstLine != nil, spec: s}
	// Only the start of a file can have a mark.
	if !r.part {
		head, err := r.r.Peek(2)
		if err != nil && err != io.EOF {
			return nil, err
		}
		// Peek returns fewer than two bytes for a file of one byte, which is no mark.
		if isUTF16(head) {
			return nil, errUTF16
		}
	}
	all := slices.Clone(s.Columns)
	// Conditions need fields, too, although they may not be wanted.
	for _, c := range s.Where {
		if !slices.Contains(all, c.Column) {
			all = append(all, c.Column)
		}
	}
	if len(all) == 0 {
		return r, nil
	}
	// Lines of JSON are not aligned with a first file: each record names its fields.
	choice := *s
	choice.First = nil
	sel, err := choice.Select(src, all)
	if err != nil {
		return nil, err
	}
	r.line = sel.Line
	for _, at := range sel.At {
		r.names = append(r.names, all[at])
	}
	return r, nil
}

// Next implements Records. Without columns a record's line is the line of the file.
func (r *jsonRecords) Next(buf []byte) ([]byte, error) {
	line, err := r.read()
	if err != nil {
		return buf, err
	}
	// Empty lines are allowed between objects. A CR of CR LF goes here, too.
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return buf, nil
	}
	whole := len(buf)
	if buf, err = r.convert(buf, line); err == nil {
		return buf, nil
	}
	if r.spec.SkipBad && !errors.Is(err, errLacks) {
		r.src.bad()
		return buf[:whole], nil // without the fields before the bad one
	}
	err = fmt.Errorf("line %d: %w", r.n, err)
	if r.part {
		err = fmt.Errorf("in the part of the file that this task reads, %w", err)
	}
	return buf, retry.Permanent(err)
}

// read returns the next line. The last line may lack its LF.
func (r *jsonRecords) read() ([]byte, error) {
	line, err := r.r.ReadSlice('\n')
	// ReadSlice returns a slice of its buffer and costs no copy, but a longer line does not fit.
	// r.long is kept, so a file of long lines allocates once. There is no bound as in CSV: a line ends at the
	// next LF whatever it contains.
	if err == bufio.ErrBufferFull {
		r.long = append(r.long[:0], line...)
		line, err = r.r.ReadBytes('\n')
		r.long = append(r.long, line...)
		line = r.long
	}
	// The next call returns io.EOF again, without bytes.
	if err == io.EOF && len(line) > 0 {
		err = nil
	}
	if r.n++; r.n == 1 {
		line = bytes.TrimPrefix(line, utf8Mark)
	}
	return line, err
}

var errNoObject = errors.New("it is no JSON object; format json wants one object on each line (jq -c makes such files)")

// errLacks begins the error for a missing column. It is no fault of the record's form, so bad=skip keeps it.
var errLacks = errors.New("the object has no")

// convert appends the line of a record.
func (r *jsonRecords) convert(buf, line []byte) ([]byte, error) {
	if line[0] != '{' {
		return buf, errNoObject
	}
	if r.line == nil {
		// Checked although nothing is decoded: a torn line in the middle of an input, from a writer that was
		// killed, would reach the mapper as a record.
		if !json.Valid(line) {
			return buf, errNoObject
		}
		return append(append(buf, line...), '\n'), nil
	}
	// Only one level is decoded. RawMessage keeps the spelling of nested values and numbers. Of a
	// repeated name the last value counts, as in JavaScript and PostgreSQL's jsonb.
	var object map[string]json.RawMessage
	if err := json.Unmarshal(line, &object); err != nil {
		return buf, fmt.Errorf("%w: %w", errNoObject, err)
	}
	r.line.Begin(buf)
	for _, c := range r.names {
		// An explicit null is not missing: its RawMessage has four bytes.
		if object[c] == nil && r.spec.Missing == MissingError {
			return buf, fmt.Errorf("%w column %s, and --missing error refuses that", errLacks, c)
		}
		if err := r.field(object[c]); err != nil {
			return buf, fmt.Errorf("column %s: %w", c, err)
		}
	}
	// Without the option columns the fields served the conditions only.
	// For a dropped record End has cut the fields off, so whole is the buffer without a line.
	if whole := r.line.End(); len(r.spec.Columns) > 0 || r.line.dropped {
		return whole, nil
	}
	return append(append(buf, line...), '\n'), nil
}

// replacement is the library's result for half a surrogate pair.
const replacement = "\ufffd"

// field adds one value. A column that the object lacks is null.
func (r *jsonRecords) field(v json.RawMessage) error {
	switch {
	case len(v) == 0 || string(v) == "null":
		r.line.Null()
	case v[0] == '"':
		// The library would replace other bytes, without an error.
		if !utf8.Valid(v) {
			return errors.New("its text is not UTF-8, as JSON must be")
		}
		var s string
		if err := json.Unmarshal(v, &s); err != nil {
			return err
		}
		// The text may have U+FFFD itself, written out or as an escape. The library has added any
		// further one.
		if n := strings.Count(s, replacement); n > 0 && n > strings.Count(string(v), replacement)+escapedReplacements(string(v)) {
			return errors.New("its text has half of a surrogate pair, such as \\ud800, which stands for no character")
		}
		// JSON has no dates, so a text may be one, and a condition with a date compares it as such.
		r.line.Untyped([]byte(s))
	case v[0] == '{' || v[0] == '[':
		var b bytes.Buffer
		// The line must be one line, and objects may have been written with spaces. An LF cannot occur: the
		// file's lines have none.
		if err := json.Compact(&b, v); err != nil {
			return err
		}
		r.line.Nested(b.Bytes())
	default:
		r.line.Number(string(v))
	}
	return nil
}

// escapedReplacements returns the number of escapes for U+FFFD in a JSON string. Pairs of backslashes are
// removed first: behind a pair, ufffd is text.
func escapedReplacements(v string) int {
	return strings.Count(strings.ToLower(strings.ReplaceAll(v, `\\`, "")), `\ufffd`)
}

// Columns implements Records. Each record names its fields, so that records with other
// fields, or with fields in another order, are not mixed up.
func (r *jsonRecords) Columns() []string { return nil }

// Close implements Records.
func (r *jsonRecords) Close() error { return nil }
