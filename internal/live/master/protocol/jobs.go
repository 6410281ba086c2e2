package protocol

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/live/wire"
	"github.com/slotwise/slotwise/internal/tracker"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// jobEntry holds the core's state of a job that the tracker does not have.
//
//	           CommitOutput,                    no attempt alive,
//	           AbortOutput                      or Grace over
//	accepted ───────────────► output pending ──────────────────► output ordered
//	                               ▲                               │ OutputFinished
//	                               └───── AbortOutput ◄────────────┤
//	          HistoryWritten             WriteHistory              │ JobDone
//	   final ◄───────────────── ended ◄────────────────────────────┘
//	     ▲   HistoryWritten       │
//	     └──────── unsaved ◄──────┘ HistoryWritten with an error
type jobEntry struct {
	id      job.ID
	core    *job.Job // the tracker's; nil if the tracker had forgotten it before a restart
	request string   // names the user and the request_id
	spec    *slotwisev1.JobSpec
	maps    int
	input   int64  // bytes of all splits
	size    int64  // bytes of spec when the job was submitted, or read from the journal
	place   string // of the output, by outputPlace; empty without output
	token   string // of the output's staging directory
	secret  []byte // with which reduces prove that they may fetch
	// authenticated says that the master has authenticated who submitted the job, so
	// that attempts may run as its user.
	authenticated bool
	counted       bool                             // in Core.room
	forWorkers    *slotwisev1.JobForWorkerResponse // nil until a worker needs it
	brief         bool                             // forWorkers has at most maxDescription bytes

	errors    int                   // bytes of attempts' errors and ends of logs in this life
	alive     int                   // attempts of the job in workers' alive lists
	nodes     map[string]bool       // on which an attempt was ever launched
	output    *tracker.Effect       // CommitOutput or AbortOutput without an order yet
	cancelled bool                  // CancelOutput came while output was pending
	delayed   string                // why the last try to commit or abort failed; "" if none did
	end       *tracker.FactJobEnded // nil until the output is in place or gone
	described *slotwisev1.JobStatus // the last status, while the history is written
	final     *slotwisev1.JobStatus // the last status, once the history has it or unsaved is set
	// unsaved says that the history could not take the job yet. For users the job has ended.
	// It stays in Core.live and in the journal, so it counts against the limits of jobs and
	// tasks: they bound what waits for the history.
	unsaved bool

	outputs  outputLog
	revision int64 // rises with each change that watchers see
	changed  bool  // since the revision; it rises with the next tick
	watchers []*watcher
}

// decided reports whether the job's outcome is decided, so that none of its tasks
// runs any more.
func (j *jobEntry) decided() bool { return j.core == nil || !j.core.State().Live() }

// newJob makes the entry of a job that has no id yet.
func (c *Core) newJob(request string, spec *slotwisev1.JobSpec, core job.Spec) *jobEntry {
	j := &jobEntry{
		request: request, spec: spec, size: int64(proto.Size(spec)), maps: len(core.Splits), nodes: map[string]bool{},
		revision: c.epoch.Add(c.base).UnixMilli(), // higher than in earlier lives
	}
	for _, s := range core.Splits {
		j.input += s.Bytes
	}
	if spec.Output != "" {
		j.place = outputPlace(spec.Output)
	}
	return j
}

// addJob enters a job that has an id.
func (c *Core) addJob(j *jobEntry) {
	c.jobs[j.id] = j
	i, _ := slices.BinarySearchFunc(c.live, j.id, func(j *jobEntry, id job.ID) int { return int(j.id - id) })
	c.live = slices.Insert(c.live, i, j)
	c.room.count(j)
}

// removeLive takes a job off the live list.
func (c *Core) removeLive(j *jobEntry) {
	c.live = slices.DeleteFunc(c.live, func(x *jobEntry) bool { return x == j })
	c.room.uncount(j)
}

// tasksOf returns the number of the job's tasks.
func (j *jobEntry) tasksOf() int { return j.maps + int(j.spec.Reduces) }

// launch accounts for a new attempt and sends the order to its worker.
func (c *Core) launch(j *jobEntry, e tracker.Effect) {
	c.attemptStarted(j, e.Attempt, e.Node)
	j.nodes[e.Node] = true
	s := c.sessionOf(e.Node)
	// The launch is in the journal whether or not it can be sent.
	if s == nil {
		return // once registered again, the worker does not name the attempt, which is then lost
	}
	l := &slotwisev1.Launch{Attempt: e.Attempt.String(), Slot: WireKind(e.Slot), Speculative: e.Speculative, Staging: j.token, Width: wireWidth(int32(e.Width))}
	// Synthetic maps have no splits: the attempt generates its input from its index.
	if e.Attempt.Kind == job.Map && len(j.spec.Splits) > 0 {
		l.Split = j.spec.Splits[e.Attempt.Index]
	}
	// The worker then need not ask for the description. It asks for a large one, which would
	// delay the other actions.
	if d := j.describe(); j.brief && !s.knows[j.id] {
		s.knows[j.id] = true
		l.Job = d
	}
	c.send(s, &slotwisev1.Action{What: &slotwisev1.Action_Launch{Launch: l}})
}

// maxDescription is the size in bytes up to which a launch carries its job's description.
const maxDescription = 16 << 10

// kill orders a worker to stop an attempt and remove its output.
func (c *Core) kill(e tracker.Effect) {
	// A worker without a session names the attempt when it registers, and the tracker then orders
	// the kill again.
	if s := c.sessionOf(e.Node); s != nil {
		k := &slotwisev1.Kill{Attempt: e.Attempt.String(), Reason: e.Text}
		c.send(s, &slotwisev1.Action{What: &slotwisev1.Action_Kill{Kill: k}})
	}
}

// startOutput notes that the tracker wants the job's output committed or aborted.
func (c *Core) startOutput(j *jobEntry, e tracker.Effect) {
	// No reduce of the job runs any more, so its readers need not wait.
	c.endOutputs(j)
	// An abort that follows a failed commit starts without the cancellation, which was meant for
	// the commit.
	j.output, j.cancelled = &e, false
	c.finishOutput(j)
}

// finishOutput orders the output of a job to be committed or aborted, once none of
// the job's attempts can write to it any more. An attempt on a worker that does not
// answer is waited for no longer than Config.Grace.
func (c *Core) finishOutput(j *jobEntry) {
	// A killed attempt may still add its file to the staged output until its worker says that
	// it has ended. The commit or removal waits for that, as long as Grace: a worker that is
	// cut off must not keep the job from ending. Since it has no permission to commit, the
	// file that it may still write is not published.
	if j.output == nil || j.alive > 0 && c.now < j.core.Decided()+c.cfg.Grace {
		return
	}
	if j.output.Kind == tracker.CommitOutput {
		c.order(&CommitOutput{Job: j.id, URI: j.spec.Output, Token: j.token, Since: j.core.Decided()})
	} else {
		c.order(&AbortOutput{Job: j.id, URI: j.spec.Output, Token: j.token})
	}
	// The kill came before the order. The shell must get both, in this order, or it would
	// retry the commit of a job that the user has killed.
	if j.cancelled {
		c.order(&CancelOutput{j.id})
	}
	j.output, j.changed = nil, true
}

// cancelOutput has the shell stop its retries. An abort that has not failed continues: a
// client repeats its kill when the answer is lost, and the repetition must not cancel the
// abort that the first one has led to.
func (c *Core) cancelOutput(j *jobEntry) {
	if j.core.State() == job.Aborting && j.delayed == "" {
		return
	}
	// The order has not been given, so the shell has no retries to stop yet. finishOutput gives
	// both.
	if j.output != nil {
		j.cancelled = true
		return
	}
	c.order(&CancelOutput{j.id})
}

// outputDelayed notes why a job's output is not committed or aborted yet.
func (c *Core) outputDelayed(m *OutputDelayed) {
	j := c.jobs[m.Job]
	if j == nil || j.core == nil || j.end != nil {
		return
	}
	verb := "removed"
	if j.core.State() == job.Committing {
		verb = "published"
	}
	// Logged once for each commit: the shell tries again for hours when a storage is down.
	if j.delayed == "" {
		c.logWarn("the output of a job cannot be "+verb+" now: the master tries again", "job", j.id.String(), "error", m.Err)
	}
	j.delayed = "its output cannot be " + verb + " now, the master tries again: " + bounds.Cut(m.Err.Error(), bounds.Text)
	j.changed = true
}

// outputFinished tells the tracker how the commit or abort of a job's output ended.
func (c *Core) outputFinished(m *OutputFinished) {
	j := c.jobs[m.Job]
	if j == nil || j.end != nil {
		return
	}
	j.delayed = ""
	text := ""
	if m.Err != nil {
		c.logWarn("the output of a job was given up", "job", j.id.String(), "commit", m.Commit, "error", m.Err)
		text = bounds.Cut(m.Err.Error(), bounds.Text)
	}
	if m.Commit {
		c.step(&tracker.CommitEnded{Job: j.id, Error: text})
		return
	}
	if m.Published {
		c.logWarn("the output of a job was published although its commit had failed: the job has succeeded", "job", j.id.String())
	}
	c.step(&tracker.AbortEnded{Job: j.id, Error: text, Published: m.Published})
}

// endJob makes the last description of a job, and has it stored.
func (c *Core) endJob(j *jobEntry, end *tracker.FactJobEnded) {
	j.end = end
	st := c.status(j)
	st.State, st.Message, st.EndedMs, st.Waiting = wireState(end.State), end.Message, c.millis(end.At), ""
	j.described = st
	request, _ := wire.DecodeRequest(j.spec) // it was checked at the submission
	// A clone, because the shell encodes the entry beside the loop, and concludeJob changes the
	// status meanwhile.
	entry := &slotwisev1.HistoryJob{Job: proto.CloneOf(st), Request: PastRequest(&request), Held: heldBack(j, func(job.Wait) bool { return true })}
	for k := range job.Kind(job.Kinds) {
		entry.Tasks = slices.AppendSeq(entry.Tasks, c.taskStatuses(j, k, 0))
	}
	c.order(&WriteHistory{Job: j.id, Entry: entry})
}

// historyWritten makes a job final. Once the history has it, the journal needs it no more.
func (c *Core) historyWritten(m *HistoryWritten) {
	j := c.jobs[m.Job]
	// A job that is final and saved has had its last result. An unsaved one waits for the result of
	// the shell's next try.
	if j == nil || j.described == nil || j.final != nil && !j.unsaved {
		return
	}
	// Users see the end with the first result, even if that is an error: a history that cannot
	// be written must not keep clients waiting for jobs whose output is in place.
	if j.final == nil {
		c.concludeJob(j)
	}
	// The journal must keep the job, because it is the only place that has its end now.
	if j.unsaved = m.Err != nil; j.unsaved {
		return
	}
	if j.spec.Chain == "" {
		c.record(finishedRecord(j.id, j.request))
		c.remember(pastRequest{j.id, j.request})
	} else { // the chain remembers its steps; a repeated Submit of the step finds it there
		c.record(finishedRecord(j.id, ""))
		delete(c.requests, j.request)
	}
	c.order(&ReleaseFiles{j.spec.Program})
	c.removeLive(j)
	c.ended = append(c.ended, j.id)
	// Ended jobs stay in memory and are not counted in room.specs, so they keep what answers need.
	// The order to release files has the old message.
	j.spec.Splits, j.spec.Layouts, j.forWorkers = nil, nil, nil
	j.spec.Program = &slotwisev1.Program{App: j.spec.Program.GetApp(), Step: j.spec.Program.GetStep()}
	c.forget()
}

// concludeJob shows users that a job has ended, and lets workers drop its files.
func (c *Core) concludeJob(j *jobEntry) {
	if j.spec.Chain != "" {
		c.stepEnded(j)
	}
	c.dropFiles(j)
	st := j.described
	c.logInfo("job ended", "job", st.Id, "name", st.Name, "state", StateWord(st.State), "message", st.Message)
	j.final = st
	c.revise(j)
	// revise sets it only if somebody watches the job.
	st.Revision = j.revision
}

// dropFiles orders the workers to remove the files of an ended job.
func (c *Core) dropFiles(j *jobEntry) {
	for _, w := range c.list {
		// A worker without a session hears of the job's end in the answer to its next registration
		// (endedJobs).
		if w.session != nil && j.nodes[w.name] {
			delete(w.session.knows, j.id)
			c.send(w.session, &slotwisev1.Action{What: &slotwisev1.Action_DropJob{DropJob: j.id.String()}})
		}
	}
}

// forget drops the oldest ended jobs beyond Config.KeepEnded. Users find them in the
// history, and their requests stay in Core.requests.
func (c *Core) forget() {
	for len(c.ended) > max(0, c.cfg.KeepEnded) {
		delete(c.jobs, c.ended[0])
		c.ended = c.ended[1:]
	}
}

// watcher is a held WatchJob call.
type watcher struct{ m *WatchJob }

// watchJob answers with the job's status or holds the call.
func (c *Core) watchJob(m *WatchJob) {
	j := c.jobs[m.Job]
	if j == nil {
		c.refuse(m.Call, noJob(m.Job))
		return
	}
	// If the user's share of held calls is used up, the call is answered at once and the
	// client asks again: it sees the same changes, at a higher cost.
	if m.Wait && j.revision <= m.After && j.final == nil && c.room.watches.Take(m.User, 1) {
		w := &watcher{m}
		j.watchers = append(j.watchers, w)
		c.held[m.Call] = w
		return
	}
	c.reply(m.Call, &slotwisev1.JobResponse{Job: c.statusNow(j)})
}

// statusNow returns a job's status with the reason why it waits.
func (c *Core) statusNow(j *jobEntry) *slotwisev1.JobStatus {
	s := c.status(j)
	if j.final == nil { // all callers share a final status, so it must not change
		s.Waiting = c.waitReason(j)
	}
	return s
}

// release implements waiter.
func (w *watcher) release(c *Core) {
	delete(c.held, w.m.Call)
	c.room.watches.Add(w.m.User, -1)
	j := c.jobs[w.m.Job]
	// The job is in the table: a job leaves it after its final revision, which answers all
	// watchers.
	j.watchers = slices.DeleteFunc(j.watchers, func(x *watcher) bool { return x == w })
	c.reply(w.m.Call, &slotwisev1.JobResponse{Job: c.statusNow(j)})
}

// revise raises a job's revision and answers its watchers. It is called at ticks, not for
// each change, so that a busy job does not wake its watchers for each of its attempts.
func (c *Core) revise(j *jobEntry) {
	j.changed = false
	j.revision++
	// A chain's status sums up its steps.
	if ch := c.chainOf(j); ch != nil {
		ch.changed = true
	}
	// A status costs a walk through the policy's order, for the wait reason.
	if len(j.watchers) == 0 {
		return
	}
	st := c.statusNow(j)
	if j.final != nil {
		// A final status is not made anew, so its revision has to follow.
		st.Revision = j.revision
	}
	for _, w := range j.watchers {
		delete(c.held, w.m.Call)
		c.room.watches.Add(w.m.User, -1)
		c.reply(w.m.Call, &slotwisev1.JobResponse{Job: st})
	}
	j.watchers = nil
}

// noJob is the error for a job that the core does not have. The shell looks into
// the history then.
func noJob(id job.ID) error { return errorf(NotFound, "no job %s", id) }

// hasEnded is the error for a change of a job that has ended.
func hasEnded(id job.ID) error { return errorf(FailedPrecondition, "job %s has ended", id) }

// killJob ends a job. During the commit of its output the tracker cancels that
// instead. A job that has been killed already is no error, because a client repeats its
// request if the reply is lost.
func (c *Core) killJob(m *KillJob) {
	j := c.jobs[m.Job]
	switch {
	case j == nil:
		c.refuse(m.Call, noJob(m.Job))
		return
	case j.final != nil && j.final.State != slotwisev1.JobState_JOB_STATE_KILLED:
		c.refuse(m.Call, hasEnded(m.Job))
		return
	}
	c.step(&tracker.KillJob{Job: j.id, Reason: bounds.Cut(m.Reason, bounds.Text)})
	c.reply(m.Call, &slotwisev1.KillResponse{})
}

// killAttempt ends a running attempt.
func (c *Core) killAttempt(m *KillAttempt) {
	if a := c.tracker.Jobs().Attempt(m.Attempt); a == nil || a.State() != job.AttemptRunning {
		c.refuse(m.Call, errorf(FailedPrecondition, "attempt %s is not running", m.Attempt))
		return
	}
	// The reason becomes the attempt's error. The task runs again, so a user may kill its attempts without end.
	reason := c.jobs[m.Attempt.Job].boundText(bounds.Cut(m.Reason, bounds.Text))
	c.step(&tracker.KillAttempt{Attempt: m.Attempt, Reason: reason})
	c.reply(m.Call, &slotwisev1.KillResponse{})
}

// changeJob hands an event to the tracker that changes a running job.
func (c *Core) changeJob(call Call, id job.ID, ev tracker.Event, ok any) {
	j := c.jobs[id]
	switch {
	case j == nil:
		c.refuse(call, noJob(id))
	case j.decided():
		c.refuse(call, hasEnded(id))
	default:
		c.step(ev)
		j.changed = true
		c.reply(call, ok)
	}
}

// moveJob puts a job into another pool. Running attempts continue.
func (c *Core) moveJob(m *MoveJob) {
	if err := c.checkQueue(m.Pool); err != nil {
		c.refuse(m.Call, err)
		return
	}
	c.changeJob(m.Call, m.Job, &tracker.MoveJob{Job: m.Job, Pool: m.Pool}, &slotwisev1.MoveResponse{})
}

// setPriority changes the position of a job among the others. Running attempts continue.
func (c *Core) setPriority(m *SetPriority) {
	c.changeJob(m.Call, m.Job, &tracker.SetPriority{Job: m.Job, Priority: m.Priority}, &slotwisev1.SetPriorityResponse{})
}

// drain gives a node no new work, or work again.
func (c *Core) drain(m *Drain) {
	if c.tracker.Nodes().Get(m.Node) == nil {
		c.refuse(m.Call, errorf(NotFound, "no node %s", m.Node))
		return
	}
	c.step(&tracker.Drain{Node: m.Node, Undo: m.Undo})
	if w := c.workers[m.Node]; w != nil && !m.Undo {
		c.moveDrivers(w)
	}
	c.assignDrivers()
	c.reply(m.Call, &slotwisev1.DrainResponse{})
}

// jobForWorker answers a worker that has been ordered to launch an attempt of the
// job. The job was durable before that order left, so the answer may leave early.
func (c *Core) jobForWorker(m *JobForWorker) {
	switch j := c.jobs[m.Job]; {
	case c.sessions[m.Session] == nil:
		c.refuse(m.Call, errSessionOver)
	case j == nil || j.final != nil:
		c.refuse(m.Call, errorf(NotFound, "job %s has ended", m.Job))
	default:
		c.replyEarly(m.Call, j.describe())
	}
}

// describe returns what all attempts of the job need. All workers share it, and it shares the parts of the
// job's specification: a copy would double the memory that Core.room counts.
func (j *jobEntry) describe() *slotwisev1.JobForWorkerResponse {
	if j.forWorkers == nil {
		j.forWorkers = &slotwisev1.JobForWorkerResponse{Spec: withoutSplits(j.spec), Maps: int32(j.maps), Staging: j.token, Secret: j.secret, Owner: ownerOf(j.spec, j.authenticated)}
		j.brief = proto.Size(j.forWorkers) <= maxDescription
	}
	return j.forWorkers
}

// ownerOf returns the user as whom a worker may run the processes of a job or chain; "" if
// the master has not authenticated the submitter.
func ownerOf(spec *slotwisev1.JobSpec, authenticated bool) string {
	if !authenticated {
		return ""
	}
	return spec.User
}

// ParseState is the inverse of StateWord. It returns 0 for an unknown word.
func ParseState(word string) slotwisev1.JobState {
	return slotwisev1.JobState(slotwisev1.JobState_value["JOB_STATE_"+strings.ToUpper(word)])
}

// StateWord returns a job's state in lower case.
func StateWord(s slotwisev1.JobState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "JOB_STATE_"))
}
