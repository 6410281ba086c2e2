package mapreduce

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/slotwise/slotwise/internal/engine"
	"github.com/slotwise/slotwise/internal/input"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/output"
	"github.com/slotwise/slotwise/internal/storage"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// slots are what the size of splits and the number of reduces depend on.
type slots interface {
	MapSlots() int
	ReduceSlots() int
	// MapBuffer is the memory in bytes that one map may sort in.
	MapBuffer() int64
}

// planned is a job with its input cut into tasks, ready to be run.
type planned struct {
	job      *Job
	origin   *slotwisev1.Program // how another process builds it, if one can
	program  *engine.Program
	splits   []engine.SourceSplit
	bytes    int64 // of input
	reduces  int
	cuts     [][]byte // of a total order
	priority job.Priority
	outCode  output.Codec
	output   string // as the place knows it
}

// plan compiles the job, plans its input and checks the options.
func plan(ctx context.Context, at place, j *Job, o Options) (p *planned, err error) {
	p = &planned{job: j}
	if p.program, err = j.Program(); err != nil {
		return nil, err
	}
	if o.Priority != "" {
		prio, ok := job.ParsePriority(strings.ToUpper(strings.ReplaceAll(o.Priority, "-", "_")))
		if !ok {
			return nil, fmt.Errorf("unknown priority %q (very-low, low, normal, high or very-high)", o.Priority)
		}
		p.priority = prio
	}
	if p.outCode, err = output.ParseCodec(o.OutputCompress); err != nil {
		return nil, err
	}
	if o.Output == "" {
		return nil, errors.New("no output directory is given")
	}
	if p.output, err = at.uri(o.Output); err != nil {
		return nil, err
	}
	if j.Synthetic == 0 {
		if p.splits, p.bytes, err = planInputs(ctx, at, j, o); err != nil {
			return nil, err
		}
	}
	if p.reduces = reduces(j, o, at, p.bytes); p.reduces > maxTasks {
		return nil, fmt.Errorf("%d reduce tasks are too many; the most are %d", p.reduces, maxTasks)
	}
	if j.TotalOrder && p.reduces > 1 {
		if err := p.cutRanges(ctx); err != nil {
			return nil, err
		}
	}
	return p, apart(ctx, p.output, p.splits)
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

// maxTasks is the largest number of maps or reduces that a job may have: what
// is known of each stays in memory, and a slip of the finger (a split size of
// 1) must not take all of it.
const maxTasks = 1_000_000

// planInputs cuts all inputs of the job into splits.
func planInputs(ctx context.Context, at place, j *Job, o Options) ([]engine.SourceSplit, int64, error) {
	lists, err := listInputs(ctx, at, j, o)
	if err != nil {
		return nil, 0, err
	}
	var total int64
	for _, l := range lists {
		total += l.Bytes
	}
	size := o.SplitSize
	if size <= 0 {
		size = input.ChooseSplitSize(total, at.MapSlots(), j.Aggregate != NoFold, j.Reducer != nil, at.MapBuffer())
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
func listInputs(ctx context.Context, at place, j *Job, o Options) (lists []sourceFiles, err error) {
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
			p, err := at.uri(p)
			if err != nil {
				return nil, err
			}
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

// reduces is the number of reduce tasks: what the user says, else what the job
// says, else as many as there are slots.
func reduces(j *Job, o Options, c slots, bytes int64) int {
	switch {
	case j.Reducer == nil:
		return 0
	case o.Reduces > 0:
		return o.Reduces
	case j.Reduces > 0:
		return j.Reduces
	}
	return input.ChooseReduces(bytes, c.ReduceSlots(), j.TotalOrder)
}

// cutRanges samples the input for a total order.
func (p *planned) cutRanges(ctx context.Context) (err error) {
	if len(p.splits) == 0 {
		return nil
	}
	t := &engine.Task{Ctx: ctx, JobName: p.job.Name, Maps: len(p.splits), Reduces: p.reduces, Counters: &engine.UserCounters{}, Meter: &engine.Meter{}}
	if p.cuts, err = engine.SampleCuts(ctx, p.program, t, p.splits, p.reduces); err == nil {
		p.program.Partition = engine.RangePartition(p.cuts)
	}
	return err
}
