package mapreduce

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/slotwise/slotwise/internal/data/engine"
	"github.com/slotwise/slotwise/internal/data/format"
	"github.com/slotwise/slotwise/internal/data/hadoop"
	"github.com/slotwise/slotwise/internal/data/input"
	"github.com/slotwise/slotwise/internal/data/output"
	"github.com/slotwise/slotwise/internal/live/feature"
)

// init lets other packages of slotwise compile jobs. The method is not exported, because its
// result is of an internal type.
func init() {
	feature.CompileJob = func(ctx context.Context, j, files any) (*engine.Program, error) {
		return j.(*Job).compile(ctx, files.(*Files))
	}
}

// compile checks the job, prepares it and translates it for the engine. The source of
// Job.Mapper comes first, then the sources in Job.Sources.
func (j *Job) compile(ctx context.Context, files *Files) (*engine.Program, error) {
	if err := j.validate(); err != nil {
		return nil, fmt.Errorf("job %q: %w", j.Name, err)
	}
	// Prepare may fill the fields of the job that are read below.
	if j.Prepare != nil {
		if err := j.Prepare(ctx, files); err != nil {
			return nil, fmt.Errorf("job %q: %w", j.Name, err)
		}
	}
	rows, err := format.ParseOutput(j.Output.Rows)
	if err != nil {
		return nil, fmt.Errorf("job %q: the format Output: %w", j.Name, err)
	}
	p := &engine.Program{
		Aggregate: engine.Fold(j.Aggregate),
		Partition: j.Partitioner,
		SameGroup: j.SameGroup,
		Output:    j.Output.output(),
		Rows:      rows,
		NoOutput:  j.noOutput,

		CombinerUnsorted: j.combinerUnsorted,
		LazyOutput:       j.hadoop != nil && j.hadoop.rules.LazyOutput,
		OldPartNames:     j.hadoop != nil && j.hadoop.rules.Conf.Get(hadoop.PropParts, "") == "",
	}
	if j.Mapper != nil {
		p.Sources = append(p.Sources, engine.Source{Format: j.Input.input(), NewMapper: bindMapper(j.Mapper, j.TotalOrder)})
	}
	for _, s := range j.Sources {
		p.Sources = append(p.Sources, engine.Source{Format: s.Input.input(), NewMapper: bindMapper(s.Mapper, j.TotalOrder)})
	}
	if j.Reducer != nil {
		p.NewReducer = bindReducer(j.Reducer)
	}
	if j.Combiner != nil {
		p.NewCombiner = bindReducer(j.Combiner)
	}
	return p, nil
}

func (j *Job) validate() error {
	switch {
	case j.Mapper == nil && len(j.Sources) == 0:
		return errors.New("Mapper is missing")
	case j.Reducer == nil && (j.Combiner != nil || j.Aggregate != NoFold || j.SameGroup != nil || j.TotalOrder):
		return errors.New("the settings Combiner, Aggregate, SameGroup and TotalOrder need a Reducer")
	// A fold is itself a combiner, which the engine runs on integers.
	case j.Combiner != nil && j.Aggregate != NoFold:
		return errors.New("settings Combiner and Aggregate exclude each other")
	case j.Aggregate > Max:
		return fmt.Errorf("unknown fold %d", j.Aggregate)
	// The planner makes the partitioner of a total order from samples of the keys.
	case j.TotalOrder && j.Partitioner != nil:
		return errors.New("TotalOrder and Partitioner exclude each other")
	// The default partitioner hashes whole keys, so it would spread the keys of one group over
	// the reduces.
	case j.SameGroup != nil && j.Partitioner == nil:
		return errors.New("SameGroup needs a Partitioner that keeps a group together")
	// A synthetic map has a number instead of input, and no source could say which maps are
	// its own.
	case j.Synthetic > 0 && len(j.Sources) > 0:
		return errors.New("settings Synthetic and Sources exclude each other")
	case j.Reduces < 0:
		return fmt.Errorf("Reduces is %d; it must not be negative", j.Reduces)
	case j.Synthetic < 0:
		return fmt.Errorf("the field Synthetic is %d; it must not be negative", j.Synthetic)
	case j.Output.Kind == KeyValueKind:
		return errors.New("the format KeyValue is for input only; as output Text writes key TAB value")
	}
	for i, s := range j.Sources {
		if s.Mapper == nil {
			return fmt.Errorf("Sources[%d].Mapper is missing", i)
		}
	}
	for _, f := range append([]Format{j.Input, j.Output}, sourceFormats(j.Sources)...) {
		// A reader of empty records would never reach the end of the file.
		if f.Kind == FixedKind && f.Len <= 0 {
			return fmt.Errorf("format Fixed needs a record length above 0, not %d", f.Len)
		}
	}
	if j.Output.Kind == WholeKind {
		return errors.New("the format Whole is for input only")
	}
	return nil
}

func sourceFormats(ss []Source) []Format {
	out := make([]Format, len(ss))
	for i, s := range ss {
		out[i] = s.Input
	}
	return out
}

func (f Format) input() input.Format {
	switch f.Kind {
	case KeyValueKind:
		return input.Format{Kind: input.KeyValue}
	case FixedKind:
		return input.Format{Kind: input.Fixed, RecordLen: f.Len}
	case WholeKind:
		return input.Format{Kind: input.Whole}
	case RunsKind:
		return input.Format{Kind: input.Runs}
	}
	return input.Format{Kind: input.Text}
}

func (f Format) output() output.Format {
	switch f.Kind {
	case FixedKind:
		return output.Fixed
	case RunsKind:
		return output.Runs
	}
	return output.Text
}

// boundMapper joins a Mapper and its emitter into an engine.Mapper.
type boundMapper struct {
	m   Mapper
	out *Emitter
}

// boundBlockMapper is a boundMapper that implements engine.BlockMapper too.
type boundBlockMapper struct {
	boundMapper
	b BlockMapper
}

func bindMapper(newMapper func() Mapper, totalOrder bool) func(*engine.Task, engine.Sink) (engine.Mapper, error) {
	return func(t *engine.Task, s engine.Sink) (engine.Mapper, error) {
		m := newMapper()
		if m == nil {
			return nil, errors.New("the function Mapper of the job or of a source returned nil")
		}
		// Also one reduce is no order then: the job's author wants sorted files.
		if totalOrder {
			if err := checkSorted(m); err != nil {
				return nil, err
			}
		}
		out := &Emitter{sink: s, task: &Task{t}}
		// Before the engine maps anything: an error of Start fails the attempt without a Finish.
		if err := start(m, out); err != nil {
			return nil, err
		}
		bound := boundMapper{m, out}
		// Two types, because the engine learns from the type whether it may pass blocks.
		if b, ok := m.(BlockMapper); ok {
			return &boundBlockMapper{bound, b}, nil
		}
		return &bound, nil
	}
}

func (b *boundMapper) Map(key, value []byte) error { return userError(b.m.Map(key, value, b.out)) }

func (b *boundMapper) Close() error { return finish(b.m, b.out) }

func (b *boundBlockMapper) MapBlock(block []byte) error { return userError(b.b.MapBlock(block, b.out)) }

// boundReducer joins a Reducer and its emitter into an engine.Reducer.
type boundReducer struct {
	r   Reducer
	out *Emitter
}

func bindReducer(newReducer func() Reducer) func(*engine.Task, engine.Sink) (engine.Reducer, error) {
	return func(t *engine.Task, s engine.Sink) (engine.Reducer, error) {
		r := newReducer()
		if r == nil {
			return nil, errors.New("the function Reducer or Combiner of the job returned nil")
		}
		out := &Emitter{sink: s, task: &Task{t}}
		if err := start(r, out); err != nil {
			return nil, err
		}
		return &boundReducer{r, out}, nil
	}
}

func (b *boundReducer) Reduce(key []byte, values iter.Seq[[]byte]) error {
	return userError(b.r.Reduce(key, values, b.out))
}

func (b *boundReducer) Close() error { return finish(b.r, b.out) }

func start(x any, out *Emitter) error {
	if s, ok := x.(Starter); ok {
		return userError(s.Start(out.task))
	}
	return nil
}

func finish(x any, out *Emitter) error {
	if f, ok := x.(Finisher); ok {
		return userError(f.Finish(out))
	}
	return nil
}

// userError marks an error of the job's code, so that the error of [Run] can contain it.
func userError(err error) (own error) {
	if err == nil {
		return nil
	}
	// The methods of an error that holds a nil pointer panic. They are called here first, because the loop that reports
	// the attempt's end calls them, too, and a panic there would end the process.
	defer func() {
		if p := recover(); p != nil {
			own = Permanent(fmt.Errorf("the job's code returned an error of type %T, and its methods panic: %v; a nil pointer in an error is not nil", err, p))
		}
	}()
	_, _ = err.Error(), errors.Is(err, context.Canceled)
	return &engine.UserError{Err: err}
}
