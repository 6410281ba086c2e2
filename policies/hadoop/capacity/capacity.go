// Package capacity is the order of Hadoop 1's capacity scheduler: queues with a
// promised share of the slots each, and limits on the slots of one user.
package capacity

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Order is Hadoop 1's capacity scheduler. Each queue is promised a share of the
// slots, and the queue that uses the least of its promise goes first. In a
// queue the oldest job (or, with priorities, the most urgent) goes first whose
// user is below the user limit. Slots in use are never taken back.
//
// Queues that use the same fraction of their promise keep their previous order,
// as in Hadoop. The order of queues is therefore a state. Only walks inside a
// round change it, so that queries for explanations change nothing.
//
// If the slots part has slots without kinds, limits apply to all tasks of a
// queue together; see slotSet.
type Order struct {
	cfg     Config
	queues  []*queue // in the order of the configuration
	byName  map[string]*queue
	sorted  [slotSets][]*queue // as the last walk of a round left them
	scratch []*queue           // the order of a walk outside a round
	seats   []seat             // by job seat
	view    *sched.View
	round   *sched.Round // the tracker's present round
	walk    uint64       // number of walks so far
	untyped bool         // slots have no kinds
	// walked holds the number of slots at the last walk of a round for a slot set; -1 if a use
	// has changed since.
	walked [slotSets]int
}

var (
	_ sched.Order          = (*Order)(nil)
	_ sched.Starter        = (*Order)(nil)
	_ sched.JobWatcher     = (*Order)(nil)
	_ sched.ChangeWatcher  = (*Order)(nil)
	_ sched.TaskWatcher    = (*Order)(nil)
	_ sched.Consulter      = (*Order)(nil)
	_ sched.Explainer      = (*Order)(nil)
	_ sched.Reconfigurable = (*Order)(nil)
	_ sched.QueueChecker   = (*Order)(nil)
)

// New returns an order without jobs, or an error that lists all mistakes in the
// configuration.
func New(cfg Config) (*Order, error) {
	c := &Order{}
	if err := c.configure(cfg); err != nil {
		return nil, err
	}
	return c, nil
}

// configure replaces the queues. Queues that exist already keep their relative
// order.
func (c *Order) configure(cfg Config) error {
	if err := cfg.Check(); err != nil {
		return err
	}
	// Before anything changes: until the next walk no heartbeat may be left out, since the walk may order
	// the queues anew.
	c.unsettle()
	c.cfg, c.queues, c.byName = cfg, nil, make(map[string]*queue)
	for i, conf := range cfg.withDefault() {
		q := newQueue(conf)
		// withDefault adds a queue that the configuration lacks at the end.
		q.implied = i == len(cfg.Queues)
		c.queues = append(c.queues, q)
		c.byName[conf.Name] = q
	}
	// The sort is stable and begins with the last order, so queues with equal ratios keep theirs.
	for p, before := range c.sorted {
		var now []*queue
		for _, old := range before {
			if q := c.byName[old.conf.Name]; q != nil {
				now = append(now, q)
			}
		}
		for _, q := range c.queues {
			if !slices.Contains(now, q) {
				now = append(now, q)
			}
		}
		c.sorted[p] = now
	}
	return nil
}

// Reconfigure implements sched.Reconfigurable for a Config. Jobs of a removed
// queue move to the default queue. Running tasks are not affected.
func (c *Order) Reconfigure(conf any) (bool, error) {
	cfg, ok := conf.(Config)
	if !ok {
		return false, nil
	}
	if err := c.configure(cfg); err != nil {
		return true, err
	}
	// Queues are new objects. Live jobs join them again with the tasks that they run.
	// The users and counts of the old queues are not carried over, but recomputed from what runs: a job may
	// be in another queue now.
	clear(c.seats)
	if c.view != nil {
		for _, j := range c.view.Jobs().Live() {
			c.JobAdded(j)
		}
	}
	return true, nil
}

// namesAtMost bounds the queues that an error names.
const namesAtMost = 16

// CheckQueue implements sched.QueueChecker. A configuration without queues accepts every name:
// all jobs are in the default queue.
func (c *Order) CheckQueue(name string) error {
	if len(c.cfg.Queues) == 0 || c.byName[name] != nil {
		return nil
	}
	var names []string
	for _, q := range c.queues[:min(len(c.queues), namesAtMost)] {
		names = append(names, q.conf.Name)
	}
	if len(c.queues) > namesAtMost {
		names = append(names, "…")
	}
	return fmt.Errorf("queue %q does not exist: the policy's queues are %s", name, strings.Join(names, ", "))
}

// Start implements sched.Starter.
func (c *Order) Start(v *sched.View, _ time.Duration) { c.view = v }

// Consult implements sched.Consulter: it finds out whether slots have kinds.
func (c *Order) Consult(parts []any) {
	for _, p := range parts {
		// By method and not by type: any slots part may have slots without kinds, and this package imports
		// none.
		if u, ok := p.(interface{ Untyped() bool }); ok {
			c.untyped = u.Untyped()
		}
	}
}

// Begin records which users compete in this round. Its cost is the number of
// queues.
func (c *Order) Begin(r *sched.Round) {
	c.round = r
	for _, q := range c.queues {
		// Copied, because launches of this round change wanting, and Hadoop computes user limits from the
		// counts at its start.
		q.competing = q.wanting
	}
}

// QueueOrder returns the names of the queues in the order in which they were
// last served for a kind of task. At first that is the order of the
// configuration. The implied default queue is left out while it has no jobs.
func (c *Order) QueueOrder(k job.Kind) (names []string) {
	for _, q := range c.sorted[c.slotSet(k)] {
		if !q.implied || len(q.jobs.Jobs()) > 0 {
			names = append(names, q.conf.Name)
		}
	}
	return names
}

// slotSet returns the slots in which limits on a kind of task are counted.
func (c *Order) slotSet(k job.Kind) slotSet {
	if c.untyped {
		return allSlots
	}
	return slotSet(k)
}

// slotsOf counts the slots of the set in the live cluster.
func slotsOf(nodes *cluster.List, p slotSet) int {
	if p == allSlots {
		return nodes.Slots(job.Map) + nodes.Slots(job.Reduce)
	}
	return nodes.Slots(job.Kind(p))
}

// WalksAlways implements sched.AlwaysWalked. Queues of equal ratios stay in the order of the
// last walk, as in Hadoop, where every heartbeat with a free slot sorts them.
func (c *Order) WalksAlways() {}

// QuietBegin implements sched.QuietBegin: what Begin records serves its own round only.
func (c *Order) QuietBegin() bool { return true }

// Quiet implements sched.Quiet: the queues are in the order in which the next walk would leave
// them, as a single one always is.
func (c *Order) Quiet() bool {
	if len(c.queues) == 1 {
		return true
	}
	if c.untyped {
		return c.walked[allSlots] == slotsOf(c.view.Nodes(), allSlots)
	}
	for k := range job.Kind(job.Kinds) {
		if slots := c.view.Nodes().Slots(k); slots > 0 && c.walked[k] != slots {
			return false
		}
	}
	return true
}

// unsettle records that the next walk may change the order of the queues.
func (c *Order) unsettle() {
	for p := range c.walked {
		c.walked[p] = -1
	}
}

// rank sorts the queues. It costs the number of queues if they are in order
// already. Outside the tracker's round it sorts a copy.
func (c *Order) rank(r *sched.Round, p slotSet, slots int) []*queue {
	list := c.sorted[p]
	// The order of equal queues is a state. A query that sorted it would change which queue is served next.
	if r != c.round {
		c.scratch = append(c.scratch[:0], list...)
		list = c.scratch
	} else {
		c.walked[p] = slots
	}
	for _, q := range list {
		// Before the sort, because a comparison must not see a ratio change half-way.
		q.weigh(p, slots)
	}
	slices.SortStableFunc(list, byRatio)
	return list
}

// JobAdded implements sched.JobWatcher.
func (c *Order) JobAdded(j *job.Job) {
	c.unsettle()
	q := c.byName[j.Pool()]
	if q == nil {
		// Only simulations and restored jobs come with such a name; see QueueChecker.
		q = c.byName[DefaultQueue]
	}
	// A slice by seat and not a map by id: the walk looks up each job that it visits.
	for j.Seat() >= len(c.seats) {
		c.seats = append(c.seats, seat{})
	}
	s := &c.seats[j.Seat()]
	*s = seat{queue: q, user: q.join(j)}
	for k := range job.Kind(job.Kinds) {
		q.set(j, s, k, j.Launchable(k), j.Occupied(k))
	}
}

// JobRemoved implements sched.JobWatcher.
func (c *Order) JobRemoved(j *job.Job) {
	c.unsettle()
	s := &c.seats[j.Seat()]
	for k := range job.Kind(job.Kinds) {
		s.queue.set(j, s, k, false, 0)
	}
	// After its slots have been taken off, or the user's counts would outlive the user.
	s.queue.leave(j, s.user)
	*s = seat{}
}

// JobChanged implements sched.ChangeWatcher.
func (c *Order) JobChanged(j *job.Job, what sched.Change) {
	c.unsettle()
	if what == sched.PoolChanged {
		c.JobRemoved(j)
		c.JobAdded(j)
		return
	}
	s := &c.seats[j.Seat()]
	if what != sched.PriorityChanged {
		for k := range job.Kind(job.Kinds) {
			s.queue.set(j, s, k, j.Launchable(k), s.runs[k])
		}
		return
	}
	// Without priorities no list depends on it.
	if s.queue.conf.Priorities {
		s.queue.jobs.Reposition(j)
		for p := range s.queue.ready {
			s.queue.ready[p].Reposition(j)
			s.queue.busy[p].Reposition(j)
		}
	}
}

// TaskStarted implements sched.TaskWatcher.
func (c *Order) TaskStarted(a *job.Attempt, _ time.Duration) { c.count(a, a.Width()) }

// TaskEnded implements sched.TaskWatcher.
func (c *Order) TaskEnded(a *job.Attempt, _ time.Duration) { c.count(a, -a.Width()) }

func (c *Order) count(a *job.Attempt, by int) {
	c.unsettle()
	s, k := &c.seats[a.Job().Seat()], a.Kind()
	// The queue's use counts the slots of the task's kind, as Hadoop's TaskSchedulingMgr does, whichever
	// slot it runs in.
	s.queue.set(a.Job(), s, k, s.ready[k], s.runs[k]+by)
}

// Explain implements sched.Explainer: it compares the use of the job's queue
// and user with their limits.
func (c *Order) Explain(j *job.Job, k job.Kind, _ time.Duration) string {
	if j.Seat() >= len(c.seats) || c.seats[j.Seat()].queue == nil || !j.State().Live() || j.Pending(k) == 0 {
		return ""
	}
	s, p, what := &c.seats[j.Seat()], c.slotSet(k), k.String()+" slots"
	if p == allSlots {
		what = "slots"
	}
	q, slots := s.queue, slotsOf(c.view.Nodes(), p)
	words := fmt.Sprintf("queue %q uses %d of its %d %s", q.conf.Name, q.occupied[p], q.capacity(slots), what)
	if j.Pool() != q.conf.Name {
		words = fmt.Sprintf("queue %q does not exist, so the job is in queue %q; ", j.Pool(), q.conf.Name) + words
	}
	if most := q.maximum(slots, c.cfg.TinyZero); most > 0 {
		words += fmt.Sprintf(" and may use at most %d", most)
	}
	return words + fmt.Sprintf("; the jobs of user %q use %d and may use at most %d", s.user.name,
		s.user.occupied[p], q.userLimit(p, slots, q.wanting[p], c.cfg.TinyZero))
}

// walk is one walk through the queues to fill an offer.
type walk struct {
	*Order
	r     *sched.Round
	o     sched.Offer
	kinds [job.Kinds]job.Kind // the kinds that may fill the offer, in order of preference
	n     int                 // number of those kinds
	p     slotSet             // where limits are counted
	slots int
	real  bool // inside the tracker's round; queries outside ignore limits
	visit func(sched.Candidate) bool
}

// Each implements sched.Order. It visits queues, and in each queue the jobs
// that can launch something, up to the job that takes the slot. If copies are
// wanted, it also visits jobs with running tasks. Outside a round, for
// explanations, it ignores all limits.
func (c *Order) Each(r *sched.Round, o sched.Offer, visit func(sched.Candidate) bool) {
	s := walk{Order: c, r: r, o: o, real: r == c.round, visit: visit}
	s.want(o.Kind)
	if o.Either {
		s.want(o.Kind.Other())
	}
	// Before the walk is numbered and the queues are sorted: Hadoop does not look at them either.
	if s.n == 0 {
		return
	}
	c.walk++
	s.p = c.slotSet(o.Kind)
	if o.Either {
		// With Either the kind of slot is open, so limits can only be counted over both.
		s.p = allSlots
	}
	s.slots = slotsOf(r.Nodes(), s.p)
	for _, q := range c.rank(r, s.p, s.slots) {
		if (o.Pool == "" || o.Pool == q.conf.Name) && !s.visitQueue(q) {
			return
		}
	}
}

// want adds a kind, unless the heartbeat has received all tasks of the kind
// that it may.
func (s *walk) want(k job.Kind) {
	if !s.real || !s.spent(s.r, k) {
		s.kinds[s.n] = k
		s.n++
	}
}

// spent reports whether the round's heartbeat has received all tasks of a kind
// that it may. Hadoop then stops without looking at the queues again.
func (c *Order) spent(r *sched.Round, k job.Kind) bool {
	launched, far, after := 0, false, 0
	// A walk over the few launches of the round. Counts of the policy's own would have to be kept apart
	// from queries outside the round.
	for _, a := range r.Launched() {
		if a.Task.Kind() != k {
			continue
		}
		launched++
		// Hadoop counts after the far map, which is itself allowed.
		if far {
			after++
		}
		far = far || c.offSwitch(a)
	}
	if k == job.Reduce {
		return c.cfg.MaxReduces > 0 && launched >= c.cfg.MaxReduces
	}
	return c.cfg.MaxMaps > 0 && launched >= c.cfg.MaxMaps ||
		far && c.cfg.AfterOffSwitch >= 0 && after >= c.cfg.AfterOffSwitch
}

// offSwitch reports whether a launched map reads from another rack. A second
// attempt does not count, because it may run anywhere.
func (c *Order) offSwitch(a sched.Assignment) bool {
	return a.Task.Kind() == job.Map && a.Task.Attempts() == 1 &&
		(a.Level == cluster.ANY || a.Level == cluster.NONE && c.cfg.UnlocatedFar)
}

// visitQueue visits the jobs of a queue. It returns false when the walk is
// over.
func (s *walk) visitQueue(q *queue) bool {
	// Queries pass over the limits: they ask for the order of jobs, and a job behind a limit has a
	// place in it.
	// A queue over its maximum is passed over, and the next one gets the slot. Only maximum-capacity does
	// that: above its capacity alone a queue may still borrow.
	if s.real && q.full(s.p, s.slots, s.cfg.TinyZero) {
		s.noteFull(q)
		return true
	}
	limit := 0
	if s.real {
		limit = q.userLimit(s.p, s.slots, q.competing[s.p], s.cfg.TinyZero)
	}
	which := s.p
	if s.n == 1 {
		// Limits are counted in s.p, but of two kinds one may be spent, and then only jobs with tasks of
		// the other count.
		which = slotSet(s.kinds[0])
	}
	list := q.ready[which]
	switch {
	case s.o.HeadOnly:
		list = q.jobs
	case !s.o.NoCopies && s.copies():
		list = q.busy[which]
	}
	for _, j := range list.Jobs() {
		// The user's later jobs are visited and passed over, too. A slot that all users' limits refuse goes
		// to the next queue.
		if u := s.seats[j.Seat()].user; s.real && u.occupied[s.p] >= limit {
			s.noteUser(q, u, j, limit)
			continue
		}
		if !s.visitJob(j) {
			return false
		}
	}
	return true
}

// copies reports whether a running task of a kind that may fill the offer may get a copy.
func (s *walk) copies() bool {
	return s.r.CopiesOf(s.kinds[0]) || s.n == job.Kinds && s.r.CopiesOf(s.kinds[1])
}

// visitJob offers the slot to the job's tasks of each kind. It returns false
// when the walk is over.
func (s *walk) visitJob(j *job.Job) bool {
	for _, k := range s.kinds[:s.n] {
		if s.o.HeadOnly && j.Total(k) == 0 {
			continue
		}
		// The head is one job for all queues together.
		if !s.visit(sched.Candidate{Job: j, Kind: k}) || s.o.HeadOnly {
			return false
		}
	}
	return true
}

// noteFull notes a wait reason for the first job in a queue that is at its
// maximum.
func (s *walk) noteFull(q *queue) {
	for _, k := range s.kinds[:s.n] {
		if ready := q.ready[k].Jobs(); len(ready) > 0 {
			s.r.Note(ready[0], k, sched.Reason{Code: sched.QueueFull, Pool: q.conf.Name,
				Have: q.occupied[s.p], Need: q.maximum(s.slots, s.cfg.TinyZero)})
		}
	}
}

// noteUser notes a wait reason for the first job of a user that is at the
// limit. The user's other jobs wait behind it.
func (s *walk) noteUser(q *queue, u *user, j *job.Job, limit int) {
	// One note for each user and walk. A queue of a thousand jobs of one user would write as many.
	if u.noted == s.walk {
		return
	}
	for _, k := range s.kinds[:s.n] {
		if s.seats[j.Seat()].ready[k] {
			u.noted = s.walk
			s.r.Note(j, k, sched.Reason{Code: sched.UserFull, Pool: q.conf.Name, Have: u.occupied[s.p], Need: limit})
		}
	}
}

// Advances implements sched.Advancer. Priority counts in queues that support it. Another
// queue precedes if it is promised slots and uses none, while the other job's queue does.
func (c *Order) Advances(j, before *job.Job, k job.Kind) (byPriority, byPool bool) {
	x, y := c.seats[j.Seat()].queue, c.seats[before.Seat()].queue
	byPriority = x == y && x.conf.Priorities && before.Priority() < job.VeryHigh
	idle := slices.ContainsFunc(c.queues, func(q *queue) bool {
		// A promise of less than a slot gives a queue no precedence.
		promised := float64(q.conf.Capacity) / 100 * float64(c.view.Nodes().Slots(k))
		return q != x && q != y && promised >= 1 && q.occupied[k] == 0
	})
	return byPriority, idle && y.occupied[k] > 0
}

var _ sched.Advancer = (*Order)(nil)
