package tumm

import (
	"math"
	"slices"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// mean is a one-pass mean (Welford) of task times in seconds.
type mean struct {
	count int
	value float64
}

// add is Algorithm 2, line 1: t̄ += (d − t̄)/count.
func (m *mean) add(seconds float64) {
	m.count++
	m.value += (seconds - m.value) / float64(m.count)
}

// shortest is the least time of a task in seconds. Means must be positive:
// otherwise tasks that take no time would be no work, however many remain.
const shortest = 1e-6

// member is the monitor's record of a live job.
type member struct {
	in   [job.Kinds]bool      // whether the job is in a phase
	part [job.Kinds]remaining // of the phase's work; zero unless the job is in it
	all  [job.Kinds]mean
	// known says that all holds times that are known in advance, which no finished task changes.
	known bool
	// nodes lists the nodes whose monitor.local has an entry of the job.
	nodes []int32
}

// localTimes holds the times of a job's tasks on one node.
type localTimes struct {
	job  job.ID
	seat int
	mean [job.Kinds]mean
}

// entry is a job in a phase.
type entry struct {
	job *job.Job
	id  job.ID
}

// amount is a number of tasks with their work in slot·seconds, as whole seconds and parts of a
// second. Integers have the same sum in any order, so a job's amount can be replaced without adding
// up all others.
type amount struct{ tasks, seconds, parts int64 }

// partsOf is the number of parts of a second. The shortest task has a million parts.
const partsOf = 1 << 40

// amountOf is t̄·n'. The limit keeps the sum of a thousand jobs within an int64.
func amountOf(time float64, tasks int64) amount {
	x := min(float64(time*float64(tasks)), 1<<53)
	whole := math.Floor(x)
	return amount{tasks, int64(whole), int64((x - whole) * partsOf)}
}

// add adds n times another amount.
func (a *amount) add(b amount, n int64) {
	a.tasks += n * b.tasks
	a.seconds += n * b.seconds
	a.parts += n * b.parts
}

// work returns the sum of t̄·n' in slot·seconds.
func (a amount) work() float64 { return float64(a.seconds) + float64(a.parts)/partsOf }

// remaining is the remaining work of jobs in a phase, without the part that depends on the times of
// other jobs. A job counts in one of the fields.
type remaining struct {
	known   amount // with the mean of the job's tasks of the kind
	other   amount // with the mean of the job's tasks of the other kind, if no task of the kind has finished
	guessed int64  // tasks of jobs without either mean
}

// add adds n times the work of other jobs.
func (w *remaining) add(o *remaining, n int64) {
	w.known.add(o.known, n)
	w.other.add(o.other, n)
	w.guessed += n * o.guessed
}

// monitor is the paper's workload monitor (Algorithm 2). It keeps the mean
// times of each job's finished tasks, the jobs in each phase, and the remaining
// work.
//
// A job is in its map phase if it runs a map, or if it is the first in order
// with a map to launch. It is in its reduce phase if its maps are all done
// while reduces remain (readings 2 and 3 in README.md). Other jobs do not count: not queued jobs, and
// not reduces that were launched early.
type monitor struct {
	cfg           *Config
	perNode       bool
	order         sched.Order
	members       []member             // by job seat
	local         [][]localTimes       // by node, then by job id; only if perNode
	phase         [job.Kinds][]entry   // by job id
	sum           [job.Kinds]remaining // of the jobs in phase
	head          *job.Job             // first in order with a map to launch
	last          [job.Kinds]float64   // the mean of any job that changed last; 0 if none
	phasesBefore  [job.Kinds][]job.ID  // the phases at the last call of changed
	stale         bool                 // the targets must be computed again
	phasesChanged bool                 // a phase may have changed since the last call of changed
	found         *job.Job             // result of visitFirst
	visit         func(sched.Candidate) bool
}

func newMonitor(cfg *Config, perNode bool) *monitor {
	m := &monitor{cfg: cfg, perNode: perNode, stale: true, phasesChanged: true}
	m.visit = m.visitFirst
	return m
}

// added starts to watch a job. If the job has run under another policy, its
// finished tasks provide its means, which costs a visit to each task.
func (m *monitor) added(j *job.Job) {
	for j.Seat() >= len(m.members) {
		m.members = append(m.members, member{})
	}
	// The seat's former job may have left its means.
	m.members[j.Seat()] = member{}
	for k := range job.Kind(job.Kinds) {
		for i := 0; j.Done(k) > 0 && i < j.Total(k); i++ {
			// A map whose output was lost counts as unfinished and has no success to learn from.
			if a := j.Task(k, int32(i)).Success(); a != nil {
				m.learn(a)
			}
		}
	}
	m.sync(j)
}

// removed forgets a job, in the phases and in the times of each node where it has run.
func (m *monitor) removed(j *job.Job) {
	m.stale = true
	// lookAhead would otherwise sync this job in the next round, when its seat may be another job's.
	if m.head == j {
		m.head = nil
	}
	for k := range job.Kind(job.Kinds) {
		m.setPhase(j, k, false)
	}
	w := &m.members[j.Seat()]
	for _, n := range w.nodes {
		if at, found := findLocal(m.local[n], j.ID()); found {
			m.local[n] = slices.Delete(m.local[n], at, at+1)
		}
	}
	*w = member{}
}

// ended includes a finished attempt in the means. Failed and killed attempts do
// not count.
func (m *monitor) ended(a *job.Attempt) {
	if a.State() == job.AttemptSucceeded {
		m.learn(a)
	}
	m.sync(a.Job())
}

// learn includes the time of a finished task in the means (Algorithm 2).
func (m *monitor) learn(a *job.Attempt) {
	j, k, from := a.Job(), a.Kind(), a.Started()
	// The time until the job's last map ended is a wait and no work (reading 10 in README.md). A
	// job whose output was lost has no such moment.
	if k == job.Reduce && m.cfg.ReduceTime == AfterMaps && j.MapsDone() {
		from = min(max(from, j.MapsDoneAt()), a.Ended())
	}
	// See shortest. Virtual clocks can start and end a task in the same instant.
	seconds := max(shortest, (a.Ended() - from).Seconds())
	w := &m.members[j.Seat()]
	// A simulation's true mean stands (section 4.1). Finished tasks would only add noise.
	if w.known {
		return
	}
	w.all[k].add(seconds)
	// The job's mean and not this task's time: one odd task would otherwise be the guess for every job that
	// has finished none (reading 4 in README.md).
	m.last[k] = w.all[k].value
	if m.perNode {
		m.learnOn(a.Node(), w, j, k, seconds)
	}
}

// know sets the means of a job to times that are known in advance, from the work of all its
// tasks.
func (m *monitor) know(j *job.Job, work [job.Kinds]time.Duration) {
	w := &m.members[j.Seat()]
	w.known = true
	for k := range w.all {
		if total := j.Total(job.Kind(k)); total > 0 {
			w.all[k] = mean{count: 1, value: max(shortest, work[k].Seconds()/float64(total))}
		}
	}
	m.sync(j)
}

// learnOn adds the time of a task to the job's times on a node. Only jobs that have
// finished a task on the node have an entry there: a table with all jobs and nodes would
// be mostly empty.
func (m *monitor) learnOn(node int32, w *member, j *job.Job, k job.Kind, seconds float64) {
	for int(node) >= len(m.local) {
		m.local = append(m.local, nil)
	}
	at, found := findLocal(m.local[node], j.ID())
	if !found {
		m.local[node] = slices.Insert(m.local[node], at, localTimes{job: j.ID(), seat: j.Seat()})
		w.nodes = append(w.nodes, node)
	}
	m.local[node][at].mean[k].add(seconds)
}

// findLocal returns the position of a job in a list of a node.
func findLocal(list []localTimes, id job.ID) (at int, found bool) {
	return slices.BinarySearchFunc(list, id, func(x localTimes, id job.ID) int { return int(x.job - id) })
}

// sync updates the phases that a job is in.
func (m *monitor) sync(j *job.Job) {
	m.stale = true
	// Both calls also replace the job's part of the work, whether or not its phases change.
	m.setPhase(j, job.Map, j.Running(job.Map) > 0 || j == m.head)
	// Reading 3 in README.md: reduces that started early wait for maps, so more slots for reduces would not
	// end them sooner.
	m.setPhase(j, job.Reduce, j.MapsDone() && j.Unfinished(job.Reduce) > 0)
}

// setPhase adds a job to a phase, replaces its part of the work, or removes it.
func (m *monitor) setPhase(j *job.Job, k job.Kind, in bool) {
	w := &m.members[j.Seat()]
	if in != w.in[k] {
		at, _ := slices.BinarySearchFunc(m.phase[k], j.ID(), func(e entry, id job.ID) int { return int(e.id - id) })
		w.in[k], m.phasesChanged = in, true
		if in {
			m.phase[k] = slices.Insert(m.phase[k], at, entry{j, j.ID()})
		} else {
			m.phase[k] = slices.Delete(m.phase[k], at, at+1)
		}
	}
	// The sum of a phase changes by the difference: adding up all jobs would cost their number at
	// each heartbeat.
	m.sum[k].add(&w.part[k], -1)
	w.part[k] = remaining{}
	if in {
		w.part[k] = m.remainingOf(j, k, m.left(j, k))
	}
	m.sum[k].add(&w.part[k], 1)
}

// lookAhead finds the first job in order with a map to launch.
func (m *monitor) lookAhead(r *sched.Round) {
	head, old := m.first(r, job.Map), m.head
	// The usual case. sync marks the work as stale, so every round would plan again.
	if head == old {
		return
	}
	m.head = head
	// Only the first job in order counts as mapping before one of its maps runs (reading 2 in
	// README.md), so the former first job may leave the phase.
	if old != nil {
		m.sync(old)
	}
	if head != nil {
		m.sync(head)
	}
}

// first returns the first job in order with a task of the kind to launch.
func (m *monitor) first(r *sched.Round, k job.Kind) *job.Job {
	m.found = nil
	m.order.Each(r, sched.Offer{Kind: k, Slot: k, NoCopies: true}, m.visit)
	return m.found
}

// visitFirst stores the first launchable candidate in found.
func (m *monitor) visitFirst(c sched.Candidate) bool {
	// Orders may also visit jobs for copies. A job with nothing to launch needs no slots that a split could
	// give.
	if !c.Job.Launchable(c.Kind) {
		return true
	}
	m.found = c.Job
	return false
}

// changed reports whether the jobs in the phases differ from those at the last
// call. It costs the number of jobs in them, and nothing if no phase has been
// touched.
func (m *monitor) changed() bool {
	if !m.phasesChanged {
		return false
	}
	m.phasesChanged = false
	// Compared by content: a job that left a phase and came back between two heartbeats is no
	// change, which would restart the feedback (reading 5 in README.md).
	same := true
	for k, now := range m.phase {
		same = same && slices.EqualFunc(now, m.phasesBefore[k], func(e entry, id job.ID) bool { return e.id == id })
		m.phasesBefore[k] = m.phasesBefore[k][:0]
		for i := range now {
			m.phasesBefore[k] = append(m.phasesBefore[k], now[i].id)
		}
	}
	return !same
}

// left counts the remaining tasks of a job, n'.
func (m *monitor) left(j *job.Job, k job.Kind) int {
	if m.cfg.Remaining == Unassigned {
		return j.Wanted(k)
	}
	// In slots, not tasks: a task of two slots is twice the work in the same time. Width is the job's
	// least, because the nodes of its pending tasks are not known.
	return j.Width() * j.Unfinished(k)
}

// remainingOf returns the work of tasks of a job.
func (m *monitor) remainingOf(j *job.Job, k job.Kind, tasks int) remaining {
	left, all := int64(tasks), &m.members[j.Seat()].all
	switch {
	case all[k].value > 0:
		return remaining{known: amountOf(all[k].value, left)}
	case all[k.Other()].value > 0:
		return remaining{other: amountOf(all[k.Other()].value, left)}
	}
	return remaining{guessed: left}
}

// timeOf returns t̄ of a job's tasks in seconds.
func (m *monitor) timeOf(j *job.Job, k job.Kind) float64 {
	one := m.remainingOf(j, k, 1)
	return m.total(&one, k)
}

// total is Eq. 1 and 2: ω' = Σ t̄·n' over jobs, in slot·seconds. For a job without
// a finished task of the kind t̄ is the first of these that exists (reading 4 in README.md): the latest mean
// of the kind of any job, the job's own mean of the other kind, the latest mean
// of the other kind of any job, one second.
func (m *monitor) total(w *remaining, k job.Kind) float64 {
	switch last, other := m.last[k], m.last[k.Other()]; {
	// m.last changes with every finished task, so sums hold numbers of tasks and not products: the guess is
	// the same for all these jobs.
	case last > 0:
		return w.known.work() + float64(last*float64(w.other.tasks+w.guessed))
	case other > 0:
		return w.known.work() + w.other.work() + float64(other*float64(w.guessed))
	}
	return w.known.work() + w.other.work() + float64(w.guessed)
}

// work returns ω' of both phases.
func (m *monitor) work() (all [job.Kinds]float64) {
	for k := range m.sum {
		all[k] = m.total(&m.sum[k], job.Kind(k))
	}
	return all
}

// workOn returns the work at the speed of a node's tasks (reading 11 in README.md), and the same at
// the speed of the cluster's tasks. A job without finished tasks on the node
// counts there as in the cluster. workOn costs a step for each job with finished tasks on the node.
func (m *monitor) workOn(node int32) (own, all [job.Kinds]float64) {
	here := m.sum
	for i := 0; int(node) < len(m.local) && i < len(m.local[node]); i++ {
		l := &m.local[node][i]
		for k := range l.mean {
			// Only the job's known part is exchanged. A job with a mean on this node has one in the
			// cluster, so its work is nowhere else.
			if w := &m.members[l.seat]; w.in[k] && l.mean[k].count > 0 {
				here[k].known.add(w.part[k].known, -1)
				here[k].known.add(amountOf(l.mean[k].value, w.part[k].known.tasks), 1)
			}
		}
	}
	for k := range here {
		own[k] = m.total(&here[k], job.Kind(k))
	}
	return own, m.work()
}
