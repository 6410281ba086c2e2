package secure

import (
	"sync"
	"time"
)

// pacePerSecond is how many refusals a second are logged: enough to see what
// goes on, too few to fill a disk.
const pacePerSecond = 10

// pace limits how often something is logged.
type pace struct {
	mu      sync.Mutex
	second  time.Time
	passed  int
	skipped int
}

// pass reports whether to log now, and how many times were left out since the
// last one.
func (p *pace) pass(now time.Time) (skipped int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.second) >= time.Second {
		p.second, p.passed = now, 0
	}
	if p.passed == pacePerSecond {
		p.skipped++
		return 0, false
	}
	p.passed++
	skipped, p.skipped = p.skipped, 0
	return skipped, true
}
