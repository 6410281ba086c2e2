package merge

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/data/engine/runfile"
	"github.com/slotwise/slotwise/internal/data/kv"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/testkit/faultfs"
)

// bufferedStream claims to hold buffers and counts how many are read at once.
type bufferedStream struct {
	sliceStream
	live, peak *int
	began      bool
}

func (s *bufferedStream) Memory() int { return 100 }

func (s *bufferedStream) Remaining() (records, bytes int64) {
	for _, r := range s.recs {
		bytes += int64(len(r.key) + len(r.value))
	}
	return int64(len(s.recs)), bytes
}

func (s *bufferedStream) Next() bool {
	if !s.began {
		s.began = true
		*s.live++
		*s.peak = max(*s.peak, *s.live)
	}
	ok := s.sliceStream.Next()
	return ok
}

func (s *bufferedStream) Close() error {
	if s.began && s.closed == 0 {
		*s.live--
	}
	return s.sliceStream.Close()
}

type workspace struct {
	parent  string
	scratch *faultfs.Scratch
}

func newWorkspace(t *testing.T, rules ...faultfs.Rule) workspace {
	t.Helper()
	parent := t.TempDir()
	dir, err := storage.NewDirScratch(parent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	return workspace{parent, faultfs.NewScratch(dir, rules...)}
}

// files lists the scratch files that exist.
func (w workspace) files(t *testing.T) (names []string) {
	t.Helper()
	dirs, err := os.ReadDir(w.parent)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		files, err := os.ReadDir(w.parent + "/" + d.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if f.Name() != "lock" {
				names = append(names, f.Name())
			}
		}
	}
	return names
}

func TestMultiPassAgainstSort(t *testing.T) {
	work := newWorkspace(t)
	rapid.Check(t, func(rt *rapid.T) {
		all := genStreams(rt)
		fan := rapid.IntRange(2, 5).Draw(rt, "fan")
		cfg := Config{FanIn: fan, Scratch: work.scratch, Name: "test", BlockSize: 64}
		if rapid.Bool().Draw(rt, "byMemory") {
			cfg.FanIn, cfg.Memory = 0, int64(100*fan+99)
			// Intermediate runs need more than these streams claim, so the
			// fan-in may fall to the least.
		}
		live, peak := 0, 0
		var streams []kv.Stream
		for _, recs := range all {
			if rapid.IntRange(0, 4).Draw(rt, "kind") == 0 {
				streams = append(streams, newStream(0, recs))
			} else {
				streams = append(streams, &bufferedStream{sliceStream: sliceStream{recs: recs}, live: &live, peak: &peak})
			}
		}
		m, err := MultiPass(context.Background(), streams, cfg)
		if err != nil {
			rt.Fatal(err)
		}
		got, err := collect(m)
		if err != nil || !slices.Equal(got, naive(all)) {
			rt.Fatalf("got %q, want %q, %v", got, naive(all), err)
		}
		if peak > fan {
			rt.Fatalf("%d streams read at once, the limit is %d", peak, fan)
		}
		if err := errors.Join(m.Close(), m.Close()); err != nil {
			rt.Fatal(err)
		}
		if left := work.files(t); len(left) != 0 || live != 0 {
			rt.Fatalf("left: %v, %d open streams", left, live)
		}
	})
}

// TestPassPlan checks which streams are merged first.
func TestPassPlan(t *testing.T) {
	runs := func(sizes ...int64) (rs []run) {
		for _, n := range sizes {
			rs = append(rs, run{memory: 10, bytes: n})
		}
		return rs
	}
	inMemory := runs(5, 5, 5, 5, 5)
	for i := range inMemory {
		inMemory[i].memory = 0
	}
	for _, tc := range []struct {
		name  string
		runs  []run
		cfg   Config
		at, n int
	}{
		{"fits", runs(1, 2, 3), Config{FanIn: 3}, 0, 0},
		{"no limit", runs(1, 2, 3), Config{}, 0, 0},
		{"one too many: two smallest neighbours", runs(9, 9, 1, 2), Config{FanIn: 3}, 2, 2},
		{"two too many", runs(9, 1, 1, 1, 9), Config{FanIn: 3}, 1, 3},
		{"memory", runs(9, 9, 1, 2), Config{Memory: 35}, 2, 2},
		{"memory for less than two", runs(9, 1, 2), Config{Memory: 1}, 1, 2},
		{"records in memory do not count", inMemory, Config{FanIn: 2}, 0, 0},
		{"neighbours in memory come along", append(append(runs(1), inMemory[:1]...), runs(1, 9)...), Config{FanIn: 2}, 0, 3},
	} {
		p := &passes{cfg: tc.cfg, runs: tc.runs}
		if at, n := p.choose(); at != tc.at || n != tc.n {
			t.Errorf("%s: merges %d from %d, want %d from %d", tc.name, n, at, tc.n, tc.at)
		}
	}
}

func bufferedInputs(n, records int) []kv.Stream {
	live, peak := new(int), new(int)
	var streams []kv.Stream
	for range n {
		var recs []record
		for j := range records {
			recs = append(recs, record{fmt.Sprintf("key%06d", j), string(binary.BigEndian.AppendUint64(nil, 1))})
		}
		streams = append(streams, &bufferedStream{sliceStream: sliceStream{recs: recs}, live: live, peak: peak})
	}
	return streams
}

func sum(_ []byte, values iter.Seq[[]byte]) (n uint64) {
	for v := range values {
		n += binary.BigEndian.Uint64(v)
	}
	return n
}

func TestMultiPassCombines(t *testing.T) {
	work := newWorkspace(t)
	calls := 0
	cfg := Config{FanIn: 3, Scratch: work.scratch, Name: "test", Codec: runfile.LZ4,
		Combine: func(key []byte, values iter.Seq[[]byte], emit func(k, v []byte)) error {
			calls++
			emit(key, binary.BigEndian.AppendUint64(nil, sum(key, values)))
			return nil
		}}
	m, err := MultiPass(t.Context(), bufferedInputs(10, 50), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	g := NewGroups(m, nil)
	groups := 0
	for g.Next() {
		if n := sum(g.Key(), g.Values()); n != 10 {
			t.Errorf("%s: %d", g.Key(), n)
		}
		groups++
	}
	if groups != 50 || calls < 50 || g.Err() != nil {
		t.Errorf("%d groups, %d calls, %v", groups, calls, g.Err())
	}
}

// TestMultiPassFaults: an injected error comes out with the file's name, and
// nothing is left open or on disk.
func TestMultiPassFaults(t *testing.T) {
	bad := errors.New("combiner failed")
	off := faultfs.Rule{Op: faultfs.Any, Path: "no such file"}
	for name, tc := range map[string]struct {
		fault   faultfs.Rule
		combine Combine
		want    error
		text    string
	}{
		"create":    {fault: faultfs.Rule{Op: faultfs.Create, Nth: 2}, want: syscall.EIO, text: "job-merge1"},
		"disk full": {fault: faultfs.Rule{Op: faultfs.Write, Nth: 9, Err: syscall.ENOSPC}, want: syscall.ENOSPC, text: "job-merge"},
		"short":     {fault: faultfs.Rule{Op: faultfs.Write, Nth: 3}, want: syscall.EIO, text: "job-merge"},
		"read":      {fault: faultfs.Rule{Op: faultfs.Read, Nth: 7}, want: syscall.EIO, text: "job-merge"},
		"flipped":   {fault: faultfs.Rule{Op: faultfs.Read, FlipBit: true, Nth: 7}, text: "job-merge"},
		"combiner":  {fault: off, combine: func([]byte, iter.Seq[[]byte], func(k, v []byte)) error { return bad }, want: bad},
		"wrong keys": {fault: off, combine: func(_ []byte, _ iter.Seq[[]byte], emit func(k, v []byte)) error {
			emit([]byte("z"), nil)
			emit([]byte("a"), nil)
			return nil
		}, text: "out of order"},
	} {
		t.Run(name, func(t *testing.T) {
			work := newWorkspace(t, tc.fault)
			streams := bufferedInputs(9, 100)
			m, err := MultiPass(t.Context(), streams, Config{FanIn: 2, Scratch: work.scratch, Name: "job", BlockSize: 100, Combine: tc.combine})
			if err == nil {
				_, err = collect(m)
				_ = m.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tc.text) || (tc.want != nil && !errors.Is(err, tc.want)) {
				t.Errorf("got %v", err)
			}
			if left := work.files(t); len(left) != 0 {
				t.Errorf("left: %v", left)
			}
			for i, s := range streams {
				if s.(*bufferedStream).closed == 0 {
					t.Errorf("stream %d is open", i)
				}
			}
		})
	}
}

// failingClose is a stream that cannot be closed.
type failingClose struct{ *bufferedStream }

func (s failingClose) Close() error {
	return errors.Join(s.bufferedStream.Close(), syscall.EIO)
}

// TestMultiPassCloseError lets one stream fail to close after it has been merged into an
// intermediate run. The error comes out, every stream is closed, and the run is removed.
func TestMultiPassCloseError(t *testing.T) {
	for bad := range 5 {
		work := newWorkspace(t)
		streams := bufferedInputs(5, 10)
		plain := slices.Clone(streams)
		streams[bad] = failingClose{streams[bad].(*bufferedStream)}
		m, err := MultiPass(t.Context(), streams, Config{FanIn: 2, Scratch: work.scratch, Name: "job"})
		if err == nil {
			_, err = collect(m)
			err = errors.Join(err, m.Close())
		}
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("stream %d: %v", bad, err)
		}
		if left := work.files(t); len(left) != 0 {
			t.Errorf("stream %d: left %v", bad, left)
		}
		for i, s := range plain {
			if s.(*bufferedStream).closed == 0 {
				t.Errorf("stream %d cannot be closed, and stream %d is open", bad, i)
			}
		}
	}
}

// TestEveryFault lets each read and write in turn fail or lie: the result is
// an error or the right records.
func TestEveryFault(t *testing.T) {
	for _, rule := range []faultfs.Rule{{Op: faultfs.Write}, {Op: faultfs.Read}, {Op: faultfs.Read, FlipBit: true}} {
		for rule.Nth = 1; ; rule.Nth++ {
			work := newWorkspace(t, rule)
			m, err := MultiPass(t.Context(), bufferedInputs(4, 8), Config{FanIn: 2, Scratch: work.scratch, Name: "job", BlockSize: 100})
			var got []record
			if err == nil {
				got, err = collect(m)
				_ = m.Close()
			}
			if err == nil && len(got) != 32 {
				t.Fatalf("%+v: %d records and no error", rule, len(got))
			}
			if work.scratch.Fired() == 0 {
				break
			}
			if err == nil {
				t.Fatalf("%+v: no error", rule)
			}
		}
	}
}

func TestMultiPassCancel(t *testing.T) {
	work := newWorkspace(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("attempt killed")
	cancel(cause)
	_, err := MultiPass(ctx, bufferedInputs(3, 2*ctxEvery), Config{FanIn: 2, Scratch: work.scratch, Name: "job"})
	if !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
}

func TestMultiPassInputError(t *testing.T) {
	work := newWorkspace(t)
	cause := errors.New("disk on fire")
	for bad := range 5 {
		streams := bufferedInputs(5, 10)
		streams[bad].(*bufferedStream).err = cause
		m, err := MultiPass(t.Context(), streams, Config{FanIn: 2, Scratch: work.scratch, Name: "job"})
		if err == nil {
			_, err = collect(m)
			_ = m.Close()
		}
		var se *StreamError
		if !errors.As(err, &se) || se.Index != bad || !errors.Is(err, cause) {
			t.Errorf("stream %d: got %v", bad, err)
		}
	}
}

// TestRunFileStreams merges a thousand run files within a memory limit.
func TestRunFileStreams(t *testing.T) {
	work := newWorkspace(t)
	var streams []kv.Stream
	var all [][]record
	for i := range 1000 {
		var recs []record
		var out bytes.Buffer
		w := runfile.NewWriter(&out, runfile.Options{Partitions: 1, BlockSize: 256, Codec: runfile.S2})
		for j := range 10 {
			r := record{fmt.Sprintf("key%04d", (i*7+j*331)%1000/(j+1)), fmt.Sprint(i, j)}
			recs = append(recs, r)
		}
		recs = naive([][]record{recs})
		for _, r := range recs {
			if err := w.Append(0, []byte(r.key), []byte(r.value)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Finish(); err != nil {
			t.Fatal(err)
		}
		f, err := runfile.Open(bytes.NewReader(out.Bytes()), w.Size(), fmt.Sprint("run", i))
		if err != nil {
			t.Fatal(err)
		}
		s, err := f.Partition(0)
		if err != nil {
			t.Fatal(err)
		}
		streams, all = append(streams, s), append(all, recs)
	}
	m, err := MultiPass(t.Context(), streams, Config{Memory: 64 << 10, Scratch: work.scratch, Name: "job", BlockSize: 256})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, several := m.(*final); !several {
		t.Error("merged in one pass")
	}
	got, err := collect(m)
	if err != nil || !slices.Equal(got, naive(all)) {
		t.Fatalf("%d records differ, %v", len(got), err)
	}
}
