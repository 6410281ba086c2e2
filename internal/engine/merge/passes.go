package merge

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/slotwise/slotwise/internal/engine/runfile"
	"github.com/slotwise/slotwise/internal/kv"
	"github.com/slotwise/slotwise/internal/storage"
)

// Combine reduces the values of one key to fewer records. It emits records of
// that key only, and may be called for its own results again. What it is given
// is valid during the call; what it emits is copied.
type Combine func(key []byte, values iter.Seq[[]byte], emit func(k, v []byte)) error

// Config limits a merge in several passes.
type Config struct {
	// FanIn is how many streams that hold buffers may be read at once; at
	// least 2, and 0 means no limit. Streams of records in memory do not
	// count: reading one costs nothing.
	FanIn int
	// Memory is how many bytes the buffers of the streams read at once may
	// take; 0 means no limit. It gives way to a fan-in of 2.
	Memory int64
	// Scratch takes the intermediate runs and Name begins their names.
	Scratch storage.Scratch
	Name    string
	// Codec and BlockSize are those of the intermediate runs.
	Codec     runfile.Codec
	BlockSize int
	// Combine, if it is set, is applied to what intermediate runs will hold.
	Combine Combine
}

// ctxEvery is how many records are merged between two looks at the context.
const ctxEvery = 4096

// MultiPass merges any number of streams within the limits of cfg: while they
// are too many, some are merged into an intermediate run. Only neighbours are,
// those with the fewest bytes, so that the result is as stable as that of New.
//
// The streams belong to the result, whose Close also removes the intermediate
// runs; if an error is returned, all is closed already. The intermediate runs
// are written before MultiPass returns, and until ctx ends.
func MultiPass(ctx context.Context, streams []kv.Stream, cfg Config) (kv.Stream, error) {
	p := &passes{ctx: ctx, cfg: cfg}
	for i, s := range streams {
		if s != nil {
			p.runs = append(p.runs, newRun(s, i))
		}
	}
	for {
		at, n := p.choose()
		if n == 0 {
			break
		}
		if err := p.reduce(at, n); err != nil {
			return nil, errors.Join(err, p.close(p.runs))
		}
	}
	if p.written == 0 {
		return New(streams), nil
	}
	return &final{Stream: p.join(p.runs), runs: p.runs}, nil
}

// run is a stream yet to be merged.
type run struct {
	s      kv.Stream
	index  int           // in the slice given to MultiPass, -1 if intermediate
	file   *runfile.File // of an intermediate run
	memory int64
	bytes  int64
}

func newRun(s kv.Stream, index int) run {
	_, n := remainingOf(s)
	return run{s: s, index: index, memory: int64(memoryOf(s)), bytes: n}
}

type passes struct {
	ctx     context.Context
	cfg     Config
	runs    []run // in the order of the streams
	written int   // intermediate runs so far
}

// choose returns which n neighbours from at on to merge next; none if all can
// be read at once. The first pass merges just as many as let all later ones
// use the whole fan-in.
func (p *passes) choose() (at, n int) {
	count, total, largest := 0, int64(0), int64(0)
	for _, r := range p.runs {
		if r.memory > 0 {
			count++
			total += r.memory
			largest = max(largest, r.memory)
		}
	}
	fan := count
	if p.cfg.FanIn > 0 {
		fan = min(fan, max(2, p.cfg.FanIn))
	}
	if p.cfg.Memory > 0 && total > p.cfg.Memory {
		fan = min(fan, max(2, int(p.cfg.Memory/largest)))
	}
	if count <= fan {
		return 0, 0
	}
	need := (count-1)%(fan-1) + 1
	if need == 1 {
		need = fan
	}
	return p.cheapest(need)
}

// cheapest finds the window with the fewest bytes that begins and ends with a
// buffered stream and has need of them.
func (p *passes) cheapest(need int) (at, n int) {
	var idx []int
	var before []int64 // before[i]: bytes of the runs before idx[i]
	sum := int64(0)
	for i, r := range p.runs {
		if r.memory > 0 {
			idx, before = append(idx, i), append(before, sum)
		}
		sum += r.bytes
	}
	best := int64(-1)
	for i := 0; i+need <= len(idx); i++ {
		last := i + need - 1
		cost := before[last] + p.runs[idx[last]].bytes - before[i]
		if best < 0 || cost < best {
			best, at, n = cost, idx[i], idx[last]-idx[i]+1
		}
	}
	return at, n
}

// reduce replaces n neighbours by one intermediate run.
func (p *passes) reduce(at, n int) error {
	window := p.runs[at : at+n]
	s := p.join(window)
	f, err := p.cfg.Scratch.Create(fmt.Sprintf("%s-merge%d", p.cfg.Name, p.written))
	if err != nil {
		return err
	}
	p.written++
	file, err := p.write(f, s)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	merged, err := file.Partition(0)
	if err != nil {
		file.Release()
		return err
	}
	if err := p.close(window); err != nil {
		file.Release()
		return err
	}
	r := newRun(merged, -1)
	r.file = file
	p.runs = slices.Replace(p.runs, at, at+n, r)
	return nil
}

// write writes s as the only partition of f.
func (p *passes) write(f storage.ScratchFile, s kv.Stream) (*runfile.File, error) {
	w := runfile.NewWriter(f, runfile.Options{Partitions: 1, Codec: p.cfg.Codec, BlockSize: p.cfg.BlockSize})
	n := 0
	put := func(k, v []byte) error {
		if n++; n%ctxEvery == 0 && p.ctx.Err() != nil {
			return context.Cause(p.ctx)
		}
		return w.Append(0, k, v)
	}
	if err := p.copy(s, put); err != nil {
		return nil, err
	}
	if err := w.Finish(); err != nil {
		return nil, err
	}
	return runfile.Open(f, w.Size(), fmt.Sprintf("%s-merge%d", p.cfg.Name, p.written-1))
}

// copy sends the records of s to put, through the combiner if there is one.
func (p *passes) copy(s kv.Stream, put func(k, v []byte) error) error {
	if p.cfg.Combine == nil {
		for s.Next() {
			if err := put(s.Key(), s.Value()); err != nil {
				return err
			}
		}
		return s.Err()
	}
	var failed error
	emit := func(k, v []byte) {
		if failed == nil {
			failed = put(k, v)
		}
	}
	g := NewGroups(s, nil)
	for g.Next() {
		err := p.cfg.Combine(g.Key(), g.Values(), emit)
		if failed != nil {
			return failed
		}
		if err != nil {
			return err
		}
	}
	return g.Err()
}

// join merges runs and has errors name the stream as MultiPass got it.
func (p *passes) join(runs []run) *Stream {
	streams := make([]kv.Stream, len(runs))
	for i, r := range runs {
		streams[i] = r.s
	}
	m := newTree(streams, len(streams))
	for i := range m.leaves {
		m.leaves[i].index = runs[i].index
	}
	return m
}

// close closes streams and removes the files of intermediate runs.
func (p *passes) close(runs []run) error {
	var errs []error
	for _, r := range runs {
		errs = append(errs, r.s.Close())
		if r.file != nil {
			r.file.Release()
		}
	}
	return errors.Join(errs...)
}

// final is the last pass. It removes the intermediate runs when closed.
type final struct {
	*Stream
	runs []run
}

// Close closes all streams and removes the intermediate runs.
func (f *final) Close() error {
	err := f.Stream.Close()
	for _, r := range f.runs {
		if r.file != nil {
			r.file.Release()
		}
	}
	return err
}
