// Package mem keeps the engine's big memory: budgets shared by all tasks and
// contiguous off-heap regions charged to them.
//
// Sort buffers and hash tables are most of what a job occupies. Kept on the
// Go heap they would be counted twice over by the collector's growth target;
// kept here, their size is exactly what was charged, and giving them back to
// the operating system takes effect at once. That is what lets a run promise
// a peak of its memory limit plus a small constant.
package mem

import "sync/atomic"

// Pool is a budget in bytes that several tasks draw from. All methods may be
// called by any number of goroutines at once.
//
// Invariant: without Grow, 0 ≤ Used ≤ limit.
type Pool struct {
	limit int64
	used  atomic.Int64
	peak  atomic.Int64
}

// NewPool returns an unused Pool of limit bytes.
func NewPool(limit int64) *Pool { return &Pool{limit: limit} }

// Limit is the budget in bytes.
func (p *Pool) Limit() int64 { return p.limit }

// Used is the number of bytes charged now.
func (p *Pool) Used() int64 { return p.used.Load() }

// Peak is the most that Used has ever been.
func (p *Pool) Peak() int64 { return p.peak.Load() }

// TryGrow charges n bytes if they fit within the limit, and otherwise nothing.
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

// Grow charges n bytes whether they fit or not. It is for what cannot be cut
// into smaller pieces, such as one record larger than the whole budget.
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
