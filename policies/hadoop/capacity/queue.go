package capacity

import (
	"cmp"

	"github.com/slotwise/slotwise/policies/hadoop"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// slotSet is a set of slots in which limits are counted: the slots of one kind,
// with the number of the kind, or allSlots if slots have no kinds.
type slotSet uint8

const (
	allSlots slotSet = job.Kinds
	slotSets         = job.Kinds + 1
)

// queue is a queue with its jobs, its users and the slots they occupy.
// Invariants:
//
//	occupied[k] = Σ over users = running attempts of kind k
//	occupied[allSlots] = Σ over kinds
//	wanting[p] = number of users with a job that can launch something in p
type queue struct {
	conf     QueueConfig
	implied  bool // the default queue, if the configuration does not have it
	jobs     *sched.SortedJobs
	ready    [slotSets]*sched.SortedJobs // jobs that can launch something in the slot set
	busy     [slotSets]*sched.SortedJobs // those, and jobs with running tasks in it
	users    map[string]*user
	occupied [slotSets]int
	wanting  [slotSets]int
	// competing is wanting at the start of the round. Hadoop counts users once
	// per heartbeat, so a user who gets his last task in it still counts.
	competing [slotSets]int
	ratio     float64 // occupied/capacity, computed before queues are sorted
}

// user is a user with jobs in a queue.
type user struct {
	name     string
	jobs     int
	occupied [slotSets]int
	ready    [slotSets]int // number of jobs that can launch something
	noted    uint64        // the last walk that noted the user limit for one of the user's jobs
}

// seat is the order's record of a live job.
type seat struct {
	queue *queue
	user  *user
	ready [job.Kinds]bool // a task of the kind can be launched
	runs  [job.Kinds]int  // slots that its running tasks occupy
}

// readyFor reports whether the job is in the queue's list ready for a slot set.
func (s *seat) readyFor(p slotSet) bool {
	if p == allSlots {
		return s.ready[job.Map] || s.ready[job.Reduce]
	}
	return s.ready[p]
}

// busyFor reports whether the job is in the queue's list busy for a slot set.
func (s *seat) busyFor(p slotSet) bool {
	if p == allSlots {
		return s.busyFor(slotSet(job.Map)) || s.busyFor(slotSet(job.Reduce))
	}
	return s.ready[p] || s.runs[p] > 0
}

// newQueue returns a queue without jobs. With priorities the most urgent job comes first, otherwise
// the oldest.
func newQueue(conf QueueConfig) *queue {
	compare := byArrival
	if conf.Priorities {
		compare = hadoop.Urgency
	}
	q := &queue{conf: conf, jobs: sched.NewSortedJobs(compare), users: make(map[string]*user)}
	for p := range q.ready {
		q.ready[p], q.busy[p] = sched.NewSortedJobs(compare), sched.NewSortedJobs(compare)
	}
	return q
}

// byArrival is the order of jobs in a queue without priorities.
func byArrival(a, b *job.Job) int {
	return cmp.Or(cmp.Compare(a.Submitted(), b.Submitted()), cmp.Compare(a.ID(), b.ID()))
}

// join adds a job and returns its user.
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

// leave removes a job that is not ready and not busy. A user without jobs is
// removed as well.
func (q *queue) leave(j *job.Job, u *user) {
	q.jobs.Remove(j)
	if u.jobs--; u.jobs == 0 {
		delete(q.users, u.name)
	}
}

// set records whether a job can launch tasks of a kind, and the number of its
// running ones, and updates all lists and counts.
func (q *queue) set(j *job.Job, s *seat, k job.Kind, ready bool, runs int) {
	// The old state, because allSlots depends on both kinds: a job that loses its maps may still be ready
	// for reduces.
	before := *s
	s.ready[k], s.runs[k] = ready, runs
	// A task counts among the slots of its kind and among all slots, whichever the configuration shares.
	for _, p := range [...]slotSet{slotSet(k), allSlots} {
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

// enlist adds a job to a list or removes it.
func enlist(list *sched.SortedJobs, j *job.Job, in bool) {
	if in {
		list.Add(j)
	} else {
		list.Remove(j)
	}
}

// want updates the counts of users who want slots after one more, or one fewer,
// of a user's jobs can launch something.
func (q *queue) want(u *user, p slotSet, more bool) {
	if more {
		// Users and not jobs are counted: a user with many jobs does not shrink the others' part.
		if u.ready[p]++; u.ready[p] == 1 {
			q.wanting[p]++
		}
		return
	}
	if u.ready[p]--; u.ready[p] == 0 {
		q.wanting[p]--
	}
}

// capacity returns the number of slots that the queue is promised. The
// arithmetic is Hadoop's: single precision, rounded down.
func (q *queue) capacity(slots int) int {
	return int(q.conf.Capacity * float32(slots) / 100)
}

// maximum returns the number of slots that the queue may take, or -1 for all.
func (q *queue) maximum(slots int, tinyZero bool) int {
	if q.conf.MaxCapacity <= 0 {
		return -1
	}
	// Rounded down like the capacity, so a maximum that equals it is never below it.
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
func (q *queue) full(p slotSet, slots int, tinyZero bool) bool {
	most := q.maximum(slots, tinyZero)
	return most > 0 && q.occupied[p] >= most
}

// userLimit returns the number of slots that one user may occupy. With n users
// who want slots, and c the queue's capacity, or one slot more than the queue
// occupies if that exceeds its capacity:
//
//	min( max(⌈c/n⌉, ⌈c·MinUserLimit/100⌉), ⌊capacity·UserLimitFactor⌋ )
func (q *queue) userLimit(p slotSet, slots, users int, tinyZero bool) int {
	capacity := max(q.capacity(slots), 1)
	// Hadoop's user limit divides the capacity while the queue is below it, and not its present use, or the
	// first user of an idle queue would be limited to one slot at a time.
	current := capacity
	if q.occupied[p] >= capacity {
		// The queue borrows. Hadoop divides one slot more than it has among its users, so that some user
		// may take the next.
		current = q.occupied[p] + 1
	}
	fair := max(ceilDiv(current, max(users, 1)), ceilDiv(q.conf.MinUserLimit*current, 100))
	// In single precision, as in Hadoop: 0.7 of 90 slots are 63 there, and 62 in double precision.
	limit := min(fair, int(float32(capacity)*q.conf.UserLimitFactor))
	if limit == 0 && !tinyZero {
		return 1
	}
	return limit
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// byRatio orders queues by the fraction of their promise that they use.
func byRatio(a, b *queue) int { return cmp.Compare(a.ratio, b.ratio) }

// weigh computes the fraction of its promise that the queue uses. A queue that
// is promised nothing counts as using exactly its promise.
func (q *queue) weigh(p slotSet, slots int) {
	q.ratio = 1
	if c := q.capacity(slots); c > 0 {
		// Of a queue whose capacity rounds down to 0, any use would be infinitely far above it. As 1 it is
		// served after queues below their promise and before those above.
		q.ratio = float64(q.occupied[p]) / float64(c)
	}
}
