package mapreduce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"

	"github.com/slotwise/slotwise/internal/engine/runfile"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/local"
	"github.com/slotwise/slotwise/internal/sched/policies"
	"github.com/slotwise/slotwise/internal/storage"
	"github.com/slotwise/slotwise/internal/storage/schemes"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// Run runs a job, in this process or as [Options].Remote says, and returns when
// it has ended. The error
// names what failed; cancelling ctx kills the job and removes what it wrote.
// The result is not nil once the job has been submitted, also if it failed.
func Run(ctx context.Context, j *Job, o Options) (*Result, error) {
	at, err := o.place(ctx)
	if err != nil {
		return nil, err
	}
	r, err := runOn(ctx, at, j, j.origin, o)
	return r, errors.Join(err, at.close())
}

// place is where jobs run: in this process or on a cluster.
type place interface {
	slots
	// run runs a planned job to its end. The result is not nil once the job has
	// been submitted.
	run(ctx context.Context, p *planned, o Options) (*Result, error)
	// uri is the name of a file or directory by which the place knows it.
	uri(path string) (string, error)
	// chainDir makes a directory for what goes from step to step of a chain
	// that writes to output, and says how it is removed.
	chainDir(output string) (dir string, remove func() error, err error)
	close() error
}

// place starts the in-process cluster or reaches for the other one.
func (o *Options) place(ctx context.Context) (place, error) {
	if o.Remote != nil {
		return connect(ctx, o.Remote)
	}
	c, err := o.Cluster.start(o.Compress)
	if err != nil {
		return nil, err
	}
	return here{c}, nil
}

// start makes the in-process cluster.
func (o *ClusterOptions) start(codec string) (*local.Cluster, error) {
	cfg := local.Config{
		Workers: o.Workers, MapSlots: o.MapSlots, ReduceSlots: o.ReduceSlots, Memory: o.Memory,
		Policy: o.Policy, PolicySet: o.PolicySet, Seed: o.Seed, TempDir: o.TempDir, Events: o.Events,
		Heartbeat: o.Heartbeat, Explain: o.Explain,
		FairScheduler: o.FairScheduler, CapacityScheduler: o.CapacityScheduler, Warn: o.Warn,
	}
	if cfg.TempDir == "" {
		cfg.TempDir = os.TempDir()
	}
	err := schemes.Register()
	if err != nil {
		return nil, err
	}
	if cfg.Policies, err = policies.Builtin().With(o.Policies...); err != nil {
		return nil, err
	}
	if cfg.Codec, err = runfile.ParseCodec(codec); err != nil {
		return nil, err
	}
	return local.Start(cfg)
}

// runOn runs one job at a place. The origin is how another process can build the
// job, nil if none can.
func runOn(ctx context.Context, at place, j *Job, origin *slotwisev1.Program, o Options) (*Result, error) {
	p, err := plan(ctx, at, j, o)
	if err != nil {
		return nil, err
	}
	p.origin = origin
	return at.run(ctx, p, o)
}

// here is the in-process cluster.
type here struct{ *local.Cluster }

func (h here) uri(path string) (string, error) { return path, nil }

func (h here) close() error { return h.Close() }

func (h here) chainDir(string) (string, func() error, error) {
	dir, err := os.MkdirTemp(h.TempDir(), "chain-")
	return dir, func() error { return os.RemoveAll(dir) }, err
}

// run opens the output and runs the job.
func (h here) run(ctx context.Context, p *planned, o Options) (*Result, error) {
	spec := local.JobSpec{
		Name: p.job.Name, User: cmp.Or(o.User, loginName()), Pool: o.Pool, Priority: p.priority,
		Program: p.program, Splits: p.splits, Synthetic: p.job.Synthetic, Reduces: p.reduces, OutCode: p.outCode,
		Profile:   [job.Kinds]job.Profile{job.Profile(o.Profile.Map), job.Profile(o.Profile.Reduce)},
		SlowStart: o.SlowStart, Progress: o.Progress, TaskTimeout: o.TaskTimeout, MaxAttempts: o.MaxAttempts,
	}
	files, path, err := storage.Resolve(p.output)
	if err != nil {
		return nil, err
	}
	spec.Staging, err = files.Stage(ctx, path, o.Overwrite)
	if errors.Is(err, os.ErrExist) {
		err = fmt.Errorf("output directory %s exists and is not empty: name another or ask to overwrite it", o.Output)
	}
	if err != nil {
		return nil, err
	}
	handle, err := h.Submit(spec)
	if err != nil {
		return nil, err
	}
	err = handle.Wait(ctx, h.Cluster)
	return newResult(handle.Summary(), o.Output), err
}

func loginName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown"
}
