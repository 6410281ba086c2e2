package linematch

import (
	"encoding/binary"
	"math"
)

// grams finds words by looking up a few bytes of the text at every step-th place in a table of
// grams. Each word contributes the step grams of a window of step+length-1 bytes, and one of
// these begins at a place that is looked up, wherever the word begins.
type grams struct {
	uncounted
	words  []word
	step   int
	length int // bytes of a gram, 2 to 4
	mask   uint32
	at     []int // index of each word's window
	far    int   // the largest of these
	table  [1 << gramBits]uint8
	places map[uint32][]gramPlace // by gram
}

// gramPlace is a word and the index in it at which a gram begins.
type gramPlace struct{ word, at int }

const (
	gramBits = 14
	maxStep  = 8
	maxGrams = 2048
)

// The costs of looking a gram up, of a gram that is in the table, and of a byte for the automaton,
// in nanoseconds on a processor of 2023. Only their ratios matter.
const (
	lookupCost = 0.8
	hitCost    = 15
	stepCost   = 1.5
)

// foldLanes sets the bit that distinguishes the cases of a letter. It is set in all grams, because
// that costs less than having both cases in the table.
const foldLanes = foldBit * 0x01010101

// newGrams chooses the length, the step and the windows for which the sample has the fewest hits
// for each lookup. It also returns the nanoseconds for a byte, and nil if the automaton is faster.
func newGrams(words []word, counts *[256]int) (*grams, float64) {
	var frequency [256]float64 // of bytes, with the bit set
	total := 0
	for b, n := range counts {
		frequency[b|foldBit] += float64(n)
		total += n
	}
	for b := range frequency {
		// A byte that the sample lacks is rare and not impossible.
		frequency[b] = (frequency[b] + 0.1) / float64(total+100)
	}
	shortest := math.MaxInt
	for _, w := range words {
		shortest = min(shortest, len(w))
	}
	var best *grams
	least := stepCost
	for length := 2; length <= 4; length++ {
		// Each window must lie within its word, so the shortest word bounds the step.
		for step := 1; step <= maxStep && step+length-1 <= shortest; step++ {
			g := &grams{words: words, step: step, length: length}
			n, hits := g.choose(&frequency)
			// Grams of other bytes that share an entry by chance.
			hits += float64(n) / (1 << gramBits)
			// A longer step means fewer lookups and more grams in the table. The minimum is where both costs
			// meet.
			if cost := (lookupCost + hits*hitCost) / float64(step); n <= maxGrams && cost < least {
				best, least = g, cost
			}
		}
	}
	if best != nil {
		best.fill()
	}
	return best, least
}

// choose sets the window of each word to the one that is rarest, and returns the number of grams
// and the share of places in the text at which one begins.
func (g *grams) choose(frequency *[256]float64) (count int, share float64) {
	for _, w := range g.words {
		least, n, at := math.Inf(1), 0, 0
		for i := 0; i+g.step+g.length-1 <= len(w); i++ {
			sum, size := 0.0, 0
			for j := i; j < i+g.step; j++ {
				p, choices := 1.0, 1
				for k := j; k < j+g.length; k++ {
					s := lower(w[k])
					of := 0.0
					for _, b := range s.list() {
						of += frequency[b]
					}
					p *= of
					// The bound keeps the product from overflowing.
					choices = min(choices*s.size(), maxGrams+1)
				}
				sum += p
				size += choices
			}
			if size <= maxGrams && sum < least {
				least, n, at = sum, size, i
			}
		}
		// Each window of this word has too many grams. Without one of its windows the word would be
		// missed, so the answer is that there are too many in all.
		if n == 0 {
			return maxGrams + 1, 1
		}
		count += n
		share += least
		g.at = append(g.at, at)
		g.far = max(g.far, at)
	}
	return count, share
}

// lower returns the set with the bit set in each byte.
func lower(s byteSet) (l byteSet) {
	for _, b := range s.list() {
		l.add(b | foldBit)
	}
	return l
}

// fill enters the grams of the chosen windows.
func (g *grams) fill() {
	g.mask = 1<<(8*g.length) - 1
	g.places = map[uint32][]gramPlace{}
	for k, w := range g.words {
		for at := g.at[k]; at < g.at[k]+g.step; at++ {
			// All strings of the sets, at most maxGrams together by choose.
			all := []uint32{0}
			for j := range g.length {
				s := lower(w[at+j])
				var next []uint32
				for _, b := range s.list() {
					for _, gram := range all {
						next = append(next, gram|uint32(b)<<(8*j))
					}
				}
				all = next
			}
			for _, gram := range all {
				g.table[gramHash(gram)] = 1
				g.places[gram] = append(g.places[gram], gramPlace{k, at})
			}
		}
	}
}

func gramHash(gram uint32) uint32 { return gram * 0x9e3779b1 >> (32 - gramBits) }

func (g *grams) begin() {}

func (g *grams) next(b []byte, from int) int {
	step, mask := g.step, g.mask
	// Any word from here on has one of its step grams at one of the places i, i+step and so on.
	i := from + step - 1
	// Four places at a time, because their loads do not depend on each other.
	for ; i+3*step+4 <= len(b); i += 4 * step {
		w := b[i : i+3*step+4]
		h0 := (binary.LittleEndian.Uint32(w) | foldLanes) & mask
		h1 := (binary.LittleEndian.Uint32(w[step:]) | foldLanes) & mask
		h2 := (binary.LittleEndian.Uint32(w[2*step:]) | foldLanes) & mask
		h3 := (binary.LittleEndian.Uint32(w[3*step:]) | foldLanes) & mask
		if g.table[gramHash(h0)]|g.table[gramHash(h1)]|g.table[gramHash(h2)]|g.table[gramHash(h3)] == 0 {
			continue
		}
		for k := range 4 {
			if at := g.verify(b, from, i+k*step); at >= 0 {
				return at
			}
		}
	}
	// The last places, one at a time: a gram is loaded as four bytes.
	for ; i+4 <= len(b); i += step {
		if at := g.verify(b, from, i); at >= 0 {
			return at
		}
	}
	// A gram that begins here or later is in a window that begins less than a step before.
	least := len(b)
	for _, w := range g.words {
		least = min(least, slowly(w, b, max(from, i-step-g.far)))
	}
	return least
}

// verify returns the index of a word that begins at from or later and has a gram at i, or -1.
func (g *grams) verify(b []byte, from, i int) int {
	gram := (binary.LittleEndian.Uint32(b[i:]) | foldLanes) & g.mask
	if g.table[gramHash(gram)] == 0 {
		return -1
	}
	// table has one bit for many grams, and places has the exact ones: the map is only asked on a hit.
	for _, p := range g.places[gram] {
		if at := i - p.at; at >= from && g.words[p.word].at(b, at) {
			return at
		}
	}
	return -1
}
