package sched

import (
	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
)

// The types in this file are the policies' view of jobs and nodes. They are read-only:
// only the job tracker can change the values that their methods return, and it does so
// between calls to the policy. All counts are updated at each change, so reading a count
// costs no walk through tasks. Times are since the start of the tracker.
//
// Each comment lists the type's methods. Slices that they return belong to the
// tracker: a policy must not change them, and they are valid until the call to the
// policy returns.
type (
	// Job is a submitted job.
	//
	//	ID() JobID                          the tracker's number, never reused
	//	Seat() int                          a small number for tables indexed by live job; reused after the job has ended
	//	Name() string                       the submitter's name for the job, not unique
	//	User() string                       the submitter
	//	Pool() string                       the pool or queue, never ""
	//	Priority() Priority                 can change while the job runs
	//	State() JobState
	//	Spec() JobSpec                      what the submitter asked for, defaults filled in
	//	Profile(k Kind) ResourceHints       the submitter's rating of the tasks
	//	MaxAttempts() int                   how many failures of one task fail the job
	//	TaskTimeout() time.Duration         how long an attempt may make no progress; negative is for ever
	//	NoSpeculation() bool                the submitter forbids speculative copies
	//	TaskMemory() int64                  bytes that one task asks for; 0 is one slot's share
	//	TaskCPUs() int                      processors that one task asks for; 0 is one slot's share
	//	Asks() bool                         the job states TaskMemory or TaskCPUs
	//	Width() int                         slots that a task occupies on the node where it occupies fewest
	//
	// Times, 0 if they have not come:
	//
	//	Submitted() time.Duration
	//	Started() time.Duration             launch of the first attempt
	//	MapsDoneAt() time.Duration          success of the last map; valid while MapsDone
	//	Decided() time.Duration             its outcome was decided and it stopped being live
	//	Ended() time.Duration               its output was committed or aborted
	//
	// Counts of the tasks of a kind:
	//
	//	Total(k Kind) int
	//	Pending(k Kind) int                 tasks that wait for an attempt
	//	Wanted(k Kind) int                  slots that they would occupy; demands count slots
	//	Active(k Kind) int                  tasks that have a running attempt
	//	Delayed(k Kind) int                 tasks that wait after an error of the storage; not pending
	//	Done(k Kind) int                    tasks that have succeeded
	//	Unfinished(k Kind) int              tasks that have not succeeded
	//	Running(k Kind) int                 running attempts, copies included
	//	RunningOn(task, slot Kind) int      running attempts of a kind that occupy slots of a kind
	//	Occupied(k Kind) int                slots that they occupy; shares and limits count slots
	//	OccupiedOn(task, slot Kind) int     slots of a kind that attempts of a kind occupy
	//	Tally() Tally                       all these counts at once
	//	FailedAttempts() int                failed attempts of the whole job
	//	Progress(k Kind) float64            mean progress of the tasks, 0 to 1; costs the running attempts
	//	Progressed(k Kind) bool             an attempt of the kind has reported progress or another sign of life
	//
	// What may start:
	//
	//	Launchable(k Kind) bool             a task is pending and may start now
	//	Open(k Kind) bool                   tasks of the kind may start: maps always, reduces after slow start
	//	Gate() int                          how many maps must have succeeded before reduces may start
	//	MapsFirst() bool                    reduces were killed for its maps, so none starts while maps are pending or delayed
	//	MapsDone() bool                     every map has succeeded and its output still exists
	//
	// Its tasks. "Fresh" tasks have never been launched; the tracker indexes them by
	// the location of their data:
	//
	//	Task(k Kind, index int32) *Task     nil if there is none
	//	Fresh(k Kind) *Task                 the first fresh task, or nil
	//	FreshOn(host int32) *Task           the first fresh map with its data on the host, or nil
	//	FreshIn(rack int32) *Task           the first fresh map with its data in the rack, or nil
	//	BestFresh(host, rack int32, max Level) (*Task, Level)  the closest fresh map, no farther than max
	//	Retries(k Kind) []*Task             pending tasks that ran before, most failures first
	//	FirstDelayed() *Task                the delayed task that becomes pending first, or nil
	//	FirstDelayedOf(k Kind) *Task        the same among tasks of one kind
	//	Unlocated() int                     fresh maps whose split names no host
	//	Hosts() int                         distinct hosts that the splits name
	//	Oldest(k Kind) *Attempt             the longest running attempt, or nil; see Attempt.Next
	//	Newest(k Kind) *Attempt             the last launched attempt, or nil
	//
	// Failures and the end:
	//
	//	NodeFailures(node int32) int        failed attempts on the node with that index
	//	Flaky() []int32                     nodes where the job failed too often; see View.Barred
	//	Outcome() JobState                  the final state; valid once the job is not live
	//	CommitCancelled() string            why a kill cancelled the commit of the output, or ""
	//	Message() string                    why the job failed or was killed
	//	BytesRead() int64                   bytes of input that maps have read; costs the running maps
	//	Account() Account                   attempts by level and outcome, kept by the tracker
	//	Waits() []Wait                      why its tasks waited, longest first, if that is collected
	//	WaitsUpTo() time.Duration           until when wait reasons were collected
	Job = job.Job

	// Task is one map or reduce of a job.
	//
	//	ID() TaskID
	//	Job() *Job
	//	Kind() Kind
	//	State() TaskState
	//	Split() Split                       a map's input; empty for a reduce
	//	Running() int                       running attempts: 0, 1 or 2
	//	Attempts() int                      attempts so far
	//	Attempt(try int32) *Attempt         the attempt of that number, or nil
	//	Oldest() *Attempt                   the first attempt that still runs, or nil
	//	Granted() *Attempt                  the attempt that may commit its output, or nil
	//	Success() *Attempt                  the attempt that succeeded, or nil
	//	Failures() int                      failed attempts; excused, killed and lost ones do not count
	//	Excused() int                       failed attempts that do not count: the storage or a disk failed
	//	Outage() (int, time.Duration)       such failures since the last success, and when the first was
	//	RetryAt() time.Duration             when a delayed task becomes pending; 0 if no retry time is set
	//	FailedForGood() bool                an attempt failed for a cause that every retry would meet
	//	RepeatsItself() bool                the program failed twice in the same way
	//	FailedOn(node int32) bool           an attempt failed on the node with that index
	//	FailedNodes() []int32               indexes of the nodes where attempts failed
	//	LastFailure() time.Duration         when an attempt last failed
	//	PendingSince() time.Duration        when the task last became pending
	//	DoneAt() time.Duration              when the task succeeded; 0 before
	//	Past() TaskPast                     the history of the attempts, as the journal records it
	Task = job.Task

	// Attempt is one execution of a task on a node.
	//
	//	ID() AttemptID
	//	Seq() int64                         number of the launch, counted over all jobs
	//	Task() *Task
	//	Job() *Job
	//	Kind() Kind                         map or reduce
	//	Slot() Kind                         the kind of slot that it occupies
	//	Width() int                         how many slots of that kind it occupies
	//	Node() int32                        index of its node; see NodeList.Node
	//	Level() Level                       how close it is to its input
	//	Speculative() bool                  it is a copy of an attempt that was running
	//	Label() int32                       the label that the policy gave to the assignment
	//	State() AttemptState
	//	Started() time.Duration             launch
	//	Ended() time.Duration               0 while it runs
	//	Progress() float64                  last reported progress, 0 to 1
	//	ProgressAt() time.Duration          when it last reported that it is alive
	//	Reported() bool                     its node has confirmed it with a report
	//	Granted() bool                      it may commit its task's output
	//	OutputBytes() int64                 size of a succeeded map's output
	//	Error() string                      why it did not succeed; "" if it did
	//	LogTail() string                    the end of a failed attempt's log; "" if unknown
	//	Cause() job.Cause                   what made it fail
	//	Excused() bool                      its failure does not count
	//	Next() *Attempt                     the next running attempt of its job and kind, by launch; or nil
	//	Prev() *Attempt                     the previous one, or nil
	Attempt = job.Attempt

	// JobList holds the jobs that the tracker knows. Counts are over all live jobs.
	//
	//	Live() []*Job                       jobs that still run tasks, in order of submission
	//	MapsFirst() int                     the number of jobs with MapsFirst set
	//	Finishing() []*Job                  jobs whose output is being committed or aborted
	//	Ended() []*Job                      remembered jobs that have ended, in order of their ends
	//	Get(id JobID) *Job                  a live or remembered job, or nil
	//	Task(id TaskID) *Task               or nil
	//	Attempt(id AttemptID) *Attempt      or nil
	//	Pending(k Kind) int                 tasks that wait for an attempt
	//	Delayed(k Kind) int                 tasks that wait after an error of the storage; not pending
	//	Wanted(k Kind) int                  slots that they would occupy
	//	Running(k Kind) int                 running attempts
	//	RunningOn(task, slot Kind) int      running attempts of a kind that occupy slots of a kind
	//	Occupied(k Kind) int                slots that running attempts of a kind occupy
	//	OccupiedOn(task, slot Kind) int     slots of a kind that attempts of a kind occupy
	//	MapOutputs(node int32) int          outputs of finished maps on a node that reduces may still read
	//	Tally() Tally                       all counts at once
	//	Seats() int                         length that a table indexed by Job.Seat needs
	JobList = job.List

	// Node is a machine, or a part of one, that runs tasks.
	//
	//	Name() string                       unique in the cluster
	//	Index() int32                       a small number for tables indexed by node, never reused
	//	Host() int32                        number of its host, for Job.FreshOn; nodes can share one
	//	Rack() int32                        number of its rack, for Job.FreshIn
	//	Spec() NodeSpec                     what the node reported when it joined
	//	Load() Load                         what its last heartbeat said about the machine
	//	Alive() bool                        it is a member of the cluster now
	//	Closed() bool                       it gets no new work; Status says why
	//	Draining() bool                     an administrator drains it
	//	Graylisted() bool                   tasks failed there that succeeded elsewhere
	//	Absent() bool                       it has not returned since the tracker restarted
	//	State() State                       its state as operators see it: alive, draining, disk full and so on
	//	Status() Status                     its state, since when it is in it, and the reason in words
	//	Condition() Condition               what its worker last reported about its ability to take work
	//	DrainedAt() time.Duration           when it was last drained or its drain was ended; 0 if never
	//	GrayAt() time.Duration              when it was last put on the graylist or taken off; 0 if never
	//	LeftAt() time.Duration              when a node that is no member stopped being one
	//	Forgotten() bool                    it left so long ago that only its index is kept
	//	Joined() time.Duration              when it last joined
	//	LastSeen() time.Duration            when it last joined or sent a heartbeat
	//	Faults() []Fault                    jobs whose tasks failed here and succeeded elsewhere
	//
	// Its slots and what runs in them:
	//
	//	Slots(k Kind) int
	//	Used(slot Kind) int                 occupied slots, whichever kind of task runs in them
	//	Free(slot Kind) int                 a policy reads Round.Free, which includes limits
	//	Running(task Kind) int              running attempts of a kind, in slots of either kind
	//	RunningOn(task, slot Kind) int
	//	Occupied(task Kind) int             slots that running attempts of a kind occupy
	//	Width(j *Job) int                   slots that a task of the job occupies here
	//	Reserved(slot Kind) Reservation     the job that free slots are kept for, if any; Round.Free heeds it
	//	Reported(task Kind) int             slots that attempts occupied after the reports of the last heartbeat, before its launches
	//	Attempts() []*Attempt               running attempts, oldest first
	//	Find(id AttemptID, from int) (*Attempt, int)  a running attempt and its position in Attempts, sought from a position on
	Node = cluster.Node

	// NodeList holds the nodes of the cluster. Counts are over live nodes that are
	// not closed, unless they say otherwise.
	//
	//	All() []*Node                       every node that ever joined, by index
	//	Node(index int32) *Node
	//	Get(name string) *Node              or nil
	//	Alive() int                         live nodes, closed ones included
	//	Open() int                          live nodes that are not closed
	//	Slots(k Kind) int
	//	With(k Kind) int                    nodes that have a slot of the kind
	//	Reported(k Kind) int                sum of Node.Reported
	//	Racks() int                         racks that were ever named
	//	RackName(rack int32) string
	//	Fitting(memory, cpus, k, ok) (bool, *Node)  whether a node has enough slots for a task, and the closest node
	//	LevelOf(t *Task, n *Node) Level     how close the task would run to its input on the node
	NodeList = cluster.List
)

// The values that the types above return.
type (
	// JobID identifies a job. Its String method formats it as users see it.
	JobID = job.ID
	// TaskID identifies a task of a job.
	TaskID = job.TaskID
	// AttemptID identifies an attempt of a task.
	AttemptID = job.AttemptID

	// Kind is Map or Reduce: the kind of a task or of a slot. Kind.Other returns the
	// other one.
	Kind = job.Kind
	// Level is the distance of a map from its input: NODE, RACK, ANY or NONE. A reduce
	// has level 0. Smaller is closer.
	Level = job.Level
	// Priority is one of Hadoop's five priorities. Greater is more urgent.
	Priority = job.Priority

	// JobState is the state of a job. JobState.Final reports whether it can still
	// change.
	JobState = job.State
	// TaskState is the state of a task.
	TaskState = job.TaskState
	// AttemptState is the state of an attempt.
	AttemptState = job.AttemptState

	// JobSpec is the submitter's description of a job.
	JobSpec = job.Spec
	// NodeSpec is a node's description of itself when it joined.
	NodeSpec = cluster.Spec
	// Split is the input of a map: its size and the hosts that hold it.
	Split = job.Split
	// ResourceHints are a submitter's rating of a job's use of processor, memory,
	// disk and network, from 1 (light) to 10 (heavy); 0 is unknown.
	ResourceHints = job.Profile
	// Load is a node's last report of the machine's load.
	Load = cluster.Load
	// Tally is a set of counts of tasks and running attempts.
	Tally = job.Tally
	// Account sums up the launches, failures and counters of a job's attempts.
	Account = job.Account
	// Wait is a reason why tasks of a job waited, and for how long.
	Wait = job.Wait
	// TaskPast is the history of a task's attempts.
	TaskPast = job.Past
)

// The kinds of tasks and slots. Kinds is their number, for arrays indexed by Kind.
const (
	Map    = job.Map
	Reduce = job.Reduce
	Kinds  = job.Kinds
)

// The levels from closest to farthest. NONE is a map whose input names no host: it
// is equally far from every node, so waiting for a closer one is pointless.
const (
	NODE = cluster.NODE
	RACK = cluster.RACK
	ANY  = cluster.ANY
	NONE = cluster.NONE
)

// The priorities.
const (
	VeryLow  = job.VeryLow
	Low      = job.Low
	Normal   = job.Normal
	High     = job.High
	VeryHigh = job.VeryHigh
)

// The states of a job. In JobCommitting all tasks have succeeded and the output is
// not published yet. In JobAborting the job has failed or was killed and its
// unpublished output is being removed.
const (
	JobPending    = job.Pending
	JobRunning    = job.Running
	JobCommitting = job.Committing
	JobAborting   = job.Aborting
	JobSucceeded  = job.Succeeded
	JobFailed     = job.Failed
	JobKilled     = job.Killed
)

// The states of a task.
const (
	TaskPending   = job.TaskPending
	TaskRunning   = job.TaskRunning
	TaskSucceeded = job.TaskSucceeded
	TaskFailed    = job.TaskFailed
	TaskKilled    = job.TaskKilled
	TaskDelayed   = job.TaskDelayed
)

// The states of an attempt. AttemptLost means that its node was lost.
const (
	AttemptRunning   = job.AttemptRunning
	AttemptSucceeded = job.AttemptSucceeded
	AttemptFailed    = job.AttemptFailed
	AttemptKilled    = job.AttemptKilled
	AttemptLost      = job.AttemptLost
)
