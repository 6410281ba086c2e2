package terminal

import (
	"fmt"
	"io"
	"sync"
	"unicode/utf8"
)

// Text that other users, jobs and servers chose reaches this user's terminal: names of
// jobs, errors, counters. Two layers keep it from acting on the terminal or posing as
// output of the program:
//
//	Fprintf   escapes the arguments, line ends and tabs included, so that a value stays
//	          in its line and its column
//	Escaper   escapes everything else, from any package, except for line ends and tabs
//
// Both leave JSON valid and its values unchanged: these characters can be inside of a JSON
// string only, and there \u009b is the character itself.

// Escape returns s as text without effect on a terminal: control characters, directions of
// writing, line separators, and bytes that are not UTF-8 become \x1b, \u202e or \xff. Line
// ends and tabs become \n and \t, because a name with a line end could pose as a row of a
// table.
func Escape(s string) string {
	i := firstHarmful(s, false)
	if i == len(s) {
		return s
	}
	b, rest := appendEscaped(append(make([]byte, 0, len(s)+8), s[:i]...), s[i:], false)
	return string(appendBytes(b, rest))
}

// EscapeLines escapes like Escape, and keeps line ends and tabs.
func EscapeLines(s string) string {
	i := firstHarmful(s, true)
	if i == len(s) {
		return s
	}
	b, rest := appendEscaped(append(make([]byte, 0, len(s)+8), s[:i]...), s[i:], true)
	return string(appendBytes(b, rest))
}

// harmful reports whether a character could act on a terminal or change how the text around
// it is shown.
func harmful(r rune) bool {
	switch {
	case r < ' ', r >= 0x7f && r <= 0x9f: // C0, DEL, C1: terminals obey them
		return true
	// All of Latin, Greek and Cyrillic, without the tests below.
	case r < 0x61c:
		return false
	case r == 0x61c, r == 0x200e, r == 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true // direction marks, overrides and isolates; line and paragraph separators
	}
	return false
}

// firstHarmful returns the index of the first byte of s that must be escaped, or len(s). Nearly all
// text has none, so every writer asks this first and copies nothing then.
func firstHarmful[T string | []byte](s T, lines bool) int {
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if (c < ' ' || c == 0x7f) && !(lines && (c == '\n' || c == '\t')) {
				return i
			}
			i++
			continue
		}
		r, n := decode(s[i:])
		// A replacement character that was written as such has three bytes and is harmless.
		if r == utf8.RuneError && n <= 1 || harmful(r) {
			return i
		}
		i += n
	}
	return len(s)
}

// decode returns the first character of s and its length in bytes, as package utf8 does. It copies
// up to four bytes, because utf8 has one function for strings and another one for slices.
func decode[T string | []byte](s T) (rune, int) {
	var first [utf8.UTFMax]byte
	return utf8.DecodeRune(first[:copy(first[:], s)])
}

// appendEscaped appends s to b, escaped. It stops before a character at the end of s of which
// bytes are missing, and returns those bytes.
func appendEscaped[T string | []byte](b []byte, s T, lines bool) (_ []byte, rest T) {
	for len(s) > 0 {
		r, n := decode(s)
		switch {
		case r == utf8.RuneError && n == 1:
			var first [utf8.UTFMax]byte
			// The other bytes of the character may come with the next Write.
			if part := first[:copy(first[:], s)]; len(part) == len(s) && !utf8.FullRune(part) {
				return b, s
			}
			b = appendBytes(b, s[:1])
		case lines && (r == '\n' || r == '\t'), !harmful(r):
			b = append(b, s[:n]...)
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r < ' ':
			b = fmt.Appendf(b, `\x%02x`, r)
		default:
			b = fmt.Appendf(b, `\u%04x`, r) // also DEL, because JSON knows no \x7f
		}
		s = s[n:]
	}
	return b, s
}

// appendBytes appends each byte of s as \xff.
func appendBytes[T string | []byte](b []byte, s T) []byte {
	for i := range len(s) {
		b = fmt.Appendf(b, `\x%02x`, s[i])
	}
	return b
}

// Fprintf formats like fmt.Fprintf, with each string, error and Stringer among args escaped
// by Escape. The format is the program's own text and is not escaped. The verb %q gets the
// original, because it escapes by itself.
func Fprintf(w io.Writer, format string, args ...any) (int, error) {
	if false {
		_ = fmt.Sprintf(format, args...) // for go vet, which then compares formats and arguments of callers
	}
	safe := make([]any, len(args))
	for i, a := range args {
		safe[i] = argument(a)
	}
	return fmt.Fprintf(w, format, safe...)
}

// argument returns an argument of Fprintf that prints as a, escaped.
func argument(a any) any {
	var text string
	switch v := a.(type) {
	case string:
		text = v
	case error:
		text = v.Error()
	case fmt.Stringer:
		text = v.String()
	default:
		return a
	}
	if firstHarmful(text, false) == len(text) {
		return a // also keeps numbers with a String method, which %d formats
	}
	return escaped(text)
}

// escaped is a text that prints escaped. It is a Formatter, because only that knows the verb: %q
// gets the original, and the width of %s counts the escaped characters.
type escaped string

// Format implements fmt.Formatter.
func (e escaped) Format(f fmt.State, verb rune) {
	text := string(e)
	if verb != 'q' {
		text = Escape(text)
	}
	fmt.Fprintf(f, fmt.FormatString(f, verb), text)
}

// Escaper is a writer of text for people and of JSON. It escapes all that Escape escapes, except
// for line ends and tabs. Several goroutines may use it at once; each call writes its bytes
// together.
type Escaper struct {
	raw io.Writer

	mu   sync.Mutex
	held []byte // the first bytes of a character whose other bytes have not been written
}

// NewEscaper returns a writer of text to w.
func NewEscaper(w io.Writer) *Escaper { return &Escaper{raw: w} }

// Raw returns the writer below e, for data and for the program's own escape sequences.
func (e *Escaper) Raw() io.Writer { return e.raw }

// Write implements io.Writer. It keeps an incomplete character until the next call.
func (e *Escaper) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	// Straight through, with the count and the error of the writer below.
	if len(e.held) == 0 && firstHarmful(p, true) == len(p) {
		return e.raw.Write(p)
	}
	b, rest := appendEscaped(nil, append(e.held, p...), true)
	e.held = rest[:len(rest):len(rest)]
	// The count of escaped bytes says nothing about p, so after an error none of p counts as written.
	if _, err := e.raw.Write(b); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush writes the bytes of a character that never became complete, escaped.
func (e *Escaper) Flush() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.held) == 0 {
		return nil
	}
	b := appendBytes(nil, e.held)
	e.held = nil
	_, err := e.raw.Write(b)
	return err
}
