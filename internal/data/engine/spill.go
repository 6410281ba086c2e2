package engine

import (
	"fmt"

	"github.com/slotwise/slotwise/internal/base/counters"
	"github.com/slotwise/slotwise/internal/base/retry"
	"github.com/slotwise/slotwise/internal/data/engine/runfile"
	"github.com/slotwise/slotwise/internal/data/kv"
	"github.com/slotwise/slotwise/internal/data/storage"
)

// spiller is the common part of sortSink and foldSink. It writes full buffers to
// disk as sorted runs and decides whether the last buffer stays in memory.
type spiller struct {
	env   *Env
	task  *MapTask
	parts int
	part  func(key []byte, n int) int
	runs  []*spillRun
	fail  error
	count counters.Set
}

// newSpiller returns a spiller that partitions by the job's Partitioner, or by the hash of the key.
func newSpiller(env *Env, t *MapTask) spiller {
	part := t.Program.Partition
	if part == nil {
		part = HashPartition
	}
	return spiller{env: env, task: t, parts: max(1, t.Task.Reduces), part: part}
}

func (s *spiller) err() error { return s.fail }

func (s *spiller) addCounters(set *counters.Set) { set.AddSet(&s.count) }

// partition returns the partition of a key. A partitioner that returns a number out
// of range fails the attempt.
func (s *spiller) partition(key []byte) int {
	// 0 is the only possible partition, so the hash would be work without a result.
	if s.parts == 1 {
		return 0
	}
	p := s.part(key, s.parts)
	// Permanent: the partitioner is a function of the key, so another attempt would fail on the
	// same record.
	if uint(p) >= uint(s.parts) {
		s.fail = retry.Permanent(fmt.Errorf("the job's Partitioner returned %d, but there are only %d reduces (0 to n-1)", p, s.parts))
		// A valid partition, because the caller indexes its tables with the result. The attempt ends by
		// s.fail.
		return 0
	}
	return p
}

// spillRun is a run file in scratch space.
type spillRun struct {
	*runfile.File
	f storage.ScratchFile
}

// Release closes and removes the file.
func (r *spillRun) Release() {
	r.File.Release()
	r.f.Close()
}

// write writes a sorted buffer to a new run file, through the combiner if there is
// one, and adds it to the runs.
func (s *spiller) write(b kv.Partitioned) error {
	t := s.task
	// The number makes the names of one attempt's runs differ; attempts of other processes have their
	// own scratch directory.
	f, err := s.env.Scratch.Create(fmt.Sprintf("%s-spill%d", t.Task.Attempt, len(s.runs)))
	if err != nil {
		return err
	}
	run, err := s.writeTo(f, b)
	if err != nil {
		f.Close()
		return err
	}
	s.runs = append(s.runs, run)
	s.count.Add(counters.Spills, 1)
	return nil
}

// writeTo writes the partitions of a sorted buffer to f and opens the run. On success the run owns
// f.
func (s *spiller) writeTo(f storage.ScratchFile, b kv.Partitioned) (*spillRun, error) {
	w := runfile.NewWriter(f, runfile.Options{Partitions: s.parts, Codec: s.env.Codec})
	for p := range s.parts {
		// Without it a combiner would be made, and closed, for each empty partition.
		if n, _ := b.Size(p); n == 0 {
			continue
		}
		st, err := b.Partition(p)
		if err != nil {
			return nil, err
		}
		n, err := combine(s.task.Program, s.task, st, func(k, v []byte) error { return w.Append(p, k, v) })
		s.count.Add(counters.SpilledRecords, n)
		if cerr := st.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return nil, err
		}
	}
	if err := w.Finish(); err != nil {
		return nil, err
	}
	s.count.Add(counters.SpilledBytes, w.Size())
	file, err := runfile.Open(f, w.Size(), s.task.Task.Attempt.String())
	if err != nil {
		return nil, err
	}
	return &spillRun{file, f}, nil
}

// mapOutput returns the map output: the runs and the sorted last buffer, which
// stays in memory if the budget has room for footprint bytes. footprint is the
// memory that the buffer occupies, not the size of its records. Otherwise many
// small outputs would occupy the memory that later maps need for their buffers.
func (s *spiller) mapOutput(b kv.Partitioned, footprint int64) (kv.Partitioned, error) {
	// With a combiner the last buffer is written as well: only writing runs the combiner, and
	// reduces would fetch all records otherwise.
	if s.task.Program.NewCombiner == nil && s.env.Resident.TryGrow(footprint) {
		last := &resident{Partitioned: b, release: func() { s.env.Resident.Shrink(footprint) }}
		return newMultiRun(s.takeRuns(), last), nil
	}
	if err := s.write(b); err != nil {
		return nil, err
	}
	// The run has all records now. Its memory goes back to the budget before the reduces fetch.
	b.Release()
	return newMultiRun(s.takeRuns(), nil), nil
}

// takeRuns passes the ownership of the runs to the caller, so discard leaves them alone.
func (s *spiller) takeRuns() []kv.Partitioned {
	out := make([]kv.Partitioned, len(s.runs))
	for i, r := range s.runs {
		out[i] = r
	}
	s.runs = nil
	return out
}

// discard removes the runs.
func (s *spiller) discard() {
	for _, r := range s.runs {
		r.Release()
	}
	s.runs = nil
}
