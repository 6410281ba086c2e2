package deadline

import (
	"math/bits"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/sched/job"
)

// single makes an entry whose only phase occupies the whole cluster.
func single(id job.ID, work, due time.Duration) entry {
	n := need{}
	n.slots[job.Map], n.least[job.Map] = work, work
	return entry{id: id, due: due, need: n}
}

// On one machine the plan keeps as many deadlines as the best of all subsets.
func TestPlanKeepsTheMostOnOneMachine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Duration(rapid.IntRange(0, 10).Draw(t, "now"))
		var list []entry
		for i := range rapid.IntRange(0, 9).Draw(t, "jobs") {
			list = append(list, single(job.ID(i+1), time.Duration(rapid.IntRange(1, 12).Draw(t, "work")), time.Duration(rapid.IntRange(0, 50).Draw(t, "due"))))
		}
		p := plan{list: append([]entry(nil), list...)}
		kept := p.choose(now, true)
		best := 0
		for set := range 1 << len(list) {
			if feasible(p.list, set, now) {
				best = max(best, bits.OnesCount(uint(set)))
			}
		}
		own := 0
		for i, e := range p.list {
			if kept[e.id] {
				own |= 1 << i
			}
		}
		if !feasible(p.list, own, now) || len(kept) != best {
			t.Fatalf("%v from %d: keeps %v, the most are %d", list, now, kept, best)
		}
	})
}

// feasible reports whether all entries of a set end in time, one after the other. The list is
// sorted by deadline, and no other order is better.
func feasible(list []entry, set int, now time.Duration) bool {
	for i, e := range list {
		if set&(1<<i) != 0 {
			if now += e.work(); now > e.due {
				return false
			}
		}
	}
	return true
}

// A job of a higher priority never gives way to one of a lower, and a kept set never depends on
// the order in which jobs are listed.
func TestPlanRespectsPriorities(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(low, high int, what string) time.Duration {
			return time.Duration(rapid.IntRange(low, high).Draw(t, what))
		}
		var list []entry
		for i := range rapid.IntRange(1, 12).Draw(t, "jobs") {
			e := single(job.ID(i+1), draw(1, 12, "work"), draw(0, 50, "due"))
			e.slots[job.Reduce] = draw(0, 6, "reduces")
			e.least[job.Reduce] = e.slots[job.Reduce] + draw(0, 3, "least")
			e.priority = rapid.SampledFrom([]job.Priority{job.VeryLow, job.Normal, job.VeryHigh}).Draw(t, "priority")
			list = append(list, e)
		}
		kept := func(list []entry) map[job.ID]bool {
			p := plan{list: append([]entry(nil), list...)}
			return p.choose(0, true)
		}
		all := kept(list)
		var high []entry
		for _, e := range list {
			if e.priority == job.VeryHigh {
				high = append(high, e)
			}
		}
		for id, k := range kept(high) {
			if all[id] != k {
				t.Fatalf("%v: job %d is kept %v without the lower priorities, %v with them", list, id, k, all[id])
			}
		}
		shuffled := kept(rapid.Permutation(list).Draw(t, "order"))
		for _, e := range list {
			if all[e.id] != shuffled[e.id] {
				t.Fatalf("%v: job %d is kept %v, in another order %v", list, e.id, all[e.id], shuffled[e.id])
			}
		}
	})
}
