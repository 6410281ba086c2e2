package master

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/live/frames"
	"github.com/slotwise/slotwise/internal/live/master/protocol"
	"github.com/slotwise/slotwise/internal/live/secure"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// workerConn is a worker's connection of frames (see package frames). One goroutine reads calls and hands
// them to the loop. The loop hands the answers to the sender. No goroutine waits for a call.
// Why no RPC for each call: a worker sends several calls a second, and a connection of HTTP costs the master
// more for each than the core does. Beside this path the calls of WorkerService stay, for Register,
// for logs, and for workers of an earlier release.
type workerConn struct {
	// Nothing waits while mu is held: a release is pushed and not awaited, and answers are sent without it.
	m       *Master
	ctx     context.Context // of the request that began the connection, with the worker's identity
	user    string          // the account of the worker
	stream  *secure.Stream
	sender  *frames.Sender
	room    chan struct{} // has a value for each call whose answer was not written or dropped yet
	buffer  []byte        // of small messages; used by the goroutine that reads
	checked time.Time     // when the credentials were checked last; used by the same
	mu      struct {
		sync.Mutex
		// open has the calls without an answer, each with the timer that ends its wait, or nil.
		open map[protocol.Call]*time.Timer
	}
}

// openCalls is the most calls of a connection without an answer, or with one that the worker has not accepted: a
// worker that reads no answers must not fill the memory. A worker whose slots are all in use by
// reduces has a request to commit and a poll for map outputs for each, and two heartbeats. Further frames wait
// in the network.
const openCalls = 2*bounds.Slots + 16

// checkCredentials is the interval at which the credentials of an open connection are checked, when
// frames arrive.
const checkCredentials = time.Second

// serveCalls upgrades a request and serves the calls on its connection until it ends.
func (m *Master) serveCalls(w http.ResponseWriter, r *http.Request) {
	// The refusal names the leader, to which the worker turns.
	if err := m.notLeader(); err != nil {
		_ = connect.NewErrorWriter().Write(w, r, err) // the worker may be gone
		return
	}
	// After the guard has identified the worker from the request. The frames carry no identity, so stream.Valid
	// looks at the credentials of that request again and again.
	stream, err := secure.Upgrade(w, r, frames.Protocol)
	if err != nil {
		http.Error(w, err.Error(), http.StatusUpgradeRequired)
		return
	}
	c := &workerConn{
		m: m, ctx: r.Context(), user: identity(r.Context()).Account(), stream: stream,
		room: make(chan struct{}, openCalls), checked: time.Now(),
	}
	// Answers are queued by the loop and written by the sender's goroutine: a worker whose network is full must
	// not stop the loop.
	c.sender = frames.NewSender(stream, c.left)
	c.mu.open = map[protocol.Call]*time.Timer{}
	defer c.close()
	// The server knows nothing of connections that have left HTTP.
	defer context.AfterFunc(m.looping, func() { _ = stream.Close() })()
	for {
		if err := c.serveOne(); err != nil {
			return
		}
	}
}

// close ends the connection. The core answers held calls at once, and the answers are dropped.
func (c *workerConn) close() {
	c.sender.Close()
	_ = c.stream.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	//house:sorted each call is released for itself
	// Without the release the core would hold a heartbeat of a connection that is gone until its wait is over,
	// and the next heartbeat would find it in its place.
	for id, t := range c.mu.open {
		if t != nil {
			t.Stop()
		}
		c.m.releaseCall(c.user, id)
	}
}

// serveOne reads a call and begins it. An error ends the connection.
func (c *workerConn) serveOne() error {
	// Waits for the first byte without a buffer, so an idle connection costs no memory but the goroutine's.
	if err := c.stream.Await(); err != nil {
		return err
	}
	// Not for each frame: identifying a sender takes longer than reading a call.
	if now := time.Now(); now.Sub(c.checked) >= checkCredentials {
		c.checked = now
		// The worker's next connection is refused with the reason, or uses its new credentials.
		if err := c.stream.Valid(); err != nil {
			return err
		}
	}
	head, err := frames.ReadHead(c.stream)
	if err != nil {
		return err
	}
	select {
	// Before the message is read, so its bytes stay in the network while there is no room.
	case c.room <- struct{}{}:
	case <-c.m.looping.Done():
		return errClosed
	}
	call, give, err := c.receive(head.Length)
	var broken *brokenError
	// Only an error of reading ends the connection. A call that is refused leaves the position at the next
	// frame.
	if errors.As(err, &broken) {
		return broken.err
	}
	if err == nil {
		err = c.begin(head.Number, call, give)
	}
	if err != nil {
		give()
		// It goes through the sender as every answer, which gives the room of the call back.
		c.answer(head.Number, frames.ErrorAnswer(shortError(rpcError(err))))
	}
	return nil
}

// brokenError is the error of reading from a connection.
type brokenError struct{ err error }

// Error implements error.
func (e *brokenError) Error() string { return e.err.Error() }

// receive reads the message of a frame within the bounds of messages. give is never nil. It gives the room
// of the message back. After an error other than a brokenError the message was skipped.
func (c *workerConn) receive(length int) (call *slotwisev1.WorkerCall, give func(), err error) {
	q, nothing := c.m.messages[1], func() {}
	raw, err := c.read(q, length)
	if err != nil {
		return nil, nothing, err
	}
	// Also for workers: one that a user controls could send a few bytes that become gigabytes.
	memory, err := protoCostOf(raw, callDescriptor)
	if err != nil {
		return nil, nothing, connect.NewError(connect.CodeResourceExhausted, err)
	}
	// The decoded message copies its texts, and the bytes of the frame stay until it is decoded.
	need := min(memory+int64(length), bounds.Share(bounds.Memory, 0))
	if err := take(c.ctx, q.memory, c.user, need); err != nil {
		return nil, nothing, err
	}
	give = func() { q.memory.Give(c.user, need) }
	call = &slotwisev1.WorkerCall{}
	if err := proto.Unmarshal(raw, call); err != nil {
		return nil, give, fault(connect.CodeInvalidArgument, "the message cannot be decoded: %w", err)
	}
	return call, give, nil
}

var callDescriptor = (*slotwisev1.WorkerCall)(nil).ProtoReflect().Descriptor()

// protoCostOf is protoCost for a message in memory.
func protoCostOf(raw []byte, d protoreflect.MessageDescriptor) (memory int64, err error) {
	_, memory, err = protoCost(bytes.NewReader(raw), d)
	return memory, err
}

// read reads the bytes of a message. They are valid until the next call.
func (c *workerConn) read(q *messages, length int) ([]byte, error) {
	skip := func(why error) ([]byte, error) {
		// The rest of the frame must be read, because the next frame begins behind it.
		if _, err := io.CopyN(io.Discard, c.stream, int64(length)); err != nil {
			return nil, &brokenError{err}
		}
		return nil, why
	}
	if length > int(q.most) {
		return skip(q.tooLarge())
	}
	if length <= smallMessage {
		if cap(c.buffer) < length {
			c.buffer = make([]byte, max(2*length, 1<<10))
		}
		if _, err := io.ReadFull(c.stream, c.buffer[:length]); err != nil {
			return nil, &brokenError{err}
		}
		return c.buffer[:length], nil
	}
	if err := take(c.ctx, q.arriving, c.user, int64(length)); err != nil {
		return skip(err)
	}
	defer q.arriving.Give(c.user, int64(length))
	var b bytes.Buffer // grows with the bytes that arrive, not with the announced length
	n, err := b.ReadFrom(io.LimitReader(c.stream, int64(length)))
	if err == nil && n < int64(length) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, &brokenError{err}
	}
	return b.Bytes(), nil
}

// begin hands a call to the loop.
func (c *workerConn) begin(number uint64, call *slotwisev1.WorkerCall, give func()) (err error) {
	var message messageOf
	var wait time.Duration
	switch what := call.What.(type) {
	case *slotwisev1.WorkerCall_Heartbeat:
		message, wait, err = heartbeatMessage(what.Heartbeat)
	case *slotwisev1.WorkerCall_AskCommit:
		message, err = askCommitMessage(what.AskCommit)
	case *slotwisev1.WorkerCall_Job:
		message, err = jobMessage(what.Job)
	case *slotwisev1.WorkerCall_MapOutputs:
		message, wait, err = mapOutputsMessage(what.MapOutputs)
	default:
		err = fault(connect.CodeUnimplemented, "this master does not know the call %T", what)
	}
	if err != nil {
		return err
	}
	// The master's number and not the worker's, which two connections may use at once.
	id := protocol.Call(c.m.lastCall.Add(1))
	// Before the loop can answer it.
	c.mu.Lock()
	c.mu.open[id] = nil
	c.mu.Unlock()
	err = c.m.begin(c.ctx, id, message, func(r protocol.Reply) {
		c.ended(id)
		give()
		c.answer(number, c.m.workerAnswer(r))
	})
	if err != nil {
		c.ended(id)
		return err
	}
	if wait > 0 {
		c.mu.Lock()
		defer c.mu.Unlock()
		// Not before the call is in the inbox, for which it may wait longer: a release before the call would be
		// lost.
		// If the answer came first, there is nothing to release.
		if _, open := c.mu.open[id]; open {
			c.mu.open[id] = time.AfterFunc(wait, func() { c.m.releaseCall(c.user, id) })
		}
	}
	return nil
}

// ended forgets an open call.
func (c *workerConn) ended(id protocol.Call) {
	c.mu.Lock()
	t := c.mu.open[id]
	delete(c.mu.open, id)
	c.mu.Unlock()
	if t != nil {
		t.Stop()
	}
}

// answer sends the answer to a call. It never blocks.
func (c *workerConn) answer(number uint64, a *slotwisev1.WorkerAnswer) { c.sender.Send(number, a) }

// left makes room for as many calls as answers were written or dropped.
func (c *workerConn) left(answers int) {
	for range answers {
		<-c.room // has a value for each
	}
}

// workerAnswer returns the answer with a reply of the core. It is called in the loop.
func (m *Master) workerAnswer(r protocol.Reply) *slotwisev1.WorkerAnswer {
	if r.Err != nil {
		return frames.ErrorAnswer(shortError(rpcError(r.Err)))
	}
	switch resp := r.Message.(type) {
	// The term is added here, because the core does not know it: the same core runs without a replica in the
	// fault runs.
	case *slotwisev1.HeartbeatResponse:
		resp.Term = m.Term()
		return &slotwisev1.WorkerAnswer{What: &slotwisev1.WorkerAnswer_Heartbeat{Heartbeat: resp}}
	case *slotwisev1.AskCommitResponse:
		return &slotwisev1.WorkerAnswer{What: &slotwisev1.WorkerAnswer_AskCommit{AskCommit: resp}}
	case *slotwisev1.JobForWorkerResponse:
		return &slotwisev1.WorkerAnswer{What: &slotwisev1.WorkerAnswer_Job{Job: resp}}
	case *slotwisev1.MapOutputsResponse:
		return &slotwisev1.WorkerAnswer{What: &slotwisev1.WorkerAnswer_MapOutputs{MapOutputs: resp}}
	}
	return frames.ErrorAnswer(connect.NewError(connect.CodeInternal, fmt.Errorf("the core replies with %T", r.Message)))
}
