package format

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// maxRecord is the largest record of a CSV file in bytes. Without a bound one quote that
// is never closed would read the rest of the file into memory.
const maxRecord = 64 << 20

// utf8Mark is the byte order mark that some programs write first.
var utf8Mark = []byte("\xef\xbb\xbf")

// csvRecords reads the records of a CSV file, as RFC 4180 describes them.
type csvRecords struct {
	text *boundedReader
	csv  *csv.Reader
	line *Line
	at   []int // the wanted columns
	held []string
}

// openCSV implements Format.Open.
func openCSV(src *Source, s *Spec) (Records, error) {
	r := &csvRecords{text: &boundedReader{left: maxRecord}}
	b := bufio.NewReaderSize(src.Text, fillTo)
	if head, _ := b.Peek(len(utf8Mark)); src.FirstLine == nil && bytes.Equal(head, utf8Mark) {
		b.Discard(len(utf8Mark))
	}
	r.text.r = b
	r.csv = newCSV(r.text, s)
	var names []string
	var err error
	if src.FirstLine != nil {
		names, err = firstRecord(src, s)
	} else {
		names, err = r.csv.Read()
	}
	if err == io.EOF {
		return r, nil // an empty file
	}
	if err != nil {
		return nil, fmt.Errorf("the first line: %w", csvError(err))
	}
	names = slices.Clone(names)
	r.csv.FieldsPerRecord = len(names)
	if s.NoHeader {
		if src.FirstLine == nil {
			r.held = slices.Clone(names)
		}
		for i := range names {
			names[i] = strconv.Itoa(i + 1)
		}
	}
	if r.at, err = s.Choose(names); err != nil {
		return nil, err
	}
	chosen := make([]string, len(r.at))
	for i, at := range r.at {
		chosen[i] = names[at]
	}
	r.line = NewLine(s, chosen)
	r.csv.ReuseRecord = true
	return r, nil
}

func newCSV(r io.Reader, s *Spec) *csv.Reader {
	c := csv.NewReader(r)
	c.Comma = s.Separator
	return c
}

// firstRecord returns the fields of the file's first line.
func firstRecord(src *Source, s *Spec) ([]string, error) {
	line, err := src.FirstLine()
	if err != nil {
		return nil, err
	}
	fields, err := newCSV(bytes.NewReader(bytes.TrimPrefix(line, utf8Mark)), s).Read()
	if err == io.EOF {
		err = errors.New("it is empty, and parts of the file need its names: remove it, or leave out lines=single")
	}
	return fields, err
}

// Next implements Records.
func (r *csvRecords) Next(buf []byte) ([]byte, error) {
	fields := r.held
	if fields == nil {
		r.text.left = maxRecord
		var err error
		if fields, err = r.csv.Read(); err == io.EOF {
			return buf, err
		} else if err != nil {
			return buf, csvError(err)
		}
	}
	r.held = nil
	r.line.Begin(buf)
	for _, at := range r.at {
		r.line.String([]byte(fields[at]))
	}
	return r.line.End(), nil
}

// csvError returns an error with the line of the record.
func csvError(err error) error {
	var parse *csv.ParseError
	if !errors.As(err, &parse) {
		return err
	}
	return fmt.Errorf("record on line %d (of the part that this task reads): %w", parse.StartLine, parse.Err)
}

// Close implements Records.
func (r *csvRecords) Close() error { return nil }

// boundedReader fails when a record is too long.
type boundedReader struct {
	r    io.Reader
	left int // bytes that the record may still have
}

// Read implements io.Reader.
func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, fmt.Errorf("a record is longer than %d MiB; is a quote missing?", maxRecord>>20)
	}
	n, err := b.r.Read(p)
	b.left -= n
	return n, err
}
