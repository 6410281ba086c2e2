package format

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxRecord is the largest record of a CSV file in bytes. Without a bound one quote that
// is never closed would read the rest of the file into memory.
const maxRecord = 64 << 20

var (
	errOpenQuote  = errors.New("a quoted field has no closing quote")
	errLongRecord = fmt.Errorf("a record is longer than %d MiB; is a quote missing?", maxRecord>>20)
)

// csvField is a field of a CSV record. An empty field without quotes is null; "" is the
// empty string.
type csvField struct {
	text   []byte
	quoted bool
}

// isNull reports whether the field is null.
func (f csvField) isNull() bool { return !f.quoted && len(f.text) == 0 }

// csvReader divides a stream into the records and fields of RFC 4180. It differs from
// encoding/csv in two ways: it keeps a CR before an LF within quotes, and it knows whether
// an empty field has quotes.
//
// A record ends at the first LF, or CR LF, that is outside quotes. If the first MiB of a file has a CR alone
// and no LF outside quotes, as in files of old Macs, a CR alone ends records, too; an LF that ends an empty
// line does not count. In other files it belongs to its field: a stray CR in a text must not divide a record,
// also if it is in the first record. A quote is outside quotes if an even number of quotes precedes it in the
// record, also where quotes are doubled. So the end of a record is found by counting quotes, and only records
// with quotes are parsed byte by byte.
//
// Invariant: buf[at:n] has been read from src and does not belong to a returned record.
type csvReader struct {
	src       io.Reader
	separator []byte
	buf       []byte
	at, n     int
	eof       bool
	failed    error // of the source, which the next fill returns
	ends      csvEnds
	single    bool       // each line is a record, also with an open quote
	cut       bool       // a record ends with its first line if that line has another fault than an open quote
	line      int64      // number of the first line of the last record, from 1
	lines     int64      // lines that read has consumed
	fields    []csvField // of the last record; slices of buf and of unescaped
	unescaped []byte     // the fields with doubled quotes
}

// csvEnds says which bytes end a record of a file.
//
// Parts of a divided file take the answer of its first line (firstRecord). A part alone could decide
// otherwise than its neighbours, and a record on their border would be lost.
type csvEnds uint8

const (
	endsUnknown csvEnds = iota // until decideEnds
	endsLF                     // LF, and CR LF
	endsCR                     // CR alone, too
)

func newCSVReader(src io.Reader, separator rune) *csvReader {
	return &csvReader{src: src, separator: []byte(string(separator)), buf: make([]byte, fillTo)}
}

// read returns the fields of the next record, which are valid until the next call. An empty
// line is a record with one null. After the last record the error is io.EOF. Errors of the
// record's form are of type *csvError; all others are errors of the source.
func (c *csvReader) read() ([]csvField, error) {
	record, quotes, err := c.next()
	if err != nil {
		return nil, err
	}
	c.line = c.lines + 1
	c.fields = c.fields[:0]
	// Nearly all records. Without a quote the separators are the only borders, so a search finds them all.
	if quotes == 0 {
		c.lines++
		c.split(trimLineEnd(record))
		return c.fields, nil
	}
	c.lines += c.countLines(record)
	if err := c.parse(trimLineEnd(record)); err != nil {
		return nil, &csvError{c.line, err}
	}
	return c.fields, nil
}

// next returns the bytes of the next record with its line end, and the number of its quotes.
func (c *csvReader) next() (record []byte, quotes int, err error) {
	if c.ends == endsUnknown {
		c.decideEnds()
	}
	size := 0 // of the complete lines of the record
	for {
		end, err := c.lineEnd(size)
		if err != nil {
			return nil, 0, err
		}
		if end == 0 {
			return nil, 0, io.EOF
		}
		// Only of this line: size is where the lines that were counted before end.
		quotes += bytes.Count(c.buf[c.at+size:c.at+end], []byte{'"'})
		// At the end of the file an open quote ends the record, too: parse finds the error.
		// end == size says that lineEnd found no further byte: the file is at its end.
		if quotes%2 == 0 || end == size || c.single {
			record = c.buf[c.at : c.at+end]
			c.at += end
			return record, quotes, nil
		}
		// A quote in a field without quotes opens nothing. Were it counted, the record would take with it all
		// lines up to the next quote, which may be far.
		// Only for the first line, so that a long record is parsed once and not once for each of its lines.
		if record = c.buf[c.at : c.at+end]; c.cut && size == 0 && c.isBad(record) {
			c.at += end
			return record, quotes, nil
		}
		size = end
	}
}

// isBad reports whether no further line can make a record of a line.
func (c *csvReader) isBad(line []byte) bool {
	c.fields = c.fields[:0]
	err := c.parse(trimLineEnd(line))
	return err != nil && err != errOpenQuote
}

// decideEnds reads the beginning of the file and decides which bytes end its records.
func (c *csvReader) decideEnds() {
	// The first look is short, because nearly all files show an LF there. Only for a CR alone the whole
	// MiB is read.
	if c.ends = c.endsWithin(fillTo); c.ends == endsCR {
		c.ends = c.endsWithin(decideTo)
	}
}

// endsWithin decides from the first limit bytes of the file. An LF outside quotes
// decides for LF, unless its record is empty: files of old Macs may begin with an empty line of
// another program.
func (c *csvReader) endsWithin(limit int) csvEnds {
	// An error of the source waits in failed: the records that were read before it are delivered first, as
	// without this look ahead.
	for !c.eof && c.failed == nil && c.n-c.at < limit {
		c.failed = c.fill() // after the records before it
	}
	text := c.buf[c.at:c.n]
	text = text[:min(len(text), limit)]
	ends := endsLF
	// A doubled quote toggles twice, so the parity is right without looking at pairs.
	for quoted, empty := false, true; len(text) > 0; {
		i := bytes.IndexAny(text, "\"\r\n")
		if i < 0 {
			break
		}
		empty = empty && i == 0
		switch b := text[i]; {
		case b == '"':
			quoted, empty = !quoted, false
		case quoted:
		case b == '\n':
			if !empty {
				return endsLF
			}
		// A CR that may be the first byte of a CR LF shows nothing.
		case i+1 < len(text) && text[i+1] != '\n' || i+1 == len(text) && c.eof:
			ends = endsCR // unless an LF follows
		}
		text = text[i+1:]
	}
	return ends
}

// decideTo is the number of bytes without an LF outside quotes from which a CR alone ends records.
// The first record of a file with LF ends may be long and have a stray CR.
const decideTo = 1 << 20

// atEnd reports whether there is nothing behind the last record.
func (c *csvReader) atEnd() bool {
	// A Read may return no bytes, so one fill may not be enough.
	for c.at == c.n && !c.eof && c.failed == nil {
		c.failed = c.fill()
	}
	return c.at == c.n && c.failed == nil
}

// lineEnd returns the offset behind the end of the line that starts at an offset from c.at,
// or behind the last byte of the file.
func (c *csvReader) lineEnd(from int) (int, error) {
	for scanned := from; ; {
		text := c.buf[c.at+scanned : c.n]
		i := bytes.IndexByte(text, '\n')
		// Both kinds end a record here: a file of an old Mac may have gained lines with LF at its end.
		if c.ends != endsLF {
			before := text
			if i >= 0 {
				before = text[:i]
			}
			// The CR of a CR LF ends nothing by itself. Behind a CR at the end of the buffer an LF
			// may follow.
			// cr+1 == i is CR LF, which the LF ends. Taking the CR for an end of its record would leave an
			// empty line behind it.
			if cr := bytes.IndexByte(before, '\r'); cr >= 0 && cr+1 != i && (cr+1 < len(text) || c.eof) {
				i = cr
			}
		}
		if i >= 0 {
			return scanned + i + 1, nil
		}
		scanned = c.n - c.at
		if c.eof {
			return scanned, nil
		}
		if c.ends != endsLF && bytes.HasSuffix(text, []byte{'\r'}) {
			scanned-- // look at it again with the next byte
		}
		// Tested where more must be read. Records that already fit into the buffer may be somewhat longer.
		if scanned > maxRecord {
			return 0, &csvError{c.lines + 1, errLongRecord}
		}
		if err := c.fill(); err != nil {
			return 0, err
		}
	}
}

// fill reads more of the source. It moves the bytes of the current record to the front of
// the buffer, and doubles a buffer that the record fills.
func (c *csvReader) fill() error {
	if c.failed != nil {
		return c.failed
	}
	// Moving bytes only when the buffer is full keeps the copies few: a buffer of 64 KiB holds hundreds of
	// records.
	if c.n == len(c.buf) {
		buf := c.buf
		// Otherwise the bytes before at are free, and moving the rest to the front makes room enough.
		if c.at < len(buf)/2 {
			buf = make([]byte, 2*len(buf))
		}
		c.n = copy(buf, c.buf[c.at:c.n])
		c.at, c.buf = 0, buf
	}
	for range maxEmptyReads {
		n, err := c.src.Read(c.buf[c.n:])
		c.n += n
		if err == io.EOF {
			c.eof = true
			return nil
		}
		if n > 0 || err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// maxEmptyReads bounds the calls of a Read that returns no bytes and no error.
const maxEmptyReads = 100

// countLines returns the number of line ends in a record.
func (c *csvReader) countLines(record []byte) int64 {
	n := bytes.Count(record, []byte{'\n'})
	// A CR LF is one end, so it is taken out of the CRs.
	if c.ends == endsCR {
		n += bytes.Count(record, []byte{'\r'}) - bytes.Count(record, []byte("\r\n"))
	}
	return int64(n)
}

// trimLineEnd returns a record without its LF or CR LF. The last line of a file may end with
// a CR alone.
func trimLineEnd(record []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(record, []byte{'\n'}), []byte{'\r'})
}

// split divides a record without quotes.
func (c *csvReader) split(record []byte) {
	for {
		i := bytes.Index(record, c.separator)
		if i < 0 {
			c.fields = append(c.fields, csvField{text: record})
			return
		}
		c.fields = append(c.fields, csvField{text: record[:i]})
		record = record[i+len(c.separator):]
	}
}

// parse divides a record with quotes.
func (c *csvReader) parse(record []byte) error {
	c.unescaped = c.unescaped[:0]
	for {
		var f csvField
		// Only the first byte of a field opens quotes. By RFC 4180 a space before it is a part of the text.
		if len(record) > 0 && record[0] == '"' {
			text, rest, err := c.quoted(record[1:])
			if err != nil {
				return err
			}
			f, record = csvField{text, true}, rest
			// Such text usually follows a quote that its writer forgot to double. Joining it to the field
			// would hide that.
			if len(rest) > 0 && !bytes.HasPrefix(rest, c.separator) {
				return fmt.Errorf("field %d goes on after its closing quote, with %.20q", len(c.fields)+1, rest)
			}
		} else {
			end := bytes.Index(record, c.separator)
			if end < 0 {
				end = len(record)
			}
			if f.text, record = record[:end], record[end:]; bytes.IndexByte(f.text, '"') >= 0 {
				return fmt.Errorf("field %d has a quote and does not begin with one: %.40q; such a field needs quotes, and two of them for each of its own", len(c.fields)+1, f.text)
			}
		}
		c.fields = append(c.fields, f)
		if len(record) == 0 {
			return nil
		}
		record = record[len(c.separator):] // a record that ends here has one more field, an empty one
	}
}

// quoted returns the content of a quoted field and the bytes behind its closing quote. s
// begins behind the opening quote.
func (c *csvReader) quoted(s []byte) (text, rest []byte, err error) {
	start := len(c.unescaped)
	for {
		i := bytes.IndexByte(s, '"')
		if i < 0 {
			return nil, nil, errOpenQuote
		}
		// The closing quote. A field without doubled ones stays a slice of the record, and nothing is copied.
		if i+1 == len(s) || s[i+1] != '"' {
			text, rest = s[:i], s[i+1:]
			break
		}
		// One of the two quotes is kept.
		c.unescaped = append(c.unescaped, s[:i+1]...)
		s = s[i+2:]
	}
	if len(c.unescaped) > start {
		// If append moves the bytes, the fields before keep the old array, which stays unchanged.
		c.unescaped = append(c.unescaped, text...)
		text = c.unescaped[start:]
	}
	return text, rest, nil
}

// csvError is an error of a record's form. Reading the record again does not help.
type csvError struct {
	line int64 // of the record's start, in the part of the file that is read
	err  error
}

// Error returns the text of the error.
func (e *csvError) Error() string { return fmt.Sprintf("record on line %d: %v", e.line, e.err) }

// Unwrap returns the reason.
func (e *csvError) Unwrap() error { return e.err }
