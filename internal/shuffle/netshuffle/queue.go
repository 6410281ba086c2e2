package netshuffle

import (
	"context"
	"errors"
	"slices"
	"time"
)

// The states of an output; see the package comment.
type state uint8

const (
	waiting state = iota
	queued
	busy
	fetched
)

// output is what is known of one map's output.
type output struct {
	state state
	place Place // where it is to be had; Lost if nowhere now
	fails int   // of this place in a row, while the worker answered
	after time.Time
	last  error
	// replaced ends the request under way if the output has a new place.
	replaced context.CancelCauseFunc
	held     holding
}

// remote is a worker that has outputs for us, under one address.
type remote struct {
	queue []int // maps, in the order in which to try them
	busy  int   // requests under way
	fails int   // times in a row that it could not be reached
	after time.Time
}

var errReplaced = errors.New("the output has been made anew elsewhere")

// placeLocked notes a new place of an output, or that it has none.
func (f *Fetch) placeLocked(p Place) {
	o := &f.mu.outs[p.Map]
	if o.state == fetched || o.place == p && o.state != waiting {
		return
	}
	if o.state == queued {
		w := f.remoteLocked(o.place.Address)
		w.queue = slices.DeleteFunc(w.queue, func(m int) bool { return m == p.Map })
		o.state = waiting
	}
	o.place, o.fails, o.after, o.last = p, 0, time.Time{}, nil
	switch {
	case o.state == busy && !p.Lost:
		o.replaced(errReplaced)
	case o.state == waiting && !p.Lost:
		f.queueLocked(p.Map)
	}
}

func (f *Fetch) queueLocked(m int) {
	o := &f.mu.outs[m]
	o.state = queued
	w := f.remoteLocked(o.place.Address)
	w.queue = append(w.queue, m)
}

func (f *Fetch) remoteLocked(addr string) *remote {
	w := f.mu.byAddr[addr]
	if w == nil {
		w = &remote{}
		f.mu.byAddr[addr] = w
		// Reduces that start together go to the workers in different orders.
		f.mu.workers = slices.Insert(f.mu.workers, f.mu.rand.IntN(len(f.mu.workers)+1), w)
	}
	return w
}

// errand is an output to fetch from a place.
type errand struct {
	ctx   context.Context
	stop  context.CancelCauseFunc
	place Place
	w     *remote
}

// take waits for something to fetch; false when all is held or the fetch ends.
func (f *Fetch) take() (errand, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.mu.left > 0 && f.ctx.Err() == nil {
		w, at, next := f.nextLocked(time.Now())
		if w == nil {
			f.wakeLocked(next)
			f.changed.Wait()
			continue
		}
		m := w.queue[at]
		if at == 0 { // as almost always
			w.queue = w.queue[1:]
		} else {
			w.queue = slices.Delete(w.queue, at, at+1)
		}
		w.busy++
		o := &f.mu.outs[m]
		o.state = busy
		e := errand{place: o.place, w: w}
		e.ctx, e.stop = context.WithCancelCause(f.ctx)
		o.replaced = e.stop
		return e, true
	}
	return errand{}, false
}

// nextLocked finds an output to fetch now, going round the workers, or else
// the time at which to look again: zero if only an event can change anything.
func (f *Fetch) nextLocked(now time.Time) (w *remote, at int, next time.Time) {
	soonest := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	for i := range f.mu.workers {
		turn := (f.mu.turn + i) % len(f.mu.workers)
		w := f.mu.workers[turn]
		limit := f.cfg.PerWorker
		if w.fails > 0 {
			limit = 1 // a probe is enough
		}
		if len(w.queue) == 0 || w.busy >= limit {
			continue
		}
		if w.after.After(now) {
			soonest(w.after)
			continue
		}
		for at, m := range w.queue {
			if after := f.mu.outs[m].after; after.After(now) {
				soonest(after)
				continue
			}
			f.mu.turn = turn + 1
			return w, at, next
		}
	}
	return nil, 0, next
}

// wakeLocked has those that wait look again at a time.
func (f *Fetch) wakeLocked(at time.Time) {
	if at.IsZero() || f.mu.closed {
		return
	}
	if f.mu.wake != nil {
		f.mu.wake.Stop()
	}
	f.mu.wake = time.AfterFunc(time.Until(at), func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.changed.Broadcast()
	})
}

// work fetches one output after the other.
func (f *Fetch) work() {
	g := &getter{f: f}
	for {
		e, ok := f.take()
		if !ok {
			return
		}
		h, err := g.get(e.ctx, e.place)
		e.stop(nil)
		var own *localError
		if errors.As(err, &own) {
			f.cancel(own.err)
		}
		for _, r := range f.done(e, h, err) {
			f.cfg.Report(r)
		}
	}
}

// done notes how an errand ended and returns what to report.
func (f *Fetch) done(e errand, h holding, err error) []Failure {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.changed.Broadcast()
	e.w.busy--
	m := e.place.Map
	o := &f.mu.outs[m]
	if err == nil {
		o.state, o.held, o.last = fetched, h, nil
		f.mu.left--
		e.w.fails = 0
		return nil
	}
	same := o.place == e.place
	if o.place.Lost {
		o.state = waiting
	} else {
		f.queueLocked(m)
	}
	var reports []Failure
	switch {
	case f.ctx.Err() != nil || context.Cause(e.ctx) == errReplaced:
	case errors.As(err, new(*unreachable)):
		reports = f.unreachableLocked(e.w, err)
	default:
		e.w.fails = 0
		if same {
			reports = f.failedLocked(m, err)
		}
	}
	if f.cfg.Report == nil {
		return nil
	}
	return reports
}

// unreachableLocked leaves a worker alone for a while, and complains of all
// that it has if that has happened often enough.
func (f *Fetch) unreachableLocked(w *remote, err error) []Failure {
	w.fails++
	w.after = time.Now().Add(f.backoffLocked(w.fails))
	var reports []Failure
	for _, m := range w.queue {
		o := &f.mu.outs[m]
		o.last = err
		if f.cfg.complains(w.fails) {
			reports = append(reports, o.complaint(err, false))
		}
	}
	return reports
}

// failedLocked leaves an output alone for a while.
func (f *Fetch) failedLocked(m int, err error) []Failure {
	o := &f.mu.outs[m]
	o.fails++
	o.last = err
	o.after = time.Now().Add(f.backoffLocked(o.fails))
	certain := errors.As(err, new(*useless))
	if certain || f.cfg.complains(o.fails) {
		return []Failure{o.complaint(err, certain)}
	}
	return nil
}

func (o *output) complaint(err error, certain bool) Failure {
	p := &o.place
	return Failure{Map: p.Map, Attempt: p.Attempt, Worker: p.Worker, Err: err, Certain: certain}
}

// backoffLocked returns how long to wait after so many failures.
func (f *Fetch) backoffLocked(fails int) time.Duration {
	d := f.cfg.MaxBackoff
	if shift := fails - 1; shift < 20 && f.cfg.Backoff<<shift < d {
		d = f.cfg.Backoff << shift
	}
	return d - time.Duration(f.mu.rand.Int64N(int64(d)/2+1))
}
