package trackertest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// Restart replaces the tracker by one restored from the facts so far, under a policy, as
// after the end of the process. The nodes keep running their attempts.
func (w *FakeCluster) Restart(p sched.Policy) {
	w.Tracker = w.restored(p, w.facts)
	w.tape = append(w.tape, entry{now: w.now, restored: true})
	w.log = append(w.log, "restart")
	w.limiter = sched.HooksOf(p).Limiter
}

// Facts returns all that the tracker has noted.
func (w *FakeCluster) Facts() []tracker.Fact { return w.facts }

// Shadow makes two more trackers, one restored from all facts and one from a
// snapshot, and plays them along: from now on they must have the same effects as the tracker
// itself, although nodes were not disconnected. It fails if any differs to
// the eye. The policies must have no memory.
//
// Restore brings a tracker to the time at which it is called, which ends the pauses of
// delayed tasks. So Shadow first brings the cluster's tracker to the same time.
func (w *FakeCluster) Shadow(one, two sched.Policy) {
	w.tick()
	before := Dump(w.Tracker)
	all := w.restored(one, w.facts)
	w.shadows = []*tracker.Tracker{all, w.restored(two, slices.Collect(w.Tracker.Snapshot()))}
	for i, tr := range w.shadows {
		w.same(before, Dump(tr), fmt.Sprint("restored ", i))
	}
	w.same(before, Dump(w.restored(one, slices.Collect(all.Snapshot()))), "a snapshot of the restored")
	for _, n := range w.nodes {
		if w.live[n] {
			w.rejoin(n, func() bool { return true })
		}
	}
	if after := Dump(w.Tracker); before != after {
		w.same(before, after, "after all came back with all they had")
	}
}

// Progress reports progress of every running attempt: above 0, and another number than
// before.
func (w *FakeCluster) Progress() {
	for _, n := range w.nodes {
		hb := &tracker.Heartbeat{Node: n, NoWork: true}
		for _, r := range w.runs[n] {
			next := w.Tracker.Jobs().Attempt(r.id).Progress() / 2
			if next < 0.25 {
				next += 0.5
			}
			hb.Reports = append(hb.Reports, tracker.Report{Attempt: r.id, Progress: next})
		}
		w.step(hb)
	}
}

// restored returns a tracker restored from facts, checked.
func (w *FakeCluster) restored(p sched.Policy, facts []tracker.Fact) *tracker.Tracker {
	tr, err := tracker.Restore(w.cfg, p, w.now, slices.Values(facts))
	if err == nil {
		err = Recount(tr)
	}
	if err != nil {
		w.t.Fatalf("restored: %v", err)
	}
	// Facts here would complete a step that was recorded in part, and steps are recorded whole.
	if len(tr.Facts()) > 0 {
		w.t.Fatalf("something was left undone by whole steps: %T", tr.Facts()[0])
	}
	return tr
}

// shadow lets the other trackers take the step too.
func (w *FakeCluster) shadow(ev tracker.Event, effects []tracker.Effect) {
	for i, tr := range w.shadows {
		if got := tr.Step(w.now, ev); !slices.Equal(got, effects) {
			w.t.Fatalf("%s: restored tracker %d says %v, the other %v", tracker.FormatEvent(ev), i, got, effects)
		}
		if len(w.tape)%20 == 0 { // it is dear
			w.same(Dump(w.Tracker), Dump(tr), tracker.FormatEvent(ev))
		}
	}
}

// same fails at the first line that differs.
func (w *FakeCluster) same(want, got, what string) {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			w.t.Fatalf("%s: %s\n  was %s", what, b[i], a[i])
		}
	}
	if len(a) != len(b) {
		w.t.Fatalf("%s: %d lines, were %d", what, len(b), len(a))
	}
}

// absent reports whether the tracker waits for a node since a restart.
func (w *FakeCluster) absent(name string) bool {
	n := w.Tracker.Nodes().Get(name)
	return n != nil && n.Absent()
}

// rejoin makes a node join with some of its attempts and outputs, and checks that these
// continue if the node was a member.
func (w *FakeCluster) rejoin(name string, keep func() bool) {
	ev := &tracker.Join{Node: w.spec(name)}
	member := w.live[name]
	for _, r := range slices.Clone(w.runs[name]) {
		if keep() {
			ev.Running = append(ev.Running, r.id)
		} else {
			w.gone(name, r.id)
		}
	}
	for _, id := range w.heldBy(name) {
		if keep() {
			ev.Outputs = append(ev.Outputs, tracker.Output{Attempt: id})
		}
	}
	// The tracker takes a stranger, and a member that brings nothing, for a new process: it gives up the
	// attempts of the old one.
	if !member || len(ev.Running)+len(ev.Outputs) == 0 {
		w.dropNode(name)
	}
	w.live[name] = true
	preempted := w.Tracker.Stats().Preempted
	w.step(ev)
	preempts := w.Tracker.Stats().Preempted > preempted // the step preempts before it takes in the event
	// A member's attempts continue: a worker that lost its connection must not lose hours of work.
	for _, id := range ev.Running {
		a := w.Tracker.Jobs().Attempt(id)
		if member && a.State() != job.AttemptRunning && (!preempts || a.State() != job.AttemptKilled) {
			w.t.Fatalf("%v did not go on: %v, %s", id, a.State(), a.Error())
		}
	}
	for _, o := range ev.Outputs {
		if member && w.output[o.Attempt.TaskID] != o.Attempt {
			w.t.Fatalf("the output of %v was given up", o.Attempt)
		}
	}
}

// heldBy lists the map outputs on a node, in a fixed order.
func (w *FakeCluster) heldBy(name string) (held []job.AttemptID) {
	for _, j := range w.Tracker.Jobs().Live() {
		for i := range j.Total(job.Map) {
			if a := j.Task(job.Map, int32(i)).Success(); a != nil && w.Tracker.Nodes().Node(a.Node()).Name() == name {
				held = append(held, a.ID())
			}
		}
	}
	return held
}

// Dump writes down all that a tracker must know after a restart. Absent nodes look
// like live ones.
func Dump(t *tracker.Tracker) string {
	var b strings.Builder
	for _, n := range t.Nodes().All() {
		// %+v has all fields, so that a new field of a specification is compared without a change here.
		fmt.Fprintf(&b, "node %+v member %v draining %v gray %v %v:", n.Spec(), n.Alive() || n.Absent(),
			n.Draining(), n.Graylisted(), n.Faults())
		for _, a := range n.Attempts() {
			fmt.Fprintf(&b, " %v", a.ID())
		}
		fmt.Fprintln(&b)
	}
	for _, j := range t.Jobs().Ended() {
		dumpJob(&b, t, j)
	}
	for _, j := range t.Jobs().Finishing() {
		fmt.Fprintf(&b, "finishing %v decided %v ", j.Outcome(), j.Decided())
		if j.State() == job.Committing {
			fmt.Fprintf(&b, "cancelled %q ", j.CommitCancelled())
		}
		dumpJob(&b, t, j)
	}
	for _, j := range t.Jobs().Live() {
		dumpJob(&b, t, j)
	}
	fmt.Fprintf(&b, "%+v\n", t.Jobs().Tally())
	return b.String()
}

func dumpJob(b *strings.Builder, t *tracker.Tracker, j *job.Job) {
	fmt.Fprintf(b, "%v %v %v %s %q submitted %v started %v ended %v failed %d %+v %+v", j.ID(), j.State(), j.Priority(), j.Pool(),
		j.Message(), j.Submitted(), j.Started(), j.Ended(), j.FailedAttempts(), j.Spec(), j.Tally())
	if j.MapsDone() {
		fmt.Fprintf(b, " maps done %v", j.MapsDoneAt())
	}
	fmt.Fprintf(b, " account %+v", j.Account())
	flaky := slices.Sorted(slices.Values(j.Flaky()))
	fmt.Fprintf(b, " flaky %v unlocated %d hosts %d\n", flaky, j.Unlocated(), j.Hosts())
	for k := range job.Kind(job.Kinds) {
		for a := j.Oldest(k); a != nil; a = a.Next() {
			fmt.Fprintf(b, "  runs %v\n", a.ID())
		}
		for _, task := range j.Retries(k) {
			fmt.Fprintf(b, "  again %v\n", task.ID())
		}
		for i := range j.Total(k) {
			dumpTask(b, t, j.Task(k, int32(i)))
		}
	}
}

func dumpTask(b *strings.Builder, t *tracker.Tracker, task *job.Task) {
	past := task.Past()
	fmt.Fprintf(b, "  %v %v pending %v done %v failures %d excused %d outages %d since %v retry %v fetch %d last %v on %v\n", task.ID(), task.State(), past.PendingSince,
		past.DoneAt, task.Failures(), task.Excused(), past.Outages, past.OutageSince, past.RetryAt, past.FetchFailures, past.LastFailure, slices.Sorted(slices.Values(task.FailedNodes())))
	for i, a := range past.Attempts {
		fmt.Fprintf(b, "    %d on %s %+v\n", i, t.Nodes().Node(a.Node).Name(), a)
	}
}
