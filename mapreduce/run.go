package mapreduce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/slotwise/slotwise/internal/base/counters"
	"github.com/slotwise/slotwise/internal/base/durable"
	"github.com/slotwise/slotwise/internal/base/retry"
	"github.com/slotwise/slotwise/internal/data/engine/runfile"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/live/feature"
	"github.com/slotwise/slotwise/internal/live/local"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched/job"
)

// Run runs a job and returns when it has ended. The job runs in this process,
// or on the cluster that [Options].Remote names. The error names the task or file
// that failed. If the job's code returned an error and the job ran in this process,
// errors.Is and errors.As find that error. From a cluster its text returns, and its code if
// it has a method ErrorCode() string: errors.Is compares codes, or else texts.
// Cancelling ctx kills the job and removes its output. The result is
// not nil once the job has been submitted, even if it failed.
func Run(ctx context.Context, j *Job, o Options) (*Result, error) {
	p, err := newPlanner(ctx, &o)
	if err != nil {
		return nil, err
	}
	r, err := p.run(ctx, j, j.recipe, o)
	if errors.Is(err, errDryRun) {
		err = nil
	}
	return r, errors.Join(err, p.target.Close())
}

// PlanError is an error that [Run] found before it started the job: in the job, its options
// or the names of its files. Another run is needed with other values.
type PlanError struct{ Err error }

// Error returns the text of the error.
func (e *PlanError) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e *PlanError) Unwrap() error { return e.Err }

// Permanent marks an error of a mapper, combiner or reducer that every retry would repeat,
// such as a record that breaks the rules of its format or a parameter out of range. The job
// then fails with it at once, instead of after four attempts of the task. A function that returns
// no error, as a codec's Append, panics with it, to the same effect. The text stays, and
// errors.Is and errors.As find err. Permanent returns nil for nil.
func Permanent(err error) error { return retry.Permanent(err) }

// planner plans jobs for one target and runs them there. Chains and mixes use
// one planner for several jobs, from several goroutines at a time.
//
// The life of a job: the planner compiles the Job for the engine (compile.go), cuts its input into splits (plan.go), and
// hands the plan to the target: the cluster in this process, or package remote. A worker of a cluster starts the
// program again, and RunAttempt builds the same job from its recipe (attempt.go): the app's name, the step and
// the parameters. An App may be a chain, whose function runs steps (app.go, runapp.go). A new setting of a job
// is a field of Job with its check in validate and its translation in compile, and, if an attempt on another machine
// cannot derive it from the recipe, a field of the recipe.
type planner struct {
	target  feature.Target
	schemes *storage.Schemes // of inputs and outputs
}

// newPlanner starts the in-process cluster or connects to the remote one. The
// caller closes the planner's target.
func newPlanner(ctx context.Context, o *Options) (*planner, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	set, err := feature.Combine(o.Features)
	if err != nil {
		return nil, err
	}
	if o.Remote != nil {
		r, ok := o.Remote.Connector().(feature.Remote)
		if !ok {
			return nil, errors.New("the field Options.Remote is no cluster of package mapreduce/remote")
		}
		target, err := r.Connect(ctx, set.Schemes, o.outages())
		return &planner{target, set.Schemes}, err
	}
	c, err := o.Cluster.start(o.Compress, set)
	if err != nil {
		return nil, err
	}
	return localPlanner(c, set.Schemes, o.Cluster.NoSync), nil
}

// localPlanner returns a planner for an in-process cluster.
func localPlanner(c *local.Cluster, schemes *storage.Schemes, noSync bool) *planner {
	return &planner{localTarget{c, schemes, noSync}, schemes}
}

// start starts an in-process cluster.
func (o *ClusterOptions) start(codec string, set *feature.Set) (*local.Cluster, error) {
	cfg := local.Config{
		Workers: o.Workers, MapSlots: o.MapSlots, ReduceSlots: o.ReduceSlots, Memory: o.Memory, Schemes: set.Schemes,
		Policy: o.Policy, PolicySet: o.PolicySet, Seed: o.Seed, TempDir: o.TempDir, Events: o.Events,
		Heartbeat: o.Heartbeat, Explain: o.Explain, Observer: set.Observer,
		FairScheduler: o.FairScheduler, CapacityScheduler: o.CapacityScheduler, Warn: o.Warn,
	}
	if cfg.TempDir == "" {
		cfg.TempDir = os.TempDir()
	}
	if set.NewLoadMeter != nil {
		cfg.Load = set.NewLoadMeter()
	}
	var err error
	if cfg.Policies, err = policies.Builtin().With(o.Policies...); err != nil {
		return nil, err
	}
	if cfg.Codec, err = runfile.ParseCodec(codec); err != nil {
		return nil, err
	}
	return local.Start(cfg)
}

// run plans a job and runs it. recipe is nil if no other process can build the
// job.
func (p *planner) run(ctx context.Context, j *Job, recipe *feature.Recipe, o Options) (*Result, error) {
	// Planning only reads, so it can be repeated as a whole after an outage.
	planned, err := retry.Do(ctx, o.outages().ForStorage("the storage of "+cmp.Or(o.Name, j.Name)+"'s input and output"), func(ctx context.Context) (*feature.PlannedJob, error) {
		return p.plan(ctx, j, o)
	})
	if err != nil {
		return nil, &PlanError{err}
	}
	// A copy: the job may be run again, with other cuts, while this run goes through the cluster.
	if recipe != nil {
		r := *recipe
		r.Cuts = planned.Cuts
		planned.Recipe = &r
	}
	if o.Planned != nil {
		o.Planned(p.describe(planned, &o))
	}
	if o.DryRun {
		return nil, errDryRun
	}
	out, err := p.target.Run(ctx, planned)
	if out == nil {
		return nil, err
	}
	r := newResult(out, o.Output)
	// Added here, because no attempt has seen these files: they are missing from the plan.
	if planned.FilesSkipped > 0 {
		r.User[counters.FilesSkipped] += int64(planned.FilesSkipped)
	}
	return r, err
}

// localTarget runs jobs in this process.
type localTarget struct {
	*local.Cluster
	schemes *storage.Schemes
	noSync  bool // ClusterOptions.NoSync
}

// URI returns path unchanged, because tasks share this process's working
// directory.
func (t localTarget) URI(path string) (string, error) { return path, nil }

// RunChain runs the function here, with intermediate outputs in the cluster's scratch
// space.
func (t localTarget) RunChain(ctx context.Context, c *feature.Chain, drive func(context.Context, string) error) (_ []*feature.Outcome, err error) {
	files, path, err := t.schemes.Resolve(c.Output)
	if err != nil {
		return nil, err
	}
	// The last step would refuse the output after the work of all others. It reports other errors.
	if err := storage.CheckOutput(ctx, files, path, c.Replace); errors.Is(err, os.ErrExist) && c.Replace == storage.ReplaceNothing {
		return nil, taken(c.Output)
	}
	dir, err := os.MkdirTemp(t.TempDir(), "chain-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, durable.RemoveTree(dir)) }()
	return nil, drive(ctx, dir)
}

// Run stages the output, submits the job and waits for its end.
func (t localTarget) Run(ctx context.Context, j *feature.PlannedJob) (*feature.Outcome, error) {
	spec := local.JobSpec{
		Name: j.Name, Request: j.Request, Program: j.Program, Splits: j.Splits, Synthetic: j.Synthetic, Reduces: j.Reduces,
		OutCode: j.OutCode, Progress: j.Progress,
	}
	spec.User = cmp.Or(spec.User, feature.LoginName())
	staging, err := t.stage(ctx, j)
	if err != nil {
		return nil, err
	}
	spec.Staging = staging
	handle, err := t.Submit(spec)
	if err != nil {
		return nil, err
	}
	// The summary is taken after the wait, also of a job that failed: its counters say how far it came.
	err = handle.Wait(ctx, t.Cluster)
	return localOutcome(handle.Summary()), err
}

// stage begins the output directory of a job.
func (t localTarget) stage(ctx context.Context, j *feature.PlannedJob) (storage.Staging, error) {
	if j.Output == "" {
		return storage.Discard{}, nil
	}
	files, path, err := t.schemes.Resolve(j.Output)
	if err != nil {
		return nil, err
	}
	// The scratch space needs no sync, because no process reads it after a power cut. It
	// also contains the intermediate outputs of chains.
	if l, ok := files.(storage.Local); ok && (t.noSync || strings.HasPrefix(path, t.TempDir()+string(filepath.Separator))) {
		l.NoSync = true
		files = l
	}
	staging, err := retry.Do(ctx, j.Outages.ForStorage("the storage of output "+j.Output), func(ctx context.Context) (storage.Staging, error) {
		return files.Stage(ctx, path, j.Replace)
	})
	if errors.Is(err, os.ErrExist) && j.Replace == storage.ReplaceNothing {
		err = taken(j.Output)
	}
	return staging, err
}

// taken returns the error for an output directory that has files.
func taken(output string) error {
	return fmt.Errorf("output directory %s exists and is not empty: name another, or set Options.Overwrite (--overwrite) to replace it", output)
}

// localOutcome translates the in-process cluster's report.
func localOutcome(s local.Summary) *feature.Outcome {
	a := &s.Account
	out := &feature.Outcome{
		Name: s.Name, ID: s.ID, State: s.State.String(),
		Elapsed: s.Elapsed, Submitted: s.Submitted, Started: s.Started, Ended: s.Ended,
		Maps: s.Maps, Reduces: s.Reduces, Failures: a.Failed[job.Map] + a.Failed[job.Reduce], Copies: a.Copies,
		Locality: [4]int{a.Levels[job.LevelNode], a.Levels[job.LevelRack], a.Levels[job.LevelAny], a.Levels[job.LevelNone]},
		SlotTime: a.SlotTime, Counters: a.Counters,
	}
	for _, w := range s.Waits {
		out.Waits = append(out.Waits, feature.Wait{Kind: w.Kind, For: w.For, Reason: w.Words})
	}
	return out
}
