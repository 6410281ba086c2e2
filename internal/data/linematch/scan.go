package linematch

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// bytesPerReset is the average number of bytes that the automaton must process before its
// table fills up. Below it, package regexp is faster.
const bytesPerReset = 16 * maxStates

// Scanner finds matching lines for one goroutine. It keeps its automaton, at
// most 2 MiB, from block to block.
//
// search and slow only ever change one way within a Scanner: a text that has shown itself unsuitable for one
// method usually remains so.
type Scanner struct {
	p      *Pattern
	dfa    *dfa
	slow   bool   // package regexp matches the lines
	search bool   // search for the words first
	finder finder // made for the first block
	done   int    // bytes of earlier blocks
	missed int    // lines with a word that did not match
}

// NewScanner returns a Scanner for the pattern.
func (p *Pattern) NewScanner() *Scanner {
	s := &Scanner{p: p, slow: !p.lazy, search: p.words != nil}
	if p.lazy {
		s.dfa = newDFA(p)
	}
	return s
}

// Lines calls yield for each matching line of block, in order, without its LF. The last
// line need not end with LF. A line is a part of block and is valid as long as block. It returns
// the number of lines in block, matching or not.
func (s *Scanner) Lines(block []byte, yield func(line []byte)) (lines int) {
	// With the first block as the sample: the caller has it in the cache, and later blocks of one file
	// resemble it.
	if s.search && s.finder == nil {
		s.finder = newFinder(s.p.words, block[:min(len(block), sampleSize)])
		s.search = s.finder != nil
	}
	if s.search {
		s.candidates(block, yield)
	} else {
		s.lines(block, yield)
	}
	s.done += len(block)
	if s.search {
		// The finder has counted most line ends on its way, which saves reading the block again.
		lines = s.finder.feeds(block)
	} else {
		lines = bytes.Count(block, lf)
	}
	// The last line of a file may have no LF.
	if n := len(block); n > 0 && block[n-1] != '\n' {
		lines++
	}
	return lines
}

// Match reports whether one line, without its LF, matches.
func (s *Scanner) Match(line []byte) bool {
	if s.slow {
		return s.p.re.Match(line)
	}
	at, state := s.find(line, 0)
	// What find returned is void then, because the table was being replaced.
	if s.slow { // the automaton gave up
		return s.p.re.Match(line)
	}
	return at >= 0 || s.endMatches(state)
}

// sampleSize is the number of bytes that show which bytes of a text are rare.
const sampleSize = 8 << 10

// A line with a word that does not match costs as much as stepping through some bytes. With
// too many such lines searching is given up.
const (
	missesTried  = 4096
	bytesPerMiss = 48
)

// candidates matches the lines that contain one of the words. It continues after each line, so a
// line is matched once even if it contains several.
func (s *Scanner) candidates(block []byte, yield func(line []byte)) {
	p, i := s.p, 0
	s.finder.begin()
	if p.before && len(block) > 0 { // there is no LF before the first line
		// i stays at the LF, with which the words of the second line may begin.
		i = lineEnd(block, 0)
		if line := block[:i:i]; s.Match(line) {
			yield(line)
		}
	}
	for i < len(block) {
		at := s.finder.next(block, i)
		if at == len(block) {
			break
		}
		// The word begins with the LF before its line.
		begin := at + 1
		if !p.before {
			// Searched backwards from the word and not beyond i, which is a line's beginning.
			begin = i + lineBegin(block[i:at])
		}
		end := lineEnd(block, begin)
		if line := block[begin:end:end]; p.whole || s.Match(line) {
			yield(line)
			// Judged over the whole text so far, so that a dense part in the middle of a file does not decide
			// alone. With package regexp for the lines, searching first always pays.
		} else if s.missed++; s.missed%missesTried == 0 && !s.slow && (s.done+end)/s.missed < bytesPerMiss {
			s.search = false
			s.lines(block[min(end+1, len(block)):], yield)
			return
		}
		// With before the next word may begin with the LF that ends this line.
		i = end
		if !p.before {
			i++
		}
	}
	// The last line has no LF, so a word that ends with one is not found in it. With before, the first
	// line has been matched above.
	if last := lineBegin(block); p.behind && last < len(block) && !(p.before && last == 0) {
		if line := block[last:len(block):len(block)]; s.Match(line) {
			yield(line)
		}
	}
}

// lines runs the automaton over the block, LF resetting it.
func (s *Scanner) lines(block []byte, yield func(line []byte)) {
	for i := 0; i < len(block); {
		if s.slow {
			s.slowly(block[i:], yield)
			return
		}
		at, state := s.find(block, i)
		switch {
		// Lines before at have been reported. Its own line begins again, with package regexp.
		case s.slow: // given up in the line around at
			i = lineBegin(block[:at])
			continue
		case at >= 0:
		// A line with LF has been decided by the entry for LF. Only the end of the block is left.
		case block[len(block)-1] != '\n' && s.endMatches(state):
			at = len(block)
		default:
			return
		}
		begin := lineBegin(block[:at])
		end := lineEnd(block, at)
		yield(block[begin:end:end])
		i = end + 1
	}
}

// slowly matches each line with package regexp.
func (s *Scanner) slowly(block []byte, yield func(line []byte)) {
	for len(block) > 0 {
		end := lineEnd(block, 0)
		if line := block[:end:end]; s.p.re.Match(line) {
			yield(line)
		}
		block = block[min(end+1, len(block)):]
	}
}

// find starts at the beginning of a line, at i, and returns the index of the
// byte with which the first matching line was seen to match: one of its own or
// its LF. If there is none it returns -1 and the state at the end of b. If it
// sets s.slow it has given up at the index returned.
func (s *Scanner) find(b []byte, i int) (at int, state int32) {
	d := s.dfa
	// row is one of three: an offset into next, or matched, home or dead. Only offsets reach run.
	for row := d.start; ; {
		// States without stepping: the line is decided, or only a few bytes can
		// change the state.
		switch row {
		case matched:
			return i, row
		case home:
			skip := d.exits.index(b[i:])
			if skip < 0 {
				return -1, row
			}
			i, row = i+skip, d.homed
			// The table was built again, and its first state is at the beginning of a line. No match
			// has begun here either, so it is the right one.
			if !d.paid(skip) {
				row = d.start
			}
		case dead:
			skip := bytes.IndexByte(b[i:], '\n')
			if skip < 0 {
				return -1, row
			}
			i, row = i+skip+1, d.start
			continue
		}
		if i, row = run(d.next, b, i, row); i == len(b) {
			return -1, row
		}
		to, size := s.entry(row, b, i)
		if s.slow {
			return i, row
		}
		// i stays at the byte with which the line was seen to match.
		if row = to; row != matched {
			i += size
		}
	}
}

// run follows the table until a special entry. Nearly all time is spent in this loop.
func run(next []int32, b []byte, i int, row int32) (int, int32) {
	for ; i < len(b); i++ {
		to := next[int(row)|int(b[i])]
		if to < 0 {
			break
		}
		row = to
	}
	return i, row
}

// entry returns the entry of row for the rune at b[i] and the size of the rune. It computes
// an unknown entry.
func (s *Scanner) entry(row int32, b []byte, i int) (to int32, size int) {
	d := s.dfa
	to = d.next[row|int32(b[i])]
	if to != unknown && to != decode {
		return to, 1
	}
	// Before the entry is computed, which may need a new state.
	if d.full() {
		// row belongs to the new table from here on, so the entry must be computed again.
		if row = s.renew(row, i); s.slow {
			return row, 0
		}
		to = unknown
	}
	if to == unknown {
		to = d.compute(row, b[i])
	}
	if to != decode {
		return to, 1
	}
	// An invalid byte decodes to U+FFFD with size 1, as for package regexp.
	r, size := utf8.DecodeRune(b[i:])
	return d.rune(row, d.p.wide.of(r)), size
}

// renew discards the full table, except for the scan's present state. It gives up if that
// happens too often.
func (s *Scanner) renew(row int32, i int) int32 {
	d := s.dfa
	d.count++
	// One reset is free, so that a small input does not give up at once.
	if d.count*bytesPerReset > s.done+i+bytesPerReset {
		s.slow = true
		return row
	}
	// Saved before the reset, which reuses the slices.
	set, atBeginning := d.sets[row>>8], d.p.begins && row == d.start
	d.reset()
	if atBeginning {
		return d.start
	}
	// The state of a line that is half read is kept. Starting again at the line's beginning would cost the
	// line, and could fill the table again and again in a line of many MiB.
	d.begin()
	d.set = append(d.set, set...)
	// The caller needs a row and not an entry.
	if row = d.intern(false); row == home {
		row = d.homed
	}
	return row
}

// endMatches reports whether a line matches that ends in state.
func (s *Scanner) endMatches(state int32) bool {
	switch state {
	case matched:
		return true
	case dead:
		return false
	// The home state is no row, so its set is found under homed.
	case home:
		state = s.dfa.homed
	}
	return s.dfa.endsMatching(state)
}

// lineBegin returns the index behind the last LF. For the length of a line it is faster than
// bytes.LastIndexByte, which looks at single bytes.
func lineBegin(b []byte) int {
	for len(b) >= 8 {
		x := binary.LittleEndian.Uint64(b[len(b)-8:]) ^ '\n'*ones
		// Unlike zero, this marks no byte above the first zero wrongly: adding 0x7f carries nothing.
		if m := ^((x&^high + ^uint64(high)) | x) & high; m != 0 {
			return len(b) - bits.LeadingZeros64(m)>>3
		}
		b = b[:len(b)-8]
	}
	return bytes.LastIndexByte(b, '\n') + 1
}

// lineEnd returns the index of the first LF at or after i, or the end.
func lineEnd(block []byte, i int) int {
	if n := bytes.IndexByte(block[i:], '\n'); n >= 0 {
		return i + n
	}
	return len(block)
}
