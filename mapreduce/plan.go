package mapreduce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/data/engine"
	"github.com/slotwise/slotwise/internal/data/format"
	"github.com/slotwise/slotwise/internal/data/input"
	"github.com/slotwise/slotwise/internal/data/output"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/live/feature"
	"github.com/slotwise/slotwise/sched/job"
)

// plan compiles the job, cuts its input into splits and checks the options.
func (p *planner) plan(ctx context.Context, j *Job, o Options) (*feature.PlannedJob, error) {
	out := &feature.PlannedJob{
		Name: cmp.Or(o.Name, j.Name), Synthetic: j.Synthetic, Replace: storage.ReplaceOf(o.Overwrite, o.Force), ShuffleCodec: o.Compress,
		Request: o.Request, Inputs: o.Inputs, Progress: o.progress(), Outages: o.outages(),
	}
	var err error
	if out.Program, err = j.compile(ctx, &Files{p.schemes, o.outages()}); err != nil {
		return nil, err
	}
	// Here and not in compile: attempts compile, too, and would fail with an error that the submitter must
	// see.
	if err := bounds.CheckName("the field Job.Name", j.Name); err != nil {
		return nil, err
	}
	if out.OutCode, err = output.ParseCodec(o.OutputCompress); err != nil {
		return nil, err
	}
	// Before the inputs are listed, which takes long if there are many.
	if err := o.setRows(out); err != nil {
		return nil, err
	}
	switch {
	case o.Output != "":
		if out.Output, err = p.target.URI(o.Output); err != nil {
			return nil, err
		}
	case !j.noOutput:
		return nil, errors.New("no output directory is given")
	}
	var bytes int64
	if j.Synthetic == 0 {
		if out.Splits, bytes, out.FilesSkipped, err = p.planInputs(ctx, j, o); err != nil {
			return nil, err
		}
	}
	if out.Reduces = reduces(j, o, p.target, bytes); out.Reduces > MaxReduces {
		return nil, fmt.Errorf("%d reduce tasks are too many; the most are %d, because each of them fetches from every map and writes a file", out.Reduces, MaxReduces)
	}
	if out.SlowStart == 0 && len(out.Splits)+out.Synthetic <= p.target.MapSlots() {
		out.SlowStart = job.StartAfter(0) // all maps run at once, so reduces that start early take nothing from them
	}
	// One reduce sorts everything, so no samples are needed.
	if j.TotalOrder && out.Reduces > 1 {
		if err := p.cutRanges(ctx, out); err != nil {
			return nil, err
		}
	}
	// At the end, because the files of the splits must be known. Nothing has been written yet:
	// Target.Run stages the output.
	return out, p.checkApart(ctx, out)
}

// outputRows returns the user's choice of the output's format, nil for the job's own.
func (o *Options) outputRows() (*format.Output, error) {
	text := o.OutputFormat
	if len(o.OutputColumns) > 0 {
		text += ",columns=" + strings.Join(o.OutputColumns, ",")
	}
	rows, err := format.ParseOutput(text)
	if err != nil {
		return nil, fmt.Errorf("the output format: %w", err)
	}
	return rows, nil
}

// setRows gives a job the output format that the user wants, and returns an error if no
// file can be written in the job's format.
func (o *Options) setRows(j *feature.PlannedJob) error {
	if o.OutputFormat != "" || len(o.OutputColumns) > 0 {
		rows, err := o.outputRows()
		if err != nil {
			return err
		}
		j.Program.Rows, j.OutputRows = rows, cmp.Or(rows.String(), format.Text)
	}
	file := output.Options{Format: j.Program.Output, Rows: j.Program.Rows, Codec: j.OutCode}
	if err := file.Check(); err != nil {
		return fmt.Errorf("the output format: %w", err)
	}
	return nil
}

// checkApart refuses an output directory that holds input files, even through
// links: replacing the directory would destroy them. A directory that does not
// exist holds no files, so then the inputs are not looked at.
func (p *planner) checkApart(ctx context.Context, j *feature.PlannedJob) error {
	if j.Output == "" {
		return nil
	}
	ofs, dir, err := p.canonical(ctx, j.Output)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	last := ""
	for _, s := range j.Splits {
		for _, piece := range s.Split.Pieces {
			if piece.URI == last { // a file may have many pieces
				continue
			}
			last = piece.URI
			ifs, path, err := p.canonical(ctx, piece.URI)
			if err != nil {
				return err
			}
			// Compared after links are resolved, and with a slash behind dir: out2 is not in out.
			if ifs == ofs && (path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")) {
				return fmt.Errorf("output directory %s holds the input file %s", j.Output, piece.URI)
			}
		}
	}
	return nil
}

// canonical resolves a URI and the links in its path.
func (p *planner) canonical(ctx context.Context, uri string) (storage.FS, string, error) {
	files, path, err := p.schemes.Resolve(uri)
	if err != nil {
		return nil, "", err
	}
	if l, ok := files.(storage.Linked); ok {
		path, err = l.Canonical(ctx, path)
	}
	return files, path, err
}

// maxTasks is the largest number of maps of a job. Every task has
// state in memory, and a typing error (a split size of 1) must not fill it.
const maxTasks = 1_000_000

// MaxReduces is the largest number of reduces of a job. Each reduce writes a file, and each
// map keeps state for each reduce.
const MaxReduces = 100_000

// planInputs cuts all inputs of the job into splits and returns their total size in bytes. skipped is the
// number of files that are not read because of conditions on their partitions.
func (p *planner) planInputs(ctx context.Context, j *Job, o Options) (out []engine.SourceSplit, total int64, skipped int, err error) {
	if j.hadoop != nil {
		out, total, err = p.planHadoop(ctx, j, o)
		return out, total, 0, err
	}
	lists, err := p.listInputs(ctx, j, o)
	if err != nil {
		return nil, 0, 0, err
	}
	for _, l := range lists {
		total += l.Bytes
		skipped += l.Excluded
	}
	size := o.SplitSize
	// All inputs together decide the size, so that a small second input does not get as many maps as a large
	// first one.
	if size <= 0 {
		size = input.ChooseSplitSize(total, p.target.MapSlots(), j.Aggregate != NoFold, j.Reducer != nil, p.target.MapBuffer())
	}
	// Before the cutting, which takes memory for each split.
	if maps := total / size; maps > maxTasks {
		return nil, 0, 0, fmt.Errorf("a split size of %d B makes %d map tasks; the most are %d", size, maps, maxTasks)
	}
	for _, l := range lists {
		splits, err := l.Split(ctx, size)
		if err != nil {
			return nil, 0, 0, err
		}
		for _, s := range splits {
			out = append(out, engine.SourceSplit{Source: l.source, Split: s})
		}
	}
	return out, total, skipped, nil
}

// planHadoop cuts the inputs of a job with Hadoop's properties into splits by Hadoop's rules.
func (p *planner) planHadoop(ctx context.Context, j *Job, o Options) (out []engine.SourceSplit, bytes int64, err error) {
	in := j.hadoop.inputs(p.schemes)
	// The user's format replaces the one by which AutoInputFormat would look into each file.
	if choice := o.choice(); choice.Given() {
		if in.Rows, err = o.rows(); err != nil {
			return nil, 0, err
		}
	}
	for _, path := range o.Inputs {
		uri, err := p.target.URI(path)
		if err != nil {
			return nil, 0, err
		}
		in.Inputs = append(in.Inputs, uri)
	}
	splits, err := input.PlanHadoop(ctx, in)
	if err != nil {
		return nil, 0, err
	}
	if len(splits) > maxTasks {
		return nil, 0, fmt.Errorf("the input has %d splits; the most are %d", len(splits), maxTasks)
	}
	for _, s := range splits {
		bytes += s.Bytes
		out = append(out, engine.SourceSplit{Split: s})
	}
	return out, bytes, nil
}

// sourceFiles lists files of one of a job's sources.
type sourceFiles struct {
	*input.Listing
	source int
}

// listInputs finds the files of all sources. The user's Include and Exclude
// filters do not apply to files in a chain's own directory.
func (p *planner) listInputs(ctx context.Context, j *Job, o Options) (lists []sourceFiles, err error) {
	sources := j.Sources
	if j.Mapper != nil {
		if len(o.Inputs) == 0 {
			return nil, errors.New("no input is given")
		}
		// First, as in compile: splits name their source by its index.
		sources = append([]Source{{Inputs: o.Inputs, Input: j.Input}}, sources...)
	}
	if err := checkNames(sources, o.NamedInputs); err != nil {
		return nil, err
	}
	for i, s := range sources {
		var own, given []string
		for _, path := range slices.Concat(s.Inputs, o.NamedInputs[s.Name]) {
			uri, err := p.target.URI(path)
			if err != nil {
				return nil, err
			}
			// The outputs of earlier steps must be read whole and in the step's own format. The user's
			// filters and format are for the chain's inputs.
			if o.chainDir != "" && strings.HasPrefix(uri, o.chainDir+"/") {
				own = append(own, uri)
			} else {
				given = append(given, uri)
			}
		}
		rows, err := s.rows(i == 0 && j.Mapper != nil, &o)
		if err != nil {
			return nil, err
		}
		for _, opts := range []input.Options{
			{Schemes: p.schemes, Inputs: own, Format: s.Input.input()},
			{Schemes: p.schemes, Inputs: given, Include: o.Include, Exclude: o.Exclude, Format: s.Input.input(), Rows: rows},
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

// rows returns the format of a source's files whose records become lines. The user's
// choice is for the files of Options.Inputs.
func (s *Source) rows(isMain bool, o *Options) (*format.Spec, error) {
	// Further sources keep the formats of the job's author, who knows their files.
	if isMain {
		if choice := o.choice(); choice.Given() {
			return o.rows()
		}
	}
	spec, err := format.Parse(s.Input.Rows)
	if err != nil {
		return nil, fmt.Errorf("the input format %q: %w", s.Input.Rows, err)
	}
	return spec, nil
}

// choice returns what the user chooses of the input.
func (o *Options) choice() format.Choice {
	return format.Choice{Format: o.Format, Missing: o.Missing, Where: o.Where, Columns: o.Columns}
}

// rows returns the user's choice of the input's format.
func (o *Options) rows() (*format.Spec, error) {
	choice := o.choice()
	spec, err := choice.Spec()
	if err != nil {
		return nil, fmt.Errorf("the input format: %w", err)
	}
	return spec, nil
}

// checkNames returns an error for a named input without a source, and for a source with a
// name that has no input.
func checkNames(sources []Source, named map[string][]string) error {
	known := map[string]bool{}
	var names []string
	for _, s := range sources {
		if s.Name == "" {
			continue
		}
		if len(s.Inputs)+len(named[s.Name]) == 0 {
			return fmt.Errorf("the input %s is missing: --input %s=PATH, or Options.NamedInputs", s.Name, s.Name)
		}
		known[s.Name] = true
		names = append(names, s.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if !known[name] {
			return fmt.Errorf("the job has no input called %q; its inputs are %q", name, names)
		}
	}
	return nil
}

// reduces returns the number of reduce tasks: the user's choice, else the job's,
// else as many as there are slots.
func reduces(j *Job, o Options, c feature.Slots, bytes int64) int {
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

// cutRanges samples the input and divides the keys among the reduces of a total
// order.
func (p *planner) cutRanges(ctx context.Context, j *feature.PlannedJob) (err error) {
	if len(j.Splits) == 0 {
		return nil
	}
	t := &engine.Task{Ctx: ctx, JobName: j.Name, Maps: len(j.Splits), Reduces: j.Reduces, Counters: &engine.UserCounters{}, Meter: &engine.Meter{}}
	// Cuts travel with the recipe, so that all attempts divide the keys alike.
	if j.Cuts, err = engine.SampleCuts(ctx, p.schemes, j.Program, t, j.Splits, j.Reduces); err == nil {
		j.Program.Partition = engine.RangePartition(j.Cuts)
	}
	return err
}
