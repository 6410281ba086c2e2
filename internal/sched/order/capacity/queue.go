package capacity

import (
	"cmp"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/sched/order"
	"github.com/slotwise/slotwise/sched"
)

// pot is a set of slots that limits are counted in: those of a kind, or all
// where slots have no kind.
type pot uint8

const (
	allSlots pot = job.Kinds
	pots         = job.Kinds + 1
)

// queue is a queue with its jobs, its users and what they occupy. Every
// count is kept as it changes:
//
//	occupied[k] = Σ over users = running attempts of the kind
//	occupied[allSlots] = Σ over kinds
//	wanting[p] = users with a job that can launch something for p
type queue struct {
	conf     QueueConfig
	implied  bool // the default queue, which nobody declared
	jobs     *sched.SortedJobs
	ready    [pots]*sched.SortedJobs // the jobs that can launch something for the pot
	busy     [pots]*sched.SortedJobs // those, and the jobs that run something of it
	users    map[string]*user
	occupied [pots]int
	wanting  [pots]int
	// competing is wanting as it was when the round began: Hadoop counts users
	// once a heartbeat, so that one who gets his last task still counts in it.
	competing [pots]int
	ratio     float64 // occupied by capacity, while queues are sorted
}

// user is a user of a queue.
type user struct {
	name     string
	jobs     int
	occupied [pots]int
	ready    [pots]int // jobs that can launch something
	noted    uint64    // the walk in which a job of the user was told of the limit
}

// seat is what the order knows of a job, in a table by seat.
type seat struct {
	queue *queue
	user  *user
	ready [job.Kinds]bool
	runs  [job.Kinds]int
}

// readyFor and busyFor say in which lists of its queue the job is.
func (s *seat) readyFor(p pot) bool {
	if p == allSlots {
		return s.ready[job.Map] || s.ready[job.Reduce]
	}
	return s.ready[p]
}

func (s *seat) busyFor(p pot) bool {
	if p == allSlots {
		return s.busyFor(pot(job.Map)) || s.busyFor(pot(job.Reduce))
	}
	return s.ready[p] || s.runs[p] > 0
}

func newQueue(conf QueueConfig) *queue {
	compare := byArrival
	if conf.Priorities {
		compare = order.Urgency
	}
	q := &queue{conf: conf, jobs: sched.NewSortedJobs(compare), users: make(map[string]*user)}
	for p := range q.ready {
		q.ready[p], q.busy[p] = sched.NewSortedJobs(compare), sched.NewSortedJobs(compare)
	}
	return q
}

// byArrival is Hadoop's order of jobs in a queue without priorities.
func byArrival(a, b *job.Job) int {
	return cmp.Or(cmp.Compare(a.Submitted(), b.Submitted()), cmp.Compare(a.ID(), b.ID()))
}

// join enters a job and returns its user.
func (q *queue) join(j *job.Job) *user {
	u := q.users[j.User()]
	if u == nil {
		u = &user{name: j.User()}
		q.users[j.User()] = u
	}
	u.jobs++
	q.jobs.Add(j)
	return u
}

// leave takes a job out, which must not be ready, and its user with the last.
func (q *queue) leave(j *job.Job, u *user) {
	q.jobs.Remove(j)
	if u.jobs--; u.jobs == 0 {
		delete(q.users, u.name)
	}
}

// set notes whether a job can launch tasks of a kind and how many it runs, and
// brings lists and counts up to date.
func (q *queue) set(j *job.Job, s *seat, k job.Kind, ready bool, runs int) {
	before := *s
	s.ready[k], s.runs[k] = ready, runs
	for _, p := range [...]pot{pot(k), allSlots} {
		q.occupied[p] += runs - before.runs[k]
		s.user.occupied[p] += runs - before.runs[k]
		if is := s.readyFor(p); is != before.readyFor(p) {
			enlist(q.ready[p], j, is)
			q.want(s.user, p, is)
		}
		if is := s.busyFor(p); is != before.busyFor(p) {
			enlist(q.busy[p], j, is)
		}
	}
}

func enlist(list *sched.SortedJobs, j *job.Job, in bool) {
	if in {
		list.Add(j)
	} else {
		list.Remove(j)
	}
}

// want counts a job of a user that can launch something, or can no more.
func (q *queue) want(u *user, p pot, more bool) {
	if more {
		if u.ready[p]++; u.ready[p] == 1 {
			q.wanting[p]++
		}
		return
	}
	if u.ready[p]--; u.ready[p] == 0 {
		q.wanting[p]--
	}
}

// capacity is how many of the slots the queue is promised. The arithmetic is
// Hadoop's, in single precision and rounded down.
func (q *queue) capacity(slots int) int {
	return int(q.conf.Capacity * float32(slots) / 100)
}

// maximum is how many of the slots the queue may take, -1 for all.
func (q *queue) maximum(slots int, tinyZero bool) int {
	if q.conf.MaxCapacity <= 0 {
		return -1
	}
	most := int(q.conf.MaxCapacity * float32(slots) / 100)
	switch {
	case most > 0:
		return most
	case tinyZero:
		return -1
	}
	return 1
}

// full reports whether the queue is at its maximum.
func (q *queue) full(p pot, slots int, tinyZero bool) bool {
	most := q.maximum(slots, tinyZero)
	return most > 0 && q.occupied[p] >= most
}

// userLimit is how many slots a user may occupy. With c the queue's capacity,
// or one slot more than it occupies if that is above it, and n users who want
// slots:
//
//	min( max(⌈c/n⌉, ⌈c·MinUserLimit/100⌉), ⌊capacity·UserLimitFactor⌋ )
func (q *queue) userLimit(p pot, slots, users int, tinyZero bool) int {
	capacity := max(q.capacity(slots), 1)
	current := capacity
	if q.occupied[p] >= capacity {
		current = q.occupied[p] + 1
	}
	fair := max(ceilDiv(current, max(users, 1)), ceilDiv(q.conf.MinUserLimit*current, 100))
	limit := min(fair, int(float32(capacity)*q.conf.UserLimitFactor))
	if limit == 0 && !tinyZero {
		return 1
	}
	return limit
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// byRatio is the order of queues: the one that uses least of its promise first.
func byRatio(a, b *queue) int { return cmp.Compare(a.ratio, b.ratio) }

// weigh works out how much of its promise a queue uses. One that is promised
// nothing counts as using exactly that.
func (q *queue) weigh(p pot, slots int) {
	q.ratio = 1
	if c := q.capacity(slots); c > 0 {
		q.ratio = float64(q.occupied[p]) / float64(c)
	}
}
