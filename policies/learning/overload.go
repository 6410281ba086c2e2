package learning

import (
	"errors"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Overload has no slots. A node may take the tasks that a classifier does not
// expect to overload it, a few per heartbeat. Overload passes the load of each
// heartbeat to the learner, which labels earlier decisions by it. The order
// asks the learner for predictions and reports its decisions.
//
// A node that has not reported a load yet, or never does, has the slots of its
// specification, because nothing can be learned from it.
type Overload struct {
	learner *Learner
	view    *sched.View
	ended   []int // tasks that ended since the node's last round, by node index
	room    int   // launches of this round beyond tasks-per-heartbeat, with refill
}

var (
	_ sched.Slots          = (*Overload)(nil)
	_ sched.Sizer          = (*Overload)(nil)
	_ sched.Starter        = (*Overload)(nil)
	_ sched.Limiter        = (*Overload)(nil)
	_ sched.Observer       = (*Overload)(nil)
	_ sched.NodeWatcher    = (*Overload)(nil)
	_ sched.TaskWatcher    = (*Overload)(nil)
	_ sched.Stateful       = (*Overload)(nil)
	_ sched.Reconfigurable = (*Overload)(nil)
	_ sched.Fitter         = (*Overload)(nil)
)

// NewOverload returns a slots part that uses the learner.
func NewOverload(l *Learner) *Overload { return &Overload{learner: l} }

// ReadBayesSlots returns Overload with naive Bayes and the parameters that the user
// has set.
func ReadBayesSlots(k *sched.Kit) (sched.Slots, error) { return readOverload(ReadBayes(k)) }

// ReadPerceptronSlots returns Overload with a perceptron and the parameters that the
// user has set.
func ReadPerceptronSlots(k *sched.Kit) (sched.Slots, error) {
	return readOverload(ReadPerceptron(k))
}

func readOverload(cfg Config, err error) (sched.Slots, error) {
	if err != nil {
		return nil, err
	}
	return NewOverload(New(cfg)), nil
}

// Learner returns the learner, which the order looks for.
func (s *Overload) Learner() *Learner { return s.learner }

// Fit implements sched.Fitter.
func (s *Overload) Fit(parts []any) error {
	for _, p := range parts {
		if _, ok := p.(Decider); ok {
			return nil
		}
	}
	return errors.New("slots=overload sets no limit by itself: combine it with an order that uses its predictions, such as order=utility")
}

// Start implements sched.Starter.
func (s *Overload) Start(v *sched.View, _ time.Duration) { s.view = v }

// Begin starts a round.
func (s *Overload) Begin(r *sched.Round) {
	s.room = 0
	// Emptied by each round, also one that launches nothing: a task that ended before it has had its chance
	// to be replaced.
	if n := s.count(r.Node().Index()); s.learner.cfg.Refill {
		s.room, *n = *n, 0
	}
}

// count returns the counter of tasks that have ended on a node.
func (s *Overload) count(node int32) *int {
	for int(node) >= len(s.ended) {
		s.ended = append(s.ended, 0)
	}
	return &s.ended[node]
}

// TaskStarted implements sched.TaskWatcher.
func (s *Overload) TaskStarted(*job.Attempt, time.Duration) {}

// TaskEnded implements sched.TaskWatcher.
func (s *Overload) TaskEnded(a *job.Attempt, _ time.Duration) { *s.count(a.Node())++ }

// Next implements sched.Slots. Both kinds compete for each decision until one
// reaches the cap. The other then gets the offer alone, so that slots are never
// lent.
func (s *Overload) Next(r *sched.Round) (sched.Offer, bool) {
	maps, reduces := r.Free(job.Map) > 0, r.Free(job.Reduce) > 0
	early := s.learner.cfg.Early
	// A node has more slots for its reduces than its specification says. Beyond that number none
	// is a reduce's own.
	slot := job.Reduce
	if r.Node().Occupied(job.Reduce) >= r.Node().Slots(job.Reduce) {
		slot = job.Map
	}
	mapsDone := reduces && s.enoughWaiting(r.Node())
	switch {
	// A refusal ends the round: the order has compared all candidates and recorded its decision.
	// Another offer would be a second decision about the same state.
	case len(r.Launched()) >= s.learner.cfg.PerHeartbeat+s.room, len(r.Refused()) > 0:
		return sched.Offer{}, false
	case maps && reduces:
		return early.Restrict(sched.Offer{Kind: job.Map, Slot: job.Map, Either: true, MapsDone: mapsDone}, slot), true
	case maps:
		return sched.Offer{Kind: job.Map, Slot: job.Map}, true
	case reduces:
		return early.Restrict(sched.Offer{Kind: job.Reduce, Slot: job.Reduce, MapsDone: mapsDone}, slot), true
	}
	return sched.Offer{}, false
}

// enoughWaiting reports whether the node has as many waiting reduces as it may have.
// Further reduces start there only if the maps of their job are done.
func (s *Overload) enoughWaiting(n *cluster.Node) bool {
	c := &s.learner.cfg
	most := c.WaitingOn(n.Slots(job.Reduce))
	// The count first: WaitingReduces walks the node's attempts.
	return n.Running(job.Reduce) >= most && WaitingReduces(n) >= most
}

// Limits implements sched.Limiter. It returns the safety cap, and 0 for a kind
// of which the node has no slots.
func (s *Overload) Limits(n *cluster.Node) [job.Kinds]int {
	// Without a report there is no prediction and no label, so the specification is the only limit.
	if !s.learner.Known(n.Index()) {
		return [job.Kinds]int{n.Slots(job.Map), n.Slots(job.Reduce)}
	}
	var limits [job.Kinds]int
	c := &s.learner.cfg
	for k := range limits {
		// More than the slots of the specification, so that the classifier and not the operator sets the
		// number.
		limits[k] = c.TasksOn(n.Slots(job.Kind(k)))
	}
	return limits
}

// Size implements sched.Sizer: the sum of the limits of the nodes that take work.
func (s *Overload) Size(k job.Kind) int {
	all := 0
	for _, n := range s.view.Nodes().All() {
		if n.Alive() && !n.Closed() {
			all += s.Limits(n)[k]
		}
	}
	return all
}

// Heartbeat implements sched.Observer.
func (s *Overload) Heartbeat(n *cluster.Node, now time.Duration) { s.learner.Report(n, now) }

// Quiet implements sched.Quiet; see MayPark.
func (s *Overload) Quiet() bool { return true }

// MayPark implements sched.Parker: decisions about the node wait for its next reports.
func (s *Overload) MayPark(n *cluster.Node) bool { return len(s.learner.node(n.Index()).waiting) == 0 }

// NodeJoined implements sched.NodeWatcher.
func (s *Overload) NodeJoined(n *cluster.Node) { s.learner.Forget(n.Index()) }

// NodeLost implements sched.NodeWatcher.
func (s *Overload) NodeLost(n *cluster.Node) {
	s.learner.Forget(n.Index())
	// Tasks that ended with the node have not made room on it.
	*s.count(n.Index()) = 0
}

// Save implements sched.Stateful.
func (s *Overload) Save() ([]byte, error) { return s.learner.Save() }

// Load implements sched.Stateful.
func (s *Overload) Load(state []byte) error { return s.learner.Load(state) }

// Reconfigure implements sched.Reconfigurable for a Rule, which
// replaces the overload rule. The learner learns again under it.
func (s *Overload) Reconfigure(conf any) (bool, error) {
	rule, ok := conf.(Rule)
	if !ok {
		return false, nil
	}
	return true, s.learner.SetRule(rule)
}
