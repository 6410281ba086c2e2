package sortbuf

import (
	"github.com/slotwise/slotwise/internal/data/kv"
)

// Cursor iterates over one partition of a sorted Buffer. Key and Value are slices of
// the Buffer. Unlike kv.Stream demands, they stay valid until the Buffer's Reset or
// Release.
type Cursor struct {
	arena   []byte
	entries []Entry // not returned yet
	span    int     // number of bytes of a record that are worth prefetching
	prefix  uint64
	key     []byte
	value   []byte
}

var _ kv.Stream = (*Cursor)(nil)

// Cursor returns a new Cursor before the first record of partition p. The
// Buffer must have been sorted.
func (b *Buffer) Cursor(p int) *Cursor {
	c := &Cursor{arena: b.arena, entries: b.index[b.starts[p]:b.starts[p+1]]}
	// The mean size of a record. The bound keeps two batches ahead within 4 KiB of the first-level
	// cache.
	if records, bytes := b.Size(p); records > 0 {
		c.span = min(int(bytes/records), 256)
	}
	Prefetch(Ahead(c.entries, true), c.arena, 0, c.span)
	return c
}

// Partition implements kv.Partitioned; the Stream is a *Cursor.
func (b *Buffer) Partition(p int) (kv.Stream, error) { return b.Cursor(p), nil }

// Next advances to the next record, if there is one.
func (c *Cursor) Next() bool {
	if len(c.entries) == 0 {
		return false
	}
	if ahead := Ahead(c.entries, false); ahead != nil {
		Prefetch(ahead, c.arena, 0, c.span)
	}
	e := c.entries[0]
	c.entries = c.entries[1:]
	record := c.arena[e.Position():]
	n, keyLen, valueLen := header(record)
	c.prefix = e.Prefix
	// The capacities end with the slices: an append by the reader must not overwrite the next record.
	c.key = record[n : n+keyLen : n+keyLen]
	c.value = record[n+keyLen : n+keyLen+valueLen : n+keyLen+valueLen]
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

// Close ends the iteration. It does not affect the Buffer.
func (c *Cursor) Close() error {
	c.entries = nil
	return nil
}
