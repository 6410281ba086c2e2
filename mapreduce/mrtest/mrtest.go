// Package mrtest runs jobs on small inputs in memory, for tests of jobs and of the engine. [Run]
// returns the output of the simplest run there is, and fails if runs as a cluster makes them give
// another output:
//
//	out, err := mrtest.Run(job, map[string][]byte{"in.txt": []byte("a b a\n")})
//	if err != nil || mrtest.Text(out) != "a\t2\nb\t1\n" {
//		t.Errorf("%v, %s", err, mrtest.Text(out))
//	}
package mrtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/slotwise/slotwise/internal/base/retry"
	"github.com/slotwise/slotwise/internal/data/engine"
	"github.com/slotwise/slotwise/internal/data/input"
	"github.com/slotwise/slotwise/internal/data/kv"
	"github.com/slotwise/slotwise/internal/live/feature"
	"github.com/slotwise/slotwise/mapreduce"
)

// Record is a key with its value. In a job's output nil differs from empty: text
// files leave out nil.
type Record struct{ Key, Value []byte }

// Run runs the job over files, a map from names to contents, and returns its output in the order
// of a single reduce. Each of the job's Sources reads the files whose names are in its Inputs, and
// the file with its own Name. The contents are lines as mappers get them: the formats of
// [mapreduce.Rows] are not applied, so a row's fields have TABs between them, in their order.
//
// One reduce makes the output. It sorts all records and uses no Combiner, no Aggregate
// and no Partitioner. Then Run makes runs as a cluster does: the input is cut at random between
// records, each part has another mapper, several reduces divide the keys, and map outputs are
// cut at random into spills, which Combiner or Aggregate shrink any number of times. If the
// output of one differs, Run returns the error [*Difference], which names the part of the job at
// fault: a combiner that may not be called twice, a mapper that remembers earlier records, or keys
// of a group that go to several reduces. The cuts are the same in each call.
//
// A job with [mapreduce.Job].Reduces = 1 has one reduce in these runs, too. Two numbers in
// fields of a value, of which one has a point or an exponent, may differ by a millionth of a millionth,
// since sums of floating-point numbers depend on their order. Integers and keys may not differ.
//
// Run takes about ten times as long as [Plain], so the input is kilobytes, not megabytes.
func Run(j *mapreduce.Job, files map[string][]byte) ([]Record, error) {
	return run(j, files, compareRuns)
}

// Plain is [Run] without the comparisons: it makes the simplest run alone. It is the reference for
// tests of the engine, and for inputs of megabytes.
func Plain(j *mapreduce.Job, files map[string][]byte) ([]Record, error) {
	return run(j, files, func(*plan, []Record) error { return nil })
}

// run makes the simplest run and calls compare with its output.
func run(j *mapreduce.Job, files map[string][]byte, compare func(*plan, []Record) error) (_ []Record, err error) {
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
	parts, err := inputs(j, p, files)
	if err != nil {
		return nil, err
	}
	plain := &plan{job: j, program: p, parts: parts, reduces: 1}
	out, err := plain.run()
	if err != nil {
		return nil, err
	}
	return out[0], compare(plain, out[0])
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

// part is the input of one map.
type part struct {
	source  int
	file    string
	content []byte
}

// inputs returns the files of each source, in the order of their names, or the numbers of a
// synthetic job's maps.
func inputs(j *mapreduce.Job, p *engine.Program, files map[string][]byte) ([]part, error) {
	var out []part
	for i := range j.Synthetic {
		out = append(out, part{content: strconv.AppendInt(nil, int64(i), 10)})
	}
	read := map[string]bool{}
	for i := range p.Sources {
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if j.Synthetic == 0 && wanted(j, i, name) {
				out = append(out, part{i, name, files[name]})
				read[name] = true
			}
		}
		if p.Sources[i].Format.Kind == input.Runs {
			return nil, errors.New("mrtest: the job reads Runs, which another job writes: give the test's job another Input")
		}
	}
	// Without the error a misspelt name would be an empty input, and a test of the output would mislead.
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if j.Synthetic == 0 && !read[name] {
			return nil, fmt.Errorf("mrtest: no source of the job reads the file %q: call it as a source's Name, or as one of its Inputs", name)
		}
	}
	return out, nil
}

// wanted reports whether source i of the program reads the file.
func wanted(j *mapreduce.Job, i int, name string) bool {
	if len(j.Sources) == 0 {
		return true
	}
	if j.Mapper != nil {
		if i == 0 {
			return !slices.ContainsFunc(j.Sources, func(s mapreduce.Source) bool { return reads(s, name) })
		}
		i--
	}
	return reads(j.Sources[i], name)
}

// reads reports whether a source reads the file: a source without a name has no file called "".
func reads(s mapreduce.Source, name string) bool {
	return slices.Contains(s.Inputs, name) || s.Name != "" && s.Name == name
}

// reduceAll reduces the records of one reduce.
func reduceAll(p *engine.Program, t *engine.Task, in []Record) ([]Record, error) {
	// Stable, so that the values of a key keep the order in which the maps emitted them.
	slices.SortStableFunc(in, func(a, b Record) int { return bytes.Compare(a.Key, b.Key) })
	same := p.SameGroup
	if same == nil {
		same = bytes.Equal
	}
	return groupAll(p.NewReducer, same, t, in)
}

// groupAll calls a new reducer for each group of sorted records.
func groupAll(newReducer func(*engine.Task, engine.Sink) (engine.Reducer, error), same func(a, b []byte) bool, t *engine.Task, in []Record) ([]Record, error) {
	out := &sink{}
	r, err := newReducer(t, out)
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
