// Package format reads files of records with fields as lines of text, so that mappers in
// any language read them like text files, and writes lines as such files.
//
// A Format turns the records of a file into lines, and a Writer turns lines into records. By default a line
// has the fields in the order of the columns with a TAB between them. TAB, LF, CR and backslash in a field
// are written \t, \n, \r and \\, and null is \N, as in PostgreSQL's COPY and in Hive. With the option as=json
// a line is a JSON object.
//
// The formats csv, json and sequence are always there. A program enables the formats with
// large libraries, parquet and avro, by the feature of package mapreduce/formats.
//
// A file passes through four hands. Package input finds its format, by the user's choice or by Identify, and
// divides it if Divide allows that. Open wraps the source, so that an error of storage is distinguished from
// a fault of the content (watched). The format decodes records and passes each field to a Line, which tests
// the conditions and writes the field's text. reader collects lines for the engine.
//
// To add a format: implement Records, Types if its files state the types of their columns, and Rows if it is
// written. Add its name to Names and OutputNames, and its Format to builtin, or to enabled if it links a
// large library. If it compresses parts of a file, partCodecs lists its codecs. A suffix decides before the
// first bytes do (input.contentOf), so that a damaged .parquet file is an error and not text.
package format

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
)

// The names of formats.
const (
	Auto     = "auto" // by a file's first bytes: parquet, avro, sequence, else text
	Text     = "text"
	CSV      = "csv"
	JSON     = "json" // lines with an object each
	Parquet  = "parquet"
	Avro     = "avro"
	Sequence = "sequence" // Hadoop's SequenceFile
)

// Names are the names that Parse accepts.
var Names = []string{Auto, Text, CSV, JSON, Parquet, Avro, Sequence}

// Source is the part of a file that one Records reads.
type Source struct {
	// File and Size are the whole file, for binary formats. A group of records, such as a
	// row group of Parquet, belongs to the source if it starts at From or later and before
	// To. The first group of a file starts at 0.
	File     io.ReaderAt
	Size     int64
	From, To int64
	// Text is the content for csv and json: the lines that start in the source.
	Text io.Reader
	// FirstLine returns the first line of the file, for a Text that starts later; else it
	// is nil.
	FirstLine func() ([]byte, error)
	// Partitions are the columns in the path of the file.
	Partitions []Partition
	// CountGroups, if not nil, is called if there are conditions, with the numbers of groups of records,
	// such as row groups, that belong to the source and are read, and that the conditions exclude by
	// the file's statistics of the groups.
	CountGroups func(read, excluded int)
	// CountBad, if not nil, is called for each record that Spec.SkipBad leaves out.
	CountBad func()
	// Pauses allows Open's reader to return no bytes and no error after many records that do not meet the
	// conditions. The caller can then report that it is alive, and stop.
	Pauses bool
	// Decompress returns the decompressed content of a stream. codec is a name such as gzip.
	Decompress func(codec string, r io.Reader) (io.ReadCloser, error)
}

// bad counts a record that is left out.
func (s *Source) bad() {
	if s.CountBad != nil {
		s.CountBad()
	}
}

// Records reads the records of a source. One goroutine uses it.
type Records interface {
	// Next appends the line of the next record to buf, with its LF, or nothing if the record does not meet
	// the conditions, or is an empty line of a file. After the last record the error is io.EOF. Errors say
	// where in the file they are.
	Next(buf []byte) ([]byte, error)
	// Columns returns the names of all columns of the file and of its path. It is nil if the file has
	// none, such as an empty CSV file, and for JSON lines, whose records name their fields.
	Columns() []string
	Close() error
}

// Format is one format of files.
type Format struct {
	Name string
	// Suffixes and Magic identify files of a binary format if the user names no format.
	Suffixes []string
	Magic    func(head []byte) bool // nil for formats of text
	// Divide reports whether several sources may share a file.
	Divide func(s *Spec) bool
	Open   func(src *Source, s *Spec) (Records, error)

	// Create begins an output file. It is nil for a format that can only be read. o has
	// columns. codec is for formats that compress parts of their files.
	Create func(w io.Writer, o *Output, codec string) (Rows, error)
	// UTF8 says that strings in output files must be UTF-8.
	UTF8 bool
}

// Binary reports whether the format is identified by a file's first bytes.
func (f *Format) Binary() bool { return f.Magic != nil }

// always reports true.
func always(*Spec) bool { return true }

// builtin are the formats that every program has.
// Text is not among them: package input reads lines without a Records, because a line needs no decoding. JSON
// lines can be divided at every LF, since JSON writes an LF in a text as \n. A CSV file can be divided only
// if the user promises that no quoted field has an LF.
var builtin = []*Format{
	{Name: CSV, Divide: func(s *Spec) bool { return s.SingleLines }, Open: openCSV, Create: createCSV},
	{Name: JSON, Divide: always, Open: openJSON, Create: createJSON, UTF8: true},
	{Name: Sequence, Magic: isSequence, Divide: always, Open: openSequence, Create: createSequence},
}

// enabled has the other formats, by name.
// One pointer for each format and no map: Enable may run while a job of the same process reads files, and a
// pointer needs no lock on that path.
var enabled = struct{ parquet, avro atomic.Pointer[Format] }{}

// Enable adds formats to this process, parquet and avro. It may be called any number of
// times, from any goroutine.
func Enable(formats ...*Format) {
	for _, f := range formats {
		switch f.Name {
		case Parquet:
			enabled.parquet.Store(f)
		case Avro:
			enabled.avro.Store(f)
		}
	}
}

// All returns the formats that this process reads.
func All() []*Format {
	all := slices.Clone(builtin)
	for _, p := range []*atomic.Pointer[Format]{&enabled.parquet, &enabled.avro} {
		if f := p.Load(); f != nil {
			all = append(all, f)
		}
	}
	return all
}

// Get returns a format by its name. The error for a format that is not enabled names the
// option that the program lacks.
func Get(name string) (*Format, error) {
	for _, f := range All() {
		if f.Name == name {
			return f, nil
		}
	}
	if name == Parquet || name == Avro {
		return nil, fmt.Errorf("this program has no %s: pass formats.Readers() of package mapreduce/formats to mapreduce.Main or in Options.Features", name)
	}
	return nil, fmt.Errorf("unknown format %q (%s)", name, strings.Join(Names, ", "))
}

// Identify returns the binary format of a file with the given first bytes, or nil.
func Identify(head []byte) *Format {
	for _, f := range All() {
		if f.Magic != nil && f.Magic(head) {
			return f
		}
	}
	return nil
}

// BySuffix returns the binary format of files with a suffix such as .avro, or nil.
func BySuffix(suffix string) *Format {
	for _, f := range All() {
		if slices.Contains(f.Suffixes, suffix) {
			return f
		}
	}
	return nil
}

// reader returns the lines of records as one stream. Closing it closes records.
type reader struct {
	records Records
	buf     []byte // lines; reused
	rest    []byte // the part of buf that is not read yet
	err     error

	source *watched // counts the bytes; nil if the reader makes no pauses
	before int64    // bytes of source at the last pause
	drops  int      // records without a line since the last pause
}

// fillTo is the number of bytes that reader collects before it returns lines.
const fillTo = 64 << 10

// A reader pauses after a number of records without a line or of bytes of the source, whichever comes
// first: a row group in memory has many records without a byte, and a record may have 64 MiB.
const (
	pauseRecords = 1024
	pauseBytes   = 4 << 20
)

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 && r.err == nil {
		if r.pause() {
			return 0, nil
		}
		r.fill()
	}
	// An error waits until the lines before it are consumed. So the job fails at the same record, whatever
	// the size of p is.
	if len(r.rest) == 0 {
		return 0, r.err
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// due reports whether the next pause is due.
func (r *reader) due() bool {
	return r.source != nil && (r.drops >= pauseRecords || r.source.bytes-r.before >= pauseBytes)
}

// pause reports whether a pause is due, and begins to count for the next one.
func (r *reader) pause() bool {
	if !r.due() {
		return false
	}
	r.before, r.drops = r.source.bytes, 0
	return true
}

// fill collects lines until there are enough or a pause is due. A panic of a format's library over a damaged
// file becomes an error. The recovery is for parquet-go, which panics over some damaged pages. Without it one
// bad file would end a worker's child, or all jobs of slotwise run, without the name of the file. The lines
// that fill has collected are dropped with the error: the task fails, and its output is never committed.
func (r *reader) fill() {
	defer func() {
		if p := recover(); p != nil {
			r.rest, r.err = nil, fmt.Errorf("the file is damaged: %v", p)
		}
	}()
	buf := r.buf[:0]
	// Lines are collected, because a call of Read for each line would cost more than the decoding of a short
	// one. The test of due is inside the loop: a condition that few records meet would otherwise keep the
	// caller here for a whole row group, and its heartbeat would report no progress.
	for len(buf) < fillTo && r.err == nil && !r.due() {
		var next []byte
		if next, r.err = r.records.Next(buf); r.err == nil {
			if len(next) == len(buf) {
				r.drops++
			}
			buf = next
		}
	}
	// Next may have moved the bytes to a larger array. Keeping that array saves an allocation for each later
	// fill.
	r.buf, r.rest = buf, buf
}

// Close implements io.Closer.
func (r *reader) Close() error { return r.records.Close() }

// Open returns the lines of a source. A panic of a format's library over a damaged file
// becomes an error.
func Open(src *Source, s *Spec) (r io.ReadCloser, err error) {
	defer func() {
		if p := recover(); p != nil {
			r, err = nil, fmt.Errorf("the file is damaged: %v", p)
		}
	}()
	// At the task and not only in the plan: a worker's program may lack a format that the submitter's has.
	f, err := Get(s.Name)
	if err != nil {
		return nil, err
	}
	// From here on the format sees only the watched source, so that no read escapes the count of bytes
	// and of failures.
	w := watch(src)
	records, err := f.Open(&w.Source, s)
	if err != nil {
		return nil, w.explain(err)
	}
	// After Open, which reads the types, and before the first record: a condition that no record can
	// meet would give an empty result without an error.
	if err := s.checkTypes(records, src.Partitions); err != nil {
		return nil, w.explain(errors.Join(err, records.Close()))
	}
	lines := &reader{records: records}
	if src.Pauses {
		lines.source = w
	}
	return lines, nil
}

// Columns returns the names of a file's columns, in its order, or nil if the file has
// none; see Records.Columns. Its errors are Open's.
func Columns(src *Source, s *Spec) (names []string, err error) {
	r, err := Open(src, s)
	if err != nil {
		return nil, err
	}
	return r.(*reader).records.Columns(), r.Close()
}
