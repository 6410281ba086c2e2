package cli

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slotwise/slotwise/internal/console"
	"github.com/slotwise/slotwise/internal/sim"
)

// simProgress tells how far simulations have come: a line that is written over
// on a terminal, else a line now and then. It watches all runs at a time.
type simProgress struct {
	out      io.Writer // nil for nothing
	study    *study
	terminal bool
	ended    atomic.Int64 // jobs of the current phase
	told     int64        // of them in the last line
	mu       struct {
		sync.Mutex
		what  string
		total int
		start time.Time
	}
	stop    chan struct{}
	stopped sync.WaitGroup
}

func newSimProgress(out io.Writer, quiet bool, s *study) *simProgress {
	p := &simProgress{out: out, study: s, terminal: isTerminal(out), stop: make(chan struct{})}
	if quiet {
		p.out = nil
		return p
	}
	every := console.LineEvery
	if p.terminal {
		every = showAfter
	}
	p.stopped.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				p.line()
			case <-p.stop:
				return
			}
		}
	})
	return p
}

// Observe implements sim.Observer.
func (p *simProgress) Observe(e *sim.Event) {
	if e.Kind == sim.JobEnded {
		p.ended.Add(1)
	}
}

// phase begins a phase of so many runs.
func (p *simProgress) phase(what string, runs int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended.Store(0)
	p.mu.what, p.mu.start = what, time.Now()
	p.mu.total = p.study.jobs(runs == len(p.study.runs))
}

func (p *simProgress) line() {
	p.mu.Lock()
	what, total, took := p.mu.what, p.mu.total, time.Since(p.mu.start)
	p.mu.Unlock()
	ended := p.ended.Load()
	if what == "" || ended == p.told {
		return
	}
	p.told = ended
	done := float64(ended) / float64(max(1, total))
	text := fmt.Sprintf("%s: %.0f %% of %s", what, 100*done, console.Plural(total, "job"))
	if rest := console.Left(took, done); rest != "" {
		text += ", " + rest
	}
	if p.terminal {
		fmt.Fprintf(p.out, "\r\x1b[K%s", text)
	} else {
		fmt.Fprintln(p.out, text)
	}
}

// close takes the line away.
func (p *simProgress) close() {
	if p.out == nil {
		return
	}
	close(p.stop)
	p.stopped.Wait()
	if p.terminal {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
