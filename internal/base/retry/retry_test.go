package retry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var (
	errAway   = errors.New("connection refused")
	errDenied = errors.New("permission denied")
)

// patiently retries errAway and time-outs for d.
func patiently(d time.Duration) func(error) time.Duration {
	return func(err error) time.Duration {
		if errors.Is(err, errAway) || errors.Is(err, context.DeadlineExceeded) {
			return d
		}
		return -1
	}
}

// failing returns a try that fails with err until a time has passed, and counts calls.
func failing(d time.Duration, err error) (try func(context.Context) (int, error), calls *int) {
	end, n := time.Now().Add(d), 0
	return func(context.Context) (int, error) {
		if n++; time.Now().Before(end) {
			return 0, err
		}
		return 7, nil
	}, &n
}

// TestOutage verifies that an operation outlives an outage that is shorter than the
// patience, and that the user gets a notice after NoticeAfter and every half minute.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notices []string
		var times []time.Duration
		began := time.Now()
		o := Options{What: "the storage of s3://b/in", Patience: patiently(5 * time.Minute), Notify: func(text string) {
			notices = append(notices, text)
			times = append(times, time.Since(began))
		}}
		try, _ := failing(50*time.Second, errAway)
		v, err := Do(t.Context(), o, try)
		if v != 7 || err != nil || time.Since(began) > 65*time.Second {
			t.Errorf("%d, %v after %v", v, err, time.Since(began))
		}
		if len(notices) != 2 || times[0] != NoticeAfter || times[1] != NoticeAfter+noticeEvery {
			t.Fatalf("notices %q at %v", notices, times)
		}
		const want = "waiting for the storage of s3://b/in, for up to 4m59s more: connection refused"
		if notices[0] != want {
			t.Errorf("got %q, want %q", notices[0], want)
		}
		time.Sleep(time.Hour)
		if len(notices) != 2 {
			t.Error("a notice was given after the end")
		}
	})
}

// TestGivesUp verifies the bound of the time, and that a final error is not retried.
func TestGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		try, calls := failing(time.Hour, errAway)
		o := Options{Patience: patiently(10 * time.Second), FirstPause: time.Second, LastPause: time.Minute}
		if _, err := Do(t.Context(), o, try); !errors.Is(err, errAway) || time.Since(began) != 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if *calls < 4 || *calls > 7 {
			t.Errorf("%d calls in 10 s, with pauses that double", *calls)
		}
		try, calls = failing(time.Hour, errDenied)
		if _, err := Do(t.Context(), o, try); !errors.Is(err, errDenied) || *calls != 1 {
			t.Errorf("%d calls, %v", *calls, err)
		}
	})
}

// TestSilence verifies that a try that hangs is reported while it hangs, is ended by its
// limit, and counts from its beginning.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var first string
		var when time.Duration
		began, calls := time.Now(), 0
		o := Options{What: "master m", Patience: patiently(3 * time.Second), Limit: 2 * time.Second, Held: 200 * time.Millisecond,
			Notify: func(text string) {
				if first == "" {
					first, when = text, time.Since(began)
				}
			}}
		_, err := Do(t.Context(), o, func(ctx context.Context) (int, error) {
			calls++
			<-ctx.Done()
			return 0, ctx.Err()
		})
		if !errors.Is(err, context.DeadlineExceeded) || calls != 2 {
			t.Errorf("%d calls, %v", calls, err)
		}
		if !strings.HasPrefix(first, "waiting for master m: no answer for 2s") || when != 1700*time.Millisecond {
			t.Errorf("%q after %v", first, when)
		}
	})
}

// TestErrorAtLimit verifies that a final error is returned at once, even if the server took
// the time limit of the try to send it.
func TestErrorAtLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, began := 0, time.Now()
		o := Options{Patience: patiently(time.Hour), Limit: 2 * time.Second}
		_, err := Do(t.Context(), o, func(ctx context.Context) (int, error) {
			calls++
			<-ctx.Done()
			return 0, errDenied
		})
		if !errors.Is(err, errDenied) || calls != 1 || time.Since(began) != o.Limit {
			t.Errorf("%d calls, %v after %v", calls, err, time.Since(began))
		}
	})
}

// TestProgress verifies that an outage after progress has the whole patience again and
// begins with short pauses, and that an outage without progress is given up.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const outage = 50 * time.Second
		began, progressed := time.Now(), false
		o := Options{Patience: patiently(time.Minute), FirstPause: time.Second, LastPause: 8 * time.Second, Progressed: func() bool {
			defer func() { progressed = false }()
			return progressed
		}}
		// An outage, an hour of progress, and another outage.
		_, err := Do(t.Context(), o, func(context.Context) (int, error) {
			switch since := time.Since(began); {
			case since < outage || since >= time.Hour && since < time.Hour+outage:
				return 0, errAway
			case since < time.Hour:
				time.Sleep(time.Hour - since)
				progressed = true
				return 0, errAway
			}
			return 7, nil
		})
		if err != nil || time.Since(began) > time.Hour+outage+12*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		progressed, began = true, time.Now()
		_, err = Do(t.Context(), o, func(context.Context) (int, error) { return 0, errAway })
		if !errors.Is(err, errAway) || time.Since(began) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// TestCancel verifies that a pause ends with the context, and that a try which fails because of
// it gives the cause.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errDenied) })
		try, _ := failing(time.Hour, errAway)
		began := time.Now()
		if _, err := Do(ctx, Options{Patience: patiently(time.Hour)}, try); !errors.Is(err, errDenied) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		long := func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() }
		if _, err := Do(ctx, Options{Patience: patiently(time.Hour)}, long); !errors.Is(err, errDenied) {
			t.Errorf("a try that was cancelled: %v", err)
		}
	})
}

// A permanent error is returned after one try, whatever Patience says. The mark keeps the
// text and the wrapped error, on both sides of further wrapping.
func TestPermanent(t *testing.T) {
	cause := errors.New("no such codec")
	for name, err := range map[string]error{
		"marked":            Permanent(cause),
		"wrapped":           fmt.Errorf("file x: %w", Permanent(cause)),
		"marked after that": Permanent(fmt.Errorf("file x: %w", cause)),
		"joined":            errors.Join(Permanent(cause), errors.New("close")),
	} {
		tries := 0
		_, got := Do(context.Background(), Options{Patience: func(error) time.Duration { return time.Hour }}, func(context.Context) (int, error) {
			tries++
			return 0, err
		})
		if tries != 1 || got == nil || got.Error() != err.Error() || !errors.Is(got, ErrPermanent) || !errors.Is(got, cause) {
			t.Errorf("%s: %v after %d tries", name, got, tries)
		}
	}
	if Permanent(cause).Error() != cause.Error() || errors.Is(cause, ErrPermanent) || Permanent(nil) != nil {
		t.Error("the mark changes the text, the marked error or nil")
	}
}

// TestTries verifies that Tries ends an operation without a limit of time, that Retrying gets
// the error of each try but the last, and that While takes other errors for final.
func TestTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var retried []error
		calls, began := 0, time.Now()
		o := Options{Patience: While(func(err error) bool { return errors.Is(err, errAway) }), Tries: 4, FirstPause: time.Hour, LastPause: 2 * time.Hour,
			Retrying: func(err error) { retried = append(retried, err) }}
		fail := func(err error) func(context.Context) error {
			return func(context.Context) error { calls++; return err }
		}
		if err := Run(t.Context(), o, fail(errAway)); !errors.Is(err, errAway) || calls != 4 || len(retried) != 3 {
			t.Errorf("%v after %d tries, %d retried", err, calls, len(retried))
		}
		if took := time.Since(began); took < 150*time.Minute || took > 450*time.Minute {
			t.Errorf("pauses of 1, 2 and 2 h, give or take a half, took %v", took)
		}
		calls = 0
		if err := Run(t.Context(), o, fail(errDenied)); !errors.Is(err, errDenied) || calls != 1 {
			t.Errorf("%v after %d tries", err, calls)
		}
	})
}

// TestPause verifies the bounds of the pauses, and that the end of the context ends one.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for failures, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 4: 5 * time.Second, 100: 5 * time.Second} {
			began := time.Now()
			if err := Pause(t.Context(), time.Second, 5*time.Second, failures); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took < want/2 || took > want*3/2 {
				t.Errorf("after %d failures: %v, want %v", failures, took, want)
			}
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errDenied) })
		began := time.Now()
		if err := Pause(ctx, time.Hour, time.Hour, 1); !errors.Is(err, errDenied) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
