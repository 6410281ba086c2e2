package bounds

import "maps"

// Pool counts the units of one resource that each user holds. It is not safe for concurrent use.
type Pool struct {
	total, used int64
	users       map[string]int64 // what each user holds; no entry is 0
}

// NewPool returns a pool of which nothing is held. A total that is not positive admits
// nothing.
func NewPool(total int64) *Pool { return &Pool{total: total, users: map[string]int64{}} }

// Share returns how much of a total a user may hold while the other users hold others: half
// of the rest, rounded up, so that the last unit of a small total can be used, too.
func Share(total, others int64) int64 { return (max(0, total-others) + 1) / 2 }

// Share returns how much the user may hold now.
func (p *Pool) Share(user string) int64 { return Share(p.total, p.used-p.users[user]) }

// Fits reports whether the user may take n more.
func (p *Pool) Fits(user string, n int64) bool { return p.users[user]+n <= p.Share(user) }

// Full reports whether the total leaves no room for n more, for any user.
func (p *Pool) Full(n int64) bool { return p.used+n > p.total }

// Take takes n more for a user and reports whether they fit. If not, it changes nothing.
func (p *Pool) Take(user string, n int64) bool {
	if !p.Fits(user, n) {
		return false
	}
	p.Add(user, n)
	return true
}

// Add counts n more for a user even if they do not fit, for state that exists already. A
// negative n gives back.
func (p *Pool) Add(user string, n int64) {
	p.used += n
	// Names come from outside and have no bound, so users who hold nothing take no memory.
	if p.users[user] += n; p.users[user] == 0 {
		delete(p.users, user)
	}
}

// Equal reports whether both pools have the same total, and their users hold the same.
func (p *Pool) Equal(q *Pool) bool {
	return p.total == q.total && p.used == q.used && maps.Equal(p.users, q.users)
}

// Held returns what the user holds.
func (p *Pool) Held(user string) int64 { return p.users[user] }

// Used returns what all users hold.
func (p *Pool) Used() int64 { return p.used }

// Total returns what there is.
func (p *Pool) Total() int64 { return p.total }
