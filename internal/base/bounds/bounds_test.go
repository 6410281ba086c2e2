package bounds

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// A cut text fits, is valid, and keeps the beginning of the original.
func TestCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "s")
		// Random bytes have no long run of invalid ones, which become a single letter.
		s += strings.Repeat("\xff", rapid.IntRange(0, 60).Draw(t, "invalid"))
		n := rapid.IntRange(3, 40).Draw(t, "n")
		got := Cut(s, n)
		switch {
		case len(got) > n || !utf8.ValidString(got):
			t.Errorf("Cut(%q, %d) = %q", s, n, got)
		case len(s) <= n && utf8.ValidString(s) && got != s:
			t.Errorf("a short text was changed to %q", got)
		case len(s) > n && !strings.HasSuffix(got, "…"):
			t.Errorf("a cut text has no mark: %q", got)
		case len(s) > n && utf8.ValidString(s) && (len(got) < n-utf8.UTFMax || !strings.HasPrefix(s, strings.TrimSuffix(got, "…"))):
			t.Errorf("Cut(%q, %d) = %q", s, n, got)
		}
	})
}

// Every row says everything, once.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range slices.Concat(Table, Shared) {
		if r.What == "" || r.Then == "" || r.Value <= 0 || seen[r.What] {
			t.Errorf("row %+v", r)
		}
		seen[r.What] = true
	}
}
