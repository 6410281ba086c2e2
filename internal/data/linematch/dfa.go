package linematch

import (
	"encoding/binary"
	"regexp/syntax"
	"slices"
	"unicode/utf8"
)

const (
	beginning = syntax.EmptyBeginLine | syntax.EmptyBeginText
	ending    = syntax.EmptyEndLine | syntax.EmptyEndText
)

// Special entries of the table, at which the scan loop stops.
const (
	unknown int32 = -1 - iota // not computed yet
	matched                   // the line matches, whatever follows
	decode                    // the transition depends on the whole rune
	dead                      // the line cannot match any more
	home                      // the state in which no match has begun
)

// maxStates bounds the table to 2 MiB.
// 2048 rows of 1 KiB are about the second-level cache of a core, which blocks share.
const maxStates = 2048

// dfa is the lazily built automaton of one Scanner. A state is a set of
// instructions of the program which consume a rune or wait for the end
// of the line. Every step also starts the program again, since a match may begin
// anywhere. The length and position of a match do not matter, so the order of
// alternatives does not matter either, and sets are enough.
//
// The table has a row of 256 entries for each state, and rows are named by
// their offset, state<<8, which saves a shift for each byte:
//
//	next[row|b] ≥ 0   the row after byte b
//	next[row|b] < 0   an entry that the loop must stop at
//
// Invariants: a computed entry stays correct until the table is discarded. No entry is
// the home state's row; the entry home takes its place. The state before a line is start,
// and LF leads to it from every row in which the line does not match by ending.
type dfa struct {
	p       *Pattern
	next    []int32          // entry for state<<8 | byte
	wide    [][]int32        // entry for state, class of wide runes; rows made when needed
	sets    [][]uint32       // the instructions of each state
	index   map[string]int32 // state of a set
	start   int32            // row at the beginning of a line, or an entry
	homed   int32            // row of the home state, if it can be skipped through; else -1
	exits   exits            // the bytes that lead out of the home state
	steps   bool             // searching for the exits does not pay
	skips   int              // number of searches
	skipped int              // bytes skipped by them
	mark    []uint32         // generation in which an instruction was last added
	gen     uint32
	set     []uint32 // the set under construction
	final   bool     // it has reached a match
	count   int      // times the table was discarded
}

func newDFA(p *Pattern) *dfa {
	d := &dfa{p: p, mark: make([]uint32, len(p.prog.Inst))}
	d.reset()
	return d
}

// reset discards all states and creates the first one again.
func (d *dfa) reset() {
	// The arrays are kept: a pattern that fills the table once fills it again.
	d.next, d.wide, d.sets = d.next[:0], d.wide[:0], d.sets[:0]
	d.index = make(map[string]int32)
	d.homed = -1
	d.begin()
	// Only here the beginning of the line is true. step adds the start again without it.
	d.add(uint32(d.p.prog.Start), beginning)
	d.start = d.intern(d.p.begins)
	// With assertions on line beginnings the first state is left with every byte, so it cannot be the
	// home state.
	if d.start >= 0 && !d.p.begins && !d.steps {
		d.findExits(d.start)
	}
}

// findExits determines the bytes that lead from the first state to others and makes it
// the home state: the scan searches for these bytes instead of stepping through all
// bytes. Wide runes must lead back to it, otherwise a search could stop inside one.
func (d *dfa) findExits(row int32) {
	for c := range d.p.wide.sample {
		// The bytes of a wide rune are then no exits, so a search for ASCII bytes passes over them.
		if d.rune(row, int32(c)) != row {
			return
		}
	}
	d.exits.clear()
	for b := range byte(utf8.RuneSelf) {
		if d.compute(row, b) != row {
			d.exits.add(b)
		}
	}
	// No ASCII byte leads out, so there is nothing to search for.
	if len(d.exits.list) == 0 {
		return
	}
	// Set after the entries were computed: intern would have returned home for them, which the comparison
	// with row takes for an exit.
	d.homed = row
	for i, to := range d.next { // those computed before it was known
		if to == row {
			d.next[i] = home
		}
	}
	for _, entries := range d.wide {
		for i, to := range entries {
			if to == row {
				entries[i] = home
			}
		}
	}
	d.start = home
}

// A search from the home state costs as much as stepping through some bytes:
// it must skip that many on average. That is judged once, over many searches.
const (
	minSkip    = 12
	skipsTried = 4096
)

// paid counts a search that skipped n bytes and reports whether searching is still worth
// it. If not, it builds the table again without a home state.
func (d *dfa) paid(n int) bool {
	// Judged once and not again: the sum over 4096 searches says enough, and counting costs in the hottest
	// path.
	if d.skips++; d.skips < skipsTried {
		d.skipped += n
	} else if d.skips == skipsTried && d.skipped < minSkip*skipsTried {
		d.steps = true
		d.reset()
		return false
	}
	return true
}

// begin starts the construction of a set.
func (d *dfa) begin() {
	d.gen++
	d.set, d.final = d.set[:0], false
}

// add puts an instruction into the set, and all instructions that it reaches without
// consuming a rune. at holds the assertions that are true at this position. An assertion
// that is true only if the line ends here stays in the set: endsMatching evaluates it,
// and any other step drops it.
func (d *dfa) add(pc uint32, at syntax.EmptyOp) {
	// The generation saves clearing the marks for each set.
	if d.mark[pc] == d.gen {
		return
	}
	d.mark[pc] = d.gen
	inst := &d.p.prog.Inst[pc]
	switch inst.Op {
	case syntax.InstAlt, syntax.InstAltMatch:
		d.add(inst.Out, at)
		d.add(inst.Arg, at)
	case syntax.InstCapture, syntax.InstNop:
		d.add(inst.Out, at)
	case syntax.InstMatch:
		d.final = true
	case syntax.InstFail:
	case syntax.InstEmptyWidth:
		switch missing := syntax.EmptyOp(inst.Arg) &^ at; {
		case missing == 0:
			d.add(inst.Out, at)
		// Only the end of the line is missing, which is not known yet. Any other missing assertion is
		// false for good.
		case missing&^ending == 0:
			d.set = append(d.set, pc)
		}
	default:
		d.set = append(d.set, pc)
	}
}

// intern returns the row of the set under construction, creating a state if the set is
// new, or the special entry that represents it. If the program has assertions on line
// beginnings, the state at the beginning of a line is distinct, because an assertion on
// the end may lead to one on the beginning there.
func (d *dfa) intern(atBeginning bool) int32 {
	if d.final {
		return matched
	}
	if len(d.set) == 0 && !atBeginning {
		return dead
	}
	// The order of alternatives does not matter, so equal sets must get one key.
	slices.Sort(d.set)
	var key []byte
	for _, pc := range d.set {
		key = binary.LittleEndian.AppendUint32(key, pc)
	}
	if atBeginning {
		// No set of instructions has a length that is not a multiple of four, so no other
		// set has this key.
		key = append(key, '^')
	}
	if row, ok := d.index[string(key)]; ok {
		// Invariant of dfa: no entry is the home state's row, so the loop stops and searches.
		if row == d.homed {
			return home
		}
		return row
	}
	row := int32(len(d.sets)) << 8
	d.index[string(key)] = row
	d.sets = append(d.sets, slices.Clone(d.set))
	d.wide = append(d.wide, nil)
	d.next = append(d.next, blank[:]...)
	return row
}

// blank is the row of a new state: all entries are unknown.
var blank = func() (b [256]int32) {
	for i := range b {
		b[i] = unknown
	}
	return b
}()

// full reports whether the table must be discarded before the next entry.
func (d *dfa) full() bool { return len(d.sets) >= maxStates }

// compute fills in the entry of row for byte b.
func (d *dfa) compute(row int32, b byte) int32 {
	var to int32
	switch {
	// LF is decided here and not by step: no instruction consumes it, and the line ends.
	case b == '\n':
		to = d.start
		if d.endsMatching(row) {
			to = matched
		}
	case b < utf8.RuneSelf:
		to = d.step(row, rune(b))
	default:
		to = d.bytewise(row)
	}
	d.next[row|int32(b)] = to
	return to
}

// bytewise returns an entry for all bytes above 127 at once if a wide rune may
// be taken byte for byte: all classes lead to one state, and from there to it
// again. Otherwise runes must be decoded.
func (d *dfa) bytewise(row int32) int32 {
	to := d.rune(row, 0)
	// The number of bytes in a rune is unknown when the first is seen. So the state must be the same after
	// one byte and after every further one.
	for from := row; ; from = to {
		for c := range d.p.wide.sample {
			if d.rune(from, int32(c)) != to {
				return decode
			}
		}
		// The state leads to itself, or the line is decided: further bytes of the rune change nothing.
		if from == to || to < 0 {
			break
		}
	}
	return to
}

// rune returns the entry of row for a class of wide runes.
func (d *dfa) rune(row, class int32) int32 {
	s := row >> 8
	if d.wide[s] == nil {
		entries := make([]int32, len(d.p.wide.sample))
		for i := range entries {
			entries[i] = unknown
		}
		d.wide[s] = entries
	}
	to := d.wide[s][class]
	if to == unknown {
		to = d.step(row, d.p.wide.sample[class])
		d.wide[s][class] = to
	}
	return to
}

// step returns the entry for the state after r.
func (d *dfa) step(row int32, r rune) int32 {
	d.begin()
	for _, pc := range d.sets[row>>8] {
		if inst := &d.p.prog.Inst[pc]; matches(inst, r) {
			d.add(inst.Out, 0)
		}
	}
	// A match may begin at every byte.
	d.add(uint32(d.p.prog.Start), 0)
	return d.intern(false)
}

// endsMatching reports whether a line that ends in this state matches.
func (d *dfa) endsMatching(row int32) bool {
	at := ending
	// An empty line: its end is its beginning.
	if d.p.begins && row == d.start {
		at |= beginning
	}
	d.begin()
	for _, pc := range d.sets[row>>8] {
		d.add(pc, at)
	}
	return d.final
}
