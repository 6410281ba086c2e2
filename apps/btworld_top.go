package apps

import (
	"bytes"
	"fmt"
	"iter"
	"slices"

	"github.com/slotwise/slotwise/mapreduce"
)

// topList keeps the records with the limit least keys, in order. Adding one
// costs a search among them, and nothing more for most records of a long list.
type topList struct {
	limit   int
	entries []topEntry
}

type topEntry struct{ key, value []byte }

// add copies a record if it is among the least so far.
func (l *topList) add(key, value []byte) {
	at, _ := slices.BinarySearchFunc(l.entries, key, func(e topEntry, key []byte) int { return bytes.Compare(e.key, key) })
	// All that are kept are less.
	if at == l.limit {
		return
	}
	if len(l.entries) == l.limit {
		l.entries = l.entries[:l.limit-1]
	}
	l.entries = slices.Insert(l.entries, at, topEntry{bytes.Clone(key), bytes.Clone(value)})
}

// topMapper emits the limit records of a task whose ranks are least.
type topMapper struct {
	list topList
	rank func(key, value []byte, r *room)
	room room
}

// Map considers a record.
func (m *topMapper) Map(key, value []byte, _ *mapreduce.Emitter) error {
	m.rank(key, value, &m.room)
	m.list.add(m.room.key, m.room.value)
	return nil
}

// Finish emits the records of the list.
func (m *topMapper) Finish(out *mapreduce.Emitter) error {
	for _, e := range m.list.entries {
		out.Emit(e.key, e.value)
	}
	return nil
}

// btTopHashes ranks swarms by the most peers that they had at once.
func btTopHashes(p mapreduce.Params) (*mapreduce.Job, error) {
	top, err := p.Int("top", 1)
	if err != nil {
		return nil, err
	}
	return &mapreduce.Job{
		Name:  "btworld tophashes",
		Input: mapreduce.Runs,
		Mapper: func() mapreduce.Mapper {
			return &topMapper{list: topList{limit: int(top)}, rank: func(hash, life []byte, r *room) {
				// The negated number sorts the most peers first; the hash breaks ties, so that each run lists
				// the same swarms.
				r.key = append(mapreduce.AppendInt64(r.key[:0], -number(life, 0)), hash...)
				r.value = append(r.value[:0], life...)
			}}
		},
		Partitioner: oneReduce,
		Reducer: func() mapreduce.Reducer {
			rank := int64(0)
			return mapreduce.ReducerFunc(func(key []byte, values iter.Seq[[]byte], out *mapreduce.Emitter) error {
				for v := range values {
					// Each map has sent its own best ones, so there are more than the job wants.
					if rank == top {
						return nil
					}
					rank++
					var l swarmLife
					trackers := int64(len(l.decode(v)))
					out.Emit(sectionKey(sectionHashes, rank), tabbed(decimal(rank), string(key[8:]), decimal(l.peak),
						hourText(l.peakHour), decimal(l.hours), decimal(l.downloads), decimal(trackers)))
				}
				return nil
			})
		},
		Reduces: 1,
		Output:  mapreduce.Runs,
	}, nil
}

// btOverlap counts the swarms of each tracker and of each pair of trackers. A
// swarm on n trackers makes n(n+1)/2 pairs, which are folded in the maps.
func btOverlap(mapreduce.Params) (*mapreduce.Job, error) {
	return &mapreduce.Job{
		Name:  "btworld overlap",
		Input: mapreduce.Runs,
		Mapper: records(func(_, value []byte, r *room, out *mapreduce.Emitter) {
			var l swarmLife
			trackers := l.decode(value)
			for i, a := range trackers {
				// From i on: a tracker with itself counts its swarms, and no pair is counted twice, because
				// the names are sorted.
				for _, b := range trackers[i:] {
					r.key = append(append(append(r.key[:0], a...), 0), b...)
					out.Add(r.key, 1)
				}
			}
		}),
		Aggregate: mapreduce.Sum,
		Reducer:   sumReducer(keepAll),
		Output:    mapreduce.Runs,
	}, nil
}

// btTopOverlap ranks the pairs of trackers by the swarms they share. One
// reduce gets all pairs: first, marked by a zero, the trackers themselves,
// whose sizes it keeps.
func btTopOverlap(p mapreduce.Params) (*mapreduce.Job, error) {
	top, err := p.Int("top", 1)
	if err != nil {
		return nil, err
	}
	return &mapreduce.Job{
		Name:  "btworld topoverlap",
		Input: mapreduce.Runs,
		Mapper: records(func(pair, shared []byte, r *room, out *mapreduce.Emitter) {
			mark := byte(1)
			if a, b := name(pair); bytes.Equal(a, b) {
				mark = 0
			}
			r.key = append(append(r.key[:0], mark), pair...)
			out.Emit(r.key, shared)
		}),
		Partitioner: oneReduce,
		Reducer: func() mapreduce.Reducer {
			return &overlapReducer{sizes: map[string]int64{}, list: topList{limit: int(top)}}
		},
		Reduces: 1,
		Output:  mapreduce.Runs,
	}, nil
}

type overlapReducer struct {
	sizes map[string]int64
	list  topList
}

// Reduce takes a tracker's size or considers a pair.
func (r *overlapReducer) Reduce(key []byte, values iter.Seq[[]byte], _ *mapreduce.Emitter) error {
	a, b := name(key[1:])
	for v := range values {
		shared := number(v, 0)
		if key[0] == 0 {
			r.sizes[string(a)] = shared
			continue
		}
		// |A ∪ B| = |A| + |B| - |A ∩ B|. Both sizes are known: their keys have the smaller mark.
		either := r.sizes[string(a)] + r.sizes[string(b)] - shared
		rank := append(mapreduce.AppendInt64(nil, -shared), key[1:]...)
		r.list.add(rank, appendNumbers(nil, shared, either))
	}
	return nil
}

// Finish writes the best pairs.
func (r *overlapReducer) Finish(out *mapreduce.Emitter) error {
	for i, e := range r.list.entries {
		rank := int64(i + 1)
		a, b := name(e.key[8:])
		shared, either := number(e.value, 0), number(e.value, 1)
		out.Emit(sectionKey(sectionOverlap, rank), tabbed(decimal(rank), string(a), string(b), decimal(shared), share(shared, either)))
	}
	return nil
}

// share is a part of a whole in per cent with one decimal, rounded half up.
func share(part, whole int64) string {
	permille := (2000*part + whole) / (2 * whole)
	return fmt.Sprintf("%d.%d%%", permille/10, permille%10)
}
