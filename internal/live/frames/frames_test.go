package frames_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/live/frames"
	"github.com/slotwise/slotwise/internal/live/secure"
	"github.com/slotwise/slotwise/internal/testkit/frametest"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
)

// master answers heartbeats as their condition's text says.
type master struct {
	slotwisev1connect.UnimplementedWorkerServiceHandler
	held atomic.Int32
}

// Heartbeat implements slotwisev1connect.WorkerServiceHandler, like AskCommit.
func (m *master) Heartbeat(ctx context.Context, r *slotwisev1.HeartbeatRequest) (*slotwisev1.HeartbeatResponse, error) {
	switch r.ConditionText {
	case "hold":
		m.held.Add(1)
		<-ctx.Done()
		return nil, ctx.Err()
	case "refuse":
		return nil, connect.NewError(connect.CodeResourceExhausted, errors.New("too much"))
	case "follow":
		err := connect.NewError(connect.CodeUnavailable, errors.New("this master does not lead"))
		if d, e := connect.NewErrorDetail(&slotwisev1.NotLeader{Leader: "b:1"}); e == nil {
			err.AddDetail(d)
		}
		return nil, err
	}
	return &slotwisev1.HeartbeatResponse{HeartbeatMs: r.Seq, Actions: []*slotwisev1.Action{{What: &slotwisev1.Action_DropJob{DropJob: r.ConditionText}}}}, nil
}

func (m *master) AskCommit(context.Context, *slotwisev1.AskCommitRequest) (*slotwisev1.AskCommitResponse, error) {
	return &slotwisev1.AskCommitResponse{Granted: true}, nil
}

// rig is a master and a worker's client.
type rig struct {
	*frames.Client
	t      *testing.T
	m      *master
	dials  atomic.Int32
	hangUp func() // closes the connections of the master
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, m: &master{}}
	mux := http.NewServeMux()
	ctx, end := context.WithCancel(context.Background())
	frametest.Handle(ctx, mux, r.m, 1<<20)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.dials.Add(1)
		mux.ServeHTTP(w, q)
	}))
	r.hangUp = end
	r.Client = frames.NewClient(srv.Client(), srv.URL)
	t.Cleanup(func() {
		r.Client.Close()
		end()
		srv.Close()
	})
	return r
}

func (r *rig) beat(ctx context.Context, seq int64, text string) (*slotwisev1.HeartbeatResponse, error) {
	return r.Heartbeat(ctx, &slotwisev1.HeartbeatRequest{Seq: seq, ConditionText: text})
}

// TestCalls makes many calls of several kinds at once on one connection, large ones among them.
func TestCalls(t *testing.T) {
	r := newRig(t)
	large := strings.Repeat("x", 100<<10)
	var wg sync.WaitGroup
	for i := range int64(200) {
		wg.Go(func() {
			text := ""
			if i%10 == 0 {
				text = large
			}
			resp, err := r.beat(t.Context(), i, text)
			if err != nil || resp.HeartbeatMs != i || resp.Actions[0].GetDropJob() != text {
				t.Errorf("heartbeat %d: %d, %v", i, resp.GetHeartbeatMs(), err)
			}
			if commit, err := r.AskCommit(t.Context(), &slotwisev1.AskCommitRequest{}); err != nil || !commit.Granted {
				t.Errorf("commit %d: %v, %v", i, commit, err)
			}
		})
	}
	wg.Wait()
	if n := r.dials.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// TestErrors has the master refuse calls. The errors have the codes of its service, and the connection stays.
func TestErrors(t *testing.T) {
	r := newRig(t)
	for range 2 {
		if _, err := r.beat(t.Context(), 1, "refuse"); connect.CodeOf(err) != connect.CodeResourceExhausted || !connect.IsWireError(err) || !strings.Contains(err.Error(), "too much") {
			t.Errorf("refused: %v", err)
		}
		if _, err := r.beat(t.Context(), 1, strings.Repeat("x", 1<<20)); connect.CodeOf(err) != connect.CodeResourceExhausted {
			t.Errorf("too large: %v", err)
		}
		if _, err := r.JobForWorker(t.Context(), &slotwisev1.JobForWorkerRequest{}); connect.CodeOf(err) != connect.CodeUnimplemented {
			t.Errorf("unimplemented: %v", err)
		}
	}
	if n := r.dials.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// TestNotLeader has the master say that it does not lead. The error names the leader, and the next call makes
// another connection, which may lead there.
func TestNotLeader(t *testing.T) {
	r := newRig(t)
	for n := range int32(3) {
		_, err := r.beat(t.Context(), 1, "follow")
		var coded *connect.Error
		if !errors.As(err, &coded) || coded.Code() != connect.CodeUnavailable || len(coded.Details()) != 1 {
			t.Fatal(err)
		}
		if d, err := coded.Details()[0].Value(); err != nil || d.(*slotwisev1.NotLeader).Leader != "b:1" {
			t.Errorf("%v, %v", d, err)
		}
		if got := r.dials.Load(); got != n+1 {
			t.Errorf("%d connections after %d calls", got, n+1)
		}
	}
}

// TestOverdue has an answer not arrive in time. The connection may be dead, so the calls on it fail, and the next
// one makes another. A call that its caller gives up leaves the connection alone.
func TestOverdue(t *testing.T) {
	r := newRig(t)
	held := make(chan error, 1)
	go func() {
		_, err := r.beat(t.Context(), 1, "hold")
		held <- err
	}()
	for r.m.held.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := r.beat(ctx, 2, "hold"); connect.CodeOf(err) != connect.CodeCanceled {
		t.Errorf("given up: %v", err)
	}
	if _, err := r.beat(t.Context(), 3, ""); err != nil || r.dials.Load() != 1 {
		t.Errorf("after a call was given up: %v, %d connections", err, r.dials.Load())
	}
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := r.beat(ctx, 4, "hold"); connect.CodeOf(err) != connect.CodeDeadlineExceeded {
		t.Errorf("overdue: %v", err)
	}
	if err := <-held; connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("the other call: %v", err)
	}
	if _, err := r.beat(t.Context(), 5, ""); err != nil || r.dials.Load() != 2 {
		t.Errorf("after an overdue call: %v, %d connections", err, r.dials.Load())
	}
}

// TestBroken has the master close the connection under a call.
func TestBroken(t *testing.T) {
	r := newRig(t)
	held := make(chan error, 1)
	go func() {
		_, err := r.beat(t.Context(), 1, "hold")
		held <- err
	}()
	for r.m.held.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	r.hangUp()
	if err := <-held; connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("%v", err)
	}
}

// TestRefusedUpgrade dials servers that do not upgrade the connection.
func TestRefusedUpgrade(t *testing.T) {
	for name, x := range map[string]struct {
		status int
		body   string
		code   connect.Code
		text   string
	}{
		"an old master":       {404, "404 page not found", connect.CodeUnimplemented, "upgrade the master first"},
		"no credentials":      {401, `{"code":"unauthenticated","message":"who?"}`, connect.CodeUnauthenticated, "who?"},
		"another server":      {200, "hello", connect.CodeUnavailable, "200"},
		"a proxy's complaint": {502, "<html>", connect.CodeUnavailable, "502"},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(x.status)
			w.Write([]byte(x.body))
		}))
		c := frames.NewClient(srv.Client(), srv.URL)
		if _, err := c.Heartbeat(t.Context(), &slotwisev1.HeartbeatRequest{}); connect.CodeOf(err) != x.code || !strings.Contains(err.Error(), x.text) {
			t.Errorf("%s: %v", name, err)
		}
		srv.Close()
	}
}

// TestSilentMaster has the master of an open connection freeze while another one leads. The call on the
// connection ends, and the next one reaches the leader.
func TestSilentMaster(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	frozen := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == frames.Path {
			if stream, err := secure.Upgrade(w, q, frames.Protocol); err == nil {
				defer stream.Close()
			}
		}
		<-end
	}))
	mux := http.NewServeMux()
	frametest.Handle(t.Context(), mux, &master{}, 1<<20)
	mux.HandleFunc("/leader", func(http.ResponseWriter, *http.Request) {})
	leader := httptest.NewServer(mux)
	base, hosts, err := secure.ParseMasters(frozen.URL + "," + leader.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := frames.NewClient(secure.ToLeader(&http.Client{Transport: &http.Transport{}}, base, hosts, true), base)
	t.Cleanup(func() {
		c.Close()
		close(end)
		frozen.Close()
		leader.CloseClientConnections()
		leader.Close()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	if _, err := c.Heartbeat(ctx, &slotwisev1.HeartbeatRequest{}); connect.CodeOf(err) != connect.CodeUnavailable || !strings.Contains(err.Error(), "silent") {
		t.Errorf("the frozen master: %v", err)
	}
	if _, err := c.Heartbeat(ctx, &slotwisev1.HeartbeatRequest{}); err != nil {
		t.Errorf("the leader: %v", err)
	}
}

// stuck is a connection whose other end reads nothing.
type stuck struct {
	end     chan struct{}
	closing sync.Once
	most    atomic.Int64 // bytes of the largest Write
}

func (c *stuck) Write(b []byte) (int, error) {
	c.most.Store(max(c.most.Load(), int64(len(b))))
	<-c.end
	return 0, errors.New("broken")
}

func (c *stuck) Close() error {
	c.closing.Do(func() { close(c.end) })
	return nil
}

// TestFramesLeft has a connection stop and then break under many answers. None has left before, and each has afterwards,
// also one that comes later. Only a buffer full of them is encoded.
func TestFramesLeft(t *testing.T) {
	const n, size = 1000, 10 << 10
	conn := &stuck{end: make(chan struct{})}
	var left atomic.Int64
	s := frames.NewSender(conn, func(n int) { left.Add(int64(n)) })
	m := &slotwisev1.WorkerAnswer{What: &slotwisev1.WorkerAnswer_Error{Error: &slotwisev1.CallError{Message: strings.Repeat("x", size)}}}
	for i := range uint64(n) {
		s.Send(i, m)
	}
	time.Sleep(10 * time.Millisecond)
	if got := left.Load(); got != 0 {
		t.Errorf("%d frames have left", got)
	}
	conn.Close()
	for deadline := time.Now().Add(4 * time.Minute); left.Load() != n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d frames have left", left.Load(), n)
		}
	}
	if s.Send(n, m); left.Load() != n+1 {
		t.Error("a frame after the end has not left")
	}
	s.Close()
	if got := conn.most.Load(); got > 2*64<<10 {
		t.Errorf("%d bytes at once", got)
	}
}
