package protocol

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/tracker"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// A chain is an app of several jobs, its steps. The app's Chain function is code of the
// user, so it cannot run in the master. A worker runs it in a driver, a child process
// outside the task slots, which submits the steps with the ordinary Submit and waits for
// them:
//
//	client              core                worker              driver
//	  │ SubmitChain       │                   │                   │
//	  │──────────────────►│ record            │                   │
//	  │◄───────── chain-1 │                   │                   │
//	  │                   │ Drive (try 1)     │                   │
//	  │                   │──────────────────►│ start             │
//	  │                   │                   │──────────────────►│
//	  │                   │ Submit step, output                   │
//	  │                   │◄──────────────────────────────────────│
//	  │                   │ job j7, which the driver waits for    │
//	  │                   │──────────────────────────────────────►│
//	  │                   │                   │ done              │
//	  │                   │ driver succeeded  │◄──────────────────│
//	  │                   │◄──────────────────│                   │
//	  │                   │ RemoveChainDir, WriteChainHistory
//
// The client may disconnect at any time. The driver keeps no state: if it or its worker
// dies, the core orders another worker to run the function again from its beginning. A
// step is identified by its chain and its output. A repeated Submit of a step joins the
// job that runs, or returns the state of the job that has ended. So the function, which
// must be deterministic apart from the steps and the files that it reads, reaches the
// point at which its predecessor died. A repeated step with another name, other
// parameters or other inputs is refused: then the function is not deterministic, or two
// steps have one output.
//
// Two drivers of a chain may live for a while, because the worker of the first is cut
// off. Only the current driver's token is valid, so the other one cannot do anything.
//
//	            driver succeeded,              steps ended,           directory
//	            failed for good, kill          none entering          removed
//	running ──────────────────────► decided ──────────────► cleaning ─────────► described
//	                                                                               │
//	  final ◄──────────────────────────────────────────────────────────────────────┘
//	                                          entry is in the history
//
// The outcome is in the journal when it is decided. The orders that follow are
// idempotent, and Restore gives them again.

// ChainID is the number of a chain. A master counts its chains from 1.
type ChainID int32

// chainPrefix begins the name of every chain.
const chainPrefix = "chain-"

// String returns the name that users see, such as chain-12.
func (id ChainID) String() string { return chainPrefix + strconv.Itoa(int(id)) }

// IsChain reports whether a name is meant to be a chain's, even if it is not valid.
func IsChain(name string) bool { return strings.HasPrefix(name, chainPrefix) }

// ParseChain is the inverse of ChainID.String.
func ParseChain(name string) (ChainID, error) {
	digits, ok := strings.CutPrefix(name, chainPrefix)
	n, err := strconv.ParseInt(digits, 10, 32)
	if !ok || err != nil || n <= 0 || ChainID(n).String() != name {
		return 0, errorf(InvalidArgument, "%q is not the id of a chain, such as chain-12", name)
	}
	return ChainID(n), nil
}

// Limits of chains.
const (
	// MaxSteps is the largest number of jobs of a chain. It ends a function that submits
	// steps for ever.
	MaxSteps = bounds.Steps
	// MaxChainSpec bounds the description of a chain in bytes: it is part of the order
	// to the worker.
	MaxChainSpec = bounds.ChainSpec
	// maxPastChains is the number of remembered requests whose chains have ended.
	maxPastChains = 1000
)

// chainEntry is the state of a chain.
type chainEntry struct {
	id      ChainID
	request string // names the user and the request_id
	spec    *slotwisev1.ChainSpec
	size    int64 // bytes of spec
	anyFile bool  // the steps may name files outside the storage roots
	// authenticated says that the master has authenticated who submitted the chain.
	authenticated bool
	at            time.Duration // of the submission
	started       time.Duration // of the first driver; 0 before
	place         string        // of the output, by outputPlace
	steps         []*chainStep  // by job
	// entering counts the Submits of steps whose output is being staged or unstaged.
	entering int
	driver   driverState
	outcome  *chainOutcome         // nil while the chain runs
	cleaning bool                  // RemoveChainDir is ordered
	written  *slotwisev1.JobStatus // the last status, while the history is written
	final    *slotwisev1.JobStatus // the last status, once the history has it or unsaved is set
	unsaved  bool                  // as in jobEntry

	revision int64 // rises with each change that watchers see
	changed  bool  // since the revision; it rises with the next tick
	watchers []*chainWatcher
}

// chainStep is a job of a chain.
type chainStep struct {
	job    job.ID
	name   string
	output string
	digest string
	entry  *jobEntry             // nil once the job is in the history
	ended  *slotwisev1.JobStatus // then its last status, without counters
}

// chainOutcome is a chain's final state, with its message and time.
type chainOutcome struct {
	state   slotwisev1.JobState
	message string
	at      time.Duration
}

// chainTable holds the chains of a core.
type chainTable struct {
	byID     map[ChainID]*chainEntry
	live     []*chainEntry // without a final status, by id
	ended    []ChainID     // with one, the first to end first
	requests map[string]ChainID
	past     []pastChain // of chains in the history, oldest first
	last     ChainID     // the number given last
}

// pastChain is the request of a chain that is in the history.
type pastChain struct {
	id      ChainID
	request string
}

func newChainTable() chainTable {
	return chainTable{byID: map[ChainID]*chainEntry{}, requests: map[string]ChainID{}}
}

// noChain is the error for a chain that the core does not have.
func noChain(id ChainID) error { return errorf(NotFound, "no chain %s", id) }

// job returns the description that all steps share.
func (ch *chainEntry) job() *slotwisev1.JobSpec { return ch.spec.Job }

// submitChain answers with the request's chain, or accepts one. The chain's output is its
// own from now on, so that no other job takes it before the last step. Nothing is staged:
// the last step does that.
func (c *Core) submitChain(m *SubmitChain) {
	if id := c.chains.requests[m.Request]; id != 0 {
		c.reply(m.Call, &slotwisev1.SubmitChainResponse{Chain: id.String()})
		return
	}
	// As in submit: nothing is counted or recorded before all checks have passed.
	err := c.hasRoomForChain(m.Spec)
	if err == nil {
		err = c.checkQueue(m.Spec.Job.Pool)
	}
	if err == nil {
		err = c.outputIsFree(m.Spec.Job, 0)
	}
	if err != nil {
		c.refuse(m.Call, err)
		return
	}
	ch := c.addChain(&slotwisev1.JournalChain{Chain: int32(c.chains.last + 1), Request: m.Request, Spec: m.Spec, At: int64(c.now), AnyFile: m.AnyFile, Authenticated: m.Authenticated})
	c.record(ch.record())
	c.order(&HoldFiles{ch.job().Program})
	c.logInfo("chain accepted", "chain", ch.id.String(), "name", ch.job().Name, "user", ch.job().User, "pool", ch.job().Pool, "output", ch.job().Output)
	c.reply(m.Call, &slotwisev1.SubmitChainResponse{Chain: ch.id.String()})
	c.assignDrivers()
}

// addChain enters a live chain.
func (c *Core) addChain(r *slotwisev1.JournalChain) *chainEntry {
	ch := &chainEntry{
		id: ChainID(r.Chain), request: r.Request, spec: r.Spec, size: int64(proto.Size(r.Spec)), at: time.Duration(r.At), anyFile: r.AnyFile, authenticated: r.Authenticated,
		place:    outputPlace(r.Spec.Job.Output),
		revision: c.epoch.Add(c.base).UnixMilli(), // higher than in earlier lives
	}
	t := &c.chains
	t.byID[ch.id], t.requests[ch.request] = ch, ch.id
	t.live = append(t.live, ch)
	c.room.chains.Add(ch.job().User, 1)
	c.room.specs.Add(ch.job().User, ch.size)
	t.last = max(t.last, ch.id)
	return ch
}

// removeLiveChain takes a chain off the live list.
func (c *Core) removeLiveChain(ch *chainEntry) {
	c.chains.live = slices.DeleteFunc(c.chains.live, func(x *chainEntry) bool { return x == ch })
	c.room.chains.Add(ch.job().User, -1)
	c.room.specs.Add(ch.job().User, -ch.size)
}

// chainOf returns the chain that a job is a step of, or nil.
func (c *Core) chainOf(j *jobEntry) *chainEntry {
	if j.spec.Chain == "" {
		return nil
	}
	id, err := ParseChain(j.spec.Chain)
	if err != nil {
		return nil
	}
	return c.chains.byID[id]
}

// stepRequest is the request of a step, which no user's request can equal.
func stepRequest(id ChainID, output string) string {
	sum := sha256.Sum256([]byte(output))
	return "\x00" + id.String() + "\x00" + hex.EncodeToString(sum[:16])
}

// admitStep completes the Submit of a step and reports whether the caller must submit the
// job. If it returns false, the step is known or refused, and admitStep has answered the
// call.
func (c *Core) admitStep(m *Submit) bool {
	id, err := ParseChain(m.Spec.Chain)
	ch := c.chains.byID[id]
	switch {
	case err != nil:
	case ch == nil:
		err = noChain(id)
	// A driver that was cut off may submit a step after its chain was killed. The step would
	// run for nothing and write into a directory that is being removed.
	case ch.outcome != nil:
		err = errorf(FailedPrecondition, "%s has ended", id)
	}
	if err != nil {
		c.refuse(m.Call, err)
		return false
	}
	// The step's output identifies it, not an id of the driver's: a new driver runs the
	// function from its beginning and must meet the steps of the one before.
	m.Request = stepRequest(id, m.Spec.Output)
	if s := ch.stepTo(m.Spec.Output); s != nil {
		if err := s.sameAs(id, m.Spec); err != nil {
			c.refuse(m.Call, err)
		} else {
			c.reply(m.Call, &slotwisev1.SubmitResponse{Job: s.job.String()})
		}
		return false
	}
	// The step's output is being staged on behalf of an earlier driver. The caller joins it,
	// unless it describes another step.
	if r := c.requests[m.Request]; r != nil && r.entry != nil && !r.removing {
		s := chainStep{name: r.entry.spec.Program.GetStep(), output: r.entry.spec.Output, digest: r.entry.spec.Digest}
		if err := s.sameAs(id, m.Spec); err != nil {
			c.refuse(m.Call, err)
			return false
		}
		return true
	}
	// Steps that are entering count, or a function that submits many at once would pass the
	// limit.
	if len(ch.steps)+ch.entering >= MaxSteps {
		c.refuse(m.Call, errorf(FailedPrecondition, "%s has %d steps, which is the most: does its function submit steps for ever?", id, MaxSteps))
		return false
	}
	ch.inherit(m)
	return true
}

// inherit sets the fields that a step must not choose: the chain's owner and whether the
// master knows it, the chain's current pool and priority, and its program.
func (ch *chainEntry) inherit(m *Submit) {
	from, s := ch.job(), m.Spec
	s.User, s.Pool, s.Priority = from.User, from.Pool, from.Priority
	m.Authenticated = ch.authenticated
	// A driver must not be able to run another program as the chain's owner.
	s.Program.Executable, s.Program.Files = from.Program.GetExecutable(), from.Program.GetFiles()
	priority, _ := job.ParsePriority(s.Priority) // Normal if the chain names none
	m.Core.User, m.Core.Pool, m.Core.Priority = s.User, s.Pool, priority
}

// stepTo returns the step with an output, or nil.
func (ch *chainEntry) stepTo(output string) *chainStep {
	for _, s := range ch.steps {
		if s.output == output {
			return s
		}
	}
	return nil
}

// sameAs returns an error unless a spec describes the step again.
func (s *chainStep) sameAs(id ChainID, spec *slotwisev1.JobSpec) error {
	switch {
	case s.name != spec.Program.GetStep():
		return errorf(FailedPrecondition, "%s: step %s writes to %s, which is the output of step %s: each step needs an output of its own", id, spec.Program.GetStep(), s.output, s.name)
	case s.digest != spec.Digest:
		return errorf(FailedPrecondition, "%s: step %s to %s has other parameters or inputs than before the driver was started again: the chain's function must be deterministic", id, s.name, s.output)
	}
	return nil
}

// stepWanted returns an error for a step whose chain has ended while its output was
// being staged.
func (c *Core) stepWanted(j *jobEntry) error {
	if ch := c.chainOf(j); j.spec.Chain != "" && (ch == nil || ch.outcome != nil) {
		return errorf(FailedPrecondition, "%s has ended", j.spec.Chain)
	}
	return nil
}

// stepEntering counts a step whose Submit is under way, by 1 or -1. The last one may
// hold up the chain's end.
func (c *Core) stepEntering(j *jobEntry, by int) {
	if ch := c.chainOf(j); ch != nil {
		ch.entering += by
		c.finishChain(ch)
	}
}

// addStep enters a job that has been accepted as a step of its chain.
func (c *Core) addStep(j *jobEntry) {
	ch := c.chainOf(j)
	if ch == nil || slices.ContainsFunc(ch.steps, func(s *chainStep) bool { return s.job == j.id }) {
		return // the journal ended between the step's end and the job's
	}
	ch.insert(&chainStep{job: j.id, name: j.spec.Program.GetStep(), output: j.spec.Output, digest: j.spec.Digest, entry: j})
}

// insert adds a step at its position.
func (ch *chainEntry) insert(s *chainStep) {
	i, found := slices.BinarySearchFunc(ch.steps, s.job, func(s *chainStep, id job.ID) int { return cmp.Compare(s.job, id) })
	if found {
		ch.steps[i] = s
		return
	}
	ch.steps = slices.Insert(ch.steps, i, s)
	ch.changed = true
}

// stepEnded notes the last status of a step that is in the history now.
func (c *Core) stepEnded(j *jobEntry) {
	ch := c.chainOf(j)
	if ch == nil {
		return
	}
	st := proto.CloneOf(j.described)
	// The chain and each snapshot keep this status for as long as the chain runs, so it must be
	// small.
	st.MapCounters, st.ReduceCounters, st.Locality = nil, nil, nil
	st.LogTail = "" // the history has it
	s := &chainStep{job: j.id, name: j.spec.Program.GetStep(), output: j.spec.Output, digest: j.spec.Digest, ended: st}
	ch.insert(s)
	// The chain makes progress, so its function is not what takes workers down.
	ch.driver.lost = 0
	ch.changed = true
	// Precedes the record that the job is finished, after which the journal has nothing else
	// about the step.
	c.record(ch.endedRecord(s))
	c.finishChain(ch)
}

// decideChain ends a chain: it kills the steps that still run and stops the driver.
func (c *Core) decideChain(ch *chainEntry, state slotwisev1.JobState, message string) {
	ch.outcome = &chainOutcome{state, message, c.now}
	ch.changed = true
	// Before the kills below: if the master dies between their records, Restore finds the
	// outcome and kills the other steps.
	c.record(ch.outcomeRecord())
	c.logInfo("chain decided", "chain", ch.id.String(), "state", StateWord(state), "message", message)
	c.stopDriver(ch, "the chain has ended")
	c.killSteps(ch)
	c.finishChain(ch)
}

// killSteps kills the steps that have not ended.
func (c *Core) killSteps(ch *chainEntry) {
	for _, s := range slices.Clone(ch.steps) {
		if s.entry != nil && !s.entry.decided() {
			c.step(&tracker.KillJob{Job: s.job, Reason: ch.id.String() + " has ended"})
		}
	}
}

// finishChain orders the directory of a decided chain to be removed, once no step can
// write to it any more.
func (c *Core) finishChain(ch *chainEntry) {
	// A step that still runs, or whose output is being staged, could write into the directory
	// after its removal.
	live := slices.ContainsFunc(ch.steps, func(s *chainStep) bool { return s.ended == nil })
	if ch.outcome == nil || ch.cleaning || ch.entering > 0 || live {
		return
	}
	ch.cleaning = true
	c.order(&RemoveChainDir{Chain: ch.id, URI: c.chainDir(ch)})
}

// chainDir names the directory of a chain's intermediate outputs, hidden beside its
// output.
func (c *Core) chainDir(ch *chainEntry) string {
	out := strings.TrimRight(ch.job().Output, "/")
	i := strings.LastIndexByte(out, '/') + 1
	return fmt.Sprintf("%s.%s.%s-%.12s", out[:i], out[i:], ch.id, hashed(c.id, ch.request))
}

// chainCleaned has a chain stored in the history.
func (c *Core) chainCleaned(m *ChainCleaned) {
	ch := c.chains.byID[m.Chain]
	if ch == nil || !ch.cleaning || ch.written != nil {
		return
	}
	// The chain's own output is in place. A directory that stays must not keep the chain from
	// ending.
	if m.Err != nil {
		c.logWarn("the intermediate files of a chain cannot be removed", "chain", ch.id.String(), "dir", c.chainDir(ch), "error", m.Err)
	}
	ch.written = c.describeChain(ch)
	ch.written.State, ch.written.Waiting = ch.outcome.state, ""
	c.order(&WriteChainHistory{Chain: ch.id, Entry: &slotwisev1.HistoryJob{Job: proto.CloneOf(ch.written), Steps: c.stepStatuses(ch, true)}})
}

// chainInHistory makes a chain final, as historyWritten does for a job.
func (c *Core) chainInHistory(m *ChainInHistory) {
	ch := c.chains.byID[m.Chain]
	if ch == nil || ch.written == nil || ch.final != nil && !ch.unsaved {
		return
	}
	// As in historyWritten: users see the end although the history cannot be written now.
	if ch.final == nil {
		c.logInfo("chain ended", "chain", ch.id.String(), "name", ch.job().Name, "state", StateWord(ch.outcome.state), "message", ch.outcome.message)
		ch.final = ch.written
		c.reviseChain(ch)
	}
	if ch.unsaved = m.Err != nil; ch.unsaved {
		return
	}
	t := &c.chains
	c.record(chainFinishedRecord(pastChain{ch.id, ch.request}))
	c.order(&ReleaseFiles{ch.job().Program})
	c.removeLiveChain(ch)
	t.ended = append(t.ended, ch.id)
	t.remember(pastChain{ch.id, ch.request})
	for len(t.ended) > max(0, c.cfg.KeepEnded) {
		delete(t.byID, t.ended[0])
		t.ended = t.ended[1:]
	}
}

// remember notes the request of a chain that is in the history and forgets the oldest
// ones beyond maxPastChains.
func (t *chainTable) remember(p pastChain) {
	t.requests[p.request] = p.id
	t.last = max(t.last, p.id)
	t.past = append(t.past, p)
	for len(t.past) > maxPastChains {
		delete(t.requests, t.past[0].request)
		t.past = t.past[1:]
	}
}

// killChain ends a chain, its driver and its steps. A chain that has been killed already is
// no error, as in killJob.
func (c *Core) killChain(m *KillChain) {
	ch := c.chains.byID[m.Chain]
	switch {
	case ch == nil:
		c.refuse(m.Call, noChain(m.Chain))
		return
	case ch.outcome != nil && ch.outcome.state != slotwisev1.JobState_JOB_STATE_KILLED:
		c.refuse(m.Call, errorf(FailedPrecondition, "%s has ended", m.Chain))
		return
	}
	if ch.outcome == nil {
		c.decideChain(ch, slotwisev1.JobState_JOB_STATE_KILLED, bounds.Cut(cmp.Or(m.Reason, "killed by request"), bounds.Text))
	}
	c.reply(m.Call, &slotwisev1.KillResponse{})
}

// changeChain changes the pool or the priority of a chain's later steps, and of those
// that have not ended.
func (c *Core) changeChain(m *ChangeChain) {
	ch := c.chains.byID[m.Chain]
	switch {
	case ch == nil:
		c.refuse(m.Call, noChain(m.Chain))
		return
	case ch.outcome != nil:
		c.refuse(m.Call, errorf(FailedPrecondition, "%s has ended", m.Chain))
		return
	}
	// An unknown queue is refused before the chain's record changes: its later steps are not
	// checked again.
	if err := c.checkQueue(m.Pool); err != nil {
		c.refuse(m.Call, err)
		return
	}
	if m.Pool != "" {
		ch.job().Pool = m.Pool
	} else {
		ch.job().Priority = m.Priority.String()
	}
	// The chain's own record decides the pool and the priority of later steps; the steps that
	// run are changed one by one below.
	c.record(ch.changedRecord())
	ch.changed = true
	for _, s := range slices.Clone(ch.steps) {
		switch {
		case s.entry == nil || s.entry.decided():
		case m.Pool != "":
			c.step(&tracker.MoveJob{Job: s.job, Pool: m.Pool})
		default:
			c.step(&tracker.SetPriority{Job: s.job, Priority: m.Priority})
		}
	}
	c.reply(m.Call, m.OK)
}
