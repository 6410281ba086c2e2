package metrics

import (
	"maps"
	"math"
	"slices"
)

// Digest summarises a stream of values in bounded memory. Up to 8,192 values it
// is exact: it equals Summarize and Jain. For more values it counts the values
// in each of 512 equal intervals between two powers of two. A percentile is
// then off by at most a thousandth of its value; mean, deviation, Jain's index
// and maximum stay exact. Values must not be negative. The zero value is empty.
type Digest struct {
	values []float64 // all values, until there are too many
	counts map[uint64]int64
	// The rest is used only when counts is set.
	moments      Moments
	sum, squares float64
	max          float64
}

const (
	digestExact = 1 << 13
	// digestShift leaves the exponent and the first nine bits of the fraction
	// of a float64.
	digestShift = 52 - 9
)

// Add adds a value.
func (d *Digest) Add(x float64) {
	if d.counts == nil && len(d.values) < digestExact {
		d.values = append(d.values, x)
		return
	}
	if d.counts == nil {
		// The values move into the intervals once, and from here on only the intervals grow.
		d.counts = make(map[uint64]int64)
		for _, v := range d.values {
			d.count(v)
		}
		d.values = nil
	}
	d.count(x)
}

// count adds a value to the intervals.
func (d *Digest) count(x float64) {
	// The bits of floats that are not negative are ordered as the floats are. So the first bits name the
	// interval, without a logarithm, and the sorted keys below are in the order of the values.
	d.counts[math.Float64bits(x)>>digestShift]++
	d.moments.Add(x)
	d.sum += x
	d.squares += float64(x * x)
	d.max = max(d.max, x)
}

// Summary describes the values added so far.
func (d *Digest) Summary() Summary {
	if d.counts == nil {
		return Summarize(d.values)
	}
	m := &d.moments
	at := d.percentiles(50, 95, 99)
	return Summary{N: m.N(), Mean: m.Mean(), SD: math.Sqrt(m.Variance()), CV2: m.CV2(),
		Median: at[0], P95: at[1], P99: at[2], Max: d.max}
}

// Jain returns Jain's index of the values added so far.
func (d *Digest) Jain() float64 {
	if d.counts == nil {
		return Jain(d.values)
	}
	return jain(d.sum, d.squares, d.moments.N())
}

// percentiles returns the middle of the interval that holds each percentile. qs
// must ascend.
func (d *Digest) percentiles(qs ...float64) []float64 {
	out := make([]float64, 0, len(qs))
	seen := int64(0)
	// Sorted, and not in the map's random order: counts are added up until the rank is reached.
	for _, key := range slices.Sorted(maps.Keys(d.counts)) {
		seen += d.counts[key]
		// A loop, because one interval may hold several of the percentiles. The middle of the last interval
		// may exceed every value, hence the maximum.
		for len(out) < len(qs) && seen >= int64(rank(qs[len(out)], d.moments.N())) {
			out = append(out, min(d.max, middle(key)))
		}
	}
	return out
}

// middle returns the middle of the interval with a key.
func middle(key uint64) float64 {
	// Its interval begins at 0 and is narrower than any number of a report: most values in it are exactly
	// 0, such as the waits of jobs that start at once.
	if key == 0 {
		return 0
	}
	return math.Float64frombits(key<<digestShift | 1<<(digestShift-1))
}
