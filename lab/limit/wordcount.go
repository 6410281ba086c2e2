package main

import (
	"encoding/binary"
	"math/bits"
	"strconv"
)

// counter is a slot of the table of words. A word of up to 16 bytes is in the slot, as two
// numbers. Of a longer one the slot has the hash and the place in longs.
type counter struct {
	lo, hi uint64
	n      int64
	len    int // 0 in a free slot; 17 for a longer word
}

// table counts words. It never grows.
type table struct {
	slots []counter
	shift int
	words int
	longs []string
}

// newTable returns a table for a number of distinct words, with twice as many slots.
func newTable(keys int) *table {
	width := bits.Len(uint(2*keys - 1))
	return &table{slots: make([]counter, 1<<width), shift: 64 - width}
}

// wordCount counts the words of each part, then adds the tables to the first. A word ends
// at a space or a byte below it.
func wordCount(parts [][]byte, keys int) []piece {
	if len(parts) == 0 {
		return nil
	}
	tables := make([]*table, len(parts))
	each(len(parts), func(i int) {
		tables[i] = newTable(keys)
		tables[i].count(parts[i])
	})
	sum := tables[0]
	for _, t := range tables[1:] {
		for _, c := range t.slots {
			switch {
			case c.len > 16:
				sum.addLong(t.longs[c.hi], c.n)
			case c.len > 0:
				sum.add(c.lo, c.hi, c.len, c.n)
			}
		}
	}
	return []piece{whole(sum.print())}
}

// count adds the words of text. It finds their ends eight bytes at a time.
func (t *table) count(text []byte) {
	const (
		ones = 0x0101010101010101
		high = 0x80 * ones
	)
	start, i := 0, 0
	for ; i+8 <= len(text); i += 8 {
		x := binary.LittleEndian.Uint64(text[i:])
		above := x&^high + (0x7f-' ')*ones // the high bit of each byte: it is above a space
		for ends := ^(above | x) & high; ends != 0; ends &= ends - 1 {
			at := i + bits.TrailingZeros64(ends)/8
			t.addWord(text, start, at)
			start = at + 1
		}
	}
	for ; i < len(text); i++ {
		if text[i] <= ' ' {
			t.addWord(text, start, i)
			start = i + 1
		}
	}
	t.addWord(text, start, len(text))
}

// addWord adds the word text[from:to], if there is one.
func (t *table) addWord(text []byte, from, to int) {
	n := to - from
	switch {
	case n <= 0:
	case n > 16:
		t.addLong(string(text[from:to]), 1)
	case from+16 <= len(text):
		lo, hi := binary.LittleEndian.Uint64(text[from:]), binary.LittleEndian.Uint64(text[from+8:])
		t.add(lo&(1<<(8*min(n, 8))-1), hi&(1<<(8*max(n-8, 0))-1), n, 1)
	default:
		var b [16]byte
		copy(b[:], text[from:to])
		t.add(binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:]), n, 1)
	}
}

// add adds n to the count of a word of length len.
func (t *table) add(lo, hi uint64, len int, n int64) {
	h, l := bits.Mul64(lo^0x9e3779b97f4a7c15, hi^0xbf58476d1ce4e5b9)
	for i := (h ^ l) * 0x94d049bb133111eb >> t.shift; ; i++ {
		c := &t.slots[i&uint64(cap(t.slots)-1)]
		if c.lo == lo && c.hi == hi && c.len == len {
			c.n += n
			return
		}
		if c.len == 0 {
			*c = counter{lo, hi, n, len}
			t.inserted()
			return
		}
	}
}

// inserted counts a new word. A full table would be searched for ever.
func (t *table) inserted() {
	if t.words++; t.words == cap(t.slots) {
		panic("there are more words than -keys says")
	}
}

// addLong adds n to the count of a word of more than 16 bytes.
func (t *table) addLong(word string, n int64) {
	h := uint64(14695981039346656037)
	for _, b := range []byte(word) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	for i := h >> t.shift; ; i++ {
		c := &t.slots[i&uint64(cap(t.slots)-1)]
		if c.len == 0 {
			*c = counter{lo: h, hi: uint64(len(t.longs)), len: 17}
			t.longs = append(t.longs, word)
			t.inserted()
		}
		if c.len == 17 && c.lo == h && t.longs[c.hi] == word {
			c.n += n
			return
		}
	}
}

// print returns a line for each word.
func (t *table) print() []byte {
	var out []byte
	var b [16]byte
	for _, c := range t.slots {
		switch {
		case c.len == 0:
			continue
		case c.len > 16:
			out = append(out, t.longs[c.hi]...)
		default:
			binary.LittleEndian.PutUint64(b[:], c.lo)
			binary.LittleEndian.PutUint64(b[8:], c.hi)
			out = append(out, b[:c.len]...)
		}
		out = append(strconv.AppendInt(append(out, '\t'), c.n, 10), '\n')
	}
	return out
}
