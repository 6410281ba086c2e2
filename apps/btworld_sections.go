package apps

import (
	"iter"
	"math/bits"
	"strconv"
	"time"

	"github.com/slotwise/slotwise/mapreduce"
)

// The jobs whose output is a section of the report.

// sectionKey is the key of a section's line.
func sectionKey(section byte, rank ...int64) []byte { return appendNumbers([]byte{section}, rank...) }

// reportWriter writes lines, before the first of each section its title.
type reportWriter struct{ section int }

// Reduce writes the lines of one key.
func (w *reportWriter) Reduce(key []byte, values iter.Seq[[]byte], out *mapreduce.Emitter) error {
	if section := int(key[0]); section != w.section {
		// An empty line between two sections, and none before the first.
		if w.section >= 0 {
			// A nil value would be no line.
			out.Emit(nil, []byte{})
		}
		out.Emit(nil, []byte("# "+btTitles[section]))
		w.section = section
	}
	return writeValues(nil, values, out)
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// mean is the mean of counts, rounded half up.
func mean(sum, n int64) string { return decimal((2*sum + n) / (2 * n)) }

func dayText(day int64) string { return time.Unix(day*86400, 0).UTC().Format(time.DateOnly) }

func hourText(hour int64) string { return time.Unix(hour*3600, 0).UTC().Format("2006-01-02T15:00Z") }

// btDays sums up the hours of a day.
func btDays(mapreduce.Params) (*mapreduce.Job, error) {
	return &mapreduce.Job{
		Name:  "btworld days",
		Input: mapreduce.Runs,
		Mapper: records(func(hour, totals []byte, r *room, out *mapreduce.Emitter) {
			// Days are UTC's, so that each has 24 hours.
			r.key = mapreduce.AppendInt64(r.key[:0], number(hour, 0)/24)
			out.Emit(r.key, totals)
		}),
		Reducer: func() mapreduce.Reducer {
			return mapreduce.ReducerFunc(func(key []byte, values iter.Seq[[]byte], out *mapreduce.Emitter) error {
				var hours, swarms, peers, peak int64
				for v := range values {
					// Seeders and leechers: the study's peers.
					now := number(v, 1) + number(v, 2)
					hours, swarms, peers, peak = hours+1, swarms+number(v, 0), peers+now, max(peak, now)
				}
				day := number(key, 0)
				out.Emit(sectionKey(sectionDays, day),
					tabbed(dayText(day), decimal(hours), mean(peers, hours), decimal(peak), mean(swarms, hours)))
				return nil
			})
		},
		Output: mapreduce.Runs,
	}, nil
}

// btTopTrackers ranks the trackers of each day by their peers, summed over its
// hours.
func btTopTrackers(p mapreduce.Params) (*mapreduce.Job, error) {
	top, err := p.Int("top", 1)
	if err != nil {
		return nil, err
	}
	return &mapreduce.Job{
		Name:  "btworld toptrackers",
		Input: mapreduce.Runs,
		Mapper: records(func(key, value []byte, r *room, out *mapreduce.Emitter) {
			tracker, hour := name(key)
			r.key = mapreduce.AppendInt64(r.key[:0], number(hour, 0)/24)
			r.value = append(mapreduce.AppendInt64(r.value[:0], number(value, 1)+number(value, 2)), tracker...)
			out.Emit(r.key, r.value)
		}),
		Reducer: func() mapreduce.Reducer {
			return mapreduce.ReducerFunc(func(key []byte, values iter.Seq[[]byte], out *mapreduce.Emitter) error {
				peers := map[string]int64{}
				for v := range values {
					peers[string(v[8:])] += number(v, 0)
				}
				list := topList{limit: int(top)}
				// In any order: the list sorts by peers, and then by name.
				for tracker, n := range peers {
					list.add(append(mapreduce.AppendInt64(nil, -n), tracker...), nil)
				}
				day := number(key, 0)
				for i, e := range list.entries {
					rank := int64(i + 1)
					out.Emit(sectionKey(sectionTrackers, day, rank),
						tabbed(dayText(day), decimal(rank), string(e.key[8:]), decimal(-number(e.key, 0))))
				}
				return nil
			})
		},
		Output: mapreduce.Runs,
	}, nil
}

// btAvailability counts, for each tracker, the hours in which it gave samples
// and the scrapes that failed.
func btAvailability(p mapreduce.Params) (*mapreduce.Job, error) {
	up := records(func(key, _ []byte, r *room, out *mapreduce.Emitter) {
		tracker, _ := name(key)
		r.value = appendNumbers(r.value[:0], 1, 0)
		out.Emit(tracker, r.value)
	})
	failed := logsOf(nil, func(r *tableRow, out *mapreduce.Emitter) {
		r.value = appendNumbers(r.value[:0], 0, 1)
		out.Emit(r.text(1), r.value)
	})
	// The combiner of sumJob fits both sources, because both emit two numbers.
	j := sumJob("btworld availability", 2, nil)
	j.Sources = []mapreduce.Source{
		readsFrom(p, "hours", mapreduce.Runs, up),
		readsFrom(p, "logs", mapreduce.Text, failed),
	}
	j.Reducer = sums(2, func(key []byte, sum []int64, out *mapreduce.Emitter) {
		out.Emit(append([]byte{sectionAvailability}, key...), tabbed(string(key), decimal(sum[0]), decimal(sum[1])))
	})
	return j, nil
}

// btLifetimes counts swarms by how long they live, from the first hour with
// peers to the last, in classes that double: 1, 2, 3 to 4, 5 to 8 …
func btLifetimes(mapreduce.Params) (*mapreduce.Job, error) {
	return &mapreduce.Job{
		Name:  "btworld lifetimes",
		Input: mapreduce.Runs,
		Mapper: records(func(_, value []byte, r *room, out *mapreduce.Emitter) {
			var life swarmLife
			life.decode(value)
			// The hours from the first to the last are one more than the difference.
			r.key = mapreduce.AppendInt64(r.key[:0], int64(bits.Len64(uint64(life.last-life.first))))
			out.Add(r.key, 1)
		}),
		Aggregate: mapreduce.Sum,
		Reducer: sums(1, func(key []byte, sum []int64, out *mapreduce.Emitter) {
			class := number(key, 0)
			to := int64(1) << class
			out.Emit(sectionKey(sectionLifetimes, class), tabbed(decimal(to/2+1), decimal(to), decimal(sum[0])))
		}),
		Output: mapreduce.Runs,
	}, nil
}
