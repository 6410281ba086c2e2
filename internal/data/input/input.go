// Package input finds the input files of a job, divides them into splits, and reads
// the records of a split.
//
// Plan finds and divides the files. It runs once, where the job is submitted. A split
// is plain data, which travels to the node of its map task; Open reads the split
// there.
//
// A reader delivers blocks of whole records. A block fits into a core's second-level
// cache. So a mapper that scans it for lines and words needs no call per record and no
// trip to main memory. Blocks are read into one reused buffer. Only large local files of
// mappers that take whole blocks are mapped into memory (Reader.MapFiles): there a disk
// error becomes a signal.
//
// The parts. find, glob and hadoop list the files of the inputs (found), by the rules of slotwise or of
// Hadoop's FileInputFormat. plan packs them into splits; it opens files only to identify their content.
// refuse has the kinds of files that are errors. codec has the compressions of whole files, and contentOf
// chooses codec and format of a file, in the plan and again at the task. reader opens the pieces of a split;
// window and mapped cut them into blocks.
//
// One rule joins the two ends: a record belongs to the piece in which its first byte is. The reader of a
// piece therefore reads beyond its end, and skips what the piece before has read. Each kind of content has
// its own form of the rule, with the sync markers of package format as the last resort, and a new one must
// keep it for every position of a border.
package input

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/slotwise/slotwise/internal/data/format"
	"github.com/slotwise/slotwise/internal/data/storage"
)

// Kind is the rule that divides a file's bytes into records.
type Kind uint8

// The kinds of input.
const (
	Text     Kind = iota // a record is a line; only '\n' ends it, '\r' is data
	KeyValue             // a record is a line with a key, a TAB and a value
	Fixed                // a record has Format.RecordLen bytes
	Whole                // a record is a file, even an empty one
	Runs                 // run files that another job has written
)

var kindNames = [...]string{"text", "keyvalue", "fixed", "whole", "runs"}

// String returns the name in messages.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "kind(" + strconv.Itoa(int(k)) + ")"
}

// Format is the format of a job's input files.
type Format struct {
	Kind      Kind
	RecordLen int // bytes per record, at least 1; only for Fixed
}

// String returns the kind, and the length of fixed records, such as "fixed:100".
func (f Format) String() string {
	if f.Kind == Fixed {
		return "fixed:" + strconv.Itoa(f.RecordLen)
	}
	return f.Kind.String()
}

// check returns an error if the format is not valid.
func (f Format) check() error {
	if int(f.Kind) >= len(kindNames) {
		return fmt.Errorf("unknown input format %v", f.Kind)
	}
	if f.Kind == Fixed && f.RecordLen < 1 {
		return fmt.Errorf("fixed-length input needs a record length of at least 1 byte, not %d", f.RecordLen)
	}
	return nil
}

// lines reports whether records are lines.
func (f Format) lines() bool { return f.Kind == Text || f.Kind == KeyValue }

// Split is the input of one map task. The pieces of all splits, taken in order, are
// sorted by URI and offset.
type Split struct {
	Pieces []Piece  `json:"pieces"`
	Hosts  []string `json:"hosts,omitempty"` // with most of the split's bytes, best first
	Bytes  int64    `json:"bytes"`           // stored bytes of all pieces
	// Rows is the format of files whose records become lines, in the form of format.Spec.
	// "" means that each file's first bytes choose between parquet, avro, sequence and text;
	// pieces of a divided file are then text without compression.
	Rows string `json:"rows,omitempty"`
	// First is the layout of the input's first file, with which all files are aligned. nil if
	// the input has one file, or if each record names its fields.
	First *format.Layout `json:"first,omitempty"`
	// Sample says that a piece may be a part of a file that cannot be divided. Its records
	// are then read from the start of the file, or not at all if the piece starts later.
	Sample bool `json:"-"`
}

// Piece is a range of one file. A record belongs to the piece in which it starts, even
// if it ends beyond it. So pieces that cover a file yield each record exactly once,
// whatever their lengths.
type Piece struct {
	URI      string `json:"uri"`
	Offset   int64  `json:"offset"`
	Length   int64  `json:"length"`
	FileSize int64  `json:"fileSize"` // when the job was planned; later bytes are not read
	// Version of the file when the job was planned. The zero value is not checked.
	Version storage.Version `json:"version,omitzero"`
}

// whole reports whether the piece is the whole file.
func (p *Piece) whole() bool { return p.Offset == 0 && p.Length == p.FileSize }

// Lines calls fn for each line of a block, without its '\n', until fn returns false. A
// line is a slice of the block, with its capacity limited to the line.
func Lines(block []byte, fn func(line []byte) bool) {
	for len(block) > 0 {
		i := bytes.IndexByte(block, '\n')
		if i < 0 {
			fn(block[:len(block):len(block)])
			return
		}
		if !fn(block[:i:i]) {
			return
		}
		block = block[i+1:]
	}
}

// CountLines returns the number of lines of a block, as Lines finds them.
func CountLines(block []byte) int64 {
	n := bytes.Count(block, []byte{'\n'})
	if len(block) > 0 && block[len(block)-1] != '\n' {
		n++
	}
	return int64(n)
}

// SplitTab splits a line at its first TAB. Without a TAB the whole line is the key, and
// the value is nil (not empty).
//
// Hadoop's KeyValueTextInputFormat gives an empty value for such a line. nil allows an identity map to write
// the line back without a TAB.
func SplitTab(line []byte) (key, value []byte) {
	i := bytes.IndexByte(line, '\t')
	if i < 0 {
		return line, nil
	}
	return line[:i:i], line[i+1:]
}
