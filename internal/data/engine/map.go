package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strconv"

	"github.com/slotwise/slotwise/internal/base/counters"
	"github.com/slotwise/slotwise/internal/base/retry"
	"github.com/slotwise/slotwise/internal/data/input"
	"github.com/slotwise/slotwise/internal/data/kv"
	"github.com/slotwise/slotwise/internal/data/output"
	"github.com/slotwise/slotwise/internal/data/storage"
)

// readBuffer is the number of input bytes that are read at once. A block of this
// size stays in a core's second-level cache until it has been mapped.
const readBuffer = 256 << 10

// MapTask is one attempt of a map task.
type MapTask struct {
	Program *Program
	Task    *Task
	Source  int // index into Program.Sources
	Split   input.Split
	// Synthetic is set for tasks without input. They map one record, the task's
	// number.
	Synthetic bool
	// Staging receives the output of a map-only job, under the name Part. It is
	// nil for other jobs.
	Staging storage.Staging
	Part    string
	OutCode output.Codec

	env    *Env          // RunMap sets it
	reader *input.Reader // mapSplit sets it
}

// mapSink is a Sink for the records that a map emits. It produces a map output or
// an output file.
type mapSink interface {
	Sink
	// err returns the first error of Emit and Add.
	err() error
	// finish returns the map output, or nil if the records are in a file, which can
	// then be committed.
	finish(ctx context.Context) (kv.Partitioned, error)
	// discard releases all resources. After a successful finish it does nothing.
	discard()
	// addCounters adds the sink's counters to set.
	addCounters(set *counters.Set)
}

// RunMap runs a map attempt. It returns the sorted map output, which the caller must
// release, or nil for a map-only job, whose file it has committed. After an error
// it has removed everything that the attempt wrote. The counters are never nil.
func RunMap(ctx context.Context, env *Env, t *MapTask) (out kv.Partitioned, count *counters.Set, err error) {
	defer func() {
		// A panic of the job's code must not end a process that runs other attempts. Its stack
		// becomes the attempt's error.
		p := recover()
		if p == nil {
			return
		}
		out, err = nil, error(newPanicError(p))
		// A fault in a page of the mapped input is damage of the file. As a panic it would count as a
		// mistake of the program, which fails the job when it repeats.
		if t.reader != nil && t.reader.Fault(p) != nil {
			err = t.reader.Fault(p)
		}
	}()
	count = &counters.Set{}
	t.env = env
	if !t.Synthetic {
		t.Task.Split = &t.Split
	}
	cpu := startCPU()
	// Deferred, because a failed attempt reports its processor time and the bytes that it read, too.
	defer func() { t.Task.addTotals(count, cpu.stop()) }()
	sink, commit, err := newMapSink(env, t)
	if err != nil {
		return nil, count, err
	}
	defer sink.discard()
	src := &t.Program.Sources[t.Source]
	mapper, err := src.NewMapper(t.Task, sink)
	if err != nil {
		return nil, count, err
	}
	if t.Synthetic {
		err = mapper.Map(nil, strconv.AppendInt(nil, int64(t.Task.Attempt.Index), 10))
	} else {
		err = mapSplit(ctx, env, t, src.Format, mapper, sink, count)
	}
	// Close comes also after an error, because it ends what the mapper has opened. The first error
	// says more.
	if cerr := mapper.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		// Sink has no errors to return to the mapper, so the first failed write is only known here.
		// finish would sort records of an attempt that has failed already.
		err = sink.err()
	}
	if err != nil {
		return nil, count, err
	}
	out, err = sink.finish(ctx)
	sink.addCounters(count)
	// Only after finish: no attempt may hold the permission to commit while its records can still
	// fail to be written.
	if err == nil && commit != nil {
		err = commit(ctx)
	}
	if err != nil {
		if out != nil {
			out.Release()
		}
		return nil, count, err
	}
	return out, count, nil
}

// newMapSink returns the sink for the program's kind of job. commit is nil unless
// the records go to an output file.
func newMapSink(env *Env, t *MapTask) (s mapSink, commit func(context.Context) error, err error) {
	p := t.Program
	switch {
	case p.NewReducer == nil:
		f, err := newFileSink(env, t.Staging, t.Part, p, t.OutCode, t.Task)
		if err != nil {
			return nil, nil, err
		}
		return f, f.commit, nil
	case p.Aggregate != NoFold:
		s, err = newFoldSink(env, t)
	default:
		s, err = newSortSink(env, t)
	}
	return s, nil, err
}

// mapSplit feeds every record of the split to the mapper.
func mapSplit(ctx context.Context, env *Env, t *MapTask, f input.Format, mapper Mapper, sink mapSink, count *counters.Set) error {
	meter := t.Task.Meter
	// A total of 0 means unknown (Fraction). An empty split would report no progress at its end.
	meter.Total.Store(max(1, t.Split.Bytes))
	r, err := input.Open(ctx, env.Schemes, t.Split, f, readBuffer)
	if err != nil {
		return err
	}
	defer r.Close()
	t.reader = r
	if _, ok := mapper.(BlockMapper); ok {
		r.MapFiles()
		// A file that is cut off while it is mapped must fail this attempt and not end the process.
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	}
	step := func() error {
		n := r.BytesRead()
		meter.BytesRead.Store(n)
		meter.Done.Store(n)
		if err := sink.err(); err != nil {
			return err
		}
		// The cause says who ended the attempt: a kill or a time-out, for example. Err would only say
		// that it was cancelled.
		return context.Cause(ctx)
	}
	switch f.Kind {
	case input.Runs:
		err = mapStream(r, mapper, step, t.Task, count)
	default:
		err = mapBlocks(r, f, mapper, step, t.Task, count)
	}
	// After an error, too: the reader may have returned records before it.
	count.Add(counters.InputBytes, r.BytesRead())
	if read, excluded := r.Groups(); read+excluded > 0 {
		count.AddUser(counters.RowGroups, read)
		count.AddUser(counters.RowGroupsSkipped, excluded)
	}
	if bad := r.Bad(); bad > 0 {
		count.AddUser(counters.BadSkipped, bad)
	}
	return err
}

// mapBlocks maps a source of blocks: lines, records of a fixed length, or rows. A mapper that takes
// whole blocks of lines gets them undivided.
func mapBlocks(r *input.Reader, f input.Format, mapper Mapper, step func() error, t *Task, count *counters.Set) error {
	blocks, _ := mapper.(BlockMapper)
	// Only a text block is its lines. The other formats have records to decode, which f.Each does.
	if f.Kind != input.Text {
		blocks = nil
	}
	record := func(k, v []byte) error {
		count.Add(counters.InputRecords, 1)
		// The tick says that the map is alive although no block has ended: a record may take
		// seconds.
		if count.Get(counters.InputRecords)%stepRecords == 0 {
			t.Meter.Ticks.Add(1)
			if err := step(); err != nil {
				return err
			}
		}
		return mapper.Map(k, v)
	}
	file := ""
	t.BlockLines = -1
	for {
		block, err := r.NextBlock()
		if errors.Is(err, io.EOF) {
			// The last step reports the whole split as read, and returns an error of the sink that
			// a flush has found since.
			return step()
		}
		if err != nil {
			return err
		}
		// Without this a map whose conditions drop all records would report no progress, and not stop.
		if block == nil {
			t.Meter.Ticks.Add(1)
			if err := step(); err != nil {
				return err
			}
			continue
		}
		// A split may consist of several files, and a block never crosses from one to the next.
		if name := r.File(); name != file {
			file = name
			t.setInputFile(name)
		}
		if blocks != nil {
			// Counting reads all bytes once more. It comes first, because a mapper may change them, and is
			// left out after a block that the mapper has counted.
			lines := int64(-1)
			if t.BlockLines < 0 {
				lines = input.CountLines(block)
			}
			t.BlockOffset, t.BlockLines = r.Offset(), -1
			err = blocks.MapBlock(block)
			// A mapper that counted the block before and not this one: without a count the block would
			// add -1 records.
			if lines < 0 && t.BlockLines < 0 {
				lines = input.CountLines(block)
			}
			count.Add(counters.InputRecords, max(lines, t.BlockLines))
		} else {
			err = f.Each(block, file, record)
		}
		if err == nil {
			err = step()
		}
		if err != nil {
			return err
		}
	}
}

// stepRecords is the number of records after which a map reports that it is alive
// and checks its context. It is small because one record may take seconds, such as
// a page to fetch.
const stepRecords = 16

// mapStream maps a source of run files: the output of an earlier step of a chain, whose records
// have keys and values already.
func mapStream(r *input.Reader, mapper Mapper, step func() error, t *Task, count *counters.Set) error {
	s := r.Records()
	for s.Next() {
		// Before the record, so that the first one sets the input file that the job's code may ask for.
		if count.Get(counters.InputRecords)%stepRecords == 0 {
			t.Meter.Ticks.Add(1)
			t.setInputFile(r.File())
			if err := step(); err != nil {
				return err
			}
		}
		count.Add(counters.InputRecords, 1)
		if err := mapper.Map(s.Key(), s.Value()); err != nil {
			return err
		}
	}
	if err := s.Err(); err != nil {
		return err
	}
	return step()
}

// panicError is a panic in the job's code.
type panicError struct {
	value any
	stack string
}

// newPanicError returns the error for a panic, with the stack of the job's code.
// A panic with a permanent error is no mistake of the program: a codec, whose functions return no
// errors, refuses a value. That error is the attempt's, without a stack.
func newPanicError(value any) error {
	if err, ok := value.(error); ok && errors.Is(err, retry.ErrPermanent) {
		return &UserError{err}
	}
	return &panicError{value: value, stack: userStack()}
}

// Error describes the panic and its stack.
func (e *panicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.value, e.stack) }

// Unwrap returns the value of the panic if it is an error.
func (e *panicError) Unwrap() error {
	err, _ := e.value.(error)
	return err
}

// ProgramFailed reports true, for CauseOf.
func (*panicError) ProgramFailed() bool { return true }
