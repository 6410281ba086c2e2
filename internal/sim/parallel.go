package sim

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// RunEach makes independent runs on all processors. What comes back is in the
// order of the configurations, each the same as by Run alone: a result, or why
// there is none. Policies and observers must not be shared by two
// configurations, and Stop is called from several goroutines.
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

// RunAll is RunEach for runs that are only worth something together. The result
// of one that failed is nil and its error, with its index, is among those joined.
func RunAll(configs []Config) ([]*Result, error) {
	results, errs := RunEach(configs)
	for i, err := range errs {
		if err != nil {
			errs[i] = fmt.Errorf("run %d: %w", i, err)
		}
	}
	return results, errors.Join(errs...)
}
