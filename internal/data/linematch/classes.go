package linematch

import (
	"encoding/binary"
	"regexp/syntax"
	"slices"
	"unicode"
)

// wideClasses sorts the runes above 127 into classes such that no instruction of a
// program distinguishes two runes of a class. So the automaton needs one transition for
// each class instead of one for each of a million runes. For [α-ω]+|ß there are three
// classes: the Greek letters, ß, and all others. Each invalid UTF-8 byte decodes as
// U+FFFD, like in package regexp.
type wideClasses struct {
	starts []rune  // ascending; starts[0] is 0x80
	class  []int32 // class of the runes from starts[i] to starts[i+1]
	sample []rune  // a rune of each class
}

// of returns the class of a rune above 127.
func (w *wideClasses) of(r rune) int32 {
	// Most expressions name no wide runes, and so need no search.
	if len(w.sample) == 1 {
		return 0
	}
	i, found := slices.BinarySearch(w.starts, r)
	if !found {
		i--
	}
	return w.class[i]
}

// classify cuts the runes at both ends of every range in an instruction and joins the
// pieces that the same instructions match.
func classify(prog *syntax.Prog) wideClasses {
	starts := []rune{0x80}
	cut := func(lo, hi rune) { // at both ends of a range
		for _, r := range []rune{lo, hi + 1} {
			// hi+1 may be 0x80 or below, or beyond the last rune. Neither is a border among wide runes.
			if r > 0x80 && r <= unicode.MaxRune {
				starts = append(starts, r)
			}
		}
	}
	for i := range prog.Inst {
		inst := &prog.Inst[i]
		if inst.Op != syntax.InstRune && inst.Op != syntax.InstRune1 {
			continue
		}
		// A single rune may be marked to match in all its cases; cutting too often only costs a join
		// below.
		if len(inst.Rune) == 1 {
			r := inst.Rune[0]
			cut(r, r)
			for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
				cut(f, f)
			}
			continue
		}
		for j := 0; j+1 < len(inst.Rune); j += 2 {
			cut(inst.Rune[j], inst.Rune[j+1])
		}
	}
	slices.Sort(starts)
	w := wideClasses{starts: slices.Compact(starts)}
	seen := map[string]int32{}
	for _, r := range w.starts {
		key := signature(prog, r)
		c, ok := seen[key]
		if !ok {
			// Numbered in the order of the runes, so that compiling an expression twice gives equal tables.
			c = int32(len(w.sample))
			seen[key] = c
			w.sample = append(w.sample, r)
		}
		w.class = append(w.class, c)
	}
	return w
}

// signature lists the instructions that match r.
func signature(prog *syntax.Prog, r rune) string {
	var key []byte
	for i := range prog.Inst {
		if matches(&prog.Inst[i], r) {
			key = binary.LittleEndian.AppendUint32(key, uint32(i))
		}
	}
	return string(key)
}

// matches reports whether an instruction consumes r.
func matches(inst *syntax.Inst, r rune) bool {
	switch inst.Op {
	case syntax.InstRune, syntax.InstRune1:
		return inst.MatchRune(r)
	case syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		return true // lines have no LF
	}
	return false
}
