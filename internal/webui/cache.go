package webui

import (
	"context"
	"slices"
	"sync"
	"time"
)

// attemptCache keeps the attempts of the jobs that were viewed last, so that many viewers
// cost the source as much as one. A copy is used for costFactor times as long as it took to
// make, so a source spends at most a small share of its time on copies.
type attemptCache struct {
	mu struct {
		sync.Mutex
		list []*cacheEntry // the last used one is the last
	}
}

// Bounds of the cache.
const (
	cachedJobs  = 8
	costFactor  = 30
	leastAge    = 500 * time.Millisecond
	copyTimeout = 30 * time.Second
)

// cacheEntry is a job's attempts. mu is held while they are copied.
type cacheEntry struct {
	id string
	mu struct {
		sync.Mutex
		value *attempts
		until time.Time
	}
}

// get returns the attempts of a job, at most a few seconds old.
func (c *attemptCache) get(ctx context.Context, source Source, id string, ended bool) (*attempts, error) {
	e := c.entry(id)
	e.mu.Lock()
	defer e.mu.Unlock()
	if v := e.mu.value; v != nil && (time.Now().Before(e.mu.until) || ended && v.counts["running"] == 0 && time.Now().Before(e.mu.until.Add(time.Minute))) {
		return v, nil
	}
	// Other viewers wait for this copy, so a viewer who leaves must not end it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), copyTimeout)
	defer cancel()
	start := time.Now()
	list, findings, err := source.Attempts(ctx, id)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	e.mu.value = analyse(list, now.UnixMilli())
	e.mu.value.findings = findings
	e.mu.until = now.Add(max(leastAge, costFactor*time.Since(start)))
	return e.mu.value, nil
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
	if len(c.mu.list) > cachedJobs {
		c.mu.list = slices.Delete(c.mu.list, 0, 1)
	}
	return e
}
