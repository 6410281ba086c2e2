package tyrex

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// of makes a sample of sizes in seconds.
func of(seconds ...float64) *sample {
	s := &sample{}
	for _, x := range seconds {
		s.add(int64(math.Round(1000 * x)))
	}
	return s
}

// moments is the textbook's squared coefficient of variation.
func moments(values []float64) float64 {
	n, sum, square := float64(len(values)), 0.0, 0.0
	for _, x := range values {
		sum += x
	}
	if sum == 0 {
		return 0
	}
	mean := sum / n
	for _, x := range values {
		square += (x - mean) * (x - mean)
	}
	return square / n / (mean * mean)
}

// sides are CV²(L_p) and CV²(R_p) by definition.
func sides(values []int64, p float64) (low, high float64) {
	var l, r []float64
	for _, x := range values {
		l = append(l, min(float64(x), p))
		if float64(x) > p {
			r = append(r, float64(x)-p)
		}
	}
	return moments(l), moments(r)
}

// naiveCutoff walks as cutoff does, with the definitions alone; the limit at
// the upper end of a gap is taken a hair away from it. At 0 the limit of
// CV²(L_p) equals CV² of the indicator of x > 0, because L_p is p times it.
func naiveCutoff(values []int64) float64 {
	distinct := slices.Compact(slices.Clone(values))
	g := func(p float64) float64 {
		l, r := sides(values, p)
		if p == 0 {
			var positive []float64
			for _, x := range values {
				positive = append(positive, float64(min(x, 1)))
			}
			l = moments(positive)
		}
		return l - r
	}
	for i, a := range distinct {
		if i == len(distinct)-1 || g(float64(a)) >= -1e-9 {
			return float64(a)
		}
		low, high := float64(a), float64(distinct[i+1])*(1-1e-12)
		if g(high) < 0 {
			continue
		}
		for range 60 {
			if mid := (low + high) / 2; g(mid) >= 0 {
				high = mid
			} else {
				low = mid
			}
		}
		return high
	}
	return 0
}

// near compares with the four decimals that the examples are given with.
func near(got, want float64) bool { return math.Abs(got-want) <= 5.1e-5*max(1, want) }

func checkCut(t *testing.T, s *sample, cv2, cutoff float64) {
	t.Helper()
	if got := s.cv2(); !near(got, cv2) {
		t.Errorf("%v: CV² %.5f, want %.4f", s.values, got, cv2)
	}
	if !s.exceeds(2) {
		t.Errorf("%v: not above 2", s.values)
	}
	if got := s.cutoff() / 1000; !near(got, cutoff) {
		t.Errorf("%v: cut-off %.5f s, want %.4f", s.values, got, cutoff)
	}
}

func checkCalm(t *testing.T, s *sample, cv2 float64) {
	t.Helper()
	if got := s.cv2(); !near(got, cv2) || s.exceeds(2) {
		t.Errorf("%v: CV² %.5f, above 2: %v; want %.4f, not above", s.values, got, s.exceeds(2), cv2)
	}
}

func TestTyrex_D1(t *testing.T) { checkCut(t, of(10, 10, 10, 10, 200), 2.5069, 10) }

func TestTyrex_D2_TrueRoot(t *testing.T) {
	s := of(10, 10, 10, 10, 10, 10, 10, 300, 400)
	checkCut(t, s, 2.8055, 13.8873)
	low, high := sides(s.values, s.cutoff())
	if math.Abs(low-0.022129) > 1e-6 || math.Abs(high-0.022129) > 1e-6 {
		t.Errorf("the two sides have %.6f and %.6f", low, high)
	}
}

func TestTyrex_D3(t *testing.T) {
	s := of(20, 25, 30, 35, 40, 50, 60, 90, 150, 400, 2000, 6000)
	checkCut(t, s, 5.0904, 291.0536)
	if low, high := sides(s.values, 150e3); !near(low, 0.4486) || !near(high, 0.7898) {
		t.Errorf("at 150 s: %v and %v", low, high)
	}
	if low, high := sides(s.values, s.cutoff()); !near(low, 0.88115) || !near(high, 0.88115) {
		t.Errorf("at the cut-off: %v and %v", low, high)
	}
}

func TestTyrex_D4_Jump(t *testing.T) {
	s := of(5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560)
	checkCut(t, s, 2.3399, 320)
	if low, high := sides(s.values, 320e3); !near(low, 0.7442) || !near(high, 0.4628) {
		t.Errorf("at 320 s: %v and %v", low, high)
	}
}

func TestTyrex_D5_Threshold(t *testing.T) {
	checkCalm(t, of(), 0)
	checkCalm(t, of(500), 0)
	checkCalm(t, of(30, 30, 30, 30), 0)
	checkCalm(t, of(0, 0, 0, 0), 0)
	checkCalm(t, of(1, 1, 1000), 1.9880)
	checkCalm(t, of(0, 0, 100), 2)
	checkCalm(t, of(20, 25, 30, 30, 40, 300), 1.8610)
	checkCut(t, of(1, 1, 1, 1000), 2.9761, 1)
	checkCut(t, of(0, 0, 0, 0, 100, 200), 2.3333, 0)
}

// Where both sides are equal at 0, in the limit, 0 is the cut-off point.
func TestSampleTieAtZero(t *testing.T) {
	values := []int64{0, 1, 1, 3, 3}
	s := &sample{}
	for _, x := range values {
		s.add(x)
	}
	if got, naive := s.cutoff(), naiveCutoff(values); got != 0 || naive != 0 {
		t.Errorf("cut-off %v, by definition %v, want 0", got, naive)
	}
}

func TestTyrex_D6_GrowthWithHistory(t *testing.T) {
	for _, c := range []struct{ b, cv2 float64 }{{110, 0.5248}, {220, 1.3791}, {327.20, 1.99994}} {
		checkCalm(t, of(20, 25, 30, 30, 40, c.b), c.cv2)
	}
	checkCut(t, of(20, 25, 30, 30, 40, 330), 2.0136, 40)
	if !of(20, 25, 30, 30, 40, 327.22).exceeds(2) {
		t.Error("327.22 s is not enough")
	}
}

func TestTyrex_D7_ColdStartSamples(t *testing.T) {
	checkCut(t, of(330, 0, 0, 0, 0), 4, 0)
	checkCut(t, of(990, 10, 10, 10, 10), 3.6211, 10)
}

func TestTyrex_D8_SeveralCrossings(t *testing.T) {
	s := of(10, 10, 300, 1000, 5000)
	checkCut(t, s, 2.2660, 300)
	for _, c := range []struct{ p, g float64 }{{300e3, 0.0475}, {1e6 - 1e-3, -0.0583}, {1e6, 0.9417}} {
		if low, high := sides(s.values, c.p); !near(low-high, c.g) {
			t.Errorf("g(%v) = %v, want %v", c.p, low-high, c.g)
		}
	}
}

// With n values CV² is n − 1 at most, so fewer than four never exceed 2.
func TestTyrex_A5_FourAreNeeded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &sample{}
		for _, x := range rapid.SliceOfN(rapid.Int64Range(0, maxSize), 0, 3).Draw(t, "sizes") {
			s.add(x)
		}
		if s.exceeds(2) {
			t.Fatalf("%v exceeds 2", s.values)
		}
	})
}

// The incremental moments equal a recount, and the cut-off point satisfies the
// definition.
func TestSampleAgainstDefinitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, list := &sample{}, []int64(nil)
		size := rapid.OneOf(rapid.Int64Range(0, 5), rapid.Int64Range(0, 100_000), rapid.Just[int64](0))
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			if len(list) > 0 && rapid.IntRange(0, 3).Draw(t, "what") == 0 {
				at := rapid.IntRange(0, len(list)-1).Draw(t, "which")
				s.remove(list[at])
				list = slices.Delete(list, at, at+1)
				continue
			}
			x := size.Draw(t, "size")
			s.add(x)
			list = append(list, x)
		}
		floats := []float64(nil)
		slices.Sort(list)
		for _, x := range list {
			floats = append(floats, float64(x))
		}
		want := moments(floats)
		if got := s.cv2(); !slices.Equal(list, s.values) || math.Abs(got-want) > 1e-9*max(1, want) {
			t.Fatalf("%v (want %v): CV² %v, want %v", s.values, list, got, want)
		}
		if want < 1e-6 {
			return
		}
		if got, naive := s.cutoff(), naiveCutoff(list); math.Abs(got-naive) > 1e-3*max(1, naive) {
			t.Fatalf("%v: cut-off %v, by definition %v", list, got, naive)
		}
	})
}
