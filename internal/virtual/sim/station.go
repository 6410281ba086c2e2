package sim

import (
	"math"
	"time"
)

// station is a resource of a node that serves all its users at one rate.
//
// All users get the same rate, so one number describes their progress: v is how much a
// user has got that has been there from the start. A user that enters at v = x and wants
// the amount w is done when v reaches x+w, however often the rate changes in between. A
// change of the rate therefore costs O(1), however many users there are.
type station struct {
	rate   float64 // of each user, in units per second
	v      float64
	at     time.Duration // the time that v belongs to
	weight float64       // sum of the users' weights
	users  []user
}

// user is an attempt that uses a station until v reaches finish.
type user struct {
	finish  float64
	weight  float64 // load on the links between racks, per unit
	attempt int32
}

// never is later than any time that occurs.
const never = time.Duration(math.MaxInt64)

// advance updates v to a time. The explicit conversions here and below keep
// the compiler from fusing operations, which would round differently on some
// processors.
func (q *station) advance(now time.Duration) {
	if len(q.users) == 0 {
		q.v = 0 // a small v is exact
	} else if now > q.at {
		q.v += float64(q.rate * float64((now - q.at).Seconds()))
	}
	q.at = now
}

// enter adds a user. The caller must have advanced the station.
func (q *station) enter(attempt int32, amount, weight float64) {
	q.users = append(q.users, user{q.v + amount, weight, attempt})
	q.weight += weight
}

// leave removes a user that is not done. The caller must have advanced the station.
func (q *station) leave(attempt int32) {
	for i := range q.users {
		if q.users[i].attempt == attempt {
			q.remove(i)
			return
		}
	}
}

// remove removes a user. The order of the others does not matter; see take.
func (q *station) remove(i int) {
	last := len(q.users) - 1
	q.weight -= q.users[i].weight
	// take finds the least finish whatever the order, so no shift is needed.
	q.users[i] = q.users[last]
	q.users = q.users[:last]
	if last == 0 {
		q.weight = 0 // removes rounding errors
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
		// Events are at whole nanoseconds, so a user counts as done if it lacks at most
		// what two nanoseconds bring.
		if q.users[least].finish-q.v > float64(q.rate*2e-9) {
			break
		}
		out = append(out, q.users[least].attempt)
		q.remove(least)
	}
	return out
}

// next returns when the first user will be done at the current rate.
func (q *station) next() time.Duration {
	if len(q.users) == 0 || q.rate <= 0 {
		return never
	}
	least := math.Inf(1)
	for i := range q.users {
		least = min(least, q.users[i].finish)
	}
	// Rounded up: an event before the user is done would find no user done, and schedule itself again for ever.
	wait := math.Ceil(float64(float64(max(0, least-q.v)/q.rate) * 1e9))
	if wait >= float64(never-q.at) {
		return never
	}
	return q.at + time.Duration(wait)
}

// left returns how much a user still wants.
func (q *station) left(attempt int32, now time.Duration) float64 {
	v := q.v + float64(q.rate*float64(max(0, now-q.at).Seconds()))
	for i := range q.users {
		if q.users[i].attempt == attempt {
			return max(0, q.users[i].finish-v)
		}
	}
	return 0
}
