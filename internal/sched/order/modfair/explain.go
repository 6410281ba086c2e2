package modfair

import (
	"fmt"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/sched"
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

// Explain implements sched.Explainer: which pool the job is served from and what
// the pool is entitled to, and what locality has made of the job's priority.
func (o *Order) Explain(j *job.Job, k job.Kind, _ time.Duration) string {
	m := o.bySeat[j.Seat()]
	if j.State().Final() || m == nil || m.job != j {
		return ""
	}
	s, text := &m.at.side[k], ""
	switch {
	case m.at.shared:
		text = fmt.Sprintf("as one of the smallest jobs it is served ahead of others, with up to %d %ss of such jobs at a time",
			o.sharedQuota(k), k)
	case o.cfg.Allocate && s.running < s.quota:
		text = fmt.Sprintf("pool %q runs %d of the %d %ss that it is entitled to", m.at.name, s.running, s.quota, k)
	case o.cfg.Allocate:
		text = fmt.Sprintf("pool %q runs %d %ss, no fewer than it is entitled to (%d), so that pools below that come first",
			m.at.name, s.running, k, s.quota)
	default:
		text = fmt.Sprintf("pool %q runs %d %ss", m.at.name, s.running, k)
	}
	if m.priority != j.Priority() {
		text += fmt.Sprintf("; its priority %v counts as %v now, because of how close its last maps ran to their data",
			j.Priority(), m.priority)
	}
	return text
}
