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

// clock measures time but pauses while other processes use the processors that
// this process's threads could use. Without other work on the machine it equals
// the wall clock. In an interval Δt in which our threads ran for R and were
// runnable but waited for W in total, it advances by Δτ:
//
//	k = (R + W) / Δt    mean number of runnable threads
//	w = min(k, cores)   the number that would run on an idle machine
//	Δτ = Δt − Δt·(1 − R/(w·Δt))·min(1, k)
//
// With one thread, Δτ is Δt without the thread's waiting time. With two or more
// threads on two cores, Δτ is half of their running time. A job that got half of
// the machine thus takes half of its wall time by this clock: the time it would
// have taken alone, apart from the effect of other processes on the caches.
//
// One goroutine samples the threads; stop ends it. The clock must not be read
// before.
type clock struct {
	start time.Time
	wall  []time.Duration // time of each sample since the start, ascending
	own   []time.Duration // the same by this clock
	ran   time.Duration   // processor time of all threads

	quit chan struct{}
	done sync.WaitGroup
	last map[string]processor // the latest sample, by thread
}

// processor is the time for which a thread ran, and for which it was runnable but
// waited for a processor.
type processor struct{ ran, waited time.Duration }

// clockEvery is the time between two samples.
const clockEvery = 50 * time.Millisecond

// startClock starts a clock. The caller must call stop.
func startClock() *clock {
	c := &clock{start: time.Now(), wall: []time.Duration{0}, own: []time.Duration{0}, quit: make(chan struct{})}
	c.last = threads()
	c.done.Go(func() {
		t := time.NewTicker(clockEvery)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				c.sample()
			case <-c.quit:
				c.sample()
				return
			}
		}
	})
	return c
}

// stop takes the last sample. The clock may be read from then on.
func (c *clock) stop() {
	close(c.quit)
	c.done.Wait()
}

// sample adds the interval since the previous sample.
func (c *clock) sample() {
	now, at := threads(), time.Since(c.start)
	var list []processor
	for id, p := range now {
		list = append(list, processor{p.ran - c.last[id].ran, p.waited - c.last[id].waited})
	}
	c.last = now
	n, all := len(c.wall)-1, working(list)
	c.ran += all.ran
	c.wall = append(c.wall, at)
	c.own = append(c.own, c.own[n]+all.own(at-c.wall[n], runtime.NumCPU()))
}

// minor is the share of the total running time below which the waiting of a thread is left
// out. Such a thread only wakes for a moment, and its waiting delays no task. It is far below
// the share of each of the tasks that run at once.
const minor = 0.01

// working adds up the running times of all threads, and the waiting times of the threads that
// do a relevant share of the work.
func working(list []processor) (all processor) {
	var ran time.Duration
	for _, p := range list {
		ran += p.ran
	}
	for _, p := range list {
		if p.ran.Seconds() >= minor*ran.Seconds() {
			all.waited += p.waited
		}
	}
	all.ran = ran
	return all
}

// own returns Δτ for an interval Δt = span in which our threads had p.
func (p processor) own(span time.Duration, cores int) time.Duration {
	could := (p.ran + p.waited).Seconds() / span.Seconds()
	if span <= 0 || could <= 0 {
		return max(0, span)
	}
	part := p.ran.Seconds() / (min(could, float64(cores)) * span.Seconds())
	lost := max(0, 1-part) * min(1, could)
	return time.Duration((1 - lost) * float64(span))
}

// at converts a wall time since the start to this clock. Between samples it
// interpolates.
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

// share returns the share of the time for which the clock ran.
func (c *clock) share() float64 {
	n := len(c.wall) - 1
	return c.own[n].Seconds() / max(1e-9, c.wall[n].Seconds())
}

// threads reads the times of this process's threads. On systems without /proc it
// returns none, and the clock then never pauses. Threads that have ended are
// missing, but the Go runtime ends very few.
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
