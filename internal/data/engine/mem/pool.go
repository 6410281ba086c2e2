// Package mem manages the engine's large buffers: budgets that all tasks share, and
// contiguous regions outside the Go heap that are charged to a budget.
//
// Sort buffers and hash tables take most of a job's memory. On the Go heap they
// would double through the collector's growth target. Here their size is exactly
// the charged number of bytes. Releasing them returns the memory to the operating
// system at once, or to the budget's Pool for the next buffer. So a job's peak is its memory limit plus a small
// constant.
package mem

import (
	"slices"
	"sync"
)

// Pool is a budget in bytes that several tasks share. It is safe for concurrent
// use.
//
// Invariant: without Grow, 0 ≤ Used ≤ limit. Kept memory is in addition to Used, and both
// together are within the limit.
type Pool struct {
	limit int64

	mu struct {
		sync.Mutex
		used, peak int64
		keeps      bool
		kept       []*Region // released; the one released last is at the end
		keptBytes  int64     // of the pages of kept
	}
}

// NewPool returns an unused Pool of limit bytes.
func NewPool(limit int64) *Pool { return &Pool{limit: limit} }

// Limit returns the budget in bytes.
func (p *Pool) Limit() int64 { return p.limit }

// Used returns the number of bytes that are charged now.
func (p *Pool) Used() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.used
}

// Peak returns the largest value that Used has had.
func (p *Pool) Peak() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.peak
}

// TryGrow charges n bytes if they fit within the limit. Otherwise it charges
// nothing and returns false.
func (p *Pool) TryGrow(n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.used+n > p.limit {
		return false
	}
	p.grow(n)
	return true
}

// Grow charges n bytes even beyond the limit. It is for data that cannot be
// divided, such as a record larger than the whole budget.
func (p *Pool) Grow(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.grow(n)
}

// grow charges n bytes, for which it gives kept memory back if needed. The caller holds
// the lock.
func (p *Pool) grow(n int64) {
	p.mu.used += n
	p.mu.peak = max(p.mu.peak, p.mu.used)
	// The oldest first: reuse prefers the Regions that were released last.
	for len(p.mu.kept) > 0 && p.mu.used+p.mu.keptBytes > p.limit {
		p.drop(0)
	}
}

// Shrink takes back a charge of n bytes.
func (p *Pool) Shrink(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shrink(n)
}

func (p *Pool) shrink(n int64) {
	if p.mu.used -= n; p.mu.used < 0 {
		panic("mem: more bytes returned to the pool than were taken")
	}
}

// KeepReleased makes the Pool keep the pages of released Regions for ReserveUncleared, as
// long as the budget has room. The system otherwise clears every page again for the next
// Region, which takes as long as copying it. The owner calls DropKept at the end.
func (p *Pool) KeepReleased() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.keeps = true
}

// DropKept returns all kept memory to the system, and keeps no more.
func (p *Pool) DropKept() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.keeps = false
	for len(p.mu.kept) > 0 {
		p.drop(0)
	}
}

// drop unmaps a kept Region. The caller holds the lock.
func (p *Pool) drop(i int) {
	r := p.mu.kept[i]
	p.mu.keptBytes -= r.charged
	p.mu.kept = slices.Delete(p.mu.kept, i, i+1)
	unmap(r.mapping)
}

// keep takes a released Region with its charge. It returns false if the Pool does not want
// the Region.
func (p *Pool) keep(r *Region) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Used still includes the Region's charge, so the sum is the same as after keeping the Region.
	if !p.mu.keeps || r.charged == 0 || p.mu.used+p.mu.keptBytes > p.limit || len(p.mu.kept) >= maxKept {
		return false
	}
	p.shrink(r.charged)
	// A copy, because Release empties the owner's Region, and a second Release must do nothing.
	kept := *r
	p.mu.kept = append(p.mu.kept, &kept)
	p.mu.keptBytes += r.charged
	return true
}

// maxKept bounds the number of kept Regions, and with it the time of the search in reuse.
const maxKept = 64

// reuse returns the kept Region that fits size best, and that was released last among
// equals. Its pages are charged. It returns nil if none fits.
func (p *Pool) reuse(size int64) *Region {
	p.mu.Lock()
	defer p.mu.Unlock()
	best := -1
	for i, r := range p.mu.kept {
		if r.Size() >= size && (best < 0 || r.Size() <= p.mu.kept[best].Size()) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	r := p.mu.kept[best]
	p.mu.kept = slices.Delete(p.mu.kept, best, best+1)
	p.mu.keptBytes -= r.charged
	// After the Region has left kept: grow may give kept memory back, but never the Region itself.
	p.grow(r.charged)
	return r
}
