package hashagg

import (
	"encoding/binary"
	"math/bits"
	"unsafe"

	"github.com/slotwise/slotwise/internal/data/engine/sortbuf"
	"github.com/slotwise/slotwise/internal/data/kv"
)

// Sort sorts the keys by (partition, key bytes) and makes the Table read-only.
// partition returns the partition of a key, 0 to parts-1, and must not keep the key.
// With one partition it is not called and may be nil.
func (t *Table) Sort(partition func(key []byte) int, parts int) {
	// First: the index refers to entries by their slots, which compact changes.
	t.compact()
	t.starts, t.bytes = make([]int, parts+1), make([]int64, parts)
	both := t.index(2 * t.n)
	index, scratch := both[:t.n], both[t.n:]
	var buf [inlineMax]byte
	for i := range index {
		e, p := &t.slots[i], 0
		key := t.key(e, &buf)
		if parts > 1 {
			p = partition(key)
		}
		t.starts[p+1]++
		t.bytes[p] += int64(len(key) + t.cfg.Width)
		// The first eight bytes of a short key are in the entry in little-endian order. A
		// comparison needs the first byte as the most significant.
		prefix := bits.ReverseBytes64(e.lo)
		if !e.inline() {
			prefix = binary.BigEndian.Uint64(key)
		}
		// The slot serves as the position: keys are distinct, so no emission order has to be kept.
		index[i] = sortbuf.Entry{Prefix: prefix, Ref: sortbuf.MakeRef(p, int64(i), len(key))}
	}
	for p := range parts {
		t.starts[p+1] += t.starts[p]
	}
	sortbuf.SortPartitions(index, scratch, t.starts, t)
}

// compact moves the entries to the front, so that Trim can return the rest. Until
// Reset the slots are no hash table.
func (t *Table) compact() {
	n := 0
	// An entry moves to a lower slot or stays, so none is overwritten before it has moved. The arena
	// stays, and with it the positions in the entries.
	for i := 0; n < t.n; i++ {
		if t.slots[i].meta != 0 {
			t.slots[n] = t.slots[i]
			n++
		}
	}
}

// index returns the first n entries of the sort's index.
func (t *Table) index(n int) []sortbuf.Entry {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*sortbuf.Entry)(unsafe.Pointer(unsafe.SliceData(t.indexMem.Bytes()))), n)
}

// key returns e's key, in buf if it lies in the entry.
func (t *Table) key(e *entry, buf *[inlineMax]byte) []byte {
	if !e.inline() {
		return t.arena[e.hi : e.hi+uint64(e.keyLen())]
	}
	binary.LittleEndian.PutUint64(buf[:], e.lo)
	binary.LittleEndian.PutUint64(buf[8:], e.hi)
	return buf[:e.keyLen()]
}

// Load implements sortbuf.Loader.
func (t *Table) Load(entries []sortbuf.Entry, depth int) {
	for i := range entries {
		e := &t.slots[entries[i].Position()]
		left := e.keyLen() - depth
		if e.inline() {
			// An inline key has at most 16 bytes, so its second window is the word hi, and no third one
			// exists.
			entries[i].SetWindow(bits.ReverseBytes64(e.hi), left) // depth is 8
			continue
		}
		// windowSlack behind the last key keeps these eight bytes within the arena.
		window := binary.BigEndian.Uint64(t.arena[e.hi+uint64(depth):])
		if left < 8 {
			window &= ^(^uint64(0) >> (8 * uint(left)))
		}
		entries[i].SetWindow(window, left)
	}
}

// Prefetch implements sortbuf.Loader.
func (t *Table) Prefetch(entries []sortbuf.Entry, _ int) {
	// The entries, not the long keys: their place in the arena is only known from the entry.
	if len(entries) > 0 {
		sortbuf.Prefetch(entries, t.slotsMem.Bytes(), entryShift, int(entrySize))
	}
}

// Size implements kv.Partitioned; the Table must have been sorted.
func (t *Table) Size(p int) (records, bytes int64) {
	return int64(t.starts[p+1] - t.starts[p]), t.bytes[p]
}

// Partition implements kv.Partitioned; the Stream is a *Cursor.
func (t *Table) Partition(p int) (kv.Stream, error) { return t.Cursor(p), nil }

// Cursor returns a new Cursor before the first key of partition p. The Table
// must have been sorted.
func (t *Table) Cursor(p int) *Cursor {
	c := &Cursor{table: t, entries: t.index(t.n)[t.starts[p]:t.starts[p+1]]}
	t.Prefetch(sortbuf.Ahead(c.entries, true), 0)
	return c
}

// Cursor iterates over one partition of a sorted Table. It returns values in the
// encoding of Add: integers by kv.PutInt64.
type Cursor struct {
	table   *Table
	entries []sortbuf.Entry // not returned yet
	prefix  uint64
	key     []byte
	value   []byte
	keyBuf  [inlineMax]byte
	valBuf  [kv.Int64Len]byte
}

var _ kv.Stream = (*Cursor)(nil)

// Next advances to the next key, if there is one.
func (c *Cursor) Next() bool {
	if len(c.entries) == 0 {
		return false
	}
	if ahead := sortbuf.Ahead(c.entries, false); ahead != nil {
		c.table.Prefetch(ahead, 0)
	}
	ref := c.entries[0]
	c.entries = c.entries[1:]
	e := &c.table.slots[ref.Position()]
	c.prefix = ref.Prefix
	c.key = c.table.key(e, &c.keyBuf)
	if c.table.cfg.Op == Fold {
		c.value = c.table.acc(e)
	} else {
		kv.PutInt64(c.valBuf[:], int64(e.val))
		c.value = c.valBuf[:]
	}
	return true
}

// Prefix returns the first eight bytes of the key, most significant first, padded
// with zeros: two different prefixes order the keys.
func (c *Cursor) Prefix() uint64 { return c.prefix }

// Key implements kv.Stream.
func (c *Cursor) Key() []byte { return c.key }

// Value implements kv.Stream.
func (c *Cursor) Value() []byte { return c.value }

// Err returns nil: reading memory does not fail.
func (c *Cursor) Err() error { return nil }

// Close ends the iteration. It does not affect the Table.
func (c *Cursor) Close() error {
	c.entries = nil
	return nil
}
