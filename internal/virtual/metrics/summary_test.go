package metrics

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestSummarize(t *testing.T) {
	if got := Summarize(nil); got != (Summary{}) {
		t.Errorf("nothing: %+v", got)
	}
	if got := Summarize([]float64{7}); got != (Summary{N: 1, Mean: 7, Median: 7, P95: 7, P99: 7, Max: 7}) {
		t.Errorf("one value: %+v", got)
	}
	v := []float64{10, 1, 1.2, 1.5, 6, 2, 2, 2.5, 3, 4}
	s := Summarize(v)
	if s.N != 10 || !near(s.Mean, 3.32) || s.Median != 2 || s.P95 != 10 || s.P99 != 10 || s.Max != 10 {
		t.Errorf("%+v", s)
	}
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOfN(rapid.Float64Range(0, 1e6), 2, 30).Draw(t, "values")
		mean, squares := 0.0, 0.0
		for _, x := range v {
			mean += x / float64(len(v))
		}
		for _, x := range v {
			squares += (x - mean) * (x - mean)
		}
		s := Summarize(v)
		if !near(s.Mean, mean) || math.Abs(s.SD-math.Sqrt(squares/float64(len(v)-1))) > 1e-6*(1+mean) {
			t.Fatalf("%+v: mean %v, squares %v", s, mean, squares)
		}
		if mean > 1e-6 && !near(s.CV2, squares/float64(len(v))/(mean*mean)) {
			t.Fatalf("CV² %v", s.CV2)
		}
	})
}

func TestJain(t *testing.T) {
	for _, c := range []struct {
		v    []float64
		want float64
	}{{nil, 1}, {[]float64{0, 0}, 1}, {[]float64{3, 3, 3}, 1}, {[]float64{5, 0, 0, 0}, 0.25}, {[]float64{1, 3}, 0.8}} {
		if got := Jain(c.v); !near(got, c.want) {
			t.Errorf("%v: %v, want %v", c.v, got, c.want)
		}
	}
}

func TestSlowdown(t *testing.T) {
	if Slowdown(30, 10) != 3 || Slowdown(0, 0) != 1 {
		t.Error("a slowdown is response over time alone, 1 for nothing")
	}
}

// The expected values of t are copied from printed tables.
func TestConfidence(t *testing.T) {
	if got := Confidence([]float64{4}, 0.95); got != (Estimate{N: 1, Mean: 4}) {
		t.Errorf("one run: %+v", got)
	}
	for _, c := range []struct {
		v     []float64
		level float64
		half  float64
	}{
		{[]float64{1, 3}, 0.95, 12.706},                          // s = √2
		{[]float64{1, 2, 3, 4, 5}, 0.95, 2.776 * math.Sqrt(0.5)}, // s² = 2.5
		{[]float64{1, 2, 3, 4, 5}, 0.99, 4.604 * math.Sqrt(0.5)},
	} {
		if got := Confidence(c.v, c.level); math.Abs(got.Half-c.half) > 1e-3*c.half {
			t.Errorf("%v at %v: %+v, want ± %v", c.v, c.level, got, c.half)
		}
	}
}

// A level and a course have the same integral, which equals the integral by definition.
func TestLevelAndCourse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l Level
		c := Course{Width: time.Duration(rapid.IntRange(1, 50).Draw(t, "width")) * time.Millisecond}
		var now time.Duration
		want, value, held := 0.0, 0, 0
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			n := rapid.IntRange(-value, 5).Draw(t, "change")
			l.Add(now, n)
			c.Add(now, n)
			value += n
			d := time.Duration(rapid.IntRange(0, 20000).Draw(t, "ms")) * time.Millisecond
			want += float64(value) * d.Seconds()
			if d > 0 {
				held = max(held, value)
			}
			now += d
		}
		got := 0.0
		for i, m := range c.Means(now) {
			begin := time.Duration(i) * c.Width
			got += m * (min(now, begin+c.Width) - begin).Seconds()
		}
		if !near(l.Area(now), want) || math.Abs(got-want) > 1e-6*max(1, want) || l.Value() != value {
			t.Fatalf("level %v, course %v, want %v", l.Area(now), got, want)
		}
		if p := c.Peaks(now); len(p) > 0 && slices.Max(p) != float64(held) || len(p) != len(c.Means(now)) {
			t.Fatalf("peaks %v, want at most %d", p, held)
		}
		if n := len(c.Means(now)); n > maxSpans {
			t.Fatalf("%d spans", n)
		}
	})
}
