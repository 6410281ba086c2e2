package linematch

import (
	"math"
	"math/bits"
	"slices"
)

// fingerprint searches for all words at once by three bytes of each, with vector instructions. The
// method is Teddy, of Hyperscan and ripgrep. Words are in eight buckets, one bit each. A table of
// 16 entries for each half of each of the three bytes has the buckets with a word for which this half
// is possible. The conjunction of the six entries at a place has the buckets of which a word may be
// there.
type fingerprint struct {
	buckets [8][]windowed
	is      [3][256]uint8 // buckets for each of the three bytes
	halves  [6][16]byte   // the same for the low and the high half of each byte

	turns
}

// windowed is a word and the index of the three bytes by which it is searched for.
type windowed struct {
	word word
	at   int
}

// window is the number of bytes of a word that are compared. A shorter word has the rest of its window
// behind its end, where any byte is possible.
const window = 3

// placeCost is the cost of a place in nanoseconds, on the scale of the costs of grams.
const placeCost = 0.06

// newFingerprint chooses for each word the window that is rarest in the sample. It also returns the
// nanoseconds for a byte.
func newFingerprint(words []word, counts *[256]int) (*fingerprint, float64) {
	f := &fingerprint{}
	var all []windowed
	for _, w := range words {
		least, best := math.Inf(1), 0
		// At least one window, also for a word that is shorter.
		for at := 0; at == 0 || at+window <= len(w); at++ {
			p := 1.0
			for j := at; j < min(at+window, len(w)); j++ {
				p *= share(&w[j], counts)
			}
			if p < least {
				least, best = p, at
			}
		}
		all = append(all, windowed{w, best})
	}
	// Words with the same bytes share a bucket, so that it is left by few other bytes.
	slices.SortFunc(all, func(x, y windowed) int {
		for j := range window {
			if c := slices.Compare(x.bytes(j), y.bytes(j)); c != 0 {
				return c
			}
		}
		return 0
	})
	for i, w := range all {
		// Neighbours in the order share a bucket, and with few words each has one alone.
		k := i * len(f.buckets) / max(len(all), len(f.buckets))
		f.buckets[k] = append(f.buckets[k], w)
		f.enter(w, 1<<k)
	}
	return f, f.cost(counts)
}

// share returns the share of the bytes of a text that are in the set.
func share(s *byteSet, counts *[256]int) float64 {
	n, total := 0.1*float64(s.size()), 100.0
	for b, c := range counts {
		total += float64(c)
		if s.has(byte(b)) {
			n += float64(c)
		}
	}
	return n / total
}

// bytes returns the bytes that are possible at index j of the window.
func (w *windowed) bytes(j int) []byte {
	if w.at+j < len(w.word) {
		return w.word[w.at+j].list()
	}
	all := byteSet{math.MaxUint64, math.MaxUint64, math.MaxUint64, math.MaxUint64}
	return all.list()
}

// enter adds a word to a bucket.
func (f *fingerprint) enter(w windowed, bucket uint8) {
	for j := range window {
		for _, b := range w.bytes(j) {
			f.is[j][b] |= bucket
			// Each half has a table of 16 entries because PSHUFB looks up 16 at a time. The exact table is
			// is, used by verify.
			f.halves[2*j][b&15] |= bucket
			f.halves[2*j+1][b>>4] |= bucket
		}
	}
}

// cost returns the expected nanoseconds for a byte.
func (f *fingerprint) cost(counts *[256]int) float64 {
	sum := placeCost
	for k := range f.buckets {
		p := 1.0
		for j := range window {
			var s byteSet // what the halves let pass
			for b := range 256 {
				// The halves let more bytes pass than the words have, and each one that passes must be
				// verified.
				if f.halves[2*j][b&15]&f.halves[2*j+1][b>>4]>>k&1 != 0 {
					s.add(byte(b))
				}
			}
			p *= share(&s, counts)
		}
		sum += p * hitCost
	}
	return sum
}

func (f *fingerprint) next(b []byte, i int) int {
	f.skipTo(b, i)
	for {
		// Places of the last call of the vector function first, in order.
		for p := f.place(); p >= 0; p = f.place() {
			if at := f.verify(b, i, p); at >= 0 {
				return at
			}
		}
		n := f.left(b, window-1)
		// Less than a turn of places is left. The vector function would read beyond the block.
		if n == 0 {
			break
		}
		any, lines := bucketVector(&f.halves, &b[f.end], &f.places[0], n)
		f.took(n, any, lines)
	}
	// A window that begins here or later is of a word that begins at most w.at before.
	least := len(b)
	for k := range f.buckets {
		for _, w := range f.buckets[k] {
			least = min(least, slowly(w.word, b, max(i, f.end-w.at)))
		}
	}
	return least
}

// verify returns the index of a word that begins at from or later and has its window at i, or -1.
func (f *fingerprint) verify(b []byte, from, i int) int {
	for m := f.is[0][b[i]] & f.is[1][b[i+1]] & f.is[2][b[i+2]]; m != 0; m &= m - 1 {
		for _, w := range f.buckets[bits.TrailingZeros8(m)] {
			if at := i - w.at; at >= from && w.word.at(b, at) {
				return at
			}
		}
	}
	return -1
}
