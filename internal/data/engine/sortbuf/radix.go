package sortbuf

import "math/bits"

// Entry represents one record in a sort.
//
// Almost all work is done on the 16-byte entries alone: a stable radix sort on the
// window, most significant digit first, and an insertion sort for few entries. Only
// if windows are equal and the keys are longer, the sort loads the next eight bytes
// of those keys and sorts by them.
//
// The window of a key that ends inside the window is padded with zeros, so "a" and
// "a\x00" have the same window. The class in the reference distinguishes them: it
// is the number of key bytes from the window's start, at most 9. Within one window
// the order (Prefix, Ref) is therefore exactly the order (key bytes, key length,
// emission order) for every key that ends there.
type Entry struct {
	// Prefix is the window: eight bytes of the key, most significant
	// first, padded with zeros.
	Prefix uint64

	// Ref is made by MakeRef.
	Ref uint64
}

// Widths of the fields of a Ref, from the least significant bit: position,
// class, partition.
const (
	PositionBits  = 40
	classBits     = 4
	PartitionBits = 64 - PositionBits - classBits

	// MaxPartitions is the largest number of partitions.
	MaxPartitions = 1 << PartitionBits

	classShift     = PositionBits
	partitionShift = PositionBits + classBits
	positionMask   = 1<<PositionBits - 1
	classMask      = (1<<classBits - 1) << classShift

	// more is the class of keys that are longer than the window.
	more = 9
)

// MakeRef returns a Ref. Positions must ascend in emission order within a
// partition; left is the number of key bytes from the window's start.
func MakeRef(partition int, position int64, left int) uint64 {
	return uint64(partition)<<partitionShift | uint64(min(left, more))<<classShift | uint64(position)
}

// Position returns the position of the record, as passed to MakeRef.
func (e Entry) Position() int64 { return int64(e.Ref & positionMask) }

// Partition returns the record's partition, as passed to MakeRef.
func (e Entry) Partition() int { return int(e.Ref >> partitionShift) }

// SetWindow replaces the window. left is the number of key bytes from its start.
func (e *Entry) SetWindow(prefix uint64, left int) {
	e.Prefix = prefix
	e.Ref = e.Ref&^uint64(classMask) | uint64(min(left, more))<<classShift
}

func (e *Entry) class() uint64 { return e.Ref & classMask >> classShift }

func less(x, y Entry) bool {
	return x.Prefix < y.Prefix || x.Prefix == y.Prefix && x.Ref < y.Ref
}

// Loader loads the keys of entries.
type Loader interface {
	// Load sets the window of each entry, by SetWindow, to the eight key bytes at
	// depth. Every key has at least depth+1 bytes.
	Load(entries []Entry, depth int)

	// Prefetch is called some time before Load with the same arguments. It may
	// prefetch the keys by the function Prefetch.
	Prefetch(entries []Entry, depth int)
}

// These values were found by measurements on random keys and on words.
const (
	smallMax = 24 // largest number of entries that are sorted by insertion
	maxWidth = 11 // bits of the widest digit: all write positions stay in the second-level cache
)

// Sort sorts data by key and, for equal keys, in emission order. The entries of data
// are in emission order and belong to one partition. The result is in scratch if
// toScratch is set, else in data; the other slice has undefined content. Both have
// the same length. In the result every Prefix is the first eight bytes of the key.
func Sort(data, scratch []Entry, toScratch bool, l Loader) {
	s := &sorter{load: l}
	s.sort(data, scratch[:len(data)], toScratch, 0)
}

// SortPartitions sorts data, whose entries are in emission order, by partition, key
// and emission order. The caller sets starts[p] to the index at which partition p
// begins, and the last element of starts to the number of entries. scratch is at
// least as long as data; its content is undefined afterwards.
func SortPartitions(data, scratch []Entry, starts []int, l Loader) {
	scratch = scratch[:len(data)]
	s := &sorter{load: l}
	// One partition needs no distribution, and the caller has set both of its bounds.
	if len(starts) == 2 {
		s.sort(data, scratch, false, 0)
		return
	}
	// A copy: starts must keep the beginnings, while next moves through each partition.
	next := append([]int(nil), starts...)
	// In the order of emission, so that the distribution is stable.
	for _, e := range data {
		at := &next[e.Partition()]
		scratch[*at] = e
		*at++
	}
	for p, start := range starts[:len(starts)-1] {
		if end := starts[p+1]; end > start {
			// The distribution has moved the entries to scratch, so the sort brings them back.
			s.sort(scratch[start:end], data[start:end], true, 0)
		}
	}
}

type sorter struct {
	load Loader
	tied [2 * tieBatch]Entry // used by prefetchTies
}

// sort sorts a by the key bytes from depth on. The windows of a start at depth. The
// result is in b if toB is set, else in a.
func (s *sorter) sort(a, b []Entry, toB bool, depth int) {
	s.byWindow(a, b, toB)
	if toB {
		a, b = b, a
	}
	s.ties(a, b, depth)
}

// byWindow sorts a by (Prefix, Ref). The result is in b if toB is set, else in a.
func (s *sorter) byWindow(a, b []Entry, toB bool) {
	if len(a) <= smallMax {
		insertion(a)
	} else if diff, sorted := survey(a); diff == 0 {
		// All windows are equal, so only the classes order the entries.
		byClass(a, b)
	} else if !sorted {
		// Sorted input, such as the output of an earlier job, does not come here and is only read.
		s.pass(a, b, toB, diff)
		return
	}
	if toB {
		copy(b, a)
	}
}

// survey returns the window bits that differ among the entries of a, and whether the
// entries are already in order.
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

// pass sorts a by the digit that starts at the highest differing bit, and then each
// bucket by the bits below.
func (s *sorter) pass(a, b []Entry, toB bool, diff uint64) {
	top := bits.Len64(diff)
	// About eight entries a bucket, which an insertion sort then finishes. More buckets would be mostly
	// empty and cost more to visit.
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

// distribute moves the entries of a to their buckets in b, keeping their order, and
// sorts the buckets. ends has a zero element for each value of the digit.
func (s *sorter) distribute(a, b []Entry, toB bool, shift uint, ends []uint32) {
	mask := uint64(len(ends) - 1)
	for i := range a {
		// Masking the shift by 63 lets the compiler drop the test for larger shifts.
		ends[a[i].Prefix>>(shift&63)&mask]++
	}
	// Counters of 32 bits keep the table small enough for the cache. MaxLimit keeps the sums within them.
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
	// After the distribution ends[i] is the end of bucket i.
	start := uint32(0)
	for _, end := range ends {
		if end-start > 1 {
			// The entries are in b now, so a is the scratch space, and the wanted side has changed.
			s.byWindow(b[start:end], a[start:end], !toB)
		} else if end != start && !toB {
			a[start] = b[start]
		}
		start = end
	}
}

// insertion sorts a few entries in place and keeps the order of equal ones.
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

// tieBatch is the number of entries for which ties prefetches keys at a time.
const tieBatch = 64

// ties sorts entries with equal windows and longer keys by the bytes behind the
// window. The entries are sorted by (Prefix, Ref).
func (s *sorter) ties(a, b []Entry, depth int) {
	seen := 0
	for i := 1; i < len(a); i++ {
		// Half a batch ahead of the scan, so that the loads have time to arrive. Few entries are not
		// worth it.
		if i >= seen-tieBatch/2 && seen < len(a) && len(a) > smallMax/2 {
			end := min(i+tieBatch, len(a))
			s.prefetchTies(a[max(seen, i)-1:end], depth+8)
			seen = end
		}
		// byClass and less put keys that end in the window before longer ones. So a class below more
		// says that the order of the pair is final.
		if a[i].Prefix != a[i-1].Prefix || a[i-1].class() != more {
			continue
		}
		start := i - 1
		// The class is more from the first key that is longer than the window up to the last key with
		// this window.
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
		// The first of a group of ties; the others add only themselves.
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

// deeper sorts entries whose keys are equal up to depth by the key bytes from depth
// on. It loops and does not recurse, so that keys with megabytes in common do not
// exhaust the stack.
func (s *sorter) deeper(a, b []Entry, depth int) {
	all, prefix, start := a, a[0].Prefix, depth
	for len(a) > 1 {
		s.load.Load(a, depth)
		// Some keys differ here, so the sort divides them. It also handles the ties within.
		if diff, _ := survey(a); diff != 0 {
			s.sort(a, b, false, depth)
			break
		}
		// Keys that end here are in their final order by length, and equal ones by emission. Only the
		// longer ones need the next window.
		ended := byClass(a, b)
		a, b = a[ended:], b[ended:]
		depth += 8
	}
	if start == 8 { // callers need the first window again
		for i := range all {
			all[i].Prefix = prefix
		}
	}
}

// byClass stably sorts entries with equal windows by class, that is by key length.
// It returns the number of keys that end in the window.
func byClass(a, b []Entry) (ended int) {
	var counts [more + 2]int
	for i := range a {
		counts[a[i].class()+1]++
	}
	ended = len(a) - counts[more+1]
	// All entries are in one class, so their order of emission is the order of the keys.
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
