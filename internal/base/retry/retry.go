// Package retry repeats an operation while the server that it needs, a master or a
// storage, is away. It bounds the time, spreads the tries of many callers by jitter,
// and names the server that the caller waits for. Its mark ErrPermanent is for the errors
// that no retry cures.
package retry

import (
	"context"
	"errors"
	"fmt"
	"math"
	mathrand "math/rand/v2"
	"sync"
	"time"
)

// NoticeAfter is the time without an answer after which Options.Notify is called first.
const NoticeAfter = 1500 * time.Millisecond

// noticeEvery is the time between two calls of Options.Notify.
const noticeEvery = 30 * time.Second

// The pauses between tries if Options does not set them.
const (
	defaultFirstPause = 50 * time.Millisecond
	defaultLastPause  = 2 * time.Second
)

// Options select the errors that are retried, the time for retries, and the receiver of notices.
type Options struct {
	// What names the server that is away; notices begin with "waiting for" and this name.
	What string
	// Patience returns for how long an operation is retried after the first of a series
	// of such errors. Below 0 the error is final, and so is every ErrPermanent.
	Patience func(error) time.Duration
	// Tries limits the number of tries; 0 is no limit.
	Tries int
	// Retrying, if set, is called with the error of each failed try that another one
	// follows, before the pause.
	Retrying func(error)
	// Limit is the time limit of one try; 0 is none. If a try reaches it and fails
	// because its context has ended, it counts as one that failed with
	// context.DeadlineExceeded when it began. An error with another cause counts as itself.
	Limit time.Duration
	// Progressed, if set, is called after each failed try. It reports whether the try got
	// further than the tries before it. If so, the error is the first of a new series.
	Progressed func() bool
	// Held is the time for which a healthy server may hold a try. No notice is given
	// before it has passed.
	Held time.Duration
	// FirstPause and LastPause bound the pauses between tries, which double. The
	// defaults are 50 ms and 2 s. Jitter changes each pause by up to a half.
	FirstPause, LastPause time.Duration
	// Notify, if set, receives a sentence for the user NoticeAfter the first error, or
	// NoticeAfter a try began that has no answer yet, and then every half minute. It is
	// called by one goroutine at a time, and not after Do has returned.
	Notify func(text string)
	// Text returns the text of an error in a notice; by default err.Error().
	Text func(err error) string
}

// Forever is the Patience that only Options.Tries and the end of the context limit.
const Forever = time.Duration(math.MaxInt64)

// While returns an Options.Patience that lasts for ever with the errors for which
// retriable reports true, and that takes all others for final.
func While(retriable func(error) bool) func(error) time.Duration {
	return func(err error) time.Duration {
		if retriable(err) {
			return Forever
		}
		return -1
	}
}

// Run is Do for an operation without a result.
func Run(ctx context.Context, o Options, try func(context.Context) error) error {
	_, err := Do(ctx, o, func(ctx context.Context) (struct{}, error) { return struct{}{}, try(ctx) })
	return err
}

// Pause waits after the given number of consecutive failures: for about first, twice as
// long for each further failure, and for about last at most. It is for loops whose tries
// are more than one operation that Do could repeat. If ctx ends first, Pause returns its
// cause.
func Pause(ctx context.Context, first, last time.Duration, failures int) error {
	// After many failures the shift would overflow.
	return sleep(ctx, jittered(min(last, first<<min(failures-1, 16))))
}

// jittered changes a pause by up to a half: a restarted server must not get the tries of
// all its callers at once.
func jittered(pause time.Duration) time.Duration { return pause/2 + mathrand.N(pause) }

// sleep waits for d. If ctx ends first, it returns the cause.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Do calls try until it succeeds or fails with an error that Options.Patience does not
// excuse any longer. It returns the result of the last try. If ctx is cancelled during a try
// that fails, or between two tries, the error is the cause.
func Do[T any](ctx context.Context, o Options, try func(context.Context) (T, error)) (T, error) {
	n := o.notices()
	// Before the caller continues: a notice that comes after the result would say that something is still
	// waited for.
	defer n.close()
	var since time.Time // of the first error of a series; zero without one
	first, last := o.FirstPause, o.LastPause
	if first <= 0 {
		first = defaultFirstPause
	}
	if last <= 0 {
		last = defaultLastPause
	}
	pause := first
	for tries := 1; ; tries++ {
		began := time.Now()
		v, err := once(ctx, o.Limit, try)
		switch {
		case err == nil:
			return v, nil
		// The error of a try whose context ended says only that it was cancelled.
		case ctx.Err() != nil:
			return v, context.Cause(ctx)
		}
		failed := time.Now()
		silent := o.Limit > 0 && failed.Sub(began) >= o.Limit
		// A long operation that advances between its errors may have any number of errors: only a series
		// without progress uses up the patience.
		if o.Progressed != nil && o.Progressed() {
			since, pause = time.Time{}, first
		}
		// A try that ran into its limit got no answer from its beginning on, and this time counts.
		if since.IsZero() {
			since = failed
			if silent {
				since = began
			}
		}
		if errors.Is(err, ErrPermanent) {
			return v, err
		}
		patience := o.Patience(err)
		// The limit of a try shows up as an end of its context, which callers take for final
		// because it looks like their own cancellation.
		if silent && patience < 0 && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
			patience = o.Patience(context.DeadlineExceeded)
		}
		left := patience - failed.Sub(since)
		if patience < 0 || left <= 0 || tries == o.Tries {
			return v, err
		}
		n.failed(err, since, since.Add(patience))
		if o.Retrying != nil {
			o.Retrying(err)
		}
		// Not beyond the patience: the last try comes at its end.
		if err := sleep(ctx, min(jittered(pause), left)); err != nil {
			return v, err
		}
		// The jitter is not doubled with it: it applies to each pause anew, so callers that started
		// together drift apart.
		pause = min(2*pause, last)
	}
}

// once makes one try within the time limit.
func once[T any](ctx context.Context, limit time.Duration, try func(context.Context) (T, error)) (T, error) {
	if limit <= 0 {
		return try(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return try(ctx)
}

// notices calls Options.Notify for one call of Do, by a timer, because a try may hang.
type notices struct {
	o     *Options
	began time.Time

	mu struct {
		sync.Mutex
		timer    *time.Timer
		closed   bool
		given    bool  // a notice was given
		err      error // of the last try; nil before the first error
		deadline time.Time
	}
}

// notices starts the timer. It returns nil if Notify is not set.
func (o *Options) notices() *notices {
	if o.Notify == nil {
		return nil
	}
	n := &notices{o: o, began: time.Now()}
	n.mu.Lock()
	defer n.mu.Unlock()
	// Under the lock: the timer might fire before it is stored, and give resets it.
	n.mu.timer = time.AfterFunc(o.Held+NoticeAfter, n.give)
	return n
}

// failed notes that a try has failed with err. The first error of a series was at since,
// and retries end at deadline.
func (n *notices) failed(err error, since, deadline time.Time) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	// The timer still waits for the answer of the first try, which a healthy server may hold for long.
	if n.mu.err == nil && !n.mu.given {
		n.mu.timer.Reset(max(0, NoticeAfter-time.Since(since)))
	}
	n.mu.err, n.mu.deadline = err, deadline
}

// give gives a notice and plans the next one.
func (n *notices) give() {
	n.mu.Lock()
	defer n.mu.Unlock()
	// Stop does not wait for a timer that has fired.
	if n.mu.closed {
		return
	}
	n.mu.given = true
	n.mu.timer.Reset(noticeEvery)
	if n.mu.err == nil {
		// No try has failed, so there is no reason to give: the first one hangs.
		n.o.Notify(fmt.Sprintf("waiting for %s: no answer for %v", n.o.What, seconds(time.Since(n.began))))
		return
	}
	text := n.mu.err.Error()
	if n.o.Text != nil {
		text = n.o.Text(n.mu.err)
	}
	n.o.Notify(fmt.Sprintf("waiting for %s, for up to %v more: %s", n.o.What, seconds(time.Until(n.mu.deadline)), text))
}

// close ends the notices.
func (n *notices) close() {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.closed = true
	n.mu.timer.Stop()
}

// seconds rounds a duration for people. It is never below 1 s.
func seconds(d time.Duration) time.Duration { return max(time.Second, d.Round(time.Second)) }

// ErrPermanent marks errors that every retry would repeat, on any machine: the input is not
// of its format, a parameter is out of range, a codec does not exist. Callers test with
// errors.Is. An error type whose errors are all permanent has a method Is that reports
// true for ErrPermanent.
//
// An attempt that fails with such an error fails its job at once, and Do returns the error
// without another try. So the mark is wrong for an error that a damaged copy of the data, a
// missing program or a full disk may cause on one machine only.
var ErrPermanent = errors.New("another try would fail in the same way")

// Permanent marks err as ErrPermanent. It keeps the text, and errors.Is and errors.As find
// what err wraps. It returns nil for nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanent{err}
}

// permanent is an error with the mark.
type permanent struct{ error }

// Unwrap returns the error without the mark.
func (p *permanent) Unwrap() error { return p.error }

// Is reports whether target is the mark.
func (p *permanent) Is(target error) bool { return target == ErrPermanent }
