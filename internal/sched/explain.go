package sched

import "github.com/slotwise/slotwise/internal/job"

// Why says why a job gets no task of a kind now. What the state itself tells
// comes first, then the last note of a round, then the place in the order. It
// costs a walk through the order; nothing is kept for it.
func Why(v *View, p Policy, l *Ledger, j *job.Job, k job.Kind) Reason {
	switch slots := v.nodes.Slots(job.Map) + v.nodes.Slots(job.Reduce); {
	case j.State().Final():
		return Reason{Code: Ended}
	case j.Pending(k) == 0:
		return Reason{Code: NoPending, Have: j.Active(k)}
	case !j.Open(k):
		return Reason{Code: SlowStart, Have: j.Done(job.Map), Need: j.Gate()}
	case slots == 0:
		return Reason{Code: NoNode}
	}
	if r := behind(v, p, j, k); r.Code == Behind {
		return r
	}
	if r, _ := l.Last(j, k); r.Code != NoReason {
		return r
	}
	if all := v.nodes.Slots(k); all > 0 && used(v, k) >= all {
		return Reason{Code: NoSlot, Need: all}
	}
	return Reason{Code: NotYet}
}

func used(v *View, slot job.Kind) int {
	return v.jobs.RunningOn(job.Map, slot) + v.jobs.RunningOn(job.Reduce, slot)
}

// behind finds the place of a job among those that can launch a task of the
// kind, as the order would serve them on the first live node.
func behind(v *View, p Policy, j *job.Job, k job.Kind) Reason {
	c, ok := p.(*Composition)
	if !ok {
		return Reason{}
	}
	r := &Round{View: v, ledger: &Ledger{}}
	for _, n := range v.nodes.All() {
		if n.Alive() {
			r.node = n
			break
		}
	}
	if r.node == nil {
		return Reason{}
	}
	ahead, all, seen, last := 0, 0, false, job.ID(0)
	c.Order.Each(r, Offer{Kind: k, Slot: k, NoCopies: true}, func(cand Candidate) bool {
		if cand.Kind != k || !cand.Job.Launchable(k) {
			return true
		}
		all++
		switch {
		case cand.Job == j:
			seen = true
		case !seen:
			ahead++
			last = cand.Job.ID()
		}
		return true
	})
	if !seen || ahead == 0 {
		return Reason{}
	}
	return Reason{Code: Behind, Have: ahead, Need: all, Job: last}
}
