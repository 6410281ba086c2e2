package protocol

import (
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// Config holds the settings of a core. The shell sets every field but Heartbeat.
type Config struct {
	Policy    string            // a name or composition
	PolicySet map[string]string // its parameters, by name
	// Configured is Policy and PolicySet as one line. A policy that users have
	// installed outlives a restart only under the same line.
	Configured string
	// Build makes a policy from its name and parameters.
	Build func(name string, set map[string]string) (sched.Policy, error)

	NodeTimeout    time.Duration // silence after which a worker is given up
	Heartbeat      time.Duration // longest wanted silence; 0: by the number of workers
	Grace          time.Duration // for which a job's end waits for killed attempts
	GraylistFaults int           // as in tracker.Config
	KeepEnded      int           // as in tracker.Config
	StorageRetry   time.Duration // as in tracker.Config
	Seed           uint64        // as in tracker.Config
	Limits         Limits

	// ID names the master if its journal is new. Life names this process: cursors
	// of map outputs are valid within one life only. Both are fresh secrets.
	ID, Life string
	// Secret makes the tokens of drivers unguessable. It is a fresh secret of the
	// process, too, which never leaves it.
	Secret []byte
	// Started is the wall clock's time at the call of Restore.
	Started time.Time
}

// Limits bound what the core accepts. Requests beyond one are refused with a
// message that names it. Users share all but Nodes by the rule of package bounds.
type Limits struct {
	Jobs    int // jobs that have not ended
	Tasks   int // tasks of all jobs that have not ended
	Specs   int // bytes of the descriptions of jobs and chains that have not ended; 0 is bounds.Specs
	Nodes   int // workers with a session
	Waiting int // held WatchJob and WatchChain calls; more are answered at once
}

// Intervals of the core.
const (
	// TickEvery is the interval at which the shell sends Tick.
	TickEvery = 200 * time.Millisecond
	waitEvery = time.Second // see tracker.Config.WaitEvery
	// offerPause bounds the cost of offers: a round takes a few microseconds for each
	// worker, and all rounds together must not take more than a part of the time.
	offerPause   = 20 * time.Microsecond
	learnedEvery = time.Minute // between two records of what the policy has learned
	// ForgetNodes is the time after which a worker that has left, and on which no attempt
	// of a remembered job ran, is forgotten. ForgetMarked is the time for workers that an
	// operator has drained or that are on the graylist.
	ForgetNodes  = 24 * time.Hour
	ForgetMarked = 30 * 24 * time.Hour
)

// Core is the state of the master. It is not safe for concurrent use: one
// goroutine calls Handle and EndBatch, and reads between two calls.
type Core struct {
	cfg     Config
	id      string        // of the master, the same over restarts
	epoch   time.Time     // the wall clock's time at 0
	now     time.Duration // of the last message, since epoch
	base    time.Duration // the time at which this life began
	tracker *tracker.Tracker
	policy  string            // the installed policy
	set     map[string]string // its parameters, without defaults

	jobs     map[job.ID]*jobEntry
	live     []*jobEntry // entries of jobs without a final status, by id
	ended    []job.ID    // jobs with one, the first to end first
	staging  []*jobEntry // of requests whose output is being staged, in the order of their arrival
	stagings int         // that this life has begun
	requests map[string]*request
	// intents are the stagings that may exist without a job, in the order of their records.
	intents []*slotwisev1.JournalStaging
	past    []pastRequest // of jobs in the history, oldest first

	chains chainTable
	room   room

	workers  map[string]*worker  // by name
	list     []*worker           // the same, in the order of their first arrival
	sessions map[string]*session // each worker's current session, by session id
	marked   []*session          // whose held heartbeat EndBatch may have to answer

	held  map[Call]waiter // calls without a reply yet
	paced pacedReaders    // held MapOutputs calls with news
	idle  []string        // scratch space of offer
	// entering is the job of the Submit event that step is handing to the tracker.
	entering *jobEntry

	choice    []byte        // of a policy that chooses, as last recorded; nil before its first decision
	learned   []byte        // what the policy has learned, as last recorded
	learnedAt time.Duration // time of the last look at learned

	out Output
}

// waiter is a held call.
type waiter interface {
	// release answers the call now, with what there is.
	release(c *Core)
}

// ID returns the master's id, which is the same over restarts.
func (c *Core) ID() string { return c.id }

// Base returns the time, as in Handle, at which this life of the master began. It
// is later than all times in the journal.
func (c *Core) Base() time.Duration { return c.base }

// Tracker returns the tracker, to read from.
func (c *Core) Tracker() *tracker.Tracker { return c.tracker }

// Policy returns the name and parameters of the installed policy.
func (c *Core) Policy() (name string, set map[string]string) { return c.policy, c.set }

// Handle takes one message in, at a time since the journal's epoch. An earlier
// time than the latest counts as that.
func (c *Core) Handle(now time.Duration, m Message) Output {
	c.begin(now)
	switch m := m.(type) {
	case *Register:
		c.register(m)
	case *Heartbeat:
		c.heartbeat(m)
	case *AskCommit:
		c.askCommit(m)
	case *JobForWorker:
		c.jobForWorker(m)
	case *MapOutputs:
		c.mapOutputs(m)
	case *Release:
		// The shell's timer and an answer may cross. A late Release finds no entry, because its
		// call has had its one reply.
		if w := c.held[m.Call]; w != nil {
			w.release(c)
		}
	case *Tick:
		c.tick()
	case *Closing:
		// The core records learned state once a minute. Without this record an orderly stop would
		// lose the changes of up to a minute.
		c.noteLearned()
	default:
		c.handleJob(m)
	}
	return c.out
}

// handleJob takes in messages about jobs, nodes and policies.
// Three functions share the messages, because one switch over all would be longer than a reader can
// follow. An unknown message changes nothing: only the shell makes messages.
func (c *Core) handleJob(m Message) {
	switch m := m.(type) {
	case *Submit:
		c.submit(m)
	// Staged and the reports below answer instructions of this very core: the shell drops the ones of an earlier
	// leadership, so none can be about a job of the same number that another core had.
	case *Staged:
		c.staged(m)
	case *StagingRemoved:
		c.stagingRemoved(m)
	case *WatchJob:
		c.watchJob(m)
	case *KillJob:
		c.killJob(m)
	case *KillAttempt:
		c.killAttempt(m)
	case *MoveJob:
		c.moveJob(m)
	case *SetPriority:
		c.setPriority(m)
	case *Drain:
		c.drain(m)
	case *SetPolicy:
		c.setPolicy(m)
	case *Choose:
		c.choose(m)
	case *Reconfigure:
		c.reconfigure(m)
	case *OutputDelayed:
		c.outputDelayed(m)
	case *OutputFinished:
		c.outputFinished(m)
	case *HistoryWritten:
		c.historyWritten(m)
	default:
		c.handleChain(m)
	}
}

// handleChain takes in messages about chains.
func (c *Core) handleChain(m Message) {
	switch m := m.(type) {
	case *SubmitChain:
		c.submitChain(m)
	case *WatchChain:
		c.watchChain(m)
	case *KillChain:
		c.killChain(m)
	case *ChangeChain:
		c.changeChain(m)
	case *ChainCleaned:
		c.chainCleaned(m)
	case *ChainInHistory:
		c.chainInHistory(m)
	}
}

// EndBatch ends a batch of messages that share one fsync. It offers work to idle
// workers, once for the whole batch, and then answers the held heartbeats for which
// there are actions. The shell calls it before the fsync.
func (c *Core) EndBatch(now time.Duration) Output {
	c.begin(now)
	// Offers come first: the launches that they lead to leave with the answers below.
	c.offer()
	c.answerPaced()
	c.answerHeartbeats()
	return c.out
}

// Deadline returns the time at which the core wants EndBatch to be called even if
// no message comes; false if there is none.
func (c *Core) Deadline() (time.Duration, bool) {
	at, ok := c.tracker.OfferDue()
	if len(c.paced) > 0 && (!ok || c.paced[0].due < at) {
		at, ok = c.paced[0].due, true
	}
	return at, ok
}

// begin empties the output of the call before.
func (c *Core) begin(now time.Duration) {
	// Times in the journal never decrease, whatever clock the shell uses: Restore takes the
	// latest time in the journal for the end of the former life.
	c.now = max(c.now, now)
	clear(c.out.Records) // not to keep them alive
	clear(c.out.Replies)
	clear(c.out.Instructions)
	c.out = Output{c.out.Records[:0], c.out.Replies[:0], c.out.Instructions[:0], c.out.Logs[:0], c.out.Tokens[:0]}
}

// record adds a journal record to the output. Its position among the records of one
// message is its position in the journal, which may be cut off after it.
func (c *Core) record(r *slotwisev1.JournalRecord) { c.out.Records = append(c.out.Records, r) }

// order adds an instruction to the output. The records that it depends on must be in the same
// or an earlier output.
func (c *Core) order(o Instruction) { c.out.Instructions = append(c.out.Instructions, o) }

// reply answers a call. The reply leaves once the records of the batch are durable.
func (c *Core) reply(call Call, m any) {
	c.out.Replies = append(c.out.Replies, Reply{Call: call, Message: m})
}

// replyEarly answers with facts that are durable already.
func (c *Core) replyEarly(call Call, m any) {
	c.out.Replies = append(c.out.Replies, Reply{Call: call, Message: m, Early: true})
}

// refuse answers a call with an error.
func (c *Core) refuse(call Call, err error) {
	c.out.Replies = append(c.out.Replies, Reply{Call: call, Err: err})
}

// logInfo and logWarn add a line for the shell's log, with keys and values by turns.
func (c *Core) logInfo(text string, args ...any) {
	c.out.Logs = append(c.out.Logs, Log{false, text, args})
}

func (c *Core) logWarn(text string, args ...any) {
	c.out.Logs = append(c.out.Logs, Log{true, text, args})
}

// millis converts a time of the core to milliseconds since the Unix epoch. 0,
// which means never, stays 0.
func (c *Core) millis(t time.Duration) int64 {
	if t == 0 {
		return 0
	}
	return c.epoch.Add(t).UnixMilli()
}

// step hands an event to the tracker, records the facts and carries the effects out, in
// the tracker's order. All changes of jobs, attempts and nodes go through it. The effects
// are returned for callers that look for an answer among them.
func (c *Core) step(ev tracker.Event) []tracker.Effect {
	// Effects may lead to further steps, which reuse the tracker's slice.
	effects := append([]tracker.Effect(nil), c.tracker.Step(c.now, ev)...)
	// Kills may come before it: a preemption that was due happens in the same step.
	for _, e := range effects {
		if e.Kind == tracker.JobAccepted {
			c.accepted(c.entering, e.Job)
		}
	}
	c.recordFacts()
	for _, e := range effects {
		c.carryOut(e)
	}
	return effects
}

// carryOut turns an effect into actions for workers and instructions for the shell.
func (c *Core) carryOut(e tracker.Effect) {
	j := c.jobs[e.Job]
	switch e.Kind {
	case tracker.Launch:
		c.launch(j, e)
	case tracker.Kill:
		c.kill(e)
	case tracker.MapDone:
		c.outputAvailable(j, e)
	case tracker.MapLost:
		c.outputLost(j, e)
	case tracker.CommitOutput, tracker.AbortOutput:
		c.startOutput(j, e)
	case tracker.CancelOutput:
		c.cancelOutput(j)
	case tracker.JobDone:
		c.endJob(j, &tracker.FactJobEnded{Job: j.id, State: e.State, Message: e.Text, At: c.tracker.Now()})
	}
	// There is no entry if a worker has named an attempt of a job that is in the history: the
	// tracker answers with a Kill.
	if j != nil {
		j.changed = true
	}
}

// tick lets time pass: time-outs, grace, revisions.
func (c *Core) tick() {
	// The step comes first: it gives up silent nodes, whose sessions end next, and only then
	// does an output find that no attempt is alive any more.
	c.step(&tracker.Tick{})
	c.endLostSessions()
	if c.now >= c.learnedAt+learnedEvery {
		c.noteLearned()
	}
	for _, j := range c.live {
		// Config.Grace passes without a message, so each tick looks whether an output has waited
		// for a silent worker long enough.
		c.finishOutput(j)
		// A job that waits for the history has its last status, and its watchers have their
		// answer.
		if j.changed && !j.unsaved {
			c.revise(j)
		}
	}
	c.assignDrivers()
	for _, ch := range c.chains.live {
		if ch.changed && !ch.unsaved {
			c.reviseChain(ch)
		}
	}
}
