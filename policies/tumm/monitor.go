package tumm

import (
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
	in  [job.Kinds]bool // whether the job is in a phase
	all [job.Kinds]mean
	// known says that all holds times that are known in advance, which no finished task changes.
	known bool
	// nodes lists the nodes whose monitor.local has an entry of the job.
	nodes []int32
}

// localTimes holds the times of a job's tasks on one node.
type localTimes struct {
	job  job.ID
	mean [job.Kinds]mean
}

// entry is a job in a phase with copies of the values that its work is computed
// from. Each heartbeat sums over all entries, so with a thousand jobs in their
// reduce phase the sum must not visit the jobs or the monitor's members.
type entry struct {
	job   *job.Job
	id    job.ID
	left  float64 // n'
	time  float64 // t̄, 0 while no task of the kind has finished
	other float64 // t̄ of the job's other kind, 0 while no task of that kind has finished
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
	members       []member            // by job seat
	local         [][]localTimes      // by node, then by job id; only if perNode
	phase         [job.Kinds][]entry  // by job id
	head          *job.Job            // first in order with a map to launch
	last          [job.Kinds]float64  // the mean of any job that changed last; 0 if none
	phasesBefore  [job.Kinds][]job.ID // the phases at the last call of changed
	stale         bool                // the targets must be computed again
	phasesChanged bool                // a phase may have changed since the last call of changed
	found         *job.Job            // result of visitFirst
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
	m.members[j.Seat()] = member{}
	for k := range job.Kind(job.Kinds) {
		for i := 0; j.Done(k) > 0 && i < j.Total(k); i++ {
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
	seconds := max(shortest, (a.Ended() - from).Seconds())
	w := &m.members[j.Seat()]
	// A simulation's true mean stands (section 4.1). Finished tasks would only add noise.
	if w.known {
		return
	}
	w.all[k].add(seconds)
	m.last[k] = w.all[k].value
	if m.perNode {
		m.learnOn(a.Node(), w, j.ID(), k, seconds)
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
func (m *monitor) learnOn(node int32, w *member, id job.ID, k job.Kind, seconds float64) {
	for int(node) >= len(m.local) {
		m.local = append(m.local, nil)
	}
	at, found := findLocal(m.local[node], id)
	if !found {
		m.local[node] = slices.Insert(m.local[node], at, localTimes{job: id})
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
	m.setPhase(j, job.Map, j.Running(job.Map) > 0 || j == m.head)
	m.setPhase(j, job.Reduce, j.MapsDone() && j.Unfinished(job.Reduce) > 0)
}

// setPhase adds a job to a phase, updates its entry, or removes it.
func (m *monitor) setPhase(j *job.Job, k job.Kind, in bool) {
	w := &m.members[j.Seat()]
	if !in && !w.in[k] {
		return
	}
	at, _ := slices.BinarySearchFunc(m.phase[k], j.ID(), func(e entry, id job.ID) int { return int(e.id - id) })
	if in != w.in[k] {
		w.in[k], m.phasesChanged = in, true
		if !in {
			m.phase[k] = slices.Delete(m.phase[k], at, at+1)
			return
		}
		m.phase[k] = slices.Insert(m.phase[k], at, entry{})
	}
	m.phase[k][at] = m.entryOf(j, k)
}

// lookAhead finds the first job in order with a map to launch.
func (m *monitor) lookAhead(r *sched.Round) {
	head, old := m.first(r, job.Map), m.head
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
	return j.Width() * j.Unfinished(k)
}

// entryOf returns the present values of a job.
func (m *monitor) entryOf(j *job.Job, k job.Kind) entry {
	w := &m.members[j.Seat()]
	return entry{job: j, id: j.ID(), left: float64(m.left(j, k)), time: w.all[k].value, other: w.all[k.Other()].value}
}

// timeOf returns t̄ of a job's tasks in seconds. For a job without a finished
// task of the kind it uses the first of these that exists (reading 4 in README.md): the latest mean
// of the kind of any job, the job's own mean of the other kind, the latest mean
// of the other kind of any job, one second.
func (m *monitor) timeOf(e *entry, k job.Kind) float64 {
	switch {
	case e.time > 0:
		return e.time
	case m.last[k] > 0:
		return m.last[k]
	case e.other > 0:
		return e.other
	case m.last[k.Other()] > 0:
		return m.last[k.Other()]
	}
	return 1
}

// work is Eq. 1 and 2: ω' = Σ t̄·n' over the jobs in a phase, in slot·seconds.
func (m *monitor) work() (all [job.Kinds]float64) {
	for k := range job.Kind(job.Kinds) {
		// Four sums, because an addition waits for the one before it, which takes longer than reading
		// the entry. The order of additions follows the jobs' ids, so it is the same in every run.
		var sums [4]float64
		list := m.phase[k]
		for ; len(list) >= len(sums); list = list[len(sums):] {
			sums[0] += m.timeOf(&list[0], k) * list[0].left
			sums[1] += m.timeOf(&list[1], k) * list[1].left
			sums[2] += m.timeOf(&list[2], k) * list[2].left
			sums[3] += m.timeOf(&list[3], k) * list[3].left
		}
		for i := range list {
			sums[0] += m.timeOf(&list[i], k) * list[i].left
		}
		all[k] = (sums[0] + sums[1]) + (sums[2] + sums[3])
	}
	return all
}

// workOn returns the work at the speed of a node's tasks (reading 11 in README.md), and the same at
// the speed of the cluster's tasks. A job without finished tasks on the node
// counts there as in the cluster.
func (m *monitor) workOn(node int32) (own, all [job.Kinds]float64) {
	var local []localTimes
	if int(node) < len(m.local) {
		local = m.local[node]
	}
	for k := range job.Kind(job.Kinds) {
		here, sum, on := 0.0, 0.0, local
		for i := range m.phase[k] {
			e := &m.phase[k][i]
			t := m.timeOf(e, k)
			sum += t * e.left
			// Both lists are sorted by job, so one walk finds the entries of this node.
			for len(on) > 0 && on[0].job < e.id {
				on = on[1:]
			}
			if len(on) > 0 && on[0].job == e.id && on[0].mean[k].count > 0 {
				t = on[0].mean[k].value
			}
			here += t * e.left
		}
		own[k], all[k] = here, sum
	}
	return own, all
}
