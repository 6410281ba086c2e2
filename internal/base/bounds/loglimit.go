package bounds

import (
	"sync"
	"time"
)

// LogsPerSecond is the number of lines per second that a LogLimit allows: enough to
// recognise a problem, too few to fill a disk.
const LogsPerSecond = 10

// LogLimit limits log lines that a client can cause, so that no client can fill a disk with
// them. It is safe for concurrent use; the zero value is ready.
type LogLimit struct {
	mu      sync.Mutex
	second  time.Time // when the current second began
	allowed int       // lines in the current second
	skipped int       // lines left out since the last allowed one
}

// Allow reports whether to log a line now, and how many lines were left out since
// the last one.
func (p *LogLimit) Allow(now time.Time) (skipped int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// A second begins with the first line after the one before is over, so no clock runs while nothing is
	// logged. Over any second at most twice the number gets through.
	if now.Sub(p.second) >= time.Second {
		p.second, p.allowed = now, 0
	}
	if p.allowed == LogsPerSecond {
		// The next line that is allowed carries the number: a gap without a word would look like
		// silence of the client.
		p.skipped++
		return 0, false
	}
	p.allowed++
	skipped, p.skipped = p.skipped, 0
	return skipped, true
}
