package modfair

import (
	"cmp"
	"slices"

	"github.com/slotwise/slotwise/sched/job"
	"github.com/slotwise/slotwise/sched/portable"
)

// sharedName is the name of the shared pool in explanations. A user's pool may
// have the same name, because no map uses sharedName as a key.
const sharedName = "shared"

// pool is a user's pool or the shared one.
type pool struct {
	name    string
	shared  bool
	limits  Limits
	auto    int // value of AutoMax at the last update, in maps
	homes   int // live jobs of the pool's user, wherever they are
	size    int // jobs in the pool now
	compare func(a, b *member, k job.Kind) int
	side    [job.Kinds]side
}

// side is the state of a pool for one kind of task.
type side struct {
	pending, running int
	quota            int // entitlement of the last update, in slots
	ready, busy      []*member
	key              poolKey
	inReady, inBusy  bool // whether it is in Order.ready and Order.busy, sorted by key
}

// poolKey is the sort key of pools (Figure 9). A float64 is exact enough for
// the ratio of two counts: below 2^26, equal fractions give equal values and
// different fractions different ones.
type poolKey struct {
	group int // 0 for pools below their minimum, 1 for the others
	ratio float64
	lot   uint64 // random, for ties
}

// least returns minAllocated for a kind. Reduces have none (reading 15 in
// README.md).
func (p *pool) least(k job.Kind) int {
	if k == job.Reduce {
		return 0
	}
	return p.limits.Min
}

// max returns maxAllocated for a kind. Reduces have none (reading 15 in
// README.md).
func (p *pool) max(k job.Kind) int {
	switch {
	case k == job.Reduce || p.limits.Max == 0:
		return noLimit
	case p.limits.Max == AutoMax:
		return p.auto
	}
	return p.limits.Max
}

// standing returns the pool's sort key by Figure 9, without the lot.
func (p *pool) standing(k job.Kind) poolKey {
	s := &p.side[k]
	effMin := min(p.least(k), s.pending) // reading 7 in README.md: computed each time
	// Figure 9 has load ≤ min where Hadoop has <: a pool that runs exactly its minimum is still served
	// first.
	if s.running <= effMin {
		return poolKey{group: 0, ratio: float64(s.running) / float64(max(effMin, 1))} // Eq. 5
	}
	return poolKey{group: 1, ratio: float64(s.running) / p.limits.Weight} // Eq. 6
}

// fairRank returns the pool's sort key in Hadoop's fair scheduler,
// without the lot.
func (p *pool) fairRank(k job.Kind) poolKey {
	s := &p.side[k]
	share := min(p.least(k), s.running+s.pending, p.max(k))
	if s.running < share {
		return poolKey{group: 0, ratio: float64(s.running) / float64(max(share, 1))}
	}
	return poolKey{group: 1, ratio: float64(s.running) / p.limits.Weight}
}

func comparePools(a, b *pool, k job.Kind) int {
	x, y := &a.side[k].key, &b.side[k].key
	return cmp.Or(cmp.Compare(x.group, y.group), cmp.Compare(x.ratio, y.ratio),
		cmp.Compare(x.lot, y.lot), cmp.Compare(a.name, b.name))
}

// reposition sorts a users' pool in again after its counts have changed.
func (o *Order) reposition(p *pool, k job.Kind) {
	// The shared pool is in no list: each visits it before all others.
	if p.shared {
		return
	}
	s := &p.side[k]
	key := p.standing(k)
	if !o.cfg.Sorted {
		key = p.fairRank(k)
	}
	// A pool that stays where it is keeps its lot. With a new lot at each count, equal pools would change
	// places at every heartbeat.
	changed := key.group != s.key.group || key.ratio != s.key.ratio
	ready, busy := len(s.ready) > 0, len(s.busy) > 0
	if !changed && ready == s.inReady && busy == s.inBusy {
		return
	}
	if s.inReady {
		o.ready[k] = removeSorted(o.ready[k], p, k, comparePools)
	}
	if s.inBusy {
		o.busy[k] = removeSorted(o.busy[k], p, k, comparePools)
	}
	// Only now, when the pool's position changes (reading 16 in README.md).
	key.lot = o.lot()
	s.key, s.inReady, s.inBusy = key, ready, busy
	if ready {
		o.ready[k] = insertSorted(o.ready[k], p, k, comparePools)
	}
	if busy {
		o.busy[k] = insertSorted(o.busy[k], p, k, comparePools)
	}
}

// lot draws the random part of a pool's key (reading 16 in README.md). Lots are drawn when a key
// changes and not when the order is read, so that queries change nothing.
func (o *Order) lot() uint64 {
	// Hadoop's order has no lots: its ties go by name.
	if o.cfg.TieByName || !o.cfg.Sorted {
		return 0
	}
	o.draws++
	// The constant is the text "modfair": parts that share a run's seed must not draw the same numbers.
	return portable.Mix(o.cfg.Seed ^ portable.Mix(0x6d6f6466616972^o.draws))
}

// removeSorted removes an element from a sorted list, and insertSorted adds
// one. The keys of an element may change only while it is in no list.
func removeSorted[T comparable](list []T, x T, k job.Kind, compare func(a, b T, k job.Kind) int) []T {
	at, ok := slices.BinarySearchFunc(list, x, func(a, b T) int { return compare(a, b, k) })
	if !ok {
		return list
	}
	return slices.Delete(list, at, at+1)
}

// insertSorted adds an element to a sorted list, if it is not there.
func insertSorted[T comparable](list []T, x T, k job.Kind, compare func(a, b T, k job.Kind) int) []T {
	at, ok := slices.BinarySearchFunc(list, x, func(a, b T) int { return compare(a, b, k) })
	if ok {
		return list
	}
	return slices.Insert(list, at, x)
}

// moveSorted moves the element at an index, whose keys have changed, to where it belongs. A job that
// launches a task moves past few of the thousands that a pool may have, and only these are moved.
func moveSorted[T any](list []T, at int, k job.Kind, compare func(a, b T, k job.Kind) int) {
	x, to := list[at], at
	switch {
	case at > 0 && compare(x, list[at-1], k) < 0:
		to, _ = slices.BinarySearchFunc(list[:at], x, func(a, b T) int { return compare(a, b, k) })
		copy(list[to+1:at+1], list[to:at])
	case at+1 < len(list) && compare(list[at+1], x, k) < 0:
		to, _ = slices.BinarySearchFunc(list[at+1:], x, func(a, b T) int { return compare(a, b, k) })
		to += at
		copy(list[at:to], list[at+1:to+1])
	}
	list[to] = x
}

// member is a live job with its sort keys. Lists are searched by these keys,
// which change only while the job is in no list.
type member struct {
	job      *job.Job
	home, at *pool // the user's pool; the pool it is in
	priority job.Priority
	level    job.Level // locality of the last map launched, 0 before the first
	have     [job.Kinds]counts
}

// counts are the tasks of a job and kind that its pool's counts include.
type counts struct {
	pending, running int
	list             list
}

// list names the list of its pool that a job is in.
type list uint8

const (
	noList    list = iota
	readyList      // can launch a task
	busyList       // cannot, but has running tasks that could be copied
)

// countsOf returns the present counts of a job, and the list of its pool that it belongs to.
func countsOf(j *job.Job, k job.Kind) counts {
	c := counts{pending: j.Wanted(k), running: j.Occupied(k)}
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

// compareNeed is Figure 8. Within a pool the denominators of Eq. 1 and 2 are
// the same, so comparing the ratios is comparing the counts.
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

// compareFair is the order of jobs in Hadoop's fair scheduler: running tasks by
// weight, which doubles with each step of priority.
func compareFair(a, b *member, k job.Kind) int {
	// running_a/2^p < running_b/2^q, multiplied out: integers have no rounding that could make the order
	// depend on which is first.
	x := a.have[k].running << (b.priority - job.VeryLow)
	y := b.have[k].running << (a.priority - job.VeryLow)
	if x != y {
		return cmp.Compare(x, y)
	}
	return compareSubmitted(a, b, k)
}

// compareSubmitted is the order of the shared pool: by submission, without
// priority (reading 4 in README.md).
func compareSubmitted(a, b *member, _ job.Kind) int {
	if x, y := a.job.Submitted(), b.job.Submitted(); x != y {
		return cmp.Compare(x, y)
	}
	return cmp.Compare(a.job.ID(), b.job.ID())
}

// removeSorted removes a job from the list that its counts name. Call it before the counts or the
// priority change.
func (s *side) removeSorted(m *member, k job.Kind, compare func(a, b *member, k job.Kind) int) {
	if list := s.list(m.have[k].list); list != nil {
		*list = removeSorted(*list, m, k, compare)
	}
}

// insertSorted adds a job to the list that its counts name. Call it after the change.
func (s *side) insertSorted(m *member, k job.Kind, compare func(a, b *member, k job.Kind) int) {
	if list := s.list(m.have[k].list); list != nil {
		*list = insertSorted(*list, m, k, compare)
	}
}

// set replaces the counts of a job and updates its pool.
func (o *Order) set(m *member, k job.Kind, now counts) {
	s, was := &m.at.side[k], m.have[k]
	// The lists are searched by comparison, so the job is found only while its old counts stand.
	if list := s.list(now.list); list != nil && now.list == was.list {
		at, _ := slices.BinarySearchFunc(*list, m, func(a, b *member) int { return m.at.compare(a, b, k) })
		m.have[k] = now
		moveSorted(*list, at, k, m.at.compare)
	} else {
		s.removeSorted(m, k, m.at.compare)
		m.have[k] = now
		s.insertSorted(m, k, m.at.compare)
	}
	s.pending += now.pending - was.pending
	s.running += now.running - was.running
	// Begin compares this sum with the tracker's to notice lost outputs, so every change of a job's count
	// goes through set.
	o.pending[k] += now.pending - was.pending
	// Last: the pool's key is computed from the counts above and from whether its lists are empty.
	o.reposition(m.at, k)
}

// list returns a list of the pool; nil for noList.
func (s *side) list(which list) *[]*member {
	switch which {
	case readyList:
		return &s.ready
	case busyList:
		return &s.busy
	}
	return nil
}

// sync updates the counts of a job for both kinds.
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

// join adds a job, which is in no pool, to a pool.
func (o *Order) join(m *member, p *pool) {
	m.at = p
	p.size++
	o.sync(m)
}

// leave removes a job from its pool.
func (o *Order) leave(m *member) {
	for k := range job.Kind(job.Kinds) {
		o.set(m, k, counts{})
	}
	m.at.size--
}

// move moves a job with its running tasks to another pool.
func (o *Order) move(m *member, to *pool) {
	if m.at != to {
		// leave takes the job's tasks out of the old pool's counts and join counts them in the new one;
		// they keep running.
		o.leave(m)
		o.join(m, to)
	}
}

// prioritize changes a job's priority in this order.
func (o *Order) prioritize(m *member, p job.Priority) {
	if m.priority == p {
		return
	}
	for k := range m.at.side {
		// Under the old priority: the search compares it.
		m.at.side[k].removeSorted(m, job.Kind(k), m.at.compare)
	}
	m.priority = p
	for k := range m.at.side {
		m.at.side[k].insertSorted(m, job.Kind(k), m.at.compare)
	}
}
