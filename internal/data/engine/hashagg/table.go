// Package hashagg is the hash table of map tasks with an aggregate. It has one small
// accumulator for each distinct key, so a word count sorts distinct words and not
// all words.
//
// The table is one array of 32-byte entries with linear probing. An entry contains
// a key of up to 16 bytes, which is compared as two words. For a longer key it
// contains the hash and the key's position in an arena.
//
// The hash function has a random seed for each process. So the author of a job's input
// cannot choose keys that collide and make the table slow. The seed changes only where
// keys lie in the table. It does not change the result, because the table is read in the
// order of its keys. It does not change the memory in use, which depends on the number
// and length of the keys.
package hashagg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"unsafe"

	"github.com/slotwise/slotwise/internal/data/engine/mem"
	"github.com/slotwise/slotwise/internal/data/engine/sortbuf"
	"github.com/slotwise/slotwise/internal/data/kv"
)

// Op is the operation that combines two values of the same key.
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
	// Pool is charged for all memory of the Table.
	Pool *mem.Pool

	// Limit is the size limit of the Table in bytes, including the memory for
	// sorting it. An empty Table takes a key of any length.
	Limit int64

	// Op is the operation; with Fold, the next two fields describe it.
	Op Op

	// Width is the length of every value and accumulator, 1 to MaxWidth.
	Width int

	// Fold combines value into acc, which has Width bytes. value was emitted after
	// all values that acc contains. Fold must be associative and must not keep the
	// slices.
	Fold func(acc, value []byte)

	// Added returns the number of values that were added since New. A nil Added lets the
	// Table grow up to Limit. With it, a large Table stops growing when its keys hardly
	// repeat (see Repeats), and AddInt64 reports that there is no room.
	Added func() int64
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

	// sortCost is the memory in bytes for sorting one key: an entry in the index
	// and one in the scratch space.
	sortCost = 2 * int64(unsafe.Sizeof(sortbuf.Entry{}))

	// sortChunk is for how many keys, at most, sorting is provided for at
	// a time.
	sortChunk = 4096
)

func (e *entry) keyLen() int  { return int(e.meta - 1) }
func (e *entry) inline() bool { return e.meta <= inlineMax+1 }

// Table folds values by key. The calls are Add any number of times, Sort, and
// Partition any number of times. Then Reset starts the cycle again or Release ends
// it.
//
// Until Sort only one goroutine may use a Table. From Sort to Reset or Release it is
// read-only and any number of goroutines may read it.
type Table struct {
	cfg   Config
	limit int64 // cfg.Limit, unless SetLimit has lowered it

	slotsMem *mem.Region
	slots    []entry // their number is a power of two
	shift    uint    // hash >> shift is the home slot
	n        int     // keys
	doubled  mark    // the state at the last doubling or Reset
	room     int     // keys that fit before makeRoom must be called

	arenaMem *mem.Region // reserved when first needed
	arena    []byte
	used     int64 // bytes of the arena
	granted  int64

	indexMem *mem.Region
	sortFor  int // number of keys for which memory for sorting is granted

	starts []int // of partitions in the sorted index; nil before Sort
	bytes  []int64
}

var _ kv.Partitioned = (*Table)(nil)

// New returns an empty Table, which takes no memory yet.
func New(cfg Config) (*Table, error) {
	switch {
	case cfg.Op < Sum || cfg.Op > Fold:
		return nil, fmt.Errorf("hashagg: unknown operation %d", cfg.Op)
	case cfg.Limit < 0 || cfg.Limit > sortbuf.MaxLimit:
		return nil, fmt.Errorf("hashagg: limit of %d bytes is out of range", cfg.Limit)
	case cfg.Op != Fold:
		cfg.Width = kv.Int64Len
	case cfg.Fold == nil:
		return nil, errors.New("hashagg: no function to fold with")
	case cfg.Width < 1 || cfg.Width > MaxWidth:
		return nil, fmt.Errorf("hashagg: values of %d bytes, want 1 to %d", cfg.Width, MaxWidth)
	}
	t := &Table{cfg: cfg, limit: cfg.Limit}
	t.releaseSlots()
	var err error
	t.indexMem, err = mem.Reserve(cfg.Pool, max(cfg.Limit, sortChunk*sortCost))
	return t, err
}

// AddInt64 combines n into the accumulator of key, by Sum, Min or Max. If the key is
// new and there is no room, it changes nothing and returns false. The caller then
// sorts, spills and resets the Table. An empty Table takes any key.
//
// Add and AddInt64 must not be called between Sort and Reset.
func (t *Table) AddInt64(key []byte, n int64) bool {
	// The short path comes first and makes no room, so it stays small enough to be fast. slot repeats
	// the search in the rare case that the table must grow.
	if len(key) <= inlineMax {
		lo, hi := load(key)
		if t.addInline(lo, hi, uint64(len(key)+1), n) {
			return true
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

// addInline is AddInt64 for the key of an entry that holds it. It returns false if makeRoom must be called
// first.
func (t *Table) addInline(lo, hi, meta uint64, n int64) bool {
	mask := uint64(len(t.slots) - 1)
	// It ends: room is below the number of slots, so a free slot exists.
	for i := hash(lo, hi) >> (t.shift & 63) & mask; ; i = (i + 1) & mask {
		e := &t.slots[i]
		if e.lo == lo && e.hi == hi && e.meta == meta {
			t.combine(e, n)
			return true
		}
		if e.meta == 0 {
			// Also for the empty table, whose one slot stays free: its room is 0.
			if t.n == t.room {
				return false
			}
			*e = entry{lo, hi, meta, uint64(n)}
			t.n++
			return true
		}
	}
}

// Ahead is a key of at most 16 bytes and an integer that will be added soon. The zero Ahead is none.
type Ahead struct{ e entry }

// IsSet reports whether a has a key.
func (a *Ahead) IsSet() bool { return a.e.meta != 0 }

// Ahead makes the processor load the slot of a key in the background, and returns what AddAhead takes. A
// large table is not in the processor's caches, and waiting for one slot after the other is most of what
// adding to it costs. ok is false, and the caller must use AddInt64, if the key is longer or the table is
// small.
func (t *Table) Ahead(key []byte, n int64) (a Ahead, ok bool) {
	if len(key) > inlineMax || len(t.slots) < aheadSlots {
		return Ahead{}, false
	}
	lo, hi := load(key)
	i := hash(lo, hi) >> (t.shift & 63) & uint64(len(t.slots)-1)
	// The table may move before AddAhead. Then the wrong line was loaded, which costs time and nothing
	// else.
	sortbuf.PrefetchLine(unsafe.Pointer(&t.slots[i]))
	return Ahead{entry{lo, hi, uint64(len(key) + 1), uint64(n)}}, true
}

// aheadSlots is the number of slots, of 1 MiB, from which on a table is not in a second-level cache.
const aheadSlots = 1 << 20 / entrySize

// AheadKey is the length of the longest key of an Ahead.
const AheadKey = inlineMax

// AddAhead is AddInt64. The table may have changed in any way since Ahead. It also returns false if the
// table must grow first, which AddInt64 with Key and N does.
func (t *Table) AddAhead(a *Ahead) bool { return t.addInline(a.e.lo, a.e.hi, a.e.meta, int64(a.e.val)) }

// Key writes the key to buf and returns it.
func (a *Ahead) Key(buf *[AheadKey]byte) []byte {
	binary.LittleEndian.PutUint64(buf[:], a.e.lo)
	binary.LittleEndian.PutUint64(buf[8:], a.e.hi)
	return buf[:a.e.keyLen()]
}

// N returns the integer.
func (a *Ahead) N() int64 { return int64(a.e.val) }

// combine folds n into the accumulator of an entry that is not fresh.
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

// Add combines an encoded value into the accumulator of key. It works for every Op
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

// acc returns the accumulator of e as bytes.
func (t *Table) acc(e *entry) []byte {
	if w := t.cfg.Width; w > inlineAcc {
		return t.arena[e.val : e.val+uint64(w)]
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&e.val)), t.cfg.Width)
}

// slot returns the entry of key, or a fresh one. It returns nil if there is no room.
func (t *Table) slot(key []byte) (e *entry, fresh bool) {
	probe := entry{meta: uint64(len(key) + 1)}
	if len(key) <= inlineMax {
		probe.lo, probe.hi = load(key)
	} else {
		// Long keys are in the arena. find compares their bytes only when length and hash are
		// equal.
		probe.lo = hashLong(key)
	}
	if e = t.find(&probe, key); e.meta != 0 {
		return e, false
	}
	arena := int64(0)
	// Reserved before the entry is written: a failed Add must change nothing.
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
		// The slots may have moved.
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

// find returns the entry with the key of probe, or the free entry for that key.
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
			// The hash alone would let two keys with equal hashes share an accumulator.
			return e
		}
	}
}

// home returns the slot at which the search for the key of e begins.
func home(e *entry, shift uint) uint64 {
	h := e.lo
	if e.inline() {
		h = hash(e.lo, e.hi)
	}
	return h >> (shift & 63)
}

// Len returns the number of distinct keys.
func (t *Table) Len() int { return t.n }

// EachInt64 passes each key and its integer to f, in no order, until f returns false. The
// Table must not have been sorted. f must not keep the key.
func (t *Table) EachInt64(f func(key []byte, n int64) bool) {
	var buf [inlineMax]byte
	for i := range t.slots {
		if e := &t.slots[i]; e.meta != 0 && !f(t.key(e, &buf), int64(e.val)) {
			return
		}
	}
}

// Bytes returns the granted memory in bytes, which Limit bounds.
func (t *Table) Bytes() int64 {
	slots := int64(0)
	if t.slotsMem != nil {
		slots = int64(len(t.slots)) * entrySize
	}
	return slots + t.granted + t.SortBytes()
}

// Occupied returns the number of bytes that are charged to the Pool.
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

// seed holds the process's random words for hash.
var seed = newSeed()

// hashSeed is the pair of random words that hash combines with the two words of a key.
type hashSeed struct{ lo, hi uint64 }

// newSeed returns random words from the system's generator. Both are odd, so that
// neither is zero.
func newSeed() hashSeed { return hashSeed{rand.Uint64() | 1, rand.Uint64() | 1} }

// golden spreads the product of a key and the seed; it is 2⁶⁴ divided by the golden ratio.
const golden = 0x9e3779b97f4a7c15

// hash combines each word with the seed and multiplies the two into 128 bits, which it
// folds to 64. So every bit of the key reaches the high bits, which choose the slot. If
// one word is the same in all keys and the others are equally far apart, the products are
// equally far apart, too. Some seeds would crowd them into a part of the table, which the
// second multiplication prevents.
func hash(lo, hi uint64) uint64 {
	h, l := bits.Mul64(lo^seed.lo, hi^seed.hi)
	h, l = bits.Mul64(h^l, golden)
	return h ^ l
}
