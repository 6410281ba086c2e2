package sim

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// RunAll makes independent runs on all processors. Results are in the order of
// the configurations, each the same as by Run alone; one that failed is nil and
// its error, with its index, is among those joined. Policies and observers must
// not be shared by two configurations.
func RunAll(configs []Config) ([]*Result, error) {
	results, errs := make([]*Result, len(configs)), make([]error, len(configs))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(configs)) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(configs); i = int(next.Add(1)) - 1 {
				if results[i], errs[i] = Run(configs[i]); errs[i] != nil {
					errs[i] = fmt.Errorf("run %d: %w", i, errs[i])
				}
			}
		})
	}
	wg.Wait()
	return results, errors.Join(errs...)
}
