package apps

import (
	"bytes"

	"github.com/slotwise/slotwise/mapreduce"
)

// The movie data of the PUMA suite: a movie on each line, with the ratings, 1
// to 5, that users gave it:
//
//	movie:user_rating,user_rating,…
//
// Only the digit after the last underscore of an item counts.

// ratings calls yield for each rating of a line. It reports false, after any
// number of calls, if the line is malformed.
func ratings(line []byte, yield func(rating int)) bool {
	_, list, ok := bytes.Cut(bytes.TrimRight(line, "\r"), []byte(":"))
	if !ok {
		return false
	}
	if list = bytes.TrimSpace(list); len(list) == 0 {
		return true
	}
	for {
		item, rest, more := bytes.Cut(list, []byte(","))
		item = bytes.TrimSpace(item)
		n := len(item)
		// PUMA's files have user_rating; a user's name may itself have underscores.
		if n < 2 || item[n-2] != '_' || item[n-1] < '1' || item[n-1] > '5' {
			return false
		}
		yield(int(item[n-1] - '0'))
		if !more {
			return true
		}
		list = rest
	}
}

// histogram counts movies or ratings in bins.
type histogram interface {
	add(ratings []int)
	bins(yield func(bin string, count int64))
}

func movieJob(name string, newHistogram func() histogram) func(mapreduce.Params) (*mapreduce.Job, error) {
	return func(mapreduce.Params) (*mapreduce.Job, error) {
		return &mapreduce.Job{
			Name:      name,
			Mapper:    func() mapreduce.Mapper { return &movieMapper{histogram: newHistogram()} },
			Aggregate: mapreduce.Sum,
			Reducer:   mapreduce.SumText,
			// Eleven lines at most are the result: more reduces would write empty files.
			Reduces: 1,
		}, nil
	}
}

// movieMapper fills a histogram from lines.
type movieMapper struct {
	histogram
	ratings   []int
	malformed int64
}

// Map takes a movie.
func (m *movieMapper) Map(_, line []byte, _ *mapreduce.Emitter) error {
	// Collected first, because a line that turns out to be malformed at its end must not count in part.
	m.ratings = m.ratings[:0]
	if !ratings(line, func(r int) { m.ratings = append(m.ratings, r) }) {
		m.malformed++
		return nil
	}
	m.add(m.ratings)
	return nil
}

// Finish emits the histogram.
func (m *movieMapper) Finish(out *mapreduce.Emitter) error {
	m.bins(func(bin string, count int64) {
		if count > 0 {
			out.Add([]byte(bin), count)
		}
	})
	return countMalformed(out, m.malformed)
}

// countMalformed adds the number of lines that a mapper could not read to a counter.
func countMalformed(out *mapreduce.Emitter, n int64) error {
	if n > 0 {
		out.Count("malformed lines", n)
	}
	return nil
}
