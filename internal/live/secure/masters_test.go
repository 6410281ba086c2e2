package secure_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/live/secure"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
)

func TestParseMasters(t *testing.T) {
	for list, want := range map[string]string{
		"a:7077":                        "http://a:7077 a:7077",
		"https://a:7077/":               "https://a:7077 a:7077",
		"http://h/slotwise/":            "http://h/slotwise h",
		"https://a:1, b:2,https://c:3/": "https://a:1 a:1 b:2 c:3",
	} {
		base, hosts, err := secure.ParseMasters(list)
		if got := base + " " + strings.Join(hosts, " "); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", list, got, err, want)
		}
	}
	for _, bad := range []string{"", "a,", "ftp://a", "a,b,a", "http://a,https://b", "a,b/path", "http://%zz"} {
		if _, _, err := secure.ParseMasters(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// fakeMaster leads, or answers NotLeader with the leader that it is given.
type fakeMaster struct {
	slotwisev1connect.UnimplementedClientServiceHandler
	leads  atomic.Bool
	leader atomic.Value // of string
	asked  atomic.Int32
	host   string
	seen   chan string // jobs that were submitted
}

func (f *fakeMaster) refusal() error {
	err := connect.NewError(connect.CodeUnavailable, errors.New("this master does not lead"))
	leader, _ := f.leader.Load().(string)
	if d, e := connect.NewErrorDetail(&slotwisev1.NotLeader{Leader: leader, Term: 3}); e == nil {
		err.AddDetail(d)
	}
	return err
}

// Submit implements slotwisev1connect.ClientServiceHandler.
func (f *fakeMaster) Submit(_ context.Context, r *slotwisev1.SubmitRequest) (*slotwisev1.SubmitResponse, error) {
	f.asked.Add(1)
	if !f.leads.Load() {
		return nil, f.refusal()
	}
	f.seen <- r.RequestId
	return &slotwisev1.SubmitResponse{Job: "j1"}, nil
}

func newFakeMaster(t *testing.T) *fakeMaster {
	f := &fakeMaster{seen: make(chan string, 10)}
	mux := http.NewServeMux()
	mux.Handle(slotwisev1connect.NewClientServiceHandler(f))
	mux.HandleFunc("/leader", func(w http.ResponseWriter, _ *http.Request) {
		leader, _ := f.leader.Load().(string)
		if !f.leads.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(w, leader+"\n")
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	f.host = strings.TrimPrefix(s.URL, "http://")
	return f
}

func caller(t *testing.T, probes bool, hosts ...string) slotwisev1connect.ClientServiceClient {
	return slotwisev1connect.NewClientServiceClient(httpCaller(t, probes, hosts...), "http://"+hosts[0])
}

func httpCaller(t *testing.T, probes bool, hosts ...string) *http.Client {
	base, list, err := secure.ParseMasters(strings.Join(hosts, ","))
	if err != nil {
		t.Fatal(err)
	}
	c := secure.ToLeader(&http.Client{Transport: &http.Transport{}}, base, list, probes)
	t.Cleanup(c.CloseIdleConnections)
	if secure.ToLeader(c, base, slices.Clone(list), probes) != c {
		t.Error("the transport is wrapped twice")
	}
	return c
}

// TestToLeader calls a list of which the last master leads. A follower that names the leader costs
// one request, whether the list has the leader or not; one that knows none makes the next one come.
func TestToLeader(t *testing.T) {
	for name, named := range map[string]bool{"named": true, "unnamed": false} {
		t.Run(name, func(t *testing.T) {
			a, b, c := newFakeMaster(t), newFakeMaster(t), newFakeMaster(t)
			c.leads.Store(true)
			list := []string{a.host, b.host, c.host}
			if named {
				a.leader.Store(c.host)
				list = list[:2]
			}
			rpc := caller(t, false, list...)
			for range 2 {
				if _, err := rpc.Submit(t.Context(), &slotwisev1.SubmitRequest{RequestId: "r"}); err != nil {
					t.Fatal(err)
				}
				if got := <-c.seen; got != "r" {
					t.Errorf("the leader got %q", got)
				}
			}
			if a.asked.Load() != 1 || c.asked.Load() != 2 || named != (b.asked.Load() == 0) {
				t.Errorf("requests: %d, %d, %d", a.asked.Load(), b.asked.Load(), c.asked.Load())
			}
		})
	}
}

// TestNoLeader calls masters during an election: the error says that no leader is known, each master
// gets at most two requests, and a later call finds the new leader.
func TestNoLeader(t *testing.T) {
	a, b := newFakeMaster(t), newFakeMaster(t)
	a.leader.Store(b.host) // which died and came back as a follower
	rpc := caller(t, false, a.host, b.host)
	_, err := rpc.Submit(t.Context(), &slotwisev1.SubmitRequest{})
	if connect.CodeOf(err) != connect.CodeUnavailable || !connect.IsWireError(err) || a.asked.Load() > 2 || b.asked.Load() > 2 {
		t.Errorf("%v after %d and %d requests", err, a.asked.Load(), b.asked.Load())
	}
	b.leads.Store(true)
	if _, err := rpc.Submit(t.Context(), &slotwisev1.SubmitRequest{}); err != nil {
		t.Error(err)
	}
}

// frozen returns the address of a master that accepts connections and never answers, as a process
// does that SIGSTOP has stopped.
func frozen(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// TestFrozenFirst calls masters of which the first is frozen. The others name it as the leader until
// they have elected another one, which the first call reaches before it gives up. A call whose body
// cannot be read again fails, and its repetition reaches the leader.
func TestFrozenFirst(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{true, false} {
		t.Run(fmt.Sprint(again), func(t *testing.T) {
			var err error
			for range 4 { // on a busy machine a call may give up before it is answered
				if err = callFrozenFirst(t, again); err == nil {
					return
				}
			}
			t.Error(err)
		})
	}
}

// callFrozenFirst makes the calls of TestFrozenFirst. again is whether the body can be read again.
func callFrozenFirst(t *testing.T, again bool) error {
	a, b, c := frozen(t), newFakeMaster(t), newFakeMaster(t)
	b.leader.Store(a)
	c.leader.Store(a)
	time.AfterFunc(time.Second, func() {
		c.leads.Store(true)
		b.leader.Store(c.host)
	})
	send := func() error {
		_, err := caller(t, true, a, b.host, c.host).Submit(t.Context(), &slotwisev1.SubmitRequest{RequestId: "r"})
		return err
	}
	if !again {
		h := httpCaller(t, true, a, b.host, c.host)
		send = func() error {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+a+slotwisev1connect.ClientServiceSubmitProcedure, io.NopCloser(strings.NewReader(`{"requestId":"r"}`)))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			resp, err := h.Do(r)
			if err == nil {
				resp.Body.Close()
			}
			return err
		}
		if err := send(); err == nil || errors.Is(err, secure.ErrSilent) || !strings.Contains(err.Error(), c.host) {
			return fmt.Errorf("a body that is gone: %w", err)
		}
	}
	if err := send(); err != nil {
		return err
	}
	if n := len(c.seen); n != 1 || b.asked.Load() != 0 {
		return fmt.Errorf("the leader got %d requests, and the follower %d", n, b.asked.Load())
	}
	return nil
}

// TestSlowLeader calls a leader whose answers all take a second. The follower says that it leads, so the
// call waits, and is made once.
func TestSlowLeader(t *testing.T) {
	t.Parallel()
	b := newFakeMaster(t)
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			asked.Add(1)
			time.Sleep(time.Second)
		}
		time.Sleep(time.Second)
		http.NotFound(w, r)
	}))
	t.Cleanup(s.Close)
	host := strings.TrimPrefix(s.URL, "http://")
	b.leader.Store(host)
	resp, err := httpCaller(t, true, host, b.host).Post(s.URL+"/call", "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound || asked.Load() != 1 || b.asked.Load() != 0 {
		t.Errorf("%s after %d requests, and %d to the follower", resp.Status, asked.Load(), b.asked.Load())
	}
}

// TestSilentMaster calls two frozen masters: the call fails.
func TestSilentMaster(t *testing.T) {
	t.Parallel()
	rpc := caller(t, true, frozen(t), frozen(t))
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	_, err := rpc.Submit(ctx, &slotwisev1.SubmitRequest{})
	if !errors.Is(err, secure.ErrSilent) {
		t.Error(err)
	}
}

// TestBusyMaster calls a master whose answer takes longer than a silent one is given, and that
// answers other requests meanwhile: the call waits for the answer, and reads a body that comes later.
func TestBusyMaster(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			time.Sleep(secure.SilentAfter + 200*time.Millisecond)
			w.WriteHeader(http.StatusServiceUnavailable) // an overloaded master answers so, too: it is no refusal of a follower
			_, _ = io.WriteString(w, "done")
			return
		}
		http.NotFound(w, r)
	}))
	defer s.Close()
	c := secure.ToLeader(s.Client(), s.URL, []string{strings.TrimPrefix(s.URL, "http://")}, true)
	resp, err := c.Get(s.URL + "/slow")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "done" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestFreezesLater calls masters of which the first holds the call, still answers the first probe, and freezes then.
// The call reaches the next leader after its election, and does not wait for its own end.
func TestFreezesLater(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	var isFrozen atomic.Bool
	var probes atomic.Int32
	a := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/alive" && !isFrozen.Load() {
			probes.Add(1)
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		<-over
	}))
	t.Cleanup(a.Close)
	t.Cleanup(func() { close(over) }) // first: Close waits for the requests
	b, c := newFakeMaster(t), newFakeMaster(t)
	host := strings.TrimPrefix(a.URL, "http://")
	b.leader.Store(host)
	c.leader.Store(host)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	go func() {
		for probes.Load() == 0 && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		isFrozen.Store(true)
		c.leads.Store(true)
		b.leader.Store(c.host)
	}()
	if _, err := caller(t, true, host, b.host, c.host).Submit(ctx, &slotwisev1.SubmitRequest{RequestId: "r"}); err != nil || probes.Load() == 0 {
		t.Errorf("%v after %d probes", err, probes.Load())
	}
}
