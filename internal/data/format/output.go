package format

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/slotwise/slotwise/internal/base/retry"
)

// Output is a format of output files with its options, the value of --output-format.
type Output struct {
	Name string // csv, json, parquet, avro or sequence
	// NoHeader leaves out the first line of a CSV file, which has the names of the columns.
	NoHeader bool
	// Separator is the character between the fields of a CSV file.
	Separator rune
	// NoEscapes says that the fields of lines are not escaped; see Writer.
	NoEscapes bool
	// Typed says that keys and values of a SequenceFile are typed bytes, not Text.
	Typed bool
	// Columns are the columns of the file. Empty means key and value.
	Columns []Column
}

// Column is a column of an output file.
type Column struct {
	Name string
	Type Type
}

// Type is the type of a column.
type Type uint8

// The types of columns.
const (
	String Type = iota
	Bytes       // base64 in JSON
	Int         // 64 bits
	Float       // 64 bits
	Bool
)

var typeNames = []string{"string", "bytes", "int", "float", "bool"}

// String returns the name of the type in the option columns.
func (t Type) String() string { return typeNames[t] }

// OutputNames are the formats that ParseOutput accepts.
var OutputNames = []string{Text, CSV, JSON, Parquet, Avro, Sequence}

// outputUsage explains the grammar in error messages.
const outputUsage = "want text, csv, json, parquet, avro or sequence, then options such as columns=word,count:int; csv has header=no and separator=C"

// maxColumns is the largest number of columns of an output file. Each column of a Parquet
// file needs its own buffers.
const maxColumns = 1000

// pairColumns are the columns of a format without the option columns.
var pairColumns = []Column{{Name: "key"}, {Name: "value"}}

// ParseOutput parses a format of output files: its name, and options after commas. The
// option columns=A,B:TYPE is the last one. The result is nil for "" and for text.
func ParseOutput(text string) (*Output, error) {
	o := &Output{Separator: ','}
	// The comma before the text makes columns= an option also where it comes first.
	options, columns, named := strings.Cut(","+text, ",columns=")
	words := strings.Split(options[min(1, len(options)):], ",")
	o.Name = words[0]
	if !slices.Contains(OutputNames, o.Name) && o.Name != "" {
		return nil, fmt.Errorf("%q: %s", o.Name, outputUsage)
	}
	for _, w := range words[1:] {
		if err := o.option(w); err != nil {
			return nil, err
		}
	}
	if named {
		if err := o.setColumns(strings.Split(columns, ",")); err != nil {
			return nil, err
		}
	}
	// Last, so that a wrong option of format text is an error with its name and not ignored.
	if o.Name != "" && o.Name != Text {
		return o, nil
	}
	if len(words) > 1 || named {
		return nil, fmt.Errorf("text has no options; columns are for csv, json, parquet and avro")
	}
	// A nil Output means TextOutputFormat: package output writes key, TAB and value itself, without rows and
	// escapes.
	return nil, nil
}

// option applies one option.
func (o *Output) option(w string) error {
	name, value, _ := strings.Cut(w, "=")
	if o.Name != CSV && (name == "header" || name == "separator") {
		return fmt.Errorf("%q is an option of csv, not of %s", w, o.Name)
	}
	switch {
	case w == "header=no":
		o.NoHeader = true
	// For commands that know no escapes and print paths of Windows or regular expressions.
	case w == "escapes=no":
		o.NoEscapes = true
	case w == "as=typed" && o.Name == Sequence:
		o.Typed = true
	case name == "separator":
		r, ok := separator(value)
		if !ok {
			return fmt.Errorf("%q: want one character, or tab", w)
		}
		o.Separator = r
	default:
		return fmt.Errorf("unknown option %q: %s", w, outputUsage)
	}
	return nil
}

// separator returns the character that separates the fields of a CSV file.
func separator(value string) (rune, bool) {
	if value == "tab" {
		return '\t', true
	}
	r, n := utf8.DecodeRuneInString(value)
	return r, n == len(value) && r != utf8.RuneError && !strings.ContainsRune("\"\r\n", r)
}

// setColumns parses the columns: names, each with a type after a colon if it is no string.
func (o *Output) setColumns(list []string) error {
	switch {
	case o.Name == Sequence:
		return fmt.Errorf("a SequenceFile has the columns key and value; leave out columns=")
	case len(list) > maxColumns:
		return fmt.Errorf("%d columns; the most are %d", len(list), maxColumns)
	}
	for _, text := range list {
		c := Column{Name: text}
		if i := strings.LastIndexByte(text, ':'); i >= 0 {
			t := slices.Index(typeNames, text[i+1:])
			if t < 0 {
				return fmt.Errorf("the column %q has an unknown type (%s)", text, strings.Join(typeNames, ", "))
			}
			c = Column{text[:i], Type(t)}
		}
		// The name becomes a word of this option, a header of CSV and a key of JSON. TAB and line breaks
		// would survive in none of the three.
		if c.Name == "" || !utf8.ValidString(c.Name) || strings.ContainsAny(c.Name, "\t\r\n") {
			return fmt.Errorf("the column %q has no usable name: it is empty or has a TAB, a line break or bytes that are not UTF-8", text)
		}
		// Here and not when the first task opens its file: the library would refuse the schema after the maps
		// have run.
		if o.Name == Avro && !avroName(c.Name) {
			return fmt.Errorf("the column %q has a name that Avro does not allow: letters of ASCII, digits and _, and no digit first", c.Name)
		}
		if slices.ContainsFunc(o.Columns, func(x Column) bool { return x.Name == c.Name }) {
			return fmt.Errorf("column %s is named twice", c.Name)
		}
		o.Columns = append(o.Columns, c)
	}
	return nil
}

// avroName reports whether a column may have a name in Avro files.
func avroName(s string) bool {
	for i, c := range []byte(s) {
		if (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '_' && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// String returns the text that ParseOutput parses. It is "" for nil.
func (o *Output) String() string {
	if o == nil {
		return ""
	}
	words := []string{o.Name}
	if o.NoHeader {
		words = append(words, "header=no")
	}
	if o.NoEscapes {
		words = append(words, "escapes=no")
	}
	if o.Typed {
		words = append(words, "as=typed")
	}
	if o.Separator != ',' {
		words = append(words, "separator="+strings.ReplaceAll(string(o.Separator), "\t", "tab"))
	}
	for i, c := range o.Columns {
		word := c.Name
		// A name with a colon needs a type behind it: the last colon would divide the name otherwise.
		if c.Type != String || strings.Contains(c.Name, ":") {
			word += ":" + typeNames[c.Type]
		}
		if i == 0 {
			word = "columns=" + word
		}
		words = append(words, word)
	}
	return strings.Join(words, ",")
}

// partCodecs are the codecs of formats whose files are compressed in parts. Files of other
// formats are compressed as a whole.
// lz4 is absent everywhere: readers of Parquet disagree about its framing, Avro has no such codec, and
// Hadoop's Lz4Codec has other blocks.
var partCodecs = map[string][]string{
	Parquet:  {"none", "gzip", "zstd", "snappy"},
	Avro:     {"none", "deflate", "zstd", "snappy"},
	Sequence: {"none", "gzip", "zstd", "deflate", "snappy"},
}

// InParts reports whether the format compresses parts of its files itself.
func (o *Output) InParts() bool { return partCodecs[o.Name] != nil }

// CheckCodec returns an error if files of the format cannot be compressed with a codec.
func (o *Output) CheckCodec(codec string) error {
	if all := partCodecs[o.Name]; all != nil && !slices.Contains(all, codec) {
		return fmt.Errorf("a file of format %s cannot be compressed with %s; use one of %s", o.Name, codec, strings.Join(all, ", "))
	}
	return nil
}

// Check returns an error if this program cannot write the format with a codec.
func (o *Output) Check(codec string) error {
	if _, err := Get(o.Name); err != nil {
		return err
	}
	return o.CheckCodec(codec)
}

// Extension returns what the names of the format's files end with.
func (o *Output) Extension() string {
	if o.Name == Sequence {
		return "" // as in Hadoop
	}
	return "." + o.Name
}

// columns returns the columns of the file.
func (o *Output) columns() []Column {
	if len(o.Columns) == 0 {
		return pairColumns
	}
	return o.Columns
}

// Value is a field of a row. Only the field of its column's type is set.
//
// Bytes is a slice of the caller's key or value, or of Writer.buf. It is valid until the next Write, so a
// Rows that buffers must copy it.
type Value struct {
	Null  bool
	Bytes []byte // of strings, too
	Int   int64
	Float float64
	Bool  bool
}

// Rows writes the rows of one file. One goroutine uses it.
type Rows interface {
	// WriteRow writes a row, which has a value for each column. It keeps no reference to
	// the row.
	WriteRow(row []Value) error
	// Close writes the buffered rows and the end of the file.
	Close() error
}

// Writer divides records into the fields of rows.
//
// A key that has a value is the first column, byte for byte. Its value is the second one, byte
// for byte, if there are two columns. The value for more columns, or a record that is only a key or
// only a value, is called the line. It has as many fields as there are columns, with a TAB between
// them; the field of one column may contain TABs. Fields have the escapes that Format describes,
// unless NoEscapes is set. Without the option columns a line is key and value, divided at the first
// TAB and without escapes.
//
// The rule exists for programs of both kinds. A mapper in Go emits key and value, which may contain any
// bytes. A streaming command prints one line, in which a TAB can only be a border.
type Writer struct {
	rows    Rows
	utf8    bool // strings must be UTF-8
	columns []Column
	named   bool // the columns, by the user
	escapes bool
	row     []Value
	buf     []byte // fields without their escapes
	n       int64  // records so far
}

// NewWriter begins a file of a format. codec compresses it if the format compresses parts of
// its files itself.
func NewWriter(w io.Writer, o *Output, codec string) (*Writer, error) {
	if err := o.CheckCodec(codec); err != nil {
		return nil, err
	}
	f, err := Get(o.Name)
	if err != nil {
		return nil, err
	}
	out := &Writer{utf8: f.UTF8, columns: o.columns(), named: len(o.Columns) > 0, escapes: !o.NoEscapes}
	out.row = make([]Value, len(out.columns))
	// A copy with the columns filled in. The caller's Output is the job's, which several tasks of one process
	// share.
	named := *o
	named.Columns = out.columns
	out.rows, err = f.Create(w, &named, codec)
	return out, err
}

// RecordError reports a record that does not fit the columns of the output.
type RecordError struct {
	Number int64 // of the record in its file, from 1
	Err    error
}

// Error returns the text of the error.
func (e *RecordError) Error() string { return fmt.Sprintf("output record %d: %v", e.Number, e.Err) }

// Unwrap returns the reason.
func (e *RecordError) Unwrap() error { return e.Err }

// Is reports true for retry.ErrPermanent: the job's program has written the record, and would
// write it again.
func (*RecordError) Is(target error) bool { return target == retry.ErrPermanent }

// Write writes a record. It keeps no reference to key and value.
func (w *Writer) Write(key, value []byte) error {
	w.n++
	w.buf = w.buf[:0]
	if err := w.divide(key, value); err != nil {
		return &RecordError{w.n, err}
	}
	return w.rows.WriteRow(w.row)
}

// Close ends the file.
func (w *Writer) Close() error { return w.rows.Close() }

// divide fills the row with the fields of a record.
func (w *Writer) divide(key, value []byte) error {
	line, columns, row := value, w.columns, w.row
	switch {
	case key != nil && value != nil:
		if err := w.set(&row[0], &columns[0], key); err != nil {
			return err
		}
		// An error and no silent loss of the value, whichever of the two the job's author meant by the
		// column.
		if columns, row = columns[1:], row[1:]; len(row) == 0 {
			return fmt.Errorf("it has a key and a value, and the format has one column")
		}
	case key != nil:
		line = key
	}
	switch {
	case len(row) == 1 && key != nil && value != nil:
		return w.set(&row[0], &columns[0], line)
	case len(row) == 1:
		// A TAB cannot divide one field, so it is part of the text.
		return w.setField(&row[0], &columns[0], line)
	case !w.named:
		// There are two columns, and the value may have any number of TABs: all after the first
		// belong to it.
		rest, found := []byte(nil), false
		if line, rest, found = bytes.Cut(line, []byte{'\t'}); !found {
			row[1] = Value{Null: true}
		} else if err := w.set(&row[1], &columns[1], rest); err != nil {
			return err
		}
		return w.set(&row[0], &columns[0], line)
	}
	// Counted before any field is set: the message can then state both numbers. Missing fields do not become
	// null, because a command that forgets to escape a TAB would shift its columns unnoticed.
	if n := bytes.Count(line, []byte{'\t'}) + 1; n != len(row) {
		return fmt.Errorf("%.100q has %s, and the format has %s for it", line, count(n, "field"), count(len(row), "column"))
	}
	for i := range row {
		var field []byte
		field, line, _ = bytes.Cut(line, []byte{'\t'})
		if err := w.setField(&row[i], &columns[i], field); err != nil {
			return err
		}
	}
	return nil
}

// setField sets a value from a field of a line, which has escapes unless NoEscapes is set.
func (w *Writer) setField(v *Value, c *Column, field []byte) error {
	// Before the escapes go: an escaped backslash and an N are text.
	if w.escapes && string(field) == `\N` {
		*v = Value{Null: true}
		return nil
	}
	if w.escapes {
		field = w.unescape(field)
	}
	return w.set(v, c, field)
}

// count returns a number with its noun.
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// unescape returns a field without its escapes.
func (w *Writer) unescape(field []byte) []byte {
	if bytes.IndexByte(field, '\\') < 0 {
		return field
	}
	// The row's values are slices of buf. When append grows buf, earlier values keep the old array,
	// which no later write changes.
	from := len(w.buf)
	w.buf = AppendUnescaped(w.buf, field)
	return w.buf[from:]
}

// AppendUnescaped appends a field of a line without its escapes.
//
// A backslash before any other byte disappears and the byte stays, as in PostgreSQL's COPY. A backslash at
// the end of the field stays.
func AppendUnescaped(buf, field []byte) []byte {
	for i := 0; i < len(field); i++ {
		c := field[i]
		if c == '\\' && i+1 < len(field) {
			i++
			switch c = field[i]; c {
			case 't':
				c = '\t'
			case 'n':
				c = '\n'
			case 'r':
				c = '\r'
			}
		}
		buf = append(buf, c)
	}
	return buf
}

// set sets a value from its text. An empty text is null in a column of numbers or of
// truth values.
func (w *Writer) set(v *Value, c *Column, text []byte) (err error) {
	*v = Value{}
	switch {
	case c.Type == Bytes:
		v.Bytes = text
	case c.Type == String:
		if v.Bytes = text; w.utf8 && !utf8.Valid(text) {
			err = fmt.Errorf("%.100q is not UTF-8; declare the column as columns=%s:bytes", text, c.Name)
		}
	// A command prints nothing for a missing number. A string column keeps the empty text, which differs from
	// null there.
	case len(text) == 0:
		v.Null = true
	case c.Type == Int:
		if v.Int, err = strconv.ParseInt(string(text), 10, 64); err != nil {
			err = fmt.Errorf("%.100q is no integer of 64 bits", text)
		}
	case c.Type == Float:
		if v.Float, err = strconv.ParseFloat(string(text), 64); err != nil {
			err = fmt.Errorf("%.100q is no number", text)
		}
	default:
		// The map has 0 for all other words, so both tests need one look each and no second result.
		if v.Bool = truth[string(text)] > 0; truth[string(text)] == 0 {
			err = fmt.Errorf("%.100q is neither true nor false", text)
		}
	}
	if err != nil {
		return fmt.Errorf("column %s: %w", c.Name, err)
	}
	return nil
}

// textRows writes the rows of a format of lines. append appends the line of a row.
type textRows struct {
	w      io.Writer
	buf    []byte
	append func(buf []byte, row []Value) []byte
}

// WriteRow implements Rows.
func (t *textRows) WriteRow(row []Value) error {
	if t.buf = t.append(t.buf, row); len(t.buf) < fillTo {
		return nil
	}
	return t.flush()
}

// flush writes the buffer.
func (t *textRows) flush() error {
	_, err := t.w.Write(t.buf)
	t.buf = t.buf[:0]
	return err
}

// Close implements Rows.
func (t *textRows) Close() error { return t.flush() }

// createJSON begins a file of JSON objects, one on each line.
func createJSON(w io.Writer, o *Output, _ string) (Rows, error) {
	names := make([]string, len(o.Columns))
	for i, c := range o.Columns {
		names[i] = c.Name
	}
	// One Line for the file: it has the names with their quotes and escapes ready, which would otherwise be
	// encoded for each row.
	line := NewLine(&Spec{JSON: true}, names)
	return &textRows{w: w, append: func(buf []byte, row []Value) []byte {
		line.Begin(buf)
		for i := range row {
			switch v, t := &row[i], o.Columns[i].Type; {
			case v.Null:
				line.Null()
			case t == Int:
				line.Int(v.Int)
			case t == Float:
				line.Float(v.Float, 64)
			case t == Bool:
				line.Bool(v.Bool)
			case t == Bytes:
				line.Bytes(v.Bytes)
			default:
				line.String(v.Bytes)
			}
		}
		return line.End()
	}}, nil
}

// createCSV begins a CSV file. Null is an empty field, and an empty string is "".
func createCSV(w io.Writer, o *Output, _ string) (Rows, error) {
	var mark [utf8.UTFMax]byte
	between := mark[:utf8.EncodeRune(mark[:], o.Separator)]
	t := &textRows{w: w, append: func(buf []byte, row []Value) []byte {
		for i := range row {
			if i > 0 {
				buf = append(buf, between...)
			}
			switch v, t := &row[i], o.Columns[i].Type; {
			case v.Null: // in a file of one column an empty line, as DuckDB writes it
			case t == Int:
				buf = strconv.AppendInt(buf, v.Int, 10)
			case t == Float:
				buf = strconv.AppendFloat(buf, v.Float, 'g', -1, 64)
			case t == Bool:
				buf = strconv.AppendBool(buf, v.Bool)
			default:
				buf = appendCSV(buf, v.Bytes, between)
			}
		}
		return append(buf, '\n')
	}}
	// Into the buffer and not to w: a task without records still writes the header, at Close, and a reader of
	// several part files finds one in each.
	if !o.NoHeader {
		for i, c := range o.Columns {
			if i > 0 {
				t.buf = append(t.buf, between...)
			}
			t.buf = appendCSV(t.buf, []byte(c.Name), between)
		}
		t.buf = append(t.buf, '\n')
	}
	return t, nil
}

// appendCSV appends a field of a CSV file, in quotes if RFC 4180 asks for them, if it is
// empty, if a reader might trim it, or if it begins with bytes that a reader removes from the
// start of a file.
func appendCSV(buf, s, separator []byte) []byte {
	// The empty text needs quotes because without them it is null. A space at an end needs them because some
	// readers trim it, and RFC 4180 does not.
	if len(s) > 0 && s[0] != ' ' && s[len(s)-1] != ' ' && !bytes.HasPrefix(s, utf8Mark) && !bytes.ContainsAny(s, "\"\r\n") && !bytes.Contains(s, separator) {
		return append(buf, s...)
	}
	buf = append(buf, '"')
	for {
		i := bytes.IndexByte(s, '"')
		if i < 0 {
			return append(append(buf, s...), '"')
		}
		buf = append(append(buf, s[:i]...), '"', '"')
		s = s[i+1:]
	}
}
