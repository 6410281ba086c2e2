// Package sortbuf is the sort buffer of a map task. It collects emitted records,
// sorts them by partition and key, and returns them in that order. Its memory is
// bounded and outside the Go heap.
//
// Records are copied into an arena, one after the other, and do not move. Sorting
// only moves the entries of an index, 16 bytes for each record. An entry holds the
// first eight bytes of the key, so most comparisons need nothing else.
//
//	arena │ hdr key value │ hdr key value │ …          grows upwards
//	index │ prefix ref │ prefix ref │ … ┆ scratch      scratch: as long again
//
// The sort of entries by the windows of their keys (radix.go) also serves the hash table and the
// range buffer.
package sortbuf

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/slotwise/slotwise/internal/data/engine/mem"
	"github.com/slotwise/slotwise/internal/data/kv"
)

// Config describes a Buffer.
type Config struct {
	// Pool is charged for all memory of the Buffer.
	Pool *mem.Pool

	// Limit is the size limit of the Buffer in bytes, including its index and the
	// scratch space for sorting. An empty Buffer takes a larger record
	// nevertheless.
	Limit int64

	// Partitions is the number of partitions, at least 1 and at most
	// MaxPartitions.
	Partitions int
}

// entryCost is the memory for one record besides its bytes in the arena: its index
// entry and as much scratch space for the sort.
const entryCost = 2 * entrySize

const entrySize = int64(unsafe.Sizeof(Entry{}))

// MaxLimit is the largest Config.Limit in bytes. Within it there are fewer than 2³² records, so
// the 32-bit counters of the sort cannot overflow.
const MaxLimit = entryCost<<32 - 1

// Buffer collects records and sorts them. The calls are Add any number of times,
// Sort, and Partition any number of times. Then Reset starts the cycle again or
// Release ends it.
//
// Until Sort only one goroutine may use a Buffer. From Sort to Reset or Release it
// is read-only and any number of goroutines may read it.
type Buffer struct {
	cfg   Config
	chunk int64 // space is granted in pieces of this size in bytes

	data  share
	arena []byte // the whole reservation, of which the granted part may be used
	used  int64

	entries share
	index   []Entry // the granted part without the scratch space
	n       int

	parts  []size
	starts []int // of the partitions in the sorted index, and its end
}

// share is a region and its granted size. Grants keep within the Limit and are in
// finer pieces than the charges to the Pool.
type share struct {
	region  *mem.Region
	granted int64
}

type size struct{ records, bytes int64 }

var _ kv.Partitioned = (*Buffer)(nil)

// New returns an empty Buffer, which takes no memory yet.
func New(cfg Config) (*Buffer, error) {
	if cfg.Partitions < 1 || cfg.Partitions > MaxPartitions {
		return nil, fmt.Errorf("sortbuf: %d partitions, want 1 to %d", cfg.Partitions, MaxPartitions)
	}
	if cfg.Limit < 0 || cfg.Limit > MaxLimit {
		return nil, fmt.Errorf("sortbuf: limit of %d bytes is out of range", cfg.Limit)
	}
	b := &Buffer{
		cfg:    cfg,
		chunk:  max(4<<10, min(mem.Step, cfg.Limit/32)),
		parts:  make([]size, cfg.Partitions),
		starts: make([]int, cfg.Partitions+1),
	}
	var err error
	// Neither region is read before it is written: used and n say how far the content goes.
	if b.entries.region, err = mem.ReserveUncleared(cfg.Pool, max(cfg.Limit, mem.Step)); err != nil {
		return nil, err
	}
	if err = b.reserveArena(cfg.Limit); err != nil {
		b.entries.region.Release()
		return nil, err
	}
	// Memory of earlier buffers, with larger or smaller records, may exceed the limit.
	if over := b.Occupied() - cfg.Limit; over > 0 {
		b.entries.region.Trim(max(0, b.entries.region.Charged()-over))
		b.data.region.Trim(cfg.Limit - b.entries.region.Charged())
	}
	return b, nil
}

// windowSlack is the free space behind the last key, so that eight bytes can be read
// from each of its bytes.
const windowSlack = 8

// reserveArena gets a region for the records, with room for the last key's window.
func (b *Buffer) reserveArena(size int64) error {
	r, err := mem.ReserveUncleared(b.cfg.Pool, size+windowSlack)
	if err != nil {
		return err
	}
	b.data, b.arena = share{region: r}, r.Bytes()
	return nil
}

// Add copies a record into the Buffer. If there is no room it adds nothing and
// returns false. The caller then sorts, spills and resets the Buffer. An empty
// Buffer takes any record, even beyond its limits.
//
// Add must not be called between Sort and Reset.
func (b *Buffer) Add(part int, key, value []byte) bool {
	need := int64(headerLen(len(key), len(value)) + len(key) + len(value))
	if need > b.data.granted-b.used || b.n == len(b.index) {
		if !b.makeRoom(need) {
			return false
		}
	}
	at := b.used
	body := int(at) + putHeader(b.arena[at:], len(key), len(value))
	copy(b.arena[body:], key)
	if len(value) > 0 {
		copy(b.arena[body+len(key):], value)
	}
	b.index[b.n] = Entry{
		Prefix: window(b.arena[body:], len(key)),
		Ref:    MakeRef(part, at, len(key)),
	}
	p := &b.parts[part]
	p.records++
	p.bytes += int64(len(key) + len(value))
	b.used += need
	b.n++
	return true
}

// makeRoom grants space for one more record of need bytes in the arena.
func (b *Buffer) makeRoom(need int64) bool {
	arena, index := b.used+need, int64(b.n+1)*entryCost
	// A single record that exceeds the limit must still be taken: no spill would make enough room.
	if b.n == 0 {
		return b.forceRoom(arena, index)
	}
	// Before grow, which looks at grants alone: the limit applies to the bytes that the records need.
	if arena+index > b.cfg.Limit {
		return false
	}
	if arena > b.data.granted && !b.grow(&b.data, arena, &b.entries, index) {
		return false
	}
	if index > b.entries.granted && !b.grow(&b.entries, index, &b.data, arena) {
		return false
	}
	// Also if only the arena has grown: grow may have cut the grant of the index.
	b.grantIndex(b.entries.granted)
	return true
}

// grow grants need bytes to s. An earlier cycle with larger or smaller records may
// have left the other share more than it uses now. If s cannot grow otherwise,
// grow takes that surplus from the other share.
func (b *Buffer) grow(s *share, need int64, other *share, otherUses int64) bool {
	for {
		grant := min(need+b.chunk, b.cfg.Limit-other.granted)
		// The Pool may refuse although the limit has room: it also serves the process's other attempts.
		if grant >= need && s.region.Grow(grant) {
			s.granted = grant
			return true
		}
		keep, before := otherUses+b.chunk, other.region.Charged()
		other.region.Trim(keep)
		// Nothing was left to take, so another turn would change nothing.
		if other.granted <= keep && other.region.Charged() == before {
			return false
		}
		other.granted = min(other.granted, keep)
	}
}

// forceRoom makes room for the first record, even beyond the limits. Otherwise a job
// with a very long line, or with other tasks that use up the Pool, would never end.
func (b *Buffer) forceRoom(arena, index int64) bool {
	// The buffer is empty, so the old region has nothing to move.
	if arena+windowSlack > b.data.region.Size() {
		b.data.region.Release()
		if err := b.reserveArena(arena); err != nil {
			panic(err) // the address space is exhausted
		}
	}
	if arena > b.data.granted {
		b.data.region.ForceGrow(arena)
		b.data.granted = arena
	}
	if index > b.entries.granted {
		b.entries.region.ForceGrow(index)
		b.grantIndex(index)
	}
	return true
}

func (b *Buffer) grantIndex(bytes int64) {
	b.entries.granted = bytes
	b.index = entries(b.entries.region, int(bytes/entryCost))
}

// entries returns the start of a region as n entries.
func entries(r *mem.Region, n int) []Entry {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*Entry)(unsafe.Pointer(unsafe.SliceData(r.Bytes()))), n)
}

// Len returns the number of records.
func (b *Buffer) Len() int { return b.n }

// Bytes returns the memory that the records need, including index and scratch space.
// Limit bounds it.
func (b *Buffer) Bytes() int64 { return b.used + int64(b.n)*entryCost }

// Occupied returns the number of bytes that are charged to the Pool.
func (b *Buffer) Occupied() int64 { return b.data.region.Charged() + b.entries.region.Charged() }

// Sort orders the records by (partition, key bytes, emission order) and makes
// the Buffer read-only.
func (b *Buffer) Sort() {
	start := 0
	for p := range b.parts {
		b.starts[p] = start
		start += int(b.parts[p].records)
	}
	b.starts[len(b.parts)] = start
	// Each record was granted entryCost bytes, twice an entry, so the scratch space is there already.
	both := entries(b.entries.region, 2*b.n)
	SortPartitions(both[:b.n], both[b.n:], b.starts, b)
}

// Load implements Loader.
func (b *Buffer) Load(entries []Entry, depth int) {
	for i := range entries {
		// The first batch was announced by the sort. The rest would miss the cache one record after the
		// other.
		if i%loadBatch == 0 && len(entries)-i > loadBatch {
			b.Prefetch(entries[i+loadBatch:min(len(entries), i+2*loadBatch)], depth)
		}
		e := &entries[i]
		at := e.Position()
		body, keyLen, _ := header(b.arena[at:])
		left := keyLen - depth
		e.SetWindow(window(b.arena[int(at)+body+depth:], left), left)
	}
}

// loadBatch is the number of keys that are prefetched while as many are loaded.
const loadBatch = 16

// Prefetch announces a Load. The length and the bytes at depth may lie in two
// cache lines; of long keys only the first is needed early, since the second
// does not depend on it.
func (b *Buffer) Prefetch(entries []Entry, depth int) {
	Prefetch(entries, b.arena, 0, min(depth+longHeaderLen, 128))
}

// Trim returns the unused memory of a sorted Buffer that stays in memory to the
// Pool: granted space without records and the scratch space of the sort.
func (b *Buffer) Trim() {
	b.data.region.Trim(b.used)
	b.data.granted = b.used
	b.entries.region.Trim(int64(b.n) * entrySize)
	b.index = entries(b.entries.region, b.n)
	b.entries.granted = int64(b.n) * entrySize
}

// Reset removes all records. It keeps the memory, so that the next cycle causes no
// page faults.
func (b *Buffer) Reset() {
	if b.data.region.Charged() > b.cfg.Limit+mem.Step {
		b.data.region.Trim(0) // forceRoom has exceeded the limit
		b.data.granted = 0
	}
	clear(b.parts)
	b.used, b.n = 0, 0
	b.grantIndex(b.entries.granted) // Trim left it without scratch
}

// Release returns all memory. Afterwards only Release may be called, which does
// nothing.
func (b *Buffer) Release() {
	b.data.region.Release()
	b.entries.region.Release()
	b.arena, b.index, b.used, b.data.granted, b.n, b.entries.granted = nil, nil, 0, 0, 0, 0
}

// Size implements kv.Partitioned. It may be called before Sort, too.
func (b *Buffer) Size(p int) (records, bytes int64) {
	return b.parts[p].records, b.parts[p].bytes
}

// A record's header contains the lengths of its key and value, 16 bits each. If a
// length is larger, the header is longHeader followed by two 64-bit lengths.
const (
	shortHeaderLen = 4
	longHeaderLen  = 20
	longLen        = 1<<16 - 1
	longHeader     = 1<<32 - 1
)

// headerLen returns the length of a record's header.
func headerLen(keyLen, valueLen int) int {
	if keyLen >= longLen || valueLen >= longLen {
		return longHeaderLen
	}
	return shortHeaderLen
}

// putHeader encodes a record's header and returns its length.
func putHeader(b []byte, keyLen, valueLen int) int {
	if keyLen < longLen && valueLen < longLen {
		binary.LittleEndian.PutUint32(b, uint32(keyLen)|uint32(valueLen)<<16)
		return shortHeaderLen
	}
	binary.LittleEndian.PutUint32(b, longHeader)
	binary.LittleEndian.PutUint64(b[4:], uint64(keyLen))
	binary.LittleEndian.PutUint64(b[12:], uint64(valueLen))
	return longHeaderLen
}

// header decodes the header at the start of b. n is the length of the header.
func header(b []byte) (n, keyLen, valueLen int) {
	h := binary.LittleEndian.Uint32(b)
	if h != longHeader {
		return shortHeaderLen, int(h & longLen), int(h >> 16)
	}
	return longHeaderLen, int(binary.LittleEndian.Uint64(b[4:])), int(binary.LittleEndian.Uint64(b[12:]))
}

// window returns the first eight bytes of a key of left bytes at the start of b,
// most significant first and padded with zeros. b has at least eight bytes, even if
// left is smaller.
func window(b []byte, left int) uint64 {
	w := binary.BigEndian.Uint64(b)
	if left < 8 {
		w &= ^(^uint64(0) >> (8 * uint(left)))
	}
	return w
}
