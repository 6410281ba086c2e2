// Package portable computes exponentials and logarithms, and draws random variates
// with them, with the same bits on every processor.
//
// The functions of package math are written in assembly for some processors. On
// others the compiler may fuse a product and a sum. So the last bit of a result
// depends on the machine, and two simulations with the same seed could make
// different decisions. Here every product is rounded before it is added to something:
// the conversions float64(…) prevent fusing. Divisions, square roots and the
// splitting of exponents are exact or rounded in the same way everywhere.
//
//	portable.go  Exp, Log and their relatives
//	draw.go      normal and exponential variates
package portable

import "math"

// ln 2 as the sum of two parts. The first has so few bits that its product with any
// exponent is exact.
const (
	ln2High = 6.93147180369123816490e-01
	ln2Low  = 1.90821492927058770002e-10
)

// Exp returns eˣ to within one unit in the last place. With x = k·ln 2 + r and
// |r| ≤ ½·ln 2 the result is 2ᵏ·eʳ, where eʳ is computed from its series.
func Exp(x float64) float64 {
	switch {
	case x != x || math.IsInf(x, 1):
		return x
	case x > 710:
		return math.Inf(1)
	case x < -746:
		return 0
	}
	k := math.Floor(float64(x/math.Ln2) + 0.5)
	// The first difference is exact, and only low carries a rounding error.
	high, low := x-float64(k*ln2High), float64(k*ln2Low)
	r := high - low
	// eʳ = 1 + r + r²·(1/2! + r/3! + r²/4! + …), summed from the smallest term.
	sum := 1.
	// r| is at most 0.35, so the first term that is left out is below 2⁻⁵³ of the sum.
	for n := 14.; n >= 3; n-- {
		sum = 1 + float64(float64(r*sum)/n)
	}
	tail := float64(float64(r*r)*sum) / 2
	// Summed from the smallest term, so that the error of low is not lost in 1+high.
	return math.Ldexp(1+(high+(tail-low)), int(k))
}

// Log returns ln x to within one unit in the last place. With x = 2ᵏ·(1+f) and 1+f
// from √½ to √2 the result is k·ln 2 + ln(1+f), and with s = f/(2+f)
//
//	ln(1+f) = f − f²/2 + s·(f²/2 + R),  R = 2·(s²/3 + s⁴/5 + s⁶/7 + …)
func Log(x float64) float64 {
	switch {
	case x != x || math.IsInf(x, 1):
		return x
	case x < 0:
		return math.NaN()
	case x == 0:
		return math.Inf(-1)
	}
	m, e := math.Frexp(x)
	// f is then between −0.3 and 0.42, where the series of R converges fast, and 0 for x = 1, whose
	// logarithm must be exact.
	if m < math.Sqrt2/2 {
		m *= 2
		e--
	}
	f, k := m-1, float64(e)
	s := f / (2 + f)
	s2 := float64(s * s)
	r := 0.
	for _, term := range logTerms[:] {
		r = float64(s2 * (term + r))
	}
	half := float64(float64(f*f) / 2)
	rest := float64(s*(half+r)) + float64(k*ln2Low)
	return float64(k*ln2High) - ((half - rest) - f)
}

// logTerms are the coefficients of R in Log, from the smallest term. Divisions would take most of its time.
var logTerms = [...]float64{2. / 23, 2. / 21, 2. / 19, 2. / 17, 2. / 15, 2. / 13, 2. / 11, 2. / 9, 2. / 7, 2. / 5, 2. / 3}

// Log1p returns ln(1+x). It is accurate also where x is so small that 1+x is 1.
func Log1p(x float64) float64 {
	u := 1 + x
	if u == 1 || math.IsInf(u, 1) {
		return x
	}
	// The second term is the part of x that 1+x has lost by rounding, times the derivative of the
	// logarithm.
	return Log(u) + (x-(u-1))/u
}

// Log2 returns the binary logarithm of x. It is exact for powers of two.
func Log2(x float64) float64 {
	m, e := math.Frexp(x)
	if m == 0.5 {
		return float64(e - 1)
	}
	return float64(Log(m)*(1/math.Ln2)) + float64(e)
}

// Pow returns xʸ for positive x. The relative error of the result is the absolute
// error of y·ln x, so it grows with the distance of the result from 1.
func Pow(x, y float64) float64 { return Exp(float64(y * Log(x))) }

// Mix is the finalizer of SplitMix64, a bijection: each bit of the result depends on all
// bits of x. Generators are seeded with it, so that neighbouring numbers draw differently.
func Mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
