package worker

import (
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/live/secure"
	"github.com/slotwise/slotwise/sched/job"
)

// workerDoors has a row for each path: who gets an answer other than 401 and 403. "master"
// signs its requests with the key of the worker's session.
var workerDoors = map[string]struct{ path, may string }{
	"GET /v1/outputs/{job}/{map}/{part}": {"/v1/outputs/j1/j1_m_0_0/0", ""}, // needs the job's secret
	"GET /v1/logs/{attempt}":             {"/v1/logs/j1_m_0_0", "master root"},
	"GET /metrics":                       {"/metrics", "ann root"},
	"GET /healthz":                       {"/healthz", "nobody forger ann root other master"},
	"GET /readyz":                        {"/readyz", "nobody forger ann root other master"},
}

// doorWorker starts the HTTP server of a worker that has a log of j1_m_0_0.
func doorWorker(t *testing.T, withTokens bool) (w *Worker, tokens map[string]string) {
	t.Helper()
	dir := t.TempDir()
	cfg := Config{Master: "http://127.0.0.1:1", Dir: filepath.Join(dir, "w"), MapSlots: 1, ReduceSlots: -1, Log: slog.New(slog.DiscardHandler)}
	tokens = map[string]string{}
	if withTokens {
		cfg.Tokens = filepath.Join(dir, "tokens")
		for user, role := range map[string]secure.Role{"ann": secure.User, "root": secure.Admin, "other": secure.Worker} {
			var err error
			if tokens[user], err = secure.AddToken(cfg.Tokens, secure.Identity{User: user, Role: role}); err != nil {
				t.Fatal(err)
			}
		}
	}
	w, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	go w.server.Serve(w.listener)
	t.Cleanup(func() {
		w.server.Close()
		w.Close()
	})
	id, err := job.ParseAttempt("j1_m_0_0")
	if err == nil {
		err = os.WriteFile(w.home.logPath(id.String()), []byte("printed"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return w, tokens
}

// TestWorkerDoors makes each request as each client. It fails if a path has no row.
func TestWorkerDoors(t *testing.T) {
	w, tokens := doorWorker(t, true)
	key := []byte("key of the session")
	w.sessionKey.Set(key)
	for _, r := range w.routes() {
		x, ok := workerDoors[r.pattern]
		if !ok {
			t.Errorf("%s has no row in workerDoors: add who may use it", r.pattern)
			continue
		}
		for _, who := range []string{"nobody", "forger", "ann", "root", "other", "master"} {
			var sign []byte
			switch who {
			case "master":
				sign = key
			case "forger":
				sign = []byte("key of another session")
			}
			status := get(t, w, x.path, tokens[who], sign).StatusCode
			refused := status == http.StatusUnauthorized || status == http.StatusForbidden
			if may := strings.Contains(" "+x.may+" ", " "+who+" "); refused == may {
				t.Errorf("%s as %s: %d, want allowed: %v", r.pattern, who, status, may)
			}
		}
	}
	if len(w.routes()) != len(workerDoors) {
		t.Errorf("%d rows for %d paths", len(workerDoors), len(w.routes()))
	}
}

// get requests a path of the worker. With a key it signs the request.
func get(t *testing.T, w *Worker, path, token string, key []byte) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+w.Address()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if key != nil {
		secure.SignRequest(r, key)
	}
	resp, err := secure.Client(nil, token).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp
}

// TestWorkerDoorsBySession follows a worker without certificates and tokens through its
// states. Before it registers it refuses all clients. Then it serves only the master, or
// all clients if the master has no authentication.
func TestWorkerDoorsBySession(t *testing.T) {
	w, _ := doorWorker(t, false)
	key, next := []byte("key 1"), []byte("key 2")
	check := func(when string, wantOpen, wantOld, wantNew int) {
		t.Helper()
		for _, x := range []struct {
			who  string
			key  []byte
			want int
		}{{"nobody", nil, wantOpen}, {"the first session's master", key, wantOld}, {"the second session's master", next, wantNew}} {
			if got := get(t, w, "/v1/logs/j1_m_0_0", "", x.key).StatusCode; got != x.want {
				t.Errorf("%s, %s: %d, want %d", when, x.who, got, x.want)
			}
		}
		if got := get(t, w, "/metrics", "", nil).StatusCode; got != wantOpen {
			t.Errorf("%s, metrics: %d, want %d", when, got, wantOpen)
		}
	}
	check("before registering", 401, 401, 401)
	w.sessionKey.Set(key)
	check("in a session", 401, 200, 401)
	w.sessionKey.Set(next)
	check("in another session", 401, 401, 200)
	w.sessionKey.Set(nil)
	check("with a master that authenticates nobody", 200, 401, 401)
	w.sessionKey.Set(next)
	resp := get(t, w, "/v1/logs/j1_m_0_0", "", next)
	if !secure.VerifyResponse(resp, next) || secure.VerifyResponse(resp, key) {
		t.Error("the worker does not prove that it has the key")
	}
}

// TestSignatureIsForOneRequest uses the signature of one request for another one.
func TestSignatureIsForOneRequest(t *testing.T) {
	w, _ := doorWorker(t, false)
	key := []byte("key")
	w.sessionKey.Set(key)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+w.Address()+"/v1/logs/j1_m_0_1", nil)
	if err != nil {
		t.Fatal(err)
	}
	secure.SignRequest(r, key)
	for _, path := range []string{"/v1/logs/j1_m_0_0", "/v1/logs/j1_m_0_1?follow", "/metrics"} {
		other := r.Clone(t.Context())
		other.URL.Path, other.URL.RawQuery, _ = strings.Cut(path, "?")
		if _, rest, ok := strings.Cut(path, "?"); ok {
			other.URL.Path, other.URL.RawQuery = strings.TrimSuffix(path, "?"+rest), rest
		}
		resp, err := http.DefaultClient.Do(other)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
}
