package linematch

import (
	"bytes"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestFinders compares each method with a search at every place. A finder may skip a word only if
// it returns one of the same line.
func TestFinders(t *testing.T) {
	exprs := rapid.SliceOfN(rapid.SampledFrom([]string{
		"a", "b", "é", "[ab]", "[a-z]", "(?i:a)", "(?i:É)", "z", "Q", "abc", "zz", "x[yz]", "[A-Za-z]", "~", "\\x00", "abcdefgh",
	}), 1, 6)
	pieces := []string{"a", "b", "c", "abc", "é", "É", "Z", "zz", "q", "Q", "xy", "xz", "\n", "\n", "~", "\x00", "abcdefgh", "a~b", "\xe1", "\x81"}
	used := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		var alternatives []string
		for range rapid.IntRange(1, 6).Draw(t, "alternatives") {
			alternatives = append(alternatives, strings.Join(exprs.Draw(t, "expr"), ""))
		}
		expr := strings.Join(alternatives, "|")
		re, err := syntax.Parse(expr, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		words := partOf(re.Simplify()).words
		if words == nil {
			t.Skip("too many words")
		}
		text := []byte(strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 300).Draw(t, "text"), ""))
		if rapid.Bool().Draw(t, "long") { // more turns than a counter of line feeds can count
			text = bytes.Repeat(text, 1+20_000/(len(text)+1))
		}
		var counts [256]int
		for _, b := range rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(t, "sample") {
			counts[b]++
		}
		methods := map[string]finder{"pairs": newPairs(words, &counts)}
		if hasVectors {
			methods["fingerprint"], _ = newFingerprint(words, &counts)
			if p, _ := newVectorPair(words[0], &counts); p != nil && len(words) == 1 {
				methods["vector pair"] = p
			}
		}
		if g, _ := newGrams(words, &counts); g != nil {
			methods["grams"] = g
		}
		if len(words) == 1 {
			if o := newOneByte(words[0], &counts, nil); o != nil {
				methods["one byte"] = o
				if p := newPairs(words, &counts); p != nil {
					o := newOneByte(words[0], &counts, p)
					o.missed, o.passed = gapsTried-2, 100*gapsTried
					methods["one byte, then pairs"] = o
				}
			}
		}
		for name, f := range methods {
			if f == nil {
				continue
			}
			used[name]++
			f.begin()
			for i := 0; i < len(text); {
				at, want := f.next(text, i), firstOf(words, text, i)
				if at < len(text) && !slices.ContainsFunc(words, func(w word) bool { return w.at(text, at) }) {
					t.Fatalf("%s: %s is not at %d of %q", name, expr, at, text)
				}
				if at < want || bytes.IndexByte(text[want:at], '\n') >= 0 {
					t.Fatalf("%s: found %s from %d of %q at %d, want %d", name, expr, i, text, at, want)
				}
				i = lineEnd(text, at) + 1
			}
			if got, want := f.feeds(text), bytes.Count(text, lf); got != want {
				t.Fatalf("%s: %s: %d line feeds in %q, want %d", name, expr, got, text, want)
			}
		}
	})
	names := []string{"pairs", "grams", "one byte", "one byte, then pairs"}
	if hasVectors {
		names = append(names, "fingerprint", "vector pair")
	}
	for _, name := range names {
		if used[name] == 0 {
			t.Errorf("%s was never used", name)
		}
	}
}

// firstOf is finder.next, place by place.
func firstOf(words []word, b []byte, i int) int {
	for ; i < len(b); i++ {
		if slices.ContainsFunc(words, func(w word) bool { return w.at(b, i) }) {
			return i
		}
	}
	return len(b)
}
