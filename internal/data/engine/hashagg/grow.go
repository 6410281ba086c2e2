package hashagg

import (
	"math/bits"
	"unsafe"

	"github.com/slotwise/slotwise/internal/data/engine/mem"
)

// windowSlack is the free space behind the last key, so that the sort can read eight
// bytes from each of its bytes.
const windowSlack = 8

// maxKeys returns the number of keys at which a table of n slots grows.
func maxKeys(n int) int { return n / 16 * 13 }

// makeRoom makes room for one more key with arena bytes in the arena. For the first
// key it exceeds the limits.
func (t *Table) makeRoom(arena int64) bool {
	force := t.n == 0
	// SetLimit may have lowered the limit below what the table has.
	if !force && !t.fits(0) {
		return false
	}
	// The arena first, because its need is fixed by the key, while slots and index can stay as they
	// are.
	if t.used+arena > t.granted && !t.growArena(t.used+arena, force) {
		return false
	}
	if t.slotsMem == nil || t.n >= maxKeys(len(t.slots)) {
		if !t.growSlots(force) {
			return false
		}
	}
	// Memory for sorting is taken before the key is. A full table that could not be sorted could not be
	// spilled either.
	if t.n >= t.sortFor && !t.growSort(force) {
		return false
	}
	t.room = min(maxKeys(len(t.slots)), t.sortFor)
	// The first key was forced in beyond the limit. The next one must ask again.
	if !t.fits(0) {
		t.room = t.n + 1
	}
	return true
}

// firstSlots is the size of a new table. It is 8 KiB, because a task of a few keys would spend
// most of its time clearing more, and a small share of a small Limit. A larger vocabulary
// doubles it soon.
func (t *Table) firstSlots() int {
	return 1 << bits.Len64(uint64(max(16, min(255, t.cfg.Limit/256))))
}

// fits reports whether more bytes are within the limit.
func (t *Table) fits(more int64) bool { return t.Bytes()+more <= t.limit }

// growArena makes at least need bytes of the arena usable, and a little more if that fits, so that
// not every long key asks. With force it exceeds the limit.
func (t *Table) growArena(need int64, force bool) bool {
	// With force the table is empty, so a larger arena has nothing to copy.
	if t.arenaMem == nil || force && need > t.arenaMem.Size() {
		if t.arenaMem != nil {
			t.arenaMem.Release()
		}
		r, err := mem.Reserve(t.cfg.Pool, max(need, t.cfg.Limit))
		if err != nil {
			panic(err) // the address space is exhausted
		}
		t.arenaMem, t.arena, t.granted = r, r.Bytes(), 0
	}
	grant := need + min(mem.Step, t.cfg.Limit/32)
	// First the larger grant, then the bare need: near the limit the last keys still fit.
	if t.fits(grant-t.granted) && t.arenaMem.Grow(grant) {
		t.granted = grant
		return true
	}
	if !force && (!t.fits(need-t.granted) || !t.arenaMem.Grow(need)) {
		return false
	}
	t.arenaMem.ForceGrow(need)
	t.granted = need
	return true
}

// growSlots makes the first table or a larger one than the present. Meanwhile both
// tables count.
func (t *Table) growSlots(force bool) bool {
	n := t.firstSlots()
	if t.slotsMem != nil {
		n = t.moreSlots()
	}
	size := int64(n) * entrySize
	// Keys that hardly repeat gain nothing from a larger table; see Repeats.
	if !force && (!t.fits(size) || !t.Repeats()) {
		return false
	}
	r, err := mem.Reserve(t.cfg.Pool, size)
	if err != nil {
		panic(err) // the address space is exhausted
	}
	if force {
		r.ForceGrow(size)
	} else if !r.Grow(size) {
		r.Release()
		return false
	}
	// Rehashing writes to pages all over the new slots, so every page is needed at once.
	r.Populate(size)
	// Before the next keys: Repeats judges the keys and values that follow this mark.
	t.doubled = t.mark()
	old, oldMem := t.slots, t.slotsMem
	t.slotsMem, t.slots = r, entries(r, n)
	// The high bits of the hash choose the slot, so growth by f turns slot i into one of the f slots from f·i on
	// and keeps the order that rehash relies on.
	t.shift = uint(64 - bits.TrailingZeros(uint(n)))
	t.rehash(old)
	if oldMem != nil {
		oldMem.Release()
	}
	return true
}

// moreSlots returns the number of slots of the next table: twice the present, or four times if most values since
// the last growth have had a new key. Such a table would soon grow again, and the pages of each table are new to
// the process. A table up to which all grow is not passed over, because Repeats decides there.
func (t *Table) moreSlots() int {
	n, now := len(t.slots), t.mark()
	keys, added := int64(now.keys-t.doubled.keys), now.added-t.doubled.added
	if t.cfg.Added != nil && added < 2*keys && 4*n <= largeSlots && t.fits(int64(4*n)*entrySize) {
		return 4 * n
	}
	return 2 * n
}

// mark is a state of a Table: its keys, and the values added since New.
type mark struct {
	keys  int
	added int64
}

// mark returns the present state, by which Repeats judges the next growth.
func (t *Table) mark() mark {
	m := mark{keys: t.n}
	if t.cfg.Added != nil {
		m.added = t.cfg.Added()
	}
	return m
}

// A table of largeSlots slots lies just outside the second-level caches of today's
// processors. A Table of that size or larger doubles only if, since it last did, its values
// outnumbered its new keys by repeatPercent.
//
// The numbers come from 25.6 million words of 15 bytes, drawn evenly from a vocabulary.
// For a vocabulary of 1 and 4 million words the job takes 1.8 and 1.2 times the processor
// time if the table stops growing here. If all words differ it takes 0.6 times, because
// writing a small sorted run costs less than each probe that misses the cache and each page
// that is touched for the first time.
const (
	largeSlots    = 16 << 20 / entrySize
	repeatPercent = 4
)

// LargeSize is the size in bytes up to which a Table grows whether keys repeat or not: that
// of largeSlots slots, of half as many from which it has grown, and of the space for sorting.
const LargeSize = largeSlots*3/2*entrySize + largeSlots*sortCost

// Repeats reports whether keys repeat often enough for a larger table to save work. It is
// true for small tables. The caller asks before Sort.
func (t *Table) Repeats() bool {
	if t.cfg.Added == nil || len(t.slots) < largeSlots {
		return true
	}
	now := t.mark()
	keys, added := int64(now.keys-t.doubled.keys), now.added-t.doubled.added
	return 100*added >= (100+repeatPercent)*keys
}

// rehash moves all entries of old into the larger, empty table. Both are
// filled from the low hashes to the high ones, so both are walked in order.
func (t *Table) rehash(old []entry) {
	mask := uint64(len(t.slots) - 1)
	for i := range old {
		e := &old[i]
		if e.meta == 0 {
			continue
		}
		j := home(e, t.shift) & mask
		for t.slots[j].meta != 0 {
			j = (j + 1) & mask
		}
		t.slots[j] = *e
	}
}

// growSort reserves memory for sorting more keys, so that sorting a full table never
// lacks memory.
func (t *Table) growSort(force bool) bool {
	// Doubling at first and then steps of sortChunk, so that the granted memory stays near what the
	// keys need.
	n := min(max(2*t.sortFor, t.firstSlots()/4), t.sortFor+sortChunk, maxKeys(len(t.slots)))
	if t.fits(int64(n-t.sortFor)*sortCost) && t.indexMem.Grow(int64(n)*sortCost) {
		t.sortFor = n
		return true
	}
	if force {
		t.sortFor = n
		t.indexMem.ForceGrow(int64(n) * sortCost)
	}
	return force
}

// entries returns the start of a region as n slots.
func entries(r *mem.Region, n int) []entry {
	return unsafe.Slice((*entry)(unsafe.Pointer(unsafe.SliceData(r.Bytes()))), n)
}

// Reset removes all keys. It keeps the memory for the next cycle unless most slots
// are free. In that case the arena has taken too large a share of the memory, for
// example for a giant key, and Reset starts with an empty Table.
func (t *Table) Reset() {
	// Trim has returned pages that clear would touch again without a charge.
	trimmed := t.slotsMem != nil && t.slotsMem.Charged() < int64(len(t.slots))*entrySize
	if trimmed || t.n < maxKeys(len(t.slots))/4 {
		t.Clear()
		return
	}
	clear(t.slots)
	t.n, t.room, t.used, t.starts = 0, 0, 0, nil
	t.doubled = t.mark()
}

// Clear removes all keys and returns the memory to the Pool. The Table can be filled again.
func (t *Table) Clear() {
	t.releaseSlots()
	if t.arenaMem != nil {
		t.arenaMem.Trim(0)
	}
	t.indexMem.Trim(0)
	t.n, t.used, t.granted, t.sortFor, t.starts = 0, 0, 0, 0, nil
	t.doubled = t.mark()
}

// SortBytes returns the part of Bytes that is for sorting.
func (t *Table) SortBytes() int64 { return int64(t.sortFor) * sortCost }

// DropSort returns the memory for sorting to the Pool. The Table must be cleared next.
func (t *Table) DropSort() {
	t.indexMem.Trim(0)
	// Without room the next key would have to grow the table, so an Add before Clear cannot exceed the
	// memory for sorting.
	t.sortFor, t.room = 0, 0
}

// SetLimit sets the size limit of a Table, at most to Config.Limit.
func (t *Table) SetLimit(bytes int64) { t.limit = min(bytes, t.cfg.Limit) }

// releaseSlots frees the slots. The Table then has room for no key until it grows.
func (t *Table) releaseSlots() {
	if t.slotsMem != nil {
		t.slotsMem.Release()
	}
	// One slot that is never filled saves lookups a test for an empty table.
	t.slotsMem, t.slots, t.shift, t.room = nil, make([]entry, 1), 64, 0
}

// Trim returns the unused memory of a sorted Table that stays in memory to the Pool:
// free slots and the scratch space of the sort.
func (t *Table) Trim() {
	if t.slotsMem == nil {
		return
	}
	t.slotsMem.Trim(int64(t.n) * entrySize)
	t.indexMem.Trim(int64(t.n) * sortCost / 2)
	t.sortFor = 0
	if t.arenaMem != nil {
		t.arenaMem.Trim(t.used)
		t.granted = t.used
	}
}

// Release returns all memory. Afterwards only Release may be called, which does
// nothing.
func (t *Table) Release() {
	t.releaseSlots()
	if t.arenaMem != nil {
		t.arenaMem.Release()
	}
	t.indexMem.Release()
	t.arenaMem, t.arena = nil, nil
	t.n, t.used, t.granted, t.sortFor, t.starts = 0, 0, 0, 0, nil
}
