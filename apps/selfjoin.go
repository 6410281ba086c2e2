package apps

import (
	"bytes"
	"iter"

	"github.com/slotwise/slotwise/mapreduce"
)

// selfJoin makes the candidates of k+1 fields out of associations of k fields,
// the join step of Apriori, as Self-Join of the PUMA suite does: two lines that
// differ in the last field alone are joined.
//
//	input   lines of fields with commas, sorted within the line: a,b,c
//	output  a,b,c,d for each two lines a,b,c and a,b,d with c before d; each once
//
// The last fields of one prefix are held in memory together.
var selfJoin = &mapreduce.App{
	Name:    "selfjoin",
	Summary: "joins lines of k fields that differ in the last into ones of k+1",
	Reads:   "lines of fields with commas",
	Writes:  "lines of one field more",
	Job: func(mapreduce.Params) (*mapreduce.Job, error) {
		return &mapreduce.Job{
			Name:        "selfjoin",
			Mapper:      func() mapreduce.Mapper { return &prefixer{} },
			Aggregate:   mapreduce.Max,
			Partitioner: mapreduce.ByFirst,
			Reducer:     newJoiner,
		}, nil
	},
}

// prefixer splits a line before its last field. The prefix keeps its comma, so
// that no fields and one empty field differ.
type prefixer struct{ key []byte }

// Map takes a line; an empty one has no field and is skipped.
func (p *prefixer) Map(_, line []byte, out *mapreduce.Emitter) error {
	if len(line) == 0 {
		return nil
	}
	// Without a comma the prefix is empty, and the single fields are joined to pairs, Apriori's first step.
	last := bytes.LastIndexByte(line, ',') + 1
	p.key = mapreduce.AppendPair(p.key[:0], line[:last], line[last:])
	out.Add(p.key, 1)
	return nil
}

// newJoiner makes the reducer that pairs the last fields of a prefix. They come
// sorted, so each pair is made once and in order.
func newJoiner() mapreduce.Reducer {
	var fields [][]byte
	var line []byte
	return &lists{
		item: func(last []byte, _ iter.Seq[[]byte]) { fields = append(fields, bytes.Clone(last)) },
		end: func(prefix []byte, out *mapreduce.Emitter) {
			for i, a := range fields {
				line = append(append(append(line[:0], prefix...), a...), ',')
				both := len(line)
				for _, b := range fields[i+1:] {
					line = append(line[:both], b...)
					out.Emit(line, nil)
				}
			}
			fields = fields[:0]
		},
	}
}
