package sched

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// recent is the age up to which a round's note outweighs the job's position in the order.
// It is a few heartbeats of a large cluster.
const recent = 15 * time.Second

// Why returns the reason why a job gets no task of a kind now. It walks through the order,
// so it serves questions of users and not heartbeats. It returns the first answer that
// applies:
//
//	the job's state: ended, nothing pending, slow start, delayed after an error, maps first
//	no node takes work
//	no node has as many slots as a task occupies
//	a limit that the order reports (LimitExplainer)
//	all slots are in use           → how many jobs come first, if any; else, for a job whose
//	                                 tasks occupy several slots, how many it needs
//	a recent note of a round       → the note: the job had its turn and was refused
//	jobs come first                → how many
//	an old note of a round         → the note
//	otherwise                      → the job's turn comes with the next heartbeats
func Why(v *View, p Policy, l *Ledger, j *job.Job, k job.Kind, now time.Duration) Reason {
	switch slots := v.nodes.Slots(job.Map) + v.nodes.Slots(job.Reduce); {
	case !j.State().Live():
		return Reason{Code: Ended}
	case j.Pending(k) == 0 && j.Delayed(k) > 0:
		return delayedReason(j, k, now)
	case j.Pending(k) == 0:
		return Reason{Code: NoPending, Have: j.Active(k)}
	case k == job.Reduce && j.MapsFirst():
		return Reason{Code: MapsFirst, Have: j.Unfinished(job.Map)}
	case !j.Open(k):
		return Reason{Code: SlowStart, Have: j.Done(job.Map), Need: j.SlowStartMaps()}
	case v.nodes.Open() == 0 && v.nodes.Alive() > 0:
		return Reason{Code: AllClosed, Have: v.nodes.Alive() + absent(v), Pool: closedStates(v)}
	case slots == 0:
		if away := absent(v); away > 0 && v.nodes.Alive() == 0 {
			return Reason{Code: NotBack, Have: away}
		}
		return Reason{Code: NoNode}
	}
	if r := tooWide(v, j, k); r.Code != NoReason {
		return r
	}
	if limit := limitReached(p, j, k); limit.Code != NoReason {
		return limit
	}
	// After the limits: the walk through the order is the expensive part, and a job at a limit is in no
	// walk of a round.
	behind := position(v, p, j, k)
	// The note is of the last round that refused the job, on whichever node. An old one may have lost its
	// cause since, hence its age below.
	note, at := l.Last(j, k)
	all, inUse := slotsOf(v, p, k)
	full := all > 0 && inUse >= all
	switch {
	case full && behind.Code == NoReason && j.Width() > 1:
		return Reason{Code: NeedsSlots, Need: j.Width()}
	// The job is first and still waits, so only the slots are missing.
	case full && behind.Code == NoReason:
		return Reason{Code: NoSlot, Need: all, Pool: closedStates(v)}
	// A note of a round is about a free slot, so it says nothing while all are in use.
	case note.Code != NoReason && !full && (now-at <= recent || behind.Code == NoReason):
		return note
	case behind.Code != NoReason:
		return behind
	case all == 0 && v.nodes.Slots(k) == 0:
		return Reason{Code: NoNode} // there is no note either, so no slot is lent
	}
	return keptFor(v, j, k)
}

// tooWide returns the reason TooWide if the slots of no open node suffice for a task of
// the job, with the node that comes closest. A task that occupies one slot is never too
// wide, because slots can be lent.
func tooWide(v *View, j *job.Job, k job.Kind) Reason {
	if !j.Asks() {
		return Reason{}
	}
	fits, best := v.nodes.Fitting(j.TaskMemory(), j.TaskCPUs(), k, func(n *cluster.Node) bool { return n.Alive() && !n.Closed() })
	if fits || best == nil {
		return Reason{}
	}
	return Reason{Code: TooWide, Have: best.Slots(k), Need: best.Width(j), Pool: best.Name()}
}

// keptFor returns the reason KeptFor if the free slots of the kind are reserved for other
// jobs on all open nodes that have any, and NotYet otherwise.
func keptFor(v *View, j *job.Job, k job.Kind) Reason {
	kept := Reason{Code: NotYet}
	for _, n := range v.nodes.All() {
		if !n.Alive() || n.Closed() || n.Free(k) == 0 {
			continue
		}
		res := n.Reserved(k)
		// One free slot that is not kept is enough: the job's turn there is to come.
		if res.Job == nil || res.Job == j {
			return Reason{Code: NotYet}
		}
		kept = Reason{Code: KeptFor, Job: res.Job.ID(), Need: res.Width, Pool: n.Name()}
	}
	return kept
}

// maxError is the number of bytes of an error that a reason quotes.
const maxError = 300

// delayedReason returns the reason of a job whose only waiting tasks of a kind are
// delayed. It names the cause of the task that is released first.
func delayedReason(j *job.Job, k job.Kind, now time.Duration) Reason {
	t := j.FirstDelayedOf(k)
	wait := max(t.RetryAt()-now, 0)
	// Rounded up to seconds: a wait of 0s would look like an error of the explanation.
	r := Reason{Code: Delayed, Have: j.Delayed(k), Limit: (wait + time.Second - 1).Truncate(time.Second)}
	for a := t.Last(); a != nil; a = a.Before() {
		// The newest attempt may have been killed since; the error that delayed the task is an earlier
		// one's.
		if a.Cause() != job.CauseTask {
			text := a.Error()
			if len(text) > maxError {
				text = strings.ToValidUTF8(text[:maxError], "") + "…"
			}
			r.Pool = a.Cause().String() + ": " + text
			break
		}
	}
	return r
}

// limitReached returns the limit that the order of a composition reports.
func limitReached(p Policy, j *job.Job, k job.Kind) Reason {
	// A policy that is no composition has nothing that knows limits, and the next answers apply.
	if c := CompositionOf(p); c != nil {
		if l, ok := c.Order.(LimitExplainer); ok {
			return l.LimitReached(j, k)
		}
	}
	return Reason{}
}

// closedStates counts by their states, in words, the nodes that take no work: live ones, and those that have not
// returned since the tracker restarted.
func closedStates(v *View) string {
	counts := map[cluster.State]int{}
	for _, n := range v.nodes.All() {
		if n.Alive() && n.Closed() || n.Absent() {
			counts[n.State()]++
		}
	}
	var words []string
	// In the order of the states' numbers, so the sentence is the same each time.
	for _, state := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%d %v", counts[state], state))
	}
	return strings.Join(words, ", ")
}

// absent counts the nodes that have not returned since the tracker restarted.
func absent(v *View) (count int) {
	for _, n := range v.nodes.All() {
		if n.Absent() {
			count++
		}
	}
	return count
}

// slotsOf counts all slots of a kind in the cluster, and the occupied ones.
func slotsOf(v *View, p Policy, k job.Kind) (all, used int) {
	if c := CompositionOf(p); c != nil {
		if s, ok := c.Slots.(Sizer); ok {
			// Such a part re-types slots, so tasks of the kind count in slots of either kind.
			return s.Size(k), v.jobs.Occupied(k)
		}
	}
	return v.nodes.Slots(k), v.jobs.OccupiedOn(job.Map, k) + v.jobs.OccupiedOn(job.Reduce, k)
}

// position returns how many jobs that can launch a task of the kind come before the
// job, as the order would serve them on the first node that takes work. It returns
// the zero Reason for the first job, and for a policy that is no Composition.
func position(v *View, p Policy, j *job.Job, k job.Kind) Reason {
	c := CompositionOf(p)
	if c == nil {
		return Reason{}
	}
	// The walk is a question and no round: it must not overwrite the reasons that real rounds have
	// noted.
	r := &Round{View: v, ledger: &Ledger{}}
	for _, n := range v.nodes.All() {
		if n.Alive() && !n.Closed() {
			// Orders may look at the node. Any that takes work will do, because the answer is about
			// the order of jobs.
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
		// Every job that could start counts, so the answer has the form "third of seven". The walk goes to
		// the end for this.
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
