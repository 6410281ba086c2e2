package profile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/slotwise/slotwise/internal/base/counters"
	"github.com/slotwise/slotwise/internal/data/engine"
	"github.com/slotwise/slotwise/internal/data/format"
	"github.com/slotwise/slotwise/internal/data/input"
	"github.com/slotwise/slotwise/internal/data/kv"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/live/feature"
	"github.com/slotwise/slotwise/internal/live/local"
	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/sched/job"
)

// Listing is the input of a job, found but not yet divided.
type Listing struct {
	Bytes   int64 // of all files
	sources []*input.Listing
}

// List finds the files that a job reads: o.Inputs for its mapper, and the inputs
// of its sources.
func List(ctx context.Context, j *mapreduce.Job, o mapreduce.Options) (*Listing, error) {
	set, err := feature.Combine(o.Features)
	if err != nil {
		return nil, err
	}
	files, err := mapreduce.OpenFiles(o.Features...)
	if err != nil {
		return nil, err
	}
	// The formats of the sources are known only after the job is compiled. Nothing runs yet.
	p, err := feature.CompileJob(ctx, j, files)
	if err != nil {
		return nil, err
	}
	inputs := [][]string{o.Inputs}
	// A job with sources has no mapper beside them, and the inputs of the options are not
	// read.
	if j.Mapper == nil {
		inputs = nil
	}
	for _, s := range j.Sources {
		inputs = append(inputs, s.Inputs)
	}
	all := &Listing{}
	for i := range inputs {
		text := ""
		// The format of the options belongs to the options' inputs. Sources state theirs.
		if i == 0 && j.Mapper != nil {
			text = o.Format
		}
		rows, err := format.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("the input format: %w", err)
		}
		// As the runner lists them, with the same globs, so that both find the same files.
		l, err := input.List(ctx, input.Options{Schemes: set.Schemes, Inputs: inputs[i], Include: o.Include, Exclude: o.Exclude, Format: p.Sources[i].Format, Rows: rows})
		if err != nil {
			return nil, err
		}
		all.sources = append(all.sources, l)
		all.Bytes += l.Bytes
	}
	return all, nil
}

// Split divides the files into splits of about size bytes, one for each map, in
// the order of the maps.
func (l *Listing) Split(ctx context.Context, size int64) ([]engine.SourceSplit, error) {
	var out []engine.SourceSplit
	for i, source := range l.sources {
		splits, err := source.Split(ctx, size)
		if err != nil {
			return nil, err
		}
		// The order of sources and then of their splits is the order of a job's maps, so a split's number means the
		// same map in both runs.
		for _, s := range splits {
			out = append(out, engine.SourceSplit{Source: i, Split: s})
		}
	}
	return out, nil
}

// Splits divides a job's input into splits of o.SplitSize bytes, as the runner
// does when the user names that size.
func Splits(ctx context.Context, j *mapreduce.Job, o mapreduce.Options) ([]engine.SourceSplit, error) {
	l, err := List(ctx, j, o)
	if err != nil {
		return nil, err
	}
	return l.Split(ctx, o.SplitSize)
}

// bare runs the maps of the app's job and discards their output.
func (m *measurement) bare(ctx context.Context, o mapreduce.Options, s *sample) (err error) {
	params, err := m.app.Check(m.params)
	if err != nil {
		return err
	}
	// A new job for each run: mappers of user code may keep state in the values of the old one.
	j, err := m.app.Job(params)
	if err != nil {
		return err
	}
	// The whole run has chosen a size. The bare run must have the same maps, or the difference
	// of both would not be the cost of sorting.
	if o.SplitSize == 0 {
		o.SplitSize = s.read/int64(s.maps) + 1
	}
	spec := local.JobSpec{Name: j.Name}
	if spec.Splits, err = Splits(ctx, j, o); err != nil {
		return err
	}
	files, err := mapreduce.OpenFiles(o.Features...)
	if err != nil {
		return err
	}
	if spec.Program, err = feature.CompileJob(ctx, j, files); err != nil {
		return err
	}
	count := &tally{}
	// Without reduces, the maps' output goes to a sink that only counts, so no sorting is
	// measured.
	count.strip(spec.Program)
	// In this process and with the same slots as the whole run, so the maps compete for caches in the same way.
	bare, err := runMaps(ctx, spec, o)
	if err != nil {
		return fmt.Errorf("the maps alone: %w", err)
	}
	s.bareCPU = time.Duration(bare.Get(counters.CPU))
	s.records, s.emitted = count.records, count.bytes
	return nil
}

// runMaps runs a job without reduces in the local shell and returns what its
// maps counted.
func runMaps(ctx context.Context, spec local.JobSpec, o mapreduce.Options) (count counters.Set, err error) {
	set, err := feature.Combine(o.Features)
	if err != nil {
		return count, err
	}
	c, err := local.Start(local.Config{Workers: o.Cluster.Workers, MapSlots: o.Cluster.MapSlots,
		ReduceSlots: o.Cluster.ReduceSlots, Memory: o.Cluster.Memory, TempDir: tempDir(o), Schemes: set.Schemes})
	if err != nil {
		return count, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	fs, path, err := set.Schemes.Resolve(o.Output)
	if err != nil {
		return count, err
	}
	// The output of the whole run is there already. Nothing reads it after its counters were taken.
	if spec.Staging, err = fs.Stage(ctx, path, storage.ReplaceOutput); err != nil {
		return count, err
	}
	h, err := c.Submit(spec)
	if err != nil {
		return count, err
	}
	err = h.Wait(ctx, c)
	return h.Summary().Account.Counters[job.Map], err
}

// tempDir returns the directory for temporary files.
func tempDir(o mapreduce.Options) string {
	if o.Cluster.TempDir != "" {
		return o.Cluster.TempDir
	}
	return os.TempDir()
}

// tally counts the records and bytes that the maps of a job emit.
type tally struct {
	mu             sync.Mutex
	records, bytes int64
}

// strip turns a program into one of maps only, whose output goes to t.
func (t *tally) strip(p *engine.Program) {
	// All, because each alone would keep the engine on the path that sorts or folds.
	p.NewReducer, p.NewCombiner, p.Aggregate, p.Partition, p.SameGroup = nil, nil, engine.NoFold, nil, nil
	for i := range p.Sources {
		whole := p.Sources[i].NewMapper
		p.Sources[i].NewMapper = func(task *engine.Task, _ engine.Sink) (engine.Mapper, error) {
			// One for each task, without a lock: the measurement would be of a lock for each record.
			sink := &void{}
			m, err := whole(task, sink)
			if err != nil {
				return nil, err
			}
			b := bareMapper{m, sink, t}
			// A wrapper that always had MapBlock would put plain mappers on the path of blocks.
			if blocks, ok := m.(engine.BlockMapper); ok {
				return &bareBlockMapper{b, blocks}, nil
			}
			return &b, nil
		}
	}
}

// void is a sink that only counts. A single task uses it.
type void struct{ records, bytes int64 }

// Emit counts a record.
func (v *void) Emit(key, value []byte) {
	v.records++
	v.bytes += int64(len(key) + len(value))
}

// Add counts a record whose value is an encoded integer.
func (v *void) Add(key []byte, _ int64) {
	v.records++
	v.bytes += int64(len(key) + kv.Int64Len)
}

// bareMapper adds the counts of its sink to the tally when it is closed.
type bareMapper struct {
	engine.Mapper
	sink  *void
	tally *tally
}

// Close closes the mapper, which may still emit records.
func (m *bareMapper) Close() error {
	err := m.Mapper.Close()
	m.tally.mu.Lock()
	defer m.tally.mu.Unlock()
	m.tally.records += m.sink.records
	m.tally.bytes += m.sink.bytes
	return err
}

// bareBlockMapper is a bareMapper for mappers that accept whole blocks, so that
// it measures the same path as a real run.
type bareBlockMapper struct {
	bareMapper
	blocks engine.BlockMapper
}

// MapBlock passes a block to the mapper.
func (m *bareBlockMapper) MapBlock(b []byte) error { return m.blocks.MapBlock(b) }

var (
	_ engine.Sink        = (*void)(nil)
	_ engine.BlockMapper = (*bareBlockMapper)(nil)
)
