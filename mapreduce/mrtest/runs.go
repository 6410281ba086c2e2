package mrtest

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/slotwise/slotwise/internal/data/engine"
	"github.com/slotwise/slotwise/internal/data/input"
	"github.com/slotwise/slotwise/internal/data/kv"
	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/sched/job"
)

// Difference is the error of [Run] for a job whose output depends on how it is run.
type Difference struct {
	// How names the difference from the simplest run, and Cause the part of the job that may make it.
	How, Cause string
	// Record is the index of the first record that differs, in the output of reduce Reduce. Want is
	// the simpler run's record and Got the other one's; nil if there is none.
	Reduce, Record int
	Want, Got      *Record
}

// Error describes the difference and its cause.
func (d *Difference) Error() string {
	text := func(r *Record) string {
		if r == nil {
			return "missing"
		}
		return fmt.Sprintf("%.200q", Text([]Record{*r}))
	}
	return fmt.Sprintf("mrtest: %s, record %d of reduce %d is %s instead of %s: %s", d.How, d.Record, d.Reduce, text(d.Got), text(d.Want), d.Cause)
}

// The causes of differences.
const (
	causeReduces  = "the output depends on the number of reduces; keys of one group go to several reduces (Partitioner, SameGroup), or the reducer keeps something from key to key (then set Job.Reduces to 1)"
	causeCut      = "the output depends on how the input is divided among the maps; the mapper keeps something from record to record, or emits in Finish what the reducer does not add up"
	causeCombiner = "the output depends on how often Combiner or Aggregate is applied; it must emit what the mapper could have emitted, and must not change what the reducer makes of the key"
)

// rounds is the number of runs with random cuts that compareRuns makes.
const rounds = 3

// compareRuns compares runs with several reduces, cuts and spills with the plain one.
func compareRuns(plain *plan, out []Record) error {
	if plain.program.NewReducer == nil {
		return plain.compareCuts([][]Record{out}, 1)
	}
	for round := range rounds {
		several := *plain
		if several.reduces = 2 + round; plain.job.Reduces == 1 {
			several.reduces = 1
		}
		uncut, err := several.run()
		if err != nil {
			return fmt.Errorf("with %d reduces: %w", several.reduces, err)
		}
		// The keys of each reduce are in order, but which keys it has is the partitioner's choice.
		// So the outputs as a whole are compared without their order.
		all := [][]Record{sortedRecords(slices.Concat(uncut...))}
		if err := differ([][]Record{sortedRecords(out)}, all, fmt.Sprintf("with %d reduces, sorted,", several.reduces), causeReduces); err != nil {
			return err
		}
		if err := several.compareCuts(uncut, uint64(round)); err != nil {
			return err
		}
		combined := several
		combined.combine, combined.random = true, rand.New(rand.NewPCG(uint64(round), 3))
		// The cuts of compareCuts, which made no difference: one that is found now is the combiner's.
		combined.parts = several.cut(rand.New(rand.NewPCG(uint64(round), 2)))
		got, err := combined.run()
		if err != nil {
			return fmt.Errorf("with spills that Combiner or Aggregate has shrunk: %w", err)
		}
		if err := differ(uncut, got, fmt.Sprintf("with %d maps, spills and Combiner or Aggregate", len(combined.parts)), causeCombiner); err != nil {
			return err
		}
	}
	return nil
}

// compareCuts compares a run whose input is cut at random with the outputs of the uncut one.
func (p *plan) compareCuts(uncut [][]Record, seed uint64) error {
	cut := *p
	cut.parts = p.cut(rand.New(rand.NewPCG(seed, 2)))
	got, err := cut.run()
	if err != nil {
		return fmt.Errorf("with %d maps: %w", len(cut.parts), err)
	}
	return differ(uncut, got, fmt.Sprintf("with %d maps", len(cut.parts)), causeCut)
}

// differ returns an error if the outputs of two runs differ.
func differ(want, got [][]Record, how, cause string) error {
	for i := range want {
		for k := range max(len(want[i]), len(got[i])) {
			d := &Difference{How: how, Cause: cause, Reduce: i, Record: k}
			if k < len(want[i]) {
				d.Want = &want[i][k]
			}
			if k < len(got[i]) {
				d.Got = &got[i][k]
			}
			if d.Want == nil || d.Got == nil || !equal(d.Want.Key, d.Got.Key) || !same(d.Want.Value, d.Got.Value) {
				return d
			}
		}
	}
	return nil
}

// sortedRecords returns a sorted copy.
func sortedRecords(rs []Record) []Record {
	rs = slices.Clone(rs)
	slices.SortStableFunc(rs, func(a, b Record) int {
		if c := bytes.Compare(a.Key, b.Key); c != 0 {
			return c
		}
		return bytes.Compare(a.Value, b.Value)
	})
	return rs
}

// equal reports whether two texts have the same bytes, and both are nil or neither is.
func equal(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

// same reports whether two values are equal, apart from the last digits of floating-point numbers.
func same(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return equal(a, b)
	}
	separates := func(r rune) bool { return bytes.ContainsRune([]byte("\t ,;:()[]{}\"="), r) }
	x, y := bytes.FieldsFunc(a, separates), bytes.FieldsFunc(b, separates)
	return len(x) == len(y) && slices.EqualFunc(x, y, func(a, b []byte) bool {
		if bytes.Equal(a, b) {
			return true
		}
		// Two integers are sums without rounding, so each digit counts. A rounded sum may be an
		// integer in one of the runs.
		if !bytes.ContainsAny(a, ".eE") && !bytes.ContainsAny(b, ".eE") {
			return false
		}
		m, err := strconv.ParseFloat(string(a), 64)
		n, err2 := strconv.ParseFloat(string(b), 64)
		// The tolerance of an infinite number would be infinite, too.
		limit := 1e-12 * max(math.Abs(m), math.Abs(n))
		return err == nil && err2 == nil && !math.IsInf(limit, 0) && math.Abs(m-n) <= limit
	})
}

// plan is a way to run a job.
type plan struct {
	job     *mapreduce.Job
	program *engine.Program
	parts   []part // one for each map
	reduces int
	combine bool       // cut map outputs into spills, and shrink them
	random  *rand.Rand // cuts spills; nil without combine
}

// cut divides the files of a plan at random between records.
func (p *plan) cut(r *rand.Rand) []part {
	if p.job.Synthetic > 0 {
		return p.parts
	}
	var out []part
	for _, part := range p.parts {
		format := p.program.Sources[part.source].Format
		rest := part.content
		for len(rest) > 0 && format.Kind != input.Whole {
			end := 1 + r.IntN(len(rest))
			if format.Kind == input.Fixed {
				// Up to the end of a record: a split never cuts one.
				end = (end + format.RecordLen - 1) / format.RecordLen * format.RecordLen
			} else if i := bytes.IndexByte(rest[end-1:], '\n'); i >= 0 {
				end += i
			} else {
				end = len(rest)
			}
			end = min(end, len(rest))
			piece := part
			piece.content, rest = rest[:end], rest[end:]
			out = append(out, piece)
		}
		// A whole file is one record, and an empty file still has a map.
		if len(part.content) == 0 || format.Kind == input.Whole {
			out = append(out, part)
		}
	}
	return out
}

// run returns the output of each reduce, or of a job without reduces the output of all maps.
func (p *plan) run() ([][]Record, error) {
	var count engine.UserCounters
	task := func(kind job.Kind, i int) *engine.Task {
		t := &engine.Task{Ctx: context.Background(), JobName: p.job.Name, Maps: len(p.parts), Reduces: p.reduces, Counters: &count, Meter: &engine.Meter{}}
		t.Attempt.Kind, t.Attempt.Index = kind, int32(i)
		return t
	}
	shuffled := make([][]Record, p.reduces)
	partition := p.partitioner()
	for i, part := range p.parts {
		t, mapped := task(job.Map, i), &sink{}
		if err := p.mapPart(t, &part, mapped); err != nil {
			return nil, err
		}
		if p.program.NewReducer == nil {
			shuffled[0] = append(shuffled[0], mapped.out...)
			continue
		}
		outputs := make([][]Record, p.reduces)
		for _, r := range mapped.out {
			n := partition(r.Key, p.reduces)
			if n < 0 || n >= p.reduces {
				return nil, fmt.Errorf("the partitioner returned %d for the key %q and %d reduces", n, r.Key, p.reduces)
			}
			// Between map and reduce nil and empty are one.
			outputs[n] = append(outputs[n], Record{append([]byte{}, r.Key...), append([]byte{}, r.Value...)})
		}
		for n, records := range outputs {
			if p.combine {
				var err error
				if records, err = p.spills(t, records); err != nil {
					return nil, err
				}
			}
			shuffled[n] = append(shuffled[n], records...)
		}
	}
	if p.program.NewReducer == nil {
		return shuffled, nil
	}
	out := make([][]Record, p.reduces)
	for n := range out {
		var err error
		if out[n], err = reduceAll(p.program, task(job.Reduce, n), shuffled[n]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// partitioner returns the job's partitioner. The one of a total order divides at random keys.
func (p *plan) partitioner() func(key []byte, n int) int {
	switch {
	case p.reduces == 1:
		return func([]byte, int) int { return 0 }
	case p.job.TotalOrder:
		// The same keys for each run that has as many reduces, since their outputs are compared.
		r := rand.New(rand.NewPCG(uint64(p.reduces), 4))
		cuts := make([][]byte, p.reduces-1)
		for i := range cuts {
			cuts[i] = []byte{byte(32 + r.IntN(96)), byte(r.IntN(256))}
		}
		slices.SortFunc(cuts, bytes.Compare)
		return engine.RangePartition(cuts)
	case p.program.Partition != nil:
		return p.program.Partition
	}
	return engine.HashPartition
}

// mapPart maps what one map reads.
func (p *plan) mapPart(t *engine.Task, in *part, out *sink) error {
	source := &p.program.Sources[in.source]
	m, err := source.NewMapper(t, out)
	if err != nil {
		return err
	}
	switch b, blocks := m.(engine.BlockMapper); {
	case p.job.Synthetic > 0:
		err = m.Map(nil, in.content)
	// An empty file has no records, but is itself one if files are records.
	case len(in.content) == 0 && source.Format.Kind != input.Whole:
	case blocks && source.Format.Kind == input.Text:
		err = b.MapBlock(in.content)
	default:
		err = source.Format.Each(in.content, in.file, m.Map)
	}
	if err != nil {
		return err
	}
	return m.Close()
}

// spills cuts a partition of a map's output into spills, shrinks each, joins some again and
// shrinks the result.
func (p *plan) spills(t *engine.Task, records []Record) ([]Record, error) {
	var out []Record
	for len(records) > 0 {
		n := 1 + p.random.IntN(len(records))
		spill, err := p.shrink(t, records[:n])
		if err != nil {
			return nil, err
		}
		out, records = append(out, spill...), records[n:]
		// What the combiner has emitted goes through it again, as in the engine when spills are merged.
		if p.random.IntN(3) == 0 {
			if out, err = p.shrink(t, out); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// shrink applies the combiner or the fold to records.
func (p *plan) shrink(t *engine.Task, records []Record) ([]Record, error) {
	records = slices.Clone(records)
	slices.SortStableFunc(records, func(a, b Record) int { return bytes.Compare(a.Key, b.Key) })
	if p.program.NewCombiner == nil {
		return p.fold(records), nil
	}
	// The combiner's groups are equal keys: a reducer may group keys that it must keep apart.
	out, err := groupAll(p.program.NewCombiner, bytes.Equal, t, records)
	if err != nil {
		return nil, fmt.Errorf("combiner: %w", err)
	}
	for i := range out {
		out[i] = Record{append([]byte{}, out[i].Key...), append([]byte{}, out[i].Value...)}
		_, known := slices.BinarySearchFunc(records, out[i].Key, func(r Record, key []byte) int { return bytes.Compare(r.Key, key) })
		// The commands of a streaming job may print any keys in any order.
		if !p.program.CombinerUnsorted && (!known || i > 0 && bytes.Compare(out[i-1].Key, out[i].Key) > 0) {
			return nil, fmt.Errorf("the combiner emits the key %q: it must emit each record under the key that it was called with", out[i].Key)
		}
	}
	return out, nil
}

// fold folds the integers of equal keys in sorted records.
func (p *plan) fold(records []Record) []Record {
	var out []Record
	for _, r := range records {
		last := len(out) - 1
		if p.program.Aggregate == engine.NoFold || last < 0 || !bytes.Equal(out[last].Key, r.Key) || len(r.Value) != kv.Int64Len {
			out = append(out, r)
			continue
		}
		a, b := kv.Int64(out[last].Value), kv.Int64(r.Value)
		switch p.program.Aggregate {
		case engine.Sum:
			a += b
		case engine.Min:
			a = min(a, b)
		default:
			a = max(a, b)
		}
		// The old bytes are shared with the records that came in.
		out[last].Value = make([]byte, kv.Int64Len)
		kv.PutInt64(out[last].Value, a)
	}
	return out
}
