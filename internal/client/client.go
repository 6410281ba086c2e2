// Package client is how programs speak to a master: calls that are tried again
// when the master is away for a while, uploads, and waiting for a job.
package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/secure"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
)

// Options say how to reach the master. The zero value is right for one on this
// machine without security.
type Options struct {
	// HTTP makes the requests; default one that keeps connections alive. It
	// must have no time-out of its own, since calls may be held.
	HTTP *http.Client
	// Token, if set, is sent as bearer token with each request.
	Token string
	// Patience is for how long a call is tried again while the master cannot be
	// reached. Default 3 seconds; negative is not at all.
	Patience time.Duration
	// Answer is how long the master may take for an answer, beyond the time for
	// which it is asked to hold it. Default 1 minute.
	Answer time.Duration
}

// Client speaks to one master. It is safe for concurrent use.
type Client struct {
	base string
	http *http.Client
	opts Options
	rpc  slotwisev1connect.ClientServiceClient
}

// New makes a client of the master at an address: host:port, or a URL. Nothing
// is sent yet.
func New(address string, opts Options) (*Client, error) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("master %q: want host:port", address)
	}
	if opts.HTTP == nil {
		opts.HTTP = &http.Client{}
	}
	if opts.Patience == 0 {
		opts.Patience = 3 * time.Second
	}
	if opts.Answer == 0 {
		opts.Answer = time.Minute
	}
	c := &Client{base: strings.TrimSuffix(u.String(), "/"), opts: opts, http: opts.HTTP}
	if opts.Token != "" {
		own := *opts.HTTP
		own.Transport = secure.Bearer(opts.HTTP.Transport, opts.Token)
		c.http = &own
	}
	c.rpc = slotwisev1connect.NewClientServiceClient(c.http, c.base)
	return c, nil
}

// RPC gives access to the bare calls, for Call and for streams.
func (c *Client) RPC() slotwisev1connect.ClientServiceClient { return c.rpc }

// HTTP returns what requests are made with.
func (c *Client) HTTP() *http.Client { return c.http }

// Address returns the URL of the master.
func (c *Client) Address() string { return c.base }

// Call makes a call, such as Client.RPC().Jobs, and makes it again while the
// master cannot be reached and patience lasts. So it is only for calls that may
// be repeated, which all of ClientService are.
func Call[Req, Resp any](ctx context.Context, c *Client, call func(context.Context, *Req) (*Resp, error), r *Req) (*Resp, error) {
	return again(ctx, c, effort{c.opts.Patience, c.opts.Answer}, func(ctx context.Context) (*Resp, error) { return call(ctx, r) })
}

// effort is for how long something is tried again, and how long each try may
// take: a master that has been frozen, or is behind a cut line, says nothing.
type effort struct{ patience, answer time.Duration }

// again tries something until it succeeds, fails for good, or patience is at an
// end.
func again[T any](ctx context.Context, c *Client, e effort, try func(context.Context) (T, error)) (T, error) {
	end := time.Now().Add(e.patience)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		attempt, cancel := context.WithTimeout(ctx, e.answer)
		v, err := try(attempt)
		silent := attempt.Err() != nil
		cancel()
		switch {
		case err == nil || ctx.Err() != nil:
			return v, err
		case !silent && !Unreachable(err) || time.Now().After(end):
			return v, c.Named(err)
		}
		select {
		case <-time.After(pause/2 + mathrand.N(pause)):
		case <-ctx.Done():
			return v, context.Cause(ctx)
		}
	}
}

// Unreachable reports whether an error says that the master could not be reached
// or could not answer now, so that trying again may help.
func Unreachable(err error) bool {
	if secure.IsPermanent(err) {
		return false
	}
	var coded *connect.Error
	if errors.As(err, &coded) {
		return coded.Code() == connect.CodeUnavailable || coded.Code() == connect.CodeDeadlineExceeded && connect.IsWireError(err) ||
			!connect.IsWireError(err) && broken(err)
	}
	var status *statusError
	if errors.As(err, &status) {
		return status.code == http.StatusServiceUnavailable || status.code == http.StatusBadGateway
	}
	var transport *url.Error
	return errors.As(err, &transport)
}

// broken reports whether an error that the master did not send is one of the
// connection. The RPC library calls a connection that was reset cancelled, and
// one that timed out past its deadline, as it does a context that has ended.
func broken(err error) bool {
	switch connect.CodeOf(err) {
	case connect.CodeUnknown:
		return true
	case connect.CodeCanceled, connect.CodeDeadlineExceeded:
		return !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
	}
	return false
}

// Named says which master could not be reached, if that is what an error of a
// bare call says.
func (c *Client) Named(err error) error {
	if !Unreachable(err) || connect.IsWireError(err) { // else the master itself has said it
		return err
	}
	return &unreachable{c.base, err}
}

// unreachable is an error of a call that nobody has answered.
type unreachable struct {
	master string
	err    error
}

// Error says which master it is, and what to do, without the words of the protocol.
func (u *unreachable) Error() string {
	text := u.err.Error()
	var coded *connect.Error
	if errors.As(u.err, &coded) && coded.Message() != "" {
		text = coded.Message()
	}
	return fmt.Sprintf("master %s cannot be reached: %s (--master or SLOTWISE_MASTER says where it is)", u.master, text)
}

// Unwrap returns the error of the call.
func (u *unreachable) Unwrap() error { return u.err }

// Message returns what an error says without the code of the protocol.
func Message(err error) string {
	var coded *connect.Error
	if errors.As(err, &coded) && coded.Message() != "" && !errors.As(err, new(*unreachable)) {
		return coded.Message()
	}
	return err.Error()
}

// Submit enters a job and returns its name. It is tried again under the same
// request, so the job is entered once.
func (c *Client) Submit(ctx context.Context, spec *slotwisev1.JobSpec) (string, error) {
	r := &slotwisev1.SubmitRequest{RequestId: rand.Text(), Spec: spec}
	resp, err := again(ctx, c, effort{max(c.opts.Patience, submitPatience), c.opts.Answer}, func(ctx context.Context) (*slotwisev1.SubmitResponse, error) {
		return c.rpc.Submit(ctx, r)
	})
	if err != nil {
		return "", err
	}
	return resp.Job, nil
}

// How long a master may be away: while a job that has been planned is entered,
// and while somebody waits for one. Masters are started again.
const (
	submitPatience = 30 * time.Second
	waitPatience   = 10 * time.Minute
)

// uploadTime is how long one upload may take.
const uploadTime = time.Hour

// waitMs is how long each request for news is held.
const waitMs = 20_000

// Wait follows a job until it has ended and returns its last state. news, if
// set, is called with each state.
func (c *Client) Wait(ctx context.Context, job string, news func(*slotwisev1.JobStatus)) (*slotwisev1.JobStatus, error) {
	after := int64(-1)
	for {
		r := &slotwisev1.JobRequest{Job: job, After: after, WaitMs: waitMs}
		resp, err := again(ctx, c, effort{waitPatience, waitMs*time.Millisecond + c.opts.Answer}, func(ctx context.Context) (*slotwisev1.JobResponse, error) {
			return c.rpc.Job(ctx, r)
		})
		if err != nil {
			return nil, err
		}
		after = resp.Job.Revision
		if news != nil {
			news(resp.Job)
		}
		if Over(resp.Job.State) {
			return resp.Job, nil
		}
	}
}

// Over reports whether a job in this state has ended.
func Over(s slotwisev1.JobState) bool {
	switch s {
	case slotwisev1.JobState_JOB_STATE_SUCCEEDED, slotwisev1.JobState_JOB_STATE_FAILED, slotwisev1.JobState_JOB_STATE_KILLED:
		return true
	}
	return false
}

// Ensure uploads a file under its SHA-256 unless the master has it. open is
// called for each try and returns the content and its length.
func (c *Client) Ensure(ctx context.Context, sha string, open func() (io.ReadCloser, int64, error)) error {
	_, err := again(ctx, c, effort{max(c.opts.Patience, submitPatience), uploadTime}, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, c.ensure(ctx, sha, open)
	})
	return err
}

func (c *Client) ensure(ctx context.Context, sha string, open func() (io.ReadCloser, int64, error)) error {
	head, err := http.NewRequestWithContext(ctx, http.MethodHead, c.base+"/files/"+sha, nil)
	if err != nil {
		return err
	}
	if err := c.do(head); err == nil || !isStatus(err, http.StatusNotFound) {
		return err
	}
	body, size, err := open()
	if err != nil {
		return err
	}
	defer body.Close()
	put, err := http.NewRequestWithContext(ctx, http.MethodPut, c.base+"/files/"+sha, body)
	if err != nil {
		return err
	}
	put.ContentLength = size
	return c.do(put)
}

// statusError is an answer that is no success.
type statusError struct {
	code int
	text string
}

// Error says what the master said.
func (e *statusError) Error() string { return e.text }

func isStatus(err error, code int) bool {
	var s *statusError
	return errors.As(err, &s) && s.code == code
}

// do makes a request whose answer has no content that matters.
func (c *Client) do(r *http.Request) error {
	resp, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err != nil {
		return err
	}
	if resp.StatusCode/100 == 2 {
		return nil
	}
	said := strings.TrimSpace(string(text))
	if said == "" {
		said = resp.Status
	}
	return &statusError{resp.StatusCode, fmt.Sprintf("%s %s: %s", r.Method, r.URL.Path, said)}
}
