package console

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slotwise/slotwise/internal/console/source"
)

// attemptCache keeps the attempts of the jobs that were viewed last, so that many viewers
// cost the source as much as one. A copy is used for costFactor times as long as it took to
// make, so a source spends at most a small share of its time on copies.
type attemptCache struct {
	copying atomic.Int32 // copies that are being made, at most maxCopies
	mu      struct {
		sync.Mutex
		list []*cacheEntry // the last used one is the last
	}
}

// Bounds of the cache.
const (
	cachedJobs  = 8
	maxCopies   = 8
	costFactor  = 30
	leastAge    = 500 * time.Millisecond
	mostStale   = time.Minute // for which an old copy serves while a new one is made
	copyTimeout = 30 * time.Second
)

// cacheEntry is a job's attempts.
type cacheEntry struct {
	id string
	mu struct {
		sync.Mutex
		value *attempts
		until time.Time
		final bool    // value was copied after the end of the job
		next  *copied // nil if no copy is being made
	}
}

// copied is the result of a copy. The other fields are set before done is closed.
type copied struct {
	done  chan struct{}
	ended bool // the job had ended when the copying began
	value *attempts
	err   error
	crash string // the panic that ended the copying, with its stack
}

// fresh returns the value if it is new enough, and the copy that is being made.
func (e *cacheEntry) fresh(ended bool) (*attempts, *copied) {
	v := e.mu.value
	if v == nil {
		return nil, e.mu.next
	}
	// An ended job's attempts do not change any more, so its copy serves longer. A copy from before the end
	// does not: the page of an ended job is not loaded again by itself, and would lack the last attempts.
	// Killed attempts may be reported as running for a while after the end.
	if until := e.mu.until; time.Now().Before(until) || ended && e.mu.final && v.counts["running"] == 0 && time.Now().Before(until.Add(time.Minute)) {
		return v, nil
	}
	return nil, e.mu.next
}

// get returns the attempts of a job, at most a few seconds old. It waits for them at
// most for patience, and then returns an older copy, or nil without one. The copying
// continues for later calls.
func (c *attemptCache) get(ctx context.Context, source source.Source, id string, ended bool, patience time.Duration) (*attempts, error) {
	e := c.entry(id)
	over := time.NewTimer(patience)
	defer over.Stop()
	// One timer for both waits, so patience bounds their sum. If begin has received its tick, there is no
	// copy to wait for.
	next, v := c.begin(ctx, source, e, ended, over.C)
	if next == nil {
		return v, nil
	}
	select {
	case <-next.done:
		if next.crash != "" {
			panic(next.crash) // the HTTP server reports it, and only this request ends
		}
		return next.value, next.err
	case <-over.C:
		return e.stale(), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// stale returns the latest copy unless it is too old to be shown.
func (e *cacheEntry) stale() *attempts {
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Now().After(e.mu.until.Add(mostStale)) {
		return nil
	}
	return e.mu.value
}

// begin returns the copy that is being made, and begins one if necessary. It returns a value
// instead if that is new enough, or if over fires before another copy may begin.
func (c *attemptCache) begin(ctx context.Context, source source.Source, e *cacheEntry, ended bool, over <-chan time.Time) (*copied, *attempts) {
	for {
		e.mu.Lock()
		v, next := e.fresh(ended)
		// Raised before it is compared, and lowered again below: two entries have two locks.
		if v == nil && next == nil && c.copying.Add(1) <= maxCopies {
			next = &copied{done: make(chan struct{}), ended: ended}
			e.mu.next = next
			// The copy has the identity of the first viewer, which is safe because all who may see a job see
			// the same attempts, and each request asks Source.Job first.
			// Other viewers wait for this copy, so a viewer who leaves must not end it.
			go c.copy(context.WithoutCancel(ctx), source, e, next)
		} else if v == nil && next == nil {
			c.copying.Add(-1)
		}
		e.mu.Unlock()
		if v != nil || next != nil {
			return next, v
		}
		select {
		// Polled, because only a console with more than maxCopies busy jobs gets here, and a copy takes
		// longer than this.
		case <-time.After(5 * time.Millisecond):
		case <-over:
			return nil, e.stale()
		case <-ctx.Done():
			return nil, e.stale()
		}
	}
}

// copy copies the attempts from the source. A panic is passed on to the requests that wait.
func (c *attemptCache) copy(ctx context.Context, source source.Source, e *cacheEntry, next *copied) {
	ctx, cancel := context.WithTimeout(ctx, copyTimeout)
	defer cancel()
	start := time.Now()
	now := start
	defer func() {
		if p := recover(); p != nil {
			next.crash = fmt.Sprintf("%v\n%s", p, debug.Stack())
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.mu.next = nil; next.err == nil && next.crash == "" {
			e.mu.value, e.mu.until, e.mu.final = next.value, now.Add(max(leastAge, costFactor*time.Since(start))), next.ended
		}
		close(next.done)
	}()
	// Deferred last and thus run first: when done is closed, the next copy may begin.
	defer c.copying.Add(-1)
	list, findings, err := source.Attempts(ctx, e.id)
	now = time.Now()
	if next.err = err; err == nil {
		next.value = analyse(list, now.UnixMilli())
		next.value.findings = findings
	}
}

// entry returns the entry of a job and removes the one that was not used for the longest
// time if there are too many.
func (c *attemptCache) entry(id string) *cacheEntry {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.IndexFunc(c.mu.list, func(e *cacheEntry) bool { return e.id == id })
	e := &cacheEntry{id: id}
	if at >= 0 {
		e = c.mu.list[at]
		c.mu.list = slices.Delete(c.mu.list, at, at+1)
	}
	c.mu.list = append(c.mu.list, e)
	// The removed entry may have viewers. They hold it, and its copy ends for them.
	if len(c.mu.list) > cachedJobs {
		c.mu.list = slices.Delete(c.mu.list, 0, 1)
	}
	return e
}
