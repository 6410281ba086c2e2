package linematch

import (
	"math"
	"math/bits"
	"regexp/syntax"
	"unicode"
	"unicode/utf8"
)

// byteSet is a set of bytes.
type byteSet [4]uint64

func (s *byteSet) add(b byte)      { s[b>>6] |= 1 << (b & 63) }
func (s *byteSet) has(b byte) bool { return s[b>>6]>>(b&63)&1 != 0 }

func (s *byteSet) size() int {
	return bits.OnesCount64(s[0]) + bits.OnesCount64(s[1]) + bits.OnesCount64(s[2]) + bits.OnesCount64(s[3])
}

// list returns the bytes of the set in ascending order.
func (s *byteSet) list() (bs []byte) {
	for i, w := range s {
		for ; w != 0; w &= w - 1 {
			bs = append(bs, byte(i<<6+bits.TrailingZeros64(w)))
		}
	}
	return bs
}

// lineFeed is the set of the byte that ends a line.
var lineFeed = byteSet{1 << '\n'}

// word is a set of strings of one length: the strings with a byte of word[i] at index i.
// The pattern (?i)ab1 is one word of the sets aA, bB and 1.
type word []byteSet

// Bounds of the words that a search looks for. More alternatives are hardly rarer than
// the lines, and a product of alternatives grows fast.
const (
	maxWords   = 256
	maxProduct = 64
	maxLength  = 256 // bytes of a word that was put together from several parts
)

// part describes each match of a part of the expression by its literals.
type part struct {
	words []word // the match is in one of the words; nil if there are too many, or of any length
	exact bool   // and each string of the words matches, wherever it is

	// If words is nil, the match begins with a word of head, ends with one of tail, and contains
	// one of need. Each of the three may be nil, and then says nothing.
	head, tail, need []word
}

// anything is a part whose matches have no known bytes.
var anything part

// literals returns the words of which every matching line contains one, and whether each line
// that contains one matches. A word may include the LF before or behind the line. words is nil
// if the expression requires no bytes.
func literals(re *syntax.Regexp) (words []word, exact bool) {
	for re.Op == syntax.OpCapture {
		re = re.Sub[0]
	}
	p := partOf(re)
	if re.Op == syntax.OpConcat {
		p = concat(lineEnds(re.Sub))
	}
	words = p.words
	if words == nil {
		words, p.exact = p.need, false
	}
	if score(words) < leastScore {
		return nil, false
	}
	return words, p.exact
}

// leastScore keeps words from being searched for that are in almost every line.
const leastScore = 2

// lineEnds returns the parts of a concatenation that is the whole expression. An assertion at
// its begin or its end is the LF that must be there. Elsewhere it is not: the x of $x cannot
// follow the LF of $, and $$ matches before a single LF.
func lineEnds(subs []*syntax.Regexp) []part {
	lf := part{words: []word{{lineFeed}}, exact: true}
	parts := make([]part, len(subs))
	for i, sub := range subs {
		parts[i] = partOf(sub)
	}
	if op := subs[0].Op; op == syntax.OpBeginLine || op == syntax.OpBeginText {
		parts[0] = lf
	}
	if op := subs[len(subs)-1].Op; op == syntax.OpEndLine || op == syntax.OpEndText {
		parts[len(subs)-1] = lf
	}
	return parts
}

func partOf(re *syntax.Regexp) part {
	switch re.Op {
	// One empty word, not none: it is the neutral element of product, while nil means "unknown".
	case syntax.OpEmptyMatch:
		return part{words: []word{{}}, exact: true}
	case syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return part{words: []word{{}}} // not exact: the place decides
	case syntax.OpLiteral:
		parts := make([]part, len(re.Rune))
		for i, r := range re.Rune {
			parts[i] = one(r, r)
			if re.Flags&syntax.FoldCase != 0 {
				parts[i] = folded(r)
			}
		}
		return concat(parts)
	case syntax.OpCharClass:
		return one(re.Rune...)
	case syntax.OpCapture:
		return partOf(re.Sub[0])
	// x* and x{0,n} are anything, by the end of the function: they may be absent.
	case syntax.OpPlus:
		p := partOf(re.Sub[0])
		if p.words == nil {
			return p
		}
		// One or more repetitions: the words are at both ends, and their number is unknown.
		return part{head: p.words, tail: p.words, need: useful(p.words)}
	case syntax.OpQuest:
		return alternate([]part{partOf(re.Sub[0]), {words: []word{{}}, exact: true}})
	case syntax.OpConcat, syntax.OpAlternate:
		parts := make([]part, len(re.Sub))
		for i, sub := range re.Sub {
			parts[i] = partOf(sub)
		}
		if re.Op == syntax.OpAlternate {
			return alternate(parts)
		}
		return concat(parts)
	}
	return anything
}

// folded is the part for a rune in all its cases.
func folded(r rune) part {
	ranges := []rune{r, r}
	// The Kelvin sign folds to k, with another length, so (?i)k has no word. That is why one must check
	// lengths.
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		ranges = append(ranges, f, f)
	}
	return one(ranges...)
}

// one is the part for one rune out of some ranges. The encodings of the runes must have the same
// length, so that they are a word. The replacement character has no unique encoding, because
// every invalid byte decodes to it, too.
func one(ranges ...rune) part {
	var w word
	count := 0
	for i := 0; i+1 < len(ranges); i += 2 {
		lo, hi := ranges[i], ranges[i+1]
		if lo <= utf8.RuneError && utf8.RuneError <= hi || hi-lo > 128 {
			return anything
		}
		for r := lo; r <= hi; r++ {
			// No line contains a line end, and no text a surrogate: AppendRune would write the
			// replacement character instead, whose bytes the expression does not match.
			if r == '\n' || !utf8.ValidRune(r) {
				continue
			}
			enc := utf8.AppendRune(nil, r)
			if w == nil {
				w = make(word, len(enc))
			}
			if count++; count > 128 || len(enc) != len(w) {
				return anything
			}
			for j, b := range enc {
				w[j].add(b)
			}
		}
	}
	if w == nil {
		return anything
	}
	// At most 64^4 for the bytes of a rune, so no overflow.
	product := 1
	for i := range w {
		product *= w[i].size()
	}
	// The sets of bytes also allow combinations that no rune of the class has, unless their number is
	// the same.
	return part{words: []word{w}, exact: product == count}
}

// concat is the part for parts that follow each other. It joins the words of neighbours, and
// begins again where that gives too many.
func concat(parts []part) part {
	// run is the part since the last interruption. whole says that there was none, so that run describes the
	// entire match.
	run := part{words: []word{{}}, exact: true}
	whole := true
	var head, best []word
	interrupt := func(next []word) {
		if whole {
			head = run.words
		}
		whole = false
		best = better(best, run.words)
		run.words = next
	}
	for _, p := range parts {
		first := p.words
		if first == nil {
			// Even of a part of any length the first bytes are known, and touch the words before it.
			first = p.head
		}
		switch joined := product(run.words, first); {
		case first == nil:
			interrupt(nil)
		// Too many combinations: the words so far stand alone, and a new run begins with this part.
		case joined == nil:
			interrupt(first)
		default:
			run.words = joined
		}
		run.exact = run.exact && p.exact
		// The part is of any length: only its tail touches the next part.
		if p.words == nil {
			best = better(best, p.need)
			interrupt(p.tail)
		}
		// Unknown bytes lie before the next part, so its words stand alone.
		if run.words == nil {
			run.words = []word{{}}
		}
	}
	if whole {
		return run
	}
	return part{head: head, tail: run.words, need: better(best, run.words)}
}

// alternate is the part for one of several parts.
func alternate(parts []part) part {
	all, needed := part{exact: true}, true
	finite := true
	for _, p := range parts {
		all.words = append(all.words, p.words...)
		all.exact = all.exact && p.exact
		finite = finite && p.words != nil
		n := p.need
		if p.words != nil {
			n = useful(p.words)
		}
		all.need = append(all.need, n...)
		needed = needed && n != nil // else a match of this alternative may lack them all
	}
	switch {
	case finite && len(all.words) <= maxWords:
		return part{words: all.words, exact: all.exact}
	case needed && len(all.need) <= maxWords:
		return part{need: all.need}
	}
	return anything
}

// product returns the words that are one of a and then one of b, nil if they are too many.
func product(a, b []word) (ab []word) {
	// A product with one word may be as large as the words were before.
	if len(a)*len(b) > max(maxProduct, len(a), len(b)) {
		return nil
	}
	for _, x := range a {
		for _, y := range b {
			if len(x)+len(y) > max(maxLength, len(x), len(y)) {
				return nil
			}
			ab = append(ab, append(append(make(word, 0, len(x)+len(y)), x...), y...))
		}
	}
	return ab
}

// better returns the words that are probably found less often.
func better(a, b []word) []word {
	if score(b) > score(a) {
		return b
	}
	return a
}

// useful returns the words, or nil if any text contains one.
func useful(ws []word) []word {
	if score(ws) <= 0 {
		return nil
	}
	return ws
}

// score is about the logarithm of the number of bytes of text between two places with one of the
// words. It takes the bytes of a text for equally frequent letters.
func score(ws []word) float64 {
	if len(ws) == 0 {
		return 0
	}
	least := math.Inf(1)
	for _, w := range ws {
		sum := 0.0
		for i := range w {
			if w[i] == lineFeed {
				sum++ // every line has one
			} else {
				// A known byte counts 5 bits, as if text had 32 equally frequent letters.
				sum += max(0, 5-math.Log2(float64(w[i].size())))
			}
		}
		// The most frequent word decides how often the search stops.
		least = min(least, sum)
	}
	return least - math.Log2(float64(len(ws)))
}
