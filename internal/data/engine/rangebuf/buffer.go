// Package rangebuf collects integers by key, for maps whose keys hardly repeat. It divides
// the keys into ranges, each of which fits into a core's cache, and sorts a range only when
// it is read.
//
// A record is written once, behind the last record of its range, and does not move. The
// ranges follow each other in key order. So the sorted ranges, one after
// the other, are the sorted records. There is no index of all records.
//
//	arena │ chunk of range 0 │ chunk of range 7 │ chunk of range 0 │ …      grows upwards
//	chunk │ next chunk  end │ key length  key  integer │ key length  key  integer │ … │ free
//
// Records with equal keys are not folded. Their order is that in which they were added.
package rangebuf

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/slotwise/slotwise/internal/data/engine/mem"
	"github.com/slotwise/slotwise/internal/data/engine/sortbuf"
	"github.com/slotwise/slotwise/internal/data/kv"
)

const (
	// buckets is the number of ranges of all partitions together, unless there are more
	// partitions. The position at which each one is written next stays in the cache.
	buckets = 1024
	// maxRecords is the largest number of records in a range. It bounds the memory for
	// sorting the range to 4 MiB.
	maxRecords = 1 << 17

	maxChunk   = 4 << 10 // bytes
	minChunk   = 256
	chunkShare = 8 // a Buffer has room for at least this number of chunks for each range

	chunkHeader = 16
	// recordRoom is the largest size of a record without its key.
	recordRoom = 2 * binary.MaxVarintLen64
	// windowSlack is the free space behind the last key, so that eight bytes can be read
	// from each of its bytes.
	windowSlack = 8
)

// Config describes a Buffer.
type Config struct {
	// Pool is charged for the memory of the records.
	Pool *mem.Pool

	// Limit is the largest size of the Buffer in bytes. An empty Buffer takes a larger
	// record nevertheless. Memory for sorting comes on top when the Buffer is read.
	Limit int64

	// Partitions is the number of partitions, which Fits has accepted.
	Partitions int

	// Cuts divide the keys into ranges. Buffers may share them.
	Cuts *Cuts
}

// Buffer collects integers by key. The calls are Add any number of times, Partition any
// number of times, and Release.
//
// Until the last Add only one goroutine may use a Buffer. From then to Release it is
// read-only and any number of goroutines may read it.
type Buffer struct {
	cfg    Config
	limit  int64
	ranges int // of each partition
	chunk  int64

	region *mem.Region
	arena  []byte
	used   int64 // bytes of the arena; chunks begin at chunkHeader, so that 0 is none

	tails  []tail  // by partition·ranges + range
	chunks []chain // by the same index
	parts  []size

	lacksMemory bool // the last Add that failed found no room for a chunk
}

// tail is the free part of the last chunk of a range.
type tail struct {
	at, end int64
	records int
}

// chain has the positions of the first and the last chunk of a range, 0 if it is empty.
type chain struct{ first, last int64 }

type size struct{ records, bytes int64 }

var _ kv.Partitioned = (*Buffer)(nil)

// Fits reports whether a Buffer with a limit of that size in bytes can have a number of
// partitions.
func Fits(limit int64, partitions int) bool { return chunkSize(limit, partitions) >= minChunk }

func chunkSize(limit int64, partitions int) int64 {
	return min(maxChunk, limit/int64(chunkShare*max(buckets, partitions)))
}

// New returns an empty Buffer, which takes no memory yet.
func New(cfg Config) (*Buffer, error) {
	if cfg.Limit < 0 || cfg.Limit >= 1<<sortbuf.PositionBits || cfg.Partitions < 1 || !Fits(cfg.Limit, cfg.Partitions) {
		return nil, fmt.Errorf("rangebuf: %d bytes for %d partitions are out of range", cfg.Limit, cfg.Partitions)
	}
	b := &Buffer{cfg: cfg, limit: cfg.Limit, ranges: cfg.Cuts.ranges(), chunk: chunkSize(cfg.Limit, cfg.Partitions)}
	n := cfg.Partitions * b.ranges
	b.tails, b.chunks, b.parts = make([]tail, n), make([]chain, n), make([]size, cfg.Partitions)
	if err := b.reserve(cfg.Limit); err != nil {
		return nil, err
	}
	b.region.Trim(cfg.Limit) // an earlier owner may have had more
	return b, nil
}

// reserve gets a region for the arena. Its first bytes stay unused: offset 0 means that there is no
// chunk.
func (b *Buffer) reserve(size int64) (err error) {
	// The content of an earlier owner does no harm: chains and tails say which bytes have been written.
	if b.region, err = mem.ReserveUncleared(b.cfg.Pool, size+windowSlack); err != nil {
		return err
	}
	b.arena, b.used = b.region.Bytes(), chunkHeader
	return nil
}

// SetLimit sets the size limit, at most to Config.Limit.
func (b *Buffer) SetLimit(bytes int64) { b.limit = min(bytes, b.cfg.Limit) }

// Add adds a record. If there is no room, in the Buffer or in the range of the key, it
// changes nothing and returns false. An empty Buffer takes any record.
func (b *Buffer) Add(part int, key []byte, n int64) bool {
	i := part*b.ranges + b.cfg.Cuts.find(key)
	t := &b.tails[i]
	if need := int64(len(key)) + recordRoom; need > t.end-t.at || t.records == maxRecords {
		// A full range can be held and begun anew. A lack of memory needs a spill.
		b.lacksMemory = t.records < maxRecords
		if t.records == maxRecords || !b.addChunk(i, need) {
			return false
		}
	}
	// recordRoom bounds both varints, so one comparison has made room for all of the record.
	a := b.arena[t.at:t.end]
	at := 1
	if len(key) < 0x80 {
		a[0] = byte(len(key))
	} else {
		at = binary.PutUvarint(a, uint64(len(key)))
	}
	at += copy(a[at:], key)
	at += binary.PutVarint(a[at:], n)
	t.at += int64(at)
	t.records++
	p := &b.parts[part]
	p.records++
	p.bytes += int64(len(key) + kv.Int64Len)
	return true
}

// LacksMemory reports whether the last Add that failed lacked memory. Otherwise the range of
// its key was full.
func (b *Buffer) LacksMemory() bool { return b.lacksMemory }

// addChunk appends a chunk with at least need bytes to a range.
func (b *Buffer) addChunk(i int, need int64) bool {
	// A record that is larger than a chunk gets a chunk of the record's size. The next record begins
	// another chunk.
	length := max(b.chunk, need+chunkHeader)
	// Before the chain changes: a failed Add must leave the buffer unchanged.
	if !b.grow(b.used + length) {
		return false
	}
	c, t := &b.chunks[i], &b.tails[i]
	if c.last == 0 {
		c.first = b.used
	} else {
		binary.LittleEndian.PutUint64(b.arena[c.last:], uint64(b.used))
		// Only the last chunk of a range ends at the tail. The others must remember where their
		// records end.
		binary.LittleEndian.PutUint64(b.arena[c.last+8:], uint64(t.at))
	}
	c.last = b.used
	t.at, t.end = b.used+chunkHeader, b.used+length
	b.used += length
	return true
}

// grow makes the first n bytes of the arena usable.
func (b *Buffer) grow(n int64) bool {
	// Pages of an earlier owner are charged already, maybe beyond a limit that SetLimit has lowered.
	if n <= b.region.Charged() {
		return n <= b.limit || b.empty()
	}
	if n <= b.limit && b.region.Grow(n) {
		return true
	}
	if !b.empty() {
		return false
	}
	// The region is empty, so nothing moves.
	if n > b.region.Size() {
		b.region.Release()
		if err := b.reserve(n); err != nil {
			panic(err) // the address space is exhausted
		}
	}
	// A spill cannot make room in an empty buffer. Without this a record larger than the memory would
	// make the attempt spill nothing forever.
	b.region.ForceGrow(n)
	return true
}

// empty reports whether no record has been added.
func (b *Buffer) empty() bool { return b.used == chunkHeader }

// Occupied returns the number of bytes that are charged to the Pool.
func (b *Buffer) Occupied() int64 { return b.region.Charged() }

// SortMemory returns the size in bytes of the memory that the largest range is sorted in.
func (b *Buffer) SortMemory() int64 {
	largest := 0
	for _, t := range b.tails {
		largest = max(largest, t.records)
	}
	return int64(largest) * sortCost
}

// sortCost is the memory for sorting a record: its entry and as much scratch space.
const sortCost = 2 * int64(unsafe.Sizeof(sortbuf.Entry{}))

// Trim returns the unused memory of a Buffer that stays in memory to the Pool.
func (b *Buffer) Trim() { b.region.Trim(b.used) }

// Release returns all memory. Afterwards only Release may be called, which does nothing.
func (b *Buffer) Release() {
	b.region.Release()
	b.arena, b.tails, b.chunks = nil, nil, nil
}

// Size implements kv.Partitioned.
func (b *Buffer) Size(p int) (records, bytes int64) { return b.parts[p].records, b.parts[p].bytes }

// Partition implements kv.Partitioned; the Stream is a *Cursor.
func (b *Buffer) Partition(p int) (kv.Stream, error) { return b.Cursor(p), nil }
