package master

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/slotwise/slotwise/internal/console/source"
	"github.com/slotwise/slotwise/internal/live/secure"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
)

// door is a path of the master's server or a call of a service, with a request that
// concerns job j1 of ann in pool "shared", and who may make it.
type door struct {
	path, method, body, may string
}

// The clients of the test below. mia manages the pool "shared". The driver belongs to a
// chain without j1.
const (
	anybody  = "nobody ann bob mia root w1 m driver"
	users    = "ann bob mia root"
	managers = "ann mia root"
	admins   = "root"
	workers  = "w1"
)

// doors has a row for each path and call. Each row lists the clients that may use it.
var doors = map[string]door{
	"GET /files/{sha}": {"/files/" + sha0, "GET", "", users + " " + workers + " driver"},
	"PUT /files/{sha}": {"/files/" + sha0, "PUT", "x", users},
	"GET /{$}":         {"/", "GET", "", users},
	"GET /ui/":         {"/ui/policy", "GET", "", users},
	"POST /ui/":        {"/ui/jobs/j1/kill", "POST", "", managers},
	"GET /ui/login":    {"/ui/login", "GET", "", anybody},
	"GET /ui/assets/":  {"/ui/assets/x/y", "GET", "", anybody},
	"GET /metrics":     {"/metrics", "GET", "", users},
	"GET /leader":      {"/leader", "GET", "", anybody},
	"GET /healthz":     {"/healthz", "GET", "", anybody},
	"GET /readyz":      {"/readyz", "GET", "", anybody},

	"POST /worker/calls":         {"/worker/calls", "POST", "", workers}, // without an upgrade
	"WorkerService/Register":     {"", "POST", `{"worker":"w9","address":"w9:1","incarnation":"1"}`, workers},
	"WorkerService/Heartbeat":    {"", "POST", `{"session":"SESSION"}`, workers},
	"WorkerService/AskCommit":    {"", "POST", `{"session":"SESSION","attempt":"j1_m_0_0"}`, workers},
	"WorkerService/JobForWorker": {"", "POST", `{"session":"SESSION","job":"j1"}`, workers},
	"WorkerService/KeepLogs":     {"", "POST", `{"session":"SESSION","logs":[{"attempt":"j1_m_0_0"}]}`, workers},
	"WorkerService/MapOutputs":   {"", "POST", `{"session":"SESSION","job":"j1"}`, workers},

	"ClientService/Cluster":       {"", "POST", `{}`, users + " driver"},
	"ClientService/SubmitChain":   {"", "POST", `{"requestId":"y","spec":{"job":{"user":"ann","pool":"shared","program":{"app":"x"}}}}`, "ann root"},
	"GET /masters/files/{sha}":    {"/masters/files/" + sha0, "GET", "", "m"},
	"PUT /masters/files/{sha}":    {"/masters/files/" + sha0, "PUT", "x", "m"},
	"MastersService/Keep":         {"", "POST", `{}`, "m"},
	"MastersService/Identify":     {"", "POST", `{}`, "m"},
	"MastersService/Missing":      {"", "POST", `{}`, "m"},
	"MastersService/Exchange":     {"", "POST", `{}`, "m"},
	"ClientService/Submit":        {"", "POST", `{"requestId":"x","spec":{"user":"ann","pool":"shared","program":{"app":"x"},"synthetic":1}}`, "ann root"},
	"ClientService/Jobs":          {"", "POST", `{}`, users},
	"ClientService/Job":           {"", "POST", `{"job":"j1"}`, users + " driver"},
	"ClientService/Tasks":         {"", "POST", `{"job":"j1"}`, users},
	"ClientService/Log":           {"", "stream", `j1_m_0_0`, managers},
	"ClientService/Nodes":         {"", "POST", `{}`, users},
	"ClientService/Drain":         {"", "POST", `{"node":"w1"}`, admins},
	"ClientService/Masters":       {"", "POST", `{}`, users},
	"ClientService/ChangeMasters": {"", "POST", `{"add":"x:1"}`, admins},
	"MastersService/Install":      {"", "POST", `{}`, "m"},
	"ClientService/Kill":          {"", "POST", `{"job":"j1"}`, managers},
	"ClientService/SetPriority":   {"", "POST", `{"job":"j1","priority":"LOW"}`, managers},
	"ClientService/Move":          {"", "POST", `{"job":"j1","pool":"shared"}`, managers},
	"ClientService/Policy":        {"", "POST", `{}`, users},
	"ClientService/SetPolicy":     {"", "POST", `{"name":"fifo"}`, admins},
	"ClientService/Explain":       {"", "POST", `{"job":"j1"}`, users},
	"ClientService/History":       {"", "POST", `{"job":"j1"}`, users},
	"ClientService/WhatIf":        {"", "POST", `{"kill":["j1"]}`, users},
}

const sha0 = "0000000000000000000000000000000000000000000000000000000000000000"

// doorCase is one running master with a token for each user.
type doorCase struct {
	url     string
	file    string // of the tokens
	tokens  map[string]string
	session string // of worker w1
}

// openDoors starts a master with tokens and job j1 of ann.
func openDoors(t *testing.T) (*Master, *doorCase) {
	t.Helper()
	dir := t.TempDir()
	m, err := Open(Config{Console: newConsole, Dir: filepath.Join(dir, "m"), Authenticates: true, Access: secure.Rules{
		Pools: map[string]secure.Pool{"shared": {Submit: []string{"ann"}, Manage: []string{"mia"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	d := &doorCase{tokens: map[string]string{}}
	file := filepath.Join(dir, "tokens")
	d.file = file
	for user, role := range map[string]secure.Role{"ann": secure.User, "bob": secure.User, "mia": secure.User, "root": secure.Admin, "w1": secure.Worker, "m": secure.Master} {
		if d.tokens[user], err = secure.AddToken(file, secure.Identity{User: user, Role: role}); err != nil {
			t.Fatal(err)
		}
	}
	tokens, err := secure.OpenTokens(file, slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	guard := &secure.Guard{Tokens: tokens, Public: append([]string{"/healthz", "/readyz", "/leader"}, source.Public...), Log: slog.New(slog.DiscardHandler)}
	d.tokens["driver"] = secure.NewToken()
	guard.Driver = func(_ context.Context, token string) (secure.Identity, bool, error) {
		return secure.Identity{User: "ann", Role: secure.Driver, Chain: "c7"}, token == d.tokens["driver"], nil
	}
	l, err := secure.Listen("127.0.0.1:0", nil, guard)
	if err != nil {
		t.Fatal(err)
	}
	srv := secure.NewServer(m.Handler(), guard)
	go srv.Serve(l)
	t.Cleanup(func() { srv.Close() })
	d.url = "http://" + l.Addr().String()
	session, err := workerService{m}.Register(t.Context(), &slotwisev1.RegisterRequest{Worker: "w1", Address: "w1:1", Incarnation: "1", MapSlots: 1})
	if err != nil {
		t.Fatal(err)
	}
	d.session = session.Session
	ann := secure.With(t.Context(), secure.Identity{User: "ann", Role: secure.User})
	if _, err := (clientService{m}).Submit(ann, &slotwisev1.SubmitRequest{RequestId: "first", Spec: &slotwisev1.JobSpec{
		Name: "x", Pool: "shared", Program: &slotwisev1.Program{App: "x"}, Synthetic: 1,
	}}); err != nil {
		t.Fatal(err)
	}
	return m, d
}

// status makes a request as a user and returns the status of the answer.
func (d *doorCase) status(t *testing.T, x door, user string) int {
	t.Helper()
	if x.method == "stream" {
		stream, err := slotwisev1connect.NewClientServiceClient(secure.Client(nil, d.tokens[user]), d.url).
			Log(t.Context(), &slotwisev1.LogRequest{Attempt: x.body})
		if err == nil {
			for stream.Receive() {
			}
			err = stream.Err()
		}
		return map[connect.Code]int{connect.CodeUnauthenticated: http.StatusUnauthorized, connect.CodePermissionDenied: http.StatusForbidden}[connect.CodeOf(err)]
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, x.method, d.url+x.path, strings.NewReader(strings.ReplaceAll(x.body, "SESSION", d.session)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := secure.Client(nil, d.tokens[user]).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// TestDoors makes each request as each user. It fails if a path or a call has no row.
func TestDoors(t *testing.T) {
	t.Parallel()
	m, d := openDoors(t)
	var names []string
	for _, r := range m.routes() {
		if !strings.HasPrefix(r.pattern, "/slotwise.v1.") {
			names = append(names, r.pattern)
		}
	}
	services := map[string]protoreflect.ServiceDescriptor{
		"ClientService":  slotwisev1.File_slotwise_v1_client_proto.Services().ByName("ClientService"),
		"MastersService": slotwisev1.File_slotwise_v1_masters_proto.Services().ByName("MastersService"),
		"WorkerService":  slotwisev1.File_slotwise_v1_worker_proto.Services().ByName("WorkerService"),
	}
	if want := len(m.routes()) - len(names); want != len(services) {
		t.Errorf("the master serves %d services; this test knows %d", want, len(services))
	}
	for service, desc := range services {
		for i := range desc.Methods().Len() {
			names = append(names, service+"/"+string(desc.Methods().Get(i).Name()))
		}
	}
	slices.Sort(names)
	for _, name := range names {
		x, ok := doors[name]
		if !ok {
			t.Errorf("%s has no row in doors: add who may use it", name)
			continue
		}
		if x.path == "" {
			x.path = "/slotwise.v1." + name
		}
		for _, user := range strings.Fields(anybody) {
			status := d.status(t, x, user)
			refused := status == http.StatusUnauthorized || status == http.StatusForbidden
			if may := slices.Contains(strings.Fields(x.may), user); refused == may {
				t.Errorf("%s as %s: %d, want allowed: %v", name, user, status, may)
			}
			if user == "nobody" && refused && status != http.StatusUnauthorized {
				t.Errorf("%s without a token: %d, want 401", name, status)
			}
		}
	}
	if len(names) != len(doors) {
		t.Errorf("%d rows for %d paths and calls", len(doors), len(names))
	}
}

// TestUnknownPaths requests paths that do not exist, which reveal nothing to strangers.
func TestUnknownPaths(t *testing.T) {
	t.Parallel()
	_, d := openDoors(t)
	for _, path := range []string{"/debug/pprof/", "/files/", "/files/../metrics", "//metrics", "/metrics/", "/slotwise.v1.Other/Call", "/healthz/x"} {
		for user, want := range map[string]int{"nobody": 401, "bob": 404, "w1": 404} {
			got := d.status(t, door{path, "GET", "", ""}, user)
			if got != want && (user == "nobody" || got < 400) && !strings.Contains(path, "//") && !strings.Contains(path, "..") {
				t.Errorf("%s as %s: %d", path, user, got)
			}
			if user == "nobody" && got == http.StatusOK {
				t.Errorf("%s without a token: %d", path, got)
			}
		}
	}
}

// TestWorkerNeedsUsers registers a worker that runs jobs as their users. A master without
// authentication refuses it, a master with tokens accepts it.
func TestWorkerNeedsUsers(t *testing.T) {
	t.Parallel()
	open := newRig(t, Config{})
	register := &slotwisev1.RegisterRequest{Worker: "w7", Address: "w7:1", Incarnation: "1", NeedsUsers: true}
	_, err := open.workers.Register(t.Context(), register)
	if connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), "authenticates nobody") {
		t.Errorf("error %v", err)
	}
	nodes, err := open.users.Nodes(t.Context(), &slotwisev1.NodesRequest{})
	if err != nil || len(nodes.GetNodes()) != 0 {
		t.Errorf("the master lists %v, %v", nodes, err)
	}
	_, c := openDoors(t)
	client := slotwisev1connect.NewWorkerServiceClient(&http.Client{Transport: secure.Bearer(http.DefaultTransport, c.tokens["w1"])}, c.url)
	register.Worker = "w1"
	if _, err := client.Register(t.Context(), register); err != nil {
		t.Errorf("a master with tokens: %v", err)
	}
}
