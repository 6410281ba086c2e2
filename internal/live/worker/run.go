package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/slotwise/slotwise/internal/base/proctree"
	protocol "github.com/slotwise/slotwise/internal/live/attempt"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// run runs an attempt to its end. It returns what the attempt said of itself, nil
// if it said nothing, and the reason why it did not succeed.
func (w *Worker) run(ctx context.Context, p *process) (*slotwisev1.Done, error) {
	info, err := w.jobInfo(ctx, p.id.Job)
	if err != nil {
		return nil, fmt.Errorf("asking the master for the job's description: %w", err)
	}
	// Before any file of the job is copied or opened on this machine.
	if err := w.checkFiles(p, info.GetSpec()); err != nil {
		return nil, err
	}
	// Before the executable is downloaded: a user who does not exist here fails the attempt at once.
	owner, err := w.cfg.findOwner(info.GetOwner())
	if err != nil {
		return nil, err
	}
	path, release, err := w.findExecutable(ctx, info.GetSpec().GetProgram())
	if err != nil {
		return nil, err
	}
	defer release()
	w.mu.Lock()
	p.limits, p.owner = w.cfg.limitsOf(info.GetSpec(), p.launch.GetWidth()), owner
	w.mu.Unlock()
	key := w.keyOf(p, info, path)
	var c *child
	// Taken before the directories are made, because an idle child may bring an empty
	// directory that saves making them.
	if w.cfg.reuses(path) {
		c = w.takeIdle(key)
	}
	order := w.attemptOrder(p, info, w.home.attempt(p.id))
	order.Keep = w.cfg.reuses(path)
	defer func() {
		if !p.dirKept {
			w.removeDir(order.GetDir())
		}
	}()
	if err := w.prepareAttempt(ctx, p, order, c); err != nil {
		if c != nil {
			// The child has no attempt, so nothing else would end it.
			w.endLater(c)
		}
		return nil, err
	}
	defer p.log.Close()
	if c != nil {
		done, err := w.superviseChild(ctx, p, order, c)
		// An attempt that has not begun has had no effect, so it may be given to another process.
		// Any other error is the attempt's outcome.
		if !errors.Is(err, errNotBegun) {
			return done, err
		}
		w.log.Info("the attempt's process ended while it was idle: another one is started", "attempt", p.id, "pid", c.pid)
	}
	if c, err = w.freshChild(p, key, order.GetWork()); err != nil {
		return nil, err
	}
	return w.superviseChild(ctx, p, order, c)
}

// prepareAttempt makes the attempt's directories and its log. If the child has an emptied
// directory of an earlier attempt, the attempt gets that one.
func (w *Worker) prepareAttempt(ctx context.Context, p *process, order *slotwisev1.Order, c *child) (err error) {
	dir, files := order.GetDir(), order.GetJob().GetSpec().GetProgram().GetFiles()
	if c != nil && c.takeDir(dir) {
		order.Work = workDir(dir)
		if len(files) > 0 { // the directory is of an earlier job, which had none
			err = w.copyShippedFiles(ctx, files, order.Work)
		}
		if err != nil {
			return err
		}
	} else if order.Work, err = w.makeWorkDir(ctx, dir, files, p.owner); err != nil {
		return err
	}
	log, err := w.home.newLog(p.id.String(), w.cfg.LogSize)
	if err != nil {
		return err
	}
	w.mu.Lock()
	p.log = log
	w.mu.Unlock()
	// Copying files takes time. A job that was killed meanwhile needs no process.
	if err := context.Cause(ctx); err != nil {
		return errors.Join(err, log.Close())
	}
	return nil
}

// freshChild starts a process for the attempt.
func (w *Worker) freshChild(p *process, key poolKey, work string) (*child, error) {
	// Idle processes leave before the new one starts, so the machine never holds more
	// processes than it has slots.
	w.makeRoom()
	name := p.id.String()
	// The group first, because a process must begin its life in it.
	group, err := w.newGroup(name, p.limits)
	if err != nil {
		return nil, err
	}
	c, err := w.startChild(&childOrder{name, key.path, work, protocol.Task, p.limits, group, p.owner})
	if err != nil {
		w.removeGroup(name, group)
		return nil, err
	}
	c.key = key
	return c, nil
}

// checkFiles returns an error if an attempt would read or write the worker's own files.
// The master checks that, too, and does not see the links of this machine.
func (w *Worker) checkFiles(p *process, spec *slotwisev1.JobSpec) error {
	pieces, out := p.launch.GetSplit().GetPieces(), spec.GetOutput()
	// Only reduces open the output of a job that has some.
	if p.id.Kind == job.Map && spec.GetReduces() > 0 {
		out = ""
	}
	if len(pieces) == 0 && out == "" {
		return nil
	}
	// Without a user's root: the master applies those. Here only the worker's own files are
	// refused.
	check := w.roots.Check("", false)
	for _, piece := range pieces {
		if err := check.Input(piece.GetUri()); err != nil {
			return err
		}
	}
	if out != "" {
		return check.Output(out)
	}
	return nil
}

// attemptOrder composes the message that tells the child process what to do.
func (w *Worker) attemptOrder(p *process, info *slotwisev1.JobForWorkerResponse, dir string) *slotwisev1.Order {
	o := &slotwisev1.Order{
		Attempt: p.id.String(), Job: info, Split: p.launch.GetSplit(), Dir: dir,
		Worker: w.home.name, Memory: p.limits.memory, TickMs: progressEvery.Milliseconds(),
	}
	if p.owner == nil { // another user cannot read the files and fetches them as from other workers
		o.OutputsDir = w.home.outputs()
	}
	if p.id.Kind == job.Map {
		o.MapBuffer = p.limits.buffer
	} else {
		o.MergeBuffer, o.FetchBuffer, o.Fetch = p.limits.mergeBuffer(), p.limits.fetchBuffer(), w.fetch
	}
	return o
}

// progressEvery is the interval at which attempts report progress to the worker.
const progressEvery = 500 * time.Millisecond

// errNotBegun is the error of an attempt whose process was idle before, and ended or hung
// before it began the attempt.
var errNotBegun = errors.New("the attempt's process has not begun the attempt")

// superviseChild sends the child process its order, serves its requests, and waits
// until the attempt has ended, which frees the slot. A child that waits for the next
// attempt is kept if all went well. Any other child ends: one that has said how the
// attempt ended gets KillGrace to exit, since nothing that it does afterwards counts. A
// child whose process has ended gets lateMessages, whatever its descendants do.
func (w *Worker) superviseChild(ctx context.Context, p *process, order *slotwisev1.Order, c *child) (*slotwisev1.Done, error) {
	// The turn before the order: stopReading and the answers of other goroutines go through it, and
	// it ends with the attempt while the child lives on.
	t := &turn{child: c}
	w.assign(p, t)
	begin := newBeginning(c, beginGraces*w.cfg.KillGrace)
	over := make(chan struct{})
	// Not a goroutine that waits for each attempt's end: most attempts are never stopped.
	unwatch := context.AfterFunc(ctx, func() { w.stopChild(ctx, c, over) })
	defer unwatch()
	stopCopying := c.copyOutput(p.log)
	ordered := make(chan struct{})
	go func() { // in a goroutine, because a child that never reads would block the send
		defer close(ordered)
		if err := t.send(&slotwisev1.ToAttempt{What: &slotwisev1.ToAttempt_Order{Order: order}}); err == nil && p.id.Kind == job.Reduce {
			w.startReading(p, t)
		}
	}()
	// Blocks until the attempt has said how it ended or its process is gone.
	done := c.receive(func(m *slotwisev1.FromAttempt) {
		if m.GetBegan() {
			begin.happened()
			w.begun(p)
			return
		}
		w.serveChild(ctx, p, t, m)
	})
	begin.over()
	// From here on the child may be kept: a stop that arrives now must not kill the process
	// under its next attempt.
	close(over)
	// A message that was cut off would be read as the beginning of the next attempt's order.
	whole := t.endSends(w.cfg.KillGrace)
	<-ordered
	w.stopReading(p, t)
	// Kept only if nothing casts doubt on the process: it has answered everything, was not
	// stopped, and no limit has killed one of its processes.
	if done.GetReady() && done.GetOk() && whole && ctx.Err() == nil && begin.reusable() && !outOfMemory(c) {
		stopCopying()
		err := w.keepMapOutput(p, order, done)
		p.dirKept = err == nil && p.keepsDir(order) && c.keepDir(order.GetDir())
		if err != nil || !w.keepIdle(c) {
			w.endLater(c)
		}
		return done, err
	}
	defer w.removeGroup(c.name, c.group)
	if done != nil {
		// The process waits for another order. Closing its pipe is how it learns that there is
		// none.
		if done.GetReady() {
			c.in.Close()
		}
		grace := time.AfterFunc(w.cfg.KillGrace, c.kill)
		defer grace.Stop()
	}
	err := w.waitChild(c, stopCopying)
	// A success that the process has reported before it was stopped counts: its file may be
	// committed already, and a report of failure would run the task again for nothing.
	switch fault := begin.fault(context.Cause(ctx), outOfMemory(c), p.limits); {
	case done.GetOk():
		return done, w.keepMapOutput(p, order, done)
	case fault != nil:
		return done, fault
	case done == nil:
		return nil, begin.blame(newCrashError(err, p.log))
	}
	return done, errors.New(done.GetError())
}

// assign makes c the process of the attempt.
func (w *Worker) assign(p *process, t *turn) {
	// The processor time of earlier attempts of the child is not this attempt's.
	c, before := t.child, int64(0)
	if c.turns > 0 {
		before = int64(proctree.CPU(c.pid))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p.child, p.turn, p.cpuBefore, p.begun = c, t, before, c.turns == 0
}

// begun notes that the attempt's process has begun it, so that the attempt answers for the
// process's memory from now on.
func (w *Worker) begun(p *process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.begun = true
}

// outOfMemory reports whether the kernel has killed a process of the child's control group.
func outOfMemory(c *child) bool { return c.group != nil && c.group.OutOfMemory() }

// keepMapOutput stores the output of a map that has succeeded.
func (w *Worker) keepMapOutput(p *process, order *slotwisev1.Order, done *slotwisev1.Done) error {
	partitions := int(order.GetJob().GetSpec().GetReduces())
	if p.id.Kind != job.Map || done.GetOutput() == "" || partitions == 0 {
		return nil
	}
	return w.home.keepOutput(p.id, filepath.Join(order.GetDir(), protocol.OutputName), p.owner, partitions)
}

// beginning is the time between an order and the child's answer that it has begun. Only
// the goroutine that receives the child's messages uses it.
type beginning struct {
	timer *time.Timer // kills a child that does not begin; nil for a fresh child
	begun bool
	late  bool // the child began when the timer was about to kill it
}

// newBeginning counts the child's next attempt. A fresh child is taken to begin at once.
func newBeginning(c *child, within time.Duration) *beginning {
	b := &beginning{begun: c.turns == 0}
	if c.turns++; !b.begun {
		b.timer = time.AfterFunc(within, c.kill)
	}
	return b
}

// happened notes that the attempt has begun.
func (b *beginning) happened() {
	b.late = !b.begun && !b.timer.Stop()
	b.begun = true
}

// reusable returns false if the timer has fired, because the child is then being killed.
func (b *beginning) reusable() bool { return b.begun && !b.late }

// over stops the timer.
func (b *beginning) over() {
	if b.timer != nil {
		b.timer.Stop()
	}
}

// fault returns why the worker or the kernel has ended the attempt's child, nil if they have
// not. cause is the cause of the cancelled attempt. A child that used too much memory before
// it began the attempt is no fault of the attempt.
func (b *beginning) fault(cause error, outOfMemory bool, l limits) error {
	switch {
	case !b.begun && cause == nil:
		return errNotBegun
	case outOfMemory && b.begun:
		return &memoryError{l}
	}
	return cause
}

// blame returns the error of an attempt whose child has crashed.
func (b *beginning) blame(crash error) error {
	if b.late {
		return &killedError{"its process was idle before and did not begin in time"}
	}
	return crash
}

// serveChild handles one message of a child process. It does not block.
func (w *Worker) serveChild(ctx context.Context, p *process, t *turn, m *slotwisev1.FromAttempt) {
	switch what := m.GetWhat().(type) {
	case *slotwisev1.FromAttempt_Progress:
		w.mu.Lock()
		w.mu.agent.Progress(p.id, what.Progress.GetFraction(), what.Progress.GetTicks())
		w.mu.Unlock()
	case *slotwisev1.FromAttempt_AskCommit:
		if !t.asking.CompareAndSwap(false, true) {
			return // the answer to the earlier request is the answer to this one
		}
		go func() {
			answer := w.askCommit(ctx, p.id)
			t.asking.Store(false) // the attempt may ask again once it has the answer
			_ = t.send(&slotwisev1.ToAttempt{What: &slotwisev1.ToAttempt_Commit{Commit: answer}})
		}()
	case *slotwisev1.FromAttempt_Stack:
		select {
		case p.stacks <- what.Stack:
		default: // the last answer is still in the channel, and a program may send any number
		}
	case *slotwisev1.FromAttempt_FetchFailure:
		f := what.FetchFailure
		f.Reduce = p.id.String()
		w.mu.Lock()
		w.mu.agent.FetchFailed(f)
		w.mu.Unlock()
		w.heartbeatNow()
	}
}

// askCommit asks the master for permission to commit the attempt's output. It
// retries until the master answers or the attempt is stopped.
func (w *Worker) askCommit(ctx context.Context, id job.AttemptID) *slotwisev1.AskCommitResponse {
	for try := 0; ; try++ {
		w.mu.Lock()
		session := w.mu.agent.Session()
		w.mu.Unlock()
		call, cancel := context.WithTimeout(ctx, callTimeout)
		// The session is read for each try. A request in an earlier session is refused, and the attempt outlives
		// sessions.
		resp, err := w.rpc.AskCommit(call, &slotwisev1.AskCommitRequest{Session: session, Attempt: id.String()})
		cancel()
		switch {
		case err == nil:
			return resp
		// The attempt was stopped. Without an answer its process would wait for one until it is
		// killed.
		case ctx.Err() != nil:
			return &slotwisev1.AskCommitResponse{Reason: context.Cause(ctx).Error()}
		}
		w.log.Warn("cannot ask the master for permission to commit", "attempt", id, "err", err)
		// Without a bound on tries: an attempt that cannot ask must not commit, and the master ends it if no job
		// needs it.
		backOff(ctx, try)
	}
}

// findExecutable returns the path of the program that runs a job's attempts: this
// worker's own executable, or one that the submitter uploaded. The caller must
// call release when the attempt has ended.
func (w *Worker) findExecutable(ctx context.Context, p *slotwisev1.Program) (path string, release func(), err error) {
	// By its hash: the same program needs no copy, and its processes may serve later jobs.
	if p.GetExecutable() == w.executable {
		return w.cfg.Executable, func() {}, nil
	}
	return w.files.get(ctx, p.GetExecutable())
}

// makeWorkDir makes the directory of an attempt or driver and its working directory, with
// copies of the job's files, and gives them to owner if that is not nil. What an earlier
// worker has left there is removed first: it may be links of another user.
func (w *Worker) makeWorkDir(ctx context.Context, dir string, files []*slotwisev1.ShippedFile, owner *account) (work string, err error) {
	w.removeDir(dir) // if it stays, Mkdir fails
	work = workDir(dir)
	for _, d := range []string{dir, work} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return "", err
		}
	}
	if err := w.copyShippedFiles(ctx, files, work); err != nil {
		return "", err
	}
	return work, giveDir(dir, work, owner)
}

// removeDir removes the directory of an attempt or driver that has ended.
func (w *Worker) removeDir(dir string) {
	if err := w.home.remove(dir); err != nil {
		w.log.Warn("what an attempt has left cannot be removed", "dir", dir, "err", err)
	}
}

// workDir returns the working directory of the attempt or driver with the directory dir.
func workDir(dir string) string { return filepath.Join(dir, "work") }

// copyShippedFiles copies the job's files into the attempt's working directory.
// Attempts get copies, because a task may overwrite them.
func (w *Worker) copyShippedFiles(ctx context.Context, files []*slotwisev1.ShippedFile, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range files {
		if err := w.copyShippedFile(ctx, f, root); err != nil {
			return fmt.Errorf("shipped file %q: %w", f.GetName(), err)
		}
	}
	return nil
}

// copyShippedFile copies one file. Its name comes from the submitter, so root
// confines it to the working directory.
func (w *Worker) copyShippedFile(ctx context.Context, f *slotwisev1.ShippedFile, root *os.Root) error {
	if name := f.GetName(); name != filepath.Base(name) || name == "." || name == ".." {
		return errors.New("its name must be a plain file name without a directory")
	}
	path, release, err := w.files.get(ctx, f.GetSha256())
	if err != nil {
		return err
	}
	defer release()
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	mode := os.FileMode(0o600)
	if f.GetExecutable() {
		mode = 0o700
	}
	// O_EXCL refuses two files of one name, which the submitter may have listed.
	to, err := root.OpenFile(f.GetName(), os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}
