package netshuffle

import (
	"context"
	"errors"
	"slices"
	"time"
)

// state is the state of an output; the package comment has a diagram.
type state uint8

const (
	waiting state = iota
	queued
	busy
	fetched
)

// output is the state of one map's output.
type output struct {
	state state
	place Location // the newest location; Lost if there is none
	fails int      // consecutive failures at this location while the worker answered
	after time.Time
	last  error
	// replaced cancels the running request when the output gets a new location.
	replaced context.CancelCauseFunc
	held     fetchedOutput
}

// remote is a worker with outputs to fetch, identified by its address.
type remote struct {
	queue []int // maps, in the order in which to try them
	busy  int   // running requests
	fails int   // consecutive failures to reach it
	after time.Time
}

var errReplaced = errors.New("the map ran again and its output has a new location")

// setLocationLocked records a new location of an output, or its loss. It cancels a
// request to the former location.
func (f *Fetch) setLocationLocked(p Location) {
	o := &f.mu.outs[p.Map]
	// A repeated location must not reset the back-off, or each list from the worker would restart the
	// retries.
	if o.state == fetched || o.place == p && o.state != waiting {
		return
	}
	// It leaves the old worker's queue, in which it would be fetched from where it is not any more.
	if o.state == queued {
		w := f.workerLocked(o.place.Address)
		w.queue = slices.DeleteFunc(w.queue, func(m int) bool { return m == p.Map })
		o.state = waiting
	}
	// Failures at the old location say nothing about the new one.
	o.place, o.fails, o.after, o.last = p, 0, time.Time{}, nil
	switch {
	// A loss alone does not cancel the request: it may still succeed, and the records would be the
	// same. With a new location waiting, the old one is a waste of time.
	case o.state == busy && !p.Lost:
		o.replaced(errReplaced)
	case o.state == waiting && !p.Lost:
		f.queueLocked(p.Map)
	}
}

// queueLocked appends a map to its worker's queue.
func (f *Fetch) queueLocked(m int) {
	o := &f.mu.outs[m]
	o.state = queued
	w := f.workerLocked(o.place.Address)
	w.queue = append(w.queue, m)
}

// workerLocked returns the worker at an address, new ones at a random position: reduces
// that start together should not all begin with the same worker.
func (f *Fetch) workerLocked(addr string) *remote {
	w := f.mu.byAddr[addr]
	if w == nil {
		w = &remote{}
		f.mu.byAddr[addr] = w
		f.mu.workers = slices.Insert(f.mu.workers, f.mu.rand.IntN(len(f.mu.workers)+1), w)
	}
	return w
}

// assignment is an output that a goroutine fetches.
type assignment struct {
	ctx   context.Context
	stop  context.CancelCauseFunc
	place Location
	w     *remote
}

// take waits for an output to fetch. It returns false when all have been fetched or the
// Fetch ends.
func (f *Fetch) take() (assignment, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	// The condition is shared by all goroutines, so each wake-up looks again.
	for f.mu.left > 0 && f.ctx.Err() == nil {
		w, at, next := f.nextLocked(time.Now())
		if w == nil {
			f.wakeLocked(next)
			f.changed.Wait()
			continue
		}
		m := w.queue[at]
		if at == 0 { // the common case
			w.queue = w.queue[1:]
		} else {
			w.queue = slices.Delete(w.queue, at, at+1)
		}
		w.busy++
		o := &f.mu.outs[m]
		o.state = busy
		e := assignment{place: o.place, w: w}
		e.ctx, e.stop = context.WithCancelCause(f.ctx)
		o.replaced = e.stop
		return e, true
	}
	return assignment{}, false
}

// nextLocked returns an output that can be fetched now, taking workers in turn. If
// there is none, next is the end of the shortest back-off, or zero if only an event
// can make one available.
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
			limit = 1 // one request finds out whether the worker is back
		}
		if len(w.queue) == 0 || w.busy >= limit {
			continue
		}
		if w.after.After(now) {
			soonest(w.after)
			continue
		}
		// An output in its back-off must not hold back the others of the same worker.
		for at, m := range w.queue {
			if after := f.mu.outs[m].after; after.After(now) {
				soonest(after)
				continue
			}
			// The next search begins behind this worker, so one with a long queue does not starve the
			// others.
			f.mu.turn = turn + 1
			return w, at, next
		}
	}
	return nil, 0, next
}

// wakeLocked wakes waiting take calls at a time.
func (f *Fetch) wakeLocked(at time.Time) {
	if at.IsZero() || f.mu.closed {
		return
	}
	// One timer serves all: every take that waits computes the shortest back-off anew.
	if f.mu.wake != nil {
		f.mu.wake.Stop()
	}
	f.mu.wake = time.AfterFunc(time.Until(at), func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.changed.Broadcast()
	})
}

// work fetches outputs until none is left. Config.Parallel goroutines run it.
func (f *Fetch) work() {
	g := &getter{f: f}
	for {
		e, ok := f.take()
		if !ok {
			return
		}
		h, err := g.get(e.ctx, e.place)
		// Before done, which asks for the cause: a context that was cancelled with errReplaced keeps
		// that cause.
		e.stop(nil)
		var own *localError
		// The disk that fails is this attempt's own. Fetching from other workers would fail in the same
		// way.
		if errors.As(err, &own) {
			f.cancel(own.err)
		}
		// Outside the lock, because Report may block.
		for _, r := range f.done(e, h, err) {
			f.cfg.Report(r)
		}
	}
}

// done records the outcome of an assignment and returns the failures to report.
func (f *Fetch) done(e assignment, h fetchedOutput, err error) []Failure {
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
	// While this fetch ran, the map may have run again. A failure of the old output says nothing
	// about the new one.
	same := o.place == e.place
	// Back into the queue before the failure is judged: workerFailedLocked reports the outputs of the
	// queue, of which this one is the first to name.
	if o.place.Lost {
		o.state = waiting
	} else {
		f.queueLocked(m)
	}
	var reports []Failure
	switch {
	// The fetch was stopped here. That is no fault of the worker.
	case f.ctx.Err() != nil || context.Cause(e.ctx) == errReplaced:
	case errors.As(err, new(*unreachableError)):
		reports = f.workerFailedLocked(e.w, err)
	default:
		// The worker has answered, so it is up. Only the output is at fault.
		e.w.fails = 0
		if same {
			reports = f.outputFailedLocked(m, err)
		}
	}
	if f.cfg.Report == nil {
		return nil
	}
	return reports
}

// workerFailedLocked starts or extends the back-off of a worker. After enough failures
// it returns a report for each output in the worker's queue.
func (f *Fetch) workerFailedLocked(w *remote, err error) []Failure {
	w.fails++
	w.after = time.Now().Add(f.backoffLocked(w.fails))
	var reports []Failure
	// All outputs of the worker wait behind this failure, so all are reported: the master decides
	// by the number of reduces that cannot read an output.
	for _, m := range w.queue {
		o := &f.mu.outs[m]
		o.last = err
		if f.cfg.mustReport(w.fails) {
			reports = append(reports, o.failure(err, false))
		}
	}
	return reports
}

// outputFailedLocked starts or extends the back-off of an output.
func (f *Fetch) outputFailedLocked(m int, err error) []Failure {
	o := &f.mu.outs[m]
	o.fails++
	o.last = err
	o.after = time.Now().Add(f.backoffLocked(o.fails))
	// A checksum that is wrong stays wrong, so more tries would only delay the map's next run.
	certain := errors.As(err, new(*badOutputError))
	if certain || f.cfg.mustReport(o.fails) {
		return []Failure{o.failure(err, certain)}
	}
	return nil
}

// failure returns the report of a failed output.
func (o *output) failure(err error, certain bool) Failure {
	p := &o.place
	return Failure{Map: p.Map, Attempt: p.Attempt, Worker: p.Worker, Err: err, Certain: certain}
}

// backoffLocked returns the pause after a number of consecutive failures.
func (f *Fetch) backoffLocked(fails int) time.Duration {
	d := f.cfg.MaxBackoff
	// The bound keeps the shift from overflowing after many failures.
	if shift := fails - 1; shift < 20 && f.cfg.Backoff<<shift < d {
		d = f.cfg.Backoff << shift
	}
	// All reduces of a job fail at the same moment when a worker dies. Without the random part they
	// would retry at the same moment, too.
	return d - time.Duration(f.mu.rand.Int64N(int64(d)/2+1))
}
