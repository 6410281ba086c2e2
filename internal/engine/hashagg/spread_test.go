package hashagg

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/slotwise/slotwise/internal/engine/mem"
)

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
		table, err := New(Config{Pool: mem.NewPool(1 << 30), Limit: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 48_000 {
			table.AddInt64(key(i), 1)
		}
		way, mask := 0, len(table.slots)-1
		for i := range table.slots {
			if e := &table.slots[i]; e.meta != 0 {
				way += (i - int(home(e, table.shift))) & mask
			}
		}
		if mean := float64(way) / float64(table.Len()); table.Len() != 48_000 || mean > 4 {
			t.Errorf("%s: %d keys, on average %.1f slots from home", name, table.Len(), mean)
		}
		table.Release()
	}
}
