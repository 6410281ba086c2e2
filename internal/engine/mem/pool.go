// Package mem manages the engine's large buffers: budgets that all tasks share, and
// contiguous regions outside the Go heap that are charged to a budget.
//
// Sort buffers and hash tables take most of a job's memory. On the Go heap they
// would double through the collector's growth target. Here their size is exactly
// the charged number of bytes, and releasing them returns the memory to the
// operating system at once. So a job's peak is its memory limit plus a small
// constant.
package mem

import "sync/atomic"

// Pool is a budget in bytes that several tasks share. It is safe for concurrent
// use.
//
// Invariant: without Grow, 0 ≤ Used ≤ limit.
type Pool struct {
	limit int64
	used  atomic.Int64
	peak  atomic.Int64
}

// NewPool returns an unused Pool of limit bytes.
func NewPool(limit int64) *Pool { return &Pool{limit: limit} }

// Limit returns the budget in bytes.
func (p *Pool) Limit() int64 { return p.limit }

// Used returns the number of bytes that are charged now.
func (p *Pool) Used() int64 { return p.used.Load() }

// Peak returns the largest value that Used has had.
func (p *Pool) Peak() int64 { return p.peak.Load() }

// TryGrow charges n bytes if they fit within the limit. Otherwise it charges
// nothing and returns false.
func (p *Pool) TryGrow(n int64) bool {
	for {
		old := p.used.Load()
		if old+n > p.limit {
			return false
		}
		if p.used.CompareAndSwap(old, old+n) {
			p.raise(old + n)
			return true
		}
	}
}

// Grow charges n bytes even beyond the limit. It is for data that cannot be
// divided, such as a record larger than the whole budget.
func (p *Pool) Grow(n int64) { p.raise(p.used.Add(n)) }

// Shrink takes back a charge of n bytes.
func (p *Pool) Shrink(n int64) {
	if p.used.Add(-n) < 0 {
		panic("mem: more bytes returned to the pool than were taken")
	}
}

func (p *Pool) raise(now int64) {
	for {
		peak := p.peak.Load()
		if now <= peak || p.peak.CompareAndSwap(peak, now) {
			return
		}
	}
}
