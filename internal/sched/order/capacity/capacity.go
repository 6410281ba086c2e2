// Package capacity is the order of Hadoop 1's capacity scheduler: queues with a
// promised share of the slots each, and limits on the slots of one user.
package capacity

import (
	"fmt"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// Capacity is Hadoop 1's capacity scheduler: queues with a promised share of the
// slots each, the one that uses least of its promise first; in a queue the
// oldest job (or the most urgent) whose user is below the limit. It never takes
// a slot back.
//
// Queues that use equally much of their promise keep the order that they had,
// which makes the order of queues a state: it changes with the walks of rounds,
// and only with those, so that asking for explanations changes nothing.
//
// Where the slots part says that slots have no kind, limits are on all tasks of
// a queue together.
type Order struct {
	cfg     Config
	queues  []*queue // in order of declaration
	byName  map[string]*queue
	sorted  [pots][]*queue
	scratch []*queue // the order for a walk outside rounds
	seats   []seat
	view    *sched.View
	round   *sched.Round
	walk    uint64
	untyped bool
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
)

// New returns an order without jobs, or what is wrong with the
// configuration.
func New(cfg Config) (*Order, error) {
	c := &Order{}
	if err := c.configure(cfg); err != nil {
		return nil, err
	}
	return c, nil
}

// configure makes the queues anew. Those that were there before keep their place
// among each other.
func (c *Order) configure(cfg Config) error {
	if err := cfg.Check(); err != nil {
		return err
	}
	c.cfg, c.queues, c.byName = cfg, nil, make(map[string]*queue)
	for i, conf := range cfg.withDefault() {
		q := newQueue(conf)
		q.implied = i == len(cfg.Queues)
		c.queues = append(c.queues, q)
		c.byName[conf.Name] = q
	}
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

// Reconfigure implements sched.Reconfigurable for a Config. Jobs of a
// queue that is gone move to the default queue; nothing that runs is touched.
func (c *Order) Reconfigure(conf any) (bool, error) {
	cfg, ok := conf.(Config)
	if !ok {
		return false, nil
	}
	if err := c.configure(cfg); err != nil {
		return true, err
	}
	clear(c.seats)
	if c.view != nil {
		for _, j := range c.view.Jobs().Live() {
			c.JobAdded(j)
		}
	}
	return true, nil
}

// Start implements sched.Starter.
func (c *Order) Start(v *sched.View, _ time.Duration) { c.view = v }

// Consult implements sched.Consulter: it asks the slots whether they have kinds.
func (c *Order) Consult(parts []any) {
	for _, p := range parts {
		if u, ok := p.(interface{ Untyped() bool }); ok {
			c.untyped = u.Untyped()
		}
	}
}

// Begin notes which users compete in this round. It costs the number of queues.
func (c *Order) Begin(r *sched.Round) {
	c.round = r
	for _, q := range c.queues {
		q.competing = q.wanting
	}
}

// QueueOrder returns the names of the queues in the order in which they were
// last served for a kind of task, the order of declaration at first. A default
// queue that nobody declared is left out as long as it has no jobs.
func (c *Order) QueueOrder(k job.Kind) (names []string) {
	for _, q := range c.sorted[c.pot(k)] {
		if !q.implied || len(q.jobs.Jobs()) > 0 {
			names = append(names, q.conf.Name)
		}
	}
	return names
}

// pot is what a kind's limits are counted in.
func (c *Order) pot(k job.Kind) pot {
	if c.untyped {
		return allSlots
	}
	return pot(k)
}

// slots counts the slots of a pot in the live cluster.
func slotsOf(nodes *cluster.List, p pot) int {
	if p == allSlots {
		return nodes.Slots(job.Map) + nodes.Slots(job.Reduce)
	}
	return nodes.Slots(job.Kind(p))
}

// rank brings the queues into order. It costs the number of queues, and the
// logarithm if they move.
func (c *Order) rank(r *sched.Round, p pot, slots int) []*queue {
	list := c.sorted[p]
	if r != c.round {
		c.scratch = append(c.scratch[:0], list...)
		list = c.scratch
	}
	for _, q := range list {
		q.weigh(p, slots)
	}
	slices.SortStableFunc(list, byRatio)
	return list
}

// JobAdded implements sched.JobWatcher.
func (c *Order) JobAdded(j *job.Job) {
	q := c.byName[j.Pool()]
	if q == nil {
		q = c.byName[DefaultQueue]
	}
	for j.Seat() >= len(c.seats) {
		c.seats = append(c.seats, seat{})
	}
	s := &c.seats[j.Seat()]
	*s = seat{queue: q, user: q.join(j)}
	for k := range job.Kind(job.Kinds) {
		q.set(j, s, k, j.Launchable(k), j.Running(k))
	}
}

// JobRemoved implements sched.JobWatcher.
func (c *Order) JobRemoved(j *job.Job) {
	s := &c.seats[j.Seat()]
	for k := range job.Kind(job.Kinds) {
		s.queue.set(j, s, k, false, 0)
	}
	s.queue.leave(j, s.user)
	*s = seat{}
}

// JobChanged implements sched.ChangeWatcher.
func (c *Order) JobChanged(j *job.Job, what sched.Change) {
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
	if s.queue.conf.Priorities {
		s.queue.jobs.Reposition(j)
		for p := range s.queue.ready {
			s.queue.ready[p].Reposition(j)
			s.queue.busy[p].Reposition(j)
		}
	}
}

// TaskStarted implements sched.TaskWatcher.
func (c *Order) TaskStarted(a *job.Attempt, _ time.Duration) { c.count(a, 1) }

// TaskEnded implements sched.TaskWatcher.
func (c *Order) TaskEnded(a *job.Attempt, _ time.Duration) { c.count(a, -1) }

func (c *Order) count(a *job.Attempt, by int) {
	s, k := &c.seats[a.Job().Seat()], a.Kind()
	s.queue.set(a.Job(), s, k, s.ready[k], s.runs[k]+by)
}

// Explain implements sched.Explainer: what the job's queue and user have.
func (c *Order) Explain(j *job.Job, k job.Kind, _ time.Duration) string {
	if j.Seat() >= len(c.seats) || c.seats[j.Seat()].queue == nil || !j.State().Live() || j.Pending(k) == 0 {
		return ""
	}
	s, p, what := &c.seats[j.Seat()], c.pot(k), k.String()+" slots"
	if p == allSlots {
		what = "slots"
	}
	q, slots := s.queue, slotsOf(c.view.Nodes(), p)
	words := fmt.Sprintf("queue %q uses %d of its %d %s", q.conf.Name, q.occupied[p], q.capacity(slots), what)
	if j.Pool() != q.conf.Name {
		words = fmt.Sprintf("there is no queue %q, so the job is in %q; ", j.Pool(), q.conf.Name) + words
	}
	if most := q.maximum(slots, c.cfg.TinyZero); most > 0 {
		words += fmt.Sprintf(" and may use at most %d", most)
	}
	return words + fmt.Sprintf("; the jobs of user %q use %d and may use at most %d", s.user.name,
		s.user.occupied[p], q.userLimit(p, slots, q.wanting[p], c.cfg.TinyZero))
}
