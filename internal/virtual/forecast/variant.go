package forecast

import (
	"fmt"
	"slices"
	"time"

	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Variant is a change of a State, for the question what would be if. The zero value
// changes nothing. A change of policy is a change of Config, not of the State.
type Variant struct {
	// Nodes is the number of nodes to add, each a copy of the first node that takes work.
	// If it is negative, the nodes that joined last are removed, and their attempts run again
	// elsewhere.
	Nodes int
	// Slots adds one node with these slots.
	Slots [job.Kinds]int
	// Priorities are new priorities of jobs.
	Priorities []NewPriority
	// Kill removes jobs.
	Kill []job.ID
	// Submit adds jobs, which are all submitted at once.
	Submit []NewJob
}

// NewPriority is a job's new priority.
type NewPriority struct {
	Job      job.ID
	Priority job.Priority
}

// NewJob is a job that a Variant submits.
type NewJob struct {
	Spec job.Spec
	// Seconds are the times of its tasks by kind; 0 takes them from jobs of the same name, or
	// from all jobs.
	Seconds [job.Kinds]float64
}

// MaxNewNodes bounds the nodes that a Variant adds.
const MaxNewNodes = 10_000

// With returns a State with a change. The receiver does not change.
func (s *State) With(v Variant) (*State, error) {
	c := *s
	c.Nodes, c.Jobs, c.Running = slices.Clone(s.Nodes), slices.Clone(s.Jobs), slices.Clone(s.Running)
	for _, p := range v.Priorities {
		j := c.job(p.Job)
		if j == nil {
			return nil, fmt.Errorf("%v has no tasks left to schedule", p.Job)
		}
		j.Priority = p.Priority
	}
	for _, id := range v.Kill {
		if c.job(id) == nil {
			return nil, fmt.Errorf("%v has no tasks left to schedule", id)
		}
		c.Jobs = slices.DeleteFunc(c.Jobs, func(j LiveJob) bool { return j.ID == id })
		c.Running = slices.DeleteFunc(c.Running, func(a Attempt) bool { return a.ID.Job == id })
	}
	if err := c.changeNodes(v.Nodes); err != nil {
		return nil, err
	}
	if v.Slots != [job.Kinds]int{} {
		c.Nodes = append(c.Nodes, Node{Index: -1, Spec: cluster.Spec{Name: "more-slots", MapSlots: v.Slots[job.Map], ReduceSlots: v.Slots[job.Reduce]}})
	}
	for i := range v.Submit {
		if err := c.submit(&v.Submit[i]); err != nil {
			return nil, err
		}
	}
	return &c, nil
}

// changeNodes adds n nodes like one that takes work, or removes the last -n with their attempts.
func (s *State) changeNodes(n int) error {
	if n > MaxNewNodes {
		return fmt.Errorf("%d more nodes: at most %d", n, MaxNewNodes)
	}
	if n < 0 {
		if -n >= len(s.Nodes) {
			return fmt.Errorf("%d fewer nodes: the cluster has only %d", -n, len(s.Nodes))
		}
		gone := map[string]bool{}
		for _, node := range s.Nodes[len(s.Nodes)+n:] {
			gone[node.Spec.Name] = true
		}
		s.Nodes = s.Nodes[:len(s.Nodes)+n]
		s.Running = slices.DeleteFunc(s.Running, func(a Attempt) bool { return gone[a.Node] })
		return nil
	}
	if n > 0 && len(s.Nodes) == 0 {
		return fmt.Errorf("%d more nodes: the cluster has no live node that they could equal", n)
	}
	for i := range n {
		like := s.Nodes[max(0, slices.IndexFunc(s.Nodes, func(n Node) bool { return !n.Closed }))]
		like.Spec.Name, like.Spec.Host, like.Index, like.Closed, like.Load = fmt.Sprintf("what-if-%d", i+1), "", -1, false, cluster.Load{}
		s.Nodes = append(s.Nodes, like)
	}
	return nil
}

// submit adds a job as if it had just arrived. Its stated times count as measured ones.
func (s *State) submit(n *NewJob) error {
	if err := job.Check(&n.Spec); err != nil {
		return err
	}
	s.Last++
	j := LiveJob{ID: s.Last, Spec: n.Spec, Priority: n.Spec.Priority, Pool: n.Spec.Pool, State: job.Pending, Submitted: s.At}
	j.Times.SplitBytes = meanBytes(n.Spec.Splits)
	for k, tasks := range [job.Kinds]int{len(n.Spec.Splits), n.Spec.Reduces} {
		j.Done[k] = make([]time.Duration, tasks)
		if x := n.Seconds[k]; x > 0 {
			j.Times.Seconds[k] = slices.Repeat([]float64{max(x, minTask)}, enoughOwn)
		}
	}
	s.Jobs = append(s.Jobs, j)
	return nil
}

// Counterfactual is a change with which a job that waits would start at once.
type Counterfactual struct {
	// Slots is the number of more slots of Kind. It is 0 if Priority alone is enough.
	Slots    int
	Kind     job.Kind
	Priority job.Priority
}

// mostSlots bounds the search of WouldStart. It also ends at as many slots more as the cluster
// has, and fewSlots: more than twice the cluster is no advice.
const (
	mostSlots = 1024
	fewSlots  = 8
)

// WouldStart returns the changes with which the job's next task would be launched within
// some heartbeats: the fewest more slots of its kind, and the lowest higher priority. It is
// empty if a task of the job runs or neither helps. Each question costs a fork.
func WouldStart(cfg Config, s *State, id job.ID) ([]Counterfactual, error) {
	j := s.job(id)
	if j == nil || slices.ContainsFunc(s.Running, func(a Attempt) bool { return a.ID.Job == id }) {
		return nil, nil
	}
	// A job waits for its maps first. Its reduces cannot start before.
	kind := job.Map
	if j.left(job.Map) == 0 {
		kind = job.Reduce
	}
	starts := func(v Variant) (bool, error) {
		c, err := s.With(v)
		if err != nil {
			return false, err
		}
		return startsSoon(cfg, c, id)
	}
	// It starts anyway, within some heartbeats: there is nothing to change.
	if now, err := starts(Variant{}); err != nil || now {
		return nil, err
	}
	var found []Counterfactual
	for p := j.Priority + 1; p <= job.VeryHigh; p++ {
		ok, err := starts(Variant{Priorities: []NewPriority{{id, p}}})
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, Counterfactual{Priority: p})
			break
		}
	}
	slots := func(n int) Variant {
		var v Variant
		v.Slots[kind] = n
		return v
	}
	// Each question costs a fork, so the number is doubled until it is enough, and then bisected.
	enough, last := 1, 0
	most := min(mostSlots, max(fewSlots, s.slots(kind)))
	for ; enough <= most; last, enough = enough, min(enough*2, max(most, enough+1)) {
		ok, err := starts(slots(enough))
		if err != nil {
			return nil, err
		}
		if ok {
			break
		}
	}
	if enough > most {
		return found, nil
	}
	for enough-last > 1 {
		mid := (enough + last) / 2
		ok, err := starts(slots(mid))
		if err != nil {
			return nil, err
		}
		if ok {
			enough = mid
		} else {
			last = mid
		}
	}
	return append(found, Counterfactual{Slots: enough, Kind: kind}), nil
}

// slots counts the slots of a kind on nodes that take work.
func (s *State) slots(k job.Kind) (n int) {
	for i := range s.Nodes {
		if spec := &s.Nodes[i].Spec; !s.Nodes[i].Closed {
			n += [job.Kinds]int{spec.MapSlots, spec.ReduceSlots}[k]
		}
	}
	return n
}

// startsSoon reports whether a task of a job is launched before any running attempt ends.
func startsSoon(cfg Config, s *State, id job.ID) (bool, error) {
	r := NewRun(cfg, s)
	w, err := r.newFuture(0)
	if err != nil {
		return false, err
	}
	result, err := w.simulate(noEnds{}, nil, s.At+soonBeats*r.cfg.Heartbeat)
	return err == nil && result.Jobs[s.index(id)].Started >= 0, err
}

// noEnds lets no attempt end: a slot for a job must come from a change of the state.
type noEnds struct{}

// Span implements sim.Times.
func (noEnds) Span(int, *job.Attempt) time.Duration { return 0 }

// soonBeats is the number of heartbeats within which a task must start. Policies that wait
// for local slots take a few.
const soonBeats = 20
