package modfair

import (
	"cmp"

	"github.com/slotwise/slotwise/internal/job"
)

// member is a job with what it is sorted by. Lists are searched by these
// values, so they are changed only while the job is out of the lists.
type member struct {
	job      *job.Job
	home, at *pool
	priority job.Priority
	level    job.Level // of the last map launched, 0 before the first
	have     [job.Kinds]counts
}

// counts are those of a job and a kind that the pools have been told of.
type counts struct {
	pending, running int
	list             list
}

// list says in which list of its pool a job is.
type list uint8

const (
	noList    list = iota
	readyList      // it can launch a task
	busyList       // it cannot, but has running ones that could be copied
)

func countsOf(j *job.Job, k job.Kind) counts {
	c := counts{pending: j.Pending(k), running: j.Running(k)}
	switch {
	case j.Launchable(k):
		c.list = readyList
	case j.Active(k) > 0:
		c.list = busyList
	}
	return c
}

// compareJobs returns the order of jobs in users' pools.
func (o *Order) compareJobs() func(a, b *member, k job.Kind) int {
	if o.cfg.Sorted {
		return compareNeed
	}
	return compareFair
}

// compareNeed is Figure 8. Inside a pool the denominators of Eq. 1 and 2 are
// common, so the ratios are in the order of the counts.
func compareNeed(a, b *member, k job.Kind) int {
	x, y := &a.have[k], &b.have[k]
	switch {
	case a.priority != b.priority:
		return cmp.Compare(b.priority, a.priority)
	case x.pending != y.pending:
		return cmp.Compare(y.pending, x.pending)
	case x.running != y.running:
		return cmp.Compare(x.running, y.running)
	}
	return compareSubmitted(a, b, k)
}

// compareFair is Hadoop's fair order of jobs: running by weight, which doubles
// with each step of priority.
func compareFair(a, b *member, k job.Kind) int {
	x := a.have[k].running << (b.priority - job.VeryLow)
	y := b.have[k].running << (a.priority - job.VeryLow)
	if x != y {
		return cmp.Compare(x, y)
	}
	return compareSubmitted(a, b, k)
}

// compareSubmitted is the plain FIFO of the shared pool, without priority (A4).
func compareSubmitted(a, b *member, _ job.Kind) int {
	if x, y := a.job.Submitted(), b.job.Submitted(); x != y {
		return cmp.Compare(x, y)
	}
	return cmp.Compare(a.job.ID(), b.job.ID())
}

func (s *side) cut(m *member, k job.Kind, compare func(a, b *member, k job.Kind) int) {
	switch m.have[k].list {
	case readyList:
		s.ready = cut(s.ready, m, k, compare)
	case busyList:
		s.busy = cut(s.busy, m, k, compare)
	}
}

func (s *side) put(m *member, k job.Kind, compare func(a, b *member, k job.Kind) int) {
	switch m.have[k].list {
	case readyList:
		s.ready = put(s.ready, m, k, compare)
	case busyList:
		s.busy = put(s.busy, m, k, compare)
	}
}

// set replaces the counts of a job in its pool.
func (o *Order) set(m *member, k job.Kind, now counts) {
	s, was := &m.at.side[k], m.have[k]
	s.cut(m, k, m.at.compare)
	m.have[k] = now
	s.pending += now.pending - was.pending
	s.running += now.running - was.running
	o.pending[k] += now.pending - was.pending
	s.put(m, k, m.at.compare)
	o.settle(m.at, k)
}

// sync brings both kinds of a job up to date; syncKind one.
func (o *Order) sync(m *member) {
	for k := range job.Kind(job.Kinds) {
		o.syncKind(m, k)
	}
}

func (o *Order) syncKind(m *member, k job.Kind) {
	if now := countsOf(m.job, k); now != m.have[k] {
		o.set(m, k, now)
	}
}

// enter puts a job that is in no pool into one.
func (o *Order) enter(m *member, p *pool) {
	m.at = p
	p.size++
	o.sync(m)
}

// leave takes a job out of its pool.
func (o *Order) leave(m *member) {
	for k := range job.Kind(job.Kinds) {
		o.set(m, k, counts{})
	}
	m.at.size--
}

// move takes a job, running tasks and all, to another pool.
func (o *Order) move(m *member, to *pool) {
	if m.at != to {
		o.leave(m)
		o.enter(m, to)
	}
}

// prioritize gives a job another priority in this order.
func (o *Order) prioritize(m *member, p job.Priority) {
	if m.priority == p {
		return
	}
	for k := range m.at.side {
		m.at.side[k].cut(m, job.Kind(k), m.at.compare)
	}
	m.priority = p
	for k := range m.at.side {
		m.at.side[k].put(m, job.Kind(k), m.at.compare)
	}
}
