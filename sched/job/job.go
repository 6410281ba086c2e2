package job

import (
	"iter"
	"maps"
	"math"
	"time"

	"github.com/slotwise/slotwise/internal/base/counters"
)

// Tally is a set of counts over tasks and attempts, of a job or of all live
// jobs together. For each kind
//
//	Pending + Delayed + Active + Done = tasks    (of a live job)
//	Running = Σ over slots of On = attempts ≥ Active
//	On[k][s] ≤ Occupied[k][s]          equal if each attempt occupies one slot
type Tally struct {
	Pending [Kinds]int        // tasks that wait for an attempt
	Delayed [Kinds]int        // tasks that wait after an error of the storage or of a disk
	Active  [Kinds]int        // tasks with at least one running attempt
	Done    [Kinds]int        // tasks that have succeeded
	Running [Kinds]int        // running attempts, copies included
	Copies  [Kinds]int        // running attempts that are speculative
	On      [Kinds][Kinds]int // running attempts by task kind, then slot kind

	Occupied [Kinds][Kinds]int // slots that they occupy, by task kind, then slot kind
}

// Job is a submitted job. All methods only read.
type Job struct {
	// A round reads the fields up to flaky of each job that it visits, for a thousand jobs perhaps.
	// They come first so that they share few cache lines.
	id            ID
	state         State
	asks          bool // the spec states TaskMemory or TaskCPUs
	mapsFirst     bool // reduces were killed for maps, and none starts until no map is pending
	seat          int
	near          *nearJobs // of the book
	slowStartMaps int       // maps that must be done before reduces may start
	tally         Tally
	pending       [Kinds]pendingIndex
	flaky         []int32 // the nodes whose count in nodeFails is at or above the limit, in the order in which they got there
	// progressed is set when an attempt of the kind first reports progress, and stays set.
	progressed [Kinds]bool
	width      int
	pool       string
	first      [Kinds]*Attempt // running attempts, oldest first
	last       [Kinds]*Attempt
	tasks      [Kinds][]Task
	hosts      splitHosts // empty if no split names a host
	priority   Priority
	outcome    State // the final state that Committing or Aborting leads to
	spec       Spec
	submitted  time.Duration
	started    time.Duration
	decided    time.Duration
	ended      time.Duration
	mapsDone   time.Duration
	message    string
	cancelled  string // why a kill cancelled the commit; "" if none did
	account    Account
	waits      waits
	delayed    []*Task   // delayed tasks of both kinds, by retry time, kind and index
	spare      []Attempt // allocated, for the next launches
	// nodeFails counts failed attempts by node.
	nodeFails map[int32]int
}

// ID returns the job's number.
func (j *Job) ID() ID { return j.id }

// Seat returns a small number that no other live job has, for tables indexed by job.
// Another job gets it when this one is not live any more.
func (j *Job) Seat() int { return j.seat }

// Spec returns the submitter's spec with the defaults filled in. The splits are
// shared and must not be changed.
func (j *Job) Spec() Spec { return j.spec }

// Name returns the name that the submitter chose.
func (j *Job) Name() string { return j.spec.Name }

// User returns the user who submitted the job.
func (j *Job) User() string { return j.spec.User }

// Pool returns the pool or queue that the job is in now, never "".
func (j *Job) Pool() string { return j.pool }

// Hints returns the submitter's rating of the tasks of a kind.
func (j *Job) Hints(k Kind) Ratings { return j.spec.Hints[k] }

// TaskMemory returns the memory in bytes that one task asks for; 0 is one slot's share.
func (j *Job) TaskMemory() int64 { return j.spec.TaskMemory }

// TaskCPUs returns the number of processors that one task asks for; 0 is one slot's
// share.
func (j *Job) TaskCPUs() int { return j.spec.TaskCPUs }

// Asks reports whether the job states what a task needs. The tasks of other jobs occupy
// one slot on every node.
func (j *Job) Asks() bool { return j.asks }

// Width returns how many slots a task of the job occupies on the node where it occupies
// fewest: 1 if the job asks for nothing, or while no node is known. The number on a
// given node is cluster.Node.Width.
func (j *Job) Width() int { return j.width }

// MaxAttempts returns the number of failed attempts of one task that fails the job.
func (j *Job) MaxAttempts() int { return j.spec.MaxAttempts }

// TaskTimeout returns for how long an attempt may report no progress; a negative value
// means without limit.
func (j *Job) TaskTimeout() time.Duration { return j.spec.TaskTimeout }

// NoSpeculation reports whether copies of running tasks are forbidden.
func (j *Job) NoSpeculation() bool { return j.spec.NoSpeculation }

// Priority returns the current priority.
func (j *Job) Priority() Priority { return j.priority }

// State returns where the job is in its life.
func (j *Job) State() State { return j.state }

// Submitted returns when the tracker accepted the job.
func (j *Job) Submitted() time.Duration { return j.submitted }

// Due returns the time at which the job should have ended; ok is false without a deadline.
func (j *Job) Due() (due time.Duration, ok bool) {
	return j.submitted + j.spec.Deadline, j.spec.Deadline > 0
}

// Started returns when the job's first attempt was launched; 0 before.
func (j *Job) Started() time.Duration { return j.started }

// Decided returns when the job's outcome was decided and it stopped being live;
// 0 before. A commit that fails changes the outcome and sets the time again.
func (j *Job) Decided() time.Duration { return j.decided }

// Outcome returns the final state that the job is in or that committing or
// aborting its output leads to. It means nothing while the job is live.
func (j *Job) Outcome() State { return j.outcome }

// CommitCancelled returns why a kill cancelled the commit of the job's output, or
// "". The commit may still succeed if the kill came too late.
func (j *Job) CommitCancelled() string { return j.cancelled }

// Ended returns when the job's output was published or removed; 0 before.
func (j *Job) Ended() time.Duration { return j.ended }

// MapsDoneAt returns when the last map succeeded. It is valid only while MapsDone
// returns true.
func (j *Job) MapsDoneAt() time.Duration { return j.mapsDone }

// Message returns why the job failed or was killed, as a sentence; "" if neither.
func (j *Job) Message() string { return j.message }

// Tally returns all counts of the job at once.
func (j *Job) Tally() Tally { return j.tally }

// Total returns the number of tasks of a kind.
func (j *Job) Total(k Kind) int { return len(j.tasks[k]) }

// Pending counts the tasks of a kind that have no running attempt and have not succeeded.
func (j *Job) Pending(k Kind) int { return j.tally.Pending[k] }

// Delayed counts the tasks of a kind that wait after an error of the storage or of a
// node's disk. They are not pending.
func (j *Job) Delayed(k Kind) int { return j.tally.Delayed[k] }

// FirstDelayed returns the delayed task with the earliest retry time, or nil.
func (j *Job) FirstDelayed() *Task {
	if len(j.delayed) == 0 {
		return nil
	}
	return j.delayed[0]
}

// FirstDelayedOf is FirstDelayed among the tasks of one kind. It costs a walk over the
// delayed tasks of the other kind.
func (j *Job) FirstDelayedOf(k Kind) *Task {
	for _, t := range j.delayed {
		if t.id.Kind == k {
			return t
		}
	}
	return nil
}

// Wanted counts the slots that the pending tasks of a kind would occupy, Width for each.
// Demands count slots.
func (j *Job) Wanted(k Kind) int { return j.width * j.tally.Pending[k] }

// Active counts the tasks of a kind that have a running attempt.
func (j *Job) Active(k Kind) int { return j.tally.Active[k] }

// Running counts the running attempts of a kind, copies included.
func (j *Job) Running(k Kind) int { return j.tally.Running[k] }

// RunningOn counts the running attempts of a kind on slots of a kind.
func (j *Job) RunningOn(task, slot Kind) int { return j.tally.On[task][slot] }

// Occupied counts the slots, of either kind, that running attempts of a kind occupy. It
// equals Running unless tasks of the job occupy several slots each. Shares and limits
// count slots.
func (j *Job) Occupied(k Kind) int { return j.tally.Occupied[k][Map] + j.tally.Occupied[k][Reduce] }

// OccupiedOn counts the slots of a kind that running attempts of a kind occupy.
func (j *Job) OccupiedOn(task, slot Kind) int { return j.tally.Occupied[task][slot] }

// Done counts the tasks of a kind that have succeeded.
func (j *Job) Done(k Kind) int { return j.tally.Done[k] }

// Unfinished counts the tasks of a kind that have not succeeded.
func (j *Job) Unfinished(k Kind) int { return len(j.tasks[k]) - j.tally.Done[k] }

// FailedAttempts counts the failed attempts of the whole job.
func (j *Job) FailedAttempts() int { return j.account.Failed[Map] + j.account.Failed[Reduce] }

// Account returns a copy of the sums over the job's attempts. Counting user
// counters, it may be large; displays call it, policies should not.
func (j *Job) Account() Account { return j.account.clone() }

// ProcessorTime returns the processor time that attempts of a kind which succeeded have reported.
func (j *Job) ProcessorTime(k Kind) time.Duration {
	return time.Duration(j.account.Counters[k].Get(counters.CPU))
}

// BytesRead returns the number of input bytes that the job's maps have read: maps that
// succeeded, and running maps up to their last report. It costs the number
// of running maps.
func (j *Job) BytesRead() int64 {
	n := j.account.Counters[Map].Get(counters.BytesRead)
	for a := j.first[Map]; a != nil; a = a.next {
		n += a.bytesRead
	}
	return n
}

// MapsDone reports whether every map has succeeded and its output still exists.
func (j *Job) MapsDone() bool { return j.Unfinished(Map) == 0 }

// MapsStarted reports whether no map waits for a slot: each one runs or has succeeded.
func (j *Job) MapsStarted() bool { return j.tally.Pending[Map]+j.tally.Delayed[Map] == 0 }

// SlowStartMaps returns how many maps must have succeeded before reduces may start.
func (j *Job) SlowStartMaps() int { return j.slowStartMaps }

// MapsFirst reports whether the tracker has decided that the job's maps come first, because
// its reduces held slots that they needed. No reduce starts then until no map is pending or delayed any more.
func (j *Job) MapsFirst() bool { return j.mapsFirst }

// Open reports whether tasks of the kind may start: always for maps, after the
// slow start for reduces. Losing map output can close it again.
func (j *Job) Open(k Kind) bool {
	return k == Map || j.tally.Done[Map] >= j.slowStartMaps && !j.mapsFirst
}

// Launchable reports whether a task of the kind is pending and may start.
func (j *Job) Launchable(k Kind) bool { return j.tally.Pending[k] > 0 && j.Open(k) && j.state.Live() }

// Progress returns the mean progress of the tasks of a kind, 0 to 1; 1 if there are
// none. It costs a walk over the running attempts of that kind.
func (j *Job) Progress(k Kind) float64 {
	if len(j.tasks[k]) == 0 {
		return 1
	}
	sum := float64(j.tally.Done[k])
	// No attempt has reported, so each adds 0 and the walk is saved.
	if !j.progressed[k] {
		return sum / float64(len(j.tasks[k]))
	}
	for a := j.first[k]; a != nil; a = a.next {
		// An attempt that is no copy is older than its copies.
		if !a.speculative || a == a.task.Oldest() {
			sum += a.progress
		}
	}
	return sum / float64(len(j.tasks[k]))
}

// Progressed reports whether an attempt of the kind has ever reported progress or another
// sign of life. While none has, the progress of all running attempts is 0.
func (j *Job) Progressed(k Kind) bool { return j.progressed[k] }

// Task returns the task with that index, or nil if there is none.
func (j *Job) Task(k Kind, index int32) *Task {
	if index < 0 || int(index) >= len(j.tasks[k]) {
		return nil
	}
	return &j.tasks[k][index]
}

// Hosts counts the hosts named by the splits of a live job, each once.
func (j *Job) Hosts() int { return j.pending[Map].hosts.count }

// Oldest returns the longest running attempt of a kind, or nil; Attempt.Next
// leads to the others.
func (j *Job) Oldest(k Kind) *Attempt { return j.first[k] }

// Newest returns the most recently launched attempt of a kind, or nil.
func (j *Job) Newest(k Kind) *Attempt { return j.last[k] }

// Retries returns the pending tasks of a kind that have been launched before, by falling
// number of failures and then by index. Hadoop launches them first. The slice must not
// be changed or kept.
func (j *Job) Retries(k Kind) []*Task { return j.pending[k].retry }

// Unlocated counts the maps never launched whose split names no host.
func (j *Job) Unlocated() int { return int(j.pending[Map].unlocated) }

// task returns the task with an index, or nil for -1.
func (j *Job) task(k Kind, i int32) *Task {
	if i < 0 {
		return nil
	}
	return &j.tasks[k][i]
}

// Fresh returns the first task of a kind that was never launched, or nil.
func (j *Job) Fresh(k Kind) *Task {
	p := &j.pending[k]
	return j.task(k, p.fresh.first(&p.head))
}

// FreshOn returns the first map never launched whose data is on the host, or
// nil.
func (j *Job) FreshOn(host int32) *Task {
	if !j.near.has(host, j.seat) {
		return nil
	}
	p := &j.pending[Map]
	i := p.hosts.first(host, p.fresh)
	if i < 0 && p.hosts.count > 0 { // otherwise another job may have the seat
		j.near.clear(host, j.seat)
	}
	return j.task(Map, i)
}

// FreshIn returns the first map never launched whose data is in the rack, or
// nil.
func (j *Job) FreshIn(rack int32) *Task {
	if c := j.pending[Map].rack(rack); c != nil {
		return j.task(Map, c.first(j.pending[Map].fresh))
	}
	return nil
}

// BestFresh returns the map never launched that is closest to a node on the
// host in the rack, no farther than max, and how close it is; nil if there is
// none. A split without locations is found at LevelAny and called LevelNone.
func (j *Job) BestFresh(host, rack int32, max Level) (*Task, Level) {
	if t := j.FreshOn(host); t != nil {
		return t, LevelNode
	}
	// The lists are searched from near to far, and a farther map is of no use.
	if max < LevelRack {
		return nil, 0
	}
	if t := j.FreshIn(rack); t != nil {
		return t, LevelRack
	}
	// Delay scheduling asks with a limit first: a job that still waits for a near node must not be given a
	// far map.
	if max < LevelAny {
		return nil, 0
	}
	if t := j.Fresh(Map); t != nil {
		return t, j.farLevel(t)
	}
	return nil, 0
}

// farLevel returns the level of a map that runs away from its data, or whose split has no location.
func (j *Job) farLevel(t *Task) Level {
	if len(j.spec.Splits[t.id.Index].Hosts) == 0 {
		return LevelNone
	}
	return LevelAny
}

// NodeFailures counts the job's failed attempts on a node.
func (j *Job) NodeFailures(node int32) int { return j.nodeFails[node] }

// FailedNodes yields the nodes on which attempts of the job failed, each once and in no order.
func (j *Job) FailedNodes() iter.Seq[int32] {
	//house:sorted the tracker counts nodes, and sums do not depend on the order
	return maps.Keys(j.nodeFails)
}

// Flaky returns the nodes that reached the limit of failures. Whether they are
// barred depends on the cluster too. The slice must not be changed.
func (j *Job) Flaky() []int32 { return j.flaky }

// slowGate returns Hadoop's slow start in maps, ⌈fraction · maps⌉. The subtrahend
// keeps 0.07·100 = 7.000000000000001 from being rounded up to 8. A negative fraction gives 0.
func slowGate(fraction float64, maps int) int {
	// Rounded up as in Hadoop's JobInProgress: with 0.05 of ten maps one must be done, and not none.
	return max(0, int(math.Ceil(fraction*float64(maps)-1e-9)))
}
