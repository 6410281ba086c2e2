package cluster

import (
	"fmt"
	"strings"
	"time"
)

// Condition is the ability of a node to take work, as its worker last reported it.
type Condition uint8

// The conditions.
const (
	Ready    Condition = iota
	Leaving            // it is being stopped, and its attempts finish
	DiskFull           // its disk has too little space
	DiskGone           // its disk cannot be written, or its directory is gone
)

// State is a node's state as operators see it. A node is in one state, the first in this
// table whose condition holds:
//
//	state       holds if                                        until
//	absent      a member before the master's restart that has   it registers, or is silent
//	            not registered since                            for too long (then lost)
//	lost        silent for too long                             it registers
//	left        it was stopped and has said so                  it registers
//	draining    somebody drained it, or it is being stopped,    the drain is undone; a new
//	            and it runs attempts                            registration ends a stop
//	drained     the same, and it runs none                      the same
//	disk gone   the worker reports so                           it reports otherwise
//	disk full   the worker reports so                           it reports otherwise
//	graylisted  tasks that failed here succeeded elsewhere      old enough, or a drain is undone
//	alive       otherwise
//
// A request of an operator precedes a fault: a node that is drained for a repair stays
// drained, and its reason names the broken disk. Nodes in any state but alive get no new
// work. Whether attempts run decides only between draining and drained.
type State uint8

// The states.
const (
	StateAlive State = iota
	StateGraylisted
	StateDiskFull
	StateDiskGone
	StateDrained
	StateDraining
	StateLeft
	StateLost
	StateAbsent
)

// LeftOrderly is the reason for which a node leaves that was stopped and has told the tracker so.
// Journals store the reason, and Status tells StateLeft from StateLost by it.
const LeftOrderly = "it has left the cluster"

var stateNames = []string{"alive", "graylisted", "disk full", "disk gone", "drained", "draining", "left", "lost", "absent"}

// String returns the state in words for users and programs, such as "disk full".
func (s State) String() string { return stateNames[s] }

// States returns the names of all states.
func States() []string { return stateNames }

// Status is a node's state, since when it is in it, and why.
type Status struct {
	State State
	// Since is the time at which the state's condition began to hold. For a drained node
	// it is the time at which its drain began.
	Since time.Duration
	// Reason is a phrase; "" for a node that is alive. It names every condition that
	// keeps work from the node, beginning with the state's own condition.
	Reason string
}

// State returns the node's state.
func (n *Node) State() State { return n.Status().State }

// Status returns the node's state and the reason.
func (n *Node) Status() Status {
	switch {
	// Before the other states: after a restart a node that has not joined again is not lost yet.
	case n.absent:
		return Status{StateAbsent, n.leftAt, "it has not registered since the master was restarted"}
	case !n.alive && n.leftWhy == LeftOrderly:
		return Status{StateLeft, n.leftAt, n.leftWhy}
	case !n.alive:
		return Status{StateLost, n.leftAt, n.leftWhy}
	}
	all := n.closings()
	if len(all) == 0 {
		return Status{State: StateAlive, Since: n.openSince()}
	}
	reasons := make([]string, len(all))
	for i, c := range all {
		reasons[i] = c.Reason
	}
	first := all[0]
	first.Reason = strings.Join(reasons, "; ")
	return first
}

// closings returns every condition that keeps work from a live node, in the order of the
// states.
func (n *Node) closings() (all []Status) {
	drained := StateDrained
	if len(n.running) > 0 {
		drained = StateDraining
	}
	// First: an operator's request precedes faults, and an operator can end it at once.
	if n.draining {
		all = append(all, Status{drained, n.drainAt, "drained by request"})
	}
	reason := n.conditionWhy
	switch n.condition {
	case Leaving:
		all = append(all, Status{drained, n.conditionAt, "the worker is being stopped"})
	case DiskGone:
		all = append(all, Status{StateDiskGone, n.conditionAt, reason})
	case DiskFull:
		all = append(all, Status{StateDiskFull, n.conditionAt, reason})
	}
	if n.gray {
		all = append(all, Status{StateGraylisted, n.grayAt, fmt.Sprintf("tasks of %d jobs failed here and succeeded elsewhere (\"nodes drain --undo\" lifts it)", len(n.faults))})
	}
	return all
}

// openSince returns since when a node that is not closed takes work.
func (n *Node) openSince() time.Duration {
	return max(n.joined, n.drainAt, n.conditionAt, n.grayAt)
}
