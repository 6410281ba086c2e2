package generate

import "sync"

// The vocabulary of text. It is the same for every seed: seeds choose the words of a
// text, not the language.
const (
	vocabularySize = 200_000
	maxWordLen     = 11
	// wordSlot is a word, the space after it and padding, so that a word is
	// copied by two moves of eight bytes whatever its length.
	wordSlot = 16
)

// wordSteps maps ranks to lengths: the words before rank have length len, so frequent
// words are short, as in natural languages.
var wordSteps = []struct{ rank, len int }{
	{20, 2}, {150, 3}, {1_000, 4}, {4_000, 5}, {12_000, 6},
	{30_000, 7}, {60_000, 8}, {100_000, 9}, {150_000, 10}, {vocabularySize, maxWordLen},
}

// word is a word with the space that follows it; n counts both.
type word struct {
	text [wordSlot - 1]byte
	n    uint8
}

// vocabulary is the distribution from which the words of a text are drawn: the words by
// rank, and Walker's alias table of their frequencies. The table makes a draw one
// multiplication and one look-up, whatever the number of words.
type vocabulary struct {
	words []word
	alias []aliasCell
}

// aliasCell belongs to one word. A draw that falls into the cell gives its own
// word if the 32 bits drawn are below keep, else other.
type aliasCell struct {
	keep  uint32
	other uint32
}

// zipfWords returns the vocabulary, made when it is first asked for.
var zipfWords = sync.OnceValue(func() *vocabulary {
	return &vocabulary{words: makeWords(), alias: makeAlias(zipfWeights(vocabularySize))}
})

// makeWords makes distinct, pronounceable words: consonants and vowels by
// turns.
func makeWords() []word {
	const consonants, vowels = "bcdfghjklmnpqrstvwxz", "aeiouy"
	r := rng{derive(0, "vocabulary", 0)}
	seen := make(map[[wordSlot - 1]byte]bool, vocabularySize)
	words := make([]word, 0, vocabularySize)
	for _, step := range wordSteps {
		for len(words) < step.rank {
			w := word{n: uint8(step.len + 1)}
			for i, turn := 0, r.below(2); i < step.len; i, turn = i+1, 1-turn {
				from := consonants
				if turn == 1 {
					from = vowels
				}
				w.text[i] = from[r.below(uint64(len(from)))]
			}
			w.text[step.len] = ' '
			if !seen[w.text] {
				seen[w.text] = true
				words = append(words, w)
			}
		}
	}
	return words
}

// zipfWeights returns the probabilities of n ranks by Zipf's law with s = 1:
// the k-th is proportional to 1/k.
func zipfWeights(n int) []float64 {
	var sum float64
	// From the smallest term up, which loses the fewest bits. The sum is part of the data: it must be the
	// same everywhere.
	for k := n; k >= 1; k-- {
		sum += 1 / float64(k)
	}
	p := make([]float64, n)
	for k := range p {
		p[k] = 1 / (float64(k+1) * sum)
	}
	return p
}

// makeAlias builds the alias table of probabilities p by Vose's method: cells
// below average are filled up by slots above average.
func makeAlias(p []float64) []aliasCell {
	n := float64(len(p))
	cells := make([]aliasCell, len(p))
	fill := make([]float64, len(p))
	var small, large []int
	for i, x := range p {
		fill[i] = x * n
		if fill[i] < 1 {
			small = append(small, i)
		} else {
			large = append(large, i)
		}
	}
	// Each turn finishes one cell, so the loop ends after at most n turns.
	for len(small) > 0 && len(large) > 0 {
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		cells[s] = aliasCell{keep: uint32(fill[s] * (1 << 32)), other: uint32(l)}
		fill[l] -= 1 - fill[s]
		if fill[l] < 1 {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}
	// The remaining slots are full, except for rounding.
	for _, i := range append(small, large...) {
		cells[i] = aliasCell{keep: 1<<32 - 1, other: uint32(i)}
	}
	return cells
}

// draw returns a word.
func (v *vocabulary) draw(r *rng) *word {
	x := r.next()
	// The upper half of x chooses the cell, the lower one decides within it, so one random number serves
	// both.
	i := uint32((x >> 32) * uint64(len(v.alias)) >> 32)
	if c := &v.alias[i]; uint32(x) >= c.keep {
		i = c.other
	}
	return &v.words[i]
}
