package tags

import (
	"math/bits"
	"slices"
)

// maxSize bounds a size, in milliseconds, so that no sum of squares overflows:
// 2³⁸ ms is 8 years of task time.
const maxSize = 1 << 38

// u128 is an unsigned sum of products. Sums of squares are kept exactly, because
// values come and go for the whole life of a master and floating point would
// drift, and because ties decide.
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

// float rounds twice, to a relative error below 2⁻⁵².
func (a u128) float() float64 { return float64(float64(a.hi)*(1<<64)) + float64(a.lo) }

// sample is a multiset of sizes in milliseconds, with its moments: adding and
// removing costs a binary search and a move of memory, and the variability is
// there at once.
type sample struct {
	values []int64 // rising
	sum    int64
	square u128
}

func (s *sample) add(x int64) {
	at, _ := slices.BinarySearch(s.values, x)
	s.values = slices.Insert(s.values, at, x)
	s.sum += x
	s.square = s.square.plus(mul(x, x))
}

// remove takes out a value that is there.
func (s *sample) remove(x int64) {
	at, _ := slices.BinarySearch(s.values, x)
	s.values = slices.Delete(s.values, at, at+1)
	s.sum -= x
	s.square = s.square.minus(mul(x, x))
}

// sliver is the relative error that comparisons forgive, so that what is equal
// on paper is equal. Products only are rounded, so the result is the same on all
// machines.
const sliver = 1e-9

// exceeds reports whether CV² > limit, where CV² = σ²/μ² with the population
// variance: n·Σx² > (1+limit)·(Σx)². Samples without variance, empty ones and
// those of zeros have 0.
func (s *sample) exceeds(limit float64) bool {
	n, sum := float64(len(s.values)), float64(s.sum)
	return n*s.square.float() > (1+limit)*(1+sliver)*sum*sum
}

// cv2 is the squared coefficient of variation, for people.
func (s *sample) cv2() float64 {
	if s.sum == 0 {
		return 0
	}
	n, sum := float64(len(s.values)), float64(s.sum)
	return max(0, n*s.square.float()/(sum*sum)-1)
}
