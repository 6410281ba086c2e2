package apps

import (
	"iter"

	"github.com/slotwise/slotwise/mapreduce"
)

// adjacencyList lists, for each node of a directed graph, the nodes with an edge to it
// and the nodes that its own edges lead to. It is Adjacency-List of the PUMA suite,
// the first step of a page ranking.
//
//	input   an edge on each line: from and to, with white space or a comma
//	        between; other lines are counted and skipped
//	output  node TAB from,from,…:to,to,… each list sorted and without duplicates
var adjacencyList = &mapreduce.App{
	Name:    "adjacencylist",
	Summary: "lists the neighbours of each node of a directed graph",
	Reads:   "edges: from, to",
	Writes:  "node TAB from,…:to,…",
	Job: func(mapreduce.Params) (*mapreduce.Job, error) {
		return &mapreduce.Job{
			Name:        "adjacencylist",
			Mapper:      func() mapreduce.Mapper { return &edges{} },
			Aggregate:   mapreduce.Max,
			Partitioner: mapreduce.ByFirst,
			Reducer:     newNeighbours,
		}, nil
	},
}

// The direction of a neighbour; incoming edges are listed first.
const (
	incoming = 'a'
	outgoing = 'b'
)

// edges emits both ends of each edge.
type edges struct {
	key, neighbour []byte
	malformed      int64
}

// Map takes an edge.
func (e *edges) Map(_, line []byte, out *mapreduce.Emitter) error {
	var ends [2][]byte
	n, start := 0, 0
	// One step beyond the end, to end the last word like any other.
	for i := 0; i <= len(line); i++ {
		if i < len(line) && line[i] != ',' && !isSpace[line[i]] {
			continue
		}
		if i > start {
			// A third word is only counted: the line is malformed, whatever it says.
			if n < 2 {
				ends[n] = line[start:i]
			}
			n++
		}
		start = i + 1
	}
	if n != 2 {
		e.malformed++
		return nil
	}
	e.emit(ends[0], outgoing, ends[1], out)
	e.emit(ends[1], incoming, ends[0], out)
	return nil
}

func (e *edges) emit(node []byte, direction byte, neighbour []byte, out *mapreduce.Emitter) {
	e.neighbour = append(append(e.neighbour[:0], direction), neighbour...)
	e.key = mapreduce.AppendPair(e.key[:0], node, e.neighbour)
	out.Add(e.key, 1)
}

// Finish counts the lines that were not edges.
func (e *edges) Finish(out *mapreduce.Emitter) error {
	return countMalformed(out, e.malformed)
}

// newNeighbours makes the reducer that writes both lists of a node.
func newNeighbours() mapreduce.Reducer {
	var from, to []byte
	return &lists{
		item: func(n []byte, _ iter.Seq[[]byte]) {
			if n[0] == incoming {
				from = appendItem(from, n[1:])
			} else {
				to = appendItem(to, n[1:])
			}
		},
		end: func(node []byte, out *mapreduce.Emitter) {
			from = append(append(from, ':'), to...)
			out.Emit(node, from)
			from, to = from[:0], to[:0]
		},
	}
}
