package job

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/base/counters"
)

// Book is the write port: the only way to change a job, task or attempt. It belongs
// to one tracker. Its methods update every count and list that a change affects. They
// do not decide whether a change is allowed: the tracker does.
type Book struct {
	list  List
	topo  Topology
	keep  int   // how many ended jobs are remembered
	last  ID    // the highest id given to a job
	seq   int64 // the number of the last launch
	seats []int // seats of jobs that are not live any more, for reuse
	near  nearJobs
}

// NewBook returns an empty book that remembers up to keep ended jobs.
func NewBook(topo Topology, keep int) *Book {
	return &Book{list: List{byID: make(map[ID]*Job)}, topo: topo, keep: keep, near: nearJobs{most: maxNear}}
}

// List returns the read view, the same one each time.
func (b *Book) List() *List { return &b.list }

// Check returns an error about the first invalid field of a spec, or nil.
func Check(s *Spec) error {
	if s.Reduces < 0 {
		return fmt.Errorf("reduces is %d, must not be negative", s.Reduces)
	}
	return s.Request.Check()
}

// Add creates a pending job from a spec that Check has accepted, and fills in the
// defaults.
func (b *Book) Add(spec Spec, now time.Duration) *Job {
	spec.fillDefaults()
	// Never given twice in a run of the master, also if the job ends at once: users and logs name jobs by
	// it.
	b.last++
	j := &Job{id: b.last, spec: spec, priority: spec.Priority, pool: spec.Pool, submitted: now, seat: b.seat(), near: &b.near,
		width: 1, asks: spec.TaskMemory != 0 || spec.TaskCPUs != 0, slowStartMaps: slowGate(spec.SlowStart, len(spec.Splits))}
	for k, n := range [Kinds]int{len(spec.Splits), spec.Reduces} {
		j.addTasks(Kind(k), n, now)
		b.list.tally.Pending[k] += n
	}
	// Before near.add, which reads the lists by host.
	j.hosts = j.pending[Map].fill(spec.Splits, b.topo)
	b.near.add(&j.pending[Map].hosts, j.seat)
	b.list.live = append(b.list.live, j)
	b.list.byID[j.id] = j
	return j
}

// addTasks makes the pending tasks of a kind.
func (j *Job) addTasks(k Kind, n int, now time.Duration) {
	j.tasks[k] = make([]Task, n)
	for i := range j.tasks[k] {
		t := &j.tasks[k][i]
		t.id, t.job, t.pendingAt = TaskID{j.id, k, int32(i)}, j, now
	}
	// Every task is fresh, so the retry list is empty and the search begins at index 0.
	j.pending[k].fresh = allTasks(n)
	j.tally.Pending[k] = n
}

// seat returns a free seat, so that tables by seat stay as small as the number of live jobs.
func (b *Book) seat() int {
	if n := len(b.seats); n > 0 {
		s := b.seats[n-1]
		b.seats = b.seats[:n-1]
		return s
	}
	b.list.seats++
	return b.list.seats - 1
}

// HostPlaced records the rack of a host, once a node has joined from it, so that live
// jobs can find their splits by rack.
func (b *Book) HostPlaced(host, rack int32) {
	for _, j := range b.list.live {
		// All live jobs, once for each host that joins for the first time. A job that comes later reads the
		// rack in fill.
		j.pending[Map].place(host, rack)
	}
}

// SetPriority changes a job's priority.
func (b *Book) SetPriority(j *Job, p Priority) { j.priority = p }

// SetPool moves a job into another pool. "" moves it into the pool of jobs that name
// none, which is the user's.
func (b *Book) SetPool(j *Job, pool string) { j.pool = poolOf(pool, j.spec.User) }

// SetWidth records how many slots a task of the job occupies at least; see Job.Width.
func (b *Book) SetWidth(j *Job, width int) {
	for k, pending := range j.tally.Pending {
		// The change only, because the sum is over all jobs.
		b.list.widths[k] += (width - j.width) * pending
	}
	j.width = width
}

// Launch describes how an attempt is started.
type Launch struct {
	Node        int32 // cluster.Node.Index
	Slot        Kind  // kind of slot that the attempt occupies
	Width       int32 // number of slots that it occupies; 0 means 1
	Level       Level // locality of a map; 0 for a reduce
	Speculative bool  // the task already runs elsewhere
	Label       int32 // the policy's own mark, kept with the attempt
}

// Start adds a running attempt to a task. The task must be pending, or running if the
// attempt is speculative.
func (b *Book) Start(t *Task, how Launch, now time.Duration) *Attempt {
	j, k := t.job, t.id.Kind
	b.seq++
	a := j.attempt()
	*a = Attempt{node: how.Node, seq: b.seq, slot: how.Slot, width: max(1, how.Width), level: how.Level,
		speculative: how.Speculative, label: how.Label, started: now, progressAt: now}
	t.add(a)
	j.account.launched(a)
	j.link(a)
	// A speculative attempt changes no count of tasks: its task runs already.
	if t.state == TaskPending {
		j.pending[k].take(t)
		t.state = TaskRunning
		b.each(j, func(c *Tally) { c.Pending[k]--; c.Active[k]++ })
	}
	t.running++
	b.countAttempt(a, 1)
	// The first launch of either kind: with slow start 0 it may be a reduce.
	if j.state == Pending {
		j.state, j.started = Running, now
	}
	return a
}

// attempt returns an unused attempt of the job. A job keeps its attempts as long as itself, so they are allocated
// together, which costs the allocator and the collector of garbage less than each alone.
func (j *Job) attempt() *Attempt {
	if len(j.spare) == 0 {
		j.spare = make([]Attempt, max(1, min(together, j.tally.Pending[Map]+j.tally.Pending[Reduce])))
	}
	a := &j.spare[0]
	j.spare = j.spare[1:]
	return a
}

// together attempts fit into 4 KiB.
const together = 28

// Report records an attempt's progress and ticks. If neither has changed since the last
// report, the attempt's time-out keeps running.
func (b *Book) Report(a *Attempt, progress float64, ticks uint64, now time.Duration) {
	a.reported = true
	if progress != a.progress || ticks != a.ticks {
		// Only a first report can make the flag true. The comparison saves a write to the job for
		// each later one.
		if a.progressAt <= a.started {
			a.task.job.progressed[a.id.Kind] = true
		}
		// Any other number counts, also a smaller one: a process that starts its count again is alive.
		a.progress, a.ticks, a.progressAt = progress, ticks, now
	}
}

// ReportRead records how many input bytes a running map has read.
func (b *Book) ReportRead(a *Attempt, bytes int64) { a.bytesRead = bytes }

// Count adds the counters of an attempt that succeeds to the sums of its job.
func (b *Book) Count(a *Attempt, c *counters.Set) { a.task.job.account.Counters[a.id.Kind].AddSet(c) }

// SetCounted replaces the counters, the last error and its log text in a job's account.
// RestoreTask derives the rest of the account from single attempts. It cannot derive
// these values, because an attempt remembers no counters and no order of failures.
func (b *Book) SetCounted(j *Job, c [Kinds]counters.Set, lastError, logTail string) {
	for k := range c {
		j.account.Counters[k] = c[k].Clone()
	}
	j.account.LastError, j.account.LogTail = lastError, logTail
}

// RestartTimeout restarts the time-out of an attempt on a node that has returned
// after a silence, because the progress made meanwhile is unknown.
func (b *Book) RestartTimeout(a *Attempt, now time.Duration) {
	a.reported, a.progressAt = true, now
	a.task.job.progressed[a.id.Kind] = true
}

// Grant gives an attempt the permission to commit its task's output.
func (b *Book) Grant(a *Attempt) { a.granted, a.task.grant = true, a }

// Succeed ends an attempt whose output becomes the task's. The caller must end the
// task's other running attempts.
func (b *Book) Succeed(a *Attempt, outputBytes int64, now time.Duration) {
	t, k := a.task, a.task.id.Kind
	a.progress, a.outputBytes = 1, outputBytes
	b.stop(a, AttemptSucceeded, now)
	// After stop, which leaves the task alone, and before countOutput, which reads the node of the success.
	t.state, t.success, t.doneAt = TaskSucceeded, a, now
	// If this output is lost later, the next complaints and pauses count anew. Failures stay.
	if p := t.setbacks; p != nil {
		p.fetchFails, p.outages, p.retryAt = 0, 0, 0
	}
	b.each(t.job, func(c *Tally) { c.Active[k]--; c.Done[k]++ })
	b.countOutput(t, 1)
	if k == Map && t.job.MapsDone() {
		t.job.mapsDone = now
	}
}

// Failure describes how an attempt failed.
type Failure struct {
	Text    string // why, as a sentence
	LogTail string // the end of the attempt's log; "" if unknown
	Cause   Cause
	// Excused says that the failure is not counted, against the task or against the node.
	Excused bool
	// RetryAt is the time before which the task is not launched again; 0 means at once.
	RetryAt time.Duration
}

// Fail ends a running attempt as failed. The failure counts against the task and the
// node, unless it is excused. A node becomes flaky for the job when the job's failures
// there reach limit; a limit of 0 or less is never reached.
func (b *Book) Fail(a *Attempt, f Failure, limit int, now time.Duration) {
	t, p := a.task, a.task.writeSetbacks()
	a.setTrouble(f.Text, f.LogTail)
	a.cause, a.excused = f.Cause, f.Excused
	b.stop(a, AttemptFailed, now)
	if f.Cause == CauseStorage || f.Cause == CauseNode {
		if p.outages == 0 {
			p.outageAt = now
		}
		p.outages++
	}
	// Overwritten by each failure. idle reads the time only when the last of two attempts has ended.
	p.retryAt = f.RetryAt
	// Before idle: the retry list is sorted by failures, so the task must have the new count when it
	// enters.
	b.blame(a, limit, now)
	b.idle(t, now)
}

// Drop ends a running attempt as killed or lost, which does not count as a failure.
func (b *Book) Drop(a *Attempt, state AttemptState, text string, now time.Duration) {
	a.setTrouble(text, "")
	b.stop(a, state, now)
	b.idle(a.task, now)
}

// LoseOutput makes a succeeded task pending again, because its output is gone. With
// blame its attempt counts as failed, otherwise as lost.
func (b *Book) LoseOutput(t *Task, blame bool, text string, limit int, now time.Duration) {
	a, k := t.success, t.id.Kind
	a.state = AttemptLost
	a.setTrouble(text, "")
	if blame {
		a.state, a.cause = AttemptFailed, CauseOutput
		b.blame(a, limit, now)
	}
	// Before the success is cleared: the count is of its node.
	b.countOutput(t, -1)
	t.success, t.doneAt = nil, 0
	t.state, t.pendingAt = TaskPending, now
	b.each(t.job, func(c *Tally) { c.Done[k]--; c.Pending[k]++ })
	t.job.pending[k].again(t)
}

// countOutput adds n to the map outputs of the node of a task's success, if the task is a
// map of a job with reduces.
func (b *Book) countOutput(t *Task, n int32) {
	if t.id.Kind != Map || len(t.job.tasks[Reduce]) == 0 {
		return
	}
	node := int(t.success.node)
	for len(b.list.outputs) <= node {
		b.list.outputs = append(b.list.outputs, 0)
	}
	b.list.outputs[node] += n
}

// FetchFailure counts a notice that a task's output could not be fetched, and returns
// the number of notices since the task last succeeded.
func (b *Book) FetchFailure(t *Task) int {
	p := t.writeSetbacks()
	p.fetchFails++
	return int(p.fetchFails)
}

// stop removes an attempt from the running ones and revokes its permission to commit.
func (b *Book) stop(a *Attempt, state AttemptState, now time.Duration) {
	t := a.task
	a.state, a.ended = state, now
	// The grant goes with the attempt, however it ends: a holder that has failed would keep every other
	// attempt from committing.
	if t.grant == a {
		t.grant, a.granted = nil, false
	}
	t.running--
	t.job.account.SlotTime[a.slot] += time.Duration(a.width) * (now - a.started)
	// The attempt stays with its task; only the list of running ones loses it.
	t.job.unlink(a)
	b.countAttempt(a, -1)
}

// idle makes a task pending if its last running attempt has ended, or delays it until
// its retry time.
func (b *Book) idle(t *Task, now time.Duration) {
	// A second attempt still runs, or the task has succeeded and this is a rival that was killed.
	if t.state != TaskRunning || t.running > 0 {
		return
	}
	k := t.id.Kind
	// A task whose attempts end by a kill has no retry time, or one that has passed.
	if t.readSetbacks().retryAt > now {
		b.each(t.job, func(c *Tally) { c.Active[k]-- })
		b.delay(t)
		return
	}
	t.state, t.pendingAt = TaskPending, now
	t.clearRetry()
	b.each(t.job, func(c *Tally) { c.Active[k]--; c.Pending[k]++ })
	t.job.pending[k].again(t)
}

// delay puts a task on the list of delayed tasks.
func (b *Book) delay(t *Task) {
	k, j := t.id.Kind, t.job
	// The retry time, as of which Release makes the task pending: its wait for a slot begins then.
	t.state, t.pendingAt = TaskDelayed, t.readSetbacks().retryAt
	b.each(j, func(c *Tally) { c.Delayed[k]++ })
	at, _ := slices.BinarySearchFunc(j.delayed, t, compareDelayed)
	// Sorted by retry time, so the tracker's next release is the first entry and no step walks over the
	// list.
	j.delayed = slices.Insert(j.delayed, at, t)
}

// compareDelayed orders tasks by their retry time, and then by kind and index.
func compareDelayed(a, b *Task) int {
	return cmp.Or(cmp.Compare(a.readSetbacks().retryAt, b.readSetbacks().retryAt), cmp.Compare(a.id.Kind, b.id.Kind), cmp.Compare(a.id.Index, b.id.Index))
}

// Release makes a delayed task pending, as of its retry time.
func (b *Book) Release(t *Task) {
	k, j := t.id.Kind, t.job
	if at, found := slices.BinarySearchFunc(j.delayed, t, compareDelayed); found {
		j.delayed = slices.Delete(j.delayed, at, at+1)
	}
	t.state = TaskPending
	t.clearRetry()
	b.each(j, func(c *Tally) { c.Delayed[k]--; c.Pending[k]++ })
	j.pending[k].again(t)
}

// blame counts a failure. If it is excused, the task only avoids a node whose disk
// failed.
func (b *Book) blame(a *Attempt, limit int, now time.Duration) {
	// An excused failure is in the account, too: people who look at the job want to see it.
	t, j := a.task, a.task.job
	j.account.failed(a)
	p := t.writeSetbacks()
	p.final = p.final || a.cause.Final()
	if a.excused {
		p.excused++
		if a.cause == CauseNode {
			t.avoid(a.node, now)
		}
		return
	}
	p.failures++
	t.avoid(a.node, now)
	// Most jobs never fail on any node.
	if j.nodeFails == nil {
		j.nodeFails = make(map[int32]int)
	}
	j.nodeFails[a.node]++
	// Exactly at the limit, so the node enters the list once.
	if j.nodeFails[a.node] == limit {
		j.flaky = append(j.flaky, a.node)
	}
}

// avoid records a failure of the task on a node.
func (t *Task) avoid(node int32, now time.Duration) {
	p := t.writeSetbacks()
	p.lastFail = now
	if !t.FailedOn(node) {
		p.failedOn = append(p.failedOn, node)
	}
}

// Decide records the outcome of a live job whose attempts have all ended. The job
// stops being live and gives up its seat: it is Committing if the outcome is
// Succeeded, else Aborting. culprit is the task whose failures failed the job, or
// nil. End must follow once the output is published or removed.
func (b *Book) Decide(j *Job, outcome State, culprit *Task, message string, now time.Duration) {
	j.state, j.outcome, j.decided, j.message = Aborting, outcome, now, message
	if outcome == Succeeded {
		j.state = Committing
	}
	// Before the seat and the lists are given up: the bits of a seat must not outlive its job, or
	// the next one would look for tasks on these hosts.
	b.near.remove(&j.pending[Map].hosts, j.seat)
	for k := range j.tasks {
		for i := range j.tasks[k] {
			if t := &j.tasks[k][i]; t.state == TaskPending || t.state == TaskDelayed {
				t.state, t.inRetry = TaskKilled, false
				t.clearRetry()
			} else if t.success != nil {
				b.countOutput(t, -1)
			}
		}
		b.list.tally.Delayed[k] -= j.tally.Delayed[k]
		j.tally.Delayed[k] = 0
		b.list.tally.Pending[k] -= j.tally.Pending[k]
		// The cluster's counts are sums over live jobs. The job keeps its own number of finished
		// tasks, which its final report shows.
		b.list.tally.Done[k] -= j.tally.Done[k]
		// Before the job's count of pending tasks becomes 0.
		b.list.widths[k] -= (j.width - 1) * j.tally.Pending[k]
		j.tally.Pending[k] = 0
		j.pending[k] = pendingIndex{}
	}
	j.delayed, j.spare = nil, nil
	if culprit != nil {
		culprit.state = TaskFailed
	}
	b.SetMapsFirst(j, false)
	// Out of the live list before the seat is free: walks over live jobs read tables by seat.
	b.list.remove(j)
	b.seats = append(b.seats, j.seat)
	b.list.finishing = append(b.list.finishing, j)
}

// SetMapsFirst keeps reduces of a live job from starting, or allows it again.
func (b *Book) SetMapsFirst(j *Job, on bool) {
	if j.mapsFirst == on {
		return
	}
	j.mapsFirst = on
	if on {
		b.list.mapsFirst++
	} else {
		b.list.mapsFirst--
	}
}

// CancelCommit records that a kill cancelled the commit of a job's output. The
// reason must not be "".
func (b *Book) CancelCommit(j *Job, reason string) { j.cancelled = reason }

// FailCommit moves a job from Committing to Aborting, because its output could not
// be committed. The outcome is Failed or Killed.
func (b *Book) FailCommit(j *Job, outcome State, message string, now time.Duration) {
	j.state, j.outcome, j.decided, j.message = Aborting, outcome, now, message
}

// ConfirmCommit moves a job from Aborting back to Committing, because its output turned
// out to be published. The outcome is Succeeded.
func (b *Book) ConfirmCommit(j *Job, now time.Duration) {
	j.state, j.outcome, j.decided, j.message, j.cancelled = Committing, Succeeded, now, "", ""
}

// End puts a job into the final state that its outcome names. The oldest ended
// jobs beyond the limit of NewBook are forgotten, possibly this one.
func (b *Book) End(j *Job, message string, now time.Duration) {
	j.state, j.ended, j.message = j.outcome, now, message
	b.list.finishing = slices.DeleteFunc(b.list.finishing, func(x *Job) bool { return x == j })
	b.remember(j)
}

// remember adds an ended job and forgets the oldest ones beyond the limit.
func (b *Book) remember(j *Job) {
	b.list.ended = append(b.list.ended, j)
	// By the order of their ends, not by id: a user looks for a long job that has just ended.
	if over := len(b.list.ended) - b.keep; over > 0 {
		for _, old := range b.list.ended[:over] {
			delete(b.list.byID, old.id)
		}
		b.list.ended = slices.Delete(b.list.ended, 0, over)
	}
}

// each applies a change to the counts of a job and of the cluster. It keeps widths, the slots that
// pending wide tasks want beyond one each.
func (b *Book) each(j *Job, change func(*Tally)) {
	before := j.tally.Pending
	// The same change on both, so that the cluster's counts are the sum of the jobs' by construction.
	change(&j.tally)
	change(&b.list.tally)
	if j.width > 1 {
		for k, pending := range j.tally.Pending {
			b.list.widths[k] += (j.width - 1) * (pending - before[k])
		}
	}
}

// countAttempt adds an attempt to the counts of running ones, or removes it.
func (b *Book) countAttempt(a *Attempt, by int) {
	k := a.task.id.Kind
	// Both tallies by one statement each, so that no change can reach one without the other.
	for _, c := range [2]*Tally{&a.task.job.tally, &b.list.tally} {
		c.Running[k] += by
		c.On[k][a.slot] += by
		c.Occupied[k][a.slot] += by * int(a.width)
		if a.speculative {
			c.Copies[k] += by
		}
	}
}

// link appends an attempt to the running ones of its kind, which are in the order of their
// launches.
func (j *Job) link(a *Attempt) {
	k := a.task.id.Kind
	if a.prev = j.last[k]; a.prev != nil {
		a.prev.next = a
	} else {
		j.first[k] = a
	}
	j.last[k] = a
}

// unlink removes an attempt from the running ones. It costs nothing that grows with their number.
func (j *Job) unlink(a *Attempt) {
	k := a.task.id.Kind
	if a.prev != nil {
		a.prev.next = a.next
	} else {
		j.first[k] = a.next
	}
	if a.next != nil {
		a.next.prev = a.prev
	} else {
		j.last[k] = a.prev
	}
	a.prev, a.next = nil, nil
}
