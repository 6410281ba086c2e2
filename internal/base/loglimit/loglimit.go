// Package loglimit limits log lines that a client can cause, so that no client can fill a
// disk with them.
package loglimit

import (
	"sync"
	"time"
)

// PerSecond is the number of lines per second that a Limit allows: enough to
// recognise a problem, too few to fill a disk.
const PerSecond = 10

// Limit counts log lines. It is safe for concurrent use; the zero value is ready.
type Limit struct {
	mu      sync.Mutex
	second  time.Time // when the current second began
	allowed int       // lines in the current second
	skipped int       // lines left out since the last allowed one
}

// Allow reports whether to log a line now, and how many lines were left out since
// the last one.
func (p *Limit) Allow(now time.Time) (skipped int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.second) >= time.Second {
		p.second, p.allowed = now, 0
	}
	if p.allowed == PerSecond {
		p.skipped++
		return 0, false
	}
	p.allowed++
	skipped, p.skipped = p.skipped, 0
	return skipped, true
}
