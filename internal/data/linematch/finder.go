package linematch

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// finder searches a block for words. Each of its methods verifies the places that it finds byte by
// byte. The methods are
//
//	vectorPair   two rare bytes of one word at their distance, compared by vector instructions
//	fingerprint  three bytes of each word, looked up by vector instructions
//	oneByte      what the standard library does with vector instructions
//	pairs        two rare bytes of each word, compared in the lanes of machine words, for 64 places
//	             at a time
//	grams        a few bytes at every step-th place, looked up in a table; for many words, or words
//	             without rare bytes
type finder interface {
	// next returns the index of the first word in b that begins at i or later, or len(b). Words that
	// overlap in a line may be found in any order. In the calls for one block i must not decrease,
	// and begin must be called before the first one.
	next(b []byte, i int) int
	begin()
	// feeds returns the number of line feeds in the block after the last call of next.
	feeds(b []byte) int
}

var lf = []byte{'\n'}

// uncounted is the part of a finder that does not count line feeds while it searches.
type uncounted struct{}

func (uncounted) feeds(b []byte) int { return bytes.Count(b, lf) }

// newFinder returns a finder, or nil if stepping through all bytes is faster. It takes the bytes
// that are rare in a sample of the text for rare ones.
func newFinder(words []word, sample []byte) finder {
	var counts [256]int
	for _, b := range sample {
		counts[b]++
	}
	// First, since it takes any words: expand below multiplies words, which only the other
	// methods need.
	if v := newVector(words, &counts); v != nil {
		return v
	}
	// Few strings with single bytes each are searched for faster than sets.
	if strings := expand(words, maxPairs); strings != nil {
		words = strings
	}
	var few finder
	if len(words) <= maxPairs {
		few = newPairs(words, &counts)
	}
	if len(words) == 1 {
		// The search for a byte that hardly ever occurs is twice as fast as that for two.
		o := newOneByte(words[0], &counts, few)
		// A sample shorter than sampleSize is a small file, for which the choice does not matter, and says
		// little about rarity.
		if o != nil && (few == nil || len(sample) == sampleSize && counts[o.b] <= sampleSize/leastGap) {
			return o
		}
	}
	if few != nil {
		return few
	}
	if g, _ := newGrams(words, &counts); g != nil {
		return g
	}
	return nil
}

// newVector returns the finder with vector instructions that probably takes less time. It returns nil if
// the processor has none, and if the others or the automaton are faster.
func newVector(words []word, counts *[256]int) finder {
	single := func(w word) bool { return len(w) < 2 } // its byte is as frequent as the lines, or IndexByte finds it
	if !hasVectors || slices.ContainsFunc(words, single) {
		return nil
	}
	f, cost := newFingerprint(words, counts)
	if len(words) == 1 {
		if p, pairCost := newVectorPair(words[0], counts); p != nil && pairCost < min(cost, stepCost) {
			return p
		}
	}
	// Twice, because the costs are estimates for one processor.
	if g, gramsCost := newGrams(words, counts); cost > stepCost || g != nil && 2*gramsCost < cost {
		return nil
	}
	return f
}

// at reports whether the word is at index i of b, which may be out of range.
func (w word) at(b []byte, i int) bool {
	if i < 0 || len(b)-i < len(w) {
		return false
	}
	b = b[i:]
	for j := range w {
		if !w[j].has(b[j]) {
			return false
		}
	}
	return true
}

// expand replaces words by all their strings, except for the two cases of a letter, if there are
// at most most. Else it returns nil.
func expand(words []word, most int) []word {
	var out []word
	for _, w := range words {
		ws := []word{{}}
		for i := range w {
			// Two cases of a letter stay one choice: all methods compare them by a mask for free.
			choices := []byteSet{w[i]}
			if _, _, ok := narrow(&w[i]); !ok {
				choices = nil
				for _, b := range w[i].list() {
					var s byteSet
					s.add(b)
					choices = append(choices, s)
				}
			}
			var next []word
			for _, x := range ws {
				for _, s := range choices {
					// Clip: x goes before several choices.
					next = append(next, append(slices.Clip(x), s))
				}
			}
			if ws = next; len(ws) > most {
				return nil
			}
		}
		if out = append(out, ws...); len(out) > most {
			return nil
		}
	}
	return out
}

// narrow returns the only byte of a set, or the one that its two bytes are without the bit that
// distinguishes the cases of a letter, and the bits to compare.
func narrow(s *byteSet) (b, mask byte, ok bool) {
	switch l := s.list(); {
	case len(l) == 1:
		return l[0], 0xff, true
	case len(l) == 2 && l[0]|foldBit == l[1]:
		return l[0], 0xff &^ foldBit, true
	}
	return 0, 0, false
}

// foldBit distinguishes the two cases of an ASCII letter.
const foldBit = 0x20

// oneByte searches for a byte of its word.
type oneByte struct {
	uncounted
	word   word
	at     int // index of the byte
	b      byte
	missed int // places with the byte and without the word
	passed int // bytes up to the last of these places
	pairs  finder
}

// leastGap is the number of bytes between two places of a byte from which on a search for this byte is
// faster than the search for a pair. It is judged again after gapsTried places.
const (
	leastGap  = 256
	gapsTried = 256
)

// newOneByte chooses the rarest byte. It returns nil if the word has none in all its strings. If
// the byte turns out to be frequent, pairs takes over, unless it is nil.
func newOneByte(w word, counts *[256]int, pairs finder) *oneByte {
	o := &oneByte{word: w, at: -1, pairs: pairs}
	for i := range w {
		// Both cases of a letter are two bytes, for which IndexByte would need two searches.
		if b, mask, ok := narrow(&w[i]); ok && mask == 0xff && (o.at < 0 || counts[b] < counts[o.b]) {
			o.at, o.b = i, b
		}
	}
	if o.at < 0 {
		return nil
	}
	return o
}

func (o *oneByte) begin() {
	if o.pairs != nil {
		o.pairs.begin()
	}
}

func (o *oneByte) next(b []byte, i int) int {
	for i += o.at; i < len(b); i++ {
		// The sample was wrong about this byte. pairs has seen begin for this block, so it may start anywhere
		// in it.
		if o.pairs != nil && o.missed >= gapsTried && o.passed < o.missed*leastGap {
			return o.pairs.next(b, i-o.at)
		}
		n := bytes.IndexByte(b[i:], o.b)
		if n < 0 {
			o.passed += len(b) - i
			break
		}
		i += n
		o.passed += n + 1
		if o.word.at(b, i-o.at) {
			return i - o.at
		}
		o.missed++
	}
	return len(b)
}

// pairs searches for a few words, for each one alone. It finds each place once, because it keeps
// the next one of each word.
type pairs struct {
	uncounted
	each  []pair
	ahead []int // index of the first place of each word at or after the last i; -1 for unknown
}

// pair searches for a word by two of its bytes.
type pair struct {
	word  word
	at    int    // index of the first byte in the word
	apart int    // distance of the second byte
	x, y  uint64 // the bytes, in all lanes
	mask  uint64 // the bits to compare; not the highest of a lane
}

// maxPairs is the number of words from which on grams are faster.
const maxPairs = 3

// newPairs chooses the rarest two bytes of each word. It returns nil if a word has less than two
// that are the same in all its strings, apart from the case of a letter.
func newPairs(words []word, counts *[256]int) finder {
	f := &pairs{ahead: make([]int, len(words))}
	for _, w := range words {
		lo, hi := rarestTwo(w, counts)
		if lo < 0 {
			return nil
		}
		x, mx, _ := narrow(&w[lo])
		y, my, _ := narrow(&w[hi])
		// Both bytes are compared with one mask, so a bit that is open for one byte is open for the
		// other, too. word.at decides.
		// The highest bit of each lane is left free for the subtraction in next. A byte above 127 is compared
		// by seven bits, and word.at decides.
		m := mx & my &^ 0x80
		f.each = append(f.each, pair{w, lo, hi - lo, uint64(x&m) * ones, uint64(y&m) * ones, uint64(m) * ones})
	}
	return f
}

// rarestTwo returns the indexes of the two rarest bytes of a word that are the same in all its strings,
// apart from the case of a letter, in ascending order. It returns -1 if the word has less than two.
func rarestTwo(w word, counts *[256]int) (lo, hi int) {
	rarest, next := -1, -1
	least, second := math.MaxInt, math.MaxInt
	for i := range w {
		if _, _, ok := narrow(&w[i]); !ok {
			continue
		}
		n := 0
		for _, b := range w[i].list() {
			n += counts[b]
		}
		if n < least {
			rarest, next = i, rarest
			least, second = n, least
		} else if n < second {
			next, second = i, n
		}
	}
	if next < 0 {
		return -1, -1
	}
	return min(rarest, next), max(rarest, next)
}

func (f *pairs) begin() {
	for k := range f.ahead {
		f.ahead[k] = -1
	}
}

func (f *pairs) next(b []byte, i int) int {
	least := len(b)
	for k := range f.each {
		// A place that is still ahead was found in an earlier call and needs no second search.
		if f.ahead[k] < i {
			f.ahead[k] = f.each[k].next(b, i)
		}
		least = min(least, f.ahead[k])
	}
	return least
}

// next is finder.next for one word. The loop looks for a byte of zero in the difference to both bytes
// of the pair, seven bits each: without the eighth bit nothing is carried into it, so that it needs no
// test.
func (p *pair) next(b []byte, i int) int {
	if i += p.at; len(b)-i >= p.apart+64 {
		px, py, mask := p.x, p.y, p.mask
		x, y := b[i:len(b)-p.apart], b[i+p.apart:]
		for len(x) >= 64 && len(y) >= 64 {
			var d [8]uint64
			d[0] = ((binary.LittleEndian.Uint64(x) ^ px) | (binary.LittleEndian.Uint64(y) ^ py)) & mask
			d[1] = ((binary.LittleEndian.Uint64(x[8:]) ^ px) | (binary.LittleEndian.Uint64(y[8:]) ^ py)) & mask
			d[2] = ((binary.LittleEndian.Uint64(x[16:]) ^ px) | (binary.LittleEndian.Uint64(y[16:]) ^ py)) & mask
			d[3] = ((binary.LittleEndian.Uint64(x[24:]) ^ px) | (binary.LittleEndian.Uint64(y[24:]) ^ py)) & mask
			d[4] = ((binary.LittleEndian.Uint64(x[32:]) ^ px) | (binary.LittleEndian.Uint64(y[32:]) ^ py)) & mask
			d[5] = ((binary.LittleEndian.Uint64(x[40:]) ^ px) | (binary.LittleEndian.Uint64(y[40:]) ^ py)) & mask
			d[6] = ((binary.LittleEndian.Uint64(x[48:]) ^ px) | (binary.LittleEndian.Uint64(y[48:]) ^ py)) & mask
			d[7] = ((binary.LittleEndian.Uint64(x[56:]) ^ px) | (binary.LittleEndian.Uint64(y[56:]) ^ py)) & mask
			// One branch for 64 places: on text with rare bytes it is almost never taken, and eight branches
			// would each cost a prediction.
			if ((d[0]-ones)|(d[1]-ones)|(d[2]-ones)|(d[3]-ones)|(d[4]-ones)|(d[5]-ones)|(d[6]-ones)|(d[7]-ones))&high != 0 {
				i = len(b) - p.apart - len(x)
				for k, d := range d {
					for m := (d - ones) & high; m != 0; m &= m - 1 {
						at := i + k<<3 + bits.TrailingZeros64(m)>>3 - p.at
						if p.word.at(b, at) {
							return at
						}
					}
				}
			}
			x, y = x[64:], y[64:]
		}
		i = len(b) - p.apart - len(x)
	}
	// At most 63 places and the word's length are left.
	return slowly(p.word, b, i-p.at)
}

// slowly is finder.next for the few bytes at the end of a block.
func slowly(w word, b []byte, i int) int {
	for ; i < len(b); i++ {
		if w.at(b, i) {
			return i
		}
	}
	return len(b)
}
