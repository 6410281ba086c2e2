package tags

import (
	"cmp"
	"fmt"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// Tags is the order of both policies, which differ in their rule alone. Within a
// partition jobs are served by priority, then in the order in which they came to
// it, each getting all that it can use; so with one partition it decides as FIFO
// does.
type Tags struct {
	cfg   Config
	parts []partition
	rule  rule
	view  *sched.View
	rows  []*row // by seat; nil for jobs not in it
	// entries numbers the arrivals at partitions, and lastSeq is the number of
	// the latest launch.
	entries, lastSeq int64
	// ended says that a task has completed since the last decision.
	ended bool
	moves []*row // scratch of decide
}

var (
	_ sched.Order         = (*Tags)(nil)
	_ sched.Starter       = (*Tags)(nil)
	_ sched.JobWatcher    = (*Tags)(nil)
	_ sched.ChangeWatcher = (*Tags)(nil)
	_ sched.TaskWatcher   = (*Tags)(nil)
	_ sched.NodeWatcher   = (*Tags)(nil)
	_ sched.Holder        = (*Tags)(nil)
	_ sched.Explainer     = (*Tags)(nil)
)

// partition is a number of slots of each kind and the jobs that share them.
type partition struct {
	name  string
	all   *sched.SortedJobs
	ready [job.Kinds]*sched.SortedJobs // those that can launch a task of the kind
	limit [job.Kinds]int
	used  [job.Kinds]int // attempts of a kind that were started in this partition, on whatever slot
}

func (p *partition) full(slot job.Kind) bool { return p.used[slot] >= p.limit[slot] }

// row is what is known of a live job.
type row struct {
	job   *job.Job
	part  int   // k-1 for P_k
	entry int64 // its place among the arrivals at the partition
	// spent is the partial size s_{j,k}: the time of the tasks that were started
	// in the partition and have succeeded.
	spent time.Duration
	// since holds for P_2 … the number of the first launch that counts to it.
	since []int64
	mark  bool // for the rule
}

// rule decides when jobs move on. It is told of every change of partial sizes.
type rule interface {
	// enter is told of a job that has come to its partition.
	enter(r *row)
	// grow is told that the partial size has become what it is now.
	grow(r *row, before time.Duration)
	// leave is told of a job that leaves its partition; size says whether its
	// partial size tells something, which that of a job that failed does not.
	leave(r *row, size bool)
	// moved is told that a job has another place in its queue.
	moved(j *job.Job)
	// due appends the jobs to move on now, first partition first, and in order
	// of their queues.
	due(t *Tags, list []*row) []*row
	// timer returns the timer of the partition, and false if it is infinite.
	timer(part int) (time.Duration, bool)
}

// NewStatic returns STATICTAGS, or what is wrong with its configuration.
func NewStatic(c StaticConfig) (*Tags, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	return newTags(c.Config, &static{timers: c.Timers}), nil
}

func newTags(c Config, r rule) *Tags {
	t := &Tags{cfg: c, rule: r, parts: make([]partition, len(c.Capacities[job.Map]))}
	for i := range t.parts {
		p := &t.parts[i]
		p.name = fmt.Sprintf("%d of %d", i+1, len(t.parts))
		p.all = sched.NewSortedJobs(t.compare)
		for k := range p.ready {
			p.ready[k] = sched.NewSortedJobs(t.compare)
		}
	}
	return t
}

// compare is the order within a partition. Arrivals are numbered, so there are
// no ties.
func (t *Tags) compare(a, b *job.Job) int {
	return cmp.Or(
		cmp.Compare(b.Priority(), a.Priority()),
		cmp.Compare(t.rows[a.Seat()].entry, t.rows[b.Seat()].entry),
	)
}

// Begin decides at the start of a round who moves on, if a task has completed
// since the last one. So all that a heartbeat reports is one batch.
func (t *Tags) Begin(*sched.Round) {
	if t.ended {
		t.ended = false
		t.decide()
	}
}

// decide moves the jobs that are due to the next partition, one step each.
func (t *Tags) decide() {
	t.moves = t.rule.due(t, t.moves[:0])
	for _, r := range t.moves {
		t.take(r)
		t.rule.leave(r, true)
		r.part++
		r.spent = 0
		r.since = append(r.since, t.lastSeq+1)
		t.put(r)
		t.rule.enter(r)
	}
}

// Partition returns the number of the partition that a live job is in, from 1.
func (t *Tags) Partition(j *job.Job) int { return t.rows[j.Seat()].part + 1 }

// PartialSize returns the time that the tasks took which the live job has
// completed in its partition.
func (t *Tags) PartialSize(j *job.Job) time.Duration { return t.rows[j.Seat()].spent }

// Timer returns the timer of a partition, by its number from 1, as it was at the
// last decision; false if it is infinite.
func (t *Tags) Timer(number int) (time.Duration, bool) { return t.rule.timer(number - 1) }

// Slots returns how many slots of a kind are in use by a partition, by its number
// from 1, and how many it has.
func (t *Tags) Slots(number int, k job.Kind) (used, limit int) {
	p := &t.parts[number-1]
	return p.used[k], p.limit[k]
}
