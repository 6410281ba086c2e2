package engine

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/base/counters"
	"github.com/slotwise/slotwise/internal/data/engine/mem"
	"github.com/slotwise/slotwise/internal/data/kv"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/sched/job"
)

// Keys that do not repeat go to ranges without being folded, and are folded again when they
// repeat. Their sums are the same as without it, for little and for much memory. Ascending
// keys fill the last range of each range buffer.
func TestFoldSinkSkips(t *testing.T) {
	for _, tt := range []struct {
		name, stem    string
		limit         int64 // bytes
		distinct      uint64
		repeats       int64 // of the first keys
		ascending     bool
		skips, spills bool
	}{
		{"little memory", "", 4 << 20, 600_000, 1000, true, false, true},
		{"ranges are spilled", "", 32 << 20, 600_000, 40_000, false, true, true},
		{"ranges stay in memory", "", 256 << 20, 600_000, 1000, false, true, false},
		{"ranges are full", "", 256 << 20, 1_300_000, 1000, true, true, false},
		{"common prefix", "https://example.org/", 256 << 20, 900_000, 1000, false, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newTestFoldSink(t, tt.limit)
			factor, inverse := uint64(0x9e3779b97f4a7c15), uint64(0xf1de83e19937733d)
			if tt.ascending {
				factor, inverse = 1, 1
			}
			key := append([]byte(tt.stem), make([]byte, 8)...)
			add := func(k uint64, n int64) {
				binary.BigEndian.PutUint64(key[len(tt.stem):], k*factor)
				s.Add(key, n)
			}
			for k := range tt.distinct {
				add(k, 1)
			}
			if (s.skipped > 0) != tt.skips {
				t.Errorf("%d records were not folded, want some: %v", s.skipped, tt.skips)
			}
			if full := len(s.held) > 0; full != (tt.ascending && tt.skips) {
				t.Errorf("a range was full: %v", full)
			}
			const repeated = 100
			for i := range uint64(repeated * tt.repeats) {
				add(i%repeated, 2)
			}
			if folds := s.skip == 0; folds != (tt.repeats > 1000 || !tt.skips) {
				t.Errorf("the next %d records are not folded", s.skip)
			}
			if waited := s.next > 0; waited != (tt.stem == "") {
				t.Errorf("records waited for their slots: %v", waited)
			}
			out, err := s.finish(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer out.Release()
			for k, sum := range sumsOf(t, out, tt.distinct, inverse) {
				want := int64(1)
				if k < repeated {
					want += 2 * tt.repeats
				}
				if sum != want {
					t.Fatalf("key %d has sum %d, want %d", k, sum, want)
				}
			}
			if n := s.count.Get(counters.Spills); n > 0 != tt.spills {
				t.Errorf("%d spills, want some: %v", n, tt.spills)
			}
			if peak := s.env.Mem.Peak(); peak > tt.limit+4*mem.Step {
				t.Errorf("%d bytes at the peak, the limit is %d", peak, tt.limit)
			}
		})
	}
}

// newTestFoldSink returns the sink of a map with three reduces and a buffer of limit bytes.
func newTestFoldSink(t *testing.T, limit int64) *foldSink {
	t.Helper()
	scratch, err := storage.NewDirScratch(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { scratch.Close() })
	env := &Env{Mem: mem.NewPool(512 << 20), Resident: mem.NewPool(256 << 20), Scratch: scratch, MapBuffer: limit, MergeBuffer: 4 << 20}
	s, err := newFoldSink(env, &MapTask{
		Program: &Program{Aggregate: Sum},
		Task:    &Task{Ctx: t.Context(), Attempt: job.AttemptID{TaskID: job.TaskID{Job: 1}}, Maps: 1, Reduces: 3, Counters: &UserCounters{}, Meter: &Meter{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.discard)
	return s
}

// sumsOf returns the sums of keys in a map output, by the last eight bytes of the key times factor. It
// checks the order and the number of records.
func sumsOf(t *testing.T, out kv.Partitioned, keys, factor uint64) []int64 {
	t.Helper()
	sums := make([]int64, keys)
	for p := range 3 {
		st, err := out.Partition(p)
		if err != nil {
			t.Fatal(err)
		}
		var last []byte
		records := int64(0)
		for st.Next() {
			if slices.Compare(st.Key(), last) < 0 {
				t.Fatalf("%x after %x", st.Key(), last)
			}
			last = append(last[:0], st.Key()...)
			sums[binary.BigEndian.Uint64(last[len(last)-8:])*factor] += kv.Int64(st.Value())
			records++
		}
		if err := st.Err(); err != nil {
			t.Fatal(err)
		}
		if n, _ := out.Size(p); n != records {
			t.Errorf("partition %d has %d records, its size says %d", p, records, n)
		}
		st.Close()
	}
	return sums
}

// A sink that is thrown away in any state gives its memory back.
func TestFoldSinkDiscard(t *testing.T) {
	for _, n := range []uint64{0, 1, 500_000} {
		scratch, err := storage.NewDirScratch(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer scratch.Close()
		env := &Env{Mem: mem.NewPool(512 << 20), Resident: mem.NewPool(0), Scratch: scratch, MapBuffer: 128 << 20}
		s, err := newFoldSink(env, &MapTask{Program: &Program{Aggregate: Sum}, Task: &Task{Reduces: 1}})
		if err != nil {
			t.Fatal(err)
		}
		key := make([]byte, 8)
		for k := range n {
			binary.BigEndian.PutUint64(key, k)
			s.Add(key, 1)
		}
		s.discard()
		s.discard()
		if used := env.Mem.Used(); used != 0 {
			t.Errorf("after %d keys: %d bytes are still charged", n, used)
		}
	}
}

// After a failed spill, further records change nothing, and the first error stays.
func TestFoldSinkFailedSpill(t *testing.T) {
	scratch, err := storage.NewDirScratch(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer scratch.Close()
	env := &Env{Mem: mem.NewPool(512 << 20), Resident: mem.NewPool(0), Scratch: scratch, MapBuffer: 128 << 20}
	program := &Program{Aggregate: Sum, Partition: func([]byte, int) int { return 7 }} // of two
	s, err := newFoldSink(env, &MapTask{Program: program, Task: &Task{Reduces: 2}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.discard()
	key := make([]byte, 8)
	for k := range uint64(500_000) {
		binary.BigEndian.PutUint64(key, k)
		s.Add(key, 1)
	}
	if s.err() == nil || !strings.Contains(s.err().Error(), "Partitioner") {
		t.Errorf("error %v", s.err())
	}
}
