package engine

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/counters"
	"github.com/slotwise/slotwise/internal/engine/mem"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/kv"
	"github.com/slotwise/slotwise/internal/storage"
)

// Keys that do not repeat are sorted without being folded, and folded again when they
// repeat. Their sums are the same as without it, for little and for much memory.
func TestFoldSinkSkips(t *testing.T) {
	const distinct, repeated = 600_000, 100
	for _, tt := range []struct {
		name  string
		limit int64 // bytes
		plain bool
	}{{"little memory", 4 << 20, false}, {"much memory", 256 << 20, true}} {
		t.Run(tt.name, func(t *testing.T) {
			scratch, err := storage.NewDirScratch(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer scratch.Close()
			env := &Env{Mem: mem.NewPool(512 << 20), Resident: mem.NewPool(256 << 20), Scratch: scratch, MapBuffer: tt.limit, MergeBuffer: 4 << 20}
			s, err := newFoldSink(env, &MapTask{
				Program: &Program{Aggregate: Sum},
				Task:    &Task{Ctx: t.Context(), Attempt: job.AttemptID{TaskID: job.TaskID{Job: 1}}, Maps: 1, Reduces: 3, Counters: &UserCounters{}, Meter: &Meter{}},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer s.discard()
			key := make([]byte, 8)
			add := func(k uint64, n int64) {
				binary.BigEndian.PutUint64(key, k)
				s.Add(key, n)
			}
			for k := range uint64(distinct) {
				add(k, 1)
			}
			if (s.plain != nil) != tt.plain {
				t.Errorf("a sort buffer: %v, want %v", s.plain != nil, tt.plain)
			}
			for i := range uint64(distinct) {
				add(i%repeated, 2)
			}
			out, err := s.finish(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer out.Release()
			sums, records := make([]int64, distinct), int64(0)
			for p := range 3 {
				st, err := out.Partition(p)
				if err != nil {
					t.Fatal(err)
				}
				var last []byte
				for st.Next() {
					if slices.Compare(st.Key(), last) < 0 {
						t.Fatalf("%x after %x", st.Key(), last)
					}
					last = append(last[:0], st.Key()...)
					sums[binary.BigEndian.Uint64(last)] += kv.Int64(st.Value())
					records++
				}
				if err := st.Err(); err != nil {
					t.Fatal(err)
				}
				st.Close()
			}
			for k, n := range sums {
				want := int64(1)
				if k < repeated {
					want += 2 * distinct / repeated
				}
				if n != want {
					t.Fatalf("key %d has sum %d, want %d", k, n, want)
				}
			}
			if n := s.count.Get(counters.Spills); n == 0 || records < distinct {
				t.Errorf("%d spills, %d records", n, records)
			}
		})
	}
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
