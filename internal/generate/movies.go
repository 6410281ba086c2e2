package generate

import (
	"io"
	"strconv"
)

// Bounds of the movie data, about those of the data set that it imitates.
const (
	movieUsers     = 2_649_429
	fewestRatings  = 2
	mostRatings    = 2000
	unratedMovies  = 500 // one in so many has no rating yet
	movieNumbering = 16  // bytes for which one number is kept; lines are far longer
)

// movies writes a movie on each line, with the ratings that users gave it:
//
//	movie:user_rating,user_rating,…
//
// Few movies have many ratings. A movie has a quality, which its ratings
// differ from by at most one. Movies are numbered through all parts, with gaps.
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
