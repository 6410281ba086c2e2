package cli

import (
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/live/client"
	"github.com/slotwise/slotwise/internal/live/secure"
	"github.com/slotwise/slotwise/internal/testkit/clustertest"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
)

// secureCluster is a cluster in which every process has a certificate.
type secureCluster struct {
	*testCluster
	certs   string            // directory of the authority
	tokens  map[string]string // by user
	workers []*clustertest.Worker
}

func newSecureCluster(t *testing.T) *secureCluster {
	c := &secureCluster{certs: filepath.Join(t.TempDir(), "certs"), tokens: map[string]string{}}
	a, err := secure.NewAuthority(c.certs)
	if err != nil {
		t.Fatal(err)
	}
	hosts := []string{"127.0.0.1"}
	for name, id := range map[string]secure.Identity{
		"server": {User: "master", Role: secure.Master}, "worker": {User: "worker", Role: secure.Worker},
		"ana": {User: "ana", Role: secure.User}, "admin": {User: "root", Role: secure.Admin},
	} {
		if err := a.Issue(name, id, hosts, 0); err != nil {
			t.Fatal(err)
		}
	}
	tokens := filepath.Join(c.certs, "tokens")
	for user, role := range map[string]secure.Role{"bob": secure.User, "eve": secure.User, "join": secure.Worker} {
		if c.tokens[user], err = secure.AddToken(tokens, secure.Identity{User: user, Role: role}); err != nil {
			t.Fatal(err)
		}
	}
	c.testCluster = newTestClusterAt(t, hosts[0], append(c.flags("server"), "--tokens", tokens, "--storage-root", "file:///", "--pool-acl", "closed=eve")...)
	c.URL = "https" + strings.TrimPrefix(c.URL, "http")
	for _, name := range []string{"w1", "w2"} {
		c.workers = append(c.workers, c.StartWorker(name, c.flags("worker")...))
	}
	return c
}

// flags returns the flags that make a command use a certificate, or only trust
// the authority.
func (c *secureCluster) flags(cert string) []string {
	f := secure.FilesIn(c.certs, cert)
	if cert == "" {
		return []string{"--tls-ca", f.CA}
	}
	return []string{"--tls-ca", f.CA, "--tls-cert", f.Cert, "--tls-key", f.Key}
}

// token returns the flags of a user with a token.
func (c *secureCluster) token(user string) []string {
	return append(c.flags(""), "--token-file", c.private(user+".token", c.tokens[user]))
}

// private makes a file that only its owner may read.
func (c *secureCluster) private(name, text string) string {
	path := c.Write(name, text)
	if err := os.Chmod(path, 0o600); err != nil {
		c.T.Fatal(err)
	}
	return path
}

// http returns a client of the master with a certificate, or an anonymous one without.
func (c *secureCluster) http(cert string) *http.Client { return c.client(cert, secure.ClientTLS) }

// workerHTTP is http for a client of workers.
func (c *secureCluster) workerHTTP(cert string) *http.Client {
	return c.client(cert, secure.WorkerTLS)
}

func (c *secureCluster) client(cert string, tlsOf func(secure.Files) (*tls.Config, error)) *http.Client {
	f := secure.FilesIn(c.certs, cert)
	if cert == "" {
		f = secure.Files{CA: f.CA}
	}
	config, err := tlsOf(f)
	if err != nil {
		c.T.Fatal(err)
	}
	h := secure.Client(config, "")
	c.T.Cleanup(h.CloseIdleConnections)
	return h
}

// ask returns a client of the master with a certificate.
func (c *secureCluster) ask(cert string) *client.Client {
	cl, err := client.New(c.URL, client.Options{HTTP: c.http(cert), Patience: -1})
	if err != nil {
		c.T.Fatal(err)
	}
	return cl
}

// works runs a job as bob and checks its output.
func (c *secureCluster) works(output string) {
	c.T.Helper()
	want := c.Words("in/a.txt", 2_000)
	c.Must(append([]string{"wordcount", "in", "--output", output, "--split-size", "16KiB", "--reduces", "2"}, c.token("bob")...)...)
	if got := c.Lines(output); !slices.Equal(got, want) {
		c.T.Errorf("%s: %d lines, want %d", output, len(got), len(want))
	}
}

// ports returns the addresses of all processes, the master first.
func (c *secureCluster) ports() []string {
	all := []string{strings.TrimPrefix(c.URL, "https://")}
	for _, w := range c.workers {
		all = append(all, w.Address())
	}
	return all
}

// TestAccess makes forbidden requests to a cluster of real processes, and sends garbage
// to each port. The cluster rejects and logs every such request, and jobs still run.
func TestAccess(t *testing.T) {
	t.Parallel()
	c := newSecureCluster(t)
	c.works("before")
	t.Run("others' jobs", func(t *testing.T) { othersJobs(t, c) })
	t.Run("workers", func(t *testing.T) { strangeWorkers(t, c) })
	t.Run("worker's pages", func(t *testing.T) { workersPages(t, c) })
	t.Run("chains", func(t *testing.T) { chainsOfUsers(t, c) })
	t.Run("oversized", func(t *testing.T) { oversized(t, c) })
	t.Run("garbage", func(t *testing.T) { garbage(t, c) })
	c.works("after")
}

func othersJobs(t *testing.T, c *secureCluster) {
	jobs, err := c.ask("ana").RPC().Jobs(t.Context(), &slotwisev1.JobsRequest{Ended: true})
	if err != nil || len(jobs.Jobs) != 1 || jobs.Jobs[0].User != "bob" {
		t.Fatalf("%v, %v", jobs, err)
	}
	// The master lets an administrator kill the job, which has ended.
	for cert, want := range map[string]connect.Code{"": connect.CodeUnauthenticated, "ana": connect.CodePermissionDenied, "worker": connect.CodePermissionDenied, "admin": connect.CodeFailedPrecondition} {
		_, err := c.ask(cert).RPC().Kill(t.Context(), &slotwisev1.KillRequest{Job: jobs.Jobs[0].Id})
		if got := connect.CodeOf(err); err == nil && want != 0 || err != nil && got != want {
			t.Errorf("%q kills bob's job: %v", cert, err)
		}
	}
	for cert, want := range map[string]connect.Code{"": connect.CodeUnauthenticated, "ana": connect.CodePermissionDenied, "admin": 0} {
		log, err := c.ask(cert).RPC().Log(t.Context(), &slotwisev1.LogRequest{Attempt: jobs.Jobs[0].Id + "_m_0_0"})
		for err == nil && log.Receive() {
		}
		if err == nil {
			err = log.Err()
		}
		if got := connect.CodeOf(err); err == nil && want != 0 || err != nil && got != want {
			t.Errorf("%q reads bob's log: %v", cert, err)
		}
	}
	for _, args := range [][]string{c.flags(""), append(c.flags(""), "--token-file", c.private("wrong.token", secure.NewToken()))} {
		if status, out := c.Submit(append([]string{"wordcount", "in", "--output", "none"}, args...)...); status == 0 {
			t.Errorf("submitted without a name: %s", out)
		}
	}
	if status, out := c.Submit(append([]string{"wordcount", "in", "--output", "before"}, c.token("eve")...)...); status == 0 {
		t.Errorf("eve wrote over bob's output: %s", out)
	}
	c.Master.Says("does not know this token")
}

// chainsOfUsers runs a chain as bob, whose driver calls the master over TLS with its own
// token, and has others submit and kill chains.
func chainsOfUsers(t *testing.T, c *secureCluster) {
	c.Write("points.txt", "1,2\n3,4\n9,9\n")
	c.Must(append([]string{"kmeans", "points.txt", "--output", "kmeans", "--param", "k=2", "--param", "iterations=3"}, c.token("bob")...)...)
	if got := c.Lines("kmeans"); len(got) != 2 {
		t.Errorf("kmeans: %q", got)
	}
	resp, err := c.ask("ana").RPC().Job(t.Context(), &slotwisev1.JobRequest{Job: "chain-1", Steps: true})
	if err != nil || resp.Job.User != "bob" || len(resp.Steps) == 0 {
		t.Fatalf("%v, %v", resp, err)
	}
	for _, s := range resp.Steps {
		if s.User != "bob" {
			t.Errorf("step %s belongs to %s", s.Id, s.User)
		}
	}
	// The chain has ended, which only those learn who may kill it.
	for cert, want := range map[string]connect.Code{"": connect.CodeUnauthenticated, "ana": connect.CodePermissionDenied, "worker": connect.CodePermissionDenied, "admin": connect.CodeFailedPrecondition} {
		_, err := c.ask(cert).RPC().Kill(t.Context(), &slotwisev1.KillRequest{Job: "chain-1"})
		if got := connect.CodeOf(err); got != want {
			t.Errorf("%q kills bob's chain: %v", cert, err)
		}
	}
	for _, args := range [][]string{{"--user", "ana"}, {"--pool", "closed"}} {
		if status, out := c.Submit(append(append([]string{"kmeans", "points.txt", "--output", "none"}, args...), c.token("bob")...)...); status == 0 || !strings.Contains(out, "may not submit") {
			t.Errorf("%v: %d %s", args, status, out)
		}
	}
}

// strangeWorkers come without a certificate, with a user's, and with a user's
// token.
func strangeWorkers(t *testing.T, c *secureCluster) {
	_, err := slotwisev1connect.NewWorkerServiceClient(c.http(""), c.URL).Register(t.Context(), &slotwisev1.RegisterRequest{Worker: "x"})
	if connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("nobody registers: %v", err)
	}
	asWorker := func(user string) []string { return append(c.flags("worker"), c.token(user)[2:]...) }
	for name, x := range map[string]struct {
		flags []string
		says  string
	}{
		"ana": {c.flags("ana"), "--tls-cert "},
		"eve": {asWorker("eve"), "worker is up"}, // it gets as far as asking
	} {
		p := c.Start(name, append([]string{"worker", "--master", c.URL, "--dir", filepath.Join(c.Dir, name), "--name", name}, x.flags...)...)
		p.Ends()
		if log := p.Log.String(); strings.Contains(log, "registered") || !strings.Contains(log, x.says) {
			t.Errorf("%s is a worker, or failed for another reason: %s", name, log)
		}
	}
	_, err = slotwisev1connect.NewWorkerServiceClient(c.http("ana"), c.URL).Register(t.Context(), &slotwisev1.RegisterRequest{Worker: "x"})
	if connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("ana registers: %v", err)
	}
	c.StartWorker("joined", asWorker("join")...) // one that may, by a token
	resp, err := c.ask("admin").RPC().Nodes(t.Context(), &slotwisev1.NodesRequest{})
	if err != nil || len(resp.Nodes) != 3 {
		t.Errorf("%v, %v", resp, err)
	}
}

// workersPages requests the workers' pages with and without permission.
func workersPages(t *testing.T, c *secureCluster) {
	for _, tt := range []struct {
		cert, path string
		status     int
	}{
		{"", "/healthz", 200}, {"", "/metrics", 401}, {"ana", "/metrics", 200},
		{"", "/v1/logs/j1_m_0_0", 401}, {"ana", "/v1/logs/j1_m_0_0", 403}, {"worker", "/v1/logs/j1_m_0_0", 403},
		{"admin", "/v1/logs/j1_m_0_0/../../../etc/passwd", 404}, {"admin", "/v1/logs/..%2f..%2fname", 400},
		{"", "/v1/outputs/j1/j1_m_0_0/0", 403}, {"admin", "/v1/outputs/j1/j1_m_0_0/0", 403},
		{"", "/v1/outputs/..%2f..%2fname/x/0", 400}, {"", "/v1/outputs/../logs/j1_m_0_0", 401}, {"", "/", 401},
	} {
		resp, err := c.workerHTTP(tt.cert).Get("https://" + c.workers[0].Address() + tt.path)
		if err != nil {
			t.Errorf("%s as %q: %v", tt.path, tt.cert, err)
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode != tt.status {
			t.Errorf("%s as %q: %s, want %d", tt.path, tt.cert, resp.Status, tt.status)
		}
	}
}

// oversized sends requests that are larger than the servers' limits.
func oversized(t *testing.T, c *secureCluster) {
	cl := c.ask("ana")
	huge := &slotwisev1.JobSpec{Name: strings.Repeat("x", 100<<20)}
	if _, err := cl.RPC().Submit(t.Context(), &slotwisev1.SubmitRequest{RequestId: "x", Spec: huge}); connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("a message of 100 MiB: %.200v", err)
	}
	for i, addr := range c.ports() {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+addr+"/healthz", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Long", strings.Repeat("x", 1<<20))
		h := c.http("ana")
		if i > 0 {
			h = c.workerHTTP("ana")
		}
		if resp, err := h.Do(r); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("%s: a head of 1 MiB: %s", addr, resp.Status)
			}
		}
	}
}

// garbage goes to each port, plainly and through TLS, and connections are left
// half open meanwhile.
func garbage(t *testing.T, c *secureCluster) {
	random := rand.New(rand.NewPCG(1, 2))
	toMaster, err := secure.ClientTLS(secure.FilesIn(c.certs, "ana"))
	if err != nil {
		t.Fatal(err)
	}
	toMaster.ServerName = "127.0.0.1"
	toWorkers, err := secure.WorkerTLS(secure.FilesIn(c.certs, "ana"))
	if err != nil {
		t.Fatal(err)
	}
	for n, addr := range c.ports() {
		config, h := toMaster, c.http("")
		if n > 0 {
			config, h = toWorkers, c.workerHTTP("")
		}
		for i := range 60 {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close() // half open until then
			if i%3 == 0 {
				conn = tls.Client(conn, config)
			}
			_, _ = conn.Write(junk(random)) // may have been hung up on
			if i%2 == 0 {
				_ = conn.Close()
			}
		}
		resp, err := h.Get("https://" + addr + "/healthz")
		if err != nil {
			t.Errorf("%s does not answer any more: %v", addr, err)
			continue
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	for _, p := range []*clustertest.Process{c.Master, c.workers[0].Process, c.workers[1].Process} {
		p.Says("connection refused or broken")
	}
}

// junk is bytes that begin like something or like nothing.
func junk(r *rand.Rand) []byte {
	heads := []string{
		"", "GET / HTTP/1.1\r\n", "POST /slotwise.v1.ClientService/Submit HTTP/1.1\r\nHost: x\r\nContent-Type: application/proto\r\nContent-Length: 99999999999\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x16\x03\x01\x40\x00\x01", "POST /slotwise.v1.WorkerService/Heartbeat HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffff\r\n",
		fmt.Sprintf("GET /%s HTTP/1.1\r\n\r\n", strings.Repeat("../", 100)),
	}
	b := []byte(heads[r.IntN(len(heads))])
	for range r.IntN(2000) {
		b = append(b, byte(r.Uint32()))
	}
	return b
}
