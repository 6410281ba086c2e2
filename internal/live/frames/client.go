package frames

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/live/secure"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
)

// Client makes a worker's calls. It is safe for concurrent use.
// It never repeats a call by itself: a worker's retry loop decides, because only that one knows whether the
// worker is stopping, and which master comes next.
type Client struct {
	slotwisev1connect.WorkerServiceClient // of the calls that are requests of their own
	// The same transport as for requests, so the frames have its certificates and token.
	http    *http.Client
	url     string
	dialing chan struct{} // has room for the one call that makes a connection
	mu      struct {
		sync.Mutex
		link *link // nil before the first call and after its end
	}
}

var _ slotwisev1connect.WorkerServiceClient = (*Client)(nil)

// NewClient returns a client that has no connection yet.
func NewClient(c *http.Client, url string) *Client {
	return &Client{WorkerServiceClient: slotwisev1connect.NewWorkerServiceClient(c, url), http: c, url: url, dialing: make(chan struct{}, 1)}
}

// Heartbeat implements slotwisev1connect.WorkerServiceClient, like the methods below.
func (c *Client) Heartbeat(ctx context.Context, r *slotwisev1.HeartbeatRequest) (*slotwisev1.HeartbeatResponse, error) {
	return call(ctx, c, &slotwisev1.WorkerCall{What: &slotwisev1.WorkerCall_Heartbeat{Heartbeat: r}}, (*slotwisev1.WorkerAnswer).GetHeartbeat)
}

// AskCommit asks whether an attempt may commit its output.
func (c *Client) AskCommit(ctx context.Context, r *slotwisev1.AskCommitRequest) (*slotwisev1.AskCommitResponse, error) {
	return call(ctx, c, &slotwisev1.WorkerCall{What: &slotwisev1.WorkerCall_AskCommit{AskCommit: r}}, (*slotwisev1.WorkerAnswer).GetAskCommit)
}

// JobForWorker asks for the description of a job.
func (c *Client) JobForWorker(ctx context.Context, r *slotwisev1.JobForWorkerRequest) (*slotwisev1.JobForWorkerResponse, error) {
	return call(ctx, c, &slotwisev1.WorkerCall{What: &slotwisev1.WorkerCall_Job{Job: r}}, (*slotwisev1.WorkerAnswer).GetJob)
}

// MapOutputs asks where the map outputs of a job are.
func (c *Client) MapOutputs(ctx context.Context, r *slotwisev1.MapOutputsRequest) (*slotwisev1.MapOutputsResponse, error) {
	return call(ctx, c, &slotwisev1.WorkerCall{What: &slotwisev1.WorkerCall_MapOutputs{MapOutputs: r}}, (*slotwisev1.WorkerAnswer).GetMapOutputs)
}

// call makes a call and returns what get finds in the answer.
func call[T comparable](ctx context.Context, c *Client, what *slotwisev1.WorkerCall, get func(*slotwisev1.WorkerAnswer) T) (T, error) {
	var none T
	k, err := c.connect(ctx)
	if err != nil {
		return none, err
	}
	a, err := k.call(ctx, what)
	if err != nil {
		return none, err
	}
	// A master that knows no such call answers with an error of the code unimplemented, not with an empty
	// answer.
	got := get(a)
	if got == none {
		return none, connect.NewError(connect.CodeInternal, fmt.Errorf("the master has answered another call: %T", a.GetWhat()))
	}
	return got, nil
}

// connect returns the connection, and makes it if there is none.
func (c *Client) connect(ctx context.Context) (*link, error) {
	if k := c.current(); k != nil {
		return k, nil
	}
	select {
	// One call dials for all. When a master is back, a worker with a hundred waiting calls opens one
	// connection.
	case c.dialing <- struct{}{}:
	case <-ctx.Done():
		return nil, contextError(ctx)
	}
	defer func() { <-c.dialing }()
	if k := c.current(); k != nil { // another call has made it meanwhile
		return k, nil
	}
	k, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.mu.link = k
	c.mu.Unlock()
	// After the link is published: if the connection breaks at once, fail must find the link to remove it.
	go k.receive()
	return k, nil
}

func (c *Client) current() *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.link
}

// Close ends the connection. Calls under way fail.
func (c *Client) Close() {
	if k := c.current(); k != nil {
		k.fail(errors.New("the worker has closed the connection"))
	}
}

// errOld reports a master of an earlier release.
var errOld = errors.New("the master is of an earlier release than this worker: upgrade the master first")

// dial makes a connection.
func (c *Client) dial(ctx context.Context) (*link, error) {
	// The connection outlives the call, whose context bounds the dialling only.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	r, err := http.NewRequestWithContext(life, http.MethodPost, c.url+Path, nil)
	if err != nil {
		end()
		return nil, err
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", Protocol)
	r.Header.Set("Content-Type", "application/proto") // of an error of the master
	resp, err := c.http.Do(r)
	// The time was over while the answer arrived. end has been called, so the connection is of no use.
	if !stop() {
		err = errors.Join(err, contextError(ctx))
	}
	if err != nil {
		if resp != nil {
			_ = resp.Body.Close()
		}
		end()
		return nil, connect.NewError(connect.CodeUnavailable, err)
	}
	conn, ok := resp.Body.(io.ReadWriteCloser)
	if !ok || resp.StatusCode != http.StatusSwitchingProtocols {
		defer end()
		return nil, refusal(resp)
	}
	k := &link{client: c, conn: conn, end: end, in: bufio.NewReaderSize(conn, 16<<10)}
	k.sender = NewSender(writer{k}, func(int) {}) // the worker bounds its calls
	k.mu.waiting = map[uint64]chan result{}
	return k, nil
}

// refusal returns the error of an answer that does not upgrade the connection.
func refusal(resp *http.Response) error {
	// NotLeader puts back the bytes that it reads, so the body below is whole.
	leader, refused := secure.NotLeader(resp)
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	_ = resp.Body.Close()
	if err != nil {
		return connect.NewError(connect.CodeUnavailable, err)
	}
	var e struct {
		Code    connect.Code
		Message string
	}
	switch err := json.Unmarshal(body, &e); {
	// The path does not exist there, whatever the body says.
	case resp.StatusCode == http.StatusNotFound:
		return connect.NewError(connect.CodeUnimplemented, errOld)
	// Not from a master: a gateway answers with a page of HTML while no master is behind it. The worker tries
	// again.
	case err != nil || e.Code == 0:
		return connect.NewError(connect.CodeUnavailable, fmt.Errorf("the master answers with status %s", resp.Status))
	case refused:
		return callError(&slotwisev1.CallError{Code: int32(e.Code), Message: e.Message, NotLeader: leader})
	}
	return callError(&slotwisev1.CallError{Code: int32(e.Code), Message: e.Message})
}

// contextError returns the error of a call whose context has ended.
func contextError(ctx context.Context) error {
	code := connect.CodeCanceled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		code = connect.CodeDeadlineExceeded
	}
	return connect.NewError(code, context.Cause(ctx))
}

// link is one connection of a client.
type link struct {
	client *Client
	conn   io.ReadWriteCloser
	end    context.CancelFunc // of the request that has begun it
	in     *bufio.Reader
	sender *Sender
	mu     struct {
		sync.Mutex
		number  uint64 // of the last call
		waiting map[uint64]chan result
		err     error // why the connection has ended
	}
}

// result is the outcome of a call.
type result struct {
	answer *slotwisev1.WorkerAnswer
	err    error
}

// writer is the connection as its sender sees it.
type writer struct{ k *link }

// Write implements io.Writer.
func (w writer) Write(b []byte) (int, error) { return w.k.conn.Write(b) }

// Close implements io.Closer. It is called after a failed Write.
func (w writer) Close() error {
	w.k.fail(errBroken)
	return nil
}

var errBroken = errors.New("the connection to the master is broken")

// call makes a call and waits for its answer.
func (k *link) call(ctx context.Context, what *slotwisev1.WorkerCall) (*slotwisev1.WorkerAnswer, error) {
	done := make(chan result, 1)
	k.mu.Lock()
	// The connection has ended since connect returned it. The error has the code unavailable, so the call is
	// repeated.
	if err := k.mu.err; err != nil {
		k.mu.Unlock()
		return nil, err
	}
	k.mu.number++
	number := k.mu.number
	k.mu.waiting[number] = done
	k.mu.Unlock()
	// After the number is in waiting: the answer may arrive before this goroutine runs again.
	k.sender.Send(number, what)
	select {
	case r := <-done:
		return r.answer, r.err
	case <-ctx.Done():
	}
	k.mu.Lock()
	delete(k.mu.waiting, number) // its answer is dropped
	k.mu.Unlock()
	// Without this, a connection whose packets a network drops would stay open.
	// The caller's limit is the time for which the master may hold the call, and callTimeout of the worker more.
	// So an overdue answer is a fault. A call that is cancelled earlier says nothing about the network.
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		k.fail(fmt.Errorf("no answer of the master within the time limit"))
	}
	return nil, contextError(ctx)
}

// receive hands answers to the calls until the connection ends.
func (k *link) receive() {
	for {
		number, a, err := readAnswer(k.in)
		if err != nil {
			k.fail(fmt.Errorf("the connection to the master is broken: %w", err))
			return
		}
		r := result{answer: a}
		e := a.GetError()
		if e != nil {
			r = result{err: callError(e)}
		}
		k.mu.Lock()
		done := k.mu.waiting[number]
		delete(k.mu.waiting, number)
		k.mu.Unlock()
		// Nil for a call that was cancelled. The channel has room, so a caller that has gone blocks nothing.
		if done != nil {
			done <- r
		}
		// The next connection goes to the leader.
		// Calls under way get the same error. They would be refused one by one, and each refusal names the leader.
		if e.GetNotLeader() != nil {
			k.fail(r.err)
			return
		}
	}
}

// fail ends the connection and the calls under way.
func (k *link) fail(err error) {
	var coded *connect.Error
	if !errors.As(err, &coded) {
		err = connect.NewError(connect.CodeUnavailable, err)
	}
	k.mu.Lock()
	// receive, the sender and a call that is overdue may all notice the end. The first reason counts: the others
	// follow from the closed connection.
	first := k.mu.err == nil
	var calls []chan result
	if first {
		k.mu.err = err
		for _, done := range k.mu.waiting { //house:sorted each gets the same
			calls = append(calls, done)
		}
		clear(k.mu.waiting)
	}
	k.mu.Unlock()
	if !first {
		return
	}
	// Two locks, one after the other and never together: call takes mu of the client and then, in the link, mu
	// of the link.
	c := k.client
	c.mu.Lock()
	if c.mu.link == k {
		c.mu.link = nil
	}
	c.mu.Unlock()
	// Before the results are handed out: a call that is repeated at once makes a new link with a new sender.
	k.sender.Close()
	_ = k.conn.Close() // frames in its buffer may be lost, as after a broken connection
	k.end()
	for _, done := range calls {
		done <- result{err: err}
	}
}
