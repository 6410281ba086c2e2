package protocol

import (
	"slices"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// advice returns a remedy for the reason why a job's tasks wait now, "" if there is none. It
// never advises a change that would have no effect under the installed policy.
func (c *Core) advice(j *job.Job, k job.Kind, why sched.Reason) string {
	// A code without a case has no remedy that a user could apply, such as a round that has not come yet.
	switch why.Code {
	case sched.Behind:
		return c.adviceBehind(j, k, why)
	case sched.SlowStart:
		return "wait for more maps to succeed, or submit the next such job with a smaller --slow-start"
	case sched.NoSlot:
		return "add workers or slots, or kill jobs that are not needed"
	case sched.AllClosed:
		return c.adviceClosed()
	case sched.NotBack:
		return "start the workers again, or wait until they register with the restarted master"
	case sched.NoNode:
		return "start a worker with slots of this kind"
	case sched.PoolFull, sched.QueueFull, sched.UserFull:
		return "move the job into another pool (slotwise move), or raise this limit in the policy's settings (slotwise policy NAME --set)"
	case sched.JobsFull:
		return "wait for one of these jobs to end, or raise this limit in the policy's settings (slotwise policy NAME --set)"
	case sched.WaitLocality, sched.PassesSlots:
		return "nothing, or shorten the wait for local slots in the settings of the policy's place part"
	case sched.PartitionFull, sched.Overload, sched.NoValue:
		return "install another policy (slotwise policy NAME)"
	case sched.Delayed:
		return "see whether the storage or the worker that the error names works; the tasks are tried again without a command"
	case sched.NodeBarred, sched.FailedHere:
		return "find out why attempts have failed (slotwise tasks, slotwise logs)"
	}
	return ""
}

// adviceBehind advises a change that brings a job past the one just ahead in the policy's
// order, or returns "" if the order cannot find such a change.
func (c *Core) adviceBehind(j *job.Job, k job.Kind, why sched.Reason) string {
	policy := sched.CompositionOf(c.tracker.Policy())
	before := c.tracker.Jobs().Get(why.Job)
	if policy == nil || before == nil {
		return ""
	}
	order, ok := policy.Order.(sched.Advancer)
	if !ok {
		return ""
	}
	byPriority, byPool := order.Advances(j, before, k)
	switch {
	case byPriority && byPool:
		return "raise the job's priority (slotwise priority), or move it into another pool (slotwise move)"
	case byPriority:
		return "raise the job's priority (slotwise priority)"
	case byPool:
		return "move the job into another pool (slotwise move)"
	}
	return ""
}

// adviceClosed advises what would give work to a node, if no node takes any.
func (c *Core) adviceClosed() string {
	has := func(s cluster.State) bool {
		return slices.ContainsFunc(c.tracker.Nodes().All(), func(n *cluster.Node) bool { return n.State() == s })
	}
	switch {
	case has(cluster.StateDiskFull):
		return "free space on the disks of the workers (slotwise nodes), or start another worker"
	case has(cluster.StateDiskGone):
		return "repair the disks of the workers (slotwise nodes), or start another worker"
	case c.drainedByRequest():
		return "end the drain of a node (slotwise nodes drain --undo), or start another worker"
	}
	return "start another worker"
}

// drainedByRequest reports whether ending a drain would give work to a live node. It also
// takes a node off the graylist.
func (c *Core) drainedByRequest() bool {
	return slices.ContainsFunc(c.tracker.Nodes().All(), func(n *cluster.Node) bool {
		return n.Alive() && (n.Draining() || n.Graylisted()) && n.Condition() == cluster.Ready
	})
}
