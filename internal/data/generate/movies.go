package generate

import (
	"io"
	"strconv"
)

// Bounds of the movie data, similar to the data set that it imitates.
const (
	movieUsers     = 2_649_429
	fewestRatings  = 2
	mostRatings    = 2000
	unratedMovies  = 500 // one of 500 movies has no rating yet
	movieNumbering = 16  // bytes for which one number is kept; lines are far longer
)

// movies writes lines with a movie and the ratings by users:
//
//	movie:user_rating,user_rating,…
//
// Few movies have many ratings. A movie has a quality, and its ratings differ
// from the quality by at most one. Movies are numbered through all parts, with
// gaps.
func movies(w io.Writer, p part, _ Params) error {
	r := rng{p.seed}
	id := p.offset / movieNumbering
	return writeLines(w, p.size, func(b []byte) []byte {
		b = append(strconv.AppendInt(b, id, 10), ':')
		id++
		if r.below(unratedMovies) > 0 {
			b = appendRatings(b, &r)
		}
		return append(b, '\n')
	})
}

// appendRatings appends the ratings of one movie.
func appendRatings(b []byte, r *rng) []byte {
	quality := 1 + int(r.below(5))
	for i := range fewestRatings + r.skewed(mostRatings) {
		if i > 0 {
			b = append(b, ',')
		}
		rating := quality - 1 + int(r.below(3))
		b = append(strconv.AppendUint(b, 1+r.below(movieUsers), 10), '_')
		b = append(b, '0'+byte(min(5, max(1, rating))))
	}
	return b
}
