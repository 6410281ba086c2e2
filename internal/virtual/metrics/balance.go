package metrics

import "time"

// Balance computes DynamicMR's measure of an uneven division: the time average
// of a sum of squared deviations (appendix E and F).
//
//	(1/t) ∫₀ᵗ Σᵢ (xᵢ(τ) − x̄(τ))² dτ
//
// With xᵢ the running tasks of node i the result is UnbalancedDegree; with xᵢ
// the slots that pool i holds it is UnfairnessDegree. The sum is not divided by
// the number of members: "average" refers to time. The paper defines fairness
// over pools with demand, so a pool without demand must leave.
//
// Σ (xᵢ − x̄)² = Σxᵢ² − (Σxᵢ)²/n, so a change costs O(1) for any number of
// members. All counts are integers, so that only the integral is subject to
// rounding. The zero value has no members.
type Balance struct {
	n, sum, squares int64
	at              time.Duration
	area            float64 // ∫ so far, in seconds
}

// Join adds a member with value x.
func (b *Balance) Join(now time.Duration, x int) { b.pass(now); b.put(1, x) }

// Leave removes a member whose value is x.
func (b *Balance) Leave(now time.Duration, x int) { b.pass(now); b.put(-1, x) }

// Change replaces the value of one member.
func (b *Balance) Change(now time.Duration, from, to int) {
	b.pass(now)
	b.put(-1, from)
	b.put(1, to)
}

// put adds a member with value x, or removes it if sign is -1.
func (b *Balance) put(sign int64, x int) {
	b.n += sign
	b.sum += sign * int64(x)
	b.squares += sign * int64(x) * int64(x)
}

// pass integrates from the last change to now.
func (b *Balance) pass(now time.Duration) {
	// Several events share a moment. Between them no time passes, and only the values after the last one
	// hold for a while.
	if now > b.at {
		// The conversion keeps the compiler from fusing the product with the sum: processors that can would
		// round otherwise, and reports are compared byte by byte.
		b.area += float64(b.deviation() * (now - b.at).Seconds())
		b.at = now
	}
}

// deviation returns the current sum of squared deviations.
func (b *Balance) deviation() float64 {
	if b.n == 0 {
		return 0
	}
	// n·Σx² − (Σx)² is a whole number.
	return float64(b.n*b.squares-b.sum*b.sum) / float64(b.n)
}

// Restart discards the integral, so that the average begins at now.
func (b *Balance) Restart(now time.Duration) { b.pass(now); b.area = 0 }

// Degree returns the average from start to now. start must be the time of the
// last Restart, or 0 without one. Degree is 0 if no time has passed.
func (b *Balance) Degree(start, now time.Duration) float64 {
	b.pass(now)
	if now <= start {
		return 0
	}
	return b.area / (now - start).Seconds()
}

// Hold integrates over a span in which the members have these values. It serves
// callers that know all values at any time; do not mix it with Join, Leave and
// Change.
func (b *Balance) Hold(values []int, span time.Duration) {
	b.n, b.sum, b.squares = 0, 0, 0
	for _, x := range values {
		b.put(1, x)
	}
	// After the values are set, unlike in the methods for events: they hold for the span that begins now.
	b.pass(b.at + span)
}

// Value returns the average over all spans given to Hold, 0 if there were none.
func (b *Balance) Value() float64 { return b.Degree(0, b.at) }
