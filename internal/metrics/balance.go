package metrics

import "time"

// Balance is DynamicMR's measure of an uneven division, the time average of a
// sum of squared deviations (appendix E and F):
//
//	(1/t) ∫₀ᵗ Σᵢ (xᵢ(τ) − x̄(τ))² dτ
//
// With xᵢ the running tasks of node i it is UnbalancedDegree, with xᵢ the slots
// that pool i holds UnfairnessDegree. The sum is not divided by the number of
// members; "average" is over time. The paper defines fairness over pools with
// demand, so a pool that wants nothing is to be taken out.
//
// Σ (xᵢ − x̄)² = Σxᵢ² − (Σxᵢ)²/n, so a change costs O(1), however many members
// there are. All counts are integers: nothing is lost to rounding but in the
// integral. The zero value has no members.
type Balance struct {
	n, sum, squares int64
	at              time.Duration
	area            float64 // ∫ so far, in seconds
}

// Join adds a member with a value.
func (b *Balance) Join(now time.Duration, x int) { b.pass(now); b.put(1, x) }

// Leave takes a member away that has the value x.
func (b *Balance) Leave(now time.Duration, x int) { b.pass(now); b.put(-1, x) }

// Change moves a member from one value to another.
func (b *Balance) Change(now time.Duration, from, to int) {
	b.pass(now)
	b.put(-1, from)
	b.put(1, to)
}

func (b *Balance) put(sign int64, x int) {
	b.n += sign
	b.sum += sign * int64(x)
	b.squares += sign * int64(x) * int64(x)
}

// pass lets time go by.
func (b *Balance) pass(now time.Duration) {
	if now > b.at {
		b.area += float64(b.deviation() * (now - b.at).Seconds())
		b.at = now
	}
}

func (b *Balance) deviation() float64 {
	if b.n == 0 {
		return 0
	}
	// n·Σx² − (Σx)² is a whole number.
	return float64(b.n*b.squares-b.sum*b.sum) / float64(b.n)
}

// Restart forgets the integral so far: the average counts from now on.
func (b *Balance) Restart(now time.Duration) { b.pass(now); b.area = 0 }

// Degree is the average from start, when Restart was called last or 0, to now;
// 0 if no time has passed.
func (b *Balance) Degree(start, now time.Duration) float64 {
	b.pass(now)
	if now <= start {
		return 0
	}
	return b.area / (now - start).Seconds()
}

// Hold lets a span of time go by in which the members have these values, for who
// knows all of them at any time. It is not to be mixed with Join, Leave and Change.
func (b *Balance) Hold(values []int, span time.Duration) {
	b.n, b.sum, b.squares = 0, 0, 0
	for _, x := range values {
		b.put(1, x)
	}
	b.pass(b.at + span)
}

// Value is the average over all time so far, 0 if there was none.
func (b *Balance) Value() float64 { return b.Degree(0, b.at) }
