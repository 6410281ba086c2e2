// Package client calls a master: it retries calls while the master cannot be
// reached, uploads files, and waits for jobs.
//
// All calls of ClientService may be repeated. A submission carries a request id, so
// that a retry after a lost answer does not submit the job twice. A file is uploaded
// under its SHA-256. A client therefore retries whenever it is not certain that the
// master has refused a call.
package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/base/retry"
	"github.com/slotwise/slotwise/internal/live/secure"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
)

// Options configure a Client. The zero value suits a master on this machine that
// does without TLS and tokens.
type Options struct {
	// HTTP makes the requests; by default a new http.Client. It must have no
	// time-out, because the master may hold a call until there is an answer.
	HTTP *http.Client
	// Token, if set, is sent as a bearer token with each request.
	Token string
	// Patience is the time for which calls are retried while the master cannot be
	// reached. Default 3 seconds; a negative value disables retries.
	Patience time.Duration
	// Answer is the time limit for an answer, in addition to the time for which the
	// call lets the master hold it. Default 1 minute.
	Answer time.Duration
	// StorageRetry is the time for which a submission is retried while the master cannot
	// use the storage of the output. 0 is Patience.
	StorageRetry time.Duration
	// Notify, if set, receives a sentence when a call waits longer than a second or two
	// for the master, as in package retry.
	Notify func(text string)
}

// Client calls the leading master of one cluster. It is safe for concurrent use.
type Client struct {
	base string // the URL of the first master
	list string // the addresses of all masters, with commas
	http *http.Client
	opts Options
	rpc  slotwisev1connect.ClientServiceClient
}

// New returns a client of the masters in a list of addresses with commas, each host:port or
// a URL. It sends nothing yet.
func New(list string, opts Options) (*Client, error) {
	base, hosts, err := secure.ParseMasters(list)
	if err != nil {
		return nil, err
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
	c := &Client{base: base, list: strings.Join(append([]string{base}, hosts[1:]...), ","), opts: opts, http: opts.HTTP}
	// A copy, because the caller may use its client for other servers, which must not see the
	// token.
	if opts.Token != "" {
		own := *opts.HTTP
		own.Transport = secure.Bearer(opts.HTTP.Transport, opts.Token)
		c.http = &own
	}
	// Around the token, so that a request that a follower redirects carries it to the leader as well.
	c.http = secure.ToLeader(c.http, base, hosts, true)
	c.rpc = slotwisev1connect.NewClientServiceClient(c.http, c.base)
	return c, nil
}

// RPC returns the calls without retries, for Call and for streams.
func (c *Client) RPC() slotwisev1connect.ClientServiceClient { return c.rpc }

// HTTP returns the client that makes the requests and sends the token.
func (c *Client) HTTP() *http.Client { return c.http }

// Address returns the list of masters, beginning with a URL, as New takes it.
func (c *Client) Address() string { return c.list }

// Call makes a call, such as Client.RPC().Jobs. While the master cannot be reached it
// retries the call, for as long as Options.Patience. The call must be one that may
// be repeated.
func Call[Req, Resp any](ctx context.Context, c *Client, call func(context.Context, *Req) (*Resp, error), r *Req) (*Resp, error) {
	return repeat(ctx, c, limits{patience: c.opts.Patience, answer: c.opts.Answer}, func(ctx context.Context) (*Resp, error) { return call(ctx, r) })
}

// limits bounds retries. patience is the time for which a call is retried while the master
// is away, storage the time while the master reports that a storage is, or that it is overloaded;
// 0 is patience.
// answer is the time limit of each try, because a frozen master or one behind a broken
// connection never answers. held is the part of answer for which a healthy master may
// hold the call.
type limits struct{ patience, storage, answer, held time.Duration }

// repeat calls try until it succeeds, fails with an error that a retry cannot cure, or
// the time ends.
func repeat[T any](ctx context.Context, c *Client, e limits, try func(context.Context) (T, error)) (T, error) {
	// Kept over the tries: after one answer of a follower, silence means an election and not a dead
	// cluster.
	electing := false
	o := retry.Options{
		What: "master " + c.list, Limit: e.answer, Held: e.held, Notify: c.opts.Notify, Text: shortText,
		Patience: func(err error) time.Duration {
			switch {
			// The master has refused the call. Asking again gives the same answer.
			case !Unreachable(err) && !contextEnded(err):
				return -1
			// A follower has answered, so an election is under way or has just ended. The dead leader
			// does not answer meanwhile, and must not end the retries earlier.
			case electing || notLeader(err):
				electing = true
				return max(e.patience, electionPatience)
			// The request has waited that long already.
			case errors.Is(err, secure.ErrSilent):
				return e.patience - secure.SilentAfter
			// The master itself says that something is unavailable, such as the storage of the output.
			// That may take longer than a restart of the master.
			case connect.IsWireError(err) && e.storage > 0:
				return e.storage
			}
			return e.patience
		},
	}
	v, err := retry.Do(ctx, o, try)
	// The caller has given up; the address of the master would explain nothing.
	if err == nil || ctx.Err() != nil {
		return v, err
	}
	return v, c.Named(err)
}

// notLeader reports whether a master has refused a call because another one leads.
func notLeader(err error) bool {
	var coded *connect.Error
	if !errors.As(err, &coded) {
		return false
	}
	for _, d := range coded.Details() {
		if m, err := d.Value(); err == nil {
			if _, ok := m.(*slotwisev1.NotLeader); ok {
				return true
			}
		}
	}
	return false
}

// contextEnded reports whether an error means that the context of a try has ended, here or
// on the master. Only the time limit of the try ends it, because retry.Do returns when the
// caller's context ends.
func contextEnded(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return true
	}
	code := connect.CodeOf(err)
	return code == connect.CodeDeadlineExceeded || code == connect.CodeCanceled
}

// shortText returns the message of an error without the protocol's code, and without the
// address that the system's errors repeat.
func shortText(err error) string {
	var network *net.OpError
	if errors.As(err, &network) && network.Err != nil {
		return network.Err.Error()
	}
	return Message(err)
}

// Unreachable reports whether an error means that the master could not be reached or
// could not answer now, so that a retry may help.
func Unreachable(err error) bool {
	if secure.IsPermanent(err) {
		return false
	}
	var coded *connect.Error
	// An error of the connection has a code, too, which the library chose. Only errors that
	// the master sent are its word.
	if errors.As(err, &coded) {
		return coded.Code() == connect.CodeUnavailable || coded.Code() == connect.CodeDeadlineExceeded && connect.IsWireError(err) ||
			!connect.IsWireError(err) && broken(err)
	}
	var status *statusError
	if errors.As(err, &status) {
		// A follower redirects an upload, which cannot be repeated below this package.
		return status.code == http.StatusServiceUnavailable || status.code == http.StatusBadGateway || status.code == http.StatusTemporaryRedirect
	}
	var transport *url.Error
	return errors.As(err, &transport)
}

// broken reports whether an error that the master did not send is an error of the
// connection. The RPC library reports a reset connection as cancelled and a timed
// out one as past its deadline. It uses the same codes for a context that has ended,
// which is not the connection's fault.
func broken(err error) bool {
	switch connect.CodeOf(err) {
	case connect.CodeUnknown:
		return true
	case connect.CodeCanceled, connect.CodeDeadlineExceeded:
		return !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
	}
	return false
}

// Named adds the master's address to an error of a call without retries, if the
// error means that the master could not be reached. It returns other errors
// unchanged.
func (c *Client) Named(err error) error {
	if !Unreachable(err) || connect.IsWireError(err) { // or the master has sent the error itself
		return err
	}
	return &unreachable{c.list, err}
}

// unreachable is the error of a call that was not answered.
type unreachable struct {
	master string
	err    error
}

// Error names the master and the flag to check. It leaves out the protocol's code.
func (u *unreachable) Error() string {
	text := u.err.Error()
	var coded *connect.Error
	if errors.As(u.err, &coded) && coded.Message() != "" {
		text = coded.Message()
	}
	if errors.Is(u.err, secure.ErrSilent) {
		text = secure.ErrSilent.Error()
	}
	if strings.Contains(u.master, ",") {
		return fmt.Sprintf("none of the masters %s can be reached: %s (--master or SLOTWISE_MASTER says where they are)", u.master, text)
	}
	return fmt.Sprintf("master %s cannot be reached: %s (--master or SLOTWISE_MASTER says where it is)", u.master, text)
}

// Unwrap returns the error of the call.
func (u *unreachable) Unwrap() error { return u.err }

// Message returns the message of an error without the protocol's code.
func Message(err error) string {
	var coded *connect.Error
	if errors.As(err, &coded) && coded.Message() != "" && !errors.As(err, new(*unreachable)) {
		return coded.Message()
	}
	return err.Error()
}

// Submit submits a job and returns its id. Retries carry the same request id, so the
// job is submitted once.
func (c *Client) Submit(ctx context.Context, spec *slotwisev1.JobSpec) (string, error) {
	// One id for all tries: the master answers a repeated id with the job of the first try.
	r := &slotwisev1.SubmitRequest{RequestId: rand.Text(), Spec: spec}
	// The master would refuse it after the upload, without a remedy.
	if size := proto.Size(r); size > bounds.Message {
		return "", fmt.Errorf("the job's description has %d MiB, more than the %d MiB that a master takes: use larger splits, fewer input files or shorter paths",
			size>>20, bounds.Message>>20)
	}
	resp, err := repeat(ctx, c, c.submitLimits(), func(ctx context.Context) (*slotwisev1.SubmitResponse, error) {
		return c.rpc.Submit(ctx, r)
	})
	if err != nil {
		return "", err
	}
	return resp.Job, nil
}

// SubmitChain submits a chain of jobs and returns its id, as Submit does for a job.
func (c *Client) SubmitChain(ctx context.Context, spec *slotwisev1.ChainSpec) (string, error) {
	r := &slotwisev1.SubmitChainRequest{RequestId: rand.Text(), Spec: spec}
	resp, err := repeat(ctx, c, c.submitLimits(), func(ctx context.Context) (*slotwisev1.SubmitChainResponse, error) {
		return c.rpc.SubmitChain(ctx, r)
	})
	if err != nil {
		return "", err
	}
	return resp.Chain, nil
}

// SubmitStep submits a step of a chain. The request names the step, so it may be repeated.
func (c *Client) SubmitStep(ctx context.Context, r *slotwisev1.SubmitRequest) (*slotwisev1.SubmitResponse, error) {
	return repeat(ctx, c, c.submitLimits(), func(ctx context.Context) (*slotwisev1.SubmitResponse, error) { return c.rpc.Submit(ctx, r) })
}

// submitLimits returns the limits of a call that submits a job or a chain.
func (c *Client) submitLimits() limits {
	l := limits{patience: max(c.opts.Patience, waitPatience), storage: max(c.opts.Patience, submitPatience, c.opts.StorageRetry), answer: c.opts.Answer}
	// A negative patience disables retries.
	if c.opts.Patience < 0 {
		l.patience = c.opts.Patience
	}
	return l
}

const (
	// electionPatience is the time for which a call is retried while the masters elect a leader.
	electionPatience = 30 * time.Second
	// submitPatience is the time for which a submission is retried while the master is overloaded.
	submitPatience = 30 * time.Second
	// waitPatience is the time for which the master may be away while a user submits a job or waits
	// for one. A job that another machine's restart would lose costs the user more than the wait.
	waitPatience = 10 * time.Minute
)

// Cluster returns the size of the cluster. It is the first call of a submission, so it waits for
// the master as long as the submission.
func (c *Client) Cluster(ctx context.Context) (*slotwisev1.ClusterResponse, error) {
	return repeat(ctx, c, c.submitLimits(), func(ctx context.Context) (*slotwisev1.ClusterResponse, error) {
		return c.rpc.Cluster(ctx, &slotwisev1.ClusterRequest{})
	})
}

// uploadTime is the time limit of one upload.
const uploadTime = time.Hour

// uploadHeld is the time for which an upload may take before the user gets a notice.
const uploadHeld = 30 * time.Second

// waitMs is the time in milliseconds for which the master may hold a request for a
// job's next status.
const waitMs = 20_000

// held is waitMs as a duration.
const held = waitMs * time.Millisecond

// Wait waits until a job has ended and returns its last status. update, if not nil,
// is called with each status.
func (c *Client) Wait(ctx context.Context, job string, update func(*slotwisev1.JobStatus)) (*slotwisev1.JobStatus, error) {
	// The first call is answered at once, with the present state.
	after := int64(-1)
	for {
		r := &slotwisev1.JobRequest{Job: job, After: after, WaitMs: waitMs}
		resp, err := repeat(ctx, c, limits{patience: max(c.opts.Patience, waitPatience), answer: held + c.opts.Answer, held: held}, func(ctx context.Context) (*slotwisev1.JobResponse, error) {
			return c.rpc.Job(ctx, r)
		})
		if err != nil {
			return nil, err
		}
		// The next call is held until the job changes again.
		after = resp.Job.Revision
		if update != nil {
			update(resp.Job)
		}
		if Ended(resp.Job.State) {
			return resp.Job, nil
		}
	}
}

// Ended reports whether s is a final state.
func Ended(s slotwisev1.JobState) bool {
	switch s {
	case slotwisev1.JobState_JOB_STATE_SUCCEEDED, slotwisev1.JobState_JOB_STATE_FAILED, slotwisev1.JobState_JOB_STATE_KILLED:
		return true
	}
	return false
}

// Ensure uploads a file under its SHA-256, unless the master already has it. For each
// try it calls open, which returns the content and its length.
func (c *Client) Ensure(ctx context.Context, sha string, open func() (io.ReadCloser, int64, error)) error {
	_, err := repeat(ctx, c, limits{patience: c.submitLimits().patience, answer: uploadTime, held: uploadHeld}, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, c.ensure(ctx, sha, open)
	})
	return err
}

func (c *Client) ensure(ctx context.Context, sha string, open func() (io.ReadCloser, int64, error)) error {
	head, err := http.NewRequestWithContext(ctx, http.MethodHead, c.base+"/files/"+sha, nil)
	if err != nil {
		return err
	}
	// Most submissions use a program that the master has: one small request instead of an
	// upload.
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
	// An announced length lets the master refuse a file that is too large before any byte is
	// sent.
	put.ContentLength = size
	return c.do(put)
}

// statusError is an HTTP answer with a status of 300 or more.
type statusError struct {
	code int
	text string
}

// Error returns the master's message.
func (e *statusError) Error() string { return e.text }

func isStatus(err error, code int) bool {
	var s *statusError
	return errors.As(err, &s) && s.code == code
}

// do makes a request and ignores the content of a successful answer.
func (c *Client) do(r *http.Request) error {
	resp, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	// Read to the end, so that the connection can be used again; of a long answer the rest does not
	// matter.
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
