package suggest

import (
	"testing"

	"pgregory.net/rapid"
)

func TestNearest(t *testing.T) {
	known := []string{"wordcount", "grep", "sort", "terasort", "RandomWriter"}
	for name, want := range map[string]string{
		"wordcuont": "wordcount", "WordCount": "wordcount", "word": "wordcount", "Word": "wordcount", "gerp": "grep",
		"srt": "sort", "trasort": "terasort", "random": "RandomWriter", "randomwriter": "RandomWriter", "xyzzy": "", "": "", "g": "",
	} {
		if got := Nearest(name, known); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// distance against the definition, by recursion.
func TestDistance(t *testing.T) {
	var naive func(a, b string) int
	naive = func(a, b string) int {
		if a == "" || b == "" {
			return len(a) + len(b)
		}
		d := naive(a[1:], b[1:])
		if a[0] != b[0] {
			d++
		}
		d = min(d, naive(a[1:], b)+1, naive(a, b[1:])+1)
		if len(a) > 1 && len(b) > 1 && a[0] == b[1] && a[1] == b[0] {
			d = min(d, naive(a[2:], b[2:])+1)
		}
		return d
	}
	word := rapid.StringOfN(rapid.RuneFrom([]rune("abc")), 0, 6, -1)
	rapid.Check(t, func(t *rapid.T) {
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		if got, want := distance(a, b), naive(a, b); got != want {
			t.Fatalf("%q to %q: %d, want %d", a, b, got, want)
		}
	})
}
