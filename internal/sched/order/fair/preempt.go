package fair

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/job"
)

// updateClocks notes for each pool that it is not starved now.
func (f *Order) updateClocks(now time.Duration) {
	for _, p := range f.pools {
		for k := range p.side {
			s := &p.side[k]
			if s.running >= min(s.min, s.demand) {
				s.atMin = now
			}
			if s.running >= int(math.Floor(math.Min(s.share/2, float64(s.demand)))) {
				s.atHalf = now
			}
		}
	}
}

// Starving reports whether the job's pool has run too few maps for too long, so
// that its jobs should not wait for better slots. Without preemption nobody
// says how long is too long, so nobody starves.
func (f *Order) Starving(j *job.Job, now time.Duration) bool {
	if !f.cfg.Preempt {
		return false
	}
	p := f.jobs[j.Seat()].pool
	s := &p.side[job.Map]
	return now-s.atMin > p.limits.MinTimeout || now-s.atHalf > f.cfg.Pools.FairTimeout
}

// checkPreemption chooses what to kill, at most once in PreemptInterval.
func (f *Order) checkPreemption(now time.Duration) {
	if !f.cfg.Preempt || now-f.checked < f.cfg.PreemptInterval || len(f.victims) > 0 {
		return
	}
	f.checked = now
	for k := range job.Kind(job.Kinds) {
		want := 0
		for _, p := range f.pools {
			want += p.missing(k, now, f.cfg.Pools.FairTimeout)
		}
		if want > 0 {
			f.choose(k, want)
		}
	}
}

// missing is how many slots the pool may demand of others.
func (p *pool) missing(k job.Kind, now, fairTimeout time.Duration) int {
	s, target := &p.side[k], 0
	if now-s.atMin > p.limits.MinTimeout {
		target = min(s.min, s.demand)
	}
	if now-s.atHalf > fairTimeout {
		target = max(target, int(math.Min(s.share, float64(s.demand))))
	}
	return max(0, target-s.running)
}

// choose takes the newest tasks of pools above their fair share, and never so
// many that a pool falls below it. A task that no node has reported yet is left
// alone: it may not have started.
func (f *Order) choose(k job.Kind, want int) {
	var tasks []*job.Attempt
	left := make(map[*pool]int)
	for _, p := range f.pools {
		s := &p.side[k]
		if left[p] = s.running; float64(s.running) <= s.share {
			continue
		}
		for _, x := range s.list {
			for a := x.job.Oldest(k); a != nil; a = a.Next() {
				if a.Reported() {
					tasks = append(tasks, a)
				}
			}
		}
	}
	slices.SortStableFunc(tasks, func(a, b *job.Attempt) int {
		return cmp.Or(cmp.Compare(b.Started(), a.Started()), cmp.Compare(b.Seq(), a.Seq()))
	})
	for _, a := range tasks {
		p := f.jobs[a.Job().Seat()].pool
		if want == 0 {
			return
		}
		if float64(left[p]) > p.side[k].share {
			f.victims = append(f.victims, a)
			left[p]--
			want--
		}
	}
}

// Preempt implements sched.Preempter.
func (f *Order) Preempt(time.Duration) []*job.Attempt {
	v := f.victims
	f.victims = nil
	return v
}
