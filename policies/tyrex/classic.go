package tyrex

import (
	"fmt"
	"slices"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// Classic is the original TAGS, task assignment by guessing size (Harchol-Balter: Task
// Assignment with Unknown Duration, 2002): a job that needs more time than its partition
// allows is killed, and starts again from the beginning in the next partition. STATICTAGS
// keeps the finished work instead. A cluster cannot start jobs again, so Classic is a
// reference for simulations: how much keeping the work is worth.
//
// As in STATICTAGS, the work of a job is the time of its tasks that have succeeded, since its
// latest start.
type Classic struct {
	*Tags
	again []*job.Job // jobs to start again
}

var (
	_ sched.Order      = (*Classic)(nil)
	_ sched.Restarter  = (*Classic)(nil)
	_ sched.JobWatcher = (*Classic)(nil)
	_ sched.Explainer  = (*Classic)(nil)
)

// ReadClassic returns Classic with the parameters that the user has set. They are the
// parameters of STATICTAGS.
func ReadClassic(k *sched.Kit) (sched.Order, error) {
	o, err := ReadStatic(k)
	if err != nil {
		return nil, err
	}
	return &Classic{Tags: o.(*Tags)}, nil
}

// Begin notes the jobs that have used up their time, at the start of a round, if a task has
// succeeded since the last one. They stay where they are until they are killed.
func (c *Classic) Begin(*sched.Round) {
	if !c.ended {
		return
	}
	c.ended = false
	c.moving = c.rule.due(c.Tags, c.moving[:0])
	for _, r := range c.moving {
		// The simulation restarts jobs after the round, so a job may be due in several rounds
		// before.
		if !slices.Contains(c.again, r.job) {
			c.again = append(c.again, r.job)
		}
	}
}

// Restarts implements sched.Restarter.
func (c *Classic) Restarts() []*job.Job {
	list := c.again
	c.again = nil
	return list
}

// Restarted implements sched.Restarter. A job that has been started again n times belongs to
// the partition after the first n.
func (c *Classic) Restarted(j *job.Job, times int) {
	// A job can be killed at most once in each partition but the last. The bound also holds if the policy
	// is installed with fewer partitions while such a job runs.
	c.startIn(c.members[j.Seat()], min(times, len(c.parts)-1))
}

// JobRemoved implements sched.JobWatcher.
func (c *Classic) JobRemoved(j *job.Job) {
	// Its seat may belong to another job by the time of Restarts.
	c.again = slices.DeleteFunc(c.again, func(x *job.Job) bool { return x == j })
	c.Tags.JobRemoved(j)
}

// Explain implements sched.Explainer. It names the job's partition and when the job starts
// again.
func (c *Classic) Explain(j *job.Job, _ job.Kind, _ time.Duration) string {
	if len(c.parts) == 1 || j.Seat() >= len(c.members) || c.members[j.Seat()] == nil || c.members[j.Seat()].job != j {
		return ""
	}
	r := c.members[j.Seat()]
	limit, ok := c.Timer(r.part + 1)
	if !ok {
		return fmt.Sprintf("size partition %s, the job's, has no limit", c.parts[r.part].name)
	}
	return fmt.Sprintf("size partition %s, the job's: when its finished tasks have taken more than %v, now %v, it is killed and starts again in the next",
		c.parts[r.part].name, limit, r.spent.Round(time.Millisecond))
}
