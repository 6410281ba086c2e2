package apps

import (
	"bytes"
	"iter"
	"slices"
	"strings"

	"github.com/slotwise/slotwise/mapreduce"
)

// btSamples leaves one sample for each swarm, tracker and hour. Time comes
// first in the values, so the last sample is the greatest value, and the same
// function serves as combiner.
func btSamples(mapreduce.Params) (*mapreduce.Job, error) {
	return &mapreduce.Job{
		Name: "btworld samples",
		Mapper: logsOf(func(r *tableRow, out *mapreduce.Emitter) {
			second := r.integer(0)
			// The hash comes first so that btSwarms, which reads this output, needs no other sort order.
			r.key = append(append(r.key[:0], r.plain(2)...), 0)
			r.key = append(mapreduce.AppendInt64(r.key, second/3600), r.plain(1)...)
			r.value = appendNumbers(r.value[:0], second, r.integer(3), r.integer(4), r.integer(5))
			out.Emit(r.key, r.value)
		}, nil),
		Combiner: greatest(func(key, value []byte, out *mapreduce.Emitter) { out.Emit(key, value) }),
		Reducer: greatest(func(key, value []byte, out *mapreduce.Emitter) {
			// Only here: a map does not know whether another one has a later sample of the hour.
			if number(value, 1)+number(value, 2) > 0 {
				out.Emit(key, value[8:])
			}
		}),
		Output: mapreduce.Runs,
	}, nil
}

// greatest makes reducers that emit the greatest value of each key.
func greatest(emit func(key, value []byte, out *mapreduce.Emitter)) func() mapreduce.Reducer {
	return func() mapreduce.Reducer {
		var best []byte
		return mapreduce.ReducerFunc(func(key []byte, values iter.Seq[[]byte], out *mapreduce.Emitter) error {
			best = best[:0]
			for v := range values {
				// The code of a number sorts as the number does, so seconds decide; of one second the most
				// seeders do.
				if bytes.Compare(v, best) > 0 {
					best = append(best[:0], v...)
				}
			}
			emit(key, best, out)
			return nil
		})
	}
}

// sumJob adds up, for each key, values that are n numbers each; mapper makes
// the records.
func sumJob(name string, n int, mapper func() mapreduce.Mapper) *mapreduce.Job {
	same := sums(n, func(key []byte, sum []int64, out *mapreduce.Emitter) {
		out.Emit(key, appendNumbers(nil, sum...))
	})
	return &mapreduce.Job{
		Name:     name,
		Input:    mapreduce.Runs,
		Mapper:   mapper,
		Combiner: same,
		Reducer:  same,
		Output:   mapreduce.Runs,
	}
}

// sums makes reducers that add up values of n numbers each.
func sums(n int, emit func(key []byte, sum []int64, out *mapreduce.Emitter)) func() mapreduce.Reducer {
	return func() mapreduce.Reducer {
		sum := make([]int64, n)
		return mapreduce.ReducerFunc(func(key []byte, values iter.Seq[[]byte], out *mapreduce.Emitter) error {
			clear(sum)
			for v := range values {
				for i := range sum {
					sum[i] += number(v, i)
				}
			}
			emit(key, sum, out)
			return nil
		})
	}
}

// records makes mappers of a function with room for a key and a value.
func records(f func(key, value []byte, r *room, out *mapreduce.Emitter)) func() mapreduce.Mapper {
	return func() mapreduce.Mapper {
		var r room
		return mapreduce.MapperFunc(func(key, value []byte, out *mapreduce.Emitter) error {
			f(key, value, &r, out)
			return nil
		})
	}
}

// room has the buffers in which each record is made.
// The engine copies emitted records, so one pair of buffers serves all records of a task.
type room struct{ key, value []byte }

// btHours counts the active swarms and peers of each tracker and hour.
func btHours(mapreduce.Params) (*mapreduce.Job, error) {
	return sumJob("btworld hours", 3, records(func(key, value []byte, r *room, out *mapreduce.Emitter) {
		_, rest := name(key)
		r.key = append(append(r.key[:0], rest[8:]...), 0)
		r.key = append(r.key, rest[:8]...)
		r.value = append(mapreduce.AppendInt64(r.value[:0], 1), value[:16]...)
		out.Emit(r.key, r.value)
	})), nil
}

// btTotals adds up all trackers.
func btTotals(mapreduce.Params) (*mapreduce.Job, error) {
	return sumJob("btworld totals", 3, records(func(key, value []byte, _ *room, out *mapreduce.Emitter) {
		_, hour := name(key)
		out.Emit(hour, value)
	})), nil
}

// swarmLife summarizes the samples of one infohash on all its trackers.
type swarmLife struct {
	peak, peakHour int64 // the most peers of all trackers in one hour, and the first such hour
	first, last    int64 // hours with peers
	hours          int64 // number of hours with peers
	downloads      int64 // between the first and the last sample of each tracker
	trackers       []trackerLife
}

type trackerLife struct {
	name        string
	first, last int64 // downloads
}

// btSwarms follows each swarm through time: sorted by infohash and hour,
// grouped by infohash.
func btSwarms(mapreduce.Params) (*mapreduce.Job, error) {
	return &mapreduce.Job{
		Name:  "btworld swarms",
		Input: mapreduce.Runs,
		Mapper: records(func(key, value []byte, r *room, out *mapreduce.Emitter) {
			_, rest := name(key)
			r.value = append(append(r.value[:0], value...), rest...)
			out.Emit(key, r.value)
		}),
		Partitioner: byName,
		SameGroup:   sameName,
		Reducer: func() mapreduce.Reducer {
			var life swarmLife
			return mapreduce.ReducerFunc(func(key []byte, values iter.Seq[[]byte], out *mapreduce.Emitter) error {
				hash, _ := name(key)
				hash = bytes.Clone(hash) // the walk over the values may change the key
				life = swarmLife{trackers: life.trackers[:0]}
				life.follow(values)
				out.Emit(hash, life.encode())
				return nil
			})
		},
		Output: mapreduce.Runs,
	}, nil
}

// byName partitions by the name that a key begins with.
func byName(key []byte, n int) int {
	first, _ := name(key)
	return byKey(key[:len(first)+1], n)
}

// sameName groups by the name that keys begin with.
func sameName(a, b []byte) bool {
	x, _ := name(a)
	y, _ := name(b)
	return bytes.Equal(x, y)
}

// follow takes the samples of a swarm in the order of time; each is seeders ‖
// leechers ‖ downloads ‖ hour ‖ tracker.
func (l *swarmLife) follow(samples iter.Seq[[]byte]) {
	peers := int64(0) // of the hour so far
	for v := range samples {
		hour := number(v, 3)
		// The samples of an hour come together, one for each tracker.
		if l.hours == 0 || hour != l.last {
			if l.hours == 0 {
				l.first = hour
			}
			l.last, peers = hour, 0
			l.hours++
		}
		if peers += number(v, 0) + number(v, 1); peers > l.peak {
			l.peak, l.peakHour = peers, hour
		}
		l.load(v[32:], number(v, 2))
	}
	for _, t := range l.trackers {
		l.downloads += t.last - t.first
	}
	slices.SortFunc(l.trackers, func(a, b trackerLife) int { return strings.Compare(a.name, b.name) })
}

// load records the number of downloads that a tracker reports. A swarm has few
// trackers.
func (l *swarmLife) load(tracker []byte, downloads int64) {
	for i := range l.trackers {
		if t := &l.trackers[i]; t.name == string(tracker) {
			t.last = downloads
			return
		}
	}
	l.trackers = append(l.trackers, trackerLife{string(tracker), downloads, downloads})
}

func (l *swarmLife) encode() []byte {
	out := appendNumbers(nil, l.peak, l.peakHour, l.first, l.last, l.hours, l.downloads)
	for i, t := range l.trackers {
		if i > 0 {
			out = append(out, 0)
		}
		out = append(out, t.name...)
	}
	return out
}

// decode decodes everything except the downloads of each tracker. The trackers' names
// are slices of code.
func (l *swarmLife) decode(code []byte) (trackers [][]byte) {
	for i, n := range []*int64{&l.peak, &l.peakHour, &l.first, &l.last, &l.hours, &l.downloads} {
		*n = number(code, i)
	}
	return bytes.Split(code[48:], []byte{0})
}
