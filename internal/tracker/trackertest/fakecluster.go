package trackertest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/base/counters"
	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// FakeCluster models a shell and its nodes, built from effects alone. It
// draws events, plays them, and checks after each step the promises that the
// tracker makes with its effects:
//
//   - kills come before launches and ends of jobs come last;
//   - slots are never over-committed: typed, or, under a policy with limits of
//     its own, within the limits and within all slots of the node together,
//     unless the cluster is Boundless;
//   - nothing is launched on a node that is being drained or is on the graylist,
//     and no more than half of those not drained are on it;
//   - no assignment of the policy is refused;
//   - a task succeeds at most once unless its output was lost, and at most one
//     another attempt has the permission to commit;
//   - a failure for a final cause fails the job of a running attempt in the same step;
//   - a job's output is committed or aborted, and aborted only once a commit has
//     failed; nothing is launched for the job from then on; the job ends once the
//     shell has answered, as the answer says;
//   - every count equals a recount.
type FakeCluster struct {
	// Tracker is the tracker under test, for reading.
	Tracker *tracker.Tracker
	// Boundless says that the policy may run more on a node than it has slots.
	Boundless bool
	// NoWide keeps Act from submitting jobs whose tasks occupy several slots.
	NoWide bool
	// Also, if set, checks more after each step; an error fails the test.
	Also func(effects []tracker.Effect) error

	// The cluster's own books, kept from effects and its actions. Only resync asks the tracker: books that
	// were read from it would repeat its errors.
	t      *rapid.T
	cfg    tracker.Config
	now    time.Duration
	slots  map[string][job.Kinds]int    // of each node, by its latest join
	nodes  []string                     // all names that ever joined, in that order
	live   map[string]bool              // nodes whose process runs and is a member
	runs   map[string][]running         // by node, in order of launch
	grants map[job.TaskID]job.AttemptID // the attempt that may commit
	output map[job.TaskID]job.AttemptID // the attempt that has succeeded
	ended  map[job.ID]job.State
	// outputs holds the last CommitOutput or AbortOutput of each job until the cluster
	// answers it; waiting lists those jobs in the order of the effects.
	outputs map[job.ID]tracker.Effect
	waiting []job.ID
	shut    map[string]bool // drained
	// answered is the state that JobDone must name.
	answered job.State
	jobs     []job.ID
	tasks    map[job.ID]int // how many each job has
	log      []string
	tape     []entry
	limits   map[string][job.Kinds]int // of the nodes before the step, under a Limiter

	limiter sched.Limiter // the policy's, if it has one
	facts   []tracker.Fact
	shadows []*tracker.Tracker
}

type running struct {
	id    job.AttemptID
	slot  job.Kind
	width int
}

// entry is a step to be played again, or a change of policy if ev is nil, by a
// restart if restored is set.
type entry struct {
	now      time.Duration
	ev       tracker.Event
	restored bool
}

// NewFakeCluster returns a cluster without nodes under a policy. The options change the
// tracker's configuration.
func NewFakeCluster(t *rapid.T, p sched.Policy, options ...func(*tracker.Config)) *FakeCluster {
	cfg := tracker.Config{MaxNodeFailures: 3, GraylistFaults: 2, GraylistWindow: 5 * time.Minute, CommitOutput: true,
		OfferAtOnce: true, Record: true}
	for _, o := range options {
		o(&cfg)
	}
	return &FakeCluster{t: t, cfg: cfg, Tracker: tracker.New(cfg, p), limiter: sched.HooksOf(p).Limiter,
		slots: map[string][job.Kinds]int{}, live: map[string]bool{}, runs: map[string][]running{},
		grants: map[job.TaskID]job.AttemptID{}, output: map[job.TaskID]job.AttemptID{}, ended: map[job.ID]job.State{},
		outputs: map[job.ID]tracker.Effect{}, tasks: map[job.ID]int{}, shut: map[string]bool{}}
}

// Swap installs another policy, as a user may at any time.
func (w *FakeCluster) Swap(p sched.Policy) {
	w.tape = append(w.tape, entry{now: w.now})
	w.log = append(w.log, "swap")
	w.Tracker.SetPolicy(p)
	// The limits of launches are the new policy's from this step on; running attempts may exceed them.
	w.limiter = sched.HooksOf(p).Limiter
}

// Replay plays the same events to a fresh tracker and fails unless it has the
// same effects. first is its policy, next the policies that Swap and Restart installed, made
// anew.
func (w *FakeCluster) Replay(first sched.Policy, next ...sched.Policy) {
	tr, log := tracker.New(w.cfg, first), []string(nil)
	var facts []tracker.Fact
	for _, e := range w.tape {
		switch {
		case e.restored:
			log = append(log, "restart")
			var err error
			if tr, err = tracker.Restore(w.cfg, next[0], e.now, slices.Values(facts)); err != nil {
				w.t.Fatal(err)
			}
			next = next[1:]
		case e.ev == nil:
			log = append(log, "swap")
			tr.SetPolicy(next[0])
			next = next[1:]
		default:
			log = append(log, tracker.FormatEvent(e.ev))
			for _, effect := range tr.Step(e.now, e.ev) {
				log = append(log, "  "+effect.String())
			}
			facts = append(facts, tr.Facts()...)
		}
	}
	// The first different line names the event that went another way; the rest follows from it.
	for i := range min(len(log), len(w.log)) {
		if log[i] != w.log[i] {
			w.t.Fatalf("played again, line %d differs: %q, was %q, after\n%s", i, log[i], w.log[i], strings.Join(log[max(0, i-20):i], "\n"))
		}
	}
	// All common lines were equal, so one of the two has effects more.
	if len(log) != len(w.log) {
		w.t.Fatalf("played again: %d lines, were %d", len(log), len(w.log))
	}
}

func (w *FakeCluster) step(ev tracker.Event) {
	w.limits = map[string][job.Kinds]int{}
	for _, n := range w.nodes {
		// Before the step, because a policy may change its limits in it, before or after the launch that
		// launch checks.
		w.limits[n] = w.nodeLimits(n)
	}
	effects := w.Tracker.Step(w.now, ev)
	w.facts = append(w.facts, w.Tracker.Facts()...)
	w.shadow(ev, effects)
	w.tape = append(w.tape, entry{now: w.now, ev: ev})
	w.log = append(w.log, tracker.FormatEvent(ev))
	launched, ended := false, false
	for _, e := range effects {
		w.log = append(w.log, "  "+e.String())
		end := e.Kind == tracker.JobDone || e.Kind == tracker.CommitOutput || e.Kind == tracker.AbortOutput
		// The slot of a killed attempt may be given away in the same step. A shell that launched
		// first would run two attempts in one slot.
		if e.Kind == tracker.Kill && launched || !end && ended {
			w.t.Fatalf("effects out of order: %v", effects)
		}
		launched, ended = launched || e.Kind == tracker.Launch, ended || end
		w.apply(e)
	}
	if err := Recount(w.Tracker); err != nil {
		w.t.Fatalf("after %s: %v", tracker.FormatEvent(ev), err)
	}
	if s := w.Tracker.Stats(); s.Refused > 0 {
		w.t.Fatalf("after %s: refused: %s", tracker.FormatEvent(ev), s.LastRefusal)
	}
	if w.Also != nil {
		if err := w.Also(effects); err != nil {
			w.t.Fatalf("after %s: %v", tracker.FormatEvent(ev), err)
		}
	}
}

func (w *FakeCluster) apply(e tracker.Effect) {
	_, ended := w.ended[e.Job]
	// The shell may be publishing the job's output: a file that joins it now would be published in
	// part, or not at all.
	if _, over := w.outputs[e.Job]; (over || ended) && (e.Kind == tracker.Launch || e.Kind == tracker.CommitGranted) {
		w.t.Fatalf("%v after the job's outcome", e)
	}
	switch e.Kind {
	case tracker.JobAccepted:
		w.jobs = append(w.jobs, e.Job)
		j := w.Tracker.Jobs().Get(e.Job)
		w.tasks[e.Job] = j.Total(job.Map) + j.Total(job.Reduce)
	case tracker.Launch:
		w.launch(e)
	// An attempt that may not commit ends at once: its task's output comes from another attempt.
	case tracker.Kill, tracker.CommitDenied:
		w.gone(e.Node, e.Attempt)
	case tracker.CommitGranted:
		if g, ok := w.grants[e.Attempt.TaskID]; ok && g != e.Attempt {
			w.t.Fatalf("%v while %v holds the grant", e, g)
		}
		w.grants[e.Attempt.TaskID] = e.Attempt
	case tracker.MapLost:
		// Reports about older outputs come late and must not make a task run again that has a good one.
		if w.output[e.Attempt.TaskID] != e.Attempt {
			w.t.Fatalf("%v: not the task's output", e)
		}
		delete(w.output, e.Attempt.TaskID)
	case tracker.CommitOutput, tracker.AbortOutput:
		if before, ok := w.outputs[e.Job]; ok || ended || e.Kind == tracker.CommitOutput && before.Kind != 0 {
			w.t.Fatalf("%v after %v", e, before)
		}
		w.outputs[e.Job] = e
		w.waiting = append(w.waiting, e.Job)
	case tracker.JobDone:
		if ended || e.State != w.answered {
			w.t.Fatalf("%v, wanted it once and %v", e, w.answered)
		}
		w.ended[e.Job] = e.State
	}
}

// finishOutput answers the effect of the i-th job whose output is waiting. failure
// is the storage's error, or "".
func (w *FakeCluster) finishOutput(i int, failure string) {
	id := w.waiting[i]
	e := w.outputs[id]
	w.waiting = slices.Delete(w.waiting, i, i+1)
	delete(w.outputs, id)
	w.answered = e.State
	if e.Kind == tracker.AbortOutput {
		w.step(&tracker.AbortEnded{Job: id, Error: failure})
		return
	}
	w.step(&tracker.CommitEnded{Job: id, Error: failure})
	if _, again := w.outputs[id]; again != (failure != "") {
		w.t.Fatalf("%v: the commit ended with %q, and an abort was ordered: %v", id, failure, again)
	}
}

func (w *FakeCluster) launch(e tracker.Effect) {
	w.runs[e.Node] = append(w.runs[e.Node], running{e.Attempt, e.Slot, e.Width})
	used, inAll := 0, 0
	for _, r := range w.runs[e.Node] {
		inAll += r.width
		if r.slot == e.Slot {
			used += r.width
		}
	}
	after, all := w.nodeLimits(e.Node), w.slots[e.Node][job.Map]+w.slots[e.Node][job.Reduce]
	limit := max(w.limits[e.Node][e.Slot], after[e.Slot])
	if !w.live[e.Node] || used > limit || !w.Boundless && inAll > all {
		w.t.Fatalf("%v: slots over-committed: %d %v slots of %d, %d of %d in all", e, used, e.Slot, limit,
			inAll, all)
	}
	if n := w.Tracker.Nodes().Get(e.Node); w.shut[e.Node] || n.Graylisted() {
		w.t.Fatalf("%v: the node is being drained, or avoided", e)
	}
	if _, done := w.output[e.Attempt.TaskID]; done {
		w.t.Fatalf("%v: the task is done", e)
	}
}

// nodeLimits returns how many slots a node has in the eyes of the policy.
func (w *FakeCluster) nodeLimits(name string) [job.Kinds]int {
	if w.limiter != nil {
		if n := w.Tracker.Nodes().Get(name); n != nil && n.Alive() {
			return w.limiter.Limits(n)
		}
	}
	return w.slots[name]
}

// gone forgets a running attempt and the grant that it held.
func (w *FakeCluster) gone(node string, id job.AttemptID) {
	w.runs[node] = slices.DeleteFunc(w.runs[node], func(r running) bool { return r.id == id })
	// The permission dies with its holder, or no other attempt of the task could ever commit.
	if w.grants[id.TaskID] == id {
		delete(w.grants, id.TaskID)
	}
}

// tell reports an attempt's end and checks that a success counts once.
func (w *FakeCluster) tell(node string, id job.AttemptID, state job.AttemptState) {
	w.gone(node, id)
	r := tracker.Report{Attempt: id, State: state, Error: "x"}
	if state == job.AttemptFailed {
		r.Cause = rapid.SampledFrom([]job.Cause{job.CauseTask, job.CauseTask, job.CauseStorage, job.CauseNode, job.CauseDenied, job.CauseProgram, job.CausePermanent}).Draw(w.t, "cause")
	}
	if state == job.AttemptSucceeded {
		r.Counters = &counters.Set{}
		r.Counters.Add(counters.InputRecords, 1+int64(id.Index))
		r.Counters.AddUser("tries", int64(id.Number))
	}
	before := w.Tracker.Jobs().Attempt(id)
	tries := -1 // the attempts of the task; -1 if the report changes nothing
	// A restarted tracker waits for its nodes to join again. It drops their earlier reports.
	n := w.Tracker.Nodes().Get(node)
	if n != nil && n.Alive() && before != nil && before.State() == job.AttemptRunning && before.Task().Job().State().Live() {
		tries = before.Task().Attempts()
	}
	// NoWork, so that no launch is among the effects of the report.
	w.step(&tracker.Heartbeat{Node: node, Reports: []tracker.Report{r}, NoWork: true})
	a := w.Tracker.Jobs().Attempt(id)
	// A periodic part runs before the report in the same step. If it preempts the attempt, the
	// report comes too late to fail the job.
	preempted := a != nil && a.State() == job.AttemptKilled
	if tries >= 0 && r.Cause.Final() && !preempted && (a == nil || a.Task().Job().Outcome() != job.Failed || a.Task().Attempts() != tries) {
		w.t.Fatalf("%v failed for the cause %q, and its job goes on", id, r.Cause)
	}
	if a == nil || a.State() != job.AttemptSucceeded || state != job.AttemptSucceeded {
		return
	}
	if before, ok := w.output[id.TaskID]; ok && before != id {
		w.t.Fatalf("%v succeeded after %v had", id, before)
	}
	if g, ok := w.grants[id.TaskID]; ok && g != id {
		w.t.Fatalf("%v succeeded while %v held the grant", id, g)
	}
	w.output[id.TaskID] = id
}

// Join makes a node join, or join again as one that has started afresh.
func (w *FakeCluster) Join(name string, maps, reduces int) {
	// A worker that starts afresh has lost its attempts, whether or not the tracker has noticed.
	w.dropNode(name)
	w.slots[name], w.live[name] = [job.Kinds]int{maps, reduces}, true
	if !slices.Contains(w.nodes, name) {
		w.nodes = append(w.nodes, name)
	}
	w.step(&tracker.Join{Node: w.spec(name)})
}

func (w *FakeCluster) spec(name string) cluster.Spec {
	return cluster.Spec{Name: name, Host: "h" + name[1:], Rack: "/r" + name[len(name)-1:],
		MapSlots: w.slots[name][job.Map], ReduceSlots: w.slots[name][job.Reduce],
		MemoryBytes: int64(w.slots[name][job.Map]+w.slots[name][job.Reduce]) * SlotMemory}
}

// SlotMemory is the memory of each slot of a FakeCluster, in bytes.
const SlotMemory = 1 << 30

// maxWidth is the number of slots that tasks of Act's jobs occupy at most.
const maxWidth = 3

// drain keeps new work from a node, or with undo no longer.
func (w *FakeCluster) drain(name string, undo bool) {
	w.step(&tracker.Drain{Node: name, Undo: undo})
	w.shut[name] = !undo && slices.Contains(w.nodes, name)
}

func (w *FakeCluster) dropNode(name string) {
	for _, r := range slices.Clone(w.runs[name]) {
		w.gone(name, r.id)
	}
	w.live[name] = false
}

// Settle makes every node behave well until all jobs have ended, and fails if
// they do not. conserving says that the policy leaves no slot free while a task
// could use it; then that is checked as well.
func (w *FakeCluster) Settle(conserving bool) {
	// A task of several slots can only end on a node that has as many, which random nodes need not have.
	if w.anyWide() {
		w.Join("n1", maxWidth, maxWidth)
	} else {
		w.Join("n1", 1, 1)
	}
	for _, n := range w.nodes {
		w.drain(n, true)
	}
	for round := 0; len(w.Tracker.Jobs().Live())+len(w.waiting) > 0; round++ {
		// Far more than the longest chain of maps, reduces, retries and lost outputs in a script can need.
		if round > 300 {
			w.t.Fatalf("jobs do not end: %v", w.stuck())
		}
		for len(w.waiting) > 0 {
			w.finishOutput(0, "")
		}
		// Time passes, so that the pauses before retries end.
		w.now += 10 * time.Second
		w.Beat()
		if idle := IdleWork(w.Tracker, true); conserving && idle != "" {
			w.t.Fatal(idle)
		}
		for _, n := range w.nodes {
			for _, r := range slices.Clone(w.runs[n]) {
				// The success of one attempt kills its copy, which may be the next in the list.
				if slices.Contains(w.runs[n], r) {
					w.succeed(n, r.id)
				}
			}
		}
	}
	w.checkEnds()
}

// anyWide reports whether tasks of a live job occupy several slots.
func (w *FakeCluster) anyWide() bool {
	return slices.ContainsFunc(w.Tracker.Jobs().Live(), func(j *job.Job) bool { return j.TaskMemory() > SlotMemory })
}

// Beat sends a heartbeat of every node, in turn, none under load. Time-outs
// and returning nodes make tasks pending, so they happen before the first
// heartbeat: after the last one, a policy has had the chance to fill every slot.
//
// A slot may become usable when its node has had its turn. Then all nodes have another turn,
// for one of three reasons: a reduce was killed because it keeps maps out; a job's last
// pending map was launched, so its reduces may start again; or a slot was reserved for a
// task that needs several, which then started on another node.
func (w *FakeCluster) Beat() {
	held, wide := w.Tracker.Jobs().MapsFirst() > 0, w.anyWide()
	for {
		before := w.Tracker.Stats()
		w.beat()
		now := w.Tracker.Stats()
		if !held && now.Preempted == before.Preempted && (!wide || now.Launches == before.Launches) {
			return
		}
		held = false
	}
}

func (w *FakeCluster) beat() {
	w.tick()
	for _, n := range w.nodes {
		if w.absent(n) && rapid.Bool().Draw(w.t, "back") {
			w.rejoin(n, func() bool { return true })
		}
	}
	for _, n := range w.nodes {
		if w.live[n] {
			w.step(&tracker.Heartbeat{Node: n, Load: cluster.Load{CPU: 0.1, MemoryFree: 0.9, LoadAverage: 0.1}})
		}
	}
}

// checkEnds checks that all jobs have ended, and that each task of the jobs that
// succeeded has an output.
func (w *FakeCluster) checkEnds() {
	outputs := map[job.ID]int{}
	//house:sorted counting
	for id := range w.output {
		outputs[id.Job]++
	}
	for _, id := range w.jobs {
		state, ok := w.ended[id]
		if !ok {
			w.t.Fatalf("%v never ended", id)
		}
		if state == job.Succeeded && outputs[id] != w.tasks[id] {
			w.t.Fatalf("%v succeeded with the output of %d of its %d tasks", id, outputs[id], w.tasks[id])
		}
	}
}

// stuck says of each live job why it gets nothing.
func (w *FakeCluster) stuck() (lines []string) {
	for _, j := range w.Tracker.Jobs().Live() {
		for k := range job.Kind(job.Kinds) {
			_, words := w.Tracker.Explain(j, k)
			lines = append(lines, fmt.Sprintf("%v %v: %s", j.ID(), k, words))
		}
	}
	return lines
}
