package sched

import (
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
)

// The optional interfaces of a policy and of its parts. They are looked for
// once, when the policy is installed; every part that has one is told, in the
// order slots, order, place, speculate, and an object that serves as two parts
// is told once. None of these calls may keep a slice that it was passed.
type (
	// Starter is told of the view when the policy is installed, before any
	// other call; it may keep it. Jobs and nodes that exist already are then
	// announced as if they had just come.
	Starter interface {
		Start(v *View, now time.Duration)
	}

	// JobWatcher is told of jobs that come and go. An added job may have run
	// for long, if policies are swapped. A removed job has ended, and its seat
	// may be given away after the call.
	JobWatcher interface {
		JobAdded(j *job.Job)
		JobRemoved(j *job.Job)
	}

	// ChangeWatcher is told when what an order sorts or filters by changes.
	ChangeWatcher interface{ JobChanged(j *job.Job, c Change) }

	// TaskWatcher is told of every attempt launched and ended, for whatever
	// reason; the attempt's state says which.
	TaskWatcher interface {
		TaskStarted(a *job.Attempt, now time.Duration)
		TaskEnded(a *job.Attempt, now time.Duration)
	}

	// NodeWatcher is told of nodes that join and are lost.
	NodeWatcher interface {
		NodeJoined(n *cluster.Node)
		NodeLost(n *cluster.Node)
	}

	// CapacityWatcher is told when the slots of the cluster that take work have
	// become more or fewer without a node's coming or going.
	CapacityWatcher interface{ CapacityChanged() }

	// Observer is told of every heartbeat of a known node, after its reports
	// are worked in and before a round, also when the node wants no work.
	Observer interface {
		Heartbeat(n *cluster.Node, now time.Duration)
	}

	// Periodic is called at each multiple of its interval that time reaches or
	// passes, with that multiple as now. After a silence of more than 1,000
	// intervals the older ones are left out.
	Periodic interface {
		Interval() time.Duration
		Update(now time.Duration)
	}

	// Preempter returns running attempts to kill, in that order. It is asked
	// after each Update and each Tick. Killing does not count as failure.
	Preempter interface {
		Preempt(now time.Duration) []*job.Attempt
	}

	// Limiter replaces the slots that a node says it has. Without one the
	// tracker never launches more on a kind of slot than the node has.
	Limiter interface {
		Limits(n *cluster.Node) [job.Kinds]int
	}

	// Explainer adds what only the policy knows to the answer to why a job
	// waits; "" is nothing to add.
	Explainer interface {
		Explain(j *job.Job, k job.Kind, now time.Duration) string
	}

	// Reconfigurable takes over a new configuration while jobs run. It is given
	// a value of any type and reports whether it is one that it understands; an
	// error means that it does and that nothing has changed.
	Reconfigurable interface {
		Reconfigure(conf any) (bool, error)
	}

	// Stateful has learned something worth keeping over a restart.
	Stateful interface {
		Save() ([]byte, error)
		Load(state []byte) error
	}
)

// Change says what a ChangeWatcher is told.
type Change uint8

// The changes. A Demand change means that Job.Launchable turned over for a
// kind; it is told for each kind that did.
const (
	PriorityChanged Change = iota + 1
	MapDemandChanged
	ReduceDemandChanged
	PoolChanged
)

// DemandOf returns the change of demand for a kind.
func DemandOf(k job.Kind) Change { return MapDemandChanged + Change(k) }

// Hooks are the optional interfaces of a policy and its parts, each list in the
// order in which they are told.
type Hooks struct {
	Starters   []Starter
	Jobs       []JobWatcher
	Changes    []ChangeWatcher
	Tasks      []TaskWatcher
	Nodes      []NodeWatcher
	Capacity   []CapacityWatcher
	Observers  []Observer
	Periodics  []Periodic
	Preempters []Preempter
	Limiter    Limiter // the first one
	Explainers []Explainer
	Statefuls  []Stateful
	Configs    []Reconfigurable
}

// Parted is a policy, or a part of one, made of parts, whose hooks are found as
// well.
type Parted interface{ Parts() []any }

// HooksOf finds the hooks of a policy and, if it is Parted, of its parts. Parts
// must be comparable, which pointers are.
func HooksOf(p Policy) *Hooks {
	h := &Hooks{}
	seen := map[any]bool{p: true}
	h.add(p)
	if c, ok := p.(Parted); ok {
		for _, part := range flatten(c.Parts()) {
			if !seen[part] {
				seen[part] = true
				h.add(part)
			}
		}
	}
	return h
}

func (h *Hooks) add(x any) {
	addIf(&h.Starters, x)
	addIf(&h.Jobs, x)
	addIf(&h.Changes, x)
	addIf(&h.Tasks, x)
	addIf(&h.Nodes, x)
	addIf(&h.Capacity, x)
	addIf(&h.Observers, x)
	addIf(&h.Periodics, x)
	addIf(&h.Preempters, x)
	addIf(&h.Explainers, x)
	addIf(&h.Statefuls, x)
	addIf(&h.Configs, x)
	if l, ok := x.(Limiter); ok && h.Limiter == nil {
		h.Limiter = l
	}
}

func addIf[T any](list *[]T, x any) {
	if v, ok := x.(T); ok {
		*list = append(*list, v)
	}
}
