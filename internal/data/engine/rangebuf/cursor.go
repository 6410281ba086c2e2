package rangebuf

import (
	"encoding/binary"

	"github.com/slotwise/slotwise/internal/data/engine/sortbuf"
	"github.com/slotwise/slotwise/internal/data/kv"
)

// Cursor iterates over one partition of a Buffer. It sorts a range when it reaches it.
type Cursor struct {
	b         *Buffer
	next, end int             // indexes of the ranges that have not been sorted yet
	entries   []sortbuf.Entry // of the current range, not returned yet
	room      []sortbuf.Entry // for the largest range: its entries and as much scratch space
	largest   int             // number of records in the largest range
	key       []byte
	prefix    uint64
	value     [kv.Int64Len]byte
}

var _ kv.Stream = (*Cursor)(nil)

// Cursor returns a new Cursor before the first record of partition p.
func (b *Buffer) Cursor(p int) *Cursor {
	c := &Cursor{b: b, next: p * b.ranges, end: (p + 1) * b.ranges}
	for _, t := range b.tails[c.next:c.end] {
		c.largest = max(c.largest, t.records)
	}
	return c
}

// Memory returns the size in bytes of the space in which the Cursor sorts.
func (c *Cursor) Memory() int { return c.largest * int(sortCost) }

// Next advances to the next record, if there is one.
func (c *Cursor) Next() bool {
	for len(c.entries) == 0 {
		if c.next == c.end {
			// A reduce may keep ended streams open until its last group. The room is the largest thing
			// they hold.
			c.room = nil
			return false
		}
		c.sort(c.next)
		c.next++
	}
	// Sorted records lie all over the arena. Without the prefetch each one costs a miss of the
	// cache.
	if ahead := sortbuf.Ahead(c.entries, false); ahead != nil {
		c.b.Prefetch(ahead, 0)
	}
	e := c.entries[0]
	c.entries = c.entries[1:]
	record := c.b.arena[e.Position():]
	n, at := keyLen(record)
	c.prefix = e.Prefix
	c.key = record[at : at+n : at+n]
	value := int64(record[at+n])
	// Most integers are small. One byte is a whole zigzag varint, and decoding it here saves a call for
	// each record.
	if value < 0x80 {
		value = value>>1 ^ -(value & 1)
	} else {
		value, _ = binary.Varint(record[at+n:])
	}
	kv.PutInt64(c.value[:], value)
	return true
}

// keyLen returns the length of a record's key and its position in the record.
func keyLen(record []byte) (n, at int) {
	if record[0] < 0x80 {
		return int(record[0]), 1
	}
	long, at := binary.Uvarint(record)
	return int(long), at
}

// sort makes range i the current one.
func (c *Cursor) sort(i int) {
	n := c.b.tails[i].records
	if n == 0 {
		return
	}
	if c.room == nil {
		c.room = make([]sortbuf.Entry, 2*c.largest)
	}
	// The sort's result replaces the entries of the range before, of which none is left.
	c.entries = c.b.index(i, c.room[:0:n])
	sortbuf.Sort(c.entries, c.room[n:2*n], false, c.b)
	c.b.Prefetch(sortbuf.Ahead(c.entries, true), 0)
}

// index appends an entry for each record of range i to entries.
func (b *Buffer) index(i int, entries []sortbuf.Entry) []sortbuf.Entry {
	for chunk := b.chunks[i].first; ; {
		at, end := chunk+chunkHeader, b.tails[i].at
		// addChunk has written the end of every chunk but the last one, which ends at the tail.
		if chunk != b.chunks[i].last {
			end = int64(binary.LittleEndian.Uint64(b.arena[chunk+8:]))
		}
		for at < end {
			record := b.arena[at:]
			n, body := keyLen(record)
			entries = append(entries, sortbuf.Entry{Prefix: window(record[body:], n), Ref: sortbuf.MakeRef(0, at, n)})
			at += int64(body + n)
			// The integer is only skipped here: its last byte is the first one without the continuation
			// bit.
			for b.arena[at] >= 0x80 {
				at++
			}
			at++
		}
		if chunk == b.chunks[i].last {
			return entries
		}
		chunk = int64(binary.LittleEndian.Uint64(b.arena[chunk:]))
	}
}

// Load implements sortbuf.Loader.
func (b *Buffer) Load(entries []sortbuf.Entry, depth int) {
	for i := range entries {
		e := &entries[i]
		record := b.arena[e.Position():]
		n, at := keyLen(record)
		e.SetWindow(window(record[at+depth:], n-depth), n-depth)
	}
}

// prefetched is the number of bytes of a record that are worth prefetching.
const prefetched = 32

// Prefetch implements sortbuf.Loader.
func (b *Buffer) Prefetch(entries []sortbuf.Entry, depth int) {
	sortbuf.Prefetch(entries, b.arena, 0, min(depth+prefetched, 128))
}

// window returns the first eight bytes of a key of left bytes at the start of b, most
// significant first and padded with zeros. b has at least eight bytes, even if left is
// smaller.
func window(b []byte, left int) uint64 {
	w := binary.BigEndian.Uint64(b)
	if left < 8 {
		w &= ^(^uint64(0) >> (8 * uint(left)))
	}
	return w
}

// Prefix returns the first eight bytes of the key, most significant first, padded with
// zeros: two different prefixes order the keys.
func (c *Cursor) Prefix() uint64 { return c.prefix }

// Key implements kv.Stream.
func (c *Cursor) Key() []byte { return c.key }

// Value implements kv.Stream.
func (c *Cursor) Value() []byte { return c.value[:] }

// Err returns nil: reading memory does not fail.
func (c *Cursor) Err() error { return nil }

// Close ends the iteration. It does not affect the Buffer.
func (c *Cursor) Close() error {
	c.next, c.entries, c.room = c.end, nil, nil
	return nil
}
