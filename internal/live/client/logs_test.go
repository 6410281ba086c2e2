package client

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
)

// logMaster is a master that sends logs.
type logMaster struct {
	slotwisev1connect.UnimplementedClientServiceHandler
	cluster func() error
	log     func(send func(data, note string) error) error
}

func (m *logMaster) Cluster(context.Context, *slotwisev1.ClusterRequest) (*slotwisev1.ClusterResponse, error) {
	return &slotwisev1.ClusterResponse{}, m.cluster()
}

func (m *logMaster) Log(_ context.Context, _ *slotwisev1.LogRequest, out *connect.ServerStream[slotwisev1.LogChunk]) error {
	return m.log(func(data, note string) error { return out.Send(&slotwisev1.LogChunk{Data: []byte(data), Note: note}) })
}

func (m *logMaster) serve(t *testing.T) *httptest.Server {
	mux := http.NewServeMux()
	mux.Handle(slotwisev1connect.NewClientServiceHandler(m))
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv
}

// readLog returns what a client of the masters passes on. Each note is in brackets.
func readLog(t *testing.T, masters string, stop error) (string, error) {
	var text strings.Builder
	c := newClient(t, masters, Options{})
	err := c.Log(t.Context(), &slotwisev1.LogRequest{Attempt: "j1_m_0_0", Follow: true}, func(chunk *slotwisev1.LogChunk) error {
		if chunk.Note != "" {
			text.WriteString("[" + chunk.Note + "]")
		}
		text.Write(chunk.Data)
		return stop
	})
	return text.String(), err
}

// TestLogMoves follows a log while its leader dies. The next one refuses at first, because it does not
// lead yet, and then because the worker has not registered with it. Each byte comes once.
func TestLogMoves(t *testing.T) {
	for name, x := range map[string]struct {
		again []string // data and note of each part that the second master sends
		want  string
	}{
		"from the worker": {[]string{"one\n", "", "two\nthree\n", "", "", "", "four\n", ""}, "one\ntwo\nthree\nfour\n"},
		"kept":            {[]string{"e\nfour\n", "the worker is gone", "five\n", ""}, "one\ntwo\n[the worker is gone]e\nfour\nfive\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var second *httptest.Server
			var dead atomic.Bool
			refusal := func() error { return follower(t, strings.TrimPrefix(second.URL, "http://")) }
			first := (&logMaster{cluster: refusal, log: func(send func(data, note string) error) error {
				if dead.Swap(true) {
					return refusal()
				}
				if err := errors.Join(send("one\n", ""), send("two\n", "")); err != nil {
					return err
				}
				panic(http.ErrAbortHandler) // the connection breaks
			}}).serve(t)
			var elections, calls atomic.Int32
			second = (&logMaster{
				cluster: func() error {
					if elections.Add(1) <= 3 {
						return follower(t, "")
					}
					return nil
				},
				log: func(send func(data, note string) error) error {
					if calls.Add(1) == 1 {
						return connect.NewError(connect.CodeFailedPrecondition, errors.New("worker w1 is not connected now"))
					}
					for i := 0; i < len(x.again); i += 2 {
						if err := send(x.again[i], x.again[i+1]); err != nil {
							return err
						}
					}
					return nil
				},
			}).serve(t)
			if got, err := readLog(t, first.URL+","+second.URL, nil); err != nil || got != x.want {
				t.Errorf("got %q, %v; want %q", got, err, x.want)
			}
		})
	}
}

// TestLogOfFrozenMaster follows a log whose master stops in the middle: its connection stays open, and nothing
// is answered. The client continues at the next leader.
func TestLogOfFrozenMaster(t *testing.T) {
	t.Parallel()
	second := (&logMaster{cluster: func() error { return nil }, log: func(send func(data, note string) error) error { return send("one\ntwo\n", "") }}).serve(t)
	stopped := make(chan struct{}) // when the master has sent the first line
	end := make(chan struct{})
	mux := http.NewServeMux()
	mux.Handle(slotwisev1connect.NewClientServiceHandler(&logMaster{log: func(send func(data, note string) error) error {
		err := send("one\n", "")
		close(stopped)
		<-end
		return err
	}}))
	first := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		select {
		case <-stopped:
			<-end
		default:
			mux.ServeHTTP(rw, r)
		}
	}))
	t.Cleanup(first.Close)
	defer close(end)
	second.Config.Handler = leads(second.Config.Handler)
	began := time.Now()
	got, err := readLog(t, first.URL+","+second.URL, nil)
	t.Logf("after %v", time.Since(began))
	if err != nil || got != "one\ntwo\n" {
		t.Errorf("got %q, %v", got, err)
	}
}

// leads answers /leader as the leader does.
func leads(h http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/leader" {
			h.ServeHTTP(rw, r)
		}
	})
}

// TestLogFromFollower asks a follower first.
func TestLogFromFollower(t *testing.T) {
	leads := (&logMaster{cluster: func() error { return nil }, log: func(send func(data, note string) error) error { return send("x", "") }}).serve(t)
	refusal := func() error { return follower(t, strings.TrimPrefix(leads.URL, "http://")) }
	first := (&logMaster{cluster: refusal, log: func(func(data, note string) error) error { return refusal() }}).serve(t)
	if got, err := readLog(t, first.URL+","+leads.URL, nil); err != nil || got != "x" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestLogEnds checks errors that no other try cures.
func TestLogEnds(t *testing.T) {
	full := errors.New("the disk is full")
	srv := (&logMaster{log: func(send func(data, note string) error) error { return send("x", "") }}).serve(t)
	if got, err := readLog(t, srv.URL, full); !errors.Is(err, full) || got != "x" {
		t.Errorf("an error of the receiver: %q, %v", got, err)
	}
	var calls atomic.Int32
	srv = (&logMaster{log: func(func(data, note string) error) error {
		calls.Add(1)
		return connect.NewError(connect.CodeFailedPrecondition, errors.New("worker w1 is not connected now"))
	}}).serve(t)
	if _, err := readLog(t, srv.URL, nil); connect.CodeOf(err) != connect.CodeFailedPrecondition || calls.Load() != 1 {
		t.Errorf("a log that nobody has: %v after %d calls", err, calls.Load())
	}
}
