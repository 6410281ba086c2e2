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
)

// How long certificates hold by default.
const (
	authorityFor   = 5 * 365 * 24 * time.Hour
	certificateFor = 365 * 24 * time.Hour
)

// The authority's files in its directory. Others are NAME.pem and NAME-key.pem.
const (
	authorityCert = "ca.pem"
	authorityKey  = "ca-key.pem"
)

// Authority is a development certificate authority in a directory: good for a
// cluster whose owner is its only user, and to see how things work.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes an authority. The directory is made if need be; one that
// has an authority already is left as it is, with an error.
func NewAuthority(dir string) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
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
	t.IsCA, t.BasicConstraintsValid, t.MaxPathLenZero = true, true, true
	t.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	if err := writePair(dir, authorityCert, authorityKey, der, key); err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &Authority{dir, cert, key}, err
}

// OpenAuthority opens the authority that NewAuthority made.
func OpenAuthority(dir string) (*Authority, error) {
	pair, err := loadPair(Files{Cert: filepath.Join(dir, authorityCert), Key: filepath.Join(dir, authorityKey)})
	if err != nil {
		return nil, err
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok || !pair.Leaf.IsCA {
		return nil, fmt.Errorf("%s does not hold an authority of ours", dir)
	}
	return &Authority{dir, pair.Leaf, key}, nil
}

// Issue makes a certificate and its key, NAME.pem and NAME-key.pem, and refuses
// to replace files. Hosts, names and addresses, are for masters and workers. For
// is how long it holds, 0 for a year; not longer than the authority.
func (a *Authority) Issue(name string, id Identity, hosts []string, valid time.Duration) error {
	if name == "" || strings.ContainsAny(name, `/\`) || name == "." || name == ".." {
		return fmt.Errorf("%q cannot be the name of a file", name)
	}
	if _, err := ParseRole(string(id.Role)); err != nil {
		return err
	}
	if id.User == "" {
		return errors.New("a certificate needs a name")
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
	if t.NotAfter.After(a.cert.NotAfter) {
		t.NotAfter = a.cert.NotAfter
	}
	t.KeyUsage = x509.KeyUsageDigitalSignature
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
	return writePair(a.dir, name+".pem", name+"-key.pem", der, key)
}

// Files names what Issue wrote, and the authority.
func (a *Authority) Files(name string) Files { return FilesIn(a.dir, name) }

// FilesIn names a certificate of an authority's directory.
func FilesIn(dir, name string) Files {
	return Files{
		CA:   filepath.Join(dir, authorityCert),
		Cert: filepath.Join(dir, name+".pem"), Key: filepath.Join(dir, name+"-key.pem"),
	}
}

// template is what all certificates have in common. It holds from an hour ago,
// for machines whose clocks are behind.
func template(name pkix.Name, valid time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{SerialNumber: serial, Subject: name, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(valid)}, nil
}

// writePair writes a certificate and its key for their owner's eyes, both or
// none.
func writePair(dir, certName, keyName string, der []byte, key *ecdsa.PrivateKey) error {
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	keyPath := filepath.Join(dir, keyName)
	if err := writeNew(keyPath, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})); err != nil {
		return err
	}
	certPath := filepath.Join(dir, certName)
	if err := writeNew(certPath, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})); err != nil {
		return errors.Join(err, os.Remove(keyPath))
	}
	_, err = tls.LoadX509KeyPair(certPath, keyPath)
	return err
}

func writeNew(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists and is not overwritten", path)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}
