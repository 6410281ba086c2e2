package master

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/live/secure"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
)

// historyPeer is another master with a history.
type historyPeer struct {
	slotwisev1connect.UnimplementedMastersServiceHandler
	missing func(ctx context.Context, send func(*slotwisev1.KeepRequest) error) error
}

func (p historyPeer) Missing(ctx context.Context, _ *slotwisev1.MissingRequest, out *connect.ServerStream[slotwisev1.KeepRequest]) error {
	return p.missing(ctx, out.Send)
}

func (p historyPeer) serve(t *testing.T) (url string) {
	mux := http.NewServeMux()
	mux.Handle(slotwisev1connect.NewMastersServiceHandler(p))
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv.URL
}

// TestPullHistory has one peer that never answers, and one that fails at first. Until the second one has
// answered, a job that is not in the history may exist. Then its entries are here, but for one that no
// history can store, and jobs that are missing do not exist.
func TestPullHistory(t *testing.T) {
	t.Parallel()
	never := historyPeer{missing: func(ctx context.Context, _ func(*slotwisev1.KeepRequest) error) error {
		<-ctx.Done()
		return ctx.Err()
	}}.serve(t)
	var tries atomic.Int32
	answers := make(chan struct{})
	flaky := historyPeer{missing: func(_ context.Context, send func(*slotwisev1.KeepRequest) error) error {
		if tries.Add(1) == 1 {
			return connect.NewError(connect.CodeUnavailable, errors.New("the disk is away"))
		}
		<-answers
		for _, id := range []string{"bad", "j1"} {
			if err := send(&slotwisev1.KeepRequest{Entry: &slotwisev1.HistoryJob{Job: &slotwisev1.JobStatus{Id: id, Name: "x", User: "ann", EndedMs: 2}}}); err != nil {
				return err
			}
		}
		return nil
	}}.serve(t)
	r := newRig(t, Config{DialPeer: func(address string) (string, *http.Client, error) { return address, http.DefaultClient, nil }})
	if _, err := r.m.pullFrom(t.Context(), never, 50*time.Millisecond); !errors.Is(err, errSilent) {
		t.Errorf("the silent peer: %v", err)
	}
	r.m.postOwn(func() { r.m.pullHistory([]string{never, flaky}, 1, 1) })
	eventually(t, func() bool { return tries.Load() >= 2 })
	if _, err := r.m.past("j1"); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("before an answer: %v", err)
	}
	// Calls of users look into memory first, and the job is not there. A client that hears that there
	// is no such job does not try again.
	_, err := r.users.Job(t.Context(), &slotwisev1.JobRequest{Job: "j1"})
	_, ofTasks := r.users.Tasks(t.Context(), &slotwisev1.TasksRequest{Job: "j1"})
	_, ofWhy := r.users.Explain(t.Context(), &slotwisev1.ExplainRequest{Job: "j1"})
	for _, err := range []error{err, ofTasks, ofWhy} {
		if connect.CodeOf(err) != connect.CodeUnavailable {
			t.Errorf("a user before an answer: %v", err)
		}
	}
	close(answers)
	eventually(t, func() bool { return r.m.pull.Load().complete() })
	if j, err := r.m.past("j1"); err != nil || j.Job.User != "ann" {
		t.Errorf("after the answer: %v, %v", j, err)
	}
	if _, err := r.m.past("j2"); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("a job that does not exist: %v", err)
	}
	if note := r.m.historyNote.Load(); note != nil {
		t.Errorf("another master had the entries, and users read %q", *note)
	}
}

// TestLostHistories has a new history, and another master whose history is empty, too: jobs that have ended by
// the journal are lost then, and only then.
func TestLostHistories(t *testing.T) {
	t.Parallel()
	empty := historyPeer{missing: func(context.Context, func(*slotwisev1.KeepRequest) error) error { return nil }}.serve(t)
	r := newRig(t, Config{DialPeer: func(address string) (string, *http.Client, error) { return address, http.DefaultClient, nil }})
	for past, want := range []string{"0", "1"} {
		r.m.postOwn(func() { r.m.pullHistory([]string{empty}, 1, past) })
		eventually(t, func() bool {
			return r.m.pull.Load() != nil && r.m.pull.Load().complete() && r.metric("slotwise_master_history_damaged_total") == want
		})
	}
}

// TestNoMajority stores a copy with one of four other masters, while the three others refuse it:
// two of the four are needed, so the answer is an error, and the call does not wait for a further
// answer.
func TestNoMajority(t *testing.T) {
	t.Parallel()
	m := &Master{cfg: Config{Self: "a:1"}, ctx: t.Context()}
	members := []*slotwisev1.Member{{Address: "a:1"}, {Address: "b:1"}, {Address: "c:1"}, {Address: "d:1"}, {Address: "e:1"}}
	m.roster.Store(&members)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	stored := make(chan struct{})
	err := m.withMajority(ctx, func(_ context.Context, address string) error {
		if address == "b:1" {
			close(stored)
			return nil
		}
		<-stored
		time.Sleep(50 * time.Millisecond) // the failures are counted after the copy
		return errors.New("its disk is full")
	})
	if err == nil || ctx.Err() != nil {
		t.Errorf("%v, and the caller's time is over: %v", err, ctx.Err())
	}
	m.background.Wait()
}

// TestCopiesShareConnections stores entries of the history and looks for files with another master: the first call
// fails for want of the certificates, and all later ones share connections.
func TestCopiesShareConnections(t *testing.T) {
	t.Parallel()
	var opened, dialed atomic.Int32
	mux := http.NewServeMux()
	mux.Handle(slotwisev1connect.NewMastersServiceHandler(historyPeer{}))
	srv := httptest.NewUnstartedServer(mux)
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	srv.Start()
	t.Cleanup(srv.Close)
	m := &Master{cfg: Config{DialPeer: func(address string) (string, *http.Client, error) {
		if dialed.Add(1) == 1 {
			return "", nil, errors.New("no certificates")
		}
		return srv.URL, secure.Client(nil, ""), nil
	}}}
	if _, err := m.hasFile(t.Context(), "a:1", sha0); err == nil {
		t.Error("a call without certificates succeeds")
	}
	for range 5 {
		if has, err := m.hasFile(t.Context(), "a:1", sha0); has || err != nil {
			t.Errorf("%v, %v", has, err)
		}
		peer, err := m.peer("a:1")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := peer.Keep(t.Context(), &slotwisev1.KeepRequest{}); connect.CodeOf(err) != connect.CodeUnimplemented {
			t.Error(err)
		}
	}
	// A pause within a call may cost a second connection. Without sharing there are ten.
	if dialed.Load() != 2 || opened.Load() > 3 {
		t.Errorf("%d clients and %d connections for ten calls", dialed.Load()-1, opened.Load())
	}
}
