package tumm

import (
	"slices"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
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

// shortest is the least time of a task. Means must be positive: tasks that take
// no time at all would be no work, however many are left.
const shortest = 1e-6

// row is what the monitor knows of a live job. On is by node and stays empty
// unless the monitor keeps nodes apart.
type row struct {
	in  [job.Kinds]bool // whether the job is in a phase
	all [job.Kinds]mean
	on  [][job.Kinds]mean
}

// entry is a job in a phase, with what its work is computed from copied beside
// it: with a thousand jobs in their reduce phase a sum over them is taken on each
// heartbeat, and should not have to visit the jobs.
type entry struct {
	job  *job.Job
	left float64           // n'
	time float64           // t̄, 0 while no task has finished
	on   [][job.Kinds]mean // of the row
}

// monitor is the paper's workload monitor (Algorithm 2): the mean times of each
// job's finished tasks, which jobs are in which phase, and the work left.
//
// In its map phase is each job that runs a map, and the first one in order that
// has a map to launch; in its reduce phase each job whose maps are all done
// while reduces are left (A2, A3). A job in neither counts for nothing: not the
// queued ones, and not reduces that were launched early.
type monitor struct {
	cfg     *Config
	perNode bool
	order   sched.Order
	rows    []row               // by seat
	phase   [job.Kinds][]entry  // by job number
	head    *job.Job            // first in order with a map to launch
	last    [job.Kinds]float64  // the mean that changed last, of any job; 0 if none
	was     [job.Kinds][]job.ID // the phases when changed was last asked
	stale   bool                // something changed since the last look
	moved   bool                // a phase may have changed since then
	found   *job.Job
	visit   func(sched.Candidate) bool
}

func newMonitor(cfg *Config, perNode bool) *monitor {
	m := &monitor{cfg: cfg, perNode: perNode, stale: true, moved: true}
	m.visit = m.see
	return m
}

// added starts with a job. If it has run before, under another policy, the mean
// times are those of its finished tasks, which costs the number of its tasks.
func (m *monitor) added(j *job.Job) {
	for j.Seat() >= len(m.rows) {
		m.rows = append(m.rows, row{})
	}
	m.rows[j.Seat()] = row{}
	for k := range job.Kind(job.Kinds) {
		for i := 0; j.Done(k) > 0 && i < j.Total(k); i++ {
			if a := j.Task(k, int32(i)).Success(); a != nil {
				m.learn(a)
			}
		}
	}
	m.place(j)
}

func (m *monitor) removed(j *job.Job) {
	m.stale = true
	if m.head == j {
		m.head = nil
	}
	for k := range job.Kind(job.Kinds) {
		m.enter(j, k, false)
	}
	m.rows[j.Seat()] = row{} // the means of nodes take room
}

// ended takes in a finished attempt. Failed and killed ones say nothing of how
// long a task takes.
func (m *monitor) ended(a *job.Attempt) {
	if a.State() == job.AttemptSucceeded {
		m.learn(a)
	}
	m.place(a.Job())
}

func (m *monitor) learn(a *job.Attempt) {
	j, k, from := a.Job(), a.Kind(), a.Started()
	if k == job.Reduce && m.cfg.ReduceTime == AfterMaps && j.MapsDone() {
		from = min(max(from, j.MapsDoneAt()), a.Ended())
	}
	seconds := max(shortest, (a.Ended() - from).Seconds())
	w := &m.rows[j.Seat()]
	w.all[k].add(seconds)
	m.last[k] = w.all[k].value
	if m.perNode {
		for int(a.Node()) >= len(w.on) {
			w.on = append(w.on, [job.Kinds]mean{})
		}
		w.on[a.Node()][k].add(seconds)
	}
}

// place puts a job into the phases that it is in now.
func (m *monitor) place(j *job.Job) {
	m.stale = true
	m.enter(j, job.Map, j.Running(job.Map) > 0 || j == m.head)
	m.enter(j, job.Reduce, j.MapsDone() && j.Unfinished(job.Reduce) > 0)
}

func (m *monitor) enter(j *job.Job, k job.Kind, in bool) {
	w := &m.rows[j.Seat()]
	if !in && !w.in[k] {
		return
	}
	at, _ := slices.BinarySearchFunc(m.phase[k], j.ID(), func(e entry, id job.ID) int { return int(e.job.ID() - id) })
	if in != w.in[k] {
		w.in[k], m.moved = in, true
		if !in {
			m.phase[k] = slices.Delete(m.phase[k], at, at+1)
			return
		}
		m.phase[k] = slices.Insert(m.phase[k], at, entry{job: j})
	}
	e := &m.phase[k][at]
	e.left, e.time, e.on = float64(m.left(j, k)), w.all[k].value, w.on
}

// lookAhead finds the first job in order that has a map to launch.
func (m *monitor) lookAhead(r *sched.Round) {
	head, old := m.first(r, job.Map), m.head
	if head == old {
		return
	}
	m.head = head
	if old != nil {
		m.place(old)
	}
	if head != nil {
		m.place(head)
	}
}

// first returns the first job in order that has a task of the kind to launch.
func (m *monitor) first(r *sched.Round, k job.Kind) *job.Job {
	m.found = nil
	m.order.Each(r, sched.Offer{Kind: k, Slot: k, NoCopies: true}, m.visit)
	return m.found
}

// see keeps the first launchable candidate.
func (m *monitor) see(c sched.Candidate) bool {
	if !c.Job.Launchable(c.Kind) {
		return true
	}
	m.found = c.Job
	return false
}

// changed reports whether other jobs are in one of the phases than when it was
// asked last. It costs the number of jobs in them, and nothing most of the time.
func (m *monitor) changed() bool {
	if !m.moved {
		return false
	}
	m.moved = false
	same := true
	for k, now := range m.phase {
		same = same && slices.EqualFunc(now, m.was[k], func(e entry, id job.ID) bool { return e.job.ID() == id })
		m.was[k] = m.was[k][:0]
		for i := range now {
			m.was[k] = append(m.was[k], now[i].job.ID())
		}
	}
	return !same
}

// left counts the remaining tasks of a job, n'.
func (m *monitor) left(j *job.Job, k job.Kind) int {
	if m.cfg.Remaining == Unassigned {
		return j.Pending(k)
	}
	return j.Unfinished(k)
}

// time is t̄ of a job's tasks in seconds. A job none of whose tasks of the kind
// has finished takes, where there is one (A5): the latest mean of that kind of
// any job, its own mean of the other kind, the latest mean of the other kind of
// any job, a second.
func (m *monitor) time(j *job.Job, k job.Kind) float64 {
	w := &m.rows[j.Seat()]
	switch {
	case w.all[k].count > 0:
		return w.all[k].value
	case m.last[k] > 0:
		return m.last[k]
	case w.all[k.Other()].count > 0:
		return w.all[k.Other()].value
	case m.last[k.Other()] > 0:
		return m.last[k.Other()]
	}
	return 1
}

// timeOf is time of a job in a phase, as a rule without a look at the job.
func (m *monitor) timeOf(e *entry, k job.Kind) float64 {
	switch {
	case e.time > 0:
		return e.time
	case m.last[k] > 0:
		return m.last[k]
	}
	return m.time(e.job, k)
}

// work is Eq. 1 and 2: ω' = Σ t̄·n' over the jobs in a phase, in slot·seconds.
func (m *monitor) work() (all [job.Kinds]float64) {
	for k := range job.Kind(job.Kinds) {
		sum := 0.0
		for i := range m.phase[k] {
			e := &m.phase[k][i]
			t := e.time
			if t == 0 {
				t = m.timeOf(e, k)
			}
			sum += t * e.left
		}
		all[k] = sum
	}
	return all
}

// workOn is the same work as the tasks of a node take it (A12), beside it as
// those of the cluster do. A job that has finished no task on the node counts
// there as it does in the cluster.
func (m *monitor) workOn(node int32) (own, all [job.Kinds]float64) {
	for k := range job.Kind(job.Kinds) {
		here, sum := 0.0, 0.0
		for i := range m.phase[k] {
			e := &m.phase[k][i]
			t := e.time
			if t == 0 {
				t = m.timeOf(e, k)
			}
			sum += t * e.left
			if int(node) < len(e.on) && e.on[node][k].count > 0 {
				t = e.on[node][k].value
			}
			here += t * e.left
		}
		own[k], all[k] = here, sum
	}
	return own, all
}
