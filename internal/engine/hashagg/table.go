// Package hashagg is the map side's hash table for associative combiners: it
// keeps one small accumulator for each distinct key, so that a word count
// sorts its vocabulary and not its text.
//
// The table is one array of 32-byte entries with linear probing. Keys of up to
// 16 bytes lie in the entry itself and are compared as two words; of longer
// ones the entry has the hash and where in an arena the bytes are. The hash is
// fixed, so the same input fills the same table everywhere.
package hashagg

import (
	"errors"
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/slotwise/slotwise/internal/engine/mem"
	"github.com/slotwise/slotwise/internal/engine/sortbuf/radix"
	"github.com/slotwise/slotwise/internal/kv"
)

// Op is what a Table does with two values of the same key.
type Op int

// The operations. The first three work on integers coded by kv.PutInt64.
const (
	Sum  Op = iota // adds, wrapping around on overflow
	Min            // keeps the smaller
	Max            // keeps the larger
	Fold           // calls Config.Fold
)

// MaxWidth is the largest accumulator, in bytes.
const MaxWidth = 64

// Config describes a Table.
type Config struct {
	// Pool is charged for everything the Table occupies.
	Pool *mem.Pool

	// Limit is the most the Table may occupy, in bytes, what sorting it
	// will take included. The first key is taken whatever its length.
	Limit int64

	// Op is the operation; with Fold, the next two fields describe it.
	Op Op

	// Width is the length of every value and accumulator, 1 to MaxWidth.
	Width int

	// Fold replaces acc, which is Width bytes, by its combination with
	// value, which was emitted after everything that acc stands for. It
	// must be associative and keep neither slice.
	Fold func(acc, value []byte)
}

// entry is a slot of the table.
type entry struct {
	// The key, if it has at most inlineMax bytes: little-endian words
	// padded with zeros. Otherwise lo is its hash and hi its position in
	// the arena.
	lo, hi uint64

	// meta is the key's length plus one; zero marks a free slot.
	meta uint64

	// val is the accumulator: an integer, or up to eight bytes as they lie
	// in memory, or the position in the arena of a wider one.
	val uint64
}

const (
	entryShift = 5
	entrySize  = 1 << entryShift // == unsafe.Sizeof(entry{})
	inlineMax  = 16
	inlineAcc  = 8

	// sortCost is what sorting takes for each key: an entry in the index
	// and one in the scratch space.
	sortCost = 2 * int64(unsafe.Sizeof(radix.Entry{}))

	// sortChunk is for how many keys, at most, sorting is provided for at
	// a time.
	sortChunk = 4096
)

func (e *entry) keyLen() int  { return int(e.meta - 1) }
func (e *entry) inline() bool { return e.meta <= inlineMax+1 }

// Table aggregates. Its life is Add… Sort, Partition…, and then either Reset
// and the same again, or Release.
//
// Until Sort a Table belongs to one goroutine. From Sort to Reset or Release
// it is read-only and any number of goroutines may read it.
type Table struct {
	cfg Config

	slotsMem *mem.Region
	slots    []entry // a power of two of them
	shift    uint    // hash >> shift is the home slot
	n        int     // keys
	room     int     // keys that there is room for without asking

	arenaMem *mem.Region // reserved when first needed
	arena    []byte
	used     int64 // bytes of the arena
	granted  int64

	indexMem *mem.Region
	sortFor  int // keys for which sorting is paid for

	starts []int // of partitions in the sorted index; nil before Sort
	bytes  []int64
}

var _ kv.Partitioned = (*Table)(nil)

// New returns an empty Table, which occupies nothing yet.
func New(cfg Config) (*Table, error) {
	switch {
	case cfg.Op < Sum || cfg.Op > Fold:
		return nil, fmt.Errorf("hashagg: unknown operation %d", cfg.Op)
	case cfg.Limit < 0 || cfg.Limit >= 1<<radix.PositionBits:
		return nil, fmt.Errorf("hashagg: limit of %d bytes is out of range", cfg.Limit)
	case cfg.Op != Fold:
		cfg.Width = kv.Int64Len
	case cfg.Fold == nil:
		return nil, errors.New("hashagg: no function to fold with")
	case cfg.Width < 1 || cfg.Width > MaxWidth:
		return nil, fmt.Errorf("hashagg: values of %d bytes, want 1 to %d", cfg.Width, MaxWidth)
	}
	t := &Table{cfg: cfg}
	t.releaseSlots()
	var err error
	t.indexMem, err = mem.Reserve(cfg.Pool, max(cfg.Limit, sortChunk*sortCost))
	return t, err
}

// AddInt64 combines n into key's accumulator. It is for Sum, Min and Max. It
// returns false, having changed nothing, if the key is new and there is no
// room: the caller then sorts, spills and resets. An empty Table takes any key.
//
// No Add may come between Sort and Reset.
func (t *Table) AddInt64(key []byte, n int64) bool {
	if len(key) <= inlineMax {
		lo, hi := load(key)
		meta, mask := uint64(len(key)+1), uint64(len(t.slots)-1)
		for i := hash(lo, hi) >> (t.shift & 63) & mask; ; i = (i + 1) & mask {
			e := &t.slots[i]
			if e.lo == lo && e.hi == hi && e.meta == meta {
				t.combine(e, n)
				return true
			}
			if e.meta == 0 {
				break
			}
		}
	}
	e, fresh := t.slot(key)
	if e == nil {
		return false
	}
	if fresh {
		e.val = uint64(n)
	} else {
		t.combine(e, n)
	}
	return true
}

func (t *Table) combine(e *entry, n int64) {
	switch t.cfg.Op {
	case Sum:
		e.val += uint64(n)
	case Min:
		e.val = uint64(min(int64(e.val), n))
	case Max:
		e.val = uint64(max(int64(e.val), n))
	}
}

// Add combines an encoded value into key's accumulator; it works for every Op
// and is otherwise like AddInt64. It panics if value is not Width bytes long.
func (t *Table) Add(key, value []byte) bool {
	if len(value) != t.cfg.Width {
		panic(fmt.Sprintf("hashagg: value of %d bytes, want %d", len(value), t.cfg.Width))
	}
	if t.cfg.Op != Fold {
		return t.AddInt64(key, kv.Int64(value))
	}
	e, fresh := t.slot(key)
	if e == nil {
		return false
	}
	if acc := t.acc(e); fresh {
		copy(acc, value)
	} else {
		t.cfg.Fold(acc, value)
	}
	return true
}

// acc is e's accumulator as bytes.
func (t *Table) acc(e *entry) []byte {
	if w := t.cfg.Width; w > inlineAcc {
		return t.arena[e.val : e.val+uint64(w)]
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&e.val)), t.cfg.Width)
}

// slot finds key's entry or makes a fresh one; nil means there is no room.
func (t *Table) slot(key []byte) (e *entry, fresh bool) {
	probe := entry{meta: uint64(len(key) + 1)}
	if len(key) <= inlineMax {
		probe.lo, probe.hi = load(key)
	} else {
		probe.lo = hashLong(key)
	}
	if e = t.find(&probe, key); e.meta != 0 {
		return e, false
	}
	arena := int64(0)
	if len(key) > inlineMax {
		arena = int64(len(key)) + windowSlack
	}
	if t.cfg.Width > inlineAcc {
		arena += int64(t.cfg.Width)
	}
	if t.n == t.room || t.used+arena > t.granted {
		if !t.makeRoom(arena) {
			return nil, false
		}
		e = t.find(&probe, key)
	}
	*e = probe
	if len(key) > inlineMax {
		e.hi = uint64(t.used)
		copy(t.arena[t.used:], key)
		t.used += int64(len(key))
	}
	if t.cfg.Width > inlineAcc {
		e.val = uint64(t.used)
		t.used += int64(t.cfg.Width)
	}
	t.n++
	return e, true
}

// find returns the entry with probe's key, or the free one where it belongs.
func (t *Table) find(probe *entry, key []byte) *entry {
	mask := uint64(len(t.slots) - 1)
	for i := home(probe, t.shift) & mask; ; i = (i + 1) & mask {
		e := &t.slots[i]
		if e.meta == 0 {
			return e
		}
		if e.meta != probe.meta || e.lo != probe.lo {
			continue
		}
		if probe.inline() {
			if e.hi == probe.hi {
				return e
			}
		} else if string(t.arena[e.hi:e.hi+uint64(len(key))]) == string(key) {
			return e
		}
	}
}

// home is the slot at which the search for e's key begins.
func home(e *entry, shift uint) uint64 {
	h := e.lo
	if e.inline() {
		h = hash(e.lo, e.hi)
	}
	return h >> (shift & 63)
}

// Len is the number of distinct keys.
func (t *Table) Len() int { return t.n }

// Bytes is how much the Table is granted, in bytes; it is what Limit bounds.
func (t *Table) Bytes() int64 {
	slots := int64(0)
	if t.slotsMem != nil {
		slots = int64(len(t.slots)) * entrySize
	}
	return slots + t.granted + int64(t.sortFor)*sortCost
}

// Occupied is how many bytes the Pool is charged for the Table.
func (t *Table) Occupied() int64 {
	n := t.indexMem.Charged()
	if t.slotsMem != nil {
		n += t.slotsMem.Charged()
	}
	if t.arenaMem != nil {
		n += t.arenaMem.Charged()
	}
	return n
}

// The hash multiplies the two words, each made odd-looking first, into 128
// bits and folds them: every bit of the key reaches the high bits, which
// choose the slot.
const (
	mix1 = 0x9e3779b97f4a7c15
	mix2 = 0xd1b54a32d192ed03
)

func hash(lo, hi uint64) uint64 {
	h, l := bits.Mul64(lo^mix1, hi^mix2)
	return h ^ l
}
