package protocol

import (
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/tracker"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// worker is the state that belongs to a worker's name, over all its sessions. It is
// removed when the tracker has forgotten the node.
type worker struct {
	name    string
	session *session // the current one; nil if there is none
	// alive are the attempts that may run on the worker, oldest launch first. An
	// attempt that the tracker has killed or given up stays until the worker says
	// that it has ended, or is lost: only then is it certain not to write to the
	// job's output any more.
	alive []job.AttemptID
	// drivers are the chains whose current driver is on the worker.
	drivers []*chainEntry
}

// worker returns the entry of a name, and makes it if there is none.
func (c *Core) worker(name string) *worker {
	w := c.workers[name]
	if w == nil {
		w = &worker{name: name}
		c.workers[name] = w
		c.list = append(c.list, w)
	}
	return w
}

// sessionOf returns the current session of a worker, or nil.
func (c *Core) sessionOf(name string) *session {
	if w := c.workers[name]; w != nil {
		return w.session
	}
	return nil
}

// nodeOf returns the name of the node on which an attempt runs or ran.
func (c *Core) nodeOf(a *job.Attempt) string { return c.tracker.Nodes().Node(a.Node()).Name() }

// attemptStarted notes that an attempt may run on a worker from now on.
func (c *Core) attemptStarted(j *jobEntry, id job.AttemptID, node string) {
	w := c.worker(node)
	// A registration lists attempts that are on the list already. Counting one twice would keep its
	// job's output waiting until Config.Grace has passed.
	if !slices.Contains(w.alive, id) {
		w.alive = append(w.alive, id)
		j.alive++
	}
}

// attemptEnded notes that an attempt does not run on a worker any more. If it was
// the last one of a job whose output waits for that, the output is ordered to be
// committed or aborted.
func (c *Core) attemptEnded(w *worker, id job.AttemptID) {
	i := slices.Index(w.alive, id)
	// Workers repeat the report of an end until a heartbeat is answered. Only the first one may
	// lower the job's count.
	if i < 0 {
		return
	}
	w.alive = slices.Delete(w.alive, i, i+1)
	// The worker may have run an attempt of a job that has left memory.
	if j := c.jobs[id.Job]; j != nil {
		j.alive--
		c.finishOutput(j)
	}
}

// keepAlive ends all attempts on a worker that are not in running.
func (c *Core) keepAlive(w *worker, running map[job.AttemptID]bool) {
	// A clone, because attemptEnded deletes from w.alive, and the loop would skip the attempt
	// behind each deleted one.
	for _, id := range slices.Clone(w.alive) {
		if !running[id] {
			c.attemptEnded(w, id)
		}
	}
}

// session is a worker's connection from one registration to the next.
//
// Its outbox holds the actions that the worker has not acknowledged; every reply
// repeats the outbox from its beginning, up to a number of bytes. At most one heartbeat is held at a time: the core answers
// it, without actions, when the next one with a wait arrives. A heartbeat without a wait is answered in its batch,
// and the held one stays: the worker needs one call to report an end and to get the next launch.
type session struct {
	id          string
	worker      *worker
	address     string // host:port of the worker's HTTP server
	version     string
	mapBuffer   int64  // bytes of the sort buffer of a map there
	driverSlots int    // drivers that the worker may run at once
	limits      string // how the worker limits attempts
	incarnation string
	number      int64    // of the registration, within the incarnation
	before      []string // earlier incarnations, the latest last
	complained  int64    // number of the latest complaint about a fetch, within the incarnation
	seq         int64    // of the latest heartbeat
	next        int64    // number of the latest action
	outbox      []*slotwisev1.Action
	stopping    []*slotwisev1.DriverRef // drivers that were ordered to stop and are still listed
	held        Call                    // the heartbeat without a reply; 0 if there is none
	due         bool                    // set when held must be answered in this batch, even without actions
	asking      Call                    // a heartbeat without a wait, which this batch answers; 0 if there is none
	told        int64                   // number of the last action that the worker has carried out, or that has left since its last heartbeat
	urgent      int64                   // number of the latest action for which a held heartbeat is answered
	knows       map[job.ID]bool         // jobs whose description the worker has or has been sent
	over        bool                    // set by endSession; the reply to held is then register_again
	marked      bool                    // the session is in Core.marked
	condition   cluster.Condition       // what the latest heartbeat said, and why
	why         string
	regularAt   time.Duration // from when on a heartbeat with reports counts as regular, not as early
}

// send puts an action into the session's outbox.
func (c *Core) send(s *session, a *slotwisev1.Action) {
	s.next++
	a.Number = s.next
	// The removal of an ended job's files can wait for the next answer. Sent at once to each worker of
	// the job, it would cost as many calls as the launches of a small job.
	if a.GetDropJob() == "" {
		s.urgent = s.next
	}
	s.outbox = append(s.outbox, a)
	c.mark(s)
}

// mark has EndBatch look at the session's heartbeats without a reply.
func (c *Core) mark(s *session) {
	// Several messages of a batch may mark one session. EndBatch needs it once.
	if !s.marked {
		s.marked = true
		c.marked = append(c.marked, s)
	}
}

// answerHeartbeats answers the heartbeats that want an answer now, and the held ones for which
// there is something to say. All that led to their actions is in the batch's records.
func (c *Core) answerHeartbeats() {
	for _, s := range c.marked {
		s.marked = false
		// This call comes before the held one: the actions that leave with it count as sent below.
		if s.asking != 0 {
			resp := c.heartbeatAnswer(s)
			if n := len(resp.Actions); n > 0 {
				s.told = resp.Actions[n-1].Number
			}
			c.reply(s.asking, resp)
			s.asking = 0
		}
		// Actions that have just left with another answer must not end the wait of the held heartbeat:
		// the worker would have to send it again. If that answer is lost, the worker's next heartbeat
		// says so, and so does the end of the wait.
		if s.held != 0 && (s.over || s.due || s.urgent > s.told) {
			c.reply(c.unhold(s), c.heartbeatAnswer(s))
		}
	}
	clear(c.marked)
	c.marked = c.marked[:0]
}

// heartbeatAnswer returns the answer to a heartbeat of the session.
func (c *Core) heartbeatAnswer(s *session) *slotwisev1.HeartbeatResponse {
	return &slotwisev1.HeartbeatResponse{RegisterAgain: s.over, HeartbeatMs: c.heartbeatInterval().Milliseconds(), Actions: s.actions()}
}

// actions returns the beginning of the outbox, up to bounds.Batch bytes. The worker's next
// heartbeat acknowledges these actions and is answered at once with the next ones.
func (s *session) actions() []*slotwisev1.Action {
	room := bounds.Batch
	for i, a := range s.outbox {
		// The first action leaves however large it is. Otherwise it would never leave, and neither
		// would the actions behind it.
		if room -= proto.Size(a); room < 0 && i > 0 {
			return slices.Clone(s.outbox[:i])
		}
	}
	return slices.Clone(s.outbox)
}

// hold keeps a heartbeat without a reply.
func (c *Core) hold(s *session, call Call, due bool) {
	s.held, s.due = call, due
	c.held[call] = s
}

// unhold returns the call of the held heartbeat, which the caller answers.
func (c *Core) unhold(s *session) Call {
	call := s.held
	s.held, s.due = 0, false
	delete(c.held, call)
	return call
}

// release implements waiter. The reply follows at the end of the batch.
func (s *session) release(c *Core) {
	s.due = true
	c.mark(s)
}

// endSession ends a session, in which nothing is accepted from now on. Its heartbeats
// are answered with register_again, and so are all later ones. The attempts in
// the worker's alive list stay until a registration or the worker's loss decides.
func (c *Core) endSession(s *session) {
	s.over, s.outbox = true, nil
	// From here on every request with this id is answered with register_again or an error. A worker
	// that was given up cannot report into its next session.
	delete(c.sessions, s.id)
	if s.worker.session == s {
		s.worker.session = nil
	}
	c.mark(s)
}

// heartbeatInterval is the longest silence wanted of a worker. It grows with the
// number of workers, so that heartbeats take a bounded share of the master's time.
func (c *Core) heartbeatInterval() time.Duration {
	if c.cfg.Heartbeat > 0 {
		return c.cfg.Heartbeat
	}
	return max(500*time.Millisecond, time.Duration(c.tracker.Nodes().Alive())*3*time.Millisecond)
}

// register begins a session. The tracker compares the attempts and outputs that the
// worker lists with its own tables.
func (c *Core) register(m *Register) {
	r, spec := m.Request, m.join.Node
	w := c.worker(spec.Name)
	old := w.session
	// A worker that replaces its own session takes no further place. If the limit applied to
	// it, a full master would lock its own workers out after a broken connection.
	if n := len(c.sessions); old == nil && n >= c.cfg.Limits.Nodes {
		c.refuse(m.Call, errorf(ResourceExhausted, "the master serves %d workers, which is its limit", n))
		return
	}
	// The network may deliver an old registration late. Accepting it would end the session
	// that the worker uses now, and the running attempts that the stale list lacks would be
	// given up.
	if old.overtook(r) {
		c.refuse(m.Call, c.overtaken(old, r))
		return
	}
	s := &session{
		id: m.Session, worker: w, address: r.Address, version: r.Version, mapBuffer: r.MapBuffer,
		driverSlots: int(min(max(0, r.DriverSlots), maxDriverSlots)),
		limits:      r.Limits,
		incarnation: r.Incarnation, number: r.Number, before: old.incarnations(r.Incarnation),
		knows: make(map[job.ID]bool, len(m.jobs)),
	}
	for _, id := range m.jobs {
		s.knows[id] = true
	}
	if old != nil {
		// Complaints are numbered within a process. A worker that was restarted counts from 1
		// again, so the former process's number would hide its first complaints.
		if old.incarnation == s.incarnation {
			s.complained = old.complained
		}
		c.endSession(old)
	}
	c.sessions[s.id], w.session = s, s
	// The alive list must be right before the tracker takes the registration in: the step may
	// decide a job, whose output is ordered to be committed or aborted at once if no attempt
	// is counted as alive.
	running := map[job.AttemptID]bool{}
	for _, id := range m.join.Running {
		running[id] = true
	}
	// The answer to a report may have been lost. The tracker then still has the attempt as
	// running, and the worker lists its output and reports its end again.
	for _, o := range m.join.Outputs {
		running[o.Attempt] = true
	}
	// An attempt that the tracker has given up can write to the job's output until the worker
	// confirms the kill, so it counts as alive all the same. A restored master does not know it
	// before. It is counted before others are taken off the list, whose last one would have the
	// job's output committed.
	for _, id := range m.join.Running {
		if j := c.jobs[id.Job]; j != nil && j.final == nil {
			c.attemptStarted(j, id, spec.Name)
		}
	}
	c.keepAlive(w, running)
	c.step(m.join)
	// After the step, which has withdrawn the outputs that the worker no longer has. Reduces
	// fetch the others from the address of the new session.
	c.announceOutputs(w)
	c.registerDrivers(w, r.Drivers)
	c.logInfo("worker registered", "worker", spec.Name, "address", r.Address, "host", spec.Host, "rack", spec.Rack,
		"map_slots", spec.MapSlots, "reduce_slots", spec.ReduceSlots, "running", len(m.join.Running), "outputs", len(m.join.Outputs))
	c.reply(m.Call, &slotwisev1.RegisterResponse{
		Session: s.id, Master: c.id, HeartbeatMs: c.heartbeatInterval().Milliseconds(), DropJobs: c.endedJobs(m),
	})
}

// overtaken returns the error for a registration that a later one overtook. If another
// process of the same name sent the later one, the error names that process's address, so
// that an operator finds two workers that share a name.
func (c *Core) overtaken(s *session, r *slotwisev1.RegisterRequest) error {
	name := s.worker.name
	if s.incarnation == r.Incarnation {
		return errorf(Aborted, "worker %s has registered again since it sent this request", name)
	}
	heard := "not at all yet"
	if n := c.tracker.Nodes().Get(name); n != nil {
		heard = (c.now - n.LastSeen()).Truncate(time.Millisecond).String() + " ago"
	}
	return errorf(Aborted, "another process has taken the name %s since: it runs at %s and was last heard %s; stop one of the two, or give it another --name",
		name, s.address, heard)
}

// overtook reports whether the session was begun by a registration that the worker
// sent after r. A nil session was not.
func (s *session) overtook(r *slotwisev1.RegisterRequest) bool {
	if s == nil || r.Incarnation == "" {
		return false
	}
	return s.incarnation == r.Incarnation && r.Number > 0 && r.Number <= s.number || slices.Contains(s.before, r.Incarnation)
}

// maxIncarnations bounds session.before. A request cannot be under way while the
// worker's process is started that often.
const maxIncarnations = 16

// incarnations returns the earlier incarnations for a session of incarnation next
// that replaces s, which may be nil.
func (s *session) incarnations(next string) []string {
	if s == nil {
		return nil
	}
	if s.incarnation == next {
		return s.before
	}
	return append(slices.Clone(s.before[max(0, len(s.before)+1-maxIncarnations):]), s.incarnation)
}

// endedJobs names the jobs that a worker knows or whose files it holds although they have
// ended. A worker that missed the action to drop a job learns of its end that way.
func (c *Core) endedJobs(m *Register) (drop []string) {
	seen := map[job.ID]bool{}
	// The three lists name a job once for each attempt and output, and the answer has it once.
	check := func(id job.ID) {
		if seen[id] {
			return
		}
		seen[id] = true
		// A decided job launches nothing more, so its files have no reader, even while its output
		// is being committed.
		if j := c.jobs[id]; j == nil || j.decided() {
			drop = append(drop, id.String())
		}
	}
	for _, id := range m.join.Running {
		check(id.Job)
	}
	for _, o := range m.join.Outputs {
		check(o.Attempt.Job)
	}
	for _, id := range m.jobs {
		check(id)
	}
	return drop
}

// endLostSessions ends the sessions of workers that the tracker has given up, and removes
// workers that it has forgotten. An absent worker keeps its attempts: it may register
// again with them.
func (c *Core) endLostSessions() {
	forgotten := false
	for _, w := range c.list {
		n := c.tracker.Nodes().Get(w.name)
		if n != nil && n.Alive() {
			continue
		}
		// Absent workers are the ones of a master's earlier life. Their attempts run on while the
		// worker finds the new master, and only a timeout may declare them lost.
		if n == nil || !n.Absent() {
			c.keepAlive(w, nil)
			c.keepDrivers(w, nil, "its worker is lost")
		}
		if w.session != nil {
			c.logWarn("worker lost", "worker", w.name)
			c.endSession(w.session)
		}
		if n == nil {
			// The tracker forgets a node only if no remembered job has an attempt there, so no entry
			// refers to this worker any more.
			delete(c.workers, w.name)
			forgotten = true
		}
	}
	if forgotten {
		c.list = slices.DeleteFunc(c.list, func(w *worker) bool { return c.workers[w.name] != w })
	}
}

// loseWorker gives a worker up at once, because it leaves. Its attempts and outputs are
// lost, and their tasks run again elsewhere.
func (c *Core) loseWorker(w *worker) {
	c.step(&tracker.Lose{Node: w.name})
	if w.session != nil {
		c.endSession(w.session)
	}
	c.keepAlive(w, nil)
	c.keepDrivers(w, nil, "its worker has left")
}

// heartbeat takes in a worker's report.
func (c *Core) heartbeat(m *Heartbeat) {
	r, ev := m.Request, m.event
	s := c.sessions[r.Session]
	if s == nil {
		c.reply(m.Call, &slotwisev1.HeartbeatResponse{RegisterAgain: true})
		return
	}
	// An equal number is the repetition of a heartbeat whose answer was lost, and counts as the newest.
	overtaken := r.Seq < s.seq
	// A later heartbeat has been taken in. The load, the progress and the acknowledgements of
	// this one are out of date, and an attempt that it calls running may have ended since.
	// Ends of attempts are final, and the tracker ignores one that it knows.
	if overtaken {
		ev.Reports = slices.DeleteFunc(ev.Reports, func(r tracker.Report) bool { return r.State == job.AttemptRunning })
		c.reply(m.Call, &slotwisev1.HeartbeatResponse{HeartbeatMs: c.heartbeatInterval().Milliseconds()})
	} else {
		s.seq, s.told = r.Seq, min(r.Acked, s.next)
		s.condition, s.why = conditionOf(r)
		// The worker has carried these actions out. It also names the attempts that they launched,
		// so leaving the outbox does not make an attempt look lost.
		s.outbox = slices.DeleteFunc(s.outbox, func(a *slotwisev1.Action) bool { return a.Number <= r.Acked })
		c.keepCall(s, m)
	}
	// An overtaken list may lack attempts that were launched since, so the tracker must not
	// take the missing ones for lost.
	ev.Node, ev.NoWork, ev.All = s.worker.name, overtaken || r.Leaving, !overtaken
	ev.Condition, ev.Why = s.condition, s.why
	// A worker reports ends at once. Policies that compare one heartbeat with the next must
	// not take such a report for a whole interval. The tenth is tolerance: the worker's timer
	// and the network are not exact.
	if ev.Early = len(ev.Reports) > 0 && c.now < s.regularAt; !ev.Early {
		s.regularAt = c.now + c.heartbeatInterval()*9/10
	}
	c.report(s, m)
	// report may have ended the session, because the worker leaves or the tracker has given it
	// up. The drivers of such a worker are lost, or its next registration lists them.
	if !s.over {
		c.reportDrivers(s, r, !overtaken)
	}
	c.mark(s)
}

// keepCall keeps a heartbeat's call until the batch ends or longer. Even an answer that is due waits
// for EndBatch, where work has been offered: the launches then leave with this reply instead of the
// next one.
func (c *Core) keepCall(s *session, m *Heartbeat) {
	older := s.held
	aside := s.held != 0 && m.Request.WaitMs <= 0
	switch {
	case aside:
		older, s.asking = s.asking, m.Call
	case older != 0:
		c.unhold(s)
	}
	// The newest heartbeat carries the actions, so the older call is answered without any. The answer is
	// not early: it confirms reports that may be records of this batch.
	if older != 0 {
		c.reply(older, &slotwisev1.HeartbeatResponse{HeartbeatMs: c.heartbeatInterval().Milliseconds()})
	}
	if !aside {
		c.hold(s, m.Call, m.Request.WaitMs <= 0)
	}
}

// maxWhy bounds the text with which a worker explains its condition, in bytes.
const maxWhy = 256

// conditionOf returns a worker's ability to take work, as a heartbeat reports it.
func conditionOf(r *slotwisev1.HeartbeatRequest) (cluster.Condition, string) {
	why := r.ConditionText
	// The cut may split a character, and protobuf refuses to encode text that is not UTF-8.
	if len(why) > maxWhy {
		why = strings.ToValidUTF8(why[:maxWhy], "") + "…"
	}
	switch {
	case !r.Draining:
		return cluster.Ready, ""
	case r.Condition == slotwisev1.NodeCondition_NODE_CONDITION_DISK_FULL:
		return cluster.DiskFull, why
	case r.Condition == slotwisev1.NodeCondition_NODE_CONDITION_DISK_GONE:
		return cluster.DiskGone, why
	}
	// Also for a condition that only a later version knows: the worker wants no new work, whatever
	// the cause.
	return cluster.Leaving, why
}

// report has the tracker take in a heartbeat's reports and fetch failures, then
// accounts for the attempts that have ended.
func (c *Core) report(s *session, m *Heartbeat) {
	// Taken before the step: afterwards a repeated report of an end looks like the first.
	ended := c.endedAttempts(s, m)
	// The launches of the outbox count as alive, although the worker does not list them: they
	// may not have arrived yet, or arrive with the answer to this heartbeat.
	if m.event.All {
		c.keepAlive(s.worker, s.expected(m.event))
	}
	// Before the reports, because the same heartbeat may say that the reduce has ended, and
	// the tracker ignores complaints of reduces that have.
	for _, f := range m.Request.FetchFailures {
		// Heartbeats repeat complaints, in the order of their numbers, until they are
		// answered. Each one counts once.
		if f.Number > s.complained {
			s.complained = f.Number
			c.fetchFailed(f)
		}
	}
	for _, e := range c.step(m.event) {
		// The tracker has given the node up. tick and loseWorker end the session in the same message, so no session
		// should get here. If one does, the worker registers again, with a complete list.
		if e.Kind == tracker.Rejoin {
			c.endSession(s)
			c.keepAlive(s.worker, nil)
		}
	}
	// After the step, which may have decided the job by these ends: the last attempt that is
	// taken off the list orders the job's output committed.
	for _, e := range ended {
		c.accountFor(s, e)
	}
	if m.Request.Leaving && !s.over {
		c.logInfo("worker left", "worker", s.worker.name)
		c.loseWorker(s.worker)
	}
}

// expected adds the launches of the outbox, which the worker may not have received,
// to the event, and returns all attempts that may be alive on the worker.
func (s *session) expected(ev *tracker.Heartbeat) map[job.AttemptID]bool {
	alive := map[job.AttemptID]bool{}
	for _, a := range s.outbox {
		if l := a.GetLaunch(); l != nil {
			if id, err := job.ParseAttempt(l.Attempt); err == nil {
				ev.Unheard = append(ev.Unheard, id)
				alive[id] = true
			}
		}
	}
	// An attempt whose end is reported still counts as alive here. accountFor takes it off the list
	// after the step.
	for i := range ev.Reports {
		alive[ev.Reports[i].Attempt] = true
	}
	return alive
}

// endedAttempt is a heartbeat's report that an attempt has ended.
type endedAttempt struct {
	id job.AttemptID
	// counts is whether the attempt was running as far as the tracker knew before
	// the heartbeat. A repeated report does not count.
	counts bool
}

// endedAttempts returns the attempts whose end a heartbeat reports, before the tracker
// takes it in.
func (c *Core) endedAttempts(s *session, m *Heartbeat) (ended []endedAttempt) {
	for i := range m.event.Reports {
		report := &m.event.Reports[i]
		j := c.jobs[report.Attempt.Job]
		// The job is in the history and out of memory. The tracker orders the worker to stop the
		// attempt, and the core has no count to correct.
		if j == nil {
			continue
		}
		j.changed = true
		// Progress changes what watchers see, so the job is marked above. The attempt stays on the
		// alive list.
		if report.State == job.AttemptRunning {
			continue
		}
		j.boundError(report)
		a := c.tracker.Jobs().Attempt(report.Attempt)
		counts := a != nil && a.State() == job.AttemptRunning && c.nodeOf(a) == s.worker.name
		ended = append(ended, endedAttempt{report.Attempt, counts})
	}
	return ended
}

// boundError cuts the error of a report, as boundText does, and drops the end of the log then.
func (j *jobEntry) boundError(r *tracker.Report) {
	if j.errors > bounds.JobErrors {
		r.LogTail = ""
	}
	r.Error = j.boundText(r.Error)
	j.errors += len(r.LogTail)
}

// boundText cuts the error of an attempt once the errors of the job's attempts exceed
// bounds.JobErrors, because the master keeps them in memory. The sum counts from the
// master's start.
func (j *jobEntry) boundText(text string) string {
	if j.errors > bounds.JobErrors {
		text = bounds.Cut(text, bounds.Short)
	}
	j.errors += len(text)
	return text
}

// accountFor notes that an attempt is not alive any more, after the tracker has taken
// in its end.
func (c *Core) accountFor(s *session, e endedAttempt) {
	if c.jobs[e.id.Job] == nil {
		return
	}
	c.attemptEnded(s.worker, e.id)
	if a := c.tracker.Jobs().Attempt(e.id); e.counts && a != nil && a.State() == job.AttemptFailed {
		c.logInfo("attempt failed", "attempt", e.id.String(), "error", a.Error())
	}
}

// fetchFailed hands on that a reduce could not fetch a map's output.
func (c *Core) fetchFailed(f *slotwisev1.FetchFailure) {
	reduce, err := job.ParseAttempt(f.Reduce)
	source, err2 := job.ParseAttempt(f.Map)
	// The rest of the heartbeat is valid, so a name that cannot be parsed costs only this
	// complaint.
	if err != nil || err2 != nil {
		return
	}
	c.logInfo("map output cannot be fetched", "reduce", f.Reduce, "map", f.Map, "worker", bounds.Cut(f.Worker, bounds.Name), "error", bounds.Cut(f.Error, bounds.Short), "corrupt", f.Corrupt)
	// A worker that has not registered with this life of the master yet is not gone.
	n := c.tracker.Nodes().Get(f.Worker)
	gone := n == nil || !n.Alive() && !n.Absent()
	c.step(&tracker.FetchFailed{Reduce: reduce, Map: source, SourceGone: f.Corrupt || gone})
}

// errSessionOver answers requests in a session that has ended.
var errSessionOver error = &Error{Unauthenticated, "the session is over: register again"}

// askCommit asks the tracker on behalf of the session's worker. The grant is in the
// batch's records.
func (c *Core) askCommit(m *AskCommit) {
	s := c.sessions[m.Session]
	// The worker may have been given up, and another attempt of the task may have committed since.
	if s == nil {
		c.refuse(m.Call, errSessionOver)
		return
	}
	// This is the answer if the step has no effect for the attempt.
	resp := &slotwisev1.AskCommitResponse{Reason: "the attempt was given up"}
	for _, e := range c.step(&tracker.AskCommit{Attempt: m.Attempt, Node: s.worker.name}) {
		switch e.Kind {
		case tracker.CommitGranted:
			resp = &slotwisev1.AskCommitResponse{Granted: true}
		case tracker.CommitDenied:
			resp = &slotwisev1.AskCommitResponse{Reason: e.Text}
		}
	}
	c.reply(m.Call, resp)
}

// offer offers the workers whose heartbeats are held to the tracker, if it wants to
// assign work now.
func (c *Core) offer() {
	if due, ok := c.tracker.OfferDue(); !ok || c.now < due {
		return
	}
	// Only a held heartbeat can carry a launch away at once. Other workers are offered work when
	// their next heartbeat comes.
	c.idle = c.idle[:0]
	for _, w := range c.list {
		if s := w.session; s != nil && s.held != 0 {
			c.idle = append(c.idle, w.name)
		}
	}
	c.step(&tracker.Offer{Nodes: c.idle})
}
