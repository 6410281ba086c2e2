package sim

import (
	"math"
	"time"
)

// station is a resource of a node that serves all its users at one rate.
//
// Since all get the same, it is enough to keep how much each user that was there
// from the start would have got, v: one that comes when v is x and wants w is
// done when v reaches x+w, however often the rate changes in between. So a
// change costs O(1), whoever is there.
type station struct {
	rate   float64 // for each user, units a second
	v      float64
	at     time.Duration // when v was right
	weight float64       // sum over the users
	users  []user
}

// user is an attempt that uses a station until v reaches finish.
type user struct {
	finish  float64
	weight  float64 // what it weighs on the links above, per unit
	attempt int32
}

// never is later than any time that occurs.
const never = time.Duration(math.MaxInt64)

// advance brings v up to a time. The explicit conversions here and below keep
// the compiler from fusing operations, which would round differently on some
// processors.
func (q *station) advance(now time.Duration) {
	if len(q.users) == 0 {
		q.v = 0 // keeps v small and so exact
	} else if now > q.at {
		q.v += float64(q.rate * float64((now - q.at).Seconds()))
	}
	q.at = now
}

// enter adds a user. The station must have been advanced.
func (q *station) enter(attempt int32, amount, weight float64) {
	q.users = append(q.users, user{q.v + amount, weight, attempt})
	q.weight += weight
}

// leave removes a user that is not done. The station must have been advanced.
func (q *station) leave(attempt int32) {
	for i := range q.users {
		if q.users[i].attempt == attempt {
			q.remove(i)
			return
		}
	}
}

func (q *station) remove(i int) {
	last := len(q.users) - 1
	q.weight -= q.users[i].weight
	q.users[i] = q.users[last]
	q.users = q.users[:last]
	if last == 0 {
		q.weight = 0 // no rest of rounding
	}
}

// take removes the users that are done and appends them to out, in order of
// completion, then of attempt.
func (q *station) take(out []int32) []int32 {
	for len(q.users) > 0 {
		least := 0
		for i := range q.users {
			u, l := &q.users[i], &q.users[least]
			if u.finish < l.finish || u.finish == l.finish && u.attempt < l.attempt {
				least = i
			}
		}
		// Events are at whole nanoseconds, so one is done up to what two of
		// them bring.
		if q.users[least].finish-q.v > float64(q.rate*2e-9) {
			break
		}
		out = append(out, q.users[least].attempt)
		q.remove(least)
	}
	return out
}

// next is when the first user will be done at the current rate.
func (q *station) next() time.Duration {
	if len(q.users) == 0 || q.rate <= 0 {
		return never
	}
	least := math.Inf(1)
	for i := range q.users {
		least = min(least, q.users[i].finish)
	}
	wait := math.Ceil(float64(float64(max(0, least-q.v)/q.rate) * 1e9))
	if wait >= float64(never-q.at) {
		return never
	}
	return q.at + time.Duration(wait)
}

// left is how much a user still wants.
func (q *station) left(attempt int32, now time.Duration) float64 {
	v := q.v + float64(q.rate*float64(max(0, now-q.at).Seconds()))
	for i := range q.users {
		if q.users[i].attempt == attempt {
			return max(0, q.users[i].finish-v)
		}
	}
	return 0
}
