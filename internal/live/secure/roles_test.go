package secure

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/slotwise/slotwise/internal/base/durable"
)

// roleCertificates are certificates of one authority, all valid for a server on this machine:
// one of each role, and certificates that an operator's own authority may sign.
var roleCertificates = map[string][]string{ // the organisations in them
	"master": {"slotwise master"}, "worker": {"slotwise worker"}, "user": {"slotwise user"}, "admin": {"slotwise admin"},
	"named master": {"Example Ltd", "slotwise master"},
	"no role":      {"Example Ltd"}, "nothing": nil, "driver": {"slotwise driver"}, "unknown": {"slotwise king"}, "longer": {"slotwise masterful"},
	"two roles": {"slotwise worker", "slotwise master"}, "two roles, turned": {"slotwise master", "slotwise worker"},
}

// newRoles makes an authority and the certificates, and returns the directory. Unlike
// certificates of Issue, all are valid for a server with the master's name.
func newRoles(t *testing.T) *Authority {
	t.Helper()
	a, err := NewAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, orgs := range roleCertificates {
		c, err := template(pkix.Name{CommonName: "me", Organization: orgs}, certificateFor)
		if err != nil {
			t.Fatal(err)
		}
		c.KeyUsage, c.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
		c.DNSNames, c.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &key.PublicKey, a.key)
		if err != nil {
			t.Fatal(err)
		}
		if err := writePair(durable.OS(), a.dir, name+".pem", name+"-key.pem", der, key); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

// impostor is a server with any certificate. It counts the requests that reach it, which
// would carry a token.
type impostor struct {
	*httptest.Server
	requests atomic.Int32
}

func newImpostor(t *testing.T, f Files) *impostor {
	t.Helper()
	pair, err := loadPair(f)
	if err != nil {
		t.Fatal(err)
	}
	s := &impostor{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { s.requests.Add(1) }))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// TestServerRoles connects every kind of client to servers with every certificate. Only a
// master's passes for a master, and only a worker's for a worker. No request, and so no
// token, reaches another server.
func TestServerRoles(t *testing.T) {
	a := newRoles(t)
	own := func(name string) Files { return FilesIn(a.dir, name) }
	pem := mustRead(t, filepath.Join(a.dir, authorityCert))
	config := func(c *tls.Config, err error) *tls.Config {
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	creds, err := ChildCredentials(own("worker"))
	if err != nil {
		t.Fatal(err)
	}
	system := config(ClientTLS(Files{})) // a client that trusts the system's authorities
	pool, err := loadPool(filepath.Join(a.dir, authorityCert))
	if err != nil {
		t.Fatal(err)
	}
	system.RootCAs = pool
	masters, workers := []string{"master", "named master"}, []string{"worker"}
	for client, tt := range map[string]struct {
		config *tls.Config
		trusts []string
	}{
		"user with a token → master":       {config(ClientTLS(Files{CA: own("").CA})), masters},
		"user with a certificate → master": {config(ClientTLS(own("user"))), masters},
		"worker → master":                  {config(ClientTLS(own("worker"))), masters},
		"driver of a chain → master":       {config(MasterTLS("https://localhost", pem)), masters},
		"user of the system's authorities": {system, append([]string{"no role", "nothing"}, masters...)},
		"master → worker":                  {config(WorkerTLS(own("master"))), workers},
		"reduce → worker":                  {config(ChildTLS(creds)), workers},
	} {
		for name := range roleCertificates {
			server := newImpostor(t, own(name))
			c := Client(tt.config.Clone(), "a-token")
			resp, err := c.Get(server.URL)
			if err == nil {
				_ = resp.Body.Close()
			}
			c.CloseIdleConnections()
			trusted := slices.Contains(tt.trusts, name)
			if (err == nil) != trusted || server.requests.Load() > 0 != trusted {
				t.Errorf("%s, server with the certificate %q: %v, %d requests", client, name, err, server.requests.Load())
			}
			if err != nil && (!errors.As(err, new(*RoleError)) || !IsPermanent(err) || !strings.Contains(err.Error(), "slotwise certs --dir DIR --role ")) {
				t.Errorf("%s, server with the certificate %q: the error is %v", client, name, err)
			}
		}
	}
	// The servers themselves refuse to start with a certificate that clients refuse.
	for role, start := range map[Role][]string{Master: {"master", "named master", "no role", "nothing"}, Worker: {"worker"}} {
		for name := range roleCertificates {
			_, err := ServerTLS(own(name), role)
			if (err == nil) != slices.Contains(start, name) || err != nil && !strings.Contains(err.Error(), "SLOTWISE_TLS_CERT") {
				t.Errorf("a %s with the certificate %q: %v", role, name, err)
			}
		}
	}
}

// TestClientRoles makes a request with every certificate to a master and a worker. Each has
// the rights of its role and no others.
func TestClientRoles(t *testing.T) {
	all := []Action{View, Submit, Change, Move, Policy, Nodes, Members, Serve, ShareFile, FetchFile, ReadLogs, Drive, Scrape}
	others := slices.DeleteFunc(slices.Clone(all), func(a Action) bool { return a == Serve })
	allowed := map[string][]Action{
		"master": {ReadLogs}, "named master": {ReadLogs}, "worker": {Serve, FetchFile},
		"user": {View, Submit, ShareFile, FetchFile, Scrape}, "admin": others,
	}
	a := newRoles(t)
	for server, role := range map[string]Role{"master": Master, "worker": Worker} {
		config, err := ServerTLS(FilesIn(a.dir, server), role)
		if err != nil {
			t.Fatal(err)
		}
		guard := &Guard{Certificates: true}
		l, err := Listen("127.0.0.1:0", config, guard)
		if err != nil {
			t.Fatal(err)
		}
		var got []Action
		srv := NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			for _, action := range all {
				if (Rules{}).May(From(r.Context()), action, Subject{Job: "j1", Owner: map[bool]string{true: "me", false: "another"}[action == Submit]}) == nil {
					got = append(got, action)
				}
			}
		}), guard)
		go func() { _ = srv.Serve(l) }()
		t.Cleanup(func() { _ = srv.Close() })
		for name := range roleCertificates {
			pair, err := loadPair(FilesIn(a.dir, name))
			if err != nil {
				t.Fatal(err)
			}
			c := Client(&tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}}, "") // TestServerRoles verifies servers
			got = nil
			resp, err := c.Get("https://" + l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			c.CloseIdleConnections()
			want, known := allowed[name]
			if known != (resp.StatusCode == http.StatusOK) || !slices.Equal(got, want) {
				t.Errorf("%s, client with the certificate %q: %s, may %v; want %v", server, name, resp.Status, got, want)
			}
		}
	}
}

// TestIssuedCertificates checks that only the master's certificate is valid for the master's
// name, because browsers check nothing else.
func TestIssuedCertificates(t *testing.T) {
	a, err := NewAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	hosts := map[Role][]string{Master: {"master.example.org", "10.0.0.1"}, User: {"master.example.org"}, Admin: {"master.example.org"}}
	for _, role := range []Role{Master, Worker, User, Admin} {
		if err := a.Issue(string(role), Identity{User: "me", Role: role}, hosts[role], 0); err != nil {
			t.Fatal(err)
		}
		for _, host := range []string{"master.example.org", "10.0.0.1"} {
			if got := a.Files(string(role)).ValidFor(host); got != (role == Master) {
				t.Errorf("the %s's certificate is valid for %s: %v", role, host, got)
			}
		}
		if got := a.Files(string(role)).ValidFor("localhost"); got {
			t.Errorf("the %s's certificate is valid for localhost", role)
		}
	}
	for _, name := range []string{"a\x1bb", "a\u202eb", "a\nb"} {
		if a.Issue("x", Identity{User: name, Role: User}, nil, 0) == nil || a.Issue("y", Identity{User: "a", Groups: []string{name}, Role: User}, nil, 0) == nil {
			t.Errorf("a certificate for %q", name)
		}
	}
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
