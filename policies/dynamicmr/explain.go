package dynamicmr

import (
	"fmt"
	"time"

	"github.com/slotwise/slotwise/policies/hadoop"
	"github.com/slotwise/slotwise/sched/job"
)

// Explain implements sched.Explainer: it describes how lending and the balance
// line affect the wait.
func (d *DHSA) Explain(j *job.Job, k job.Kind, _ time.Duration) string {
	if d.view == nil || !j.Launchable(k) {
		return ""
	}
	other := k.Other()
	total, used := d.view.Nodes().Slots(k), d.used(k)
	idle := d.view.Nodes().Slots(other) - d.used(other)
	switch {
	case k == job.Reduce && d.cfg.Early == hadoop.EarlyOff && !j.MapsDone():
		return fmt.Sprintf("reduces start when all maps of the job are done, and %d are not", j.Unfinished(job.Map))
	case used < total && d.allBusy(k):
		return fmt.Sprintf("%s free, but on machines that already run their share of the load", slotsAre(total-used, k))
	case used < total:
		return ""
	case idle > 0 && d.quota(other) == 0:
		return fmt.Sprintf("%s idle, but none may run %ss", slotsAre(idle, other), k)
	case idle > 0 && !d.MayLend(other):
		return fmt.Sprintf("%s idle, but only %d may run %ss at once, and they do", slotsAre(idle, other), d.quota(other), k)
	case idle > 0 && k == job.Reduce && !j.MapsDone() && !d.mayWait(job.Map):
		return fmt.Sprintf("%s idle but kept for maps: a reduce would wait there for maps of the job, %d of which are not done",
			slotsAre(idle, other), j.Unfinished(job.Map))
	case d.lent(k) > 0:
		return fmt.Sprintf("%s lent to %ss, which give them back when they end", slotsAre(d.lent(k), k), other)
	}
	return ""
}

// slotsAre returns a phrase such as "3 map slots are".
func slotsAre(n int, k job.Kind) string {
	if n == 1 {
		return fmt.Sprintf("1 %s slot is", k)
	}
	return fmt.Sprintf("%d %s slots are", n, k)
}

// allBusy reports whether every node with a free slot of the kind already runs
// its share of the load. It visits all nodes, and only explanations call it.
func (d *DHSA) allBusy(k job.Kind) bool {
	lines, extra := new(independent).lines(d, d.view)
	for _, n := range d.view.Nodes().All() {
		if !n.Alive() || n.Free(k) == 0 {
			continue
		}
		room := lines[k].room(extra[k], n, k)
		if d.by() == lendPD {
			room = d.roomPD(d.view, n)
		}
		if room > 0 {
			return false
		}
	}
	return true
}
