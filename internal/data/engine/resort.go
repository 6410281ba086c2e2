package engine

import (
	"fmt"

	"github.com/slotwise/slotwise/internal/data/engine/mem"
	"github.com/slotwise/slotwise/internal/data/engine/merge"
	"github.com/slotwise/slotwise/internal/data/engine/runfile"
	"github.com/slotwise/slotwise/internal/data/engine/sortbuf"
	"github.com/slotwise/slotwise/internal/data/kv"
)

// resorter sorts the records that a combiner emits for one partition of one spill. Its
// buffer is a quarter of a map's sort buffer and comes on top of the memory setting,
// because the sort buffer is in use. Combiners shrink their input, so the buffer is
// rarely full; then it is spilled.
type resorter struct {
	env  *Env
	name string
	buf  *sortbuf.Buffer
	runs []*spillRun
}

// minResort is the least size of a resorter's buffer in bytes.
const minResort = 1 << 20

func newResorter(m *MapTask) (*resorter, error) {
	limit := max(minResort, m.env.MapBuffer/4)
	// A separate pool: the attempts' pool is sized for sort buffers, all of which may be full now.
	buf, err := sortbuf.New(sortbuf.Config{Pool: mem.NewPool(limit), Limit: limit, Partitions: 1})
	return &resorter{env: m.env, name: m.Task.Attempt.String() + "-combined", buf: buf}, err
}

// add adds a record.
func (r *resorter) add(k, v []byte) error {
	if r.buf.Add(0, k, v) {
		return nil
	}
	if err := r.spill(); err != nil {
		return err
	}
	r.buf.Add(0, k, v) // an empty buffer takes any record
	return nil
}

// spill writes the buffer to a run file and empties it.
func (r *resorter) spill() error {
	f, err := r.env.Scratch.Create(fmt.Sprintf("%s%d", r.name, len(r.runs)))
	if err != nil {
		return err
	}
	r.buf.Sort()
	w := runfile.NewWriter(f, runfile.Options{Partitions: 1, Codec: r.env.Codec})
	// A sorted buffer's Partition has no error to return.
	st, _ := r.buf.Partition(0)
	for err == nil && st.Next() {
		err = w.Append(0, st.Key(), st.Value())
	}
	if err == nil {
		err = w.Finish()
	}
	var file *runfile.File
	if err == nil {
		file, err = runfile.Open(f, w.Size(), r.name)
	}
	if err != nil {
		f.Close()
		return err
	}
	// From here on release removes the file.
	r.runs = append(r.runs, &spillRun{file, f})
	r.buf.Reset()
	return nil
}

// each passes all records to emit in key order.
func (r *resorter) each(emit func(k, v []byte) error) error {
	r.buf.Sort()
	last, _ := r.buf.Partition(0)
	var streams []kv.Stream
	for _, run := range r.runs {
		s, err := run.Partition(0)
		if err != nil {
			return err
		}
		streams = append(streams, s)
	}
	// The buffer comes last: it holds the records that were emitted after the ones in the runs, and
	// equal keys keep the order of their streams.
	all := merge.New(append(streams, last))
	defer all.Close()
	for all.Next() {
		if err := emit(all.Key(), all.Value()); err != nil {
			return err
		}
	}
	return all.Err()
}

// release frees the memory and removes the files.
func (r *resorter) release() {
	r.buf.Release()
	for _, run := range r.runs {
		run.Release()
	}
}
