package modfair

import (
	"fmt"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// Held implements sched.Holder: a full pool holds all its jobs back, also those
// that a round never gets to.
func (o *Order) Held(j *job.Job, k job.Kind) sched.Reason {
	m := o.bySeat[j.Seat()]
	run := m.at.side[k].running
	switch {
	case m.at.shared && !o.sharedOpen(k):
		return sched.Reason{Code: sched.PartitionFull, Pool: m.at.name, Have: run, Need: o.sharedQuota(k)}
	case !m.at.shared && !o.mayBorrow(m.at, k):
		return sched.Reason{Code: sched.PoolFull, Pool: m.at.name, Have: run, Need: m.at.max(k)}
	}
	return sched.Reason{}
}

// Explain implements sched.Explainer: what the pool that serves the job is
// entitled to, unless Held says all, and what locality has made of the job's
// priority.
func (o *Order) Explain(j *job.Job, k job.Kind, _ time.Duration) string {
	if !j.Launchable(k) {
		return ""
	}
	m := o.bySeat[j.Seat()]
	text := ""
	if o.Held(j, k).Code == sched.NoReason {
		text = o.standing(m.at, k)
	}
	if m.priority != j.Priority() {
		if text != "" {
			text += "; "
		}
		text += fmt.Sprintf("its priority %v counts as %v now, because of how close its last maps ran to their data",
			j.Priority(), m.priority)
	}
	return text
}

// standing says how a pool that may launch stands among others.
func (o *Order) standing(p *pool, k job.Kind) string {
	s := &p.side[k]
	switch {
	case p.shared:
		return "as one of the smallest jobs it is served ahead of the others"
	case !o.cfg.Allocate || s.quota == 0:
		return ""
	case s.running < s.quota:
		return fmt.Sprintf("pool %q runs %d of the %d %ss that it is entitled to", p.name, s.running, s.quota, k)
	}
	return fmt.Sprintf("pool %q runs %d %ss, no fewer than the %d that it is entitled to, so that pools short of theirs come first",
		p.name, s.running, k, s.quota)
}
