// Package mrtest is a reference runner for tests of jobs and of the engine. It
// maps one record after the other, sorts all records in memory with one stable
// sort, and reduces.
package mrtest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/slotwise/slotwise/internal/base/retry"
	"github.com/slotwise/slotwise/internal/data/engine"
	"github.com/slotwise/slotwise/internal/data/input"
	"github.com/slotwise/slotwise/internal/data/kv"
	"github.com/slotwise/slotwise/internal/live/feature"
	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/sched/job"
)

// Record is a key with its value. In a job's output nil differs from empty: text
// files leave out nil.
type Record struct{ Key, Value []byte }

// Run runs the job over files, a map from names to contents, and returns its output
// in the order of a single reduce. It ignores Combiner, Aggregate and Partitioner.
// Each of the job's Sources reads the files whose names are in its Inputs.
func Run(j *mapreduce.Job, files map[string][]byte) (_ []Record, err error) {
	defer func() {
		p := recover()
		// As in the engine: a codec has refused a value.
		if refused, ok := p.(error); ok && errors.Is(refused, retry.ErrPermanent) {
			err = refused
		} else if p != nil {
			panic(p)
		}
	}()
	p, err := feature.CompileJob(context.Background(), j, &mapreduce.Files{})
	if err != nil {
		return nil, err
	}
	var count engine.UserCounters
	task := &engine.Task{Ctx: context.Background(), JobName: j.Name, Maps: 1, Reduces: 1, Counters: &count, Meter: &engine.Meter{}}
	mapped := &sink{}
	if j.Synthetic > 0 {
		task.Maps = j.Synthetic
		for i := range j.Synthetic {
			task.Attempt.Index = int32(i)
			if err := mapOne(p, task, mapped, strconv.AppendInt(nil, int64(i), 10)); err != nil {
				return nil, err
			}
		}
	} else if err := mapAll(j, p, task, mapped, files); err != nil {
		return nil, err
	}
	if p.NewReducer == nil {
		return mapped.out, nil
	}
	task.Attempt.Kind, task.Attempt.Index = job.Reduce, 0
	for i, r := range mapped.out { // between map and reduce nil and empty are one
		mapped.out[i] = Record{append([]byte{}, r.Key...), append([]byte{}, r.Value...)}
	}
	return reduceAll(p, task, mapped.out)
}

// Text returns records as lines of text output.
func Text(rs []Record) string {
	var b strings.Builder
	for _, r := range rs {
		b.Write(r.Key)
		if r.Key != nil && r.Value != nil {
			b.WriteByte('\t')
		}
		b.Write(r.Value)
		b.WriteByte('\n')
	}
	return b.String()
}

func mapOne(p *engine.Program, t *engine.Task, s *sink, value []byte) error {
	m, err := p.Sources[0].NewMapper(t, s)
	if err != nil {
		return err
	}
	if err := m.Map(nil, value); err != nil {
		return err
	}
	return m.Close()
}

func mapAll(j *mapreduce.Job, p *engine.Program, t *engine.Task, s *sink, files map[string][]byte) error {
	for i, src := range p.Sources {
		names := make([]string, 0, len(files))
		for name := range files {
			if wanted(j, i, name) {
				names = append(names, name)
			}
		}
		sort.Strings(names)
		for _, name := range names {
			m, err := src.NewMapper(t, s)
			if err != nil {
				return err
			}
			if err := mapFile(src.Format, m, name, files[name]); err != nil {
				return err
			}
			if err := m.Close(); err != nil {
				return err
			}
		}
	}
	return nil
}

// wanted reports whether source i of the program reads the file.
func wanted(j *mapreduce.Job, i int, name string) bool {
	if len(j.Sources) == 0 {
		return true
	}
	if j.Mapper != nil {
		if i == 0 {
			return !slices.ContainsFunc(j.Sources, func(s mapreduce.Source) bool { return slices.Contains(s.Inputs, name) })
		}
		i--
	}
	return slices.Contains(j.Sources[i].Inputs, name)
}

func mapFile(f input.Format, m engine.Mapper, name string, content []byte) error {
	if len(content) == 0 && f.Kind != input.Whole {
		return nil
	}
	if b, ok := m.(engine.BlockMapper); ok && f.Kind == input.Text {
		return b.MapBlock(content)
	}
	return f.Each(content, name, m.Map)
}

func reduceAll(p *engine.Program, t *engine.Task, in []Record) ([]Record, error) {
	// Stable, so that the values of a key keep the order in which the maps emitted them.
	slices.SortStableFunc(in, func(a, b Record) int { return bytes.Compare(a.Key, b.Key) })
	same := p.SameGroup
	if same == nil {
		same = bytes.Equal
	}
	out := &sink{}
	r, err := p.NewReducer(t, out)
	if err != nil {
		return nil, err
	}
	var current []byte
	t.RecordKey = func() []byte { return current }
	for len(in) > 0 {
		n := 1
		// Each key is compared with the first one of the group, as the engine does.
		for n < len(in) && same(in[0].Key, in[n].Key) {
			n++
		}
		group := in[:n]
		values := func(yield func([]byte) bool) {
			for _, r := range group {
				// A group may have several keys, and the reducer may ask for the key of the value at hand.
				current = r.Key
				if !yield(r.Value) {
					return
				}
			}
		}
		current = group[0].Key
		if err := r.Reduce(group[0].Key, values); err != nil {
			return nil, err
		}
		in = in[n:]
	}
	return out.out, r.Close()
}

// sink collects records.
type sink struct{ out []Record }

// Emit keeps a copy of the record.
func (s *sink) Emit(key, value []byte) {
	s.out = append(s.out, Record{bytes.Clone(key), bytes.Clone(value)})
}

// Add keeps the integer's code.
func (s *sink) Add(key []byte, n int64) {
	var v [kv.Int64Len]byte
	kv.PutInt64(v[:], n)
	s.Emit(key, v[:])
}
