package mapreduce

import (
	"fmt"
	"os"

	"github.com/slotwise/slotwise/internal/attempt"
	"github.com/slotwise/slotwise/internal/engine"
	"github.com/slotwise/slotwise/internal/storage/schemes"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// RunAttempt runs an attempt of a task if a worker has started this process for
// that, and ends the process then. A program that holds apps and does not use
// [Main] calls it first thing; lookup finds an app by its name.
func RunAttempt(lookup func(name string) (*App, error)) {
	if attempt.Wanted() {
		if err := schemes.Register(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(ExitFailed)
		}
		os.Exit(attempt.Main(func(p *slotwisev1.Program) (*engine.Program, error) { return build(p, lookup) }))
	}
}

// build makes the functions of a job out of its description.
func build(p *slotwisev1.Program, lookup func(name string) (*App, error)) (*engine.Program, error) {
	j, err := jobOf(p, lookup)
	if err != nil {
		return nil, err
	}
	out, err := j.Program()
	if err == nil && j.TotalOrder {
		out.Partition = engine.RangePartition(p.GetCuts())
	}
	return out, err
}

func jobOf(p *slotwisev1.Program, lookup func(name string) (*App, error)) (*Job, error) {
	if s := p.GetStreaming(); s != nil {
		return Streaming(StreamingOptions{Mapper: s.GetMapper(), Reducer: s.GetReducer(), Combiner: s.GetCombiner(), Stderr: os.Stderr})
	}
	a, err := lookup(p.GetApp())
	if err != nil {
		return nil, err
	}
	if p.GetStep() == "" {
		if a.Job == nil {
			return nil, fmt.Errorf("%s is a chain of jobs: a step is needed", a.Name)
		}
		return a.Job(p.GetParams())
	}
	step := a.Steps[p.GetStep()]
	if step == nil {
		return nil, fmt.Errorf("%s has no step %q", a.Name, p.GetStep())
	}
	return step(p.GetParams())
}
