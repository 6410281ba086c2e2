package engine

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"testing"

	"github.com/slotwise/slotwise/internal/base/counters"
	"github.com/slotwise/slotwise/internal/data/engine/mem"
	"github.com/slotwise/slotwise/internal/data/engine/runfile"
	"github.com/slotwise/slotwise/internal/data/input"
	"github.com/slotwise/slotwise/internal/data/kv"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/sched/job"
)

// lineMapper emits each line's first byte with the line.
type lineMapper struct{ out Sink }

func (m lineMapper) Map(_, line []byte) error { m.out.Emit(line[:1], line); return nil }
func (m lineMapper) Close() error             { return nil }

// firstOnly is a combiner that keeps the first value of each key.
type firstOnly struct{ out Sink }

func (r firstOnly) Reduce(key []byte, values iter.Seq[[]byte]) error {
	for v := range values {
		r.out.Emit(key, v)
		break
	}
	return nil
}
func (r firstOnly) Close() error { return nil }

// TestDroppedRecords: a map whose conditions drop all records reports that it is alive, so the timeout of
// tasks does not end it.
func TestDroppedRecords(t *testing.T) {
	text := bytes.Repeat([]byte("text,1\n"), 100_000)
	path := filepath.Join(t.TempDir(), "in.csv")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	size := int64(len(text))
	task := &MapTask{
		Program: &Program{
			Sources:    []Source{{NewMapper: func(_ *Task, s Sink) (Mapper, error) { return lineMapper{s}, nil }}},
			NewReducer: func(_ *Task, s Sink) (Reducer, error) { return firstOnly{s}, nil },
		},
		Task:  &Task{Ctx: t.Context(), Attempt: job.AttemptID{TaskID: job.TaskID{Job: 1}}, Maps: 1, Reduces: 1, Counters: &UserCounters{}, Meter: &Meter{}},
		Split: input.Split{Bytes: size, Pieces: []input.Piece{{URI: path, Length: size, FileSize: size}}, Rows: "csv,header=no,where=2=none"},
	}
	out, count, err := RunMap(t.Context(), &Env{Mem: mem.NewPool(64 << 20), Resident: mem.NewPool(16 << 20), MapBuffer: 16 << 20}, task)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Release()
	if n, ticks := count.Get(counters.InputRecords), task.Task.Meter.Ticks.Load(); n != 0 || ticks < 50 {
		t.Errorf("%d records, %d signs of life", n, ticks)
	}
}

// TestStore stores map outputs that were spilled several times, once or never. The run
// file must have the same records as the output. A combiner must leave one record per
// key for any number of runs.
func TestStore(t *testing.T) {
	var text bytes.Buffer
	for i := range 60_000 {
		fmt.Fprintf(&text, "%c%06d some more to fill the line\n", 'a'+i%26, i)
	}
	path := filepath.Join(t.TempDir(), "in.txt")
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	size := int64(text.Len())
	for _, combine := range []bool{false, true} {
		for _, buffer := range []int64{512 << 10, 64 << 20} {
			for _, reduces := range []int{1, 3} {
				t.Run(fmt.Sprint(combine, buffer, reduces), func(t *testing.T) {
					scratch, err := storage.NewDirScratch(t.TempDir())
					if err != nil {
						t.Fatal(err)
					}
					defer scratch.Close()
					p := &Program{
						Sources:    []Source{{NewMapper: func(_ *Task, s Sink) (Mapper, error) { return lineMapper{s}, nil }}},
						NewReducer: func(_ *Task, s Sink) (Reducer, error) { return firstOnly{s}, nil },
					}
					if combine {
						p.NewCombiner = p.NewReducer
					}
					env := &Env{Mem: mem.NewPool(128 << 20), Resident: mem.NewPool(64 << 20), Scratch: scratch, MapBuffer: buffer, MergeBuffer: 4 << 20}
					task := &MapTask{
						Program: p,
						Task:    &Task{Ctx: t.Context(), Attempt: job.AttemptID{TaskID: job.TaskID{Job: 1}}, Maps: 1, Reduces: reduces, Counters: &UserCounters{}, Meter: &Meter{}},
						Split:   input.Split{Bytes: size, Pieces: []input.Piece{{URI: path, Length: size, FileSize: size}}},
					}
					out, count, err := RunMap(t.Context(), env, task)
					if err != nil {
						t.Fatal(err)
					}
					defer out.Release()
					if small := buffer < size; small != (count.Get(counters.Spills) > 1) {
						t.Fatalf("%d spills with a buffer of %d", count.Get(counters.Spills), buffer)
					}
					for c, n := range count.Each() {
						if n != 0 && c.Kinds&counters.Maps == 0 {
							t.Errorf("a map counted %d in %s, which the table gives to reduces only", n, c.Label)
						}
					}
					var file bytes.Buffer
					n, err := Store(t.Context(), task, out, &file, runfile.LZ4)
					if err != nil || n != int64(file.Len()) {
						t.Fatalf("%d of %d bytes, %v", n, file.Len(), err)
					}
					stored, err := runfile.Open(bytes.NewReader(file.Bytes()), n, "test")
					if err != nil {
						t.Fatal(err)
					}
					keys := 0
					for part := range reduces {
						want := records(t, out, part)
						if combine {
							want = firsts(want)
						}
						got := records(t, stored, part)
						if fmt.Sprint(got) != fmt.Sprint(want) {
							t.Errorf("part %d: %d records, want %d", part, len(got), len(want))
						}
						keys += len(firsts(want))
					}
					if keys != 26 {
						t.Errorf("%d keys", keys)
					}
					ctx, cancel := context.WithCancel(t.Context())
					cancel()
					if _, err := Store(ctx, task, out, &file, runfile.None); err == nil {
						t.Error("stored after the end")
					}
				})
			}
		}
	}
}

func records(t *testing.T, p kv.Partitioned, part int) (out [][2]string) {
	t.Helper()
	s, err := p.Partition(part)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for s.Next() {
		out = append(out, [2]string{string(s.Key()), string(s.Value())})
	}
	if s.Err() != nil {
		t.Fatal(s.Err())
	}
	return out
}

// firsts keeps the first record of each key.
func firsts(in [][2]string) (out [][2]string) {
	for _, r := range in {
		if len(out) == 0 || out[len(out)-1][0] != r[0] {
			out = append(out, r)
		}
	}
	return out
}
