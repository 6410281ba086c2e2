// Package input turns what a user names as input into splits, and splits into
// records.
//
// Plan finds the files and divides them; it runs once, where the job is
// submitted. A split is plain data that travels to wherever its task runs,
// and Open reads it there.
//
// The unit handed to a mapper's loop is the block: a stretch of whole records
// that fits in a core's second-level cache, so that scanning it for lines and
// words costs no trip to memory and no call per record. Blocks are read with
// plain reads into one reused buffer. Mapping files into memory instead would
// count every page against the process and turn a disk error into a signal.
package input

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// Kind is how a file's bytes are divided into records.
type Kind uint8

// The kinds of input.
const (
	Text     Kind = iota // a record is a line, ended by '\n' alone; '\r' is data
	KeyValue             // a line of a key, a TAB and a value
	Fixed                // records of Format.RecordLen bytes
	Whole                // a file is one record, an empty file too
	Runs                 // sorted binary runs, as jobs write them for other jobs
)

var kindNames = [...]string{"text", "keyvalue", "fixed", "whole", "runs"}

// String returns the name that ParseFormat reads.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "kind(" + strconv.Itoa(int(k)) + ")"
}

// Format tells how to read a job's input.
type Format struct {
	Kind      Kind
	RecordLen int // bytes of a record, for Fixed only; at least 1
}

// String returns the format as ParseFormat reads it.
func (f Format) String() string {
	if f.Kind == Fixed {
		return "fixed:" + strconv.Itoa(f.RecordLen)
	}
	return f.Kind.String()
}

// ParseFormat reads "text", "keyvalue", "fixed:100", "whole" or "runs".
func ParseFormat(s string) (Format, error) {
	name, length, _ := strings.Cut(s, ":")
	for k, n := range kindNames {
		if n != name {
			continue
		}
		f := Format{Kind: Kind(k)}
		if f.Kind == Fixed {
			f.RecordLen, _ = strconv.Atoi(length)
		}
		if f.Kind != Fixed && length != "" || f.check() != nil {
			break
		}
		return f, nil
	}
	return Format{}, fmt.Errorf("unknown input format %q (text, keyvalue, fixed:BYTES, whole or runs)", s)
}

func (f Format) check() error {
	if int(f.Kind) >= len(kindNames) {
		return fmt.Errorf("unknown input format %v", f.Kind)
	}
	if f.Kind == Fixed && f.RecordLen < 1 {
		return fmt.Errorf("fixed-length input needs a record length of at least 1 byte, not %d", f.RecordLen)
	}
	return nil
}

// lines tells whether records are lines.
func (f Format) lines() bool { return f.Kind == Text || f.Kind == KeyValue }

// Split is the input of one map task. Its pieces are in the order of their
// paths, and every piece of split n comes before those of split n+1.
type Split struct {
	Pieces []Piece  `json:"pieces"`
	Hosts  []string `json:"hosts,omitempty"` // that hold most of it, best first
	Bytes  int64    `json:"bytes"`           // stored bytes of all pieces
}

// Piece is a part of one file. A record belongs to the piece in which it
// starts, wherever it ends, so that pieces of any lengths that cover a file
// give each of its records exactly once.
type Piece struct {
	URI      string `json:"uri"`
	Offset   int64  `json:"offset"`
	Length   int64  `json:"length"`
	FileSize int64  `json:"fileSize"` // when planned; nothing beyond it is read
}

// whole tells whether the piece is all of its file.
func (p *Piece) whole() bool { return p.Offset == 0 && p.Length == p.FileSize }

// Lines calls fn for each line of a block, without the '\n', until fn returns
// false. A line shares the block's memory and capacity ends with it.
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

// SplitTab divides a line at its first TAB. Without one the whole line is the
// key and the value is nil, as opposed to empty.
func SplitTab(line []byte) (key, value []byte) {
	i := bytes.IndexByte(line, '\t')
	if i < 0 {
		return line, nil
	}
	return line[:i:i], line[i+1:]
}
