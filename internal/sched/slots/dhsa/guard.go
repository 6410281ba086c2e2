package dhsa

import (
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// guardInterval is how often the guard looks for maps that find no slot.
const guardInterval = 3 * time.Second

// guard keeps lent map slots from becoming a trap. A reduce waits in its slot
// until all maps of its job are done. With typed slots a map that must be made
// again has slots that no reduce can hold; with lent ones reduces may hold all of
// them and wait for the very map that they keep out. Two rules (Q14):
//
//   - a reduce of a job with unfinished maps takes a lent map slot only if some
//     map slots stay free of such reduces;
//   - that does not help when the output is lost after the reduces have started.
//     So when a job that runs reduces but no map has had pending maps for some
//     heartbeats of every node, balance and lending wait until a map has started,
//     and if such reduces hold every slot that the map could use, the youngest
//     one is killed.
type guard struct {
	lent    []*job.Job // jobs with reduces in map slots
	inLent  []bool     // the same by seat
	beats   int        // heartbeats of all nodes so far
	stuck   []int      // by seat: beats when first found stuck, plus 1; 0 if not
	waiting bool       // some job has been stuck for long
	victims []*job.Attempt
}

// watch notes whether a job has reduces in map slots.
func (g *guard) watch(j *job.Job) {
	for j.Seat() >= len(g.inLent) {
		g.inLent = append(g.inLent, false)
		g.stuck = append(g.stuck, 0)
	}
	holds := j.RunningOn(job.Reduce, job.Map) > 0
	if holds == g.inLent[j.Seat()] {
		return
	}
	g.inLent[j.Seat()] = holds
	if holds {
		g.lent = append(g.lent, j)
	} else if at := slices.Index(g.lent, j); at >= 0 {
		g.lent = slices.Delete(g.lent, at, at+1)
	}
}

// forget drops a job that has ended; its attempts have ended before.
func (g *guard) forget(j *job.Job) {
	g.watch(j)
	g.stuck[j.Seat()] = 0
}

// open reports whether one more reduce that waits for maps may take a map slot
// so that keep map slots stay out of the reach of such reduces.
func (g *guard) open(v *sched.View, keep int) bool {
	room := v.Nodes().Slots(job.Map) - keep
	if v.Jobs().RunningOn(job.Reduce, job.Map) < room {
		return true
	}
	wait := 0
	for _, j := range g.lent {
		if !j.MapsDone() {
			wait += j.RunningOn(job.Reduce, job.Map)
		}
	}
	return wait < room
}

// starving reports whether a map has waited too long for a slot and none runs.
func (g *guard) starving(v *sched.View) bool {
	return g.waiting && v.Jobs().Running(job.Map) == 0 && v.Jobs().Pending(job.Map) > 0
}

// isStuck reports whether reduces of a job wait for maps none of which runs.
func isStuck(j *job.Job) bool {
	return j.Pending(job.Map) > 0 && j.Active(job.Map) == 0 && j.Running(job.Reduce) > 0
}

// update looks for jobs that have been stuck for too long.
func (g *guard) update(v *sched.View, cfg *Config) {
	g.waiting = false
	for _, j := range v.Jobs().Live() {
		switch since := &g.stuck[j.Seat()]; {
		case !isStuck(j):
			*since = 0
		case *since == 0:
			*since = g.beats + 1
		case g.beats+1-*since >= cfg.RescueAfter*max(1, v.Nodes().Alive()):
			g.waiting = true
			if a := victim(v, j, cfg); a != nil && len(g.victims) == 0 {
				g.victims = append(g.victims, a)
				*since = g.beats + 1
			}
		}
	}
}

// take hands over the attempts to kill.
func (g *guard) take() []*job.Attempt {
	list := g.victims
	g.victims = g.victims[:0]
	return list
}

// victim returns the youngest reduce that waits for maps in a slot that a map of
// the job could use, if such reduces hold all of those; else nil. It costs a walk
// over the cluster, once in a long while.
func victim(v *sched.View, j *job.Job, cfg *Config) *job.Attempt {
	slot := job.Map
	if v.Nodes().Slots(job.Map) == 0 && cfg.LendReduces > 0 {
		slot = job.Reduce
	}
	var youngest *job.Attempt
	for _, n := range v.Nodes().All() {
		if !n.Alive() || v.Barred(j, n, job.Map) {
			continue
		}
		a, held := waiters(n, slot)
		if held < n.Slots(slot) {
			return nil
		}
		if a != nil && (youngest == nil || a.Seq() > youngest.Seq()) {
			youngest = a
		}
	}
	return youngest
}

// waiters counts the reduces in slots of a kind that wait for maps, and returns
// the last one started.
func waiters(n *cluster.Node, slot job.Kind) (last *job.Attempt, count int) {
	for _, a := range n.Attempts() {
		if a.Kind() == job.Reduce && a.Slot() == slot && isStuck(a.Job()) {
			last = a
			count++
		}
	}
	return last, count
}
