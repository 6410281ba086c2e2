package collect

import (
	"cmp"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/metrics"
	"github.com/slotwise/slotwise/internal/virtual/workload"
)

// pools counts the slots that each pool holds. A pool takes part in the balance
// while it has live jobs.
type pools struct {
	of      []int32 // pool of each job
	pool    []pool
	balance metrics.Balance
}

// pool counts the slots and the live jobs of one pool.
type pool struct{ held, live int }

// init assigns each job its pool by the tracker's rule; see PoolOf.
func (p *pools) init(jobs []workload.Job) {
	index := make(map[string]int32)
	p.of = make([]int32, len(jobs))
	for i := range jobs {
		name := PoolOf(&jobs[i])
		at, known := index[name]
		if !known {
			at = int32(len(index))
			index[name] = at
		}
		p.of[i] = at
	}
	p.pool = make([]pool, len(index))
}

// PoolOf returns the pool that the tracker assigns to a job: the job's own,
// else its user's, else the default one.
func PoolOf(j *workload.Job) string { return cmp.Or(j.Pool, j.User, "default") }

// submitted counts a live job of a pool.
func (p *pools) submitted(now time.Duration, i int) {
	q := &p.pool[p.of[i]]
	// With its slots from before: attempts of earlier jobs may still occupy some.
	if q.live++; q.live == 1 {
		p.balance.Join(now, q.held)
	}
}

// ended removes a live job from its pool.
func (p *pools) ended(now time.Duration, i int) {
	q := &p.pool[p.of[i]]
	if q.live--; q.live == 0 {
		p.balance.Leave(now, q.held)
	}
}

// hold adds by to the slots that a job's pool holds.
func (p *pools) hold(now time.Duration, i, by int) {
	q := &p.pool[p.of[i]]
	// Outside the balance the count continues, so that the pool joins again with the right value.
	if q.live > 0 {
		p.balance.Change(now, q.held, q.held+by)
	}
	q.held += by
}
