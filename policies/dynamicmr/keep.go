package dynamicmr

import (
	"slices"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// lentSlots counts the reduces in lent map slots. A reduce occupies its slot
// until all maps of its job are done. With typed slots a map that must run
// again has slots that no reduce can take. With lent slots, reduces can occupy
// every slot and wait for the map that they keep out. A reduce of a job with
// unfinished maps therefore takes a lent map slot only if some map slots stay
// free of such reduces (reading 14 in README.md).
//
// That does not help when output is lost after the reduces have started. Then
// the tracker kills reduces, and Begin makes all nodes offer slots to maps
// first.
type lentSlots struct {
	jobs []*job.Job // jobs with reduces in map slots
	in   []bool     // whether a job is in jobs, by seat
}

// watch records whether a job has reduces in map slots.
func (g *lentSlots) watch(j *job.Job) {
	for j.Seat() >= len(g.in) {
		g.in = append(g.in, false)
	}
	holds := j.RunningOn(job.Reduce, job.Map) > 0
	if holds == g.in[j.Seat()] {
		return
	}
	g.in[j.Seat()] = holds
	if holds {
		g.jobs = append(g.jobs, j)
	} else if at := slices.Index(g.jobs, j); at >= 0 {
		g.jobs = slices.Delete(g.jobs, at, at+1)
	}
}

// open reports whether one more waiting reduce may take a map slot, so that
// keep map slots stay free of such reduces.
func (g *lentSlots) open(v *sched.View, keep int) bool {
	room := v.Nodes().Slots(job.Map) - keep
	// The common case needs no walk: even if all reduces in map slots waited, there would be room.
	if v.Jobs().OccupiedOn(job.Reduce, job.Map) < room {
		return true
	}
	wait := 0
	for _, j := range g.jobs {
		if !j.MapsDone() {
			wait += j.OccupiedOn(job.Reduce, job.Map)
		}
	}
	return wait < room
}
