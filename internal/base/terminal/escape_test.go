package terminal

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestEscape(t *testing.T) {
	for s, want := range map[string]string{
		"": "", "ordinary – Größe 日本": "ordinary – Größe 日本", `back\slash`: `back\slash`,
		"a\x1b]0;t\x07": `a\x1b]0;t\x07`, "a\x7fb": `a\u007fb`, "\u009b2J": `\u009b2J`,
		"a\u202eb\u2066c\u061c\u200e": `a\u202eb\u2066c\u061c\u200e`, "line\u2028s": `line\u2028s`,
		"\x9b2J": `\x9b2J`, "\xff\xe2\x82": `\xff\xe2\x82`, "\xe2\x82x": `\xe2\x82x`,
		"row\nfake\trow\r": `row\nfake\trow\x0d`, "\ufffd": "\ufffd", "👩\u200d🔧": "👩\u200d🔧",
	} {
		if got := Escape(s); got != want {
			t.Errorf("%q is %q, want %q", s, got, want)
		}
	}
	if got, want := EscapeLines("a\n\tb\r\x1b"), "a\n\tb"+`\x0d\x1b`; got != want {
		t.Errorf("lines: %q, want %q", got, want)
	}
}

// anyText draws text with many harmful characters and broken bytes.
func anyText() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		parts := rapid.SliceOf(rapid.OneOf(rapid.String(),
			rapid.SampledFrom([]string{"\x1b[2J", "\u009b", "\u202e", "\xff", "\xe2\x82", "\xe2", "\x82\xac", "\n", "\t", "\x7f", "€"}))).Draw(t, "parts")
		return strings.Join(parts, "")
	})
}

// The output of both layers is harmless, and text that is harmless does not change.
func TestEscapeIsHarmless(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anyText().Draw(t, "s")
		for _, got := range []string{Escape(s), strings.NewReplacer("\n", "", "\t", "").Replace(EscapeLines(s))} {
			if !utf8.ValidString(got) || strings.ContainsFunc(got, harmful) {
				t.Fatalf("%q becomes %q", s, got)
			}
			if again := Escape(got); again != got {
				t.Fatalf("%q becomes %q and then %q", s, got, again)
			}
		}
	})
}

// An Escaper writes the same, whatever the pieces in which it gets a text.
func TestEscaperInPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anyText().Draw(t, "s")
		var b strings.Builder
		e := NewEscaper(&b)
		for rest := s; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			if k, err := e.Write([]byte(rest[:n])); k != n || err != nil {
				t.Fatalf("%d bytes of %d are written: %v", k, n, err)
			}
			rest = rest[n:]
		}
		if err := e.Flush(); err != nil {
			t.Fatal(err)
		}
		if want := EscapeLines(s); b.String() != want {
			t.Fatalf("got %q, want %q", b.String(), want)
		}
	})
}

// JSON keeps its values when an Escaper writes it.
func TestEscaperKeepsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := strings.ToValidUTF8(anyText().Draw(t, "s"), "?")
		var b strings.Builder
		if err := json.NewEncoder(NewEscaper(&b)).Encode(s); err != nil {
			t.Fatal(err)
		}
		var got string
		if err := json.Unmarshal([]byte(b.String()), &got); err != nil || got != s {
			t.Fatalf("%q is written as %q and read as %q (%v)", s, b.String(), got, err)
		}
	})
}

func TestFprintf(t *testing.T) {
	for _, tt := range []struct {
		format string
		args   []any
		want   string
	}{
		{"%s\t%d\n", []any{"a\nb", 3}, "a\\nb\t3\n"},
		{"%v|%v\n", []any{errors.New("x\x1by"), time.Second}, "x\\x1by|1s\n"},
		{"%-8s|%8s|\n", []any{"a\tb", Size(1 << 20)}, "a\\tb    |    1MiB|\n"},
		{"%q %d\n", []any{"a\nb", time.Duration(7)}, "\"a\\nb\" 7\n"},
	} {
		var b strings.Builder
		if _, err := Fprintf(&b, tt.format, tt.args...); err != nil || b.String() != tt.want {
			t.Errorf("%s: got %q, want %q (%v)", fmt.Sprintf("%q", tt.format), b.String(), tt.want, err)
		}
	}
}

func TestEscaperPassesErrorsOn(t *testing.T) {
	broken := errors.New("broken")
	e := NewEscaper(failing{broken})
	for _, text := range []string{"plain", "\x1b"} {
		if _, err := e.Write([]byte(text)); !errors.Is(err, broken) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// failing is a writer whose writes fail.
type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
