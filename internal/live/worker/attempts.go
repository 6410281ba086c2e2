package worker

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/base/proctree"
	"github.com/slotwise/slotwise/internal/data/engine"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/live/worker/agent"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// process is an attempt that runs in this worker. It exists from the order to
// start the attempt until its end has been handed to the agent.
type process struct {
	id      job.AttemptID
	launch  *slotwisev1.Launch
	started time.Time
	masters int // Worker.mu.masters when the attempt began
	// stop cancels the attempt's context. The cause says why: *killedError,
	// *memoryError, or nil after the attempt has ended.
	stop context.CancelCauseFunc

	dirKept bool // the child has the attempt's directory; used by the goroutine that runs the attempt

	// Worker.mu guards the fields below.

	child *child // nil until the child process has started
	begun bool   // false while a child that was idle before has not begun the attempt
	// limits and owner are set before child is.
	limits limits
	owner  *account // as whom the child runs; nil is the worker's user
	log    *logFile // nil until then
	// cpuBefore is the processor time in nanoseconds that the child had used for earlier
	// attempts.
	cpuBefore int64
	// turn is the attempt's use of the child; nil until child is set.
	turn *turn
	// stacks passes the answers of the child to a question about its stacks. A question drops an
	// earlier answer whose caller has given up.
	stacks chan string
	// readsFrom is the job in which the attempt has a reader; nil if it has none.
	readsFrom *jobState
}

// killedError is the cause of an attempt that was stopped through no fault of its
// own, and which does not count as a failure.
type killedError struct{ reason string }

// Error implements error.
func (k *killedError) Error() string { return "killed: " + k.reason }

// carryOut carries out the agent's instructions in sequence.
func (w *Worker) carryOut(instructions []agent.Instruction) {
	for i := range instructions {
		switch o := &instructions[i]; o.Kind {
		case agent.Start:
			w.start(o.Attempt, o.Launch)
		case agent.Stop:
			w.stop(o.Attempt, o.Reason)
		case agent.Discard:
			if err := w.home.discardOutput(o.Attempt); err == nil {
				w.log.Info("map output removed", "attempt", o.Attempt, "why", o.Reason)
			}
		case agent.DropJob:
			w.dropJob(o.Job)
		case agent.StartDriver:
			w.startDriver(o.Driver, o.Drive)
		case agent.StopDriver:
			w.stopDriver(o.Driver, o.Reason)
		case agent.Refuse:
			w.log.Error("the master sent an action that cannot be parsed", "err", o.Reason)
		}
	}
}

// start runs an attempt in a goroutine and reports its end to the master.
func (w *Worker) start(id job.AttemptID, l *slotwisev1.Launch) {
	// Not a child of the worker's context: killAll gives attempts a reason and the time to end, and
	// a session's end must not stop them.
	ctx, stop := context.WithCancelCause(context.Background())
	p := &process{id: id, launch: l, stop: stop, started: time.Now(), stacks: make(chan string, 1)}
	w.mu.Lock()
	// Compared when the log is sent: a log of a former master's attempt must not become the log of another job.
	p.masters = w.mu.masters
	w.mu.processes[id] = p
	// A launch brings the job's description to a worker that does not know the job, which saves the attempt a
	// call.
	if l.GetJob() != nil {
		w.knowLocked(id.Job, l.GetJob())
	}
	w.tasks.Add(1)
	w.mu.Unlock()
	w.metrics.launched(id.Kind)
	go func() {
		defer w.tasks.Done()
		// Releases the context. The cause nil says that the attempt was not stopped.
		defer stop(nil)
		done, err := w.run(ctx, p)
		w.attemptEnded(p, done, err)
	}()
}

// stop asks a running attempt to end.
func (w *Worker) stop(id job.AttemptID, reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	// Nil if the attempt has just ended. Its report is on its way, and the master ignores the kill.
	if p := w.mu.processes[id]; p != nil {
		p.stop(&killedError{reason})
	}
}

// attemptEnded reports the outcome of an attempt to the master. done is the
// attempt's own last message, or nil.
func (w *Worker) attemptEnded(p *process, done *slotwisev1.Done, err error) {
	state, text, tail := outcomeOf(done, err)
	if state == agent.Failed {
		done = w.blame(done, err)
	}
	w.mu.Lock()
	// One step with End: in between the attempt would be running for the agent and unknown to stop.
	delete(w.mu.processes, p.id)
	instructions := w.mu.agent.End(p.id, state, text, tail, done)
	// In the same step: a drained worker may end when it has neither attempts nor logs.
	w.logs.add(endedLog{p.id.String(), p.id.Job.String(), p.log, state == agent.Failed, p.masters})
	w.mu.Unlock()
	w.carryOut(instructions)
	w.metrics.ended(p.id.Kind, state)
	w.log.Info("attempt ended", "attempt", p.id, "state", outcomeWord(state), "took", time.Since(p.started), "error", text)
	w.heartbeatNow()
}

// outcomeOf returns how the end of an attempt or driver is reported: the state, the text of the error, and after a
// failure the end of the log. The texts may quote bytes of the job's data, and a message must be UTF-8.
func outcomeOf(done *slotwisev1.Done, err error) (state slotwisev1.AttemptState, text, tail string) {
	switch {
	case err == nil:
		return agent.Succeeded, "", ""
	// Not a failure, so the log says nothing about the reason.
	case errors.As(err, new(*killedError)):
		return agent.Killed, strings.ToValidUTF8(err.Error(), "\uFFFD"), ""
	}
	return agent.Failed, strings.ToValidUTF8(err.Error(), "\uFFFD"), strings.ToValidUTF8(logTail(done, err), "\uFFFD")
}

// logTail returns the end of a failed attempt's log: what the attempt's last message
// quotes, or what the error of a crash quotes.
func logTail(done *slotwisev1.Done, err error) string {
	var crash *crashError
	if errors.As(err, &crash) {
		return crash.logTail
	}
	return done.GetLogTail()
}

// blame returns the last message of an attempt that failed, with the cause of the
// failure. done is nil if the attempt sent no message.
//
// The attempt itself recognises errors of its scratch files. This worker recognises
// errors of the worker's files. A full disk can also make a task fail with an unrelated
// error, for example in a child process. So the worker checks the disk at once, and if it
// is full or broken, the node is to blame. The heartbeat that reports the failure then
// also refuses new work, and the master retries the task on another node.
func (w *Worker) blame(done *slotwisev1.Done, err error) *slotwisev1.Done {
	if done == nil {
		done = &slotwisev1.Done{}
		// Without a message the process may have died of anything. Only an error of the worker's
		// own files, or of its setting up another user, says that the node is to blame.
		if cause := engine.CauseOf(storage.Disk(err)); cause == job.CauseNode || errors.As(err, new(*ownerError)) {
			done.Cause = slotwisev1.FailureCause(cause)
		}
	}
	if done.Cause != slotwisev1.FailureCause_FAILURE_CAUSE_STORAGE && w.checkDisk(done.Cause == slotwisev1.FailureCause_FAILURE_CAUSE_NODE) {
		done.Cause = slotwisev1.FailureCause_FAILURE_CAUSE_NODE
	}
	return done
}

// outcomeWord returns the outcome of an attempt as logs and metrics spell it.
func outcomeWord(s slotwisev1.AttemptState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "ATTEMPT_STATE_"))
}

// dropJob removes the map outputs of a job that has ended. Its attempts have been
// asked to stop. Logs are kept as long as there is room for them.
func (w *Worker) dropJob(id job.ID) {
	w.mu.Lock()
	if j := w.mu.jobs[id]; j != nil {
		j.stopPolling()
		delete(w.mu.jobs, id)
	}
	// Shared processes stay: they hold nothing of the job, and the next small job finds them warm.
	w.endIdleLocked(func(c *child) bool { return !c.key.shared && c.key.job == id })
	w.mu.Unlock()
	w.logs.forget(id.String())
	// Without the lock: a thousand files take the disk a while, and heartbeats need the lock.
	err := w.home.removeOutputs(id)
	// If the directory was hidden, the outputs are back when it returns.
	if w.home.gone() != nil {
		w.mu.Lock()
		w.mu.notRemoved = append(w.mu.notRemoved, id)
		w.mu.Unlock()
	}
	if err != nil {
		w.log.Error("cannot remove the map outputs of an ended job", "job", id, "err", err)
	}
	if err := w.home.trimLogs(w.cfg.LogsSize, w.isRunning); err != nil {
		w.log.Error("cannot remove old logs", "err", err)
	}
}

// isRunning reports whether the attempt or driver of that name runs, or an idle process has
// its directory.
func (w *Worker) isRunning(name string) bool {
	id, err := job.ParseAttempt(name)
	w.mu.Lock()
	defer w.mu.Unlock()
	//house:sorted at most one driver has the name
	for d := range w.mu.drivers {
		if d.String() == name {
			return true
		}
	}
	for _, c := range w.mu.idle {
		if filepath.Base(c.dir) == name {
			return true
		}
	}
	return err == nil && w.mu.agent.IsRunning(id)
}

// watchProcesses measures the memory of attempts, drivers and idle processes, stops one that
// uses more than its limit unless a control group limits it, and kills orphans of attempts
// that have ended.
func (w *Worker) watchProcesses() {
	w.mu.Lock()
	type measured struct {
		*process
		child     *child
		cpuBefore int64
		begun     bool
	}
	var live []measured
	var drivers []*driverProcess
	//house:sorted each attempt is measured for itself
	for _, p := range w.mu.processes {
		if p.child != nil {
			live = append(live, measured{p, p.child, p.cpuBefore, p.begun})
		}
	}
	//house:sorted each driver is measured for itself
	for _, p := range w.mu.drivers {
		if p.child != nil {
			drivers = append(drivers, p)
		}
	}
	// The lists are copied under the lock. The processes may end while they are measured, and have no use then.
	idle := slices.Clone(w.mu.idle)
	orphans := w.mu.checkOrphans
	w.mu.checkOrphans = false
	w.mu.Unlock()
	// Only after a process has ended: descendants of a live one are found below it.
	if orphans {
		w.killOrphans()
	}
	var pids []int
	for _, p := range live {
		pids = append(pids, p.child.pid)
	}
	for _, p := range drivers {
		pids = append(pids, p.child.pid)
	}
	if len(pids)+len(idle) == 0 {
		return
	}
	// Not all processes of the machine: with hundreds of processes each look would take milliseconds.
	table, err := proctree.Trees(pids)
	if err != nil {
		return
	}
	// Idle processes have no descendants. On a kernel that does not list children, Trees would read all processes for them.
	for _, c := range idle {
		if p, ok := proctree.Stat(c.pid); ok {
			table[c.pid] = p
		}
	}
	for _, p := range live {
		memory, cpu := table.Use(p.child.pid)
		w.mu.Lock()
		w.mu.agent.Usage(p.id, memory, max(0, int64(cpu)-p.cpuBefore))
		w.mu.Unlock()
		// The memory of a process that has not begun the attempt was left by earlier attempts, and
		// must not fail this one.
		if limit := p.limits.memory; p.begun && p.child.group == nil && limit > 0 && memory > limit {
			p.stop(&memoryError{p.limits})
		}
	}
	large := slices.DeleteFunc(idle, func(c *child) bool {
		memory, _ := table.Use(c.pid)
		return c.group != nil || c.key.limits.memory == 0 || memory <= c.key.limits.memory
	})
	if len(large) > 0 { // an attempt may have taken one meanwhile
		w.endIdle(func(c *child) bool { return slices.Contains(large, c) })
	}
	for _, p := range drivers {
		if memory, _ := table.Use(p.child.pid); p.group == nil && p.limits.memory > 0 && memory > p.limits.memory {
			p.stop(&memoryError{p.limits})
		}
	}
}

// killOrphans kills processes that this process has adopted from attempts. It does
// so only if Config.Adopted says that every other child of this process is an
// attempt.
func (w *Worker) killOrphans() {
	if !w.cfg.Adopted {
		return
	}
	w.starter.withOwn(func(isOwn func(pid int) bool) {
		if n := proctree.KillStrays(isOwn); n > 0 {
			w.log.Warn("killed processes that attempts left behind", "processes", n)
		}
	})
}
