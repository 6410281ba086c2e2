package protocol

import (
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// The methods of this file serve the web console. Each visits at most every job, the
// running attempts, or a bounded number of tasks, so a page view never holds the loop
// for long.

// ListQuery selects jobs and chains. Zero fields select all.
type ListQuery struct {
	Text              string // part of the id or the name, in any case
	User, Pool, State string // State is a word of StateWord
	Ended             bool   // include ended jobs, after the others, and list the newest job of either first
	Offset, Limit     int    // the page; Limit must be positive
}

// matches reports whether a job or chain belongs to the list.
func (q *ListQuery) matches(id, name, user, pool string, state slotwisev1.JobState) bool {
	return (q.User == "" || q.User == user) && (q.Pool == "" || q.Pool == pool) &&
		(q.State == "" || q.State == StateWord(state)) &&
		(q.Text == "" || strings.Contains(strings.ToLower(id), q.Text) || strings.Contains(strings.ToLower(name), q.Text))
}

// List returns a page of the jobs and chains in memory, and how many the query selects.
// Only jobs of the page cost a status and a wait reason.
func (c *Core) List(q ListQuery) (page []*slotwisev1.JobStatus, total int) {
	q.Text = strings.ToLower(q.Text)
	// Functions and not statuses: a list of ten thousand jobs shows fifty.
	var describe, ended []func() *slotwisev1.JobStatus
	// Sorted, because pages must not overlap or skip jobs, and a walk over a map has no order.
	for _, id := range slices.Sorted(maps.Keys(c.jobs)) {
		j := c.jobs[id]
		if j.final != nil && !q.Ended {
			continue
		}
		// The pool of a job may have been changed or chosen since its submission, so the tracker's
		// or the last status decides, not the spec.
		pool, state := j.spec.Pool, slotwisev1.JobState_JOB_STATE_COMMITTING
		switch {
		case j.final != nil:
			pool, state = j.final.Pool, j.final.State
		case j.core != nil:
			pool, state = j.core.Pool(), j.state()
		}
		if q.matches(id.String(), j.spec.Name, j.spec.User, pool, state) {
			// A status costs a walk through the policy's order, so it is made only for the page.
			part := &describe
			if j.final != nil {
				part = &ended
			}
			*part = append(*part, func() *slotwisev1.JobStatus { return c.statusNow(j) })
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.chains.byID)) {
		ch := c.chains.byID[id]
		if ch.final != nil && !q.Ended {
			continue
		}
		s := ch.job()
		if state := chainState(ch); q.matches(id.String(), s.Name, s.User, s.Pool, state) {
			part := &describe
			if ch.final != nil {
				part = &ended
			}
			*part = append(*part, func() *slotwisev1.JobStatus { return c.chainStatus(ch) })
		}
	}
	// Live jobs first, because users act on them; in either part the newest job first.
	if q.Ended {
		slices.Reverse(describe)
		slices.Reverse(ended)
		describe = append(describe, ended...)
	}
	total = len(describe)
	// The offset comes from the address of a page and may be any number.
	from := min(max(0, q.Offset), total)
	for _, d := range describe[from:min(from+q.Limit, total)] {
		page = append(page, d())
	}
	return page, total
}

// Share counts the running attempts and the waiting tasks of a pool or of a user.
type Share struct {
	Running [job.Kinds]int
	Waiting int // tasks of both kinds
}

// Use counts slots, running attempts and jobs for the overview of the console.
type Use struct {
	Slots                        [job.Kinds]int // of nodes that take work, and the occupied ones of others
	Pools, Users                 map[string]Share
	Waiting, Started, Committing int // jobs by state
	Alive, Nodes                 int
	Revision                     int64 // differs after every change of a job that watchers see
}

// Use returns the current use of the cluster. It visits every live job.
func (c *Core) Use() Use {
	nodes := c.tracker.Nodes()
	u := Use{Pools: map[string]Share{}, Users: map[string]Share{}, Alive: nodes.Alive(), Nodes: len(c.list)}
	for k := range job.Kind(job.Kinds) {
		u.Slots[k] = nodes.Slots(k)
	}
	// A node that drains still runs attempts. Without their slots more would be in use than there are.
	for _, n := range nodes.All() {
		for k := range job.Kind(job.Kinds) {
			if n.Alive() && n.Closed() {
				u.Slots[k] += n.Used(k)
			}
		}
	}
	// Joins and losses of nodes and ends of jobs change the picture without a revision of any
	// job that is still listed, so their counts are part of the revision. It is a hash and no sum, in which a
	// node that is lost and a job that changes would cancel each other.
	u.Revision = mix(mix(mix(0, int64(u.Alive)), int64(u.Nodes)), int64(len(c.live)))
	for _, j := range c.live {
		u.Revision = mix(u.Revision, j.revision)
		// For users such a job has ended.
		if j.unsaved {
			continue
		}
		switch j.state() {
		case slotwisev1.JobState_JOB_STATE_WAITING:
			u.Waiting++
		case slotwisev1.JobState_JOB_STATE_RUNNING:
			u.Started++
		default:
			u.Committing++
		}
		if j.core == nil {
			continue
		}
		pool, user := u.Pools[j.core.Pool()], u.Users[j.core.User()]
		for k := range job.Kind(job.Kinds) {
			waiting := j.core.Pending(k) + j.core.Delayed(k)
			pool.Running[k], user.Running[k] = pool.Running[k]+j.core.Running(k), user.Running[k]+j.core.Running(k)
			pool.Waiting, user.Waiting = pool.Waiting+waiting, user.Waiting+waiting
		}
		u.Pools[j.core.Pool()], u.Users[j.core.User()] = pool, user
	}
	return u
}

// mix adds a number to a hash of 53 bits, which a script of the console's pages can hold exactly.
func mix(hash, n int64) int64 {
	x := uint64(hash^n) * 0x9e3779b97f4a7c15
	return int64((x ^ x>>32) & (1<<53 - 1))
}

// Execution is an attempt of a task, as lists and charts need it.
type Execution struct {
	ID          job.AttemptID
	Node        string
	State       job.AttemptState
	Level       job.Level
	Speculative bool
	Progress    float64
	StartedMs   int64 // since the Unix epoch
	EndedMs     int64 // 0 while the attempt runs
	OutputBytes int64
	Error       string
}

// Executions appends to out the attempts of a job's tasks with positions from from to
// from+tasks-1; maps precede reduces. next is the position after them, 0 at the end.
func (c *Core) Executions(id job.ID, from, tasks int, out []Execution) (list []Execution, next int, err error) {
	j := c.jobs[id]
	if j == nil {
		return out, 0, noJob(id)
	}
	t := j.core
	if t == nil {
		return out, 0, nil
	}
	out, next = c.describer().Executions(t, from, tasks, out)
	return out, next, nil
}

// RunningOn returns the attempts that run on a node. It visits all running attempts.
func (c *Core) RunningOn(node string) (out []Execution) {
	d := c.describer()
	for _, j := range c.live {
		if j.core == nil {
			continue
		}
		for k := range job.Kind(job.Kinds) {
			for a := j.core.Oldest(k); a != nil; a = a.Next() {
				if c.nodeOf(a) == node {
					out = append(out, d.Execution(a))
				}
			}
		}
	}
	return out
}

// Settings returns the description with which a job or a chain was submitted, without the
// splits, whose number is in Synthetic. It returns nil if the core does not know the job.
func (c *Core) Settings(name string) *slotwisev1.JobSpec {
	var spec *slotwisev1.JobSpec
	if id, err := ParseChain(name); err == nil {
		if ch := c.chains.byID[id]; ch != nil {
			spec = ch.job()
		}
	} else if id, err := job.ParseID(name); err == nil && c.jobs[id] != nil {
		spec = c.jobs[id].spec
	}
	if spec == nil {
		return nil
	}
	// A job has either splits or synthetic maps, so the larger number counts its maps.
	maps := max(int32(len(spec.Splits)), spec.Synthetic)
	out := withoutSplits(spec)
	out.Synthetic = maps
	return out
}

// withoutSplits returns a specification without its splits, which may be many. It shares all else, of which nothing
// is changed in place.
func withoutSplits(spec *slotwisev1.JobSpec) *slotwisev1.JobSpec {
	// A clone would copy the splits before it could drop them.
	out := &slotwisev1.JobSpec{}
	spec.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.Name() != "splits" {
			out.ProtoReflect().Set(f, v)
		}
		return true
	})
	return out
}
