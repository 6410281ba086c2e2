// Package agent is the worker's half of the conversation with its master, as a
// state machine without clock, goroutines or I/O. The worker (the shell) sends
// what the agent composes, hands it what the master answers, and carries out the
// instructions that the agent returns.
//
// One session looks like this:
//
//	worker                                     master
//	Registration: running attempts, held outputs ─►
//	              ◄─ session, jobs to drop
//	Heartbeat n:  reports, acknowledged action k ─►
//	              ◄─ actions k+1, k+2, …
//	Acknowledge n: forget the ends that n reported
//
// Messages can be lost, delayed and repeated, and two heartbeats can be under way
// at once. Three rules make that safe:
//
//   - The master repeats an action until a heartbeat acknowledges its number. The
//     agent carries out each number once, in order.
//   - The agent repeats the report of an attempt's end until a heartbeat that
//     carried it has been answered within the same session.
//   - Carrying out a launch and listing the attempt in reports are one step. So a
//     heartbeat that acknowledges a launch always names its attempt, and the
//     master can treat an attempt that is not named as lost.
//
// A heartbeat has a budget of bytes. It always names every attempt, but an end whose
// report does not fit is reported as running and follows in a later heartbeat. When the
// master refuses a heartbeat for its size, the budget is halved; a report that is too
// large alone is replaced by a short one that fails its attempt. So no heartbeat is
// repeated unchanged after a refusal, and every end arrives.
//
// The cluster may have several masters. Each leader has a term, and a later leader a higher one.
// The agent accepts no answer of a lower term than it has heard of (Accept): a leader that
// was stopped and continues cannot order anything that contradicts its successor. Such a leader also
// answers nothing without a lease, so the refusal is the second of two defences.
//
// A new session repeats what the worker runs and holds and starts both counts
// from zero. Attempts keep running across sessions.
package agent

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/live/wire"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// Running, Succeeded, Failed and Killed abbreviate the states of the wire.
const (
	Running   = slotwisev1.AttemptState_ATTEMPT_STATE_RUNNING
	Succeeded = slotwisev1.AttemptState_ATTEMPT_STATE_SUCCEEDED
	Failed    = slotwisev1.AttemptState_ATTEMPT_STATE_FAILED
	Killed    = slotwisev1.AttemptState_ATTEMPT_STATE_KILLED
)

// InstructionKind is the type of an Instruction.
type InstructionKind uint8

// The instructions.
const (
	// Start runs the attempt of Launch.
	Start InstructionKind = iota + 1
	// Stop ends the running attempt for Reason; the shell reports its end later.
	Stop
	// Discard removes the map output of an attempt, if there is one.
	Discard
	// DropJob removes all map outputs of a job and stops polling for its map
	// outputs. Stop instructions for its attempts precede it.
	DropJob
	// Refuse logs Reason: the master sent a name that cannot be parsed.
	Refuse
	// StartDriver runs the driver of Drive.
	StartDriver
	// StopDriver ends the running driver for Reason; the shell reports its end later.
	StopDriver
)

// Instruction is one instruction to the shell. Instructions are carried out in sequence.
type Instruction struct {
	Kind    InstructionKind
	Job     job.ID        // DropJob
	Attempt job.AttemptID // Start, Stop, Discard
	Reason  string        // Stop, Discard, Refuse, StopDriver
	Launch  *slotwisev1.Launch
	Driver  DriverID          // StartDriver, StopDriver
	Drive   *slotwisev1.Drive // StartDriver
}

// attempt is an attempt that runs, or that has ended without the master having
// acknowledged the report of its end.
type attempt struct {
	id     job.AttemptID
	report *slotwisev1.Report
	// disowned is set when the master no longer wants to know how the attempt
	// ends: its job was dropped, or the master was replaced. The agent still
	// reports it while it runs, because it occupies a slot.
	disowned bool
}

func (a *attempt) ended() bool { return a.report.State != Running }

// Agent is the state of the conversation. It is not safe for concurrent use; the
// worker guards it with a mutex.
//
// Invariants: attempts is sorted by id and holds no attempt twice; every attempt
// for which Start was ordered stays in it until its end has been acknowledged,
// or until it ends disowned.
type Agent struct {
	// registrations counts calls of Registration over the life of the process,
	// so that the master can ignore an older one that arrives late.
	registrations int64
	session       string // "" before the first registration
	term          uint64 // the highest term of a leader that the agent has accepted
	termMillis    int64  // when the last answer of that term came
	seq           int64  // of the last heartbeat composed in this session
	acted         int64  // number of the last action carried out in this session
	attempts      []*attempt
	drivers       []*driver                  // in the order of their start
	budget        int                        // bytes of ends and complaints in one heartbeat
	complaints    []*slotwisev1.FetchFailure // not acknowledged yet, in the order of their numbers
	complained    int64                      // number of the last complaint of this process
	// staging maps a known job to the token of its staged output. The token tells
	// two jobs apart that a master without a complete journal gave the same id.
	staging map[job.ID]string
	// condition is the reason why the worker takes no new work, UNSPECIFIED if it takes
	// work. why describes it for operators.
	condition slotwisev1.NodeCondition
	why       string
	// stopped is set when the worker ends: attempts that start from then on are
	// stopped at once.
	stopped string
}

// New returns an agent that has not registered.
func New() *Agent { return &Agent{staging: map[job.ID]string{}, budget: bounds.Batch} }

// Session returns the id of the current session, "" before the first one.
func (g *Agent) Session() string { return g.session }

// find returns the index of an attempt, or where to insert it.
func (g *Agent) find(id job.AttemptID) (int, bool) {
	return slices.BinarySearchFunc(g.attempts, id, func(a *attempt, id job.AttemptID) int { return a.id.Compare(id) })
}

// get returns an attempt or nil.
func (g *Agent) get(id job.AttemptID) *attempt {
	if i, ok := g.find(id); ok {
		return g.attempts[i]
	}
	return nil
}

// remove forgets an attempt.
func (g *Agent) remove(id job.AttemptID) {
	if i, ok := g.find(id); ok {
		g.attempts = slices.Delete(g.attempts, i, i+1)
	}
}

// Count returns how many attempts run, and how many are listed in reports, which
// includes ended ones whose end is not acknowledged.
func (g *Agent) Count() (running, listed int) {
	for _, a := range g.attempts {
		if !a.ended() {
			running++
		}
	}
	return running, len(g.attempts)
}

// IsRunning reports whether the attempt runs.
func (g *Agent) IsRunning(id job.AttemptID) bool {
	a := g.get(id)
	return a != nil && !a.ended()
}

// SetCondition sets why heartbeats refuse new work, with a phrase for operators. With
// UNSPECIFIED they accept it.
func (g *Agent) SetCondition(c slotwisev1.NodeCondition, why string) { g.condition, g.why = c, why }

// Registration adds to r the number of this registration, the attempts that run
// or have an unacknowledged end, the held map outputs, and the jobs whose description
// the worker keeps. An output of a listed attempt is left out: the report of the
// attempt's end announces it. So are outputs beyond bounds.Held; the master has their
// maps run again where they are needed.
//
// The caller lists held outputs after it called Listed, because an attempt that
// ends between the two calls must appear in at least one of the two lists.
func (g *Agent) Registration(r *slotwisev1.RegisterRequest, listed []job.AttemptID, held []*slotwisev1.HeldOutput) {
	g.registrations++
	r.Number = g.registrations
	for _, d := range g.drivers {
		r.Drivers = append(r.Drivers, d.report.Driver)
	}
	named := map[string]bool{}
	for _, id := range listed {
		r.Running = append(r.Running, id.String())
		named[id.String()] = true
	}
	// An output beyond the bound is only work that is done again. A registration that the
	// master refuses for its size would keep the worker out for ever.
	for _, o := range held {
		if !named[o.GetAttempt()] && len(r.Outputs) < bounds.Held {
			r.Outputs = append(r.Outputs, o)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(g.staging)) {
		r.Jobs = append(r.Jobs, id.String())
	}
}

// Listed returns the attempts that run or have an unacknowledged end, in order.
func (g *Agent) Listed() []job.AttemptID {
	ids := make([]job.AttemptID, len(g.attempts))
	for i, a := range g.attempts {
		ids[i] = a.id
	}
	return ids
}

// forgetTerm is the time without an answer of the highest term after which a lower one is
// accepted, in milliseconds. Then no leader of the higher term exists any more: the masters
// were restored from a backup, or replaced. It is far longer than a leader may live
// without its followers.
const forgetTerm = 60_000

// Accept reports whether an answer of the leader of a term may be acted upon, and remembers the
// term. The caller drops a refused answer, as if it had been lost. Times only ever increase.
func (g *Agent) Accept(term uint64, nowMillis int64) bool {
	if term < g.term && nowMillis-g.termMillis < forgetTerm {
		return false
	}
	g.term, g.termMillis = term, nowMillis
	return true
}

// Registered begins the session that the master granted. otherMaster says that
// the master is not the one whose jobs the worker has worked on: then job ids
// mean other jobs, everything that runs is stopped and disowned, and the caller
// must register once more so that the new master learns of an empty worker.
func (g *Agent) Registered(resp *slotwisev1.RegisterResponse, otherMaster bool) []Instruction {
	// The master numbers heartbeats and actions within a session. With the old counts it would
	// take new heartbeats for overtaken ones, and the agent would skip the first actions.
	g.session, g.seq, g.acted = resp.GetSession(), 0, 0
	if otherMaster {
		return g.disownAll()
	}
	var instructions []Instruction
	for _, name := range resp.GetDropJobs() {
		instructions = g.dropJob(instructions, name)
	}
	return instructions
}

// disownAll forgets the jobs of a master that has been replaced.
func (g *Agent) disownAll() (instructions []Instruction) {
	for _, a := range g.attempts {
		a.disowned = true
		if !a.ended() {
			instructions = append(instructions, Instruction{Kind: Stop, Attempt: a.id, Reason: "the master of its job was replaced"})
		}
	}
	// Nothing reports these ends: the new master may have given the same ids to other
	// attempts.
	g.attempts = slices.DeleteFunc(g.attempts, (*attempt).ended)
	instructions = g.stopDrivers(instructions, "the master of its chain was replaced")
	g.drivers = nil
	clear(g.staging)
	g.complaints = nil
	return instructions
}

// Heartbeat composes the next heartbeat. It repeats everything that the master has not
// acknowledged, up to the budget. waitMillis is how long the master may hold its answer.
// If the heartbeat leaves something out, it requests an answer at once. The request
// shares complaints with the agent, which never change, and no other memory.
func (g *Agent) Heartbeat(waitMillis int64, load *slotwisev1.Load) *slotwisev1.HeartbeatRequest {
	g.seq++
	r := &slotwisev1.HeartbeatRequest{
		Session: g.session, Seq: g.seq, Acked: g.acted, WaitMs: waitMillis,
		Draining:  g.condition != slotwisev1.NodeCondition_NODE_CONDITION_UNSPECIFIED || g.stopped != "",
		Condition: g.condition, ConditionText: g.why, Load: load,
	}
	r.Drivers = g.driverReports()
	room, ends := g.budget, 0
	for _, a := range g.attempts {
		report := a.report
		if a.ended() {
			// The first end always goes: without it nothing would ever be acknowledged.
			if size := proto.Size(report); ends == 0 || size <= room {
				room -= size
				ends++
			} else {
				// The attempt must be named, or the master takes it for lost. Its end follows in the next
				// heartbeat, which the answer without a wait lets leave at once.
				report, r.WaitMs = stillRunning(report), 0
			}
		}
		r.Reports = append(r.Reports, cloneReport(report))
	}
	for i, f := range g.complaints {
		size := proto.Size(f)
		// A complaint that is too large alone goes all the same, if nothing else does: the refusal
		// then names it (TooLarge).
		if i == bounds.Complaints || size > room && ends+i > 0 {
			r.WaitMs = 0
			break
		}
		room -= size
		// Shared and not copied: a complaint never changes, and Acknowledge finds it again by its
		// pointer.
		r.FetchFailures = append(r.FetchFailures, f)
	}
	return r
}

// stillRunning returns the report of an attempt that has ended as if it still ran.
func stillRunning(r *slotwisev1.Report) *slotwisev1.Report {
	return &slotwisev1.Report{Attempt: r.Attempt, State: Running, Progress: r.Progress, Ticks: r.Ticks, CpuNs: r.CpuNs, StartedMs: r.StartedMs}
}

// TooLarge notes that the master has refused a heartbeat of this session for its size.
// The next one carries at most half as many bytes of ends and complaints. If there was
// only one, which therefore is too large alone, the agent drops the complaint, or fails
// the attempt whose end it was, and returns an instruction to discard its output.
func (g *Agent) TooLarge(r *slotwisev1.HeartbeatRequest) (instructions []Instruction) {
	// The refusal may belong to a session that has ended, whose heartbeat had other content.
	if r.GetSession() != g.session {
		return nil
	}
	var ends []*slotwisev1.Report
	size := 0
	// Running reports are small and must always be named, so only ends and complaints can be cut.
	for _, report := range r.GetReports() {
		if report.GetState() != Running {
			ends = append(ends, report)
			size += proto.Size(report)
		}
	}
	for _, f := range r.GetFetchFailures() {
		size += proto.Size(f)
	}
	// Half of the bytes that were sent and not of the budget, which may be far larger: the next
	// heartbeat is smaller in any case.
	g.budget = size / 2
	switch {
	// Only a report that was alone is known to be the cause. With two, the halved budget
	// separates them first.
	case len(ends) == 1 && len(r.GetFetchFailures()) == 0:
		return g.failLarge(ends[0])
	case len(ends) == 0 && len(r.GetFetchFailures()) == 1:
		g.forgetComplaints(r.GetFetchFailures())
	}
	return nil
}

// failLarge replaces a report that no heartbeat can carry by a short one.
func (g *Agent) failLarge(r *slotwisev1.Report) []Instruction {
	id, err := job.ParseAttempt(r.GetAttempt())
	a := g.get(id)
	if err != nil || a == nil || !a.ended() {
		return nil
	}
	text := fmt.Sprintf("the master refused the report of the attempt's end for its size of %d bytes", proto.Size(r))
	a.report = stillRunning(a.report)
	// The tracker must learn that the attempt has ended. Its counters and its output are lost,
	// so it counts as failed and the task runs again.
	a.report.State, a.report.Error = Failed, text
	return []Instruction{{Kind: Discard, Attempt: id, Reason: text}}
}

// forgetComplaints removes complaints that need not be sent again.
func (g *Agent) forgetComplaints(sent []*slotwisev1.FetchFailure) {
	g.complaints = slices.DeleteFunc(g.complaints, func(f *slotwisev1.FetchFailure) bool { return slices.Contains(sent, f) })
}

// cloneReport copies the fields of a report that change. Counters are replaced
// as a whole and never changed in place, so they are shared.
func cloneReport(r *slotwisev1.Report) *slotwisev1.Report {
	return &slotwisev1.Report{
		Attempt: r.Attempt, State: r.State, Progress: r.Progress, Ticks: r.Ticks, Error: r.Error, LogTail: r.LogTail, OutputBytes: r.OutputBytes,
		Counters: r.Counters, CpuNs: r.CpuNs, Memory: r.Memory, StartedMs: r.StartedMs, Cause: r.Cause,
	}
}

// Acknowledge notes that a heartbeat was answered: the ends and fetch failures
// that it carried need not be reported again. An answer to a heartbeat of an
// earlier session acknowledges nothing, because the master may have restored a
// state that predates it.
func (g *Agent) Acknowledge(r *slotwisev1.HeartbeatRequest) {
	if r.GetSession() != g.session {
		return
	}
	for _, report := range r.GetReports() {
		// A report that said "running" is no end, although the attempt may have ended since: that
		// end is still to be reported.
		if id, err := job.ParseAttempt(report.GetAttempt()); err == nil && report.GetState() != Running {
			g.remove(id)
		}
	}
	g.acknowledgeDrivers(r.GetDrivers())
	g.forgetComplaints(r.GetFetchFailures())
	// The master has accepted this size, so the next heartbeat may carry more.
	g.budget = min(bounds.Batch, 2*g.budget+minBudget)
}

// Unacknowledged reports whether an attempt's end or a complaint still has to be reported.
func (g *Agent) Unacknowledged() bool {
	return len(g.complaints) > 0 || slices.ContainsFunc(g.attempts, (*attempt).ended)
}

// minBudget lets a budget that was halved to nothing grow again.
const minBudget = 1 << 10

// Act returns the instructions for the actions that have not been carried out in this
// session. startedMillis is the present in milliseconds since 1970, for reports.
func (g *Agent) Act(actions []*slotwisev1.Action, startedMillis int64) (instructions []Instruction) {
	for _, a := range actions {
		// Every answer repeats the actions that no heartbeat has acknowledged yet, and two answers
		// may be under way.
		if a.GetNumber() <= g.acted {
			continue
		}
		g.acted = a.GetNumber()
		switch what := a.GetWhat().(type) {
		case *slotwisev1.Action_Launch:
			instructions = g.launch(instructions, what.Launch, startedMillis)
		case *slotwisev1.Action_Kill:
			instructions = g.kill(instructions, what.Kill.GetAttempt(), what.Kill.GetReason())
		case *slotwisev1.Action_DropJob:
			instructions = g.dropJob(instructions, what.DropJob)
		case *slotwisev1.Action_Drive:
			instructions = g.drive(instructions, what.Drive)
		case *slotwisev1.Action_StopDriver:
			instructions = g.stopDriver(instructions, idOf(what.StopDriver.GetDriver()), what.StopDriver.GetReason())
		}
	}
	return instructions
}

// launch enters an attempt unless it is listed already.
func (g *Agent) launch(instructions []Instruction, l *slotwisev1.Launch, startedMillis int64) []Instruction {
	id, err := job.ParseAttempt(l.GetAttempt())
	if err != nil {
		return append(instructions, Instruction{Kind: Refuse, Reason: "launch: " + err.Error()})
	}
	// Two jobs of one id differ in their staging directories. Map outputs of the earlier job
	// must not be served to reduces of this one.
	if known := g.staging[id.Job]; known != "" && l.GetStaging() != "" && l.GetStaging() != known {
		// A master that lost the end of its journal has given the id again.
		instructions = g.dropJob(instructions, id.Job.String())
	}
	at, listed := g.find(id)
	// The attempt runs, or its end is not acknowledged yet. A launch that is repeated must not
	// run it a second time.
	if listed {
		return instructions
	}
	a := &attempt{id: id, report: &slotwisev1.Report{Attempt: id.String(), State: Running, StartedMs: startedMillis}}
	g.attempts = slices.Insert(g.attempts, at, a)
	instructions = append(instructions, Instruction{Kind: Start, Attempt: id, Launch: l})
	// The launch was under way when the worker began to end. Listing the attempt and stopping
	// it reports its end, so the task need not wait for a time-out.
	if g.stopped != "" {
		instructions = append(instructions, Instruction{Kind: Stop, Attempt: id, Reason: g.stopped})
	}
	return instructions
}

// kill stops an attempt that runs. The output of a map that has ended is
// discarded: the master asks for the kill because it no longer counts the map.
func (g *Agent) kill(instructions []Instruction, name, reason string) []Instruction {
	id, err := job.ParseAttempt(name)
	if err != nil {
		return append(instructions, Instruction{Kind: Refuse, Reason: "kill: " + err.Error()})
	}
	switch {
	case g.IsRunning(id):
		return append(instructions, Instruction{Kind: Stop, Attempt: id, Reason: reason})
	// A reduce's output is not on this machine, so there is nothing to discard.
	case id.Kind == job.Map:
		return append(instructions, Instruction{Kind: Discard, Attempt: id, Reason: reason})
	}
	return instructions
}

// dropJob stops and disowns the attempts of a job that has ended and removes
// its map outputs.
func (g *Agent) dropJob(instructions []Instruction, name string) []Instruction {
	id, err := job.ParseID(name)
	if err != nil {
		return append(instructions, Instruction{Kind: Refuse, Reason: "drop job: " + err.Error()})
	}
	for _, a := range g.attempts {
		if a.id.Job == id && !a.ended() {
			// The attempt occupies its slot until its process has ended, so reports continue to name
			// it. Its outcome is dropped.
			a.disowned = true
			instructions = append(instructions, Instruction{Kind: Stop, Attempt: a.id, Reason: "the job has ended"})
		}
	}
	delete(g.staging, id)
	return append(instructions, Instruction{Kind: DropJob, Job: id})
}

// StopAll stops every attempt and driver that runs, and every one that starts later.
func (g *Agent) StopAll(reason string) (instructions []Instruction) {
	g.stopped = cmp.Or(g.stopped, reason)
	for _, a := range g.attempts {
		if !a.ended() {
			instructions = append(instructions, Instruction{Kind: Stop, Attempt: a.id, Reason: reason})
		}
	}
	return g.stopDrivers(instructions, reason)
}

// JobKnown notes the staging token of a job that the master has described.
func (g *Agent) JobKnown(id job.ID, staging string) { g.staging[id] = staging }

// Progress notes the progress of a running attempt, from 0 to 1, and a number
// that changes while the attempt is alive.
func (g *Agent) Progress(id job.AttemptID, fraction float64, ticks uint64) {
	if a := g.get(id); a != nil && !a.ended() {
		a.report.Progress, a.report.Ticks = fraction, ticks
	}
}

// Usage notes what the processes of a running attempt use: resident bytes and
// processor nanoseconds. Processor time never decreases in reports, although a
// process that ended takes its own with it.
func (g *Agent) Usage(id job.AttemptID, memory, cpuNanos int64) {
	if a := g.get(id); a != nil && !a.ended() {
		a.report.Memory, a.report.CpuNs = memory, max(a.report.CpuNs, cpuNanos)
	}
}

// Memory returns the resident bytes of all running attempts.
func (g *Agent) Memory() (bytes int64) {
	for _, a := range g.attempts {
		bytes += a.report.Memory
	}
	return bytes
}

// End records the outcome of an attempt. text says why it did not succeed, without text
// of the attempt's log; logTail is the end of the log of a failed attempt. done is the
// attempt's own last message and may be nil. The instructions remove the output of an
// attempt whose job no longer needs it.
func (g *Agent) End(id job.AttemptID, state slotwisev1.AttemptState, text, logTail string, done *slotwisev1.Done) []Instruction {
	a := g.get(id)
	if a == nil || a.ended() {
		return nil
	}
	r := a.report
	r.State, r.Error, r.LogTail, r.Memory = state, bounds.Cut(text, bounds.Text), bounds.Cut(logTail, bounds.Text), 0
	r.OutputBytes = done.GetOutputBytes()
	// An attempt may send a cause and then succeed or be killed, which is no failure.
	if state == Failed {
		r.Cause = done.GetCause()
	}
	if done.GetCounters() != nil {
		// The attempt may be any executable, whose counters may be no set of ours.
		count := wire.DecodeCounters(done.GetCounters())
		r.Counters = wire.EncodeCounters(&count)
	}
	if state == Succeeded {
		r.Progress = 1
	}
	// The report stays listed until a heartbeat that carried it is answered.
	if !a.disowned {
		return nil
	}
	g.remove(id)
	// The attempt may have stored its output after the DropJob had removed its job's outputs.
	if state == Succeeded && id.Kind == job.Map {
		return []Instruction{{Kind: Discard, Attempt: id, Reason: "the job has ended"}}
	}
	return nil
}

// FetchFailed notes that a reduce could not fetch a map output, to be reported
// until the master acknowledges it. The agent keeps f and numbers it, so that the master
// counts a repeated report once. Beyond bounds.PerReduce unacknowledged complaints of one
// reduce it drops f: the reduce complains again while it cannot fetch.
func (g *Agent) FetchFailed(f *slotwisev1.FetchFailure) {
	f.Map, f.Worker, f.Error = bounds.Cut(f.Map, bounds.Name), bounds.Cut(f.Worker, bounds.Name), bounds.Cut(f.Error, bounds.Short)
	mine := 0
	for _, other := range g.complaints {
		if other.Reduce == f.Reduce {
			mine++
		}
	}
	if mine >= bounds.PerReduce {
		return
	}
	g.complained++
	f.Number = g.complained
	g.complaints = append(g.complaints, f)
}
