package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/live/attempt"
	"github.com/slotwise/slotwise/internal/live/cgroup"
	"github.com/slotwise/slotwise/internal/live/worker/agent"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// driverProcess is a driver that runs in this worker: the process that runs the function
// of a chain. It occupies no slot.
type driverProcess struct {
	id      agent.DriverID
	drive   *slotwisev1.Drive
	masters int // Worker.mu.masters when the driver began
	// stop cancels the driver's context, as in process.
	stop  context.CancelCauseFunc
	ended chan struct{} // closed when the process has ended and its directory is removed
	// Worker.mu guards child and log, which are nil until the child process has started.
	child *child
	log   *logFile
	// limits and group are set before child is. group is nil without control groups.
	limits limits
	group  *cgroup.Group
}

// startDriver runs a driver in a goroutine and reports its end to the master.
func (w *Worker) startDriver(id agent.DriverID, d *slotwisev1.Drive) {
	ctx, stop := context.WithCancelCause(context.Background())
	p := &driverProcess{id: id, drive: d, stop: stop, ended: make(chan struct{})}
	w.mu.Lock()
	p.masters = w.mu.masters
	before := w.mu.drivers[id] // of a master that was replaced; it has been stopped
	w.mu.drivers[id] = p
	w.tasks.Add(1)
	w.mu.Unlock()
	go func() {
		defer w.tasks.Done()
		defer stop(nil)
		// Both have one directory, named by chain and try. The earlier driver removes it when it
		// has ended.
		if before != nil {
			<-before.ended
		}
		done, err := w.runDriver(ctx, p)
		close(p.ended)
		w.driverEnded(p, done, err)
	}()
}

// stopDriver asks a running driver to end.
func (w *Worker) stopDriver(id agent.DriverID, reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.mu.drivers[id]; p != nil {
		p.stop(&killedError{reason})
	}
}

// runDriver runs a driver to its end, as run does for an attempt.
func (w *Worker) runDriver(ctx context.Context, p *driverProcess) (*slotwisev1.Done, error) {
	program := p.drive.GetSpec().GetJob().GetProgram()
	owner, err := w.cfg.findOwner(p.drive.GetOwner())
	// All workers are expected to know the same users, so another one would refuse, too.
	if errors.As(err, new(*ownerError)) {
		return &slotwisev1.Done{Error: err.Error(), Final: true}, err
	}
	if err != nil {
		return nil, err
	}
	path, release, err := w.findExecutable(ctx, program)
	if err != nil {
		return nil, err
	}
	defer release()
	dir := w.home.driver(p.id)
	defer w.removeDir(dir)
	work, err := w.makeWorkDir(ctx, dir, program.GetFiles(), owner)
	if err != nil {
		return nil, err
	}
	log, err := w.home.newLog(p.id.String(), w.cfg.LogSize)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	// The chain may have been killed while files were downloaded.
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	lim := w.cfg.limitsOf(nil, 1)
	group, err := w.newGroup(p.id.String(), lim)
	if err != nil {
		return nil, err
	}
	defer w.removeGroup(p.id.String(), group)
	c, err := w.startChild(&childOrder{p.id.String(), path, work, attempt.Driver, lim, group, owner})
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	p.child, p.log, p.limits, p.group = c, log, lim, group
	w.mu.Unlock()
	return w.superviseDriver(ctx, c, p, log)
}

// superviseDriver sends the driver its order and waits until it has ended.
func (w *Worker) superviseDriver(ctx context.Context, c *child, p *driverProcess, log *logFile) (*slotwisev1.Done, error) {
	context.AfterFunc(ctx, func() { w.stopChild(ctx, c, nil) })
	stopCopying := c.copyOutput(log)
	go func() { // in a goroutine, because a child that never reads would block the send
		_ = c.send(&slotwisev1.ToAttempt{What: &slotwisev1.ToAttempt_Drive{Drive: &slotwisev1.DriverOrder{
			Drive: p.drive, Master: w.cfg.Master, CaPem: w.fetch.GetCaPem(),
		}}})
	}()
	done := c.receive(func(*slotwisev1.FromAttempt) {})
	// The driver has said how it ended. A process that does not exit afterwards must not keep
	// its place.
	if done != nil {
		t := time.AfterFunc(w.cfg.KillGrace, c.kill)
		defer t.Stop()
	}
	err := w.waitChild(c, stopCopying)
	switch cause := context.Cause(ctx); {
	// Success is reported after the last step has ended, so it stands even if the driver was
	// stopped meanwhile.
	case done.GetOk():
		return done, nil
	case p.group != nil && p.group.OutOfMemory():
		return done, &memoryError{p.limits}
	case cause != nil:
		return done, cause
	case done == nil:
		return nil, fmt.Errorf("the driver crashed: %w", newCrashError(err, log))
	}
	return done, errors.New(done.GetError())
}

// driverEnded reports the outcome of a driver to the master.
func (w *Worker) driverEnded(p *driverProcess, done *slotwisev1.Done, err error) {
	state, text, tail := outcomeOf(done, err)
	w.mu.Lock()
	// The lock covers the test and the report: the agent must not report the end of a driver that
	// another master started.
	if w.mu.drivers[p.id] == p { // else another master has given the id again
		delete(w.mu.drivers, p.id)
		w.mu.agent.EndDriver(p.id, state, text, tail, done.GetFinal())
	}
	run, _, _ := strings.Cut(p.id.String(), "_")
	w.logs.add(endedLog{p.id.String(), run, p.log, state == agent.Failed, p.masters})
	w.mu.Unlock()
	w.log.Info("driver ended", "chain", p.id.Chain, "try", p.id.Try, "state", outcomeWord(state), "error", text)
	w.heartbeatNow()
}
