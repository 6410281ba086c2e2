package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// processor is what the threads of this process have had of it, and for how
// long they have waited for it, being able to run.
type processor struct{ ran, waited time.Duration }

// used sums that over the threads; zeros where the system does not tell. Few of
// Go's threads ever end, so few are missing.
func used() (p processor) {
	files, err := filepath.Glob("/proc/self/task/*/schedstat")
	if err != nil {
		return p
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // the thread has ended
		}
		var ran, waited int64
		if n, _ := fmt.Sscan(string(b), &ran, &waited); n == 2 {
			p.ran += time.Duration(ran)
			p.waited += time.Duration(waited)
		}
	}
	return p
}

// share is the part of what was wanted since an earlier reading that was had: 1
// on a machine without other work.
func (p processor) share(before processor) float64 {
	ran, waited := p.ran-before.ran, p.waited-before.waited
	if ran+waited <= 0 {
		return 1
	}
	return ran.Seconds() / (ran + waited).Seconds()
}
