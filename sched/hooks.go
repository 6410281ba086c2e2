package sched

import (
	"time"

	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// The optional interfaces of a policy and its parts. The tracker looks for them once,
// when the policy is installed. It calls every part that implements one, in the order
// slots, order, place, speculate; a value that serves as two parts is called once. No
// implementation may keep a slice that it is passed.
type (
	// Starter receives the view when the policy is installed, before any other
	// call, and may keep it. Jobs and nodes that exist already are announced
	// afterwards, as if they had just come.
	Starter interface {
		Start(v *View, now time.Duration)
	}

	// JobWatcher is called when jobs are submitted and when they stop being live.
	// An added job may have run for long if one policy replaces another. After
	// JobRemoved returns, the job's seat may be given to another job.
	JobWatcher interface {
		JobAdded(j *job.Job)
		JobRemoved(j *job.Job)
	}

	// ChangeWatcher is called when something changes by which orders sort or filter
	// jobs.
	ChangeWatcher interface{ JobChanged(j *job.Job, c Change) }

	// TaskWatcher is called for every attempt that is launched and that ends.
	// Attempt.State says how it ended.
	TaskWatcher interface {
		TaskStarted(a *job.Attempt, now time.Duration)
		TaskEnded(a *job.Attempt, now time.Duration)
	}

	// NodeWatcher is called when nodes join and when they are lost.
	NodeWatcher interface {
		NodeJoined(n *cluster.Node)
		NodeLost(n *cluster.Node)
	}

	// CapacityWatcher is called when the number of slots that take work has changed
	// although no node has joined or left: a node was drained, for example.
	CapacityWatcher interface{ CapacityChanged() }

	// Observer is called for every heartbeat of a known node, also if the node wants
	// no work. The heartbeat's reports have been processed; the round has not begun.
	Observer interface {
		Heartbeat(n *cluster.Node, now time.Duration)
	}

	// Periodic is called at each multiple of its interval that time reaches or
	// passes, with that multiple as now. After a silence of more than 1,000
	// intervals the older ones are skipped.
	Periodic interface {
		Interval() time.Duration
		Update(now time.Duration)
	}

	// Preempter returns running attempts to kill, in that order. It is called after
	// each Update and each tick of the tracker. Preempted attempts do not count as
	// failed.
	Preempter interface {
		Preempt(now time.Duration) []Victim
	}

	// Limiter decides how many slots of each kind a node has, in place of what the
	// node says. Without one the tracker never launches more tasks on a kind of slot
	// than the node has.
	Limiter interface {
		Limits(n *cluster.Node) [job.Kinds]int
	}

	// SizeReader uses the sizes of jobs, which only a simulation knows in advance. A
	// simulation calls Know for every live job, after JobAdded and before the next round,
	// with the time that all tasks of each kind take on a node of speed 1. A policy with a
	// SizeReader is a reference for comparisons: with Options.Live, Build refuses it.
	SizeReader interface {
		Know(j *job.Job, work [job.Kinds]time.Duration)
	}

	// Restarter wants jobs to be killed and started again from the beginning, which only a
	// simulation can do. After each event a simulation calls Restarts and, for each job that
	// is returned, kills it and submits it again with all its tasks. It then calls Restarted
	// with the new job, after JobAdded and before the next round, and also when it installs
	// the policy while such a job is live. A policy with a Restarter is a reference for
	// comparisons: with Options.Live, Build refuses it.
	Restarter interface {
		// Restarts returns live jobs, and forgets that it wanted them to start again.
		Restarts() []*job.Job
		// Restarted says how many times j has been started again, at least once.
		Restarted(j *job.Job, times int)
	}

	// Explainer adds a sentence to the answer why a job waits, with what only the
	// policy knows. "" adds nothing.
	Explainer interface {
		Explain(j *job.Job, k job.Kind, now time.Duration) string
	}

	// Reconfigurable accepts a new configuration while jobs run. It receives a value
	// of any type and returns whether it understands that type. After an error
	// nothing has changed.
	Reconfigurable interface {
		Reconfigure(conf any) (bool, error)
	}

	// QueueChecker knows by name all queues that jobs may be sent to. A master refuses a job
	// whose queue does not exist, and the move of a job to such a queue. Simulations and
	// restored jobs are not checked, so JobAdded must accept every name.
	QueueChecker interface {
		// CheckQueue returns an error that names the queues if none has the name.
		CheckQueue(name string) error
	}

	// Stateful has learned something that should survive a restart. Load receives
	// what Save of the same part returned. After an error nothing has changed.
	Stateful interface {
		Save() ([]byte, error)
		Load(state []byte) error
	}
)

// Change is the kind of change that a ChangeWatcher is called for.
type Change uint8

// The kinds of change. A change of demand means that Job.Launchable has a new value
// for maps or for reduces. Each kind of task for which it changed is a call of its
// own.
const (
	PriorityChanged Change = iota + 1
	MapDemandChanged
	ReduceDemandChanged
	PoolChanged
)

// DemandOf returns the change of demand for a kind of task.
func DemandOf(k job.Kind) Change { return MapDemandChanged + Change(k) }

// Victim is an attempt that a Preempter wants killed.
type Victim struct {
	Attempt *job.Attempt
	// For says who needs the slot, in words that end the sentence "its slot goes to ...". The attempt's user
	// reads it as the attempt's error, also in the history. "" stands for another job.
	For string
}

// Hooks lists the optional interfaces that a policy and its parts implement. Each
// list is in the order of the calls.
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
	Sizes      []SizeReader
	Restarters []Restarter
	Limiter    Limiter // the first one; nil if there is none
	Explainers []Explainer
	Statefuls  []Stateful
	Configs    []Reconfigurable
	Queues     []QueueChecker
	Parkers    []Parker
	Counters   []BeatCounter
	// Inspectables show their inner state; see Inspect.
	Inspectables []Inspectable
	// Loggers keep a log of their decisions; see Logs.
	Loggers []Logger
}

// Parted is a policy or a part that consists of parts. Their hooks are found as well.
type Parted interface{ Parts() []any }

// HooksOf finds the hooks of a policy and, if the policy is Parted, of its parts.
// Parts must be comparable, as pointers are.
func HooksOf(p Policy) *Hooks {
	h := &Hooks{}
	// One value may have several roles, and its hook must hear of each event once.
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

// add enters a part in the list of each interface that it implements. Of several Limiters the first
// counts.
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
	addIf(&h.Sizes, x)
	addIf(&h.Restarters, x)
	addIf(&h.Explainers, x)
	addIf(&h.Statefuls, x)
	addIf(&h.Configs, x)
	addIf(&h.Queues, x)
	addIf(&h.Parkers, x)
	addIf(&h.Counters, x)
	addIf(&h.Inspectables, x)
	addIf(&h.Loggers, x)
	// One number of slots must hold for the tracker, whatever the parts say; parts come in the order of the
	// composition.
	if l, ok := x.(Limiter); ok && h.Limiter == nil {
		h.Limiter = l
	}
}

// addIf appends x to the list if x implements the list's interface.
func addIf[T any](list *[]T, x any) {
	if v, ok := x.(T); ok {
		*list = append(*list, v)
	}
}
