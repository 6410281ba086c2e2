package hadoop

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// HashPartition is Hadoop's HashPartitioner for text keys: the hash of Text modulo n.
func HashPartition(key []byte, n int) int {
	// WritableComparator.hashBytes begins with 1. stringHash, below, begins with 0 like String.hashCode.
	// Partitions must be Hadoop's: scripts join part files of two jobs by their numbers.
	h := int32(1)
	for _, b := range key {
		// Java's bytes have a sign.
		h = 31*h + int32(int8(b))
	}
	return modulo(h, n)
}

// modulo returns the partition of a hash, whose sign bit does not count.
func modulo(h int32, n int) int { return int(h&0x7fffffff) % n }

// stringHash is the hash of a Java String.
func stringHash(key []byte) int32 {
	var h int32
	// Invalid UTF-8 becomes U+FFFD, as when Hadoop decodes a Text.
	for _, u := range utf16.Encode([]rune(string(key))) {
		h = 31*h + int32(u)
	}
	return h
}

// KeySpec selects parts of a key, as the options of KeyFieldBasedPartitioner and
// KeyFieldBasedComparator describe them.
type KeySpec struct {
	fields    []field
	separator []byte
}

// field is one -k option. Numbers count from 1.
type field struct {
	from, fromChar   int
	to, toChar       int // to 0 is the end of the key, toChar 0 the end of the field
	numeric, reverse bool
}

// NewKeySpec parses options such as "-k2,2nr -k1.3". Only the flags n and r exist, as in
// Hadoop. It ignores other words, which Hadoop ignores, too; a wrong -k is an error. With
// flags and without -k the specification is the whole key.
func NewKeySpec(options, separator string) (*KeySpec, error) {
	s := &KeySpec{separator: []byte(separator)}
	if separator == "" {
		return nil, fmt.Errorf("the separator of key fields is empty")
	}
	numeric, reverse := false, false
	words := strings.Fields(options)
	for i := 0; i < len(words); i++ {
		switch w := words[i]; {
		case w == "-n":
			numeric = true
		case w == "-r":
			reverse = true
		case w == "-nr":
			numeric, reverse = true, true
		case strings.HasPrefix(w, "-k"):
			text := w[2:]
			// "-k 2,2" is the form of sort(1), which Hadoop takes, too.
			if text == "" && i+1 < len(words) {
				i++
				text = words[i]
			}
			f, err := parseField(text)
			if err != nil {
				return nil, fmt.Errorf("key option %q: %w", w, err)
			}
			s.fields = append(s.fields, f)
		}
	}
	for i := range s.fields {
		// Global flags apply only to fields without flags of their own, as in sort(1).
		// After the loop, because -n and -r apply wherever they stand among the options.
		if f := &s.fields[i]; !f.numeric && !f.reverse {
			f.numeric, f.reverse = numeric, reverse
		}
	}
	// Without flags and fields the specification stays empty: the comparator is then the order of the bytes,
	// and the partitioner takes another hash (Partition).
	if len(s.fields) == 0 && (numeric || reverse) {
		s.fields = []field{{from: 1, fromChar: 1, numeric: numeric, reverse: reverse}}
	}
	return s, nil
}

// parseField parses POS1[,POS2].
func parseField(text string) (f field, err error) {
	first, second, two := strings.Cut(text, ",")
	if f.from, f.fromChar, err = f.position(first); err != nil {
		return f, err
	}
	if f.from == 0 {
		return f, fmt.Errorf("fields count from 1")
	}
	if f.fromChar == 0 {
		f.fromChar = 1
	}
	if two {
		f.to, f.toChar, err = f.position(second)
	}
	return f, err
}

// position parses F[.C][opts] and adds the flags in opts to the field.
func (f *field) position(text string) (number, char int, err error) {
	// Flags behind either position apply to the whole field, as in sort(1).
	digits := strings.TrimRight(text, "nr")
	f.numeric = f.numeric || strings.Contains(text[len(digits):], "n")
	f.reverse = f.reverse || strings.Contains(text[len(digits):], "r")
	a, b, dot := strings.Cut(digits, ".")
	// At most 31 bits, as in Hadoop: part adds a position to an offset in the key, and the sum must not overflow.
	n, err := strconv.ParseInt(a, 10, 32)
	c := int64(0)
	if err == nil && dot {
		c, err = strconv.ParseInt(b, 10, 32)
	}
	if err != nil || n < 0 || c < 0 {
		return 0, 0, fmt.Errorf("%q is no FIELD[.CHARACTER][nr]", text)
	}
	return int(n), int(c), nil
}

// Empty reports whether the specification selects nothing, so that the whole key counts.
func (s *KeySpec) Empty() bool { return len(s.fields) == 0 }

// span returns the start and end of each field of a key.
func (s *KeySpec) span(key []byte, buf [][2]int) [][2]int {
	at := 0
	for {
		i := bytes.Index(key[at:], s.separator)
		if i < 0 {
			return append(buf, [2]int{at, len(key)})
		}
		buf = append(buf, [2]int{at, at + i})
		at += i + len(s.separator)
	}
}

// part returns the bytes that a field specification selects, and false if it begins
// behind the key's last field or behind the end of the key.
func (f *field) part(key []byte, spans [][2]int) ([]byte, bool) {
	// A key with fewer fields than the option names.
	if f.from > len(spans) {
		return nil, false
	}
	// A character position may lie beyond its field. The part then begins in a later field.
	// Numbers are below 2^31 (position), so this sum cannot overflow.
	start := spans[f.from-1][0] + f.fromChar - 1
	if start >= len(key) {
		return nil, false
	}
	end := len(key)
	switch {
	// To the end of the key.
	case f.to == 0 || f.to > len(spans):
	case f.toChar == 0:
		end = spans[f.to-1][1]
	default:
		end = min(end, spans[f.to-1][0]+f.toChar)
	}
	// An end before the start selects nothing. The field exists all the same, and sorts behind a missing one.
	return key[start:max(start, end)], true
}

// Partition is KeyFieldBasedPartitioner. Without a specification it uses the hash of a
// Java String, else a hash of the selected bytes.
func (s *KeySpec) Partition(key []byte, n int) int {
	if s.Empty() {
		return modulo(stringHash(key), n)
	}
	// Hadoop returns partition 0 here without a look at the fields.
	if len(key) == 0 {
		return 0
	}
	// Hadoop decodes the key to a String and encodes it again before it hashes the fields.
	if !utf8.Valid(key) {
		key = bytes.ToValidUTF8(key, []byte("\uFFFD"))
	}
	var room [8][2]int
	spans := s.span(key, room[:0])
	var h int32
	for i := range s.fields {
		part, _ := s.fields[i].part(key, spans)
		// The hash continues over all fields and has no border between them: a,bc and ab,c have the same
		// partition.
		for _, b := range part {
			h = 31*h + int32(int8(b))
		}
	}
	return modulo(h, n)
}

// AppendSortKey appends bytes whose order is the order of KeyFieldBasedComparator, then
// the key itself and its length. Keys that the comparator calls equal are sorted by their
// bytes. KeyOf returns the key.
//
// Each field is encoded so that no encoding is the beginning of another one: a byte that
// says whether the field exists, then text with 0 escaped and a terminator, or a number.
// For a reversed field all bits are inverted.
//
// The engine compares bytes and knows no comparators. Encoding the order once for each record is cheaper than
// calling a comparator for each comparison, of which a sort makes some twenty for each record.
func (s *KeySpec) AppendSortKey(out, key []byte) []byte {
	var room [8][2]int
	spans := s.span(key, room[:0])
	for i := range s.fields {
		f := &s.fields[i]
		from := len(out)
		part, ok := f.part(key, spans)
		switch {
		case !ok:
			// A missing field sorts before every other one.
			out = append(out, 0)
		case f.numeric:
			out = appendNumber(append(out, 1), part)
		default:
			out = appendText(append(out, 1), part)
		}
		// With its leading byte and terminator, so that the order of fields of different length is
		// reversed, too.
		if f.reverse {
			invert(out[from:])
		}
	}
	// The key behind the fields makes the order total, and KeyOf finds it without decoding. Keys that the
	// comparator calls equal become several groups. A streaming reducer does not see groups, only the key of
	// each line.
	out = append(out, key...)
	// At the end and not at the front: a length in front would decide the order.
	return binary.BigEndian.AppendUint32(out, uint32(len(key)))
}

// KeyOf returns the key in a sort key.
func KeyOf(sortKey []byte) []byte {
	end := len(sortKey) - 4
	n := int(binary.BigEndian.Uint32(sortKey[end:]))
	return sortKey[end-n : end : end]
}

// appendText appends text with a terminator. A 0 becomes 0 255, and the terminator is 0 0.
func appendText(out, text []byte) []byte {
	for _, b := range text {
		// 255 is larger than the terminator's second byte. So a text with a 0 sorts behind its own beginning.
		if out = append(out, b); b == 0 {
			out = append(out, 255)
		}
	}
	return append(out, 0, 0)
}

// The classes of numbers in their order.
const (
	negative = 1
	zero     = 2
	positive = 3
)

// appendNumber appends a decimal number: its class, the count of integer digits, the
// digits, and a terminator. Text that is no number counts as 0.
func appendNumber(out, text []byte) []byte {
	minus, whole, fraction := parseNumber(text)
	// -0 and 0 are equal, as numbers and in Hadoop.
	if len(whole) == 0 && len(fraction) == 0 {
		return append(out, zero)
	}
	from := len(out) + 1
	// More integer digits mean a larger number, since leading zeros are gone.
	out = binary.BigEndian.AppendUint32(append(out, positive), uint32(len(whole)))
	// Digits compare as bytes, and the terminator is less than each. The fraction needs no point, since the
	// count of whole digits says where it begins.
	out = append(append(append(out, whole...), fraction...), 0)
	if minus {
		out[from-1] = negative
		// Of two negative numbers the one with the larger digits is less. The class itself stays.
		invert(out[from:])
	}
	return out
}

// parseNumber returns the digits of -DIGITS.DIGITS without leading zeros and without
// zeros at the end of the fraction, or no digits if text has another form.
func parseNumber(text []byte) (minus bool, whole, fraction []byte) {
	text, minus = bytes.CutPrefix(text, []byte("-"))
	whole, fraction, _ = bytes.Cut(text, []byte("."))
	if !digits(whole) || !digits(fraction) {
		return false, nil, nil
	}
	return minus, bytes.TrimLeft(whole, "0"), bytes.TrimRight(fraction, "0")
}

func digits(b []byte) bool {
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

func invert(b []byte) {
	for i := range b {
		b[i] = ^b[i]
	}
}
