package mapreduce

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strings"

	"github.com/slotwise/slotwise/internal/engine"
	"github.com/slotwise/slotwise/internal/engine/runfile"
	"github.com/slotwise/slotwise/internal/input"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/local"
	"github.com/slotwise/slotwise/internal/output"
	"github.com/slotwise/slotwise/internal/storage"
)

// Run runs a job in this process and returns when it has ended. The error
// names what failed; cancelling ctx kills the job and removes what it wrote.
// The result is not nil once the job has been submitted, also if it failed.
func Run(ctx context.Context, j *Job, o Options) (*Result, error) {
	c, err := o.Cluster.start(o.Compress)
	if err != nil {
		return nil, err
	}
	r, err := runOn(ctx, c, j, o)
	return r, errors.Join(err, c.Close())
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
	var err error
	if cfg.Codec, err = runfile.ParseCodec(codec); err != nil {
		return nil, err
	}
	return local.Start(cfg)
}

// runOn runs one job on a cluster that is up.
func runOn(ctx context.Context, c *local.Cluster, j *Job, o Options) (*Result, error) {
	spec, err := prepare(ctx, c, j, o)
	if err != nil {
		return nil, err
	}
	h, err := c.Submit(spec)
	if err != nil {
		return nil, err
	}
	err = h.Wait(ctx, c)
	return newResult(h.Summary(), o.Output), err
}

// prepare plans the input, opens the output and compiles the job.
func prepare(ctx context.Context, c *local.Cluster, j *Job, o Options) (spec local.JobSpec, err error) {
	p, err := j.Program()
	if err != nil {
		return spec, err
	}
	spec = local.JobSpec{
		Name: j.Name, User: o.User, Pool: o.Pool, Program: p, Synthetic: j.Synthetic,
		Profile:  [job.Kinds]job.Profile{job.Profile(o.Profile.Map), job.Profile(o.Profile.Reduce)},
		Progress: o.Progress, TaskTimeout: o.TaskTimeout, MaxAttempts: o.MaxAttempts,
	}
	if spec.User == "" {
		spec.User = loginName()
	}
	if o.Priority != "" {
		p, ok := job.ParsePriority(strings.ToUpper(strings.ReplaceAll(o.Priority, "-", "_")))
		if !ok {
			return spec, fmt.Errorf("unknown priority %q (very-low, low, normal, high or very-high)", o.Priority)
		}
		spec.Priority = p
	}
	if spec.OutCode, err = output.ParseCodec(o.OutputCompress); err != nil {
		return spec, err
	}
	if o.Output == "" {
		return spec, errors.New("no output directory is given")
	}
	var bytes int64
	if j.Synthetic == 0 {
		if spec.Splits, bytes, err = planInputs(ctx, c, j, o); err != nil {
			return spec, err
		}
	}
	if spec.Reduces = reduces(j, o, c, bytes); spec.Reduces > maxTasks {
		return spec, fmt.Errorf("%d reduce tasks are too many; the most are %d", spec.Reduces, maxTasks)
	}
	if j.TotalOrder && spec.Reduces > 1 {
		if err := cutRanges(ctx, p, &spec); err != nil {
			return spec, err
		}
	}
	files, path, err := storage.Resolve(o.Output)
	if err != nil {
		return spec, err
	}
	if err := apart(ctx, o.Output, spec.Splits); err != nil {
		return spec, err
	}
	spec.Staging, err = files.Stage(ctx, path, o.Overwrite)
	if errors.Is(err, os.ErrExist) {
		err = fmt.Errorf("output directory %s exists and is not empty: name another or ask to overwrite it", o.Output)
	}
	return spec, err
}

// apart refuses an output directory that holds input files, whatever links
// lead there: replacing it would destroy them. One that does not exist holds
// none, which saves a look at every input.
func apart(ctx context.Context, out string, splits []engine.SourceSplit) error {
	ofs, dir, err := canonical(ctx, out)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	last := ""
	for _, s := range splits {
		for _, p := range s.Split.Pieces {
			if p.URI == last { // of one file there may be many pieces
				continue
			}
			last = p.URI
			ifs, path, err := canonical(ctx, p.URI)
			if err != nil {
				return err
			}
			if ifs == ofs && (path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")) {
				return fmt.Errorf("output directory %s holds the input file %s", out, p.URI)
			}
		}
	}
	return nil
}

// canonical resolves a URI and the links in its path.
func canonical(ctx context.Context, uri string) (storage.FS, string, error) {
	files, path, err := storage.Resolve(uri)
	if err != nil {
		return nil, "", err
	}
	if l, ok := files.(storage.Linked); ok {
		path, err = l.Canonical(ctx, path)
	}
	return files, path, err
}

// Splits are chosen so that each core gets a few of them and none outgrows the
// memory that a map may sort in.
const (
	minSplit     = 1 << 20
	maxSplit     = 128 << 20
	splitsPerMap = 4
	foldsPerMap  = 2 // of a job that folds: each task has a table to empty
)

// maxTasks is the largest number of maps or reduces that a job may have: what
// is known of each stays in memory, and a slip of the finger (a split size of
// 1) must not take all of it.
const maxTasks = 1_000_000

// planInputs cuts all inputs of the job into splits.
func planInputs(ctx context.Context, c *local.Cluster, j *Job, o Options) ([]engine.SourceSplit, int64, error) {
	lists, err := listInputs(ctx, j, o)
	if err != nil {
		return nil, 0, err
	}
	var total int64
	for _, l := range lists {
		total += l.Bytes
	}
	size := o.SplitSize
	if size <= 0 {
		perSlot := splitsPerMap
		if j.Aggregate != NoFold {
			perSlot = foldsPerMap
		}
		size = min(maxSplit, max(minSplit, total/int64(perSlot*c.MapSlots())))
		if j.Reducer != nil && j.Aggregate == NoFold {
			size = min(size, max(minSplit, c.MapBuffer()*6/10))
		}
	}
	if maps := total / size; maps > maxTasks {
		return nil, 0, fmt.Errorf("a split size of %d bytes makes %d map tasks; the most are %d", size, maps, maxTasks)
	}
	var out []engine.SourceSplit
	for _, l := range lists {
		splits, err := l.Split(ctx, size)
		if err != nil {
			return nil, 0, err
		}
		for _, s := range splits {
			out = append(out, engine.SourceSplit{Source: l.source, Split: s})
		}
	}
	return out, total, nil
}

// sourceFiles are files of one source of a job.
type sourceFiles struct {
	*input.Listing
	source int
}

// listInputs finds the files of all sources. What lies in a chain's own
// directory is taken as it is: the user's filters are for the user's files.
func listInputs(ctx context.Context, j *Job, o Options) (lists []sourceFiles, err error) {
	sources := j.Sources
	if j.Mapper != nil {
		if len(o.Inputs) == 0 {
			return nil, errors.New("no input is given")
		}
		sources = append([]Source{{Inputs: o.Inputs, Input: j.Input}}, sources...)
	}
	for i, s := range sources {
		var own, given []string
		for _, p := range s.Inputs {
			if o.chainDir != "" && strings.HasPrefix(p, o.chainDir+"/") {
				own = append(own, p)
			} else {
				given = append(given, p)
			}
		}
		for _, opts := range []input.Options{
			{Inputs: own, Format: s.Input.input()},
			{Inputs: given, Include: o.Include, Exclude: o.Exclude, Format: s.Input.input()},
		} {
			if len(opts.Inputs) == 0 {
				continue
			}
			l, err := input.List(ctx, opts)
			if err != nil {
				return nil, err
			}
			lists = append(lists, sourceFiles{l, i})
		}
	}
	return lists, nil
}

// rangeBytes is how much input one reduce of a totally ordered job gets, about.
const rangeBytes = 64 << 20

// reduces is the number of reduce tasks: what the user says, else what the job
// says, else as many as there are slots.
func reduces(j *Job, o Options, c *local.Cluster, bytes int64) int {
	switch {
	case j.Reducer == nil:
		return 0
	case o.Reduces > 0:
		return o.Reduces
	case j.Reduces > 0:
		return j.Reduces
	case j.TotalOrder:
		return max(c.ReduceSlots(), min(512, int(bytes/rangeBytes)))
	}
	return c.ReduceSlots()
}

// cutRanges samples the input for a total order.
func cutRanges(ctx context.Context, p *engine.Program, spec *local.JobSpec) error {
	if len(spec.Splits) == 0 {
		return nil
	}
	t := &engine.Task{Ctx: ctx, JobName: spec.Name, Maps: len(spec.Splits), Reduces: spec.Reduces, Counters: &engine.Counters{}, Meter: &engine.Meter{}}
	cuts, err := engine.SampleCuts(ctx, p, t, spec.Splits, spec.Reduces)
	if err != nil {
		return err
	}
	p.Partition = engine.RangePartition(cuts)
	return nil
}

func loginName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown"
}
