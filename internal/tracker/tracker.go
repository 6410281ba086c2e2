package tracker

import (
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Hadoop's defaults, which the zero Config gets.
const (
	DefaultNodeTimeout = 10 * time.Minute
	DefaultKeepEnded   = 100
	// DefaultPreemptDelay is longer than YARN's, which is 0, because slots come free
	// with heartbeats here.
	DefaultPreemptDelay = 10 * time.Second
	// DefaultGraylistFaults is Hadoop's number, but the zero Config graylists nothing.
	DefaultGraylistFaults = 4
	DefaultGraylistWindow = 3 * time.Hour
)

// Tracker is the job tracker. It is not safe for concurrent use: one goroutine calls
// Step, and readers read between two calls.
//
// Invariants between two steps:
//
//	on a node     slots of a kind that attempts occupy ≤ slots of the kind, as the
//	              policy limits them, when an attempt is launched; a limit that
//	              shrinks later kills nothing
//	of a task     running attempts ≤ 2; permissions to commit ≤ 1; successes ≤ 1
//	of a job      it is live ⇔ a reduce (or map, if it has no reduces) has not
//	              succeeded, no task has failed too often, and it was not killed;
//	              attempts run only for live jobs
//	everywhere    each count equals a recount
//
// The files follow the events: jobs.go handles whole jobs, attempts.go reports, commits
// and lost output, nodes.go membership and heartbeats, offer.go the assignment of work,
// park.go the heartbeats that a simulation leaves out, reserve.go tasks that occupy several
// slots, preempt.go reduces that keep their own maps out, backoff.go retries after errors of
// the storage, and time.go time-outs, the updates of policies and the attempts that a policy preempts.
type Tracker struct {
	cfg    Config
	jobs   *job.Book
	nodes  *cluster.Book
	view   *sched.View
	rounds *sched.RoundWriter
	policy sched.Policy
	hooks  *sched.Hooks
	now    time.Duration
	// next holds the time at which each Periodic hook is due.
	next []time.Duration
	// effects holds the result of Step; ends holds the effects of this step about
	// outputs and ends of jobs, which come last.
	effects []Effect
	ends    []Effect
	// facts is the result of Facts.
	facts []Fact
	// bySeat holds the tracker's own state of each live job, by Job.Seat.
	bySeat []jobState
	// blocked are the jobs that are blocked (see preempt.go), and blockedDue is when
	// they are looked at next; never if there are none.
	blocked    []*job.Job
	blockedDue time.Duration
	// delayed are the live jobs with delayed tasks (see backoff.go), and delayedDue is a time
	// before which none of the tasks is released; never if there are none.
	delayed    []*job.Job
	delayedDue time.Duration
	// forgetAt is the time of the next search for nodes to forget.
	forgetAt time.Duration
	// due holds, by node index, a time before which no attempt on the node times out;
	// never if no attempt can time out.
	due []time.Duration
	// offerWanted is set when something has happened since the last Offer, at
	// lastOffer, that may let a task start.
	offerWanted bool
	lastOffer   time.Duration
	// released is set when a reservation has ended since the last Offer began.
	released bool
	// waitsDue is the time of the next collection of wait reasons, waitsNext the index in the
	// live jobs of the first job to look at then.
	waitsDue  time.Duration
	waitsNext int
	// launchable counts the true values of jobState.launchable, by kind of task.
	launchable [job.Kinds]int
	// opened counts the false values of jobState.launchable that became true.
	opened int64
	quiet  sched.Quiet // the policy, if it is one
	vain   sched.Vain  // the policy, if heartbeats may be passed under it
	// full is the answer of vain for nodes without free slots, since the last step that asked.
	full  full
	stats Stats
}

// jobState is the tracker's own state of a live job, beside the job's tasks.
type jobState struct {
	launchable [job.Kinds]bool // Job.Launchable at the last call of the hooks
	blocked    blockage
	delayed    bool // the job is in Tracker.delayed
}

// never is later than any time that occurs.
const never = time.Duration(1<<63 - 1)

// Stats holds counts since the tracker's start.
type Stats struct {
	Steps      int64
	Heartbeats int64
	Launches   int64
	// Refused counts assignments of the policy that broke a rule: each is a bug
	// in the policy. LastRefusal describes the latest.
	Refused     int64
	LastRefusal string
	// Preempted counts attempts killed on the policy's demand, and reduces killed
	// because maps of their job needed their slots.
	Preempted int64
	// LostNodes counts the nodes given up after silence. A node that leaves, or starts anew, does
	// not count.
	LostNodes int64
}

// New returns a tracker without jobs or nodes.
func New(cfg Config, policy sched.Policy) *Tracker {
	t := blank(cfg)
	t.SetPolicy(policy)
	return t
}

// blank returns a tracker that lacks a policy.
func blank(cfg Config) *Tracker {
	if cfg.NodeTimeout == 0 {
		cfg.NodeTimeout = DefaultNodeTimeout
	}
	if cfg.MaxNodeFailures == 0 {
		cfg.MaxNodeFailures = job.DefaultMaxNodeFailures
	}
	if cfg.KeepEnded == 0 {
		cfg.KeepEnded = DefaultKeepEnded
	}
	if cfg.GraylistWindow == 0 {
		cfg.GraylistWindow = DefaultGraylistWindow
	}
	if cfg.PreemptDelay == 0 {
		cfg.PreemptDelay = DefaultPreemptDelay
	}
	if cfg.StorageRetry == 0 {
		cfg.StorageRetry = DefaultStorageRetry
	}
	// The nodes before the jobs, whose index of local tasks is by the hosts and racks of the nodes.
	t := &Tracker{cfg: cfg, nodes: cluster.NewBook(), blockedDue: never, delayedDue: never}
	t.jobs = job.NewBook(t.nodes, max(0, cfg.KeepEnded))
	t.view = sched.NewView(t.jobs.List(), t.nodes.List(), cfg.MaxNodeFailures)
	return t
}

// SetPolicy installs another policy between two steps. No attempt is killed. The policy's
// hooks hear of all live nodes and jobs as if they had just arrived.
func (t *Tracker) SetPolicy(p sched.Policy) {
	// The hooks are collected once: to ask each part for its interfaces with each event would cost more
	// than most events.
	t.policy, t.hooks, t.rounds = p, sched.HooksOf(p), sched.NewRoundWriter(t.view)
	t.quiet, _ = p.(sched.Quiet)
	t.vain, t.full = nil, fullUnknown
	// A part that limits the tasks of a node weighs each heartbeat, and so does a collection of wait reasons.
	if t.hooks.Limiter == nil && t.cfg.WaitEvery == 0 {
		t.vain, _ = p.(sched.Vain)
	}
	// A policy starts before it hears of nodes and jobs: its parts make their tables in Start.
	for _, h := range t.hooks.Starters {
		h.Start(t.view, t.now)
	}
	for _, n := range t.nodes.List().All() {
		if n.Alive() {
			t.notifyNode(n, true)
		}
	}
	for _, j := range t.jobs.List().Live() {
		for _, h := range t.hooks.Jobs {
			h.JobAdded(j)
		}
	}
	// The new policy may want a task that the former one kept back.
	t.wantOffer()
	// Multiples of the interval and not now+interval, so that the times do not depend on when the
	// policy was installed.
	t.next = t.next[:0]
	for _, h := range t.hooks.Periodics {
		t.next = append(t.next, t.now-t.now%h.Interval()+h.Interval())
	}
}

// Policy returns the installed policy.
func (t *Tracker) Policy() sched.Policy { return t.policy }

// View returns the read view of jobs and nodes, for shells. Each step changes it.
func (t *Tracker) View() *sched.View { return t.view }

// Jobs returns all jobs.
func (t *Tracker) Jobs() *job.List { return t.jobs.List() }

// Nodes returns all nodes.
func (t *Tracker) Nodes() *cluster.List { return t.nodes.List() }

// Now returns the time of the last step.
func (t *Tracker) Now() time.Duration { return t.now }

// Stats returns the counts so far.
func (t *Tracker) Stats() Stats { return t.stats }

// Explain returns why the job gets no task of the kind now, as a reason for programs and
// as a sentence, to which the policy may add its own. It costs a walk through the order.
func (t *Tracker) Explain(j *job.Job, k job.Kind) (sched.Reason, string) {
	why := sched.Why(t.view, t.policy, t.rounds.Ledger(), j, k, t.now)
	words := why.Words(k)
	if k == job.Map && isBlocked(j) && t.cfg.PreemptDelay > 0 {
		words += "; reduces of the job wait for its maps, and the newest one is stopped if they keep the maps out"
	}
	for _, h := range t.hooks.Explainers {
		if more := h.Explain(j, k, t.now); more != "" {
			words += "; " + more
		}
	}
	return why, words
}

// Learned returns the parts of the policy whose learned state should survive a restart,
// in a fixed order.
func (t *Tracker) Learned() []sched.Stateful { return t.hooks.Statefuls }

// CheckQueue returns an error if the policy has no pool or queue of this name and creates none.
// An empty name means the default queue.
func (t *Tracker) CheckQueue(name string) error {
	if name == "" {
		return nil
	}
	for _, h := range t.hooks.Queues {
		if err := h.CheckQueue(name); err != nil {
			return err
		}
	}
	return nil
}

// Reconfigure passes a new configuration to the parts of the policy. known is true if one
// part takes configurations of that type. A part that returns an error has kept its
// old configuration.
func (t *Tracker) Reconfigure(conf any) (known bool, err error) {
	t.wantOffer()
	t.full = fullUnknown
	for _, h := range t.hooks.Configs {
		ok, err := h.Reconfigure(conf)
		known = known || ok
		if err != nil {
			return known, err
		}
	}
	return known, nil
}

// Step takes in an event at a time since the run's start, and returns the effects, which
// the shell must carry out in order. Kills come before launches, and effects about
// outputs and ends of jobs come last. The slot of an attempt that Step kills may be given
// away in the same step, so the shell must stop the attempt before it carries out the
// effects that follow.
//
// Time does not run backwards: an earlier time counts as the latest so far. The slice is
// valid until the next Step.
func (t *Tracker) Step(now time.Duration, ev Event) []Effect {
	// Times of facts must rise, and a shell may read its clock before it waits for its turn.
	now = max(t.now, now)
	// Before the time moves: until now the reasons of the state before this step held.
	t.collectWaits(now)
	t.now = now
	t.stats.Steps++
	// The event may free a slot or change a job, and the answer of vain is about the state before.
	t.full = fullUnknown
	t.effects, t.ends, t.facts = t.effects[:0], t.ends[:0], t.facts[:0]
	// An update may change what the policy wants to preempt.
	if t.runPeriodic() {
		t.preempt()
	}
	// Before the event: a round of this step may launch a task whose pause has ended.
	t.releaseDelayed()
	t.preemptReduces()
	switch ev := ev.(type) {
	case *Submit:
		t.submit(ev)
	case *KillJob:
		t.killJob(ev)
	case *SetPriority:
		t.setPriority(ev)
	case *MoveJob:
		t.moveJob(ev)
	case *KillAttempt:
		t.killAttempt(ev)
	case *Join:
		t.join(ev)
	case *Drain:
		t.drain(ev)
	case *Lose:
		t.lose(t.nodes.List().Get(ev.Node), cluster.LeftOrderly)
	case *Heartbeat:
		t.heartbeat(ev)
	case *Offer:
		t.offer(ev)
	case *AskCommit:
		t.askCommit(ev)
	case *FetchFailed:
		t.fetchFailed(ev)
	case *CommitEnded:
		t.commitEnded(ev)
	case *AbortEnded:
		t.abortEnded(ev)
	case *Tick:
		t.tick()
	}
	t.releaseDelayed() // a pause of no length ends in the step that begins it
	// At the end: the shell stops the attempts of a job before it commits or aborts the job's
	// output.
	if len(t.ends) > 0 {
		t.effects = append(t.effects, t.ends...)
	}
	return t.effects
}

// emit adds an effect to the result of Step.
func (t *Tracker) emit(e Effect) { t.effects = append(t.effects, e) }

// emitAttempt adds an effect about an attempt.
func (t *Tracker) emitAttempt(kind EffectKind, a *job.Attempt, text string) {
	t.emit(Effect{Kind: kind, Job: a.Job().ID(), Attempt: a.ID(), Node: t.node(a).Name(),
		Slot: a.Slot(), Width: a.Width(), Speculative: a.Speculative(), Level: a.Level(), Text: text})
}

// node returns the node that an attempt runs or ran on.
func (t *Tracker) node(a *job.Attempt) *cluster.Node { return t.nodes.List().Node(a.Node()) }
