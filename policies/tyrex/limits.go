package tyrex

// Limits splits slots among partitions in proportion to their shares, which sum
// to 1. Each partition gets its share rounded down, and the remaining slots go
// to the largest remainders, to the first partition on a tie. A partition
// without a slot gets one from the largest partition, because its jobs could
// not run otherwise.
//
// With fewer slots than partitions every partition may use all slots, and only
// the order of the partitions counts.
//
//	6 slots, shares ¼ ¼ ½: 1½ 1½ 3 → 2 1 3
//	4 slots, shares 0.1 0.9: 0.4 3.6 → 0 4 → 1 3
func Limits(slots int, shares []float64) []int {
	limits := make([]int, len(shares))
	// Reading 15 in README.md: nodes come and go, so a cluster that is too small to split for a
	// while is no error.
	if slots < len(shares) {
		for k := range limits {
			limits[k] = slots
		}
		return limits
	}
	rest := make([]int, len(shares)) // in billionths, so that equal remainders compare as equal
	left := slots
	for k, share := range shares {
		// The 1e-9 makes 0.3 of 120 the intended 36; binary fractions may give 35.
		raw := share * float64(slots)
		// Shares may add up to a little more than 1: check allows an error of 1e-6.
		limits[k] = min(int(raw+1e-9), left)
		rest[k] = int(1e9*(raw-float64(limits[k])) + 0.5)
		left -= limits[k]
	}
	for ; left > 0; left-- {
		k := indexOfLargest(rest)
		limits[k]++
		// A partition can get more than one of the remaining slots only if shares add up to less than 1.
		rest[k] -= 1e9
	}
	for k := range limits {
		if limits[k] == 0 {
			// There are at least as many slots as partitions here, so while one has none, another has two.
			limits[indexOfLargest(limits)]--
			limits[k]++
		}
	}
	return limits
}

// indexOfLargest returns the index of the largest value, the first on a tie.
func indexOfLargest(values []int) int {
	at := 0
	for k, v := range values {
		if v > values[at] {
			at = k
		}
	}
	return at
}
