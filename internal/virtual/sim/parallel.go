package sim

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// RunEach makes independent runs, workers at a time; 0 is one for each processor. For each configuration it
// returns the result or the error of its Run. Two configurations must not share a
// policy or an observer. Stop is called from several goroutines.
func RunEach(configs []Config, workers int) ([]*Result, []error) {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	results, errs := make([]*Result, len(configs)), make([]error, len(configs))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(workers, len(configs)) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(configs); i = int(next.Add(1)) - 1 {
				results[i], errs[i] = RunOrFault(configs[i])
			}
		})
	}
	wg.Wait()
	return results, errs
}

// RunOrFault is Run, with a panic as an error. Otherwise one policy with a fault would end the process, which may
// be a master that answers a question in its console.
func RunOrFault(cfg Config) (r *Result, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			r, err = nil, fmt.Errorf("the simulation has a fault: %v\n%s", fault, debug.Stack())
		}
	}()
	return Run(cfg)
}

// RunAll is RunEach on all processors, with one error, which joins the errors of all runs and names their
// indexes. The result of a run that failed is nil.
func RunAll(configs []Config) ([]*Result, error) {
	results, errs := RunEach(configs, 0)
	for i, err := range errs {
		if err != nil {
			errs[i] = fmt.Errorf("run %d: %w", i, err)
		}
	}
	return results, errors.Join(errs...)
}
