package harness

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Number is a type of measurements: seconds, bytes or durations.
type Number interface{ ~int64 | ~float64 }

// Quantile returns the value below which a share q of the values lie, from 0 for
// the smallest to 1 for the largest, and interpolates linearly between the two
// nearest values. It returns 0 if there are no values and leaves them unsorted.
func Quantile[T Number](values []T, q float64) T {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	at := q * float64(len(s)-1)
	low := int(math.Floor(at))
	high := min(low+1, len(s)-1)
	return s[low] + T((at-float64(low))*float64(s[high]-s[low]))
}

// Median returns the middle value, or the mean of the two middle values if
// their number is even. It returns 0 if there are no values.
func Median[T Number](values []T) T { return Quantile(values, 0.5) }

// Mean returns the arithmetic mean, or 0 if there are no values.
func Mean[T Number](values []T) T {
	var sum float64
	for _, x := range values {
		sum += float64(x)
	}
	return T(sum / float64(max(1, len(values))))
}

// Ratios divides the values pairwise: round i of one contestant by round i of
// the other. It ignores rounds that only one contestant has.
func Ratios[T Number](over, under []T) []float64 {
	out := make([]float64, min(len(over), len(under)))
	for i := range out {
		out[i] = float64(over[i]) / float64(under[i])
	}
	return out
}

// Spread returns the median, the 99th percentile and the maximum of durations,
// rounded to 10 µs, as one text; "none" if there are none.
func Spread(values []time.Duration) string {
	if len(values) == 0 {
		return "none"
	}
	at := func(q float64) time.Duration { return Quantile(values, q).Round(10 * time.Microsecond) }
	return fmt.Sprintf("%v, %v, %v", at(0.5), at(0.99), at(1))
}
