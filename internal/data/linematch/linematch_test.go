package linematch

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// naive is the reference for Lines: package regexp, line by line.
func naive(expr string, block []byte) (lines []string) {
	re := regexp.MustCompile(expr)
	for len(block) > 0 {
		line, rest, _ := bytes.Cut(block, []byte("\n"))
		if re.Match(line) {
			lines = append(lines, string(line))
		}
		block = rest
	}
	return lines
}

func scan(s *Scanner, block []byte) (lines []string) {
	n := s.Lines(block, func(line []byte) { lines = append(lines, string(line)) })
	want := bytes.Count(block, lf)
	if len(block) > 0 && block[len(block)-1] != '\n' {
		want++
	}
	if n != want {
		lines = append(lines, fmt.Sprintf("%d lines, not %d", n, want))
	}
	return lines
}

var expressions = []string{
	``, `a`, `abc`, `^`, `$`, `^$`, `$^`, `^a`, `a$`, `^a.*b$`, `a|b`, `(?:abc|abd)+c`, `[^a]`, `.`, `..`, `^.$`,
	`z[aeiou]z[aeiou]zu`, `(?i)abc`, `(?i)k`, `(?i)ſ`, `é`, `[^é]`, `[α-ω]+a`, `\pL\d`, `\PL`, `a.b`, `^[^b]*$`,
	`\bab\b`, `a\Bb`, `(?m)^a$`, `\Aab\z`, `(?s)a.b`, `a{2,3}b{0,2}$`, `a*?b`, `(a)(b)?`, `\x{FFFD}`, `\x{D800}`, `b\x{D800}`, `[ab]\x{DFFF}`, `[a\x{D800}]b`, `b\x{FFFD}`,
	`[\x80-\xff]`, `\x00`, `a\nb`, `\s`, `\w+\s\w`, `(^a|b$)`, `(|a)b`, `(?:^|b)a(?:$|b)`, `[^\s\S]`, `[a-c]*abcabc`,
	`abc$`, `^abc`, `^abc$`, `^abc|abc$`, `(?:^abc)|b$`, `abc\z|zz`, `(?i)abcA|bu|zz`, `abc|azb|u1k|日本|é`, `^[ab]{2}`, `ab$\r`, `a$$`, `$a`, `(?m:c$)`, `c(?:$|\s)`, `[^b]c$`,
	`(?i:ab)c`, `(?:ab){3}`, `x*`, `\$`, `aé+b`, `日本`, `(a|b)*a(a|b){3}`, `\r$`, `ab\b`, `aaaa|`,
}

var alphabet = []string{
	"a", "a", "b", "b", "c", "abc", "A", "B", "\n", "\n", "\r", " ", "z", "u", "é", "É", "ſ", "K", "K", "k", "日", "本",
	"\x00", "\xff", "\xc3", "\xe6\x97", "\ufffd", "1", "$", "α", "\x80",
}

func TestLinesEqualsRegexp(t *testing.T) {
	scanners := map[string]*Scanner{}
	for _, expr := range expressions {
		p, err := Compile(expr)
		if err != nil {
			t.Fatal(err)
		}
		scanners[expr] = p.NewScanner()
	}
	rapid.Check(t, func(t *rapid.T) {
		block := []byte(strings.Join(rapid.SliceOfN(rapid.SampledFrom(alphabet), 0, rapid.SampledFrom([]int{60, 300}).Draw(t, "pieces")).Draw(t, "block"), ""))
		for expr, s := range scanners {
			if got, want := scan(s, block), naive(expr, block); fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
				t.Fatalf("%q on %q:\n got %q\nwant %q", expr, block, got, want)
			}
		}
	})
}

// TestRandomExpressions draws random expressions as well.
func TestRandomExpressions(t *testing.T) {
	atoms := rapid.SampledFrom([]string{
		"a", "b", "é", ".", "[^a]", "^", "$", "(?:a|bc)", "(?i:a)", `\w`, "[a-z]", "*", "+", "?", "|", "ab", "(b)", `\b`, "{2}", "K", "(?i:k)", "abc", "abc|", "(?i:abc)", "[bz]", "(?m:^)", "\\z",
	})
	rapid.Check(t, func(t *rapid.T) {
		expr := strings.Join(rapid.SliceOfN(atoms, 1, 8).Draw(t, "expr"), "")
		p, err := Compile(expr)
		if err != nil {
			t.Skip("no expression")
		}
		s := p.NewScanner()
		for range 3 {
			block := []byte(strings.Join(rapid.SliceOfN(rapid.SampledFrom(alphabet), 0, rapid.SampledFrom([]int{40, 300}).Draw(t, "pieces")).Draw(t, "block"), ""))
			if got, want := scan(s, block), naive(expr, block); fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
				t.Fatalf("%q on %q:\n got %q\nwant %q", expr, block, got, want)
			}
		}
	})
}

// TestTooManyStates uses expressions whose automata do not fit. In one case the table fills
// slowly and is renewed, in the other so fast that package regexp takes over.
func TestTooManyStates(t *testing.T) {
	for _, c := range []struct {
		expr  string
		runs  int // length of the irrelevant letters between the relevant ones
		slow  bool
		lines int
	}{
		{`[aé][^x]{12}c`, 0, true, 3000},
		{`[aé][^x]{10}c`, 700, false, 900},
		{`[bè](é|è|a|b){12}c`, 0, true, 3000},
	} {
		p, err := Compile(c.expr)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		x := uint32(7)
		for range c.lines {
			for range 40 {
				x = x*1664525 + 1013904223
				b.WriteString([]string{"a", "b", "é", "è"}[x>>28&3])
			}
			b.WriteString(strings.Repeat("x", c.runs))
			if x>>20&7 == 0 {
				b.WriteString("c")
			}
			b.WriteByte('\n')
		}
		s := p.NewScanner()
		s.search = false
		if got, want := scan(s, b.Bytes()), naive(c.expr, b.Bytes()); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %d lines, want %d", c.expr, len(got), len(want))
		}
		if s.slow != c.slow {
			t.Errorf("%s: slow is %v after %d states, %d renewals", c.expr, s.slow, len(s.dfa.sets), s.dfa.count)
		}
		if len(s.dfa.sets) > maxStates+512 {
			t.Errorf("%s: %d states", c.expr, len(s.dfa.sets))
		}
	}
}

func TestExits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		near := rapid.OneOf(rapid.ByteRange('a', 'd'), rapid.Byte(), rapid.SampledFrom([]byte{0, 1, 0x7f, 0x80, 0x81, 0xff, 'a' - 1, 'a' ^ 0x80}))
		var e exits
		for _, b := range rapid.SliceOfN(near, 1, 8).Draw(t, "exits") {
			e.add(b)
		}
		b := rapid.SliceOfN(near, 0, 40).Draw(t, "bytes")
		want := slices.IndexFunc(b, func(c byte) bool { return slices.Contains(e.list, c) })
		if got := e.index(b); got != want {
			t.Fatalf("%q in %q: %d, want %d", e.list, b, got, want)
		}
	})
}

// TestSearchThatDoesNotPay scans text full of first bytes. The automaton must stop searching
// for them and must not miss a line.
func TestSearchThatDoesNotPay(t *testing.T) {
	for _, letters := range []string{"abcd", "abcdefghijklmnopqrstuvwxyzefghijklmnopqrstuvwxyzefghijklmnopqrstuvwxyz"} {
		var b bytes.Buffer
		x := uint32(3)
		for i := range 400_000 {
			x = x*1664525 + 1013904223
			b.WriteByte(letters[int(x>>12)%len(letters)])
			if i%50 == 49 {
				b.WriteByte('\n')
			}
		}
		const expr = `[abc][a-d][c-z]$`
		p, _ := Compile(expr)
		s := p.NewScanner()
		s.search = false
		if got, want := scan(s, b.Bytes()), naive(expr, b.Bytes()); !slices.Equal(got, want) || len(want) == 0 {
			t.Errorf("%d lines, want %d", len(got), len(want))
		}
		if steps := len(letters) == 4; s.dfa.steps != steps {
			t.Errorf("%d letters: searching given up: %v, want %v", len(letters), s.dfa.steps, steps)
		}
	}
}

func TestLiterals(t *testing.T) {
	for expr, want := range map[string]string{
		`abc`: "abc!", `(abc)`: "abc!", `a(bc)d`: "abcd!", `x?abc.*de`: "xabc abc", `(ab)+cd`: "abcd", `a|b`: "[ab]!", `ab|cd`: "ab cd!", `ab|`: "",
		`(?i)abc`: "[Aa][Bb][Cc]!", `(?i)tick`: "[Tt][Ii][Cc]", `(?i)k`: "", `(?i)é`: "\xc3[\x89\xa9]!", `ab{3}`: "abbb!", `\bname\b`: "name", `é`: "é!",
		`z[aeiou]z[aeiou]zu`: "z[aeiou]z[aeiou]zu!", `\x{FFFD}`: "", `^abc$`: "\nabc\n!", `abc$`: "abc\n!", `a$b`: "ab", `ab$$`: "ab\n", `^(a|b)c`: "\n[ab]c!",
		`(^abc|de)$`: "abc\n de\n", ``: "", `^`: "", `.*`: "", `[^a]b`: "b", `[a-z]+foo`: "[abcdefghijklmnopqrstuvwxyz]foo", `foo\nbar`: "foo", `(ab|cd)+`: "ab cd",
		`a.*bcd|efg`: "bcd efg", `a.*b|.`: "", `[α-γ]x`: "\xce[\xb1\xb2\xb3]x!", `[aß]b`: "b", `colou?r`: "colour color!", `\sab`: "[\t\f\r ]ab!",
	} {
		p, err := Compile(expr)
		if err != nil {
			t.Fatal(err)
		}
		var words []string
		for _, w := range p.words {
			text := ""
			for i := range w {
				if b := w[i].list(); len(b) == 1 {
					text += string(b)
				} else {
					text += "[" + string(b) + "]"
				}
			}
			words = append(words, text)
		}
		got := strings.Join(words, " ")
		if p.whole {
			got += "!"
		}
		if got != want {
			t.Errorf("%q requires %q, want %q", expr, got, want)
		}
	}
}

func BenchmarkLines(b *testing.B) {
	var text bytes.Buffer
	x := uint32(1)
	for text.Len() < 1<<20 {
		for range 10 {
			for range 2 + x>>30 {
				x = x*1664525 + 1013904223
				text.WriteString("bcdfghjklmnprstvwz"[x>>16%18:][:1] + "aeiou"[x>>8%5:][:1])
			}
			text.WriteByte(' ')
		}
		text.WriteByte('\n')
	}
	for _, expr := range []string{`z[aeiou]z[aeiou]zu`, `zazezu`, `[bcd]u[klm]azi`, `(?i)zazu`, `^za.*zu$`, `\bzazu\b`, `[0-9]{3}-[0-9]{4}`, `[a-m]{2}q[aeiou]x`} {
		b.Run(expr, func(b *testing.B) {
			p, _ := Compile(expr)
			s := p.NewScanner()
			b.SetBytes(int64(text.Len()))
			for b.Loop() {
				s.Lines(text.Bytes(), func([]byte) {})
			}
		})
	}
}
