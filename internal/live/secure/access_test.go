package secure

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
)

// logBuffer collects the log of a server.
type logBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// whoami is a service that returns the identity of the caller.
type whoami struct {
	slotwisev1connect.UnimplementedClientServiceHandler
}

func (whoami) Cluster(ctx context.Context, _ *slotwisev1.ClusterRequest) (*slotwisev1.ClusterResponse, error) {
	return &slotwisev1.ClusterResponse{User: From(ctx).String()}, nil
}

// site is a server with an authority and tokens.
type site struct {
	dir, addr, token string
	log              *logBuffer
	guard            *Guard
}

func newSite(t testing.TB) *site {
	t.Helper()
	s := &site{dir: t.TempDir(), log: &logBuffer{}}
	a, err := NewAuthority(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, id := range map[string]Identity{
		"server": {User: "m", Role: Master}, "worker": {User: "w1", Role: Worker},
		"ana": {User: "ana", Role: User, Groups: []string{"data"}}, "admin": {User: "root", Role: Admin},
	} {
		if err := a.Issue(name, id, []string{"127.0.0.1", "localhost"}, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Issue("old", Identity{User: "ana", Role: User}, nil, -time.Minute); err != nil {
		t.Fatal(err)
	}
	tokens := filepath.Join(s.dir, "tokens")
	if s.token, err = AddToken(tokens, Identity{User: "bob", Role: User}); err != nil {
		t.Fatal(err)
	}
	file, err := OpenTokens(tokens, slog.New(slog.NewTextHandler(s.log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	s.guard = &Guard{Tokens: file, Certificates: true, Public: []string{"/healthz"}, Log: slog.New(slog.NewTextHandler(s.log, nil))}
	s.addr = s.serve(t, FilesIn(s.dir, "server"), Master)
	return s
}

// serve starts a server of a service and a health page.
func (s *site) serve(t testing.TB, f Files, role Role) (addr string) {
	config, err := ServerTLS(f, role)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(slotwisev1connect.NewClientServiceHandler(whoami{}, connect.WithReadMaxBytes(1<<16)))
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	l, err := Listen("127.0.0.1:0", config, s.guard)
	if err != nil {
		t.Fatal(err)
	}
	srv := NewServer(mux, s.guard)
	done := make(chan struct{})
	go func() {
		_ = srv.Serve(l)
		close(done)
	}()
	t.Cleanup(func() {
		_ = srv.Close()
		<-done
	})
	return l.Addr().String()
}

// ask calls whoami.
func (s *site) ask(t testing.TB, c *tls.Config, token string, r *slotwisev1.ClusterRequest, opts ...connect.ClientOption) (string, error) {
	t.Helper()
	client := Client(c, token)
	defer client.CloseIdleConnections()
	resp, err := slotwisev1connect.NewClientServiceClient(client, "https://"+s.addr, opts...).Cluster(t.Context(), r)
	if err != nil {
		return "", err
	}
	return resp.User, nil
}

func (s *site) client(t testing.TB, f Files) *tls.Config {
	t.Helper()
	c, err := ClientTLS(f)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestWhoIsLetIn(t *testing.T) {
	s, other := newSite(t), newSite(t)
	ca := Files{CA: filepath.Join(s.dir, authorityCert)}
	for _, tt := range []struct {
		name  string
		files Files
		token string
		want  string // who, or
		fails string // the error that the client receives
	}{
		{"user's certificate", FilesIn(s.dir, "ana"), "", "user ana", ""},
		{"admin's certificate", FilesIn(s.dir, "admin"), "", "admin root", ""},
		{"worker's certificate", FilesIn(s.dir, "worker"), "", "worker w1", ""},
		{"token", ca, s.token, "user bob", ""},
		{"token and certificate", FilesIn(s.dir, "worker"), s.token, "user bob", ""},
		{"nothing", ca, "", "", "authentication required"},
		{"wrong token", ca, NewToken(), "", "does not know this token"},
		{"wrong token, right certificate", FilesIn(s.dir, "ana"), "x", "", "does not know this token"},
		{"we do not trust the server", Files{CA: filepath.Join(other.dir, authorityCert)}, s.token, "", "unknown authority"},
	} {
		who, err := s.ask(t, s.client(t, tt.files), tt.token, &slotwisev1.ClusterRequest{})
		if tt.fails == "" && (err != nil || who != tt.want) {
			t.Errorf("%s: %q, %v", tt.name, who, err)
		}
		if hopeless := strings.Contains(tt.fails, "authority"); IsPermanent(err) != hopeless {
			t.Errorf("%s: hopeless is %v of %v", tt.name, !hopeless, err)
		}
		if tt.fails != "" && (err == nil || !strings.Contains(err.Error(), tt.fails)) {
			t.Errorf("%s: %q, %v; want %q", tt.name, who, err, tt.fails)
		}
	}
	s.refusesHandshakes(t, other)
	for _, want := range []string{"authentication required", "does not know this token", "expired", "authority"} {
		s.logs(t, want)
	}
	if strings.Contains(s.log.String(), s.token) {
		t.Error("the log shows a token")
	}
}

// refusesHandshakes sends invalid certificates. The client's error depends on how far
// it was in the handshake when the server closed the connection.
func (s *site) refusesHandshakes(t *testing.T, other *site) {
	for _, f := range []Files{FilesIn(s.dir, "old"), FilesIn(other.dir, "ana")} {
		pair, err := loadPair(f)
		if err != nil {
			t.Fatal(err)
		}
		c := s.client(t, Files{CA: filepath.Join(s.dir, authorityCert)})
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		if who, err := s.ask(t, c, s.token, &slotwisev1.ClusterRequest{}); err == nil {
			t.Errorf("%s: %q is let in", f.Cert, who)
		}
	}
	if _, err := ClientTLS(FilesIn(s.dir, "old")); err == nil || !strings.Contains(err.Error(), "has expired") {
		t.Errorf("our own expired certificate: %v", err)
	}
}

// logs waits until the log contains a text.
func (s *site) logs(t *testing.T, want string) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !strings.Contains(s.log.String(), want); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%q is not in the log:\n%s", want, s.log.String())
		}
	}
}

func TestPlainHTTPIsRefused(t *testing.T) {
	s := newSite(t)
	resp, err := http.Get("http://" + s.addr + "/healthz")
	if err == nil {
		defer resp.Body.Close()
		if resp.StatusCode < 400 {
			t.Errorf("plain HTTP gives %s", resp.Status)
		}
	}
}

func TestHealthIsPublic(t *testing.T) {
	s := newSite(t)
	c := Client(s.client(t, Files{CA: filepath.Join(s.dir, authorityCert)}), "")
	defer c.CloseIdleConnections()
	resp, err := c.Get("https://" + s.addr + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Error(resp.Status)
	}
}

func TestOversized(t *testing.T) {
	s := newSite(t)
	big := &slotwisev1.ClusterRequest{}
	big.ProtoReflect().SetUnknown(append([]byte{0xfa, 0x01, 0x80, 0x80, 0x40}, make([]byte, 1<<20)...)) // a field of 1 MiB
	for _, opt := range [][]connect.ClientOption{nil, {connect.WithSendGzip()}} {
		if _, err := s.ask(t, s.client(t, FilesIn(s.dir, "ana")), "", big, opt...); connect.CodeOf(err) != connect.CodeResourceExhausted {
			t.Errorf("a message of 1 MiB: %v", err)
		}
	}
	c := Client(s.client(t, FilesIn(s.dir, "ana")), strings.Repeat("x", 1<<20))
	defer c.CloseIdleConnections()
	if resp, err := c.Get("https://" + s.addr + "/"); err == nil {
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("a head of 1 MiB: %s", resp.Status)
		}
	}
	s.stillServes(t)
}

func (s *site) stillServes(t testing.TB) {
	t.Helper()
	if who, err := s.ask(t, s.client(t, FilesIn(s.dir, "ana")), "", &slotwisev1.ClusterRequest{}); err != nil || who != "user ana" {
		t.Errorf("afterwards: %q, %v", who, err)
	}
}

// Idle and broken connections must not delay other clients.
func TestHalfOpen(t *testing.T) {
	s := newSite(t)
	var conns []net.Conn
	for i := range 100 {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
		if i%2 == 0 {
			_, _ = c.Write([]byte{0x16, 3, 1}) // the beginning of a handshake
		}
	}
	s.stillServes(t)
	for _, c := range conns {
		_ = c.Close()
	}
	s.stillServes(t)
}

func FuzzGarbage(f *testing.F) {
	s := newSite(f)
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), true)
	f.Add([]byte{0x16, 3, 1, 2, 0, 1}, true)
	f.Add([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00"), false)
	f.Add([]byte("POST /slotwise.v1.ClientService/Cluster HTTP/1.1\r\nContent-Type: application/proto\r\nContent-Length: 9\r\n\r\nxxxxxxxxx"), false)
	config := s.client(f, FilesIn(s.dir, "ana"))
	f.Fuzz(func(t *testing.T, data []byte, plain bool) {
		raw, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		c := raw
		if !plain {
			own := config.Clone()
			own.ServerName = "localhost"
			c = tls.Client(raw, own)
		}
		_, _ = c.Write(data)
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		_, _ = io.Copy(io.Discard, c)
		_ = c.Close()
		s.stillServes(t)
	})
}

func TestListenRefusesTheWorld(t *testing.T) {
	s := newSite(t)
	config, err := ServerTLS(FilesIn(s.dir, "server"), Master)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		addr   string
		config *tls.Config
		guard  *Guard
		ok     bool
	}{
		{"127.0.0.1:0", nil, &Guard{}, true},
		{"localhost:0", nil, &Guard{}, true},
		{"0.0.0.0:0", nil, &Guard{}, false},
		{":0", nil, &Guard{}, false},
		{"[::]:0", nil, s.guard, false},
		{":0", config, &Guard{}, false},
		{":0", config, s.guard, true},
		{"127.0.0.1:99999", nil, &Guard{}, false},
	} {
		l, err := Listen(tt.addr, tt.config, tt.guard)
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.addr, err)
		}
		if err == nil {
			_ = l.Close()
		}
	}
}

// Clients accept a worker's certificate under any address, because they verify its
// role. Attempts need only the authority to fetch from it.
func TestWorkerTLS(t *testing.T) {
	s := newSite(t)
	worker := FilesIn(s.dir, "worker")
	byWorker, byMaster := s.serve(t, worker, Worker), s.addr
	toWorkers, err := WorkerTLS(FilesIn(s.dir, "server"))
	if err != nil {
		t.Fatal(err)
	}
	creds, err := ChildCredentials(worker)
	if err != nil || len(creds.KeyPem) != 0 {
		t.Fatalf("%v, %v", creds, err)
	}
	child, err := ChildTLS(creds)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*tls.Config{"master": toWorkers, "child": child} {
		for addr, ok := range map[string]bool{byWorker: true, byMaster: false} {
			named := c.Clone()
			named.ServerName = "some.pod.that.nobody.knows"
			conn, err := tls.Dial("tcp", addr, named)
			if (err == nil) != ok {
				t.Errorf("%s to %s: %v", name, addr, err)
			}
			if err == nil {
				_ = conn.Close()
			}
		}
	}
	other := newSite(t)
	stranger := other.serve(t, FilesIn(other.dir, "worker"), Worker)
	if conn, err := tls.Dial("tcp", stranger, child); err == nil {
		_ = conn.Close()
		t.Error("a worker of another authority is believed")
	}
}

// The server takes over new certificates without a restart.
func TestCertificatesAreReloaded(t *testing.T) {
	s := newSite(t)
	f := FilesIn(s.dir, "server")
	addr := s.serve(t, f, Master)
	serial := func() string {
		conn, err := tls.Dial("tcp", addr, s.client(t, FilesIn(s.dir, "ana")))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return fmt.Sprint(conn.ConnectionState().PeerCertificates[0].SerialNumber)
	}
	before := serial()
	a, err := OpenAuthority(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Issue("next", Identity{User: "m", Role: Master}, []string{"127.0.0.1"}, 0); err != nil {
		t.Fatal(err)
	}
	next := FilesIn(s.dir, "next")
	for from, to := range map[string]string{next.Key: f.Key, next.Cert: f.Cert} {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(time.Minute); serial() == before; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the new certificate is not used")
		}
	}
}
