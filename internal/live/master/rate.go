package master

import (
	"sync"
	"time"
)

// The rate at which one user may submit jobs and chains: submitBurst at once, and
// submitsPerSecond in the long run.
const (
	// A script that submits all jobs of a night at once is served without a pause.
	submitBurst      = 2000
	submitsPerSecond = 50
)

// submitRates limits each user's submissions by a token bucket, so that one user cannot
// keep the master's journal busy. The zero value is ready to use.
type submitRates struct {
	mu struct {
		sync.Mutex
		users map[string]bucket
	}
}

// bucket counts the submissions that remain to a user. A user without a bucket has a full
// one.
type bucket struct {
	left float64
	at   time.Time
}

// manyBuckets is the number of buckets from which full ones are removed.
const manyBuckets = 10_000

// allow reports whether a user may submit a job now, and counts it.
func (r *submitRates) allow(user string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.users == nil {
		r.mu.users = map[string]bucket{}
	}
	b, known := r.mu.users[user]
	if !known {
		// A full bucket says the same as none.
		if len(r.mu.users) >= manyBuckets {
			r.removeFullLocked(now)
		}
		b = bucket{submitBurst, now}
	}
	b = b.filled(now)
	// The refused try costs nothing, so a client that tries again and again gets its jobs in at
	// submitsPerSecond.
	if b.left < 1 {
		return false
	}
	b.left--
	r.mu.users[user] = b
	return true
}

// filled returns the bucket at a later time.
func (b bucket) filled(now time.Time) bucket {
	// max, because calls of one user may arrive here in another order than they have read the clock.
	return bucket{min(submitBurst, b.left+submitsPerSecond*max(0, now.Sub(b.at).Seconds())), now}
}

// removeFullLocked removes the buckets of users who have not submitted lately.
func (r *submitRates) removeFullLocked(now time.Time) {
	//house:sorted each bucket is looked at for itself
	for user, b := range r.mu.users {
		if b.filled(now).left >= submitBurst {
			delete(r.mu.users, user)
		}
	}
}
