package master

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/slotwise/slotwise/internal/live/secure"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// registerAt registers the worker again, with the address of a server.
func (w *fakeWorker) registerAt(address string) *slotwisev1.RegisterResponse {
	w.r.t.Helper()
	resp, err := w.r.workers.Register(w.r.t.Context(), &slotwisev1.RegisterRequest{
		Worker: w.name, Address: strings.TrimPrefix(address, "http://"), MapSlots: 1, Incarnation: "1", Running: []string{"j1_m_0_0"},
	})
	if err != nil {
		w.r.t.Fatal(err)
	}
	w.session, w.seq, w.acked = resp.Session, 0, 0
	return resp
}

// TestLogProxy lets servers of several kinds answer at a worker's address. The master
// passes on only the worker's own answers and contacts no other server.
func TestLogProxy(t *testing.T) {
	t.Parallel()
	const text = "printed by the attempt"
	var reached atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reached.Store(true)
		io.WriteString(w, text)
	}))
	defer other.Close()
	var key secure.SessionKey
	proven := func(h http.HandlerFunc) http.Handler {
		return (&secure.Guard{Session: &key, Log: slog.New(slog.DiscardHandler)}).Wrap(h)
	}
	prints := func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) }
	for _, x := range []struct {
		name    string
		open    bool // the master has no authentication
		handler http.Handler
		want    string // of the log, or
		fails   string // of the error
	}{
		{"the worker", false, proven(prints), text, ""},
		{"another server", false, http.HandlerFunc(prints), "", "did not prove"},
		{"an error of another server", false, http.NotFoundHandler(), "", "did not prove"},
		{"an error of the worker", false, proven(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no log", http.StatusNotFound) }), "", "no log"},
		{"a redirect of another server", false, http.RedirectHandler(other.URL, http.StatusFound), "", "did not prove"},
		{"a redirect of the worker", false, proven(http.RedirectHandler(other.URL, http.StatusFound).ServeHTTP), "", "302"},
		{"an open cluster", true, http.HandlerFunc(prints), text, ""},
		{"a redirect in an open cluster", true, http.RedirectHandler(other.URL, http.StatusFound), "", "302"},
	} {
		t.Run(x.name, func(t *testing.T) {
			srv := httptest.NewServer(x.handler)
			defer srv.Close()
			r := newRig(t, Config{Authenticates: !x.open})
			w := r.worker("w1", 1, 0)
			r.submit(r.spec(1, 0, ""))
			w.awaitLaunch("j1_m_0_0")
			resp := w.registerAt(srv.URL)
			if x.open != (len(resp.Key) == 0) {
				t.Errorf("the session has a key of %d bytes", len(resp.Key))
			}
			key.Set(resp.Key)
			stream, err := r.users.Log(t.Context(), &slotwisev1.LogRequest{Attempt: "j1_m_0_0"})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for stream.Receive() {
				got += string(stream.Msg().Data)
			}
			if got != x.want {
				t.Errorf("the log is %q, want %q", got, x.want)
			}
			if err := stream.Err(); x.fails != "" && (err == nil || !strings.Contains(err.Error(), x.fails)) || x.fails == "" && err != nil {
				t.Errorf("error %v, want %q", err, x.fails)
			}
			if reached.Load() {
				t.Error("the master has followed a redirect")
			}
		})
	}
}

// TestNamedWorkers registers workers with credentials that belong to one name.
func TestNamedWorkers(t *testing.T) {
	t.Parallel()
	m, err := Open(Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, x := range []struct {
		who  secure.Identity
		name string
		ok   bool
	}{
		{secure.Identity{User: "w1", Role: secure.Worker, Groups: []string{boundName}}, "w1", true},
		{secure.Identity{User: "w1", Role: secure.Worker, Groups: []string{boundName}}, "w2", false},
		{secure.Identity{User: "worker", Role: secure.Worker}, "w2", true},
	} {
		_, err := workerService{m}.Register(secure.With(t.Context(), x.who), &slotwisev1.RegisterRequest{Worker: x.name, Address: "a:1", Incarnation: "1"})
		if (err == nil) != x.ok {
			t.Errorf("%s as %s: %v", x.who, x.name, err)
		}
	}
}
