package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"connectrpc.com/connect"

	protocol "github.com/slotwise/slotwise/internal/attempt"
	"github.com/slotwise/slotwise/internal/job"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// run runs an attempt to its end. It returns what the attempt said, if it
// said anything, and why it did not succeed.
func (w *Worker) run(ctx context.Context, a *attempt) (*slotwisev1.Done, error) {
	info, err := w.job(ctx, a.id.Job)
	if err != nil {
		return nil, fmt.Errorf("asking the master about the job: %w", err)
	}
	path, release, err := w.executableOf(ctx, info.GetSpec().GetProgram())
	if err != nil {
		return nil, err
	}
	defer release()
	dir := w.home.attempt(a.id)
	defer os.RemoveAll(dir)
	work := filepath.Join(dir, "work")
	if err := os.MkdirAll(work, 0o700); err != nil {
		return nil, err
	}
	if err := w.ship(ctx, info.GetSpec().GetProgram().GetFiles(), work); err != nil {
		return nil, err
	}
	log, err := newLog(w.home.logPath(a.id), w.cfg.LogSize)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	c, err := w.startChild(path, work, log)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	a.child, a.log = c, log
	w.mu.Unlock()
	return w.attend(ctx, a, w.order(a, info, dir))
}

// order is what the attempt must know.
func (w *Worker) order(a *attempt, info *slotwisev1.JobForWorkerResponse, dir string) *slotwisev1.Order {
	o := &slotwisev1.Order{
		Attempt: a.id.String(), Job: info, Split: a.launch.GetSplit(), Dir: dir,
		Worker: w.home.name, OutputsDir: w.home.outputs(), Memory: w.cfg.TaskMemory, TickMs: tickEvery.Milliseconds(),
	}
	if a.id.Kind == job.Map {
		o.MapBuffer = w.cfg.mapBuffer()
	} else {
		o.MergeBuffer, o.FetchBuffer, o.Fetch = w.cfg.mergeBuffer(), w.cfg.fetchBuffer(), w.fetch
	}
	return o
}

// tickEvery is how often attempts tell of their progress.
const tickEvery = 500 * time.Millisecond

// attend gives a child its order, serves it, and waits for its end.
func (w *Worker) attend(ctx context.Context, a *attempt, order *slotwisev1.Order) (*slotwisev1.Done, error) {
	c := a.child
	go w.obey(ctx, c)
	go func() { // a child that dies before it reads must not block us
		if err := c.send(&slotwisev1.ToAttempt{What: &slotwisev1.ToAttempt_Order{Order: order}}); err == nil && a.id.Kind == job.Reduce {
			w.follow(a)
		}
	}()
	done := c.reports(func(m *slotwisev1.FromAttempt) { w.heard(ctx, a, m) })
	if done != nil { // what it still does has no meaning
		t := time.AfterFunc(w.cfg.KillGrace, c.kill)
		defer t.Stop()
	}
	err := w.reap(c)
	w.unfollow(a)
	if done.GetOk() && a.id.Kind == job.Map && done.GetOutput() != "" {
		err := w.home.keep(a.id, filepath.Join(order.GetDir(), protocol.OutputName))
		return done, err
	}
	switch cause := context.Cause(ctx); {
	case done.GetOk():
		return done, nil
	case cause != nil:
		return done, cause
	case done == nil:
		return nil, crash(err, a.log)
	}
	return done, errors.New(done.GetError())
}

// heard takes what a child says.
func (w *Worker) heard(ctx context.Context, a *attempt, m *slotwisev1.FromAttempt) {
	switch what := m.GetWhat().(type) {
	case *slotwisev1.FromAttempt_Progress:
		w.mu.Lock()
		a.progress = what.Progress
		w.mu.Unlock()
	case *slotwisev1.FromAttempt_AskCommit:
		go func() {
			answer := w.askCommit(ctx, a.id)
			_ = a.child.send(&slotwisev1.ToAttempt{What: &slotwisev1.ToAttempt_Commit{Commit: answer}})
		}()
	case *slotwisev1.FromAttempt_FetchFailure:
		f := what.FetchFailure
		f.Reduce = a.id.String()
		w.mu.Lock()
		w.mu.complaint = append(w.mu.complaint, f)
		w.mu.Unlock()
		w.beatNow()
	}
}

// askCommit asks the master until there is an answer or the attempt is to stop.
func (w *Worker) askCommit(ctx context.Context, id job.AttemptID) *slotwisev1.AskCommitResponse {
	for try := 0; ; try++ {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		resp, err := w.rpc.AskCommit(call, &slotwisev1.AskCommitRequest{Session: w.session(), Attempt: id.String()})
		cancel()
		switch {
		case err == nil:
			return resp
		case ctx.Err() != nil:
			return &slotwisev1.AskCommitResponse{Reason: context.Cause(ctx).Error()}
		}
		w.log.Warn("asking whether to commit", "attempt", id, "err", err)
		pause(ctx, try)
	}
}

func (w *Worker) session() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.session
}

// executableOf finds the program that runs attempts of a job: this one, or one
// that the submitter has sent.
func (w *Worker) executableOf(ctx context.Context, p *slotwisev1.Program) (path string, release func(), err error) {
	if p.GetExecutable() == w.executable {
		return w.cfg.Executable, func() {}, nil
	}
	return w.files.get(ctx, p.GetExecutable())
}

// ship puts the job's files into the attempt's working directory. They are
// copies, so that a task can't spoil another's.
func (w *Worker) ship(ctx context.Context, files []*slotwisev1.ShippedFile, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range files {
		if err := w.shipOne(ctx, f, root); err != nil {
			return fmt.Errorf("shipped file %q: %w", f.GetName(), err)
		}
	}
	return nil
}

func (w *Worker) shipOne(ctx context.Context, f *slotwisev1.ShippedFile, root *os.Root) error {
	if name := f.GetName(); name != filepath.Base(name) || name == "." || name == ".." {
		return errors.New("not a plain name")
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

// jobState is what the worker knows of a job.
type jobState struct {
	id    job.ID
	info  *slotwisev1.JobForWorkerResponse
	stop  context.CancelFunc      // of the poller; a no-op without one
	where []*slotwisev1.MapOutput // all that is known, in order
	// readers are the reduces that follow; the poller runs while there are any.
	readers map[*attempt]*reader
	cursor  string
}

// job asks the master about a job, once.
func (w *Worker) job(ctx context.Context, id job.ID) (*slotwisev1.JobForWorkerResponse, error) {
	for try := 0; ; try++ {
		w.mu.Lock()
		known := w.mu.jobs[id]
		w.mu.Unlock()
		if known != nil {
			return known.info, nil
		}
		call, cancel := context.WithTimeout(ctx, callTimeout)
		info, err := w.rpc.JobForWorker(call, &slotwisev1.JobForWorkerRequest{Session: w.session(), Job: id.String()})
		cancel()
		switch {
		case err == nil:
			w.mu.Lock()
			if w.mu.jobs[id] == nil {
				w.mu.jobs[id] = &jobState{id: id, info: info, stop: func() {}, readers: map[*attempt]*reader{}}
			}
			w.mu.Unlock()
			continue
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case connect.CodeOf(err) == connect.CodeNotFound:
			return nil, err
		}
		pause(ctx, try)
	}
}

// secret is a job's secret for the fetching of map outputs, nil if it is not known.
func (w *Worker) secret(name string) []byte {
	id, err := job.ParseID(name)
	if err != nil {
		return nil
	}
	w.mu.Lock()
	known := w.mu.jobs[id]
	w.mu.Unlock()
	if known != nil {
		return known.info.GetSecret()
	}
	// After a restart outputs lie here of jobs that have run nothing here since.
	if _, err := os.Stat(filepath.Join(w.home.outputs(), id.String())); err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if info, err := w.job(ctx, id); err == nil {
		return info.GetSecret()
	}
	return nil
}
