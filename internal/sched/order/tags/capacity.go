package tags

// Limits splits slots among partitions in proportion to their shares, which sum
// to 1: each gets its share rounded down, and the slots left over go to the
// largest remainders, the first partition on a tie. A partition that comes away
// empty takes a slot from the largest one, since jobs would be stuck in it.
//
// With fewer slots than partitions there is nothing to split: then every
// partition may use all of them, and only the order of partitions counts.
//
//	6 slots, shares ¼ ¼ ½: 1½ 1½ 3 → 2 1 3
//	4 slots, shares 0.1 0.9: 0.4 3.6 → 0 4 → 1 3
func Limits(slots int, shares []float64) []int {
	limits := make([]int, len(shares))
	if slots < len(shares) {
		for k := range limits {
			limits[k] = slots
		}
		return limits
	}
	rest := make([]int, len(shares)) // in billionths, so that ties are ties
	left := slots
	for k, share := range shares {
		// The sliver makes 0.3 of 120 the 36 that is meant, not the 35 that a
		// binary fraction may give.
		raw := share * float64(slots)
		limits[k] = min(int(raw+1e-9), left)
		rest[k] = int(1e9*(raw-float64(limits[k])) + 0.5)
		left -= limits[k]
	}
	for ; left > 0; left-- {
		k := largest(rest)
		limits[k]++
		rest[k] -= 1e9
	}
	for k := range limits {
		if limits[k] == 0 {
			limits[largest(limits)]--
			limits[k]++
		}
	}
	return limits
}

// largest returns where the first of the largest values is.
func largest(values []int) int {
	at := 0
	for k, v := range values {
		if v > values[at] {
			at = k
		}
	}
	return at
}
