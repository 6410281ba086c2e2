package apps

import (
	"bytes"
	"iter"

	"github.com/slotwise/slotwise/mapreduce"
)

// Joins on equal keys. The mappers of both sides mark their records twice: in the
// key, so that the left side comes first, and in the value, for the reducer:
//
//	key ‖ mark  →  mark ‖ value
//
// One reducer gets all records of a key (byKey) as one group (sameKey). All keys of a
// join must have the same length. Otherwise a longer key that continues with a mark
// could be sorted between the two sides of a shorter key. The reducer keeps the left
// values of a key in memory and reads the right ones as a stream, so the left side
// should be the one with fewer records per key.

// The marks, in their order.
const (
	leftSide  = 'L'
	rightSide = 'R'
)

// marker emits the records of one side.
type marker struct {
	side       byte
	key, value []byte
}

func (m *marker) emit(key, value []byte, out *mapreduce.Emitter) {
	m.key = append(append(m.key[:0], key...), m.side)
	m.value = append(append(m.value[:0], m.side), value...)
	out.Emit(m.key, m.value)
}

// tableSide reads a side from a table: row fills r.key and r.value, or returns
// false to leave the row out.
func tableSide(side byte, table string, columns int, row func(r *tableRow) bool) func() mapreduce.Mapper {
	return func() mapreduce.Mapper {
		m := marker{side: side}
		return rowsOf(table, columns, func(r *tableRow, out *mapreduce.Emitter) {
			if row(r) {
				m.emit(r.key, r.value, out)
			}
		})()
	}
}

// recordSide reads a side from records whose key is the join's.
func recordSide(side byte) func() mapreduce.Mapper {
	return func() mapreduce.Mapper {
		m := marker{side: side}
		return mapreduce.MapperFunc(func(key, value []byte, out *mapreduce.Emitter) error {
			m.emit(key, value, out)
			return nil
		})
	}
}

// valueSide reads a side from records whose value is the join's key and whose
// key becomes the value.
func valueSide(side byte) func() mapreduce.Mapper {
	return func() mapreduce.Mapper {
		m := marker{side: side}
		return mapreduce.MapperFunc(func(key, value []byte, out *mapreduce.Emitter) error {
			m.emit(value, key, out)
			return nil
		})
	}
}

// byKey partitions by the key without its mark, by FNV-1a.
func byKey(key []byte, n int) int {
	h := uint64(0xcbf29ce484222325)
	// Not mapreduce.ByFirst: as the first part of a pair, the zero bytes of n8 would be escaped, and a key of
	// a billion rows would have twice its length.
	for _, c := range key[:len(key)-1] {
		h = (h ^ uint64(c)) * 0x100000001b3
	}
	return int((h ^ h>>32) % uint64(n))
}

// sameKey groups by the key without its mark.
func sameKey(a, b []byte) bool { return bytes.Equal(a[:len(a)-1], b[:len(b)-1]) }

// joinJob is the job of a join; what becomes of a group is the reducer's.
func joinJob(name string, left, right mapreduce.Source, reducer func() mapreduce.Reducer) *mapreduce.Job {
	return &mapreduce.Job{
		Name:        name,
		Sources:     []mapreduce.Source{left, right},
		Partitioner: byKey,
		SameGroup:   sameKey,
		Reducer:     reducer,
		Output:      mapreduce.Runs,
	}
}

// matcher emits the result for a left and a right value of one key.
type matcher func(key, left, right []byte, out *mapreduce.Emitter)

// innerJoin makes reducers that call match for each pair.
func innerJoin(match matcher) func() mapreduce.Reducer {
	return func() mapreduce.Reducer {
		var left valueList
		return mapreduce.ReducerFunc(func(key []byte, values iter.Seq[[]byte], out *mapreduce.Emitter) error {
			left.clear()
			key = key[:len(key)-1]
			for v := range values {
				if v[0] == leftSide {
					left.add(v[1:])
					continue
				}
				// The left side comes first, so nothing is left that could match.
				if left.len() == 0 {
					return nil
				}
				for l := range left.all() {
					match(key, l, v[1:], out)
				}
			}
			return nil
		})
	}
}

// antiJoin makes reducers that call emit for each right value of the keys that
// have no left one.
func antiJoin(emit func(key, right []byte, out *mapreduce.Emitter)) func() mapreduce.Reducer {
	return func() mapreduce.Reducer {
		return mapreduce.ReducerFunc(func(key []byte, values iter.Seq[[]byte], out *mapreduce.Emitter) error {
			for v := range values {
				if v[0] == leftSide {
					return nil
				}
				emit(key[:len(key)-1], v[1:], out)
			}
			return nil
		})
	}
}

// valueList is a list of copies in one buffer, used again for each key.
type valueList struct {
	bytes []byte
	ends  []int
}

func (l *valueList) clear() { l.bytes, l.ends = l.bytes[:0], l.ends[:0] }

func (l *valueList) len() int { return len(l.ends) }

func (l *valueList) add(v []byte) {
	l.bytes = append(l.bytes, v...)
	l.ends = append(l.ends, len(l.bytes))
}

func (l *valueList) all() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		start := 0
		for _, end := range l.ends {
			if !yield(l.bytes[start:end]) {
				return
			}
			start = end
		}
	}
}
