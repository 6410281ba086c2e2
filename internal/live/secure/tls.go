package secure

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/base/bounds"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// Files names the PEM files of a process. They are read again when they change,
// except the CA file of a client.
type Files struct {
	CA   string // the authority that must have signed the peers' certificates
	Cert string // the certificate of this process, or ""
	Key  string // the key of Cert
}

// Given reports whether the process has a certificate.
func (f Files) Given() bool { return f.Cert != "" || f.Key != "" }

// check verifies that Cert and Key are set together, and that all files can be found. Its errors name the
// variables, too: an exported path that is relative is wrong in another directory.
func (f Files) check() error {
	if (f.Cert == "") != (f.Key == "") {
		return errors.New("--tls-cert and --tls-key must be given together")
	}
	for _, file := range []struct{ flag, variable, path string }{
		{"--tls-ca", "SLOTWISE_TLS_CA", f.CA}, {"--tls-cert", "SLOTWISE_TLS_CERT", f.Cert}, {"--tls-key", "SLOTWISE_TLS_KEY", f.Key},
	} {
		if file.path == "" {
			continue
		}
		if _, err := os.Stat(file.path); err != nil {
			return fmt.Errorf("%s or %s: %w", file.flag, file.variable, err)
		}
	}
	return nil
}

// identityPrefix precedes the role in a certificate's organisation.
const identityPrefix = "slotwise "

// errNoRole reports a certificate without an organisation "slotwise ROLE".
var errNoRole = errors.New("the certificate's organisation names no role")

// certIdentity returns the identity in a verified certificate: its organisation gives
// the role, its common name the user, its organisational units the groups. A certificate
// that names two roles is an error: it would pass as either.
func certIdentity(c *x509.Certificate) (Identity, error) {
	var id Identity
	for _, org := range c.Subject.Organization {
		name, ok := strings.CutPrefix(org, identityPrefix)
		if !ok {
			continue
		}
		if id.Role != "" {
			return Identity{}, errors.New("the certificate's organisations name more than one role")
		}
		role, err := ParseRole(name)
		if err != nil {
			return Identity{}, err
		}
		id = Identity{User: c.Subject.CommonName, Groups: c.Subject.OrganizationalUnit, Role: role}
	}
	switch {
	case id.Role == "":
		return Identity{}, errNoRole
	case id.User == "":
		return Identity{}, errors.New("the certificate has no common name")
	}
	for _, name := range append([]string{id.User}, id.Groups...) {
		if err := bounds.CheckName("the certificate's user or group", name); err != nil {
			return Identity{}, err
		}
	}
	return id, nil
}

// RoleError reports a server whose certificate is valid but belongs to another role, or to
// none. A retry meets the same certificate.
type RoleError struct {
	Want Role
	Why  error // the reason why the certificate does not have the role
}

// Error states the reason and how to get a certificate that clients accept.
func (e *RoleError) Error() string {
	host := ""
	if e.Want == Master {
		host = " --host HOST"
	}
	return fmt.Sprintf("the server's certificate is not a %[1]s's: %[2]v; renew it with \"slotwise certs --dir DIR --role %[1]s --user NAME%[3]s\", "+
		"or sign one for the organisation \"%[4]s%[1]s\"", e.Want, e.Why, host, identityPrefix)
}

// Unwrap returns the reason.
func (e *RoleError) Unwrap() error { return e.Why }

// checkRole returns a *RoleError unless the certificate's organisation names the role. If
// unnamed is set, it accepts a certificate that names no role at all.
func checkRole(c *x509.Certificate, want Role, unnamed bool) error {
	id, err := certIdentity(c)
	if errors.Is(err, errNoRole) && unnamed {
		return nil
	}
	if err == nil && id.Role != want {
		err = fmt.Errorf("it belongs to the %s %s", id.Role, id.User)
	}
	if err != nil {
		return &RoleError{want, err}
	}
	return nil
}

// ServerTLS returns the configuration of a server with a role, Master or Worker. Clients may
// send a certificate. The handshake fails if it has expired or was not signed by the
// authority. Without an authority the server requests none. ServerTLS returns an error if
// the server's own certificate has another role, because clients would refuse it.
func ServerTLS(f Files, role Role) (*tls.Config, error) {
	if !f.Given() {
		return nil, errors.New("a TLS server needs a certificate: set --tls-cert and --tls-key")
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	w := &watchedFile[*tls.Config]{paths: []string{f.Cert, f.Key, f.CA}, load: func() (*tls.Config, error) {
		cert, err := loadPair(f)
		if err != nil {
			return nil, err
		}
		// Users whose system trusts the authority accept a master's certificate without a
		// role (masterOnly). Clients of workers accept none.
		// The message names the variable, because a user may have exported it for commands in the
		// same shell and has given no flag.
		if err := checkRole(cert.Leaf, role, role == Master); err != nil {
			return nil, fmt.Errorf("--tls-cert or SLOTWISE_TLS_CERT, %s: %w", f.Cert, err)
		}
		c := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}}
		// Given, but not required: users may authenticate by tokens instead, and health checks
		// need nothing. The guard decides.
		if f.CA != "" {
			if c.ClientCAs, err = loadPool(f.CA); err != nil {
				return nil, err
			}
			c.ClientAuth = tls.VerifyClientCertIfGiven
		}
		return c, nil
	}}
	first, err := w.get()
	if err != nil {
		return nil, err
	}
	// A listener needs a configuration with a certificate. Each handshake replaces it by the
	// newest version.
	outer := first.Clone()
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c, _ := w.get() // the last valid one while the files are being replaced
		return c, nil
	}
	return outer, nil
}

// loadPair reads a certificate and its key.
func loadPair(f Files) (tls.Certificate, error) {
	key, err := readPrivate(f.Key)
	if err != nil {
		return tls.Certificate{}, err
	}
	cert, err := os.ReadFile(f.Cert)
	if err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return pair, fmt.Errorf("certificate %s, key %s: %w", f.Cert, f.Key, err)
	}
	return pair, nil
}

// loadPool reads the certificates of an authority.
func loadPool(path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", path)
	}
	return pool, nil
}

// ClientTLS returns the configuration of a client of a master. The master's
// certificate must be valid for the name or address in its URL, have the role master, and
// be signed by the authority. If Files names no authority, one of the system's must have
// signed it, and it may name no role.
func ClientTLS(f Files) (*tls.Config, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS13}
	if f.CA != "" {
		pool, err := loadPool(f.CA)
		if err != nil {
			return nil, err
		}
		c.RootCAs = pool
	}
	// Set before the client's own certificate, because clients without one need the check,
	// too.
	masterOnly(c)
	if !f.Given() {
		return c, nil
	}
	w := &watchedFile[*tls.Certificate]{paths: []string{f.Cert, f.Key}, load: func() (*tls.Certificate, error) {
		pair, err := loadPair(f)
		return &pair, err
	}}
	own, err := w.get()
	if err != nil {
		return nil, err
	}
	// A TLS 1.3 server would close the connection without giving this reason.
	if end := own.Leaf.NotAfter; time.Now().After(end) {
		return nil, fmt.Errorf("the certificate %s has expired: it was valid until %s", f.Cert, end.Format(time.RFC3339))
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, _ := w.get() // the last valid one while the files are being replaced
		return pair, nil
	}
	return c, nil
}

// masterOnly adds a check of the server's role to the verification of its name and chain. An
// authority of the cluster also signs certificates of workers, whose keys lie on every
// worker's machine, and they may be valid for the master's name. An authority of the system
// signs certificates without roles, so they are accepted from it.
func masterOnly(c *tls.Config) {
	unnamed := c.RootCAs == nil
	c.VerifyConnection = func(s tls.ConnectionState) error {
		return checkRole(s.PeerCertificates[0], Master, unnamed)
	}
}

// WorkerTLS returns the configuration of a client of workers. Workers come and go
// under changing addresses, so the client does not compare the certificate's name.
// It requires that the authority has signed the certificate for a worker.
func WorkerTLS(f Files) (*tls.Config, error) {
	c, err := ClientTLS(f)
	if err != nil {
		return nil, err
	}
	if c.RootCAs == nil {
		return nil, errors.New("workers are authenticated by the cluster's own authority: set --tls-ca")
	}
	return onlyWorkers(c), nil
}

// onlyWorkers replaces the verification of the peer's name by one of its role.
func onlyWorkers(c *tls.Config) *tls.Config {
	roots := c.RootCAs
	c.InsecureSkipVerify = true // VerifyConnection verifies the chain and the role
	c.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return errors.New("the worker sent no certificate")
		}
		between := x509.NewCertPool()
		// Intermediates that the worker sends are needed to build the chain, and are not trusted
		// by themselves.
		for _, cert := range s.PeerCertificates[1:] {
			between.AddCert(cert)
		}
		_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{
			Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		})
		if err != nil {
			return err
		}
		return checkRole(s.PeerCertificates[0], Worker, false)
	}
	return c
}

// ValidFor reports whether the certificate of a process is valid for a host's name or
// address. A worker's should not be valid for its master's: browsers check the name only.
func (f Files) ValidFor(host string) bool {
	pair, err := loadPair(f)
	return err == nil && pair.Leaf.VerifyHostname(host) == nil
}

// ChildCredentials returns what an attempt needs to fetch map outputs from other
// workers: the authority and no key. An attempt runs the user's code, so it must not
// have the worker's key. It authenticates with its job's secret.
func ChildCredentials(f Files) (*slotwisev1.FetchCredentials, error) {
	if !f.Given() {
		return &slotwisev1.FetchCredentials{}, nil
	}
	if f.CA == "" {
		return nil, errors.New("workers are authenticated by the cluster's own authority: set --tls-ca")
	}
	pem, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, err
	}
	return &slotwisev1.FetchCredentials{Tls: true, CaPem: pem}, nil
}

// ChildTLS returns the TLS configuration for an attempt's credentials, or nil without
// TLS.
func ChildTLS(c *slotwisev1.FetchCredentials) (*tls.Config, error) {
	if !c.GetTls() {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: x509.NewCertPool()}
	if !config.RootCAs.AppendCertsFromPEM(c.CaPem) {
		return nil, errors.New("the credentials for fetching hold no certificate")
	}
	if len(c.CertPem) > 0 {
		pair, err := tls.X509KeyPair(c.CertPem, c.KeyPem)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return onlyWorkers(config), nil
}

// MasterTLS returns the TLS configuration with which a driver calls a master, or nil for
// a URL without TLS. The driver runs the user's code, so it has no certificate, and
// authenticates with its token. If pem is empty, the driver trusts the system's
// authorities.
func MasterTLS(url string, pem []byte) (*tls.Config, error) {
	if !strings.HasPrefix(url, "https:") {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	if len(pem) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("the authority of the master holds no certificate")
		}
	}
	masterOnly(config)
	return config, nil
}
