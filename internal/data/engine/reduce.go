package engine

import (
	"context"
	"time"

	"github.com/slotwise/slotwise/internal/base/counters"
	"github.com/slotwise/slotwise/internal/data/engine/merge"
	"github.com/slotwise/slotwise/internal/data/kv"
	"github.com/slotwise/slotwise/internal/data/output"
	"github.com/slotwise/slotwise/internal/data/storage"
)

// Inputs provides the inputs of a reduce attempt: its partition of every map
// output, in the order of the maps.
type Inputs interface {
	// Collect blocks until all inputs can be read.
	Collect(ctx context.Context) ([]kv.Stream, error)
	// Records returns the total number of records in Collect's streams.
	Records() int64
	// Bytes returns the total size of their keys and values.
	Bytes() int64
}

// ReduceTask is one attempt of a reduce task.
type ReduceTask struct {
	Program *Program
	Task    *Task
	Inputs  Inputs
	Staging storage.Staging
	Part    string // name of the output file
	OutCode output.Codec
}

// RunReduce runs a reduce attempt and commits its output file. After an error it has
// removed everything that the attempt wrote. The counters are never nil.
func RunReduce(ctx context.Context, env *Env, t *ReduceTask) (count *counters.Set, err error) {
	defer func() {
		if p := recover(); p != nil {
			// As in RunMap: a panic of the job's code ends its attempt and not the process.
			err = newPanicError(p)
		}
	}()
	count = &counters.Set{}
	var thread time.Duration
	defer func() { t.Task.addTotals(count, thread) }()
	streams, err := t.Inputs.Collect(ctx)
	if err != nil {
		return count, err
	}
	// The time in Collect is a wait for maps and no work of this attempt.
	cpu := startCPU()
	defer func() { thread = cpu.stop() }()
	merged, err := mergeInputs(ctx, env, t, streams)
	if err != nil {
		return count, err
	}
	defer merged.Close()
	count.Add(counters.InputBytes, t.Inputs.Bytes())
	// After the inputs are there: an open file would be held, and touched in the storage, for as
	// long as the maps take.
	sink, err := newFileSink(env, t.Staging, t.Part, t.Program, t.OutCode, t.Task)
	if err != nil {
		return count, err
	}
	defer sink.discard()
	if err := reduceAll(ctx, t, merged, sink, count); err != nil {
		return count, err
	}
	_, err = sink.finish(ctx)
	sink.addCounters(count)
	if err != nil {
		return count, err
	}
	return count, sink.commit(ctx)
}

// mergeInputs merges the streams, in several passes if the memory is too small to
// read all streams at once.
func mergeInputs(ctx context.Context, env *Env, t *ReduceTask, streams []kv.Stream) (kv.Stream, error) {
	// Only now are the maps' outputs known. With a total of 0 a reduce without records would report
	// no progress at its end.
	t.Task.Meter.Total.Store(max(1, t.Inputs.Records()))
	return merge.MultiPass(ctx, streams, merge.Config{
		Memory:  env.MergeBuffer,
		Scratch: env.Scratch,
		Name:    t.Task.Attempt.String(),
		Codec:   env.Codec,
	})
}

// reduceAll passes the groups of the merged input to the reducer. It returns the first error of the
// input, the reducer or the output, or the context's cause.
func reduceAll(ctx context.Context, t *ReduceTask, in kv.Stream, sink *fileSink, count *counters.Set) error {
	r, err := t.Program.NewReducer(t.Task, sink)
	if err != nil {
		return err
	}
	g := merge.NewGroups(in, t.Program.SameGroup)
	// Set before the first Reduce and never reset: Task is one attempt's, and Groups lives as long as
	// it.
	t.Task.RecordKey = g.RecordKey
	// Within a group, too: a reducer that gets a hundred million values of one key must hear of a
	// cancelled attempt or a full disk.
	g.Watch(func(read int64) error {
		t.Task.Meter.Done.Store(read)
		if err := sink.err(); err != nil {
			return err
		}
		return context.Cause(ctx)
	})
	for err == nil && g.Next() {
		count.Add(counters.InputGroups, 1)
		err = r.Reduce(g.Key(), g.Values())
	}
	if err == nil {
		err = g.Err()
	}
	// Watch looks at the context only every few records, so the last ones may have passed without a
	// check. A cancelled attempt must not ask for the commit.
	if err == nil {
		err = context.Cause(ctx)
	}
	// Close may emit the last records and ends what the reducer has opened, so it runs after an error,
	// too.
	if cerr := r.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = sink.err()
	}
	count.Add(counters.InputRecords, g.Records())
	return err
}

// fileSink writes emitted records to an output file.
type fileSink struct {
	env  *Env
	task *Task
	w    *output.Writer
	lazy bool // Program.LazyOutput
	fail error
	// count has only the counters of emitted records.
	count counters.Set
}

// newFileSink begins an output file in a staging. The caller must call discard.
func newFileSink(env *Env, st storage.Staging, name string, p *Program, c output.Codec, t *Task) (*fileSink, error) {
	w, err := output.Open(st, name, output.Options{Format: p.Output, Rows: p.Rows, Codec: c})
	if err != nil {
		return nil, err
	}
	return &fileSink{env: env, task: t, w: w, lazy: p.LazyOutput}, nil
}

// Emit writes a record. After a failure it only counts; err returns the failure.
func (s *fileSink) Emit(key, value []byte) {
	s.count.Add(counters.OutputRecords, 1)
	s.count.Add(counters.OutputBytes, int64(len(key)+len(value)))
	if s.fail == nil {
		s.fail = s.w.Write(key, value)
	}
}

func (s *fileSink) Add(key []byte, n int64) {
	var v [kv.Int64Len]byte
	kv.PutInt64(v[:], n)
	s.Emit(key, v[:])
}

func (s *fileSink) err() error { return s.fail }

// finish writes all buffered records, so that the commit itself is quick.
func (s *fileSink) finish(context.Context) (kv.Partitioned, error) {
	if s.fail == nil {
		s.fail = s.w.Flush()
	}
	return nil, s.fail
}

// commit asks for permission to commit, then makes the file part of the job's
// output.
func (s *fileSink) commit(ctx context.Context) error {
	if err := s.env.Commit(ctx, s.task.Attempt); err != nil {
		return err
	}
	// After the permission, because an attempt that writes nothing still must be the only one that commits.
	if s.omitted() {
		// The task counts as committed, with a part file that does not exist.
		return s.w.Discard()
	}
	return s.w.Commit()
}

// omitted reports whether the file does not become a part of the output, because it has no records.
func (s *fileSink) omitted() bool { return s.lazy && s.count.Get(counters.OutputRecords) == 0 }

func (s *fileSink) discard() { s.w.Discard() }

func (s *fileSink) addCounters(set *counters.Set) {
	set.AddSet(&s.count)
	if !s.omitted() {
		set.Add(counters.FileBytes, s.w.Bytes())
	}
}
