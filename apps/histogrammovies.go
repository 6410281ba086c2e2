package apps

import (
	"strconv"

	"github.com/slotwise/slotwise/mapreduce"
)

// histogramMovies counts movies by their average rating in steps of a half, as
// Histogram-Movies of the PUMA suite does.
//
//	input   movie data: movie:user_rating,…; movies without ratings are
//	        skipped, other lines counted and skipped
//	output  average, rounded down to a half (3.0, 3.5) TAB number of movies
var histogramMovies = &mapreduce.App{
	Name:    "histogrammovies",
	Summary: "counts movies by their average rating, in steps of a half",
	Reads:   "movie:user_rating,user_rating,…",
	Writes:  "average TAB count",
	Small:   true,
	Job:     movieJob("histogrammovies", func() histogram { return &averageCounts{} }),
}

// averageCounts has a bin for each half of an average, 0 to 5.
type averageCounts [11]int64

func (h *averageCounts) add(ratings []int) {
	sum := 0
	for _, r := range ratings {
		sum += r
	}
	if n := len(ratings); n > 0 {
		// In integers, so that an average of exactly 3.5 is never 3.4999.
		h[2*sum/n]++
	}
}

func (h *averageCounts) bins(yield func(string, int64)) {
	for b, n := range h {
		yield(strconv.FormatFloat(float64(b)/2, 'f', 1, 64), n)
	}
}
