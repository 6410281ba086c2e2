package secure

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/base/durable"
)

// Default validity of the authority's own certificate and of issued ones.
const (
	// The authority outlives five generations of certificates, so a yearly renewal needs no new authority on
	// each machine.
	authorityFor   = 5 * 365 * 24 * time.Hour
	certificateFor = 365 * 24 * time.Hour
)

// The authority's files in its directory. Others are NAME.pem and NAME-key.pem.
const (
	authorityCert = "ca.pem"
	authorityKey  = "ca-key.pem"
)

// Authority is a certificate authority for development, stored in a directory. It
// suits a cluster with one owner, and trying slotwise out.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority creates an authority in dir, which it creates if needed. It returns an
// error and changes nothing if dir already has an authority.
func NewAuthority(dir string) (*Authority, error) {
	if err := durable.MkdirAll(durable.OS(), dir, 0o700); err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t, err := template(pkix.Name{CommonName: "slotwise development authority"}, authorityFor)
	if err != nil {
		return nil, err
	}
	// MaxPathLenZero: the authority signs certificates of peers only. A stolen key of one can
	// then not sign further ones.
	t.IsCA, t.BasicConstraintsValid, t.MaxPathLenZero = true, true, true
	t.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	if err := writePair(durable.OS(), dir, authorityCert, authorityKey, der, key); err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &Authority{dir, cert, key}, err
}

// OpenAuthority opens an authority that NewAuthority created.
func OpenAuthority(dir string) (*Authority, error) {
	pair, err := loadPair(Files{Cert: filepath.Join(dir, authorityCert), Key: filepath.Join(dir, authorityKey)})
	if err != nil {
		return nil, err
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok || !pair.Leaf.IsCA {
		return nil, fmt.Errorf("%s holds no certificate authority that slotwise created", dir)
	}
	return &Authority{dir, pair.Leaf, key}, nil
}

// Issue writes a new certificate and its key to NAME.pem and NAME-key.pem. It returns
// an error if one of the files exists. hosts lists the DNS names and IP addresses of
// a master or worker and is ignored for other roles. Clients of workers check the role and
// no name. So a worker's certificate needs a host only for others, such as Prometheus, and
// must never have the master's: browsers check the name and no role. valid is the validity, 0 for a
// year; the certificate never outlives the authority.
func (a *Authority) Issue(name string, id Identity, hosts []string, valid time.Duration) error {
	// The name becomes two paths in the authority's directory.
	if name == "" || strings.ContainsAny(name, `/\`) || name == "." || name == ".." {
		return fmt.Errorf("certificate name %q: it becomes a file name, so it must not be empty or contain slashes", name)
	}
	if _, err := ParseRole(string(id.Role)); err != nil {
		return err
	}
	if id.User == "" {
		return errors.New("a certificate needs the name of its user, worker or master")
	}
	// The name appears in lists and logs of the master, which could not show such characters,
	// and the guard refuses a certificate with them.
	for _, name := range append([]string{id.User}, id.Groups...) {
		if err := bounds.CheckName("the name of a certificate's user or group", name); err != nil {
			return err
		}
	}
	if valid == 0 {
		valid = certificateFor
	}
	t, err := template(pkix.Name{
		CommonName: id.User, Organization: []string{identityPrefix + string(id.Role)}, OrganizationalUnit: id.Groups,
	}, valid)
	if err != nil {
		return err
	}
	// Clients reject a certificate with an expired authority, and the error would name the
	// authority instead of this certificate.
	if t.NotAfter.After(a.cert.NotAfter) {
		t.NotAfter = a.cert.NotAfter
	}
	// No key encipherment: TLS 1.3 and the suites of 1.2 that are used sign only.
	t.KeyUsage = x509.KeyUsageDigitalSignature
	// Every role makes calls. Only masters and workers serve, so only their certificates are
	// valid for a server: a user must not be able to pose as one.
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if id.Role == Master || id.Role == Worker {
		t.ExtKeyUsage = append(t.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
		for _, h := range hosts {
			if ip := net.ParseIP(h); ip != nil {
				t.IPAddresses = append(t.IPAddresses, ip)
			} else {
				t.DNSNames = append(t.DNSNames, h)
			}
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return err
	}
	return writePair(durable.OS(), a.dir, name+".pem", name+"-key.pem", der, key)
}

// Files returns the paths of the authority's certificate and of a certificate and key
// that Issue wrote.
func (a *Authority) Files(name string) Files { return FilesIn(a.dir, name) }

// FilesIn returns the same paths without opening the authority.
func FilesIn(dir, name string) Files {
	return Files{
		CA:   filepath.Join(dir, authorityCert),
		Cert: filepath.Join(dir, name+".pem"), Key: filepath.Join(dir, name+"-key.pem"),
	}
}

// template returns a certificate with the fields that all certificates share. It is
// valid from an hour ago, so that machines whose clocks are slow accept it.
func template(name pkix.Name, valid time.Duration) (*x509.Certificate, error) {
	// Random, because several machines may issue certificates with copies of the authority's key and share no
	// counter.
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{SerialNumber: serial, Subject: name, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(valid)}, nil
}

// writePair writes a certificate and its key to new files that only their owner can
// read. It writes both or neither. They are durable when it returns nil.
func writePair(disk durable.FS, dir, certName, keyName string, der []byte, key *ecdsa.PrivateKey) error {
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	// Verified before anything is written: a pair that does not match would be found only when
	// a server starts.
	if _, err := tls.X509KeyPair(certPEM, keyPEM); err != nil {
		return err
	}
	keyPath := filepath.Join(dir, keyName)
	// The key first: a certificate without its key would look complete in a list of the directory.
	if err := writeNew(disk, keyPath, keyPEM); err != nil {
		return err
	}
	if err := writeNew(disk, filepath.Join(dir, certName), certPEM); err != nil {
		// A key alone would make the next call with this name fail.
		return errors.Join(err, disk.Remove(keyPath))
	}
	return disk.SyncDir(dir)
}

// writeNew writes a file that must not exist yet and syncs it. It removes the file if
// that fails.
func writeNew(disk durable.FS, path string, data []byte) error {
	// Never over an existing file: a key cannot be made again, and certificates depend on it.
	f, err := disk.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists; remove it first or choose another name", path)
	}
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, disk.Remove(path))
	}
	return nil
}
