package main

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
)

// line is a line to sort: its first bytes as a number, the part that it is in, and where it
// begins there.
type line struct {
	prefix uint64
	place  uint64 // part<<48 | offset
}

// lines are the parts of the input.
type lines [][]byte

// text returns a line without its end.
func (p lines) text(l line) []byte {
	b := p[l.place>>48][l.place&(1<<48-1):]
	if n := bytes.IndexByte(b, '\n'); n >= 0 {
		return b[:n]
	}
	return b
}

// buckets is the number of ranges of the first two bytes.
const buckets = 1 << 16

// sortLines finds the lines of the parts, distributes them by their first two bytes, sorts
// the ranges, and gathers the lines.
func sortLines(parts [][]byte, _ int) []piece {
	found := make([][]line, len(parts))
	counts := make([][buckets]int, len(parts))
	each(len(parts), func(i int) { found[i] = findLines(parts[i], i, &counts[i]) })
	var start [buckets + 1]int
	for k := range buckets {
		start[k+1] = start[k]
		for i := range parts {
			counts[i][k], start[k+1] = start[k+1], start[k+1]+counts[i][k]
		}
	}
	all := make([]line, start[buckets])
	each(len(parts), func(i int) {
		for _, l := range found[i] {
			at := &counts[i][l.prefix>>48]
			all[*at] = l
			*at++
		}
	})
	pieces := make([]piece, len(parts))
	each(len(parts), func(i int) {
		lo, _ := slices.BinarySearch(start[:], len(all)*i/len(parts))
		hi, _ := slices.BinarySearch(start[:], len(all)*(i+1)/len(parts))
		pieces[i] = sortRange(parts, all, start[lo:hi+1])
	})
	return pieces
}

// findLines returns the lines of a part and counts them by their first two bytes.
func findLines(text []byte, part int, counts *[buckets]int) []line {
	out := make([]line, 0, bytes.Count(text, []byte{'\n'})+1)
	for at := 0; at < len(text); {
		n := bytes.IndexByte(text[at:], '\n')
		if n < 0 {
			n = len(text) - at
		}
		l := line{prefixOf(text[at : at+n]), uint64(part)<<48 | uint64(at)}
		counts[l.prefix>>48]++
		out = append(out, l)
		at += n + 1
	}
	return out
}

// sortRange sorts the buckets that begin at start, of which the last one is the end.
func sortRange(parts lines, all []line, start []int) piece {
	size := 0
	for k := range len(start) - 1 {
		b := all[start[k]:start[k+1]]
		slices.SortFunc(b, func(x, y line) int {
			if c := cmp.Compare(x.prefix, y.prefix); c != 0 {
				return c
			}
			return bytes.Compare(parts.text(x), parts.text(y))
		})
		for _, l := range b {
			size += len(parts.text(l)) + 1
		}
	}
	return piece{size, func(put func([]byte)) {
		out := make([]byte, 0, 1<<20)
		for _, l := range all[start[0]:start[len(start)-1]] {
			text := parts.text(l)
			if len(out)+len(text)+1 > cap(out) {
				put(out)
				out = out[:0]
			}
			out = append(append(out, text...), '\n')
		}
		put(out)
	}}
}

// prefixOf returns the first eight bytes of a line, padded with zeros. So a line that begins
// another comes before it.
func prefixOf(text []byte) uint64 {
	if len(text) >= 8 {
		return binary.BigEndian.Uint64(text)
	}
	var b [8]byte
	copy(b[:], text)
	return binary.BigEndian.Uint64(b[:])
}
