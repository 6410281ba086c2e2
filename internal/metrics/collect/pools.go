package collect

import (
	"cmp"
	"time"

	"github.com/slotwise/slotwise/internal/metrics"
	"github.com/slotwise/slotwise/internal/workload"
)

// pools counts the slots that pools hold. A pool takes part in the comparison
// while it has live jobs, which have running or pending tasks.
type pools struct {
	of      []int32 // pool of each job
	pool    []pool
	balance metrics.Balance
}

type pool struct{ held, live int }

// init finds the pools: a job's own, or else its user's, or else the default
// pool, as the tracker has it.
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

// PoolOf is the pool that the tracker puts a job in.
func PoolOf(j *workload.Job) string { return cmp.Or(j.Pool, j.User, "default") }

func (p *pools) submitted(now time.Duration, i int) {
	q := &p.pool[p.of[i]]
	if q.live++; q.live == 1 {
		p.balance.Join(now, q.held)
	}
}

func (p *pools) ended(now time.Duration, i int) {
	q := &p.pool[p.of[i]]
	if q.live--; q.live == 0 {
		p.balance.Leave(now, q.held)
	}
}

func (p *pools) hold(now time.Duration, i, by int) {
	q := &p.pool[p.of[i]]
	if q.live > 0 {
		p.balance.Change(now, q.held, q.held+by)
	}
	q.held += by
}
