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

// Entries of the table that are no rows: the scan loop stops at them.
const (
	unknown int32 = -1 - iota // not computed yet
	matched                   // the line matches, whatever follows
	decode                    // look at the whole rune
	dead                      // the line cannot match any more
	home                      // the state of having seen nothing of interest
)

// maxStates bounds the table to 2 MiB.
const maxStates = 2048

// dfa is the lazily built automaton of one Scanner. A state is a set of
// instructions of the program, those that consume a rune or wait for the end
// of the line. Every step also starts the program anew, since a match may begin
// anywhere; how long a match is and where it begins is never asked, so the
// order of alternatives is of no account and sets are enough.
//
// The table has a row of 256 entries for each state, and rows are named by
// their offset, state<<8, which saves a shift for each byte:
//
//	next[row|b] ≥ 0   the row after byte b
//	next[row|b] < 0   an entry that the loop must stop at
//
// Invariants: an entry once computed is right until the table is thrown away;
// no entry is the home state's row, they are all home instead; the state before
// a line is start, and LF leads to it from every row in which the line does not
// match by ending.
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
	skips   int              // searches made
	skipped int              // bytes that they skipped
	mark    []uint32         // generation in which an instruction was last added
	gen     uint32
	set     []uint32 // the set under construction
	final   bool     // it has reached a match
	count   int      // times the table was thrown away
}

func newDFA(p *Pattern) *dfa {
	d := &dfa{p: p, mark: make([]uint32, len(p.prog.Inst))}
	d.reset()
	return d
}

// reset forgets all states and makes the first one again.
func (d *dfa) reset() {
	d.next, d.wide, d.sets = d.next[:0], d.wide[:0], d.sets[:0]
	d.index = make(map[string]int32)
	d.homed = -1
	d.begin()
	d.add(uint32(d.p.prog.Start), beginning)
	d.start = d.intern(d.p.begins)
	if d.start >= 0 && !d.p.begins && !d.steps {
		d.findExits(d.start)
	}
}

// findExits sees which bytes lead from the first state to others, and makes it
// the home state: the scan searches for these bytes instead of stepping through
// all. Wide runes must lead back to it, or a search could stop amid one.
func (d *dfa) findExits(row int32) {
	for c := range d.p.wide.sample {
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
	if len(d.exits.list) == 0 {
		return
	}
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

// paid counts a search that skipped n bytes and reports whether searches are to
// go on. If not the table is made anew, without a home.
func (d *dfa) paid(n int) bool {
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

// add puts an instruction and all that it leads to without consuming anything
// into the set. at says what is true of this position. An assertion that is
// true only if the line ends here stays in the set: endsMatching comes back to
// it, and any other step drops it.
func (d *dfa) add(pc uint32, at syntax.EmptyOp) {
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
		case missing&^ending == 0:
			d.set = append(d.set, pc)
		}
	default:
		d.set = append(d.set, pc)
	}
}

// intern gives the set under construction its place in the table: it returns
// the row of the set, making the state if it is new, or the entry that stands
// for it. The state at the beginning of a line is one of its own if the program
// looks for beginnings, since an assertion of the end may lead to one of the
// beginning there.
func (d *dfa) intern(atBeginning bool) int32 {
	if d.final {
		return matched
	}
	if len(d.set) == 0 && !atBeginning {
		return dead
	}
	slices.Sort(d.set)
	var key []byte
	for _, pc := range d.set {
		key = binary.LittleEndian.AppendUint32(key, pc)
	}
	if atBeginning {
		key = append(key, '^')
	}
	if row, ok := d.index[string(key)]; ok {
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

// blank is the row of a new state, in which all is unknown.
var blank = func() (b [256]int32) {
	for i := range b {
		b[i] = unknown
	}
	return b
}()

// full reports whether the table should be thrown away before the next entry.
func (d *dfa) full() bool { return len(d.sets) >= maxStates }

// compute fills in the entry of row for byte b.
func (d *dfa) compute(row int32, b byte) int32 {
	var to int32
	switch {
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
	for from := row; ; from = to {
		for c := range d.p.wide.sample {
			if d.rune(from, int32(c)) != to {
				return decode
			}
		}
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
	d.add(uint32(d.p.prog.Start), 0)
	return d.intern(false)
}

// endsMatching reports whether a line that ends in this state matches.
func (d *dfa) endsMatching(row int32) bool {
	at := ending
	if d.p.begins && row == d.start {
		at |= beginning
	}
	d.begin()
	for _, pc := range d.sets[row>>8] {
		d.add(pc, at)
	}
	return d.final
}
