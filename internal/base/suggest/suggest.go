// Package suggest finds the name that the user of a misspelt name most likely meant.
// Error messages use it for commands, flags, apps, policies and their
// parameters.
package suggest

import "strings"

// Nearest returns the candidate that name most likely misspells, or "" if none
// is close enough. A name of at least three letters also matches a candidate
// that begins with it. Upper and lower case are equal. The first of equally
// close candidates wins.
func Nearest(name string, candidates []string) string {
	// A third of the letters may be wrong. That covers one mistake in a short
	// word and two in a long one, but does not turn one word into another.
	best, limit := "", max(1, len(name)/3)
	name = strings.ToLower(name)
	for _, c := range candidates {
		low := strings.ToLower(c)
		d := distance(name, low)
		if d <= limit {
			// From here on a candidate must be closer, so the first of equals wins, whatever its length.
			best, limit = c, d-1
		} else if best == "" && len(name) >= 3 && strings.HasPrefix(low, name) {
			best = c
		}
	}
	return best
}

// distance returns the number of bytes to insert, delete, replace or swap with
// a neighbour to turn a into b.
func distance(a, b string) int {
	prev2, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	// From the empty beginning of a, each byte of b is an insertion.
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			// a swap of neighbours
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		// Three rows take turns: a swap looks back two rows, and no cell further.
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(b)]
}
