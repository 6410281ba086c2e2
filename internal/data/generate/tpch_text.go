package generate

import (
	"strings"
	"time"
)

// tpchTextSize is the length of the text that comments are cut from.
const tpchTextSize = 1 << 20

// The grammar of clause 4.2.2.14. A sentence is a noun phrase, a verb phrase
// and so on; each letter of the forms means a word from a list:
// N noun, J adjective, D adverb, V verb, X auxiliary, P prepositional phrase
// ("preposition the noun-phrase"). A comma belongs to the word before it.
var (
	tpchSentences   = []string{"nv", "nvp", "nvn", "npvn", "npvp"}
	tpchNounPhrases = []string{"N", "JN", "J,JN", "DJN"}
	tpchVerbPhrases = []string{"V", "XV", "VD", "XVD"}
)

// tpchText writes sentences up to the length that comments are cut from.
func tpchText(seed uint64) []byte {
	w := tpchWriter{r: newStream(seed, "tpch text").at(0)}
	for len(w.out) < tpchTextSize {
		for _, phrase := range pick(&w.r, tpchSentences) {
			w.phrase(phrase)
		}
		// The space after the last word goes.
		w.out = append(w.out[:len(w.out)-1], pick(&w.r, tpchTerminators)...)
		w.out = append(w.out, ' ')
	}
	return w.out[:tpchTextSize]
}

// tpchWriter appends words, each followed by a space.
type tpchWriter struct {
	r   rng
	out []byte
}

func (w *tpchWriter) phrase(kind rune) {
	switch kind {
	case 'n':
		w.words(pick(&w.r, tpchNounPhrases))
	case 'v':
		w.words(pick(&w.r, tpchVerbPhrases))
	case 'p':
		w.word(pick(&w.r, tpchPrepositions))
		w.word("the")
		w.words(pick(&w.r, tpchNounPhrases))
	}
}

func (w *tpchWriter) words(form string) {
	lists := map[rune][]string{'N': tpchNouns, 'J': tpchAdjectives, 'D': tpchAdverbs, 'V': tpchVerbs, 'X': tpchAuxiliaries}
	for _, kind := range form {
		if kind == ',' {
			w.out = append(w.out[:len(w.out)-1], ", "...)
			continue
		}
		w.word(pick(&w.r, lists[kind]))
	}
}

func (w *tpchWriter) word(s string) {
	w.out = append(w.out, s...)
	w.out = append(w.out, ' ')
}

// comment appends a text string of lo to hi bytes (clause 4.2.2.10).
func (d *tpchData) comment(r *rng, out []byte, lo, hi int64) []byte {
	n := r.between(lo, hi)
	at := r.between(0, int64(len(d.text))-n)
	return append(out, d.text[at:at+n]...)
}

// address appends a random v-string of lo to hi bytes (clause 4.2.2.7). The
// alphabet has 64 letters, so that a random number yields ten letters.
func address(r *rng, out []byte, lo, hi int64) []byte {
	const letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ, "
	n := int(r.between(lo, hi))
	for n > 0 {
		bits := r.next()
		for k := 0; k < 10 && n > 0; k++ {
			out = append(out, letters[bits&63])
			bits >>= 6
			n--
		}
	}
	return out
}

// tpchDays is the number of days from STARTDATE 1992-01-01 to ENDDATE
// 1998-12-31, both included; CURRENTDATE is 1995-06-17 (clause 4.2.2.12).
const (
	tpchDays    = 2557
	tpchCurrent = 1263
)

// tpchDates formats each day once. Formatting the dates of three columns for
// each line item would cost more than the rest of the item.
func tpchDates() [][]byte {
	day := time.Date(1992, time.January, 1, 0, 0, 0, 0, time.UTC)
	dates := make([][]byte, tpchDays)
	for i := range dates {
		dates[i] = day.AppendFormat(nil, time.DateOnly)
		day = day.AddDate(0, 0, 1)
	}
	return dates
}

// tpchType appends a p_type, such as "PROMO BURNISHED COPPER".
func tpchType(r *rng, out []byte) []byte {
	words := [...]string{pick(r, tpchType1), pick(r, tpchType2), pick(r, tpchType3)}
	return append(out, strings.Join(words[:], " ")...)
}
