package input

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/slotwise/slotwise/internal/base/retry"
	"github.com/slotwise/slotwise/internal/data/format"
)

// ErrUnreadable is wrapped by the error for an input file that is no text and that no
// format reads. Reading it as lines would give wrong results without a word.
var ErrUnreadable = errors.New("cannot be read")

// unreadable is a kind of file that is refused.
type unreadable struct {
	name     string // with its article
	suffixes []string
	magic    func(head []byte) bool // reports whether a file with these first bytes is of this kind; nil if no first bytes say so
	remedy   string
	format   string // of package format; "" if no format reads the file
}

// The remedies for several kinds.
const (
	unpack  = "unpack it first"
	convert = "convert it to Parquet, CSV or JSON lines first"
)

var refused = []*unreadable{
	{
		name: "a ZIP archive", suffixes: []string{".zip", ".jar"}, remedy: unpack + " (unzip), or compress each file with gzip",
		magic: startsWith("PK\x03\x04", "PK\x05\x06"),
	},
	{
		name: "a tar archive", remedy: unpack + " (tar -xf)",
		suffixes: []string{".tar", ".tgz", ".tar.gz", ".tbz2", ".tar.bz2", ".txz", ".tar.xz", ".tar.zst", ".tar.lz4"},
		magic:    func(h []byte) bool { return len(h) >= 262 && string(h[257:262]) == "ustar" },
	},
	{name: "a 7-Zip archive", suffixes: []string{".7z"}, magic: startsWith("7z\xbc\xaf\x27\x1c"), remedy: unpack + " (7z x)"},
	{name: "a RAR archive", suffixes: []string{".rar"}, magic: startsWith("Rar!\x1a\x07"), remedy: unpack + " (unrar x)"},
	{name: "compressed by compress", suffixes: []string{".Z"}, magic: startsWith("\x1f\x9d"), remedy: "decompress it first (uncompress), or compress it with gzip"},
	{name: "compressed by lzop", suffixes: []string{".lzo", ".lzo_deflate"}, magic: startsWith("\x89LZO\x00\r\n\x1a\n"), remedy: "decompress it first (lzop -d), or compress it with zstd"},
	{name: "compressed by lzma", suffixes: []string{".lzma"}, remedy: "decompress it first (xz -d), or compress it with xz"},
	{name: "compressed by lzip", suffixes: []string{".lz"}, magic: startsWith("LZIP\x01"), remedy: "decompress it first (lzip -d), or compress it with xz"},
	{name: "compressed by brotli", suffixes: []string{".br"}, remedy: "decompress it first (brotli -d), or compress it with zstd"},
	{name: "an ORC file", suffixes: []string{".orc"}, magic: binaryAfter("ORC"), remedy: convert},
	{name: "a Parquet file", suffixes: []string{".parquet"}, magic: binaryAfter("PAR1"), format: format.Parquet},
	{name: "an encrypted Parquet file", magic: binaryAfter("PARE"), remedy: "decrypt it first"},
	{name: "an Avro file", suffixes: []string{".avro"}, magic: startsWith("Obj\x01"), format: format.Avro},
	{name: "a Hadoop SequenceFile", magic: startsWith("SEQ\x04", "SEQ\x05", "SEQ\x06"), format: format.Sequence},
	{name: "an RCFile", magic: startsWith("RCF\x01"), remedy: convert},
}

// binaryAfter returns a function that reports whether a file begins with the given letters
// and has a control character soon after them. Text may begin with the letters, too.
func binaryAfter(letters string) func(head []byte) bool {
	return func(head []byte) bool {
		rest, ok := bytes.CutPrefix(head, []byte(letters))
		return ok && bytes.ContainsFunc(rest[:min(len(rest), 64)], func(r rune) bool { return r < ' ' && !strings.ContainsRune("\t\n\v\f\r", r) })
	}
}

// refuseName returns an error if a file's suffix says that its content cannot be read in a
// format. rows is the user's choice. The formats Whole and Runs accept every file.
//
// Fixed records are refused by their name, too: any bytes may be such records, but an archive is not what its
// user thinks.
func refuseName(name string, in Format, rows *format.Spec) error {
	if in.Kind == Whole || in.Kind == Runs {
		return nil
	}
	for _, u := range refused {
		for _, s := range u.suffixes {
			if strings.HasSuffix(name, s) && !(in.lines() && u.readable(rows)) {
				return u.err()
			}
		}
	}
	return nil
}

// readable reports whether a file of this kind is read if the user chooses rows.
func (u *unreadable) readable(rows *format.Spec) bool {
	if rows.Name != format.Auto && rows.Name != u.format {
		return false
	}
	_, err := format.Get(u.format)
	return err == nil
}

// refuseContent returns an error if the first bytes of a file identify an archive or a
// binary format.
func refuseContent(head []byte) error {
	for _, u := range refused {
		if u.magic != nil && u.magic(head) {
			return u.err()
		}
	}
	return nil
}

// err returns the error for a file of this kind.
func (u *unreadable) err() error {
	remedy := u.remedy
	if u.format != "" {
		if _, err := format.Get(u.format); err != nil {
			remedy = err.Error()
		} else {
			remedy = "read it as lines with the format " + u.format
		}
	}
	return &refusedError{fmt.Sprintf("it is %s, which %v here: %s, or leave the file out of the input", u.name, ErrUnreadable, remedy)}
}

// refusedError is the error for a file that is refused.
type refusedError struct{ text string }

// Error returns the text of the error.
func (e *refusedError) Error() string { return e.text }

// Unwrap returns ErrUnreadable.
func (e *refusedError) Unwrap() error { return ErrUnreadable }

// Is reports true for retry.ErrPermanent: every attempt reads the same first bytes.
func (e *refusedError) Is(target error) bool { return target == retry.ErrPermanent }
