package apps

import (
	"strconv"

	"github.com/slotwise/slotwise/mapreduce"
)

// histogramRatings counts how often each rating was given, as
// Histogram-Ratings of the PUMA suite does.
//
//	input   movie data: movie:user_rating,…; other lines are counted and skipped
//	output  rating TAB count
//
// Each map keeps the five counts and emits them at its end.
var histogramRatings = &mapreduce.App{
	Name:    "histogramratings",
	Summary: "counts how often each rating was given to a movie",
	Reads:   "movie:user_rating,user_rating,…",
	Writes:  "rating TAB count",
	Small:   true,
	Job:     movieJob("histogramratings", func() histogram { return &ratingCounts{} }),
}

// ratingCounts has a bin for each rating.
type ratingCounts [6]int64

func (h *ratingCounts) add(ratings []int) {
	for _, r := range ratings {
		h[r]++
	}
}

func (h *ratingCounts) bins(yield func(string, int64)) {
	for r, n := range h {
		yield(strconv.Itoa(r), n)
	}
}
