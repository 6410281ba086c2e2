package metrics

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// TestDigestByDefinition compares a digest with Summarize and Jain of all
// values: exactly for few values, within a thousandth for many.
func TestDigestByDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{0, 1, 2, 100, digestExact, digestExact + 1, 3 * digestExact}).Draw(t, "n")
		g := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		spread := rapid.Float64Range(0, 4).Draw(t, "spread")
		var d Digest
		values := make([]float64, n)
		for i := range values {
			values[i] = math.Exp(spread * g.NormFloat64())
			if i%50 == 7 {
				values[i] = 0
			}
			d.Add(values[i])
		}
		got, want := d.Summary(), Summarize(values)
		if n <= digestExact {
			if got != want || d.Jain() != Jain(values) {
				t.Fatalf("%+v, want %+v", got, want)
			}
			return
		}
		for _, c := range [][2]float64{{got.Median, want.Median}, {got.P95, want.P95}, {got.P99, want.P99}} {
			if math.Abs(c[0]-c[1]) > c[1]/1000 {
				t.Fatalf("percentile %v, want %v", c[0], c[1])
			}
		}
		if got.N != n || got.Max != want.Max || !near(got.Mean, want.Mean) || !near(got.SD, want.SD) || !near(got.CV2, want.CV2) ||
			!near(d.Jain(), Jain(values)) {
			t.Fatalf("%+v, want %+v", got, want)
		}
	})
}

// TestDigestIsBounded: the memory of a digest depends on the range of the
// values, not on their number.
func TestDigestIsBounded(t *testing.T) {
	var d Digest
	g := rand.New(rand.NewPCG(1, 1))
	for i := range 1_000_000 {
		d.Add(1 + 1023*g.Float64())
		if i == 100_000 && len(d.counts) > 10*512 {
			t.Fatalf("%d counts for ten powers of two", len(d.counts))
		}
	}
	if len(d.counts) > 10*512 || d.values != nil {
		t.Errorf("%d counts, %d values", len(d.counts), len(d.values))
	}
}
