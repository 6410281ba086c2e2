package linematch

// vectorPair searches for a word by two of its bytes.
type vectorPair struct {
	word  word
	at    int // index of the first byte in the word
	apart int // distance of the second byte
	keys  pairKeys
	turns
}

// pairKeys are the two bytes, each with the bits that are set in the text before it is compared: those
// that distinguish the cases of a letter. pairVector knows the layout.
type pairKeys struct{ x, setX, y, setY byte }

// pairCost is the cost of a place in nanoseconds, on the scale of the costs of grams.
const pairCost = 0.02

// newVectorPair chooses the rarest two bytes of a word. It returns nil if the word has less than two
// that are the same in all its strings, apart from the case of a letter. It also returns the
// nanoseconds for a byte.
func newVectorPair(w word, counts *[256]int) (*vectorPair, float64) {
	lo, hi := rarestTwo(w, counts)
	if lo < 0 {
		return nil, 0
	}
	x, maskX, _ := narrow(&w[lo])
	y, maskY, _ := narrow(&w[hi])
	// narrow clears the bit that distinguishes the cases. Here it is set, in key and text, because OR is the
	// cheaper operation with vectors.
	p := &vectorPair{word: w, at: lo, apart: hi - lo, keys: pairKeys{x | ^maskX, ^maskX, y | ^maskY, ^maskY}}
	return p, pairCost + share(&w[lo], counts)*share(&w[hi], counts)*hitCost
}

func (p *vectorPair) next(b []byte, i int) int {
	p.skipTo(b, i)
	for {
		for k := p.place(); k >= 0; k = p.place() {
			if at := k - p.at; at >= i && p.word.at(b, at) {
				return at
			}
		}
		// The second byte lies apart bytes behind the last place.
		n := p.left(b, p.apart)
		if n == 0 {
			return slowly(p.word, b, max(i, p.end-p.at))
		}
		any, lines := pairVector(&p.keys, &b[p.end], p.apart, &p.places[0], n)
		p.took(n, any, lines)
	}
}
