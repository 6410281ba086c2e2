package forecast

import (
	"cmp"
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
	// On is where added nodes run.
	On Machine
	// Slots adds one node with these slots.
	Slots [job.Kinds]int
	// Priorities are new priorities of jobs.
	Priorities []NewPriority
	// Kill removes jobs.
	Kill []job.ID
	// Submit adds jobs, which are all submitted at once.
	Submit []NewJob
}

// Machine is where the nodes run that a Variant adds.
type Machine uint8

// The machines of added nodes.
const (
	// LikeOthers is the machine of the present nodes if several share one and no other exists, and else a new one
	// for each.
	LikeOthers Machine = iota
	// NewMachine is a machine for each node, on which nothing else runs.
	NewMachine
	// PresentMachine is the machine of the node that is copied.
	PresentMachine
)

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
	// One level deep: a change replaces whole entries or fields, never an element of a slice within one.
	c.Nodes, c.Jobs, c.Running = slices.Clone(s.Nodes), slices.Clone(s.Jobs), slices.Clone(s.Running)
	// Priorities and kills first: they name jobs of the state, and ids of submitted jobs are not known
	// before.
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
	if err := c.changeNodes(v.Nodes, v.On); err != nil {
		return nil, err
	}
	if v.Slots != [job.Kinds]int{} {
		// A further node and not wider ones: policies that count slots by node keep their counts.
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
func (s *State) changeNodes(n int, on Machine) error {
	if n > MaxNewNodes {
		return fmt.Errorf("%d more nodes: at most %d", n, MaxNewNodes)
	}
	if n < 0 {
		if -n >= len(s.Nodes) {
			return fmt.Errorf("%d fewer nodes: the cluster has only %d", -n, len(s.Nodes))
		}
		gone := map[string]bool{}
		// Their attempts become pending tasks and run again elsewhere, as after the loss of a node. Their
		// tasks that are done stay done: outputs are not lost in futures.
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
	s.Added += n
	shares := on == PresentMachine || on == LikeOthers && s.oneMachine()
	for range n {
		// A closed node is a copy's last resort, when there is no other.
		like := s.Nodes[max(0, slices.IndexFunc(s.Nodes, func(n Node) bool { return !n.Closed }))]
		host := ""
		if shares {
			host = like.host()
		}
		// A state to which nodes were added before has some of these names.
		like.Spec.Name, like.Spec.Host, like.Index, like.Closed, like.Load = fmt.Sprintf("what-if-%d", len(s.Nodes)), host, -1, false, cluster.Load{}
		s.Nodes = append(s.Nodes, like)
	}
	return nil
}

// host returns the name of the node's machine.
func (n *Node) host() string { return cmp.Or(n.Spec.Host, n.Spec.Name) }

// oneMachine reports whether there are several nodes and all run on the same machine.
func (s *State) oneMachine() bool {
	return len(s.Nodes) > 1 && !slices.ContainsFunc(s.Nodes, func(n Node) bool { return n.host() != s.Nodes[0].host() })
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
			// As many as make a job's own times count alone.
			j.Times.Seconds[k] = slices.Repeat([]float64{max(x, minTask)}, enoughOwn)
		}
	}
	s.Jobs = append(s.Jobs, j)
	return nil
}
