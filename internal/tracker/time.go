package tracker

import (
	"cmp"
	"fmt"
	"time"

	"github.com/slotwise/slotwise/sched/job"
)

// tick gives up silent nodes and times out attempts. It costs a walk over the nodes.
func (t *Tracker) tick() {
	for _, n := range t.Nodes().All() {
		member := n.Alive() || n.Absent()
		if member && t.cfg.NodeTimeout > 0 && t.now-n.LastSeen() >= t.cfg.NodeTimeout {
			t.stats.LostNodes++
			// The list of all nodes keeps former members, so the walk does not lose its position.
			t.lose(n, fmt.Sprintf("no heartbeat for %v", t.cfg.NodeTimeout))
		} else if n.Alive() {
			t.expire(n.Index())
		}
	}
	// Faults leave the window with time alone.
	t.graylist()
	// With the silent nodes gone: the policy must not count on slots of a node that was lost in this step.
	t.preempt()
	t.forgetNodes()
}

// forgetEvery is the interval at which the tracker looks for nodes to forget.
const forgetEvery = time.Hour

// forgetNodes forgets former members that left long ago, as Config.ForgetNodes
// says. It is not a fact: a restored tracker may know them again, until it forgets them. If
// a node is due, the cost is a walk over the attempts of all jobs.
func (t *Tracker) forgetNodes() {
	if t.cfg.ForgetNodes <= 0 || t.now < t.forgetAt {
		return
	}
	t.forgetAt = t.now + forgetEvery
	due := map[int32]bool{}
	for _, n := range t.Nodes().All() {
		limit := t.cfg.ForgetNodes
		if n.Draining() || n.Graylisted() {
			// The mark would be forgotten with the node, and a machine that returns from repair must not
			// get work that its operator denied it.
			limit = max(limit, t.cfg.ForgetMarked)
		}
		if !n.Alive() && !n.Absent() && !n.Forgotten() && t.now-n.LeftAt() >= limit {
			due[n.Index()] = true
		}
	}
	t.forget(due)
}

// ForgetNodesExcept forgets the former members that are not in known and have no attempt in
// a remembered job. A replayed tracker knows every node that its facts name; the tracker
// that runs has forgotten some of these facts since.
func (t *Tracker) ForgetNodesExcept(known map[string]bool) {
	due := map[int32]bool{}
	for _, n := range t.Nodes().All() {
		if !n.Alive() && !n.Forgotten() && !known[n.Name()] {
			due[n.Index()] = true
		}
	}
	t.forget(due)
}

// forget forgets the nodes of a set that have no attempt in a remembered job.
func (t *Tracker) forget(due map[int32]bool) {
	if len(due) == 0 {
		return
	}
	for _, list := range [][]*job.Job{t.Jobs().Live(), t.Jobs().Finishing(), t.Jobs().Ended()} {
		for _, j := range list {
			keepNodes(j, due)
		}
	}
	for _, n := range t.Nodes().All() {
		if due[n.Index()] {
			t.nodes.Forget(n)
		}
	}
}

// keepNodes removes the nodes of a job's attempts from a set.
func keepNodes(j *job.Job, set map[int32]bool) {
	for k := range job.Kind(job.Kinds) {
		for i := range j.Total(k) {
			task := j.Task(k, int32(i))
			for a := task.Last(); a != nil; a = a.Before() {
				// The attempt's node is an index. If the node were forgotten, the history of a job could
				// not name it.
				delete(set, a.Node())
			}
		}
	}
}

// maxCatchUp is after how many missed intervals a periodic part skips the older
// ones.
const maxCatchUp = 1000

// runPeriodic calls the periodic parts that are due, in order of time and then
// of the parts, and reports whether any was.
func (t *Tracker) runPeriodic() bool {
	ran := false
	for {
		first := -1
		for i, due := range t.next {
			// The first of equal times wins, which is the order of the parts: the same in each run and in
			// each replay.
			if due <= t.now && (first < 0 || due < t.next[first]) {
				first = i
			}
		}
		if first < 0 {
			return ran
		}
		p := t.hooks.Periodics[first]
		every := p.Interval()
		// After a pause of the process the parts catch up, but not with every interval: that could
		// take longer than the pause.
		if missed := (t.now - t.next[first]) / every; missed > maxCatchUp {
			t.next[first] += (missed - maxCatchUp) * every
		}
		// With the time at which it was due, not with now: a part that adds up intervals counts each of
		// them once, however late the step is.
		p.Update(t.next[first])
		t.next[first] += every
		ran = true
	}
}

// preempt kills the attempts that the policy preempts.
func (t *Tracker) preempt() {
	for _, h := range t.hooks.Preempters {
		// The hook names attempts and kills none itself: only the tracker can tell the node and record the
		// fact.
		for _, v := range h.Preempt(t.now) {
			// An earlier kill of the list may have ended the attempt, or its job.
			if v.Attempt.State() == job.AttemptRunning {
				t.stats.Preempted++
				t.kill(v.Attempt, "its slot goes to "+cmp.Or(v.For, "another job"))
			}
		}
	}
}
