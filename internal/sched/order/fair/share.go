package fair

import "math"

// shareSteps is how often the interval of the ratio is halved.
const shareSteps = 25

// claim is what a pool or job has a right to, and what it gets.
type claim struct {
	weight float64
	min    int
	demand int
	share  float64
}

func (c *claim) at(ratio float64) float64 {
	return math.Min(math.Max(c.weight*ratio, float64(c.min)), float64(c.demand))
}

func total(claims []*claim, ratio float64) float64 {
	sum := 0.0
	for _, c := range claims {
		sum += c.at(ratio)
	}
	return sum
}

// shareOut is weighted max-min fairness with guaranteed minimums: each claim
// gets min(max(weight·R, min), demand) with the least R for which all together
// take the slots, or all that is wanted. R is found as Hadoop 1.2.1 finds it,
// so that shares equal Hadoop's to the last bit.
func shareOut(claims []*claim, slots float64) {
	wanted := 0.0
	for _, c := range claims {
		wanted += float64(c.demand)
	}
	limit := math.Min(wanted, slots)
	right := 1.0
	for total(claims, right) < limit && !math.IsInf(right, 1) {
		right *= 2
	}
	left := 0.0
	for range shareSteps {
		if mid := (left + right) / 2; total(claims, mid) < limit {
			left = mid
		} else {
			right = mid
		}
	}
	for _, c := range claims {
		c.share = c.at(right)
	}
}
