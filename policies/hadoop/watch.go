package hadoop

import (
	"math"
	"slices"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// None never copies a task.
type None struct{}

var (
	_ sched.Speculate = (*None)(nil)
	_ sched.NoCopies  = (*None)(nil)
)

// Copy implements sched.Speculate.
func (*None) Copy(*sched.Round, sched.Offer, sched.Candidate) *job.Task { return nil }

// NeverCopies implements sched.NoCopies.
func (*None) NeverCopies() {}

// Quiet implements sched.Quiet: there is nothing to copy.
func (*None) Quiet() bool { return true }

// detector decides whether an attempt that is older than the lag is slow in comparison
// with its siblings. Attempts of higher urgency are copied first.
type detector interface {
	slow(a *job.Attempt, now time.Duration) (urgency float64, yes bool)
}

// watch keeps the slow and stalled attempts, so that a heartbeat costs nothing while there
// are none. Each attempt is examined when its node sends a heartbeat. Gap and Late embed it, so its
// exported methods are their hooks.
type watch struct {
	detector detector
	timing   Timing
	youngest time.Duration // Timing.youngest
	view     *sched.View
	late     [][job.Kinds][]*job.Attempt // slow or stalled attempts, by job seat
	jobs     [job.Kinds][]*job.Job       // with attempts in late
	count    [job.Kinds]int              // attempts in late
	siblings [][job.Kinds]siblings       // by job seat
	alive    cached[time.Duration]       // as lastSign computes it
	nodes    []nodeWatch                 // by node index
}

// newWatch returns a watch without attempts.
func newWatch(d detector, t Timing) watch {
	return watch{detector: d, timing: t, youngest: t.youngest()}
}

// nodeWatch holds the heartbeats of one node.
type nodeWatch struct {
	last, previous time.Duration // times of its latest two heartbeats
	silent         bool          // as its successor found out; false after a heartbeat
}

// Start implements sched.Starter.
func (w *watch) Start(v *sched.View, _ time.Duration) { w.view = v }

// JobAdded implements sched.JobWatcher. It makes room for a job, which may have run under another policy.
func (w *watch) JobAdded(j *job.Job) {
	w.alive.reset(j)
	for j.Seat() >= len(w.late) {
		w.late = append(w.late, [job.Kinds][]*job.Attempt{})
		w.siblings = append(w.siblings, [job.Kinds]siblings{})
	}
	for k := range w.siblings[j.Seat()] {
		// After a change of policy: the finished tasks say how long the others should take.
		kind := job.Kind(k)
		s := siblings{never: j.NoSpeculation(), running: int32(j.Running(kind)), copies: int32(j.Tally().Copies[k]),
			slow: make([]uint64, (j.Total(kind)+63)/64)}
		for i := 0; j.Done(kind) > 0 && i < j.Total(kind); i++ {
			if a := j.Task(kind, int32(i)).Success(); a != nil {
				s.add(a)
			}
		}
		w.siblings[j.Seat()][k] = s
	}
}

// JobRemoved implements sched.JobWatcher. JobAdded resets the seat for its next job.
func (w *watch) JobRemoved(*job.Job) {}

// Heartbeat implements sched.Observer. It examines the attempts on a node that has just reported,
// and those on the nodes before it in the list that are silent.
func (w *watch) Heartbeat(n *cluster.Node, now time.Duration) {
	all := w.view.Nodes().All()
	w.node(int32(len(all)) - 1) // makes room for all nodes, so that own stays valid
	own := w.node(n.Index())
	// Before silent nodes are looked for: this heartbeat ends the silence of n itself.
	w.examine(n, false, now)
	if w.timing.Stall > 0 {
		for i := n.Index(); ; {
			if i--; i < 0 {
				i = int32(len(all)) - 1
			}
			p := all[i]
			// Back to the first node that has reported since. Thus each silent node is found by the
			// next one that is not.
			if i == n.Index() || now-p.LastSeen() < w.timing.Stall || p.LastSeen() >= own.previous {
				break
			}
			w.examine(p, true, now)
		}
	}
	own.previous, own.last = own.last, now
}

// Quiet implements sched.Quiet: rounds change nothing. MayCopyKind says whether one may launch a copy,
// and only a heartbeat of a slow task's node can change that.
func (w *watch) Quiet() bool { return true }

// Beats implements sched.BeatCounter.
func (w *watch) Beats(int, time.Duration) {}

// Unparked implements sched.BeatCounter. It records the heartbeats of a node without attempts that
// were left out. They would have found no silent node.
func (w *watch) Unparked(n *cluster.Node, last, every time.Duration) {
	own := &w.nodes[n.Index()]
	own.previous, own.last = last-every, last
}

// examine examines the attempts on a node.
func (w *watch) examine(n *cluster.Node, silent bool, now time.Duration) {
	w.node(n.Index()).silent = silent
	c := w.contact(n, now)
	for _, a := range n.Attempts() {
		// set looks the attempt's bit up, which is of use only if some attempt is listed or this one will
		// be.
		if _, yes := w.deserves(a, c, now); yes || w.count[a.Kind()] > 0 {
			w.set(a, yes)
		}
	}
}

// contact is the watch's contact with a node, for all of its attempts.
type contact struct {
	silent bool
	known  time.Duration // until when its attempts' signs of life are known
}

// contact returns the contact with a node. A silent one has no sign of life to report.
func (w *watch) contact(n *cluster.Node, now time.Duration) contact {
	if w.nodes[n.Index()].silent {
		return contact{true, now}
	}
	return contact{false, n.LastSeen()}
}

// deserves reports whether an attempt on a node deserves a copy: it is slow or stalled, it is its
// task's only attempt, and it is not about to commit. Stalled attempts are the most
// urgent. Each heartbeat calls it for each running attempt. It reads the attempt and the
// watch's own tables, because the tasks and jobs of a large cluster are in no cache.
func (w *watch) deserves(a *job.Attempt, c contact, now time.Duration) (urgency float64, yes bool) {
	age := now - a.Started()
	if age < w.youngest || a.State() != job.AttemptRunning {
		return 0, false
	}
	s := &w.siblings[a.Seat()][a.Kind()]
	// The first comparison is enough for an attempt whose progress moves, and needs no look at its job.
	stall := max(w.timing.Stall, s.patience())
	quiet := w.timing.Stall > 0 && c.known-a.ProgressAt() >= stall && silentFor(a, c.known) >= stall
	if w.timing.LagSinceJob {
		age = now - a.Job().Submitted()
	}
	late := age >= w.timing.lag(s)
	// Of a task's two attempts one is a copy, so without copies the attempt is alone.
	if !quiet && !late || s.never || a.Granted() || s.copies > 0 && a.Task().Running() != 1 {
		return 0, false
	}
	// Before the lag: a stuck attempt is found although no sibling has finished.
	if quiet && (c.silent || w.unusual(a, s, now)) {
		return math.Inf(1), true
	}
	if !late {
		return 0, false
	}
	return w.detector.slow(a, now)
}

// unusual reports whether an attempt without a sign of life for long enough is an exception among
// its siblings, or has none. Otherwise an attempt that has never shown a sign of
// life may take long for its first record, as its siblings do.
func (w *watch) unusual(a *job.Attempt, s *siblings, now time.Duration) bool {
	if s.times.n > 0 || a.ProgressAt() > a.Started() {
		return true
	}
	active := int(s.running)
	if s.copies > 0 { // some tasks have two of the running attempts
		active = a.Job().Active(a.Kind())
	}
	return active == 1 || w.alive.get(a, now, lastSign).value > a.ProgressAt()
}

// lastSign returns the time of the last sign of life of a job's running attempts of a
// kind; 0 if none has shown one.
func lastSign(j *job.Job, k job.Kind, _ time.Duration) (at time.Duration) {
	if !j.Progressed(k) {
		return 0
	}
	for a := j.Oldest(k); a != nil; a = a.Next() {
		if a.ProgressAt() > a.Started() {
			at = max(at, a.ProgressAt())
		}
	}
	return at
}

// MayCopy implements sched.Sparse: an attempt of some job is slow or stalled.
func (w *watch) MayCopy(*sched.Round) bool { return w.count[job.Map]+w.count[job.Reduce] > 0 }

// MayCopyKind implements sched.Selective.
func (w *watch) MayCopyKind(k job.Kind) bool { return w.count[k] > 0 }

// MayCopyJob implements sched.Selective.
func (w *watch) MayCopyJob(j *job.Job, k job.Kind) bool { return len(w.late[j.Seat()][k]) > 0 }

// CopyJobs implements sched.CopyLister.
func (w *watch) CopyJobs(k job.Kind) ([]*job.Job, bool) { return w.jobs[k], true }

// set adds an attempt to the slow ones or removes it. A task has one slow attempt at most,
// because an attempt is slow only while it is alone.
func (w *watch) set(a *job.Attempt, in bool) {
	i, slow := a.ID().Index, w.siblings[a.Seat()][a.Kind()].slow
	if in == (slow[i>>6]>>(i&63)&1 != 0) {
		return
	}
	// One bit for each task of the job.
	slow[i>>6] ^= 1 << (i & 63)
	list, jobs := &w.late[a.Seat()][a.Kind()], &w.jobs[a.Kind()]
	if in {
		if len(*list) == 0 {
			*jobs = append(*jobs, a.Job())
		}
		*list = append(*list, a)
		w.count[a.Kind()]++
		return
	}
	at := slices.Index(*list, a)
	*list = slices.Delete(*list, at, at+1)
	w.count[a.Kind()]--
	if len(*list) == 0 {
		at = slices.Index(*jobs, a.Job())
		*jobs = slices.Delete(*jobs, at, at+1)
	}
}

// node returns the record of a node. It is valid until a node with a greater index is recorded.
func (w *watch) node(index int32) *nodeWatch {
	for int(index) >= len(w.nodes) {
		w.nodes = append(w.nodes, nodeWatch{})
	}
	return &w.nodes[index]
}

// TaskStarted implements sched.TaskWatcher. It removes a task that now has a copy, because it gets no other.
func (w *watch) TaskStarted(a *job.Attempt, _ time.Duration) {
	s := &w.siblings[a.Seat()][a.Kind()]
	s.running++
	if a.Speculative() {
		s.copies++
		// The original attempt. It leaves the list, since a task gets one copy.
		if o := a.Task().Oldest(); o != nil {
			w.set(o, false)
		}
	}
}

// TaskEnded implements sched.TaskWatcher. It removes an attempt, and learns from it how long the job's tasks take.
func (w *watch) TaskEnded(a *job.Attempt, _ time.Duration) {
	// Whatever the outcome: the list must hold running attempts only, and JobRemoved relies on it.
	w.set(a, false)
	s := &w.siblings[a.Seat()][a.Kind()]
	s.running--
	if a.Speculative() {
		s.copies--
	}
	if a.State() == job.AttemptSucceeded {
		s.add(a)
	}
}

// pick returns the task of the job to copy on the round's node, or nil: the
// closest to its data, then the most urgent, then the oldest.
func (w *watch) pick(r *sched.Round, o sched.Offer, c sched.Candidate) *job.Task {
	var best *job.Attempt
	var bestLevel cluster.Level
	most := 0.0
	for _, a := range w.late[c.Job.Seat()][c.Kind] {
		t := a.Task()
		if !r.Copyable(t, r.Node()) || r.Avoid(t, r.Node(), r.Now()) {
			continue
		}
		// Again, because the attempt was listed at its node's last heartbeat. Since then siblings may have
		// finished and made the lag longer.
		urgency, yes := w.deserves(a, w.contact(r.Nodes().Node(a.Node()), r.Now()), r.Now())
		if !yes {
			continue
		}
		level := r.Nodes().LevelOf(t, r.Node()) // three look-ups, so it comes last
		if o.Within != 0 && c.Kind == job.Map && level > o.Within {
			continue
		}
		// Sequence numbers are unique, so the choice does not depend on the order of the list.
		if best == nil || level < bestLevel || level == bestLevel && (urgency > most || urgency == most && a.Seq() < best.Seq()) {
			best, bestLevel, most = a, level, urgency
		}
	}
	if best == nil {
		return nil
	}
	return best.Task()
}

// refreshEvery is the greatest age of statistics over all tasks of a job. They
// change slowly and cost a visit to each running task.
const refreshEvery = time.Second

// cached holds statistics of jobs that are computed at most once per
// refreshEvery.
type cached[T any] struct{ seats [][job.Kinds]statistic[T] }

// statistic is a value, and when it was computed.
type statistic[T any] struct {
	at    time.Duration
	valid bool
	value T
}

// reset clears the seat of a new job.
func (c *cached[T]) reset(j *job.Job) {
	for j.Seat() >= len(c.seats) {
		c.seats = append(c.seats, [job.Kinds]statistic[T]{})
	}
	for k := range c.seats[j.Seat()] {
		c.seats[j.Seat()][k].valid = false
	}
}

// get returns the statistic over the tasks of an attempt's job and kind, and computes it again if
// it is too old.
func (c *cached[T]) get(a *job.Attempt, now time.Duration, compute func(*job.Job, job.Kind, time.Duration) T) *statistic[T] {
	row := &c.seats[a.Seat()][a.Kind()]
	// Bounded by time and not by changes: tasks of a large job change with every heartbeat.
	if !row.valid || now-row.at >= refreshEvery {
		row.at, row.valid, row.value = now, true, compute(a.Job(), a.Kind(), now)
	}
	return row
}
