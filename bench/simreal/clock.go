package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"
)

// clock is one that stands still while others have the processors that our
// threads could use. On a machine without other work it is the time. Of an
// interval in which our threads ran for R and waited, able to run, for W in all,
//
//	k = (R + W) / Δt    threads could run
//	w = min(k, cores)   would have run on a machine of our own
//	Δτ = Δt − Δt·(1 − R/(w·Δt))·min(1, k)
//
// With one thread that is Δt less what it waited; with two and more on two cores
// it is half of what they ran. So a job that had half of the machine has taken
// half of its time by this clock, which is what it would have taken alone, but
// for caches that others have emptied.
type clock struct {
	start time.Time
	wall  []time.Duration // since the start, ascending
	own   []time.Duration // by this clock

	quit chan struct{}
	done sync.WaitGroup
	last map[string]processor // by thread
}

// processor is what a thread has had of it, and for how long it has waited for
// it, being able to run.
type processor struct{ ran, waited time.Duration }

// clockEvery is how often a clock looks at the threads.
const clockEvery = 50 * time.Millisecond

// startClock starts a clock; stop must be called.
func startClock() *clock {
	c := &clock{start: time.Now(), wall: []time.Duration{0}, own: []time.Duration{0}, quit: make(chan struct{})}
	c.last = threads()
	c.done.Go(func() {
		t := time.NewTicker(clockEvery)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				c.look()
			case <-c.quit:
				c.look()
				return
			}
		}
	})
	return c
}

// stop ends the looking. The clock may be read from then on.
func (c *clock) stop() {
	close(c.quit)
	c.done.Wait()
}

// look adds an interval.
func (c *clock) look() {
	now, at := threads(), time.Since(c.start)
	var list []processor
	for id, p := range now {
		list = append(list, processor{p.ran - c.last[id].ran, p.waited - c.last[id].waited})
	}
	c.last = now
	n := len(c.wall) - 1
	c.wall = append(c.wall, at)
	c.own = append(c.own, c.own[n]+sum(list).own(at-c.wall[n], runtime.NumCPU()))
}

// minor is the part of what all threads ran below which one is not at work: it
// wakes for a moment, and what it waits for that holds nobody up.
const minor = 0.05

// sum adds up the threads that are at work.
func sum(list []processor) (all processor) {
	var ran time.Duration
	for _, p := range list {
		ran += p.ran
	}
	for _, p := range list {
		if p.ran.Seconds() >= minor*ran.Seconds() {
			all.ran += p.ran
			all.waited += p.waited
		}
	}
	return all
}

// own is Δτ of an interval in which our threads had p.
func (p processor) own(span time.Duration, cores int) time.Duration {
	could := (p.ran + p.waited).Seconds() / span.Seconds()
	if span <= 0 || could <= 0 {
		return max(0, span)
	}
	part := p.ran.Seconds() / (min(could, float64(cores)) * span.Seconds())
	lost := max(0, 1-part) * min(1, could)
	return time.Duration((1 - lost) * float64(span))
}

// at converts a time since the start.
func (c *clock) at(wall time.Duration) time.Duration {
	i, found := slices.BinarySearch(c.wall, wall)
	switch {
	case found:
		return c.own[i]
	case i == len(c.wall):
		return c.own[i-1] + wall - c.wall[i-1]
	}
	part := float64(wall-c.wall[i-1]) / float64(c.wall[i]-c.wall[i-1])
	return c.own[i-1] + time.Duration(part*float64(c.own[i]-c.own[i-1]))
}

// had is the part of the time for which the clock has gone.
func (c *clock) had() float64 {
	n := len(c.wall) - 1
	return c.own[n].Seconds() / max(1e-9, c.wall[n].Seconds())
}

// threads reads what this process's threads have had; none where the system
// does not tell, which makes a clock that is never late. Few of Go's threads
// ever end, so few are missing.
func threads() map[string]processor {
	out := map[string]processor{}
	files, err := filepath.Glob("/proc/self/task/*/schedstat")
	if err != nil {
		return out
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // the thread has ended
		}
		var ran, waited int64
		if n, _ := fmt.Sscan(string(b), &ran, &waited); n == 2 {
			out[name] = processor{time.Duration(ran), time.Duration(waited)}
		}
	}
	return out
}
