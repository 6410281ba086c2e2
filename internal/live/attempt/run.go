package attempt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/base/counters"
	"github.com/slotwise/slotwise/internal/base/retry"
	"github.com/slotwise/slotwise/internal/data/engine"
	"github.com/slotwise/slotwise/internal/data/engine/mem"
	"github.com/slotwise/slotwise/internal/data/engine/runfile"
	"github.com/slotwise/slotwise/internal/data/format"
	"github.com/slotwise/slotwise/internal/data/output"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/live/wire"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// OutputName is the name of a map's run file in the attempt's directory.
const OutputName = "output.run"

// runner runs one attempt. Three goroutines use it: run executes the task, host.listen
// passes the worker's messages to handle, and one sends progress. prepare sets all fields
// before they start, the atomic ones and commit excepted.
type runner struct {
	schemes *storage.Schemes // of the job's input and output
	order   *slotwisev1.Order
	spec    *slotwisev1.JobSpec
	id      job.AttemptID
	program *engine.Program
	out     *outlet
	stop    context.CancelCauseFunc // ends the task
	inputs  *inputs                 // nil for a map
	mem     *mem.Pool
	commit  chan *slotwisev1.AskCommitResponse // receives the answer to askCommit
	meter   engine.Meter
	user    engine.UserCounters // of the job's own code
	scratch *storage.DirScratch
	codec   runfile.Codec // of intermediate data
	outCode output.Codec
	written int64 // bytes of keys and values in the map's run file
}

// prepare checks the order and makes what the task needs. Its errors fail the
// attempt.
func (r *runner) prepare(build Builder) (err error) {
	r.spec = r.order.GetJob().GetSpec()
	// First: the job's code runs in the attempt's directory, also while it builds the program.
	if err := enter(r.order.GetWork()); err != nil {
		return err
	}
	if r.id, err = job.ParseAttempt(r.order.GetAttempt()); err != nil {
		return err
	}
	// Not permanent: a worker with another build may know the app.
	if r.program, err = build(r.spec.GetProgram()); err != nil {
		return fmt.Errorf("this program cannot build the job: %w", err)
	}
	// Commands and the Go packages refuse such a job before they submit it. Other clients may
	// not, and the master does not know which apps write records.
	if r.spec.GetOutput() == "" && !r.program.NoOutput {
		return retry.Permanent(errors.New("the job writes records and names no output directory for them"))
	}
	// A name that this program does not know will not be known by its next process either, so
	// the error is permanent.
	if text := r.spec.GetOutputRows(); text != "" {
		if r.program.Rows, err = format.ParseOutput(text); err != nil {
			return retry.Permanent(err)
		}
	}
	if r.codec, err = runfile.ParseCodec(r.spec.GetShuffleCodec()); err != nil {
		return retry.Permanent(err)
	}
	if r.outCode, err = output.ParseCodec(r.spec.GetOutputCodec()); err != nil {
		return retry.Permanent(err)
	}
	r.scratch = storage.ScratchIn(r.order.GetDir())
	// The sum is the memory that the worker has set aside for this attempt. GOMEMLIMIT covers the rest, the Go heap.
	r.mem = mem.NewPool(r.order.GetMapBuffer() + r.order.GetMergeBuffer() + r.order.GetFetchBuffer())
	if r.id.Kind == job.Reduce {
		// Fetching begins here, while the task is still being set up.
		r.inputs, err = newInputs(r, r.mem)
	}
	return err
}

// handle handles a message of the worker. It does not block. After the attempt has ended
// it changes nothing.
func (r *runner) handle(m *slotwisev1.ToAttempt) {
	switch what := m.GetWhat().(type) {
	case *slotwisev1.ToAttempt_MapOutputs:
		if r.inputs != nil {
			r.inputs.update(what.MapOutputs)
		}
	case *slotwisev1.ToAttempt_Commit:
		select {
		// The channel has room for one answer, so the goroutine that reads the worker's messages never waits for
		// the task.
		case r.commit <- what.Commit:
		default: // a repeated answer
		}
	case *slotwisev1.ToAttempt_Stop:
		r.stop(&Stopped{what.Stop})
	case *slotwisev1.ToAttempt_Stack:
		// An error means that the attempt has ended, and with it the interest in its stacks.
		_ = r.out.send(&slotwisev1.FromAttempt{What: &slotwisev1.FromAttempt_Stack{Stack: stacks()}})
	}
}

// maxStacks is the most bytes of stacks that an attempt reports. The worker reads no message
// larger than bounds.Report.
const maxStacks = 256 << 10

// stacks returns the stacks of all goroutines of this process, as a panic prints them.
func stacks() string {
	b := make([]byte, maxStacks)
	n := runtime.Stack(b, true)
	return strings.ToValidUTF8(string(b[:n]), "")
}

// run runs the task and returns the report of its outcome.
func (r *runner) run(ctx context.Context) *slotwisev1.Done {
	defer r.scratch.Close()
	stopProgress := r.sendProgress()
	// In another goroutine: the job's code can end the goroutine by runtime.Goexit, and the process would wait
	// for ever without a report.
	count, err, ended := &counters.Set{}, engine.ErrGoexit, make(chan struct{})
	go func() {
		defer close(ended)
		count, err = r.task(ctx)
	}()
	<-ended
	// Before the outcome: the worker takes Done for the last message of the attempt.
	stopProgress()
	d := &slotwisev1.Done{Counters: wire.EncodeCounters(count)}
	switch {
	case err != nil:
		d.Error, d.LogTail, d.Cause = engine.ErrorText(err), logTail(err), causeOf(err)
	default:
		d.Ok = true
		// The worker keeps the output only if it is named.
		if r.id.Kind == job.Map && r.spec.GetReduces() > 0 {
			d.Output, d.OutputBytes = OutputName, r.written
		}
	}
	return d
}

// logTail returns the end of the log of the command that failed with err, or "".
func logTail(err error) string {
	var failed interface{ LogTail() string }
	if errors.As(err, &failed) {
		return failed.LogTail()
	}
	return ""
}

// sendProgress sends the task's progress at the interval that the order gives. The
// function that it returns ends that, and returns when nothing more is sent.
func (r *runner) sendProgress() (stop func()) {
	every := time.Duration(r.order.GetTickMs()) * time.Millisecond
	if every <= 0 {
		every = time.Second
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		t := time.NewTicker(every)
		defer t.Stop()
		for {
			select {
			case <-t.C:
			case <-done:
				return
			}
			// If the pipe is broken, the host finds that out and ends the process.
			_ = r.out.send(&slotwisev1.FromAttempt{What: &slotwisev1.FromAttempt_Progress{Progress: &slotwisev1.Progress{
				Fraction: r.meter.Fraction(), Ticks: r.ticks(), BytesRead: r.meter.BytesRead.Load(),
			}}})
		}
	}()
	return func() { close(done); <-ended }
}

// ticks grows as long as the attempt is alive, even without progress.
// Bytes that a reduce has fetched count.
func (r *runner) ticks() uint64 {
	// Ticks and not the fraction: a mapper of a small block with costly records has no progress between
	// blocks and is alive.
	n := r.meter.Ticks.Load()
	if r.inputs != nil {
		n += r.inputs.ticks()
	}
	return n
}

// task runs the map or the reduce.
func (r *runner) task(ctx context.Context) (*counters.Set, error) {
	staging, err := r.staging(ctx)
	if err != nil {
		return &counters.Set{}, err
	}
	o := r.order
	env := &engine.Env{
		Mem:       r.mem,
		Resident:  mem.NewPool(o.GetMapBuffer()),
		Schemes:   r.schemes,
		Scratch:   r.scratch,
		MapBuffer: o.GetMapBuffer(), MergeBuffer: o.GetMergeBuffer(),
		Codec: r.codec, Commit: r.askCommit,
	}
	task := &engine.Task{
		Ctx: ctx, Attempt: r.id, JobName: r.spec.GetName(), Maps: int(o.GetJob().GetMaps()),
		Reduces: int(r.spec.GetReduces()), Counters: &r.user, Meter: &r.meter,
	}
	// The inputs are closed before Done is sent, so that no connection of this attempt is open
	// in the next one.
	if r.id.Kind == job.Reduce {
		defer r.inputs.Close()
		count, err := engine.RunReduce(ctx, env, &engine.ReduceTask{
			Program: r.program, Task: task, Inputs: r.inputs,
			Staging: staging, Part: r.program.PartName(job.Reduce, int(r.id.Index)), OutCode: r.outCode,
		})
		// Only here is it known that the reduce has failed because of an input.
		r.inputs.reportUnreadable(err)
		return count, err
	}
	return r.mapTask(ctx, env, &engine.MapTask{
		Program: r.program, Task: task, Synthetic: r.spec.GetSynthetic() > 0,
		Staging: staging, Part: r.program.PartName(job.Map, int(r.id.Index)), OutCode: r.outCode,
	})
}

// staging opens the job's unfinished output. It returns nil for maps of a job with
// reduces, which do not write to it.
func (r *runner) staging(ctx context.Context) (storage.Staging, error) {
	// Opening the output for each map would cost a request to the storage, and a map that
	// cannot reach the output's storage can still do its work.
	if r.id.Kind == job.Map && r.spec.GetReduces() > 0 {
		return nil, nil
	}
	if r.spec.GetOutput() == "" {
		return storage.Discard{}, nil
	}
	files, path, err := r.schemes.Resolve(r.spec.GetOutput())
	if err != nil {
		return nil, err
	}
	s, err := files.Reopen(ctx, path, r.order.GetJob().GetStaging())
	if err != nil {
		return nil, fmt.Errorf("the job's output %s: %w", r.spec.GetOutput(), err)
	}
	return s, nil
}

// mapTask runs a map and stores its output in the attempt's directory, from where
// the worker serves it.
func (r *runner) mapTask(ctx context.Context, env *engine.Env, t *engine.MapTask) (*counters.Set, error) {
	if !t.Synthetic {
		s := r.order.GetSplit()
		// The program may be another build than the one that planned the job, with fewer sources.
		if t.Source = int(s.GetSource()); t.Source < 0 || t.Source >= len(r.program.Sources) {
			return &counters.Set{}, retry.Permanent(fmt.Errorf("the split belongs to source %d, but the job has %d sources", t.Source, len(r.program.Sources)))
		}
		split, err := decodeSplit(s, r.spec)
		if err != nil {
			return &counters.Set{}, err
		}
		t.Split = split
	}
	out, count, err := engine.RunMap(ctx, env, t)
	if err != nil || out == nil {
		return count, err
	}
	defer out.Release()
	//nolint:forbidigo // only the user as whom this process runs can enter the directory
	f, err := os.Create(filepath.Join(r.order.GetDir(), OutputName))
	if err != nil {
		return count, storage.Disk(err)
	}
	// Not synced: the worker checks the file before it is served, and after a power cut its map runs again.
	_, err = engine.Store(ctx, t, out, diskFile{f}, r.codec)
	for part := range max(1, t.Task.Reduces) {
		_, n := out.Size(part)
		r.written += n
	}
	return count, errors.Join(err, storage.Disk(f.Close()))
}

// diskFile marks errors of the worker's disk as storage.ErrDisk.
type diskFile struct{ f *os.File }

// Write implements io.Writer.
func (d diskFile) Write(p []byte) (int, error) {
	n, err := d.f.Write(p)
	return n, storage.Disk(err)
}

// causeOf returns the cause of a failure as the worker is sent it.
func causeOf(err error) slotwisev1.FailureCause { return slotwisev1.FailureCause(engine.CauseOf(err)) }

// askCommit sends a request to commit to the worker, which forwards it to the
// master. It returns nil if the commit is granted.
func (r *runner) askCommit(ctx context.Context, _ job.AttemptID) error {
	if err := r.out.send(&slotwisev1.FromAttempt{What: &slotwisev1.FromAttempt_AskCommit{AskCommit: true}}); err != nil {
		return err
	}
	for {
		select {
		case a := <-r.commit:
			if a.GetGranted() {
				return nil
			}
			return commitDenied(a.GetReason())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
