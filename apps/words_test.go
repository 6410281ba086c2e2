package apps

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// plainWords is the reference for eachWord.
func plainWords(text []byte) (words []string) {
	for _, w := range bytes.FieldsFunc(text, func(r rune) bool { return r == ' ' || r >= '\t' && r <= '\r' }) {
		words = append(words, string(w))
	}
	return words
}

func TestEachWord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.OneOf(rapid.ByteRange(0, 255), rapid.ByteRange(8, 14), rapid.Just(byte(' ')), rapid.ByteRange(0x1f, 0x21), rapid.ByteRange(0x88, 0xa1))
		text := rapid.SliceOfN(b, 0, 50).Draw(t, "text")
		var got []string
		eachWord(text, func(w []byte) { got = append(got, string(w)) })
		if want := plainWords(text); !slices.Equal(got, want) {
			t.Fatalf("%q: got %q, want %q", text, got, want)
		}
	})
}

func TestLookup(t *testing.T) {
	for _, a := range All() {
		got, err := Lookup(a.Name)
		if err != nil || got != a {
			t.Errorf("Lookup(%q) = %v, %v", a.Name, got, err)
		}
		if a.Summary == "" || a.Writes == "" || (a.Job == nil) == (a.Chain == nil) {
			t.Errorf("%s: incomplete", a.Name)
		}
	}
	for name, want := range map[string]string{
		"wordcout": `no app is called "wordcout"; did you mean "wordcount"?`,
		"Grep":     `no app is called "Grep"; did you mean "grep"?`,
		"zzzzzzzz": `no app is called "zzzzzzzz"; slotwise apps lists them`,
	} {
		if _, err := Lookup(name); err == nil || err.Error() != want {
			t.Errorf("Lookup(%q): %v, want %s", name, err, want)
		}
	}
}

func BenchmarkEachWord(b *testing.B) {
	text := bytes.Repeat([]byte("the quick brown fox jumps over a lazy dog and\nsome longerwords follow here "), 1000)
	n := 0
	eachWord(text, func([]byte) { n++ })
	for b.Loop() {
		eachWord(text, func([]byte) {})
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/word")
}
