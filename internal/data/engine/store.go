package engine

import (
	"context"
	"io"

	"github.com/slotwise/slotwise/internal/data/engine/runfile"
	"github.com/slotwise/slotwise/internal/data/kv"
)

// Store writes a map output as one run file, for reduces in other processes, and
// returns the file's size in bytes. It merges spilled runs, through the combiner if
// there is one. The caller still owns out.
func Store(ctx context.Context, t *MapTask, out kv.Partitioned, w io.Writer, codec runfile.Codec) (int64, error) {
	parts := max(1, t.Task.Reduces)
	rw := runfile.NewWriter(w, runfile.Options{Partitions: parts, Codec: codec})
	p := *t.Program
	if _, several := out.(multiRun); !several {
		p.NewCombiner = nil // a single run was combined when it was written
	}
	for part := range parts {
		if n, _ := out.Size(part); n == 0 {
			continue
		}
		// Between partitions, because a partition with few records never reaches the check in
		// storePart.
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
		if err := storePart(&p, t, out, part, rw); err != nil {
			return 0, err
		}
	}
	if err := rw.Finish(); err != nil {
		return 0, err
	}
	return rw.Size(), nil
}

// storePart writes one partition. Every storeTick records it reports that the
// attempt is alive and checks the context.
func storePart(p *Program, m *MapTask, out kv.Partitioned, part int, w *runfile.Writer) error {
	t := m.Task
	st, err := out.Partition(part)
	if err != nil {
		return err
	}
	n := 0
	_, err = combine(p, m, st, func(k, v []byte) error {
		// The master would time out an attempt that writes a large output without a sign of life.
		if n++; n%storeTick == 0 {
			t.Meter.Ticks.Add(1)
			if err := context.Cause(t.Ctx); err != nil {
				return err
			}
		}
		return w.Append(part, k, v)
	})
	if cerr := st.Close(); err == nil {
		err = cerr
	}
	return err
}

// storeTick is the number of records between two reports that the attempt is alive.
const storeTick = 1 << 14
