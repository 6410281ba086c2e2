// Package radix sorts references to variable-length byte keys by a cached
// eight-byte window of each key.
//
// It serves the sort buffer, which keeps every record, and the hash table,
// which keeps one for each key.
//
// Almost all of a sort's work is done on the 16-byte entries alone: a stable
// most-significant-digit radix sort on the window, insertion sort for what is
// small. Only entries whose windows are equal and whose keys go on have their
// next eight bytes loaded, and are sorted by those in turn.
//
// The window of a key that ends inside it is padded with zeros, so "a" and
// "a\x00" look alike; the class in the reference (how much of the key was left
// at the window's start, at most 9) tells them apart. Within one window the
// order (Prefix, Ref) is thus exactly (key bytes, key length, emission order)
// for every key that ends there.
package radix

import "math/bits"

// Entry stands for one record in a sort.
type Entry struct {
	// Prefix is the window: eight bytes of the key, most significant
	// first, padded with zeros.
	Prefix uint64

	// Ref is composed by MakeRef.
	Ref uint64
}

// Widths of the fields of a Ref, from the least significant bit: position,
// class, partition.
const (
	PositionBits  = 40
	classBits     = 4
	PartitionBits = 64 - PositionBits - classBits

	// MaxPartitions is how many partitions a Ref can tell apart.
	MaxPartitions = 1 << PartitionBits

	classShift     = PositionBits
	partitionShift = PositionBits + classBits
	positionMask   = 1<<PositionBits - 1
	classMask      = (1<<classBits - 1) << classShift

	// more is the class of keys that go on after the window.
	more = 9
)

// MakeRef composes a Ref. Positions must ascend in emission order within a
// partition; left is the number of key bytes from the window's start.
func MakeRef(partition int, position int64, left int) uint64 {
	return uint64(partition)<<partitionShift | uint64(min(left, more))<<classShift | uint64(position)
}

// Position is where the record is, as given to MakeRef.
func (e Entry) Position() int64 { return int64(e.Ref & positionMask) }

// Partition is the record's partition, as given to MakeRef.
func (e Entry) Partition() int { return int(e.Ref >> partitionShift) }

// SetWindow replaces the window, of which left key bytes remained.
func (e *Entry) SetWindow(prefix uint64, left int) {
	e.Prefix = prefix
	e.Ref = e.Ref&^uint64(classMask) | uint64(min(left, more))<<classShift
}

func (e *Entry) class() uint64 { return e.Ref & classMask >> classShift }

func less(x, y Entry) bool {
	return x.Prefix < y.Prefix || x.Prefix == y.Prefix && x.Ref < y.Ref
}

// Loader knows the keys behind the references.
type Loader interface {
	// Load sets, by SetWindow, the window of each entry to the key bytes
	// from depth on. Every key has at least depth+1 bytes.
	Load(entries []Entry, depth int)

	// Prefetch announces a Load of these entries; see the function
	// Prefetch.
	Prefetch(entries []Entry, depth int)
}

// Tuning, found by measurement on random and on text keys.
const (
	smallMax = 24 // at most this many entries are sorted by insertion
	maxWidth = 11 // bits of the widest digit: the write streams stay in L2
)

// Sort sorts data, whose entries are in emission order and of one partition,
// by key and for equal keys in emission order. The result is in scratch, which
// is of the same length, if toScratch is set and in data if not; the other
// holds garbage. Every Prefix is again the key's first eight bytes.
func Sort(data, scratch []Entry, toScratch bool, l Loader) {
	s := &sorter{load: l}
	s.sort(data, scratch[:len(data)], toScratch, 0)
}

// SortPartitions sorts data, whose entries are in emission order, by partition,
// key and emission order. starts[p] is where partition p begins in the result;
// the last element of starts is the number of entries. scratch is at least as
// long as data and holds garbage afterwards.
func SortPartitions(data, scratch []Entry, starts []int, l Loader) {
	scratch = scratch[:len(data)]
	s := &sorter{load: l}
	if len(starts) == 2 {
		s.sort(data, scratch, false, 0)
		return
	}
	next := append([]int(nil), starts...)
	for _, e := range data {
		at := &next[e.Partition()]
		scratch[*at] = e
		*at++
	}
	for p, start := range starts[:len(starts)-1] {
		if end := starts[p+1]; end > start {
			s.sort(scratch[start:end], data[start:end], true, 0)
		}
	}
}

type sorter struct {
	load Loader
	tied [2 * tieBatch]Entry // used by prefetchTies
}

// sort sorts a by the key bytes from depth on, where its windows start, into a
// or, if toB, into b.
func (s *sorter) sort(a, b []Entry, toB bool, depth int) {
	s.byWindow(a, b, toB)
	if toB {
		a, b = b, a
	}
	s.ties(a, b, depth)
}

// byWindow sorts a by (Prefix, Ref) into a or, if toB, into b.
func (s *sorter) byWindow(a, b []Entry, toB bool) {
	if len(a) <= smallMax {
		insertion(a)
	} else if diff, sorted := survey(a); diff == 0 {
		byClass(a, b)
	} else if !sorted {
		s.pass(a, b, toB, diff)
		return
	}
	if toB {
		copy(b, a)
	}
}

// survey returns which window bits differ among a's entries and whether they
// are in order already.
func survey(a []Entry) (diff uint64, sorted bool) {
	first, last, sorted := a[0].Prefix, a[0], true
	for _, e := range a[1:] {
		diff |= e.Prefix ^ first
		if less(e, last) {
			sorted = false
		}
		last = e
	}
	return diff, sorted
}

// pass sorts a by the digit that starts at the highest differing bit, and each
// bucket by what is left.
func (s *sorter) pass(a, b []Entry, toB bool, diff uint64) {
	top := bits.Len64(diff)
	width := min(max(bits.Len(uint(len(a)))-3, 1), maxWidth, top)
	shift := uint(top - width)
	// Clearing the large array would cost small inputs more than sorting.
	if width <= 6 {
		var ends [1 << 6]uint32
		s.distribute(a, b, toB, shift, ends[:1<<width])
	} else {
		var ends [1 << maxWidth]uint32
		s.distribute(a, b, toB, shift, ends[:1<<width])
	}
}

// distribute moves a's entries to their buckets in b, in their order, and
// sorts the buckets. ends is zero and has an element for each digit.
func (s *sorter) distribute(a, b []Entry, toB bool, shift uint, ends []uint32) {
	mask := uint64(len(ends) - 1)
	for i := range a {
		ends[a[i].Prefix>>(shift&63)&mask]++
	}
	sum := uint32(0)
	for i, c := range ends {
		ends[i] = sum
		sum += c
	}
	for _, e := range a {
		at := &ends[e.Prefix>>(shift&63)&mask]
		b[*at] = e
		*at++
	}
	start := uint32(0)
	for _, end := range ends {
		if end-start > 1 {
			s.byWindow(b[start:end], a[start:end], !toB)
		} else if end != start && !toB {
			a[start] = b[start]
		}
		start = end
	}
}

func insertion(a []Entry) {
	for i := 1; i < len(a); i++ {
		e := a[i]
		j := i
		for ; j > 0 && less(e, a[j-1]); j-- {
			a[j] = a[j-1]
		}
		a[j] = e
	}
}

// tieBatch is how many entries ahead ties looks for keys to prefetch.
const tieBatch = 64

// ties finds, in entries sorted by (Prefix, Ref), those with equal windows
// whose keys go on, and sorts them by what follows.
func (s *sorter) ties(a, b []Entry, depth int) {
	seen := 0
	for i := 1; i < len(a); i++ {
		if i >= seen-tieBatch/2 && seen < len(a) && len(a) > smallMax/2 {
			end := min(i+tieBatch, len(a))
			s.prefetchTies(a[max(seen, i)-1:end], depth+8)
			seen = end
		}
		if a[i].Prefix != a[i-1].Prefix || a[i-1].class() != more {
			continue
		}
		start := i - 1
		for i++; i < len(a) && a[i].Prefix == a[start].Prefix; i++ {
		}
		s.deeper(a[start:i], b[start:i], depth+8)
	}
}

// prefetchTies prefetches the keys that ties will need among at most
// tieBatch+1 entries.
func (s *sorter) prefetchTies(a []Entry, depth int) {
	n, last := 0, -1
	for i := 1; i < len(a); i++ {
		if a[i].Prefix != a[i-1].Prefix || a[i-1].class() != more {
			continue
		}
		if last != i-1 {
			s.tied[n] = a[i-1]
			n++
		}
		s.tied[n], last = a[i], i
		n++
	}
	if n > 0 {
		s.load.Prefetch(s.tied[:n], depth)
	}
}

// deeper sorts entries that are equal up to depth by their key bytes from
// there on. The loop (rather than recursion) bounds the stack where keys share
// megabytes.
func (s *sorter) deeper(a, b []Entry, depth int) {
	all, prefix, start := a, a[0].Prefix, depth
	for len(a) > 1 {
		s.load.Load(a, depth)
		if diff, _ := survey(a); diff != 0 {
			s.sort(a, b, false, depth)
			break
		}
		ended := byClass(a, b)
		a, b = a[ended:], b[ended:]
		depth += 8
	}
	if start == 8 { // deeper windows are of no interest to anyone
		for i := range all {
			all[i].Prefix = prefix
		}
	}
}

// byClass stably orders entries with equal windows by class, that is by key
// length, and returns how many of the keys end in the window.
func byClass(a, b []Entry) (ended int) {
	var counts [more + 2]int
	for i := range a {
		counts[a[i].class()+1]++
	}
	ended = len(a) - counts[more+1]
	if counts[a[0].class()+1] == len(a) {
		return ended
	}
	for i := 1; i < len(counts); i++ {
		counts[i] += counts[i-1]
	}
	for _, e := range a {
		at := &counts[e.class()]
		b[*at] = e
		*at++
	}
	copy(a, b[:len(a)])
	return ended
}
