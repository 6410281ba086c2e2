package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	protocol "github.com/slotwise/slotwise/internal/attempt"
	"github.com/slotwise/slotwise/internal/job"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// run runs an attempt to its end. It returns what the attempt said of itself, nil
// if it said nothing, and the reason why it did not succeed.
func (w *Worker) run(ctx context.Context, p *process) (*slotwisev1.Done, error) {
	info, err := w.jobInfo(ctx, p.id.Job)
	if err != nil {
		return nil, fmt.Errorf("asking the master for the job's description: %w", err)
	}
	if err := w.checkFiles(p.launch.GetSplit(), info.GetSpec()); err != nil {
		return nil, err
	}
	owner, err := w.cfg.findOwner(info.GetOwner())
	if err != nil {
		return nil, err
	}
	path, release, err := w.findExecutable(ctx, info.GetSpec().GetProgram())
	if err != nil {
		return nil, err
	}
	defer release()
	dir := w.home.attempt(p.id)
	defer os.RemoveAll(dir)
	work, err := w.makeWorkDir(ctx, dir, info.GetSpec().GetProgram().GetFiles(), owner)
	if err != nil {
		return nil, err
	}
	log, err := newLog(w.home.logPath(p.id.String()), w.cfg.LogSize)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	lim := w.cfg.limitsOf(info.GetSpec(), p.launch.GetWidth())
	w.mu.Lock()
	p.limits = lim
	w.mu.Unlock()
	group, err := w.newGroup(p.id.String(), lim)
	if err != nil {
		return nil, err
	}
	defer w.removeGroup(p.id.String(), group)
	c, err := w.startChild(&childOrder{path, work, log, protocol.Task, lim, group, owner})
	w.mu.Lock()
	p.child, p.log, p.group, p.owner = c, log, group, owner
	w.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return w.superviseChild(ctx, p, w.attemptOrder(p, info, dir))
}

// checkFiles returns an error if an attempt would read or write the worker's own files.
// The master checks that, too, and does not see the links of this machine.
func (w *Worker) checkFiles(s *slotwisev1.Split, spec *slotwisev1.JobSpec) error {
	check := w.roots.Check("", false)
	for _, p := range s.GetPieces() {
		if err := check.Input(p.GetUri()); err != nil {
			return err
		}
	}
	if out := spec.GetOutput(); out != "" {
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

// superviseChild sends the child process its order, serves its requests, and waits
// until it has ended, which frees the slot. A child that has said how it ended gets
// KillGrace to exit, since nothing that it does afterwards counts. A child whose process
// has ended gets lateMessages, whatever its descendants do.
func (w *Worker) superviseChild(ctx context.Context, p *process, order *slotwisev1.Order) (*slotwisev1.Done, error) {
	c := p.child
	go w.stopChildOnCancel(ctx, c)
	go func() { // in a goroutine, because a child that never reads would block the send
		if err := c.send(&slotwisev1.ToAttempt{What: &slotwisev1.ToAttempt_Order{Order: order}}); err == nil && p.id.Kind == job.Reduce {
			w.startReading(p)
		}
	}()
	done := c.receive(func(m *slotwisev1.FromAttempt) { w.serveChild(ctx, p, m) })
	if done != nil {
		t := time.AfterFunc(w.cfg.KillGrace, c.kill)
		defer t.Stop()
	}
	err := w.waitChild(c)
	w.stopReading(p)
	if done.GetOk() && p.id.Kind == job.Map && done.GetOutput() != "" {
		return done, w.home.keepOutput(p.id, filepath.Join(order.GetDir(), protocol.OutputName), p.owner)
	}
	switch cause := context.Cause(ctx); {
	case done.GetOk():
		return done, nil
	case p.group != nil && p.group.OutOfMemory():
		return done, &memoryError{p.limits}
	case cause != nil:
		return done, cause
	case done == nil:
		return nil, newCrashError(err, p.log)
	}
	return done, errors.New(done.GetError())
}

// serveChild handles one message of a child process. It does not block.
func (w *Worker) serveChild(ctx context.Context, p *process, m *slotwisev1.FromAttempt) {
	switch what := m.GetWhat().(type) {
	case *slotwisev1.FromAttempt_Progress:
		w.mu.Lock()
		w.mu.agent.Progress(p.id, what.Progress.GetFraction(), what.Progress.GetTicks())
		w.mu.Unlock()
	case *slotwisev1.FromAttempt_AskCommit:
		go func() {
			answer := w.askCommit(ctx, p.id)
			_ = p.child.send(&slotwisev1.ToAttempt{What: &slotwisev1.ToAttempt_Commit{Commit: answer}})
		}()
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
		resp, err := w.rpc.AskCommit(call, &slotwisev1.AskCommitRequest{Session: session, Attempt: id.String()})
		cancel()
		switch {
		case err == nil:
			return resp
		case ctx.Err() != nil:
			return &slotwisev1.AskCommitResponse{Reason: context.Cause(ctx).Error()}
		}
		w.log.Warn("cannot ask the master for permission to commit", "attempt", id, "err", err)
		backOff(ctx, try)
	}
}

// findExecutable returns the path of the program that runs a job's attempts: this
// worker's own executable, or one that the submitter uploaded. The caller must
// call release when the attempt has ended.
func (w *Worker) findExecutable(ctx context.Context, p *slotwisev1.Program) (path string, release func(), err error) {
	if p.GetExecutable() == w.executable {
		return w.cfg.Executable, func() {}, nil
	}
	return w.files.get(ctx, p.GetExecutable())
}

// makeWorkDir makes the directory of an attempt or driver and its working directory, with
// copies of the job's files, and gives them to owner if that is not nil. What an earlier
// worker has left there is removed first: it may be links of another user.
func (w *Worker) makeWorkDir(ctx context.Context, dir string, files []*slotwisev1.ShippedFile, owner *account) (work string, err error) {
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	work = filepath.Join(dir, "work")
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
	to, err := root.OpenFile(f.GetName(), os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}
