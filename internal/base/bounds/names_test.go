package bounds

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// hiddenCharacters has one character, or both ends, of each range that names refuse.
var hiddenCharacters = []rune{
	0, '\a', '\b', '\t', '\n', '\v', '\f', '\r', 0x1b, 0x1f, 0x7f, // C0 and DEL
	0x80, 0x85, 0x9b, 0x9d, 0x9f, // C1: NEL, CSI, OSC
	0x2028, 0x2029, // line and paragraph separators
	0x061c, 0x200e, 0x200f, 0x202a, 0x202d, 0x202e, 0x2066, 0x2069, // bidirectional controls
	0x00ad, 0x200b, 0x200d, 0x2060, 0xfeff, 0xe0001, 0xe007f, // invisible
}

func TestCheckName(t *testing.T) {
	for _, c := range hiddenCharacters {
		for _, name := range []string{string(c), "a" + string(c), string(c) + "b", "a" + string(c) + "b"} {
			for rule, check := range map[string]func(string, string) error{"name": CheckName, "word": CheckWord} {
				err := check("the job's name", name)
				if err == nil {
					t.Errorf("%s %+q is accepted", rule, name)
				} else if strings.ContainsFunc(err.Error(), Hidden) || !strings.HasPrefix(err.Error(), "the job's name ") {
					t.Errorf("%s %+q: the error is %+q", rule, name, err)
				}
			}
		}
	}
	for name, word := range map[string]bool{
		"": false, "word count": false, "a/b": false, `a\b`: false, "a\u00a0b": false, "a\u3000b": false, "a\ufffdb": false,
		"ann": true, "Jürgen": true, "日本語": true, "a-b_c.d@e:f,g#h": true, strings.Repeat("x", Name): true, "📈": true,
	} {
		if err := CheckName("it", name); err != nil {
			t.Errorf("name: %v", err)
		}
		if err := CheckWord("it", name); (err == nil) != word {
			t.Errorf("word %q: %v", name, err)
		}
	}
	for _, name := range []string{"a\xff", "\x9b31m", strings.Repeat("x", Name+1)} {
		if CheckName("it", name) == nil || CheckWord("it", name) == nil {
			t.Errorf("%+q is accepted", name)
		}
	}
}

// A cleaned name passes the check of characters, and a good name stays the same.
func TestCleanName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom(append([]rune("ab é"), hiddenCharacters...))),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "s")
		got := CleanName(s)
		if strings.ContainsFunc(got, Hidden) || !utf8.ValidString(got) {
			t.Errorf("CleanName(%+q) = %+q", s, got)
		}
		if len(s) <= Name && CheckName("it", s) == nil && got != s {
			t.Errorf("the good name %+q became %+q", s, got)
		}
	})
}
