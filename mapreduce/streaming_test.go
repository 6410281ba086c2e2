package mapreduce

import (
	"bytes"
	"context"
	"io"
	"runtime"
	"slices"
	"testing"

	"github.com/slotwise/slotwise/internal/data/engine"
)

// TestLongStreamingRecords: a command gets records of any length in their order, and a long one is not copied on its
// way.
func TestLongStreamingRecords(t *testing.T) {
	runtime.LockOSThread() // as the engine does for a child
	defer runtime.UnlockOSThread()
	long := bytes.Repeat([]byte("x"), 32<<20)
	value := append([]byte{'\t'}, long...)
	for _, c := range []struct {
		command string
		want    []string
	}{
		{"wc -c", []string{"67108885"}},
		{"cut -c 1-3", []string{"a\t1", "xxx", "xxx", "b\t2"}},
	} {
		r := newStreamReducer("reducer", c.command, io.Discard, emitLine).(*streamReducer)
		task := &Task{t: &engine.Task{Ctx: context.Background(), Counters: &engine.UserCounters{}, Meter: &engine.Meter{}}}
		if err := r.Start(task); err != nil {
			t.Fatal(err)
		}
		var got []string
		r.line = func(b []byte) error { got = append(got, string(bytes.TrimSpace(b))); return nil }
		out := &Emitter{task: task}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for _, record := range [][2][]byte{{[]byte("a"), []byte("\t1")}, {long, nil}, {[]byte("xxxxxxxxxx"), value}, {[]byte("b"), []byte("\t2")}} {
			if err := r.Reduce(record[0], slices.Values([][]byte{record[1]}), out); err != nil {
				t.Fatal(err)
			}
		}
		runtime.ReadMemStats(&after)
		if err := r.Finish(out); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %.100q, want %q", c.command, got, c.want)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 {
			t.Errorf("%s: records of 64 MiB took %d bytes of memory", c.command, n)
		}
	}
}
