package merge

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/slotwise/slotwise/internal/data/engine/runfile"
	"github.com/slotwise/slotwise/internal/data/kv"
	"github.com/slotwise/slotwise/internal/data/storage"
)

// Combine reduces the values of one key to fewer records. It emits records of that
// key only and may be called again for its own results. Its arguments are valid
// only during the call; emitted slices are copied.
type Combine func(key []byte, values iter.Seq[[]byte], emit func(k, v []byte)) error

// Config limits a merge in several passes.
type Config struct {
	// FanIn is the largest number of streams with read buffers that are read at
	// once: at least 2, or 0 for no limit. Streams of records in memory do not
	// count.
	FanIn int
	// Memory is the limit in bytes for the buffers of the streams that are read at
	// once; 0 is no limit. Two streams are read at once even beyond the limit.
	Memory int64
	// Scratch holds the intermediate runs. Their names begin with Name.
	Scratch storage.Scratch
	Name    string
	// Codec and BlockSize apply to the intermediate runs.
	Codec     runfile.Codec
	BlockSize int
	// Combine, if set, is applied to the records of intermediate runs.
	Combine Combine
}

// ctxEvery is the number of records after which a merge checks its context.
const ctxEvery = 4096

// MultiPass merges any number of streams within the limits of cfg. While there are
// too many streams, it merges some streams into an intermediate run on disk. It
// picks the neighbours with the fewest bytes: merging only neighbours keeps the
// result stable, like the result of New.
//
// The result owns the streams. Its Close closes them and removes the intermediate
// runs. If MultiPass returns an error it has closed everything. The intermediate
// runs are written before it returns; cancelling ctx stops that.
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
	// Without intermediate runs New may choose a faster merge than the tree.
	if p.written == 0 {
		return New(streams), nil
	}
	return &final{Stream: p.join(p.runs), runs: p.runs}, nil
}

// run is a stream that has not been merged yet.
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
	written int   // number of intermediate runs so far
}

// choose returns the n neighbours, starting at index at, to merge next; n is 0 if
// all streams can be read at once. The first pass merges only as many streams as
// are needed for all later passes to use the whole fan-in.
func (p *passes) choose() (at, n int) {
	// Streams of records in memory need no buffer, so they never force a pass.
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
		// Two is the least that makes progress.
		fan = min(fan, max(2, p.cfg.FanIn))
	}
	if p.cfg.Memory > 0 && total > p.cfg.Memory {
		// By the largest stream: whichever neighbours are merged, their buffers then fit.
		fan = min(fan, max(2, int(p.cfg.Memory/largest)))
	}
	if count <= fan {
		return 0, 0
	}
	// A pass of n streams leaves n-1 fewer. With this first pass, all later ones are full and so
	// there are as few passes as possible.
	need := (count-1)%(fan-1) + 1
	// A remainder of 0: every pass is full from the beginning.
	if need == 1 {
		need = fan
	}
	return p.cheapest(need)
}

// cheapest returns the window with the fewest bytes among the windows with need
// buffered streams, one at each end.
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

// reduce merges n neighbours into one intermediate run.
func (p *passes) reduce(at, n int) error {
	window := p.runs[at : at+n]
	s := p.join(window)
	f, err := p.cfg.Scratch.Create(fmt.Sprintf("%s-merge%d", p.cfg.Name, p.written))
	if err != nil {
		return err
	}
	// Counts runs that fail later, too: their names must not be used twice.
	p.written++
	file, err := p.write(f, s)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	merged, err := file.Partition(0)
	if err == nil {
		// Before the new run replaces them: the buffers and disk space of the window are free for the
		// next pass.
		err = p.close(window)
	}
	if err != nil {
		file.Release() // removes the run, which no stream of p owns yet
		return err
	}
	// In the place of its window, so that equal keys keep the order of their streams.
	r := newRun(merged, -1)
	r.file = file
	p.runs = slices.Replace(p.runs, at, at+n, r)
	return nil
}

// write writes the records of s to f, as a run with one partition.
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

// copy passes the records of s to put, through the combiner if there is one.
func (p *passes) copy(s kv.Stream, put func(k, v []byte) error) error {
	if p.cfg.Combine == nil {
		for s.Next() {
			if err := put(s.Key(), s.Value()); err != nil {
				return err
			}
		}
		return s.Err()
	}
	// Combine's emit has no error to return. Its first one ends the merge.
	var failed error
	emit := func(k, v []byte) {
		if failed == nil {
			failed = put(k, v)
		}
	}
	g := NewGroups(s, nil)
	for g.Next() {
		err := p.cfg.Combine(g.Key(), g.Values(), emit)
		// Before the error of Combine, which may only follow from the failed write.
		if failed != nil {
			return failed
		}
		if err != nil {
			return err
		}
	}
	return g.Err()
}

// join returns a merge of runs. Its errors have the indexes of the streams that
// MultiPass was called with.
func (p *passes) join(runs []run) *Stream {
	streams := make([]kv.Stream, len(runs))
	for i, r := range runs {
		streams[i] = r.s
	}
	return newTree(streams, func(i int) int { return runs[i].index })
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
	// The files go after the streams, which read from them.
	for _, r := range f.runs {
		if r.file != nil {
			r.file.Release()
		}
	}
	return err
}
