package merge

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/data/kv"
)

type record struct{ key, value string }

// sliceStream streams records. It overwrites returned slices as soon as the contract
// allows, so a caller that keeps one too long fails.
type sliceStream struct {
	recs   []record
	key    []byte
	value  []byte
	err    error // returned at the end
	closed int
}

func (s *sliceStream) Next() bool {
	for i := range s.key {
		s.key[i] = 0xee
	}
	for i := range s.value {
		s.value[i] = 0xee
	}
	if len(s.recs) == 0 {
		return false
	}
	s.key = append(s.key[:0], s.recs[0].key...)
	s.value = append(s.value[:0], s.recs[0].value...)
	s.recs = s.recs[1:]
	return true
}
func (s *sliceStream) Key() []byte   { return s.key }
func (s *sliceStream) Value() []byte { return s.value }
func (s *sliceStream) Err() error {
	if len(s.recs) == 0 {
		return s.err
	}
	return nil
}
func (s *sliceStream) Close() error { s.closed++; return nil }

// prefixStream also knows prefixes, and sameStream repetitions.
type prefixStream struct{ sliceStream }

func (s *prefixStream) Prefix() uint64 {
	var b [8]byte
	copy(b[:], s.key)
	return binary.BigEndian.Uint64(b[:])
}

type sameStream struct {
	sliceStream
	last string
	same bool
}

func (s *sameStream) Next() bool {
	first := s.key == nil
	ok := s.sliceStream.Next()
	s.same = ok && !first && s.last == string(s.key)
	s.last = string(s.key)
	return ok
}
func (s *sameStream) Same() bool { return s.same }

func newStream(kind int, recs []record) kv.Stream {
	switch kind {
	case 0:
		return &prefixStream{sliceStream{recs: recs}}
	case 1:
		return &sameStream{sliceStream: sliceStream{recs: recs}}
	}
	return &sliceStream{recs: recs}
}

// genKey makes keys that share prefixes of all lengths around the columns'
// borders, and differ in zero bytes and in length only.
func genKey() *rapid.Generator[string] {
	tail := rapid.StringOfN(rapid.RuneFrom([]rune{0, 'a', 'b'}), 0, 14, -1)
	return rapid.Custom(func(t *rapid.T) string {
		shared := rapid.SampledFrom([]int{0, 0, 5, 6, 7, 11, 12, 18, 40}).Draw(t, "shared")
		return strings.Repeat("a", shared) + tail.Draw(t, "tail")
	})
}

func genStreams(t *rapid.T) [][]record {
	n := rapid.IntRange(0, 9).Draw(t, "streams")
	all := make([][]record, n)
	id := 0
	for i := range all {
		keys := rapid.SliceOfN(genKey(), 0, 30).Draw(t, "keys")
		slices.Sort(keys)
		for _, k := range keys {
			all[i] = append(all[i], record{k, fmt.Sprint(id)})
			id++
		}
	}
	return all
}

// naive concatenates and sorts stably.
func naive(all [][]record) []record {
	out := slices.Concat(all...)
	slices.SortStableFunc(out, func(a, b record) int { return strings.Compare(a.key, b.key) })
	return out
}

func streamsOf(t *rapid.T, all [][]record) []kv.Stream {
	var streams []kv.Stream
	for _, recs := range all {
		kind := rapid.IntRange(0, 2).Draw(t, "kind")
		streams = append(streams, newStream(kind, recs))
	}
	return streams
}

func TestMergeAgainstSort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := genStreams(t)
		want := naive(all)
		m := New(streamsOf(t, all))
		last := ""
		for i, w := range want {
			if !m.Next() {
				t.Fatalf("ends after %d of %d: %v", i, len(want), m.Err())
			}
			if g := (record{string(m.Key()), string(m.Value())}); g != w {
				t.Fatalf("record %d: got %q, want %q", i, g, w)
			}
			if s, ok := m.(*Stream); ok && s.Same() != (i > 0 && last == w.key) {
				t.Fatalf("record %d: Same %v, key %q after %q", i, s.Same(), w.key, last)
			}
			last = w.key
		}
		for range 2 { // the end stays the end
			if m.Next() || m.Err() != nil {
				t.Fatalf("more than %d records or an error: %v", len(want), m.Err())
			}
		}
	})
}

// TestLongSharedPrefix goes past the columns that a code can count.
func TestLongSharedPrefix(t *testing.T) {
	for _, n := range []int{maxCols*colLen - 7, maxCols*colLen - 1, maxCols * colLen, maxCols*colLen + 13} {
		base := strings.Repeat("x", n)
		var all [][]record
		for i := range 4 {
			var recs []record
			for j := range 12 {
				recs = append(recs, record{base + fmt.Sprintf("%02d", (i+j*j)/3), fmt.Sprint(i, j)})
			}
			recs = append(recs, record{base, "short"}, record{base[:n-1], "shorter"})
			slices.SortStableFunc(recs, func(a, b record) int { return strings.Compare(a.key, b.key) })
			all = append(all, recs)
		}
		var streams []kv.Stream
		for _, recs := range all {
			streams = append(streams, newStream(2, recs))
		}
		got, err := collect(New(streams))
		if err != nil || !slices.Equal(got, naive(all)) {
			t.Errorf("prefix of %d bytes: wrong order, %v", n, err)
		}
	}
}

func collect(s kv.Stream) (out []record, err error) {
	for s.Next() {
		out = append(out, record{string(s.Key()), string(s.Value())})
	}
	return out, s.Err()
}

func TestManyStreams(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	all := make([][]record, 1000)
	var streams []kv.Stream
	for i := range all {
		for range rng.IntN(20) {
			all[i] = append(all[i], record{fmt.Sprintf("prefix%04d", rng.IntN(500)), ""})
		}
		all[i] = naive(all[i : i+1])
		streams = append(streams, newStream(rng.IntN(3), all[i]))
	}
	got, err := collect(New(streams))
	if err != nil || !slices.Equal(got, naive(all)) {
		t.Fatalf("%d records, %v", len(got), err)
	}
}

func TestMergeErrors(t *testing.T) {
	cause := errors.New("disk on fire")
	for _, n := range []int{1, 2, 5} {
		for bad := range n {
			streams := []kv.Stream{nil}
			for i := range n {
				s := &sliceStream{recs: []record{{"a", ""}, {"b", ""}, {"c", ""}}}
				if i == bad {
					s.err = cause
				}
				streams = append(streams, s)
			}
			m := New(streams)
			_, err := collect(m)
			var se *StreamError
			if !errors.As(err, &se) || se.Index != bad+1 || !errors.Is(err, cause) {
				t.Errorf("stream %d of %d: got %v", bad, n, err)
			}
			if m.Next() {
				t.Error("goes on after an error")
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
			for _, s := range streams[1:] {
				if s.(*sliceStream).closed != 1 {
					t.Error("stream not closed")
				}
			}
		}
	}
}

func TestUnsortedStream(t *testing.T) {
	for _, keys := range [][2]string{{"b", "a"}, {"longkey2", "longkey1"}, {"longkey", "longke"}} {
		m := New([]kv.Stream{
			newStream(2, []record{{keys[0], ""}, {keys[1], ""}}),
			newStream(2, []record{{"zzz", ""}}),
		})
		if got, err := collect(m); !errors.Is(err, ErrUnsorted) || len(got) != 1 {
			t.Errorf("%q: got %q, %v", keys, got, err)
		}
	}
}

func TestGroups(t *testing.T) {
	firstByte := func(a, b []byte) bool { return bytes.Equal(a[:min(1, len(a))], b[:min(1, len(b))]) }
	rapid.Check(t, func(t *rapid.T) {
		all := genStreams(t)
		want := naive(all)
		var same func(a, b []byte) bool
		belongs := func(a, b string) bool { return a == b }
		if rapid.Bool().Draw(t, "secondary") {
			same = firstByte
			belongs = func(a, b string) bool { return firstByte([]byte(a), []byte(b)) }
		}
		g := NewGroups(New(streamsOf(t, all)), same)
		for len(want) > 0 {
			n := 1
			for n < len(want) && belongs(want[0].key, want[n].key) {
				n++
			}
			group := want[:n]
			want = want[n:]
			if !g.Next() {
				t.Fatalf("no group %q: %v", group[0].key, g.Err())
			}
			take := rapid.IntRange(0, n).Draw(t, "take") // the rest is skipped
			i := 0
			for i < take {
				for v := range g.Values() {
					if string(v) != group[i].value || string(g.RecordKey()) != group[i].key || string(g.Key()) != group[0].key {
						t.Fatalf("value %d of %q: got %q of %q", i, group[0].key, v, g.RecordKey())
					}
					i++
					if i == take || i%3 == 0 { // a second loop continues here
						break
					}
				}
			}
			if take == n {
				for range g.Values() {
					t.Fatalf("group %q has more than %d values", group[0].key, n)
				}
			}
		}
		if g.Next() || g.Err() != nil {
			t.Fatalf("another group %q, %v", g.Key(), g.Err())
		}
	})
}

func TestGroupsDoNotAllocate(t *testing.T) {
	var recs []record
	for i := range 30_000 {
		recs = append(recs, record{fmt.Sprintf("key%06d", i/3), "v"})
	}
	streams := []kv.Stream{&sliceStream{recs: recs[:20_000]}, &sliceStream{recs: recs[10_000:]}}
	g := NewGroups(New(streams), nil)
	g.Next()
	all := func([]byte) bool { return true } // a loop's body may allocate, that is the caller's
	if n := testing.AllocsPerRun(3000, func() {
		g.Next()
		g.Values()(all)
	}); n != 0 {
		t.Errorf("%v allocations for a group", n)
	}
}
