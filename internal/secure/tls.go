package secure

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// Files name the certificates of a process, in PEM. They are read again when
// they change, but for the authority of a client.
type Files struct {
	CA   string // of the authority that peers' certificates must come from
	Cert string // the own certificate, "" if there is none
	Key  string // its key
}

// Given reports whether there is an own certificate.
func (f Files) Given() bool { return f.Cert != "" || f.Key != "" }

func (f Files) check() error {
	if (f.Cert == "") != (f.Key == "") {
		return errors.New("a certificate needs its key, and a key its certificate: --tls-cert and --tls-key")
	}
	return nil
}

// identityPrefix begins the organisation that names a certificate's role.
const identityPrefix = "slotwise "

// certIdentity says who a verified certificate is: the role after its
// organisation, the user after its common name, groups after its organisational
// units.
func certIdentity(c *x509.Certificate) (Identity, error) {
	for _, org := range c.Subject.Organization {
		if len(org) > len(identityPrefix) && org[:len(identityPrefix)] == identityPrefix {
			role, err := ParseRole(org[len(identityPrefix):])
			if err != nil {
				return Identity{}, err
			}
			if c.Subject.CommonName == "" {
				return Identity{}, errors.New("the certificate has no common name")
			}
			return Identity{User: c.Subject.CommonName, Groups: c.Subject.OrganizationalUnit, Role: role}, nil
		}
	}
	return Identity{}, errors.New("the certificate's organisation names no role")
}

// ServerTLS is for a server. Peers may show a certificate; one that the
// authority has not signed, or that has run out, ends the handshake. Without an
// authority peers' certificates are not asked for.
func ServerTLS(f Files) (*tls.Config, error) {
	if !f.Given() {
		return nil, errors.New("a TLS server needs a certificate: --tls-cert and --tls-key")
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	w := &watchedFile[*tls.Config]{paths: []string{f.Cert, f.Key, f.CA}, load: func() (*tls.Config, error) {
		cert, err := loadPair(f)
		if err != nil {
			return nil, err
		}
		c := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}}
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
	outer := first.Clone()
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c, _ := w.get() // the last good one, if the files are just being replaced
		return c, nil
	}
	return outer, nil
}

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

// ClientTLS is for one who asks a master. The master must have a certificate of
// the authority (of the system's without one) for the name or address by which
// it is asked.
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
	// The other side would just hang up, in TLS 1.3 too late to say why.
	if end := own.Leaf.NotAfter; time.Now().After(end) {
		return nil, fmt.Errorf("the certificate %s has expired, at %s", f.Cert, end.Format(time.RFC3339))
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, _ := w.get() // the last good one, if the files are just being replaced
		return pair, nil
	}
	return c, nil
}

// WorkerTLS is for one who asks workers. They come and go under any address, so
// what counts is that the authority has signed the certificate for a worker, not
// which name it has.
func WorkerTLS(f Files) (*tls.Config, error) {
	c, err := ClientTLS(f)
	if err != nil {
		return nil, err
	}
	if c.RootCAs == nil {
		return nil, errors.New("workers are recognised by the cluster's own authority: --tls-ca")
	}
	return onlyWorkers(c), nil
}

// onlyWorkers replaces the check of the peer's name by that of its role.
func onlyWorkers(c *tls.Config) *tls.Config {
	roots := c.RootCAs
	c.InsecureSkipVerify = true // what VerifyConnection does takes its place
	c.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return errors.New("the worker shows no certificate")
		}
		between := x509.NewCertPool()
		for _, cert := range s.PeerCertificates[1:] {
			between.AddCert(cert)
		}
		_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{
			Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		})
		if err != nil {
			return err
		}
		id, err := certIdentity(s.PeerCertificates[0])
		if err == nil && id.Role != Worker {
			err = fmt.Errorf("the certificate is that of a %s, not of a worker", id.Role)
		}
		return err
	}
	return c
}

// ChildCredentials are what an attempt needs to fetch from other workers: the
// authority, and no key. An attempt runs the user's code, so it shows that it
// may fetch by its own job's secret alone.
func ChildCredentials(f Files) (*slotwisev1.FetchCredentials, error) {
	if !f.Given() {
		return &slotwisev1.FetchCredentials{}, nil
	}
	if f.CA == "" {
		return nil, errors.New("workers are recognised by the cluster's own authority: --tls-ca")
	}
	pem, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, err
	}
	return &slotwisev1.FetchCredentials{Tls: true, CaPem: pem}, nil
}

// ChildTLS is what an attempt makes of its credentials, nil without TLS.
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
