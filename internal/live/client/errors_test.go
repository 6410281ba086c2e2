package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// Only errors that leave open whether the master has handled a call are retried.
// Retrying a refusal would waste the user's time; not retrying a broken
// connection would fail jobs when a master restarts.
func TestUnreachable(t *testing.T) {
	reset := connect.NewError(connect.CodeCanceled, &url.Error{Op: "Post", URL: "http://m", Err: syscall.ECONNRESET})
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"no error of a call":              {errors.New("parameter k is missing"), false},
		"connection refused":              {&url.Error{Op: "Post", URL: "http://m", Err: syscall.ECONNREFUSED}, true},
		"connection refused, by the RPC":  {connect.NewError(connect.CodeUnavailable, syscall.ECONNREFUSED), true},
		"connection reset":                {reset, true},
		"cancelled by the caller":         {connect.NewError(connect.CodeCanceled, context.Canceled), false},
		"the caller's deadline":           {connect.NewError(connect.CodeDeadlineExceeded, context.DeadlineExceeded), false},
		"refused by the master":           {connect.NewError(connect.CodePermissionDenied, errors.New("not you")), false},
		"a proxy without its master":      {&statusError{502, "bad gateway"}, true},
		"a master that shuts down":        {&statusError{503, "shutting down"}, true},
		"a file too large for the master": {&statusError{413, "too large"}, false},
		"wrapped":                         {fmt.Errorf("file x: %w", &statusError{503, ""}), true},
	} {
		if got := Unreachable(c.err); got != c.want {
			t.Errorf("%s: Unreachable is %v", name, got)
		}
	}
}

// Users see the message and the master's address, not the protocol's codes.
func TestMessages(t *testing.T) {
	c := newClient(t, "master:7077", Options{})
	refused := connect.NewError(connect.CodeNotFound, errors.New("no job j9"))
	if got := Message(c.Named(refused)); got != "no job j9" {
		t.Errorf("a refusal reads %q", got)
	}
	away := c.Named(connect.NewError(connect.CodeUnavailable, errors.New("connection refused")))
	if got := Message(away); !strings.HasPrefix(got, "master http://master:7077 cannot be reached: connection refused") || strings.Contains(got, "unavailable") {
		t.Errorf("an unreachable master reads %q", got)
	}
	if !Unreachable(away) {
		t.Error("naming the master hid the cause")
	}
}

// A submission that is refused is not repeated, and one that the caller gives up
// ends with the caller's reason.
func TestSubmitEnds(t *testing.T) {
	calls := 0
	m := &fakeMaster{submit: func(*slotwisev1.SubmitRequest) (*slotwisev1.SubmitResponse, error) {
		calls++
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("no output"))
	}}
	if _, err := serve(t, m, Options{}).Submit(t.Context(), &slotwisev1.JobSpec{}); err == nil || Message(err) != "no output" || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
	why := errors.New("the user pressed a key")
	ctx, cancel := context.WithCancelCause(t.Context())
	m.submit = func(*slotwisev1.SubmitRequest) (*slotwisev1.SubmitResponse, error) {
		time.AfterFunc(20*time.Millisecond, func() { cancel(why) })
		return nil, errAway
	}
	if _, err := serve(t, m, Options{}).Submit(ctx, &slotwisev1.JobSpec{}); !errors.Is(err, why) {
		t.Errorf("got %v, want the caller's reason", err)
	}
}

// An error of the file itself is not retried.
func TestEnsureOpenFails(t *testing.T) {
	broken := errors.New("the file is gone")
	calls := 0
	c := serve(t, &fakeMaster{}, Options{})
	err := c.Ensure(t.Context(), strings.Repeat("ab", 32), func() (io.ReadCloser, int64, error) {
		calls++
		return nil, 0, broken
	})
	if !errors.Is(err, broken) || calls != 1 {
		t.Errorf("%d calls, error %v", calls, err)
	}
}
