package format

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/slotwise/slotwise/internal/base/retry"
)

// utf8Mark is the byte order mark that some programs write first.
var utf8Mark = []byte("\xef\xbb\xbf")

// errUTF16 refuses text whose bytes would become records with a zero between all characters.
var errUTF16 = errors.New("it is text in UTF-16, by its first two bytes: make a copy with iconv -f UTF-16 -t UTF-8")

// isUTF16 reports whether a file of text begins with the byte order mark of UTF-16.
func isUTF16(head []byte) bool {
	return bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff"))
}

// csvRecords reads the records of a CSV file, as RFC 4180 describes them.
type csvRecords struct {
	src   *Source
	csv   *csvReader
	part  bool     // the source begins within the file
	skip  bool     // records that have not the form of CSV are left out
	names []string // of the fields
	all   []string // names, and the columns of the path
	line  *Line
	at    []int      // the wanted columns
	held  []csvField // the first record of a file without a header; nil after Next has returned it
	nulls int        // empty lines before held, each a record
}

// openCSV implements Format.Open.
func openCSV(src *Source, s *Spec) (Records, error) {
	b := bufio.NewReaderSize(src.Text, fillTo)
	head, err := b.Peek(len(utf8Mark))
	if err != nil && err != io.EOF {
		return nil, err
	}
	// Excel writes this mark, and it would become a part of the first name. A source with FirstLine begins
	// elsewhere in the file, where the same bytes are a character.
	if src.FirstLine == nil && bytes.Equal(head, utf8Mark) {
		b.Discard(len(utf8Mark))
	}
	// By the mark alone. A file in UTF-16 without one has a zero byte in most characters and fails by its
	// columns.
	if src.FirstLine == nil && isUTF16(head) {
		return nil, errUTF16
	}
	r := &csvRecords{src: src, csv: newCSVReader(b, s.Separator), part: src.FirstLine != nil, skip: s.SkipBad}
	// The promise that no field has an LF bounds what a quote that is never closed takes with it.
	// Without the promise, bad=skip may still lose all lines up to the next quote.
	r.csv.single, r.csv.cut = s.SkipBad && s.SingleLines, s.SkipBad
	var first []csvField
	// A part lacks the names and a sure line end. Both come from the file's first record, which costs
	// one small read for each task.
	if r.part {
		first, r.csv.ends, err = firstRecord(src, s)
	} else {
		first, err = r.first()
	}
	if err == io.EOF {
		return r.openEmpty(s)
	}
	if err != nil {
		// Even with bad=skip: without this record there is no number of fields by which others could be
		// called bad.
		return nil, fmt.Errorf("the first line: %w", err)
	}
	names := make([]string, len(first))
	for i := range names {
		if names[i] = string(first[i].text); s.NoHeader {
			names[i] = strconv.Itoa(i + 1)
		}
	}
	// The first record is data in such a file. A part has read it only for the number of columns, and the
	// source at 0 returns it.
	if s.NoHeader && !r.part {
		r.held = first
	}
	// Such a file gives no record. It may have both line ends, so that all rows are in the header.
	if !s.NoHeader && !r.part && src.To >= src.Size && innerCR(first) && r.csv.atEnd() {
		return nil, retry.Permanent(errMixedEnds)
	}
	// In a file of one column an empty line is a record with null, as DuckDB writes it. With a header the
	// lines before it are no data either.
	if !s.NoHeader || len(names) > 1 {
		r.nulls = 0 // empty lines before the first record of several fields are no records
	}
	return r, r.choose(s, names)
}

// errMixedEnds refuses a file whose header is all that it has.
var errMixedEnds = errors.New("the header has a CR alone, and no record follows it: does the file mix the line ends CR and LF? Convert it, or put quotes around the name with the CR")

// innerCR reports whether there is a CR outside quotes in a record, apart from its end.
func innerCR(record []csvField) bool {
	for i, f := range record {
		if at := bytes.IndexByte(f.text, '\r'); at >= 0 && !f.quoted && (i+1 < len(record) || at+1 < len(f.text)) {
			return true
		}
	}
	return false
}

// first returns the fields of the first line that is not empty, and counts the lines before
// it in r.nulls.
func (r *csvRecords) first() ([]csvField, error) {
	for {
		fields, err := r.csv.read()
		if err != nil || len(fields) > 1 || !fields[0].isNull() {
			return fields, err
		}
		r.nulls++
	}
}

// openEmpty opens a file without a first record. If the other files of the input have one
// column and no header, its empty lines are nulls.
func (r *csvRecords) openEmpty(s *Spec) (Records, error) {
	// With several columns an empty line is no record. s.First is the only hint here at how many the input
	// has.
	if !s.NoHeader || r.nulls == 0 || s.First != nil && len(s.First.Columns) != 1 {
		r.nulls = 0
		return r, nil
	}
	err := r.choose(s, []string{"1"})
	r.all = nil // another file decides how many columns the input has
	return r, err
}

// choose chooses the columns.
func (r *csvRecords) choose(s *Spec, names []string) error {
	sel, err := s.Select(r.src, names)
	if err == nil {
		r.names, r.all, r.at, r.line = names, sel.Names, sel.At, sel.Line
	}
	return err
}

// firstRecord returns the fields of the file's first record, and which bytes end records: a part
// of the file does not show it.
func firstRecord(src *Source, s *Spec) ([]csvField, csvEnds, error) {
	line, err := src.FirstLine()
	if err != nil {
		return nil, endsUnknown, err
	}
	c := newCSVReader(bytes.NewReader(bytes.TrimPrefix(line, utf8Mark)), s.Separator)
	fields, err := c.read()
	// The source at 0 would skip the empty line and find the names behind it. A part would have to read on,
	// and FirstLine returns one line.
	if err == io.EOF || err == nil && len(fields) == 1 && fields[0].isNull() {
		err = errors.New("it is empty, and parts of the file need its names: remove it, or leave out lines=single")
	}
	return fields, c.ends, err
}

// Next implements Records.
func (r *csvRecords) Next(buf []byte) ([]byte, error) {
	if r.nulls > 0 {
		r.nulls--
		return r.append(buf, []csvField{{}}), nil
	}
	// Its slices belong to the csvReader's buffer. They are valid here, because nothing has called read
	// since.
	fields := r.held
	if r.held = nil; fields == nil {
		var err error
		if fields, err = r.read(); err != nil || fields == nil {
			return buf, err
		}
	}
	return r.append(buf, fields), nil
}

// append appends the line of a record.
func (r *csvRecords) append(buf []byte, fields []csvField) []byte {
	r.line.Begin(buf)
	for _, at := range r.at {
		if f := fields[at]; f.isNull() {
			r.line.Null()
		} else {
			r.line.Untyped(f.text)
		}
	}
	return r.line.End()
}

// read returns the fields of the next record. It returns nil for an empty line in a file of several
// columns: no record of such a file is an empty line, and other readers skip it, too. It also returns nil
// for a record that is left out.
func (r *csvRecords) read() ([]csvField, error) {
	fields, err := r.csv.read()
	switch {
	case err != nil:
		return nil, r.leaveOut(err)
	case len(fields) == len(r.names):
		return fields, nil
	// A record with too few or too many fields has a wrong separator or a missing quote somewhere. Filling it
	// with nulls, as some readers do, would move values to other columns.
	case len(fields) > 1 || !fields[0].isNull():
		return nil, r.leaveOut(&csvError{r.csv.line, fmt.Errorf("it has %s, and the first record of the file has %d",
			count(len(fields), "field"), len(r.names))})
	}
	return nil, nil
}

// leaveOut counts a record that has not the form of CSV and returns nil if such records are left out, and otherwise
// explains the error. A record that is too long was not read to its end, so the reader cannot continue behind it.
func (r *csvRecords) leaveOut(err error) error {
	var form *csvError
	// Only an error of the form. A failed read must fail the attempt, or bad=skip would drop the rest of a
	// file.
	if r.skip && errors.As(err, &form) && !errors.Is(err, errLongRecord) {
		r.src.bad()
		return nil
	}
	return r.explain(err)
}

// explain says that line numbers count from the start of the part, where that is not the
// start of the file, and marks errors of a record's form as permanent.
func (r *csvRecords) explain(err error) error {
	var form *csvError
	if !errors.As(err, &form) {
		return err
	}
	if r.part {
		err = fmt.Errorf("in the part of the file that this task reads, %w", err)
	}
	return retry.Permanent(err)
}

// Columns implements Records.
func (r *csvRecords) Columns() []string { return r.all }

// Close implements Records.
func (r *csvRecords) Close() error { return nil }
