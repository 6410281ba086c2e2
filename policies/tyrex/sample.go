package tyrex

import (
	"math/bits"
	"slices"
)

// maxSize bounds a size in milliseconds, so that sums of squares do not
// overflow: 2³⁸ ms is 8 years of task time.
// 2²⁵ sizes have a sum below 2⁶³, so sample.sum cannot overflow either: no window comes near.
const maxSize = 1 << 38

// u128 is an unsigned sum of products. Sums of squares are exact, for two
// reasons. Values enter and leave for the whole life of a master, and
// floating-point sums would drift. And ties decide.
type u128 struct{ hi, lo uint64 }

func mul(a, b int64) u128 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return u128{hi, lo}
}

func (a u128) plus(b u128) u128 {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	hi, _ := bits.Add64(a.hi, b.hi, carry)
	return u128{hi, lo}
}

func (a u128) minus(b u128) u128 {
	lo, borrow := bits.Sub64(a.lo, b.lo, 0)
	hi, _ := bits.Sub64(a.hi, b.hi, borrow)
	return u128{hi, lo}
}

// float returns the nearest number after two roundings, with a relative error
// below 2⁻⁵².
func (a u128) float() float64 { return float64(float64(a.hi)*(1<<64)) + float64(a.lo) }

// sample is a multiset of sizes in milliseconds with its moments. Adding and
// removing cost a binary search and a move of memory; the variability is then
// available in constant time.
type sample struct {
	values []int64 // ascending
	sum    int64
	square u128
	// changed is set by every change, and cleared by the caller that computes something from the sample.
	changed bool
}

// add adds a value.
func (s *sample) add(x int64) {
	at, _ := slices.BinarySearch(s.values, x)
	s.values = slices.Insert(s.values, at, x)
	s.sum += x
	s.square = s.square.plus(mul(x, x))
	s.changed = true
}

// remove removes a value, which must be in the sample.
func (s *sample) remove(x int64) {
	at, _ := slices.BinarySearch(s.values, x)
	s.values = slices.Delete(s.values, at, at+1)
	s.sum -= x
	s.square = s.square.minus(mul(x, x))
	s.changed = true
}

// tolerance is the relative error that comparisons ignore, so that values that
// are equal on paper compare as equal. Only products are rounded, so results
// are the same on all machines.
const tolerance = 1e-9

// exceeds reports whether CV² > limit, where CV² = σ²/μ² with the population
// variance: n·Σx² > (1+limit)·(Σx)². Empty samples and samples of equal values
// have CV² = 0.
func (s *sample) exceeds(limit float64) bool {
	n, sum := float64(len(s.values)), float64(s.sum)
	// CV² > limit, multiplied by μ²·n² so that nothing is divided: σ²/μ² = n·Σx²/(Σx)² − 1.
	return n*s.square.float() > (1+limit)*(1+tolerance)*sum*sum
}

// cv2 returns the squared coefficient of variation, for explanations.
func (s *sample) cv2() float64 {
	if s.sum == 0 {
		return 0
	}
	n, sum := float64(len(s.values)), float64(s.sum)
	return max(0, n*s.square.float()/(sum*sum)-1)
}

// cut is a sample divided at a point p between two neighbours. It holds the
// moments of the values up to p and of the m values beyond.
//
//	L_p = min(x, p) of all n values          mean and squares from S₁, Q₁, m, p
//	R_p = x − p of the m values with x > p   mean and squares from S₂, Q₂, m, p
type cut struct {
	n, m   int64
	s1, s2 int64 // Σx up to and beyond the point
	q1, q2 u128  // Σx²
}

// balanced reports whether g(p) = CV²(L_p) − CV²(R_p) ≥ 0 for a point p of the
// cut, by comparing
//
//	n·(Q₁ + m·p²)·(S₂ − m·p)²  with  m·(Q₂ − 2·p·S₂ + m·p²)·(S₁ + m·p)²
//
// The four factors are exact; only their products are rounded. At p = 0,
// CV²(L_p) is its limit from the right: (n − m)/m, the number of zeros over the
// number of other values.
func (c *cut) balanced(p int64) bool {
	if p == 0 {
		// n·S₂² against m²·Q₂
		// L_0 has the mean 0 and no CV. With the limit (n−m)/m the inequality is n/m ≥ m·Q₂/S₂².
		return atLeast(float64(c.n)*float64(c.s2)*float64(c.s2), float64(c.m)*float64(c.m)*c.q2.float())
	}
	// Each variance is E[x²]/E[x]² − 1, so the −1 of both sides cancels. The squared means are multiplied
	// over, and a mean of 0 needs no special case.
	mpp := mul(c.m*p, p)
	low := float64(c.s1 + c.m*p)
	high := float64(c.s2 - c.m*p)
	squareLow := c.q1.plus(mpp).float()
	squareHigh := c.q2.plus(mpp).minus(mul(2*p, c.s2)).float()
	return atLeast(float64(c.n)*squareLow*high*high, float64(c.m)*squareHigh*low*low)
}

func atLeast(a, b float64) bool { return a >= b*(1-tolerance) }

// root returns the point between a and b where g becomes 0. a and b are
// neighbours in the sample with g(a) < 0 and g(b) ≥ 0 in the limit. The same
// jobs exceed every point of the gap, so the precision matters only to readers.
func (c *cut) root(a, b float64) float64 {
	n, m := float64(c.n), float64(c.m)
	s1, s2, q1, q2 := float64(c.s1), float64(c.s2), c.q1.float(), c.q2.float()
	// A gap of 2³⁸ ms is below a microsecond after 50 halvings. A condition on the width could fail to end
	// where a and b are neighbouring floating-point numbers.
	for range 50 {
		// The conversions keep compilers from fusing operations, which would
		// make the last digits differ between machines.
		p := float64(a+b) / 2
		mp := float64(m * p)
		mpp := float64(mp * p)
		low, high := float64(s1+mp), float64(s2-mp)
		left := float64(float64(n*float64(q1+mpp))*high) * high
		right := float64(float64(m*float64(float64(q2-float64(2*float64(p*s2)))+mpp))*low) * low
		if left >= right {
			b = p
		} else {
			a = p
		}
	}
	return b
}

// cutoff returns the optimal cut-off point p* of a sample with CV² > 0: the
// smallest p at which CV²(L_p), which grows with p, reaches CV²(R_p), which
// falls in steps. Some value always exceeds it. The cost is a walk through the
// values up to p*.
func (s *sample) cutoff() float64 {
	c := cut{n: int64(len(s.values)), m: int64(len(s.values)), s2: s.sum, q2: s.square}
	for i := 0; ; {
		a := s.values[i]
		square := mul(a, a)
		// All equal sizes at once: none exceeds p = a, so they move from the right side to the left
		// together.
		for i < len(s.values) && s.values[i] == a {
			c.m--
			c.s1, c.q1 = c.s1+a, c.q1.plus(square)
			c.s2, c.q2 = c.s2-a, c.q2.minus(square)
			i++
		}
		// Reading 4 in README.md: the right side falls in a step at a, so a itself is p* if the
		// sides have crossed there. Otherwise they may cross on the way to the next size, up to
		// which this cut holds.
		switch {
		// The end is reached only if all sizes are equal. With two different ones R_p shrinks to nothing
		// before the largest, so the right side is 0 there at the latest.
		case i == len(s.values) || c.balanced(a):
			return float64(a)
		case c.balanced(s.values[i]):
			return c.root(float64(a), float64(s.values[i]))
		}
	}
}
