package hashagg

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/data/engine/mem"
)

// meanDistance fills a table with n keys and returns the mean distance, in slots,
// between a key's home slot and its entry.
func meanDistance(t *testing.T, n int, key func(i int) []byte) float64 {
	t.Helper()
	table, err := New(Config{Pool: mem.NewPool(1 << 30), Limit: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Release()
	for i := range n {
		table.AddInt64(key(i), 1)
	}
	if table.Len() != n {
		t.Errorf("the table has %d keys, not %d", table.Len(), n)
	}
	way, mask := 0, len(table.slots)-1
	for i := range table.slots {
		if e := &table.slots[i]; e.meta != 0 {
			way += (i - int(home(e, table.shift))) & mask
		}
	}
	return float64(way) / float64(n)
}

// Realistic keys must spread over the table: the mean distance between a key's home
// slot and its entry must be close to the distance for random keys.
func TestHashSpreads(t *testing.T) {
	kinds := map[string]func(i int) []byte{
		"decimal":       func(i int) []byte { return fmt.Appendf(nil, "%d", i) },
		"padded":        func(i int) []byte { return fmt.Appendf(nil, "%016d", i) },
		"big-endian":    func(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) },
		"little-endian": func(i int) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(i)) },
		"even":          func(i int) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(i)<<20) },
		"pairs":         func(i int) []byte { return fmt.Appendf(nil, "%07d\t%07d", i%300, i/300) },
		"user":          func(i int) []byte { return fmt.Appendf(nil, "user%d", i) },
		"long":          func(i int) []byte { return fmt.Appendf(nil, "example.org/path/%d/x", i) },
		"long tail":     func(i int) []byte { return fmt.Appendf(nil, "example.org/a/path/that/is/long/%d", i) },
	}
	for name, key := range kinds {
		if mean := meanDistance(t, 48_000, key); mean > 4 {
			t.Errorf("%s: on average %.1f slots from home", name, mean)
		}
	}
}

// fixedHash is the hash function without a seed that the table once had.
func fixedHash(lo, hi uint64) uint64 {
	h, l := bits.Mul64(lo^0x9e3779b97f4a7c15, hi^0xd1b54a32d192ed03)
	return h ^ l
}

// Keys that were chosen to collide under a known hash function must spread like others.
// Under fixedHash 60,000 such keys took 13 seconds instead of milliseconds.
func TestChosenKeysSpread(t *testing.T) {
	const n = 60_000
	words := func(lo, hi uint64) []byte {
		return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, lo), hi)
	}
	zeroLo := func(i int) []byte { return words(0x9e3779b97f4a7c15, uint64(i)) }
	for name, key := range map[string]func(i int) []byte{
		"first word zero":  zeroLo,
		"second word zero": func(i int) []byte { return words(uint64(i), 0xd1b54a32d192ed03) },
		// The first block, combined with the length of 40, hashed to zero; the rest is equal.
		"long": func(i int) []byte {
			return append(words(0x9e3779b97f4a7c15^40, uint64(i)), "the same end of all keys"...)
		},
	} {
		began := time.Now()
		mean := meanDistance(t, n, key)
		t.Logf("%s: %v", name, time.Since(began))
		if mean > 8 {
			t.Errorf("%s: on average %.1f slots from home", name, mean)
		}
	}
	for i := range n {
		key := zeroLo(i)
		if h := fixedHash(binary.LittleEndian.Uint64(key), binary.LittleEndian.Uint64(key[8:])); h != 0 {
			t.Fatalf("the key %x does not collide under the fixed hash: %x", key, h)
		}
	}
}
