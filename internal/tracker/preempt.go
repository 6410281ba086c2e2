package tracker

import (
	"slices"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// A reduce keeps its slot until it has fetched the output of every map of its job. If a
// map's output is lost, the reduces wait for a map that they may themselves keep out: where
// slots are lent, they can hold all slots that a map could use, and where a limit counts
// tasks of both kinds, they can use it up. Such a job never ends, and its reduces do not
// time out.
//
// One rule resolves this for every policy, as YARN's MapReduce does for its jobs. A
// job is blocked while it has pending maps, no running map, and running reduces:
//
//	blocked for PreemptDelay and for preemptBeats heartbeats of each node,
//	and a reduce of the job holds a slot or a share that its maps need
//	    ──► kill the newest such reduce
//	no map of the job is pending or delayed
//	    ──► reduces of the job may be launched
//	until then, and whenever a map fails before all maps are done
//	    ──► no more reduces of the job are launched
//
// Delayed maps block no job, because no slot would help them yet. But a reduce that took
// the slot of a map that the storage's errors delay would have to be killed again after
// every pause. So once a job is no longer blocked, it counts as blocked again only after one
// of its maps has ended without success, or its output was lost.
//
// As long as a job stays blocked, one more reduce is killed after each delay. The
// check costs a walk over the nodes for each blocked job, once per delay; otherwise a
// step pays for one comparison, and each change of a job for a few.

// preemptBeats is the number of heartbeats per node for which a job must be blocked. A
// policy that gives a free slot to the job's maps at all has done so by then.
const preemptBeats = 3

// blockage is why reduces of a job may have to be killed.
type blockage struct {
	on    bool
	since time.Duration // when it began, or a reduce was last killed
	beats int64         // how many heartbeats there had been by then
	// mapsFirst is set when the tracker decides that the job's maps come first, and unset
	// when all maps are done.
	mapsFirst bool
}

// isBlocked reports whether reduces of a job wait for maps none of which runs.
func isBlocked(j *job.Job) bool {
	return j.State().Live() && j.Pending(job.Map) > 0 && j.Active(job.Map) == 0 && j.Running(job.Reduce) > 0
}

// watchBlocked notes, after a change of a job's tasks, whether the job is blocked and
// whether its reduces may be launched.
func (t *Tracker) watchBlocked(j *job.Job) {
	b := &t.bySeat[j.Seat()].blocked
	// mapsFirst outlives the launch of the job's last pending map. If that map fails, reduces must
	// stop being launched before they take its slot again.
	b.mapsFirst = b.mapsFirst && !j.MapsDone()
	// Delayed maps count here, though they block no job: a reduce that started in their slot would have to
	// be killed when they return.
	t.jobs.SetMapsFirst(j, b.mapsFirst && j.Pending(job.Map)+j.Delayed(job.Map) > 0)
	if on := isBlocked(j); on != b.on && t.cfg.PreemptDelay > 0 {
		b.on = on
		if !on {
			t.blocked = slices.DeleteFunc(t.blocked, func(x *job.Job) bool { return x == j })
			return
		}
		t.restartBlocked(b)
		t.blocked = append(t.blocked, j)
	}
}

// restartBlocked lets the delay of a blocked job begin now.
func (t *Tracker) restartBlocked(b *blockage) {
	b.since, b.beats = t.now, t.stats.Heartbeats
	t.blockedDue = min(t.blockedDue, t.now+t.cfg.PreemptDelay)
}

// preemptReduces kills a reduce of each job that has been blocked for long enough.
func (t *Tracker) preemptReduces() {
	if t.now < t.blockedDue {
		return
	}
	t.blockedDue = never
	for _, j := range slices.Clone(t.blocked) { // a kill may change the list
		b := &t.bySeat[j.Seat()].blocked
		switch due := b.since + t.cfg.PreemptDelay; {
		case !b.on:
		case t.now < due:
			t.blockedDue = min(t.blockedDue, due)
		// On a large cluster the delay may be over before each node has reported a few times, and then the
		// policy has not had its chance yet.
		case t.stats.Heartbeats-b.beats < preemptBeats*int64(t.Nodes().Alive()):
			t.blockedDue = t.now // look again with the next step
		default:
			a, mapsFirst := t.reduceInTheWay(j)
			if mapsFirst {
				b.mapsFirst = true
				t.noteDemand(j)
			}
			if a != nil {
				t.stats.Preempted++
				t.kill(a, "maps of its job need its slot")
			}
			// One reduce for each delay: its slot may be enough. noteDemand or the kill may have
			// ended the blockage.
			if b.on {
				t.restartBlocked(b)
			}
		}
	}
}

// reduceInTheWay returns the newest reduce of a blocked job that occupies what its
// maps need, or nil if there is none. mapsFirst is false if the maps wait for something
// else, such as maps of other jobs or a node with their data. It is true if a slot is free
// that the policy does not give to a map, perhaps because the job's reduces are its part
// of the load.
func (t *Tracker) reduceInTheWay(j *job.Job) (a *job.Attempt, mapsFirst bool) {
	why, _ := t.Explain(j, job.Map)
	switch why.Code {
	// A killed reduce would help none of these: no node takes work, the maps wait for a node with
	// their data or for maps of other jobs, or no node is large enough.
	case sched.AllClosed, sched.WaitLocality, sched.PartitionFull, sched.TooWide:
		return nil, false
	// A limit has no node and no kind of slot, so any reduce that it counts will do.
	case sched.PoolFull, sched.QueueFull, sched.UserFull:
		if t.limitedByReduces(j, why.Code == sched.UserFull) {
			return j.Newest(job.Reduce), true
		}
		return nil, false
	}
	kind, free := t.mapSlots(j)
	if free {
		// The maps are behind jobs that may be kept out by a limit, too. If no map of
		// the pool runs, its reduces use that limit up.
		if why.Code == sched.Behind && t.limitedByReduces(j, false) {
			return j.Newest(job.Reduce), true
		}
		return nil, true
	}
	// The newest first, because it has done least work.
	for a := j.Newest(job.Reduce); a != nil; a = a.Prev() {
		if n := t.node(a); a.Slot() == kind && t.takesMaps(j, n) {
			return a, true
		}
	}
	return nil, false
}

// limitedByReduces reports whether a limit that keeps a job's maps from running counts
// reduces: no map runs in the job's pool (of the job's user, if the limit is the
// user's), so something else uses the limit up.
func (t *Tracker) limitedByReduces(j *job.Job, byUser bool) bool {
	return !slices.ContainsFunc(t.Jobs().Live(), func(x *job.Job) bool {
		return x.Running(job.Map) > 0 && x.Pool() == j.Pool() && (!byUser || x.User() == j.User())
	})
}

// mapSlots returns the kind of slot that the job's maps need, and whether one is free
// on a node that takes them. It is a reduce slot if those nodes have no others.
func (t *Tracker) mapSlots(j *job.Job) (kind job.Kind, free bool) {
	var some, left [job.Kinds]bool
	for _, n := range t.Nodes().All() {
		if !t.takesMaps(j, n) {
			continue
		}
		limits := t.limits(n)
		for k := range job.Kind(job.Kinds) {
			some[k] = some[k] || limits[k] >= n.Width(j)
			left[k] = left[k] || limits[k] >= n.Used(k)+n.Width(j) && kept(n, k, j) == nil
		}
	}
	// These nodes have reduce slots alone, which the policy may lend to maps.
	if !some[job.Map] {
		return job.Reduce, left[job.Reduce]
	}
	return job.Map, left[job.Map]
}

// kept returns another job for which a node keeps its slots of a kind, or nil.
func kept(n *cluster.Node, slot job.Kind, j *job.Job) *job.Job {
	if other := n.Reserved(slot).Job; other != j {
		return other
	}
	return nil
}

// takesMaps reports whether a node may be given maps of the job.
func (t *Tracker) takesMaps(j *job.Job, n *cluster.Node) bool {
	return n.Alive() && !n.Closed() && !t.view.Barred(j, n, job.Map)
}
