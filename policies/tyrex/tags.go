package tyrex

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Tags is the order of both policies, which differ only in their rule. Within a
// partition jobs are served by priority, then in the order in which they
// entered it, each with as many slots as it can use. With one partition the
// order is therefore FIFO.
type Tags struct {
	cfg     Config
	parts   []partition
	rule    rule
	view    *sched.View
	members []*member // by job seat; nil for other jobs
	// entries counts entries into partitions. lastSeq is the sequence number of
	// the latest launch.
	entries, lastSeq int64
	// ended says that a task has succeeded since the last check of the rule.
	ended  bool
	moving []*member // scratch space of moveJobs
}

var (
	_ sched.Order          = (*Tags)(nil)
	_ sched.Starter        = (*Tags)(nil)
	_ sched.JobWatcher     = (*Tags)(nil)
	_ sched.ChangeWatcher  = (*Tags)(nil)
	_ sched.TaskWatcher    = (*Tags)(nil)
	_ sched.NodeWatcher    = (*Tags)(nil)
	_ sched.LimitExplainer = (*Tags)(nil)
	_ sched.Explainer      = (*Tags)(nil)
)

// partition is a size partition: a number of slots of each kind, and the jobs
// that share them.
type partition struct {
	name  string
	alone bool // there is no other partition
	all   *sched.SortedJobs
	ready [job.Kinds]*sched.SortedJobs // the jobs that can launch a task of the kind
	limit [job.Kinds]int
	used  [job.Kinds]int // running attempts of a kind on open nodes that started in this partition, in whichever kind of slot
}

// full reports whether the partition uses all its slots of a kind. A partition
// that has the cluster to itself is never full: only nodes bound its tasks. Its
// limit would be too low while tasks still run on nodes that are being drained,
// whose slots do not count.
func (p *partition) full(slot job.Kind) bool { return !p.alone && p.used[slot] >= p.limit[slot] }

// member is the order's record of a live job.
type member struct {
	job   *job.Job
	part  int   // k-1 for P_k
	entry int64 // number of its entry into the partition
	// spent is the partial size s_{j,k}: the total time of the tasks that
	// started in the partition and have succeeded.
	spent time.Duration
	// since holds, for P_2 and each later partition of the job, the sequence
	// number of the first launch that counts there.
	since  []int64
	listed bool // for the rule's use
}

// rule decides when jobs move to the next partition. Tags reports every change
// of a partial size to it.
type rule interface {
	// enter records a job that has entered its partition.
	enter(r *member)
	// grow records that the partial size has grown from before.
	grow(r *member, before time.Duration)
	// leave records that a job leaves its partition. sizeIsFinal is false for
	// failed jobs, whose partial size says nothing about how much work they
	// had.
	leave(r *member, sizeIsFinal bool)
	// repositioned records that a job's position in its partition has changed.
	repositioned(j *job.Job)
	// due appends the jobs that move now: by partition, then by position.
	due(t *Tags, list []*member) []*member
	// timer returns the timer of a partition. It returns false if the timer is
	// infinite.
	timer(part int) (time.Duration, bool)
}

// NewStatic returns STATICTAGS, or an error that describes the mistake in the
// configuration.
func NewStatic(c StaticConfig) (*Tags, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	return newTags(c.Config, &static{timers: c.Timers}), nil
}

// newTags returns an order without jobs. c must be valid.
func newTags(c Config, r rule) *Tags {
	t := &Tags{cfg: c, rule: r, parts: make([]partition, len(c.Capacities[job.Map]))}
	for i := range t.parts {
		p := &t.parts[i]
		p.name = fmt.Sprintf("%d of %d", i+1, len(t.parts))
		p.alone = len(t.parts) == 1
		p.all = sched.NewSortedJobs(t.compare)
		for k := range p.ready {
			p.ready[k] = sched.NewSortedJobs(t.compare)
		}
	}
	return t
}

// compare is the order within a partition. Entry numbers are unique, so there
// are no ties.
func (t *Tags) compare(a, b *job.Job) int {
	return cmp.Or(
		cmp.Compare(b.Priority(), a.Priority()),
		cmp.Compare(t.members[a.Seat()].entry, t.members[b.Seat()].entry),
	)
}

// Begin moves jobs at the start of a round, if a task has succeeded since the
// last one. All reports of a heartbeat thus count as one batch.
func (t *Tags) Begin(*sched.Round) {
	if t.ended {
		t.ended = false
		t.moveJobs()
	}
}

// Quiet implements sched.Quiet: Begin has no job to move.
func (t *Tags) Quiet() bool { return !t.ended }

// Holds implements sched.Holder: no partition with a task to launch may use a slot.
func (t *Tags) Holds(k job.Kind) bool {
	for i := range t.parts {
		if len(t.parts[i].ready[k].Jobs()) > 0 && t.mayUse(i, k) {
			return false
		}
	}
	return true
}

// HoldsJob implements sched.Holder.
func (t *Tags) HoldsJob(j *job.Job, k job.Kind) bool { return !t.mayUse(t.members[j.Seat()].part, k) }

// mayUse reports whether a partition may use an idle slot of a kind, its own or another's.
func (t *Tags) mayUse(part int, slot job.Kind) bool {
	return !t.parts[part].full(slot) || t.borrows(part, slot)
}

// moveJobs moves the jobs that are due to the next partition, by one step each.
func (t *Tags) moveJobs() {
	t.moving = t.rule.due(t, t.moving[:0])
	for _, r := range t.moving {
		// Before part and entry change: the lists find a job by the key with which it was added.
		t.dequeue(r)
		t.rule.leave(r, true)
		r.part++
		r.spent = 0
		// Attempts that run already keep their partition's slots until they end (reading 11 in
		// README.md).
		r.since = append(r.since, t.lastSeq+1)
		// Before the rule's enter, which inserts the job into lists sorted by the new entry number.
		t.enqueue(r)
		t.rule.enter(r)
	}
}

// Partition returns the number of the partition that a live job is in, counted
// from 1.
func (t *Tags) Partition(j *job.Job) int { return t.members[j.Seat()].part + 1 }

// PartialSize returns the total time of the tasks that the live job has
// completed in its partition.
func (t *Tags) PartialSize(j *job.Job) time.Duration { return t.members[j.Seat()].spent }

// Timer returns the timer of a partition, counted from 1, as of the last
// decision. It returns false if the timer is infinite.
func (t *Tags) Timer(number int) (time.Duration, bool) { return t.rule.timer(number - 1) }

// Slots returns how many slots of a kind a partition, counted from 1, uses and
// may use.
func (t *Tags) Slots(number int, k job.Kind) (used, limit int) {
	p := &t.parts[number-1]
	return p.used[k], p.limit[k]
}

// Each implements sched.Order. It visits partitions from first to last, so that
// short jobs go first; that takes no slots from the other partitions.
// Partitions whose slots are all in use are left out. With lending they follow
// after the partitions that are entitled to the slot.
func (t *Tags) Each(r *sched.Round, o sched.Offer, visit func(sched.Candidate) bool) {
	if t.visitPartitions(r, o, false, visit) && t.cfg.Lend != LendNone {
		t.visitPartitions(r, o, true, visit)
	}
}

// visitPartitions visits the jobs of all full partitions, or of all others. It
// returns false when the offer is filled.
func (t *Tags) visitPartitions(r *sched.Round, o sched.Offer, full bool, visit func(sched.Candidate) bool) bool {
	return t.visitKind(r, o, o.Kind, full, visit) && (!o.Either || t.visitKind(r, o, o.Kind.Other(), full, visit))
}

// visitKind is visitPartitions for one kind of task.
func (t *Tags) visitKind(r *sched.Round, o sched.Offer, k job.Kind, full bool, visit func(sched.Candidate) bool) bool {
	slot := slotOf(r, o, k)
	for i := range t.parts {
		if t.parts[i].full(slot) == full && (!full || t.borrows(i, slot)) && !t.serve(r, o, i, k, visit) {
			return false
		}
	}
	return true
}

// borrows reports whether a full partition may take an idle slot of another:
// with LendAll any slot, with LendEarlier one that no earlier partition is
// entitled to.
func (t *Tags) borrows(part int, slot job.Kind) bool {
	if t.cfg.Lend != LendEarlier {
		return t.cfg.Lend == LendAll
	}
	idle := 0
	for i := range t.parts {
		left := t.parts[i].limit[slot] - t.parts[i].used[slot]
		// Idle slots of earlier partitions stay for short jobs (reading 9 in README.md). What an
		// earlier one has borrowed counts against the others' idle slots.
		if i >= part || left < 0 {
			// The sum may exceed the free slots, because tasks on closed nodes are in no count. Offers
			// exist for free slots only, so it lends none too many.
			idle += left
		}
	}
	return idle > 0
}

// slotOf returns the kind of slot that a task would take under an offer.
func slotOf(r *sched.Round, o sched.Offer, k job.Kind) job.Kind {
	switch {
	case !o.Either:
		return o.Slot
	case r.Free(k) > 0:
		return k
	}
	return k.Other()
}

// serve visits the jobs of one partition. The label of their attempts is the
// number of the partition.
func (t *Tags) serve(r *sched.Round, o sched.Offer, part int, k job.Kind, visit func(sched.Candidate) bool) bool {
	// The list of ready jobs spares a walk over jobs whose tasks all run. HeadOnly asks for the first job
	// even if it has nothing to launch, and copies are of running tasks.
	q := t.parts[part].ready[k]
	if o.HeadOnly || !o.NoCopies && r.CopiesOf(k) {
		q = t.parts[part].all
	}
	for _, j := range q.Jobs() {
		switch {
		case o.Pool != "" && o.Pool != j.Pool() || o.HeadOnly && j.Total(k) == 0:
			continue
		// The gate may have closed again after a map's output was lost. The job is passed over, and
		// a HeadOnly offer still ends with it.
		case j.Launchable(k) && !t.open(j, k):
		case !visit(sched.Candidate{Job: j, Kind: k, Label: int32(part + 1)}):
			return false
		}
		if o.HeadOnly {
			break
		}
	}
	return true
}

// open reports whether the reduce gate permits tasks of the kind to start.
func (t *Tags) open(j *job.Job, k job.Kind) bool {
	return k == job.Map || j.Done(job.Map) >= t.gate(j)
}

// gate returns how many maps must be done before the job's reduces may start.
func (t *Tags) gate(j *job.Job) int {
	// The 1e-9 keeps 0.55 of 100 maps at 55; binary fractions give a little more.
	n := float64(t.cfg.ReduceGate*float64(j.Total(job.Map))) - 1e-9
	// Reading 13 in README.md. Rounded up: no reduce starts before the share is reached.
	return int(math.Ceil(n))
}

// Start implements sched.Starter.
func (t *Tags) Start(v *sched.View, _ time.Duration) { t.view = v }

// NodeJoined implements sched.NodeWatcher.
func (t *Tags) NodeJoined(*cluster.Node) { t.resize() }

// NodeLost implements sched.NodeWatcher.
func (t *Tags) NodeLost(*cluster.Node) { t.resize() }

// CapacityChanged implements sched.CapacityWatcher.
func (t *Tags) CapacityChanged() { t.resize() }

// resize computes the limits and counts the used slots again, after nodes have come, left,
// closed or opened. A partition that uses more than its new limit gets no slots until tasks
// end; none is killed.
func (t *Tags) resize() {
	for i := range t.parts {
		t.parts[i].used = [job.Kinds]int{}
	}
	// Counted afresh and not adjusted: attempts on a node count only while it is open, and nothing says
	// here which nodes have changed. It costs the running attempts, when nodes change.
	for _, j := range t.view.Jobs().Live() {
		if j.Seat() < len(t.members) && t.members[j.Seat()] != nil && t.members[j.Seat()].job == j {
			t.countRunning(t.members[j.Seat()])
		}
	}
	for k, shares := range t.cfg.Capacities {
		for i, limit := range Limits(t.view.Nodes().Slots(job.Kind(k)), shares) {
			t.parts[i].limit[k] = limit
		}
	}
}

// countRunning adds a job's running attempts to the used slots.
func (t *Tags) countRunning(r *member) {
	for k := range job.Kind(job.Kinds) {
		for a := r.job.Oldest(k); a != nil; a = a.Next() {
			t.use(r, a, 1)
		}
	}
}

// use adds an attempt to the used slots of its partition, or removes it. The slots of nodes
// that are closed or away are in no limit. So the attempts there do not count, or they
// would keep a partition out of slots that are free.
func (t *Tags) use(r *member, a *job.Attempt, by int) {
	if n := t.view.Nodes().Node(a.Node()); n.Alive() && !n.Closed() {
		t.parts[r.partOf(a.Seq())].used[a.Kind()] += by * a.Width()
	}
}

// JobAdded implements sched.JobWatcher. A job that has already run under
// another policy enters the first partition with all its completed tasks.
func (t *Tags) JobAdded(j *job.Job) {
	for j.Seat() >= len(t.members) {
		t.members = append(t.members, nil)
	}
	r := &member{job: j, spent: consumed(j)}
	t.members[j.Seat()] = r
	for k := range job.Kind(job.Kinds) {
		// What runs already belongs to the first partition: partOf compares with the greatest
		// number seen when the job moves.
		// The newest of each kind is enough: sequence numbers rise in the order of launches.
		if a := j.Newest(k); a != nil {
			t.lastSeq = max(t.lastSeq, a.Seq())
		}
	}
	t.countRunning(r)
	t.enqueue(r)
	t.rule.enter(r)
	// Reading 16 in README.md: after a change of policy the next round may already move it.
	t.ended = t.ended || r.spent > 0
}

// consumed returns the total time of the job's tasks that have succeeded.
func consumed(j *job.Job) (sum time.Duration) {
	for k := range job.Kind(job.Kinds) {
		if j.Done(k) == 0 {
			continue
		}
		for i := range j.Total(k) {
			if a := j.Task(k, int32(i)).Success(); a != nil {
				sum += a.Ended() - a.Started()
			}
		}
	}
	return sum
}

// JobRemoved implements sched.JobWatcher. The partial size of a failed or
// killed job does not enter the samples of sizes.
func (t *Tags) JobRemoved(j *job.Job) {
	r := t.members[j.Seat()]
	t.dequeue(r)
	// After dequeue and before the seat is cleared: leave reads the member's size and partition.
	t.rule.leave(r, j.Outcome() == job.Succeeded)
	t.members[j.Seat()] = nil
}

// JobChanged implements sched.ChangeWatcher.
func (t *Tags) JobChanged(j *job.Job, c sched.Change) {
	if c != sched.PriorityChanged {
		t.demand(j)
		return
	}
	p := &t.parts[t.members[j.Seat()].part]
	p.all.Reposition(j)
	// Before the rule: each list compares by priority, and one that was not repositioned could lose the job
	// in its next search.
	for k := range p.ready {
		p.ready[k].Reposition(j)
	}
	t.rule.repositioned(j)
}

// TaskStarted implements sched.TaskWatcher. The attempt belongs to the job's
// present partition until it ends.
func (t *Tags) TaskStarted(a *job.Attempt, _ time.Duration) {
	t.lastSeq = a.Seq()
	t.use(t.members[a.Job().Seat()], a, 1)
}

// TaskEnded implements sched.TaskWatcher. Only a successful attempt adds to the
// partial size, and only if it started in the job's present partition: tasks
// that a job still completes in an earlier one do not count against it.
func (t *Tags) TaskEnded(a *job.Attempt, _ time.Duration) {
	r := t.members[a.Job().Seat()]
	// By the launch, not by the present partition: the attempt gives back the slot where it was counted.
	part := r.partOf(a.Seq())
	// A failed or killed attempt frees its slots too.
	t.use(r, a, -1)
	if a.State() != job.AttemptSucceeded {
		return
	}
	t.ended = true
	// Reading 11 in README.md.
	if part == r.part {
		before := r.spent
		r.spent += a.Ended() - a.Started()
		t.rule.grow(r, before)
	}
	// The job's reduces may be launched from now on.
	if a.Kind() == job.Map {
		t.demand(a.Job())
	}
}

// partOf returns the partition in which the launch with the given sequence
// number took place.
func (r *member) partOf(seq int64) int {
	part := r.part
	for part > 0 && seq < r.since[part-1] {
		part--
	}
	return part
}

// enqueue adds a job to the end of its partition.
func (t *Tags) enqueue(r *member) {
	t.entries++
	r.entry = t.entries
	t.parts[r.part].all.Add(r.job)
	t.demand(r.job)
}

// dequeue removes a job from its partition.
func (t *Tags) dequeue(r *member) {
	p := &t.parts[r.part]
	p.all.Remove(r.job)
	for k := range p.ready {
		p.ready[k].Remove(r.job)
	}
}

// demand adds or removes the job in the lists of jobs that can launch
// something. It does not notice that the reduce gate closes again, because a
// map's output was lost; serve checks the gate again.
func (t *Tags) demand(j *job.Job) {
	p := &t.parts[t.members[j.Seat()].part]
	for k := range job.Kind(job.Kinds) {
		if j.Launchable(k) && t.open(j, k) {
			p.ready[k].Add(j)
		} else {
			p.ready[k].Remove(j)
		}
	}
}

// LimitReached implements sched.LimitExplainer: all slots of the job's partition are in use, or
// its reduces wait for more maps than the job itself requires.
func (t *Tags) LimitReached(j *job.Job, k job.Kind) sched.Reason {
	if !t.open(j, k) {
		return sched.Reason{Code: sched.SlowStart, Have: j.Done(job.Map), Need: t.gate(j)}
	}
	// With lending the first partition may use every idle slot. If there is none,
	// the cluster is full, which is not the partition's doing.
	part := t.members[j.Seat()].part
	if t.parts[part].full(k) && !t.borrows(part, k) && (part > 0 || t.cfg.Lend == LendNone) {
		p := &t.parts[part]
		return sched.Reason{Code: sched.PartitionFull, Pool: p.name, Have: p.used[k], Need: p.limit[k]}
	}
	return sched.Reason{}
}

// Explain implements sched.Explainer: it names the job's partition and the
// condition for moving on.
func (t *Tags) Explain(j *job.Job, k job.Kind, _ time.Duration) string {
	if len(t.parts) == 1 || j.Seat() >= len(t.members) || t.members[j.Seat()] == nil || t.members[j.Seat()].job != j {
		return ""
	}
	r := t.members[j.Seat()]
	text, spent := "size partition "+t.parts[r.part].name, r.spent.Round(time.Millisecond)
	switch limit, ok := t.rule.timer(r.part); {
	case r.part == len(t.parts)-1:
		text += ", the job's, is for all jobs that need more time than the others allow"
	case ok:
		text += fmt.Sprintf(" is for jobs whose finished tasks have taken at most %v in all; those of this job have taken %v",
			limit.Round(time.Millisecond), spent)
	default:
		text += fmt.Sprintf(" keeps jobs of all sizes for now, because their sizes are similar; the finished tasks of this "+
			"job have taken %v", spent)
	}
	if t.view.Nodes().Slots(k) < len(t.parts) {
		text += fmt.Sprintf("; the cluster has too few %s slots to split, so all size partitions share them", k)
	}
	return text
}

// Advances implements sched.Advancer. Priority counts within a partition, which the work
// of a job decides, and not its pool.
func (t *Tags) Advances(j, before *job.Job, _ job.Kind) (byPriority, byPool bool) {
	// No priority brings a job past one in an earlier partition.
	same := t.members[j.Seat()].part == t.members[before.Seat()].part
	return same && before.Priority() < job.VeryHigh, false
}

var _ sched.Advancer = (*Tags)(nil)
