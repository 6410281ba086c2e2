package tags

// cut is a sample divided at a point p between two neighbours: what is needed of
// the values up to it and of the m values beyond.
//
//	L_p = min(x, p) of all n values          mean and squares from S₁, Q₁, m, p
//	R_p = x − p of the m values with x > p   mean and squares from S₂, Q₂, m, p
type cut struct {
	n, m   int64
	s1, s2 int64 // Σx up to and beyond the point
	q1, q2 u128  // Σx²
}

// balanced reports whether g(p) = CV²(L_p) − CV²(R_p) ≥ 0 for a point of the
// cut, by comparing
//
//	n·(Q₁ + m·p²)·(S₂ − m·p)²  with  m·(Q₂ − 2·p·S₂ + m·p²)·(S₁ + m·p)²
//
// The four factors are exact and only their products are rounded. At p = 0 the
// limit from the right is meant: (n − m)/m, the number of zeros over that of the
// rest, for CV²(L_p).
func (c *cut) balanced(p int64) bool {
	if p == 0 {
		// n·S₂² against m²·Q₂
		return atLeast(float64(c.n)*float64(c.s2)*float64(c.s2), float64(c.m)*float64(c.m)*c.q2.float())
	}
	mpp := mul(c.m*p, p)
	low := float64(c.s1 + c.m*p)
	high := float64(c.s2 - c.m*p)
	squareLow := c.q1.plus(mpp).float()
	squareHigh := c.q2.plus(mpp).minus(mul(2*p, c.s2)).float()
	return atLeast(float64(c.n)*squareLow*high*high, float64(c.m)*squareHigh*low*low)
}

func atLeast(a, b float64) bool { return a >= b*(1-sliver) }

// root finds where g becomes 0 between a and b, neighbours in the sample with
// g(a) < 0 and the limit at b not. Which jobs exceed the point is the same all
// over the gap, so the precision is for people.
func (c *cut) root(a, b float64) float64 {
	n, m := float64(c.n), float64(c.m)
	s1, s2, q1, q2 := float64(c.s1), float64(c.s2), c.q1.float(), c.q2.float()
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
// smallest p where CV²(L_p) reaches CV²(R_p), of which the first grows and the
// second falls by jumps. Something is always beyond it.
//
// It costs a walk through the values up to p*.
func (s *sample) cutoff() float64 {
	c := cut{n: int64(len(s.values)), m: int64(len(s.values)), s2: s.sum, q2: s.square}
	for i := 0; ; {
		a := s.values[i]
		square := mul(a, a)
		for i < len(s.values) && s.values[i] == a {
			c.m--
			c.s1, c.q1 = c.s1+a, c.q1.plus(square)
			c.s2, c.q2 = c.s2-a, c.q2.minus(square)
			i++
		}
		switch {
		case i == len(s.values) || c.balanced(a):
			return float64(a)
		case c.balanced(s.values[i]):
			return c.root(float64(a), float64(s.values[i]))
		}
	}
}
