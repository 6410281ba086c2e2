package metrics

import (
	"math"

	"github.com/slotwise/slotwise/sched/portable"
)

// twoSided returns the probability that the absolute value of Student's t with freedom ≥ 1
// degrees of freedom exceeds t ≥ 0. It is the incomplete beta function I_x(freedom/2, 1/2) at
// x = freedom/(freedom + t²) (Abramowitz and Stegun 26.7.1). Small probabilities keep their digits.
func twoSided(t float64, freedom int) float64 { return exceeds(t, freedom, gammaRatio(freedom)) }

// student returns the quantile t of Student's distribution such that ±t has probability
// level, 0 < level < 1.
func student(level float64, freedom int) float64 {
	ratio, low, high := gammaRatio(freedom), 0., 1.
	below := func(t float64) bool { return exceeds(t, freedom, ratio) > 1-level }
	// Few degrees of freedom have long tails: with 1 and 99.9 % the quantile is above 600. Doubling finds a
	// bound for any level.
	for below(high) {
		low, high = high, 2*high
	}
	// A closed form exists for 1, 2 and 4 degrees of freedom only, and bisection ends at the same float on
	// each machine.
	return bisect(low, high, below)
}

// bisect returns the number between low and high up to which below is true. It ends when no number is
// between the bounds, after some sixty halvings.
func bisect(low, high float64, below func(float64) bool) float64 {
	for {
		// Not (low+high)/2, which overflows for large bounds.
		x := low + (high-low)/2
		switch {
		// The bounds are neighbours: the middle is rounded to a bound, and further halving changes
		// nothing. A fixed tolerance would be too coarse for small quantiles or never be met for large
		// ones.
		case x <= low || x >= high:
			return x
		case below(x):
			low = x
		default:
			high = x
		}
	}
}

// gammaRatio returns Γ((n+1)/2) / (Γ(n/2)·√π) for n ≥ 1, by its recurrence in steps of two.
func gammaRatio(n int) float64 {
	// Γ(1)/(Γ(½)·√π) = 1/π for n = 1, and Γ(3/2)/(Γ(1)·√π) = ½ for n = 2.
	r := 1 / math.Pi
	if n%2 == 0 {
		r = 0.5
	}
	// Each step multiplies a factor near 1. The gamma functions themselves overflow from n = 343 on, and
	// differences of their logarithms lose digits.
	for k := 2 - n%2; k < n; k += 2 {
		r *= float64(k+1) / float64(k)
	}
	return r
}

// exceeds is twoSided with the ratio of the gamma functions.
func exceeds(t float64, freedom int, ratio float64) float64 {
	switch {
	// Both limits are exact here. With the general formula the fraction below is evaluated at the edge of
	// its domain.
	case t == 0:
		return 1
	case math.IsInf(t, 1):
		return 0
	}
	n := float64(freedom)
	// With x = 1/(1 + t²/n), 1 − x is square·x: written so, it keeps its digits when t is small, where a
	// subtraction from 1 would lose them.
	square := float64(t*t) / n
	x, a := 1/(1+square), n/2
	// x^a · (1 − x)^½ · Γ(a+½)/(Γ(a)·Γ(½)), the factor before both fractions
	front := portable.Exp(-a*portable.Log1p(square)) * math.Sqrt(square*x) * ratio
	// The fraction converges fast only for small x. Beyond, the complement is the small one.
	if x < (a+1)/(a+2.5) {
		return min(1, front*betaFraction(x, a, 0.5)/a)
	}
	return max(0, 1-2*front*betaFraction(square*x, 0.5, a))
}

// betaFraction returns the continued fraction of the incomplete beta function I_x(a, b)
// (Abramowitz and Stegun 26.5.8) by the method of Lentz, which evaluates it from the front.
func betaFraction(x, a, b float64) float64 {
	const tiny = 1e-300 // instead of a denominator of 0
	nonzero := func(v float64) float64 {
		if math.Abs(v) < tiny {
			return tiny
		}
		return v
	}
	c, d := 1., 1/nonzero(1-(a+b)*x/(a+1))
	f := d
	for m := 1.; ; m++ {
		for _, term := range [2]float64{
			// The coefficients alternate: d of even index, then d of odd index (Abramowitz and Stegun
			// 26.5.8).
			m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m)),
			-(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1)),
		} {
			d = 1 / nonzero(1+float64(term*d))
			c = nonzero(1 + term/c)
			f *= c * d
		}
		// The last factor was 1 but for the rounding, so further ones change nothing.
		if math.Abs(c*d-1) < 1e-15 {
			return f
		}
	}
}

// farNormal is where the probability of a standard normal value differs from 0 or 1 by less than a
// float64 near 1 can show.
const farNormal = 8.3

// normalCDF returns the probability that a standard normal value is below x, with an error below 1e-15
// (Marsaglia, Evaluating the Normal Distribution, 2004).
func normalCDF(x float64) float64 {
	if math.Abs(x) > farNormal {
		return max(0, math.Copysign(1, x))
	}
	sum, term := 0., x
	// Until the terms vanish in the sum: the number of terms grows with x, to about a hundred at farNormal.
	for k := 3.; sum+term != sum; k += 2 {
		sum += term
		term *= x * x / k
	}
	return 0.5 + float64(sum*portable.Exp(-x*x/2))/math.Sqrt(2*math.Pi)
}

// normalQuantile returns the x of which normalCDF is p, 0 < p < 1.
func normalQuantile(p float64) float64 {
	return bisect(-farNormal, farNormal, func(x float64) bool { return normalCDF(x) < p })
}
