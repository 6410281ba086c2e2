package fair

import (
	"math"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/portable"
)

// Interval implements sched.Periodic.
func (f *Order) Interval() time.Duration { return f.cfg.UpdateInterval }

// Update implements sched.Periodic. If no decision depends on demands and shares
// of a certain time, they wait until someone asks.
func (f *Order) Update(now time.Duration) {
	if !f.cfg.StaleDemand && !f.cfg.SizeWeight && !f.cfg.Preempt {
		f.ended = f.ended[:0]
		return
	}
	f.update(now)
	if f.cfg.SizeWeight || f.cfg.StaleDemand {
		f.rankAll()
	}
	f.checkPreemption(now)
}

// update computes who may run, then demands, weights and shares, and notes which
// pools have what they are due. It costs the number of jobs, times the steps of
// the search for shares.
func (f *Order) update(now time.Duration) {
	f.ended = f.ended[:0]
	f.settle()
	if f.cfg.StaleDemand {
		f.admit()
	}
	f.share()
	if f.cfg.Preempt {
		f.updateClocks(now)
	}
}

// share computes demands, weights and shares.
func (f *Order) share() {
	for _, p := range f.pools {
		for k := range job.Kind(job.Kinds) {
			p.updateDemand(k)
		}
	}
	for _, x := range f.jobs {
		if x != nil {
			x.weigh(&f.cfg)
		}
	}
	for k := range job.Kind(job.Kinds) {
		f.updateShares(k)
	}
}

// updateDemand sums the demands of the jobs up to the pool's maximum. The jobs
// after it keep the demand that they had before, as in Hadoop.
func (p *pool) updateDemand(k job.Kind) {
	s := &p.side[k]
	s.demand = 0
	for _, x := range s.list {
		x.side[k].demand = x.demand(k)
		if s.demand += x.side[k].demand; s.demand >= p.limits.Max[k] {
			s.demand = p.limits.Max[k]
			break
		}
	}
}

// liveDemand is what the pool's demand would be if it were updated now.
func (p *pool) liveDemand(k job.Kind) (sum int) {
	for _, x := range p.side[k].list {
		sum += x.demand(k)
	}
	return min(sum, p.limits.Max[k])
}

// demand counts the tasks of a kind that run or could run.
func (x *member) demand(k job.Kind) int {
	if !x.runnable || !x.job.Open(k) {
		return 0
	}
	return x.job.Pending(k) + x.job.Running(k)
}

// weigh computes the job's weights.
func (x *member) weigh(cfg *Config) {
	for k := range x.side {
		s := &x.side[k]
		s.weight = 1
		if !x.runnable {
			continue
		}
		if cfg.SizeWeight {
			s.weight = portable.Log1p(float64(s.demand)) / math.Ln2
			if s.weight == 0 && !cfg.StaleDemand {
				s.weight = 1 // nothing to weigh, and nothing divided by zero
			}
		}
		s.weight *= priorityFactor(x.job.Priority())
	}
}

// updateShares computes the shares of pools, and of the jobs in each.
func (f *Order) updateShares(k job.Kind) {
	slots := 0
	if f.view != nil {
		slots = f.view.Nodes().Slots(k)
	}
	f.claims = f.claims[:0]
	for _, p := range f.pools {
		f.claims = append(f.claims, &p.side[k].claim)
	}
	shareOut(f.claims, float64(slots))
	for _, p := range f.pools {
		f.claims = f.claims[:0]
		for _, x := range p.side[k].list {
			if p.limits.FIFO {
				x.side[k].share = 0
			} else {
				f.claims = append(f.claims, &x.side[k].claim)
			}
		}
		shareOut(f.claims, p.side[k].share)
	}
}
