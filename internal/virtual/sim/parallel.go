package sim

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// RunEach makes independent runs on all processors. For each configuration it returns
// the result or the error of its Run. Two configurations must not share a
// policy or an observer. Stop is called from several goroutines.
func RunEach(configs []Config) ([]*Result, []error) {
	results, errs := make([]*Result, len(configs)), make([]error, len(configs))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(configs)) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(configs); i = int(next.Add(1)) - 1 {
				results[i], errs[i] = Run(configs[i])
			}
		})
	}
	wg.Wait()
	return results, errs
}

// RunAll is RunEach with one error, which joins the errors of all runs and names their
// indexes. The result of a run that failed is nil.
func RunAll(configs []Config) ([]*Result, error) {
	results, errs := RunEach(configs)
	for i, err := range errs {
		if err != nil {
			errs[i] = fmt.Errorf("run %d: %w", i, err)
		}
	}
	return results, errors.Join(errs...)
}
