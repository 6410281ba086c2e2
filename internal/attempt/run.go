package attempt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/slotwise/slotwise/internal/counters"
	"github.com/slotwise/slotwise/internal/counterspb"
	"github.com/slotwise/slotwise/internal/engine"
	"github.com/slotwise/slotwise/internal/engine/mem"
	"github.com/slotwise/slotwise/internal/engine/runfile"
	"github.com/slotwise/slotwise/internal/input"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/output"
	"github.com/slotwise/slotwise/internal/storage"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// OutputName is the name of a map's run file in the attempt's directory.
const OutputName = "output.run"

// run is one attempt under way.
type run struct {
	schemes *storage.Schemes // of the job's input and output
	order   *slotwisev1.Order
	spec    *slotwisev1.JobSpec
	id      job.AttemptID
	program *engine.Program
	pipe    *pipe
	inputs  *inputs // of a reduce
	mem     *mem.Pool
	commit  chan *slotwisev1.AskCommitResponse
	meter   engine.Meter
	user    engine.UserCounters
	scratch *storage.DirScratch
	codec   runfile.Codec // of what lies between maps and reduces
	outCode output.Codec
	written int64 // bytes of keys and values in the run file
}

// prepare makes what the order asks for before anything runs.
func (r *run) prepare(build Builder) (err error) {
	r.spec = r.order.GetJob().GetSpec()
	if r.id, err = job.ParseAttempt(r.order.GetAttempt()); err != nil {
		return err
	}
	if r.program, err = build(r.spec.GetProgram()); err != nil {
		return fmt.Errorf("the job cannot be built again: %w", err)
	}
	if r.codec, err = runfile.ParseCodec(r.spec.GetShuffleCodec()); err != nil {
		return err
	}
	if r.outCode, err = output.ParseCodec(r.spec.GetOutputCodec()); err != nil {
		return err
	}
	if r.scratch, err = storage.NewDirScratch(r.order.GetDir()); err != nil {
		return err
	}
	r.mem = mem.NewPool(r.order.GetMapBuffer() + r.order.GetMergeBuffer() + r.order.GetFetchBuffer())
	if r.id.Kind == job.Reduce {
		r.inputs, err = newInputs(r, r.mem)
	}
	return err
}

// listen takes what the worker says, until the pipe ends and with it the
// process.
func (r *run) listen(stop context.CancelCauseFunc, end func()) {
	for {
		m, err := r.pipe.receive()
		if err != nil {
			end()
			return
		}
		switch what := m.GetWhat().(type) {
		case *slotwisev1.ToAttempt_MapOutputs:
			if r.inputs != nil {
				r.inputs.told(what.MapOutputs)
			}
		case *slotwisev1.ToAttempt_Commit:
			select {
			case r.commit <- what.Commit:
			default: // the same answer again
			}
		case *slotwisev1.ToAttempt_Stop:
			stop(&Stopped{what.Stop})
		}
	}
}

// do runs the task and says how it went.
func (r *run) do(ctx context.Context) *slotwisev1.Done {
	defer r.scratch.Close()
	told := r.tellProgress()
	count, err := r.task(ctx)
	told()
	d := &slotwisev1.Done{Counters: counterspb.Encode(count)}
	switch {
	case err != nil:
		d.Error = err.Error()
	default:
		d.Ok = true
		if r.id.Kind == job.Map && r.spec.GetReduces() > 0 {
			d.Output, d.OutputBytes = OutputName, r.written
		}
	}
	return d
}

// tellProgress sends how far the task has come, again and again, until the
// function that it returns is called.
func (r *run) tellProgress() (stop func()) {
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
			// A broken pipe ends the process by what is read from the other.
			_ = r.pipe.send(&slotwisev1.FromAttempt{What: &slotwisev1.FromAttempt_Progress{Progress: &slotwisev1.Progress{
				Fraction: r.meter.Fraction(), Ticks: r.ticks(), BytesRead: r.meter.BytesRead.Load(),
			}}})
		}
	}()
	return func() { close(done); <-ended }
}

// ticks are the signs of life beside progress; what a reduce fetches is one.
func (r *run) ticks() uint64 {
	n := r.meter.Ticks.Load()
	if r.inputs != nil {
		n += r.inputs.ticks()
	}
	return n
}

// task runs the map or the reduce.
func (r *run) task(ctx context.Context) (*counters.Set, error) {
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
	if r.id.Kind == job.Reduce {
		defer r.inputs.Close()
		count, err := engine.RunReduce(ctx, env, &engine.ReduceTask{
			Program: r.program, Task: task, Inputs: r.inputs,
			Staging: staging, Part: output.ReducePart(int(r.id.Index)), OutCode: r.outCode, Meter: &r.meter,
		})
		r.inputs.failed(err)
		return count, err
	}
	return r.mapTask(ctx, env, &engine.MapTask{
		Program: r.program, Task: task, Synthetic: r.spec.GetSynthetic() > 0,
		Staging: staging, Part: output.MapPart(int(r.id.Index)), OutCode: r.outCode, Meter: &r.meter,
	})
}

// staging opens the job's unfinished output; attempts that write to it need it.
func (r *run) staging(ctx context.Context) (storage.Staging, error) {
	if r.id.Kind == job.Map && r.spec.GetReduces() > 0 {
		return nil, nil
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

// mapTask runs a map and stores its output where the worker finds it.
func (r *run) mapTask(ctx context.Context, env *engine.Env, t *engine.MapTask) (*counters.Set, error) {
	if !t.Synthetic {
		s := r.order.GetSplit()
		if t.Source = int(s.GetSource()); t.Source < 0 || t.Source >= len(r.program.Sources) {
			return &counters.Set{}, fmt.Errorf("the split is of source %d; the job has %d", t.Source, len(r.program.Sources))
		}
		t.Split = splitOf(s)
	}
	out, count, err := engine.RunMap(ctx, env, t)
	if err != nil || out == nil {
		return count, err
	}
	defer out.Release()
	f, err := os.Create(filepath.Join(r.order.GetDir(), OutputName))
	if err != nil {
		return count, err
	}
	_, err = engine.Store(ctx, t, out, f, r.codec)
	for part := range max(1, t.Task.Reduces) {
		_, n := out.Size(part)
		r.written += n
	}
	return count, errors.Join(err, f.Close())
}

// askCommit asks the worker, who asks the master.
func (r *run) askCommit(ctx context.Context, _ job.AttemptID) error {
	if err := r.pipe.send(&slotwisev1.FromAttempt{What: &slotwisev1.FromAttempt_AskCommit{AskCommit: true}}); err != nil {
		return err
	}
	for {
		select {
		case a := <-r.commit:
			if a.GetGranted() {
				return nil
			}
			return denied(a.GetReason())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// splitOf reads a split as it travels.
func splitOf(s *slotwisev1.Split) input.Split {
	out := input.Split{Hosts: s.GetHosts(), Bytes: s.GetBytes()}
	for _, p := range s.GetPieces() {
		out.Pieces = append(out.Pieces, input.Piece{URI: p.GetUri(), Offset: p.GetOffset(), Length: p.GetLength(), FileSize: p.GetFileSize()})
	}
	return out
}
