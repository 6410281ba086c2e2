package slots

import (
	"errors"
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/sched/learning"
	"github.com/slotwise/slotwise/sched"
)

// Overload has no slots: a node may take what a classifier does not expect to
// overload it, a few tasks per heartbeat. It takes each heartbeat's load to the
// learner, which judges by it what the one before decided; the order asks the
// learner for predictions and tells it of decisions.
//
// A node that has not told its load yet, or never does, has the slots that it
// says it has: nothing could be learned from it.
type Overload struct {
	learner *learning.Learner
	view    *sched.View
	ended   []int // tasks since the node's last round, by node index
	room    int   // of this round, beside the decisions of a heartbeat
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

// NewOverload returns slots by that learner.
func NewOverload(l *learning.Learner) *Overload { return &Overload{learner: l} }

// ReadBayes makes Overload with naive Bayes from the settings that
// learning.BayesParams describes.
func ReadBayes(k *sched.Kit) (sched.Slots, error) { return readOverload(learning.ReadBayes(k)) }

// ReadPerceptron makes Overload with a perceptron from the settings that
// learning.PerceptronParams describes.
func ReadPerceptron(k *sched.Kit) (sched.Slots, error) {
	return readOverload(learning.ReadPerceptron(k))
}

func readOverload(cfg learning.Config, err error) (sched.Slots, error) {
	if err != nil {
		return nil, err
	}
	return NewOverload(learning.New(cfg)), nil
}

// Learner returns what predicts and learns.
func (s *Overload) Learner() *learning.Learner { return s.learner }

// Fit implements sched.Fitter.
func (s *Overload) Fit(parts []any) error {
	for _, p := range parts {
		if _, ok := p.(learning.Decider); ok {
			return nil
		}
	}
	return errors.New("slots=overload sets no limit by itself: it needs an order that asks it for predictions, such as order=utility")
}

// Start implements sched.Starter.
func (s *Overload) Start(v *sched.View, _ time.Duration) { s.view = v }

// Begin is called at the start of each round.
func (s *Overload) Begin(r *sched.Round) {
	s.room = 0
	if n := s.count(r.Node().Index()); s.learner.Config().Refill {
		s.room, *n = *n, 0
	}
}

// count returns the number of tasks that have ended on a node.
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

// Next implements sched.Slots. Both kinds compete for each decision, as long as
// neither has reached the cap; then the other has the offer alone, so that it is
// never lent a slot.
func (s *Overload) Next(r *sched.Round) (sched.Offer, bool) {
	maps, reduces := r.Free(job.Map) > 0, r.Free(job.Reduce) > 0
	switch {
	case len(r.Launched()) >= s.learner.Config().PerHeartbeat+s.room, len(r.Refused()) > 0:
		return sched.Offer{}, false
	case maps && reduces:
		return sched.Offer{Kind: job.Map, Slot: job.Map, Either: true}, true
	case maps:
		return sched.Offer{Kind: job.Map, Slot: job.Map}, true
	case reduces:
		return sched.Offer{Kind: job.Reduce, Slot: job.Reduce}, true
	}
	return sched.Offer{}, false
}

// Limits implements sched.Limiter: the safety cap, and nothing of a kind that the
// node has no slots for at all.
func (s *Overload) Limits(n *cluster.Node) [job.Kinds]int {
	if !s.learner.Known(n.Index()) {
		return [job.Kinds]int{n.Slots(job.Map), n.Slots(job.Reduce)}
	}
	var limits [job.Kinds]int
	for k := range limits {
		if n.Slots(job.Kind(k)) > 0 {
			limits[k] = s.learner.Config().MaxTasks
		}
	}
	return limits
}

// Size implements sched.Sizer: the caps of all live nodes.
func (s *Overload) Size(k job.Kind) int {
	all := 0
	for _, n := range s.view.Nodes().All() {
		if n.Alive() {
			all += s.Limits(n)[k]
		}
	}
	return all
}

// Heartbeat implements sched.Observer.
func (s *Overload) Heartbeat(n *cluster.Node, now time.Duration) { s.learner.Report(n, now) }

// NodeJoined implements sched.NodeWatcher.
func (s *Overload) NodeJoined(n *cluster.Node) { s.learner.Forget(n.Index()) }

// NodeLost implements sched.NodeWatcher.
func (s *Overload) NodeLost(n *cluster.Node) {
	s.learner.Forget(n.Index())
	*s.count(n.Index()) = 0
}

// Save implements sched.Stateful.
func (s *Overload) Save() ([]byte, error) { return s.learner.Save() }

// Load implements sched.Stateful.
func (s *Overload) Load(state []byte) error { return s.learner.Load(state) }

// Reconfigure implements sched.Reconfigurable: it takes a learning.Rule, the
// limits of a node from now on, and learns anew by it.
func (s *Overload) Reconfigure(conf any) (bool, error) {
	rule, ok := conf.(learning.Rule)
	if !ok {
		return false, nil
	}
	return true, s.learner.SetRule(rule)
}
