package trackertest

import (
	"slices"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Manual is a cluster for tests of single parts of a policy. It keeps the books
// of jobs and nodes and calls the hooks of the parts in the tracker's order, but
// the test decides what happens: which task starts where, and how it ends. There
// are no retries, no time-outs and no effects; for these use FakeCluster or a script.
//
// Each method leaves the books and the parts as the tracker would: first the
// books change, then the hooks run, then the parts learn whether the job's
// launchable work has changed.
type Manual struct {
	Jobs   *job.Book
	Nodes  *cluster.Book
	View   *sched.View
	Rounds *sched.RoundWriter
	Policy *sched.Composition
	// Now is the time of the next call. Tests advance it.
	Now time.Duration

	hooks  *sched.Hooks
	demand map[job.ID][job.Kinds]bool // what the hooks know of Job.Launchable
}

// NewManual returns an empty cluster under the given parts, which are any of
// sched.Slots, sched.Order, sched.Place and sched.Speculate. Parts that are not
// given must not be needed by the test, except speculate, which then never
// copies.
func NewManual(parts ...any) *Manual {
	var s sched.Slots
	var o sched.Order
	var p sched.Place
	var sp sched.Speculate = noCopies{}
	for _, part := range parts {
		switch x := part.(type) {
		case sched.Slots:
			s = x
		case sched.Order:
			o = x
		case sched.Place:
			p = x
		case sched.Speculate:
			sp = x
		}
	}
	m := &Manual{Nodes: cluster.NewBook(), Policy: sched.Compose(s, o, p, sp), demand: map[job.ID][job.Kinds]bool{}}
	m.Jobs = job.NewBook(m.Nodes, 100)
	m.View = sched.NewView(m.Jobs.List(), m.Nodes.List(), 4)
	m.Rounds, m.hooks = sched.NewRoundWriter(m.View), sched.HooksOf(m.Policy)
	// As the tracker does when a policy is installed: parts learn of the nodes and the jobs through the view.
	for _, h := range m.hooks.Starters {
		h.Start(m.View, m.Now)
	}
	return m
}

// noCopies is a speculate part that never copies.
type noCopies struct{}

func (noCopies) Copy(*sched.Round, sched.Offer, sched.Candidate) *job.Task { return nil }
func (noCopies) NeverCopies()                                              {}

// Join makes a node join the cluster.
func (m *Manual) Join(spec cluster.Spec) *cluster.Node {
	n, placed := m.Nodes.Join(spec, m.Now)
	if placed {
		m.Jobs.HostPlaced(n.Host(), n.Rack())
	}
	for _, h := range m.hooks.Nodes {
		h.NodeJoined(n)
	}
	return n
}

// Submit adds a job.
func (m *Manual) Submit(spec job.Spec) *job.Job {
	j := m.Jobs.Add(spec, m.Now)
	// Before the hooks: JobAdded itself reports the first change, and touch must not report it again.
	m.demand[j.ID()] = [job.Kinds]bool{j.Launchable(job.Map), j.Launchable(job.Reduce)}
	for _, h := range m.hooks.Jobs {
		h.JobAdded(j)
	}
	return j
}

// Pending returns the pending task of a job and kind that the tracker would try
// first, or nil.
func (m *Manual) Pending(j *job.Job, k job.Kind) *job.Task {
	if t := j.Fresh(k); t != nil {
		return t
	}
	if again := j.Retries(k); len(again) > 0 {
		return again[0]
	}
	return nil
}

// Launch starts an attempt at the assignment's task on a node.
func (m *Manual) Launch(n *cluster.Node, as sched.Assignment) *job.Attempt {
	a := m.Jobs.Start(as.Task, job.Launch{Node: n.Index(), Slot: as.Slot, Level: as.Level,
		Speculative: as.Speculative, Label: as.Label}, m.Now)
	m.Nodes.Start(n, a)
	for _, h := range m.hooks.Tasks {
		h.TaskStarted(a, m.Now)
	}
	m.touch(a.Job())
	return a
}

// Run launches the next pending task of a job and kind on a node, in a slot of
// its own kind. A map is near its data.
func (m *Manual) Run(n *cluster.Node, j *job.Job, k job.Kind) *job.Attempt {
	as := sched.Assignment{Task: m.Pending(j, k), Slot: k}
	if k == job.Map {
		as.Level = cluster.NODE
	}
	return m.Launch(n, as)
}

// End ends a running attempt: it succeeds or, otherwise, is killed.
func (m *Manual) End(a *job.Attempt, succeed bool) {
	if succeed {
		m.Jobs.Succeed(a, 0, m.Now)
	} else {
		m.Jobs.Drop(a, job.AttemptKilled, "", m.Now)
	}
	m.Nodes.Stop(m.Nodes.List().Node(a.Node()), a)
	for _, h := range m.hooks.Tasks {
		h.TaskEnded(a, m.Now)
	}
	m.touch(a.Job())
}

// Kill ends a job and all its running attempts.
func (m *Manual) Kill(j *job.Job) {
	for k := range job.Kind(job.Kinds) {
		// From the front each time, because End takes the attempt out of the list.
		for a := j.Oldest(k); a != nil; a = j.Oldest(k) {
			m.End(a, false)
		}
	}
	m.Jobs.Decide(j, job.Killed, nil, "", m.Now)
	delete(m.demand, j.ID())
	for _, h := range m.hooks.Jobs {
		h.JobRemoved(j)
	}
}

// SetPriority changes a job's priority.
func (m *Manual) SetPriority(j *job.Job, p job.Priority) {
	m.Jobs.SetPriority(j, p)
	m.changed(j, sched.PriorityChanged)
}

// Heartbeat passes a heartbeat of the node to the parts, without a round.
func (m *Manual) Heartbeat(n *cluster.Node) {
	m.Nodes.Seen(n, n.Load(), m.Now)
	for _, h := range m.hooks.Observers {
		h.Heartbeat(n, m.Now)
	}
}

// Round opens a round of a node that has as many slots as its specification
// says, or as many as limits, if given.
func (m *Manual) Round(n *cluster.Node, limits ...[job.Kinds]int) *sched.Round {
	all := [job.Kinds]int{n.Slots(job.Map), n.Slots(job.Reduce)}
	if len(limits) > 0 {
		all = limits[0]
	}
	r := m.Rounds.Open(m.Now, n, all)
	m.Policy.Begin(r)
	return r
}

// Assign plays a round of a node, launches what the policy assigns, at most limit
// tasks, and returns it.
func (m *Manual) Assign(n *cluster.Node, limit int) (all []sched.Assignment) {
	r := m.Round(n)
	for len(all) < limit {
		as, ok := m.Policy.Next(r)
		if !ok {
			break
		}
		m.Launch(n, as)
		m.Rounds.Launched(as)
		all = append(all, as)
	}
	return all
}

// Served returns the jobs that the order would serve in a round, best first.
func (m *Manual) Served(r *sched.Round, o sched.Offer) (ids []job.ID) {
	m.Policy.Order.Each(r, o, func(c sched.Candidate) bool {
		ids = append(ids, c.Job.ID())
		return true
	})
	return ids
}

// Running returns all running attempts of live jobs in the order of their
// launch.
func (m *Manual) Running() (all []*job.Attempt) {
	for _, j := range m.Jobs.List().Live() {
		for k := range job.Kind(job.Kinds) {
			for a := j.Oldest(k); a != nil; a = a.Next() {
				all = append(all, a)
			}
		}
	}
	slices.SortFunc(all, func(a, b *job.Attempt) int { return int(a.Seq() - b.Seq()) })
	return all
}

// touch calls the hooks if the job can launch tasks of a kind now and could not
// before, or the other way round.
func (m *Manual) touch(j *job.Job) {
	known := m.demand[j.ID()]
	for k := range job.Kind(job.Kinds) {
		if now := j.Launchable(k); now != known[k] {
			known[k] = now
			m.demand[j.ID()] = known
			m.changed(j, sched.DemandOf(k))
		}
	}
}

func (m *Manual) changed(j *job.Job, c sched.Change) {
	for _, h := range m.hooks.Changes {
		h.JobChanged(j, c)
	}
}
