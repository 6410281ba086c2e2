package secure

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Client returns an HTTP client for calls to a master. It uses TLS if config is not
// nil and sends the token if it is not empty. Requests have no time-out, since the
// master holds long polls; callers use contexts. Connecting has one, and a
// connection whose peer vanished is closed within half a minute.
func Client(config *tls.Config, token string) *http.Client {
	t := &http.Transport{
		DialContext: (&net.Dialer{Timeout: 10 * time.Second, KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3,
		}}).DialContext,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second},
		TLSClientConfig:       config,
		TLSHandshakeTimeout:   10 * time.Second,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       time.Minute,
		ExpectContinueTimeout: time.Second,
		ForceAttemptHTTP2:     config != nil,
	}
	// A connection of HTTP/2 cannot be upgraded.
	upgrades := &http.Transport{DialContext: t.DialContext, TLSHandshakeTimeout: t.TLSHandshakeTimeout, IdleConnTimeout: t.IdleConnTimeout}
	if config != nil {
		upgrades.TLSClientConfig = config.Clone()
		upgrades.TLSClientConfig.NextProtos = []string{"http/1.1"}
	}
	if token == "" {
		return &http.Client{Transport: &hintingTransport{t, upgrades}}
	}
	return &http.Client{Transport: Bearer(&hintingTransport{t, upgrades}, token)}
}

// PodAudience is the audience of the service account tokens that masters accept.
const PodAudience = "slotwise"

// The files of a pod's identity. A client without other credentials uses them if they exist.
const (
	podToken = "token"  // a token of the pod's service account for PodAudience
	podCA    = "ca.pem" // the authority of the master's certificate
)

// podDir is the directory in which a pod mounts its identity. Tests change it.
var podDir = "/var/run/secrets/slotwise"

// withPod returns the pod's authority and a function that reads the pod's token. It returns the
// given files and nil if the user gives a token or a certificate, or if the pod has mounted no
// token.
func withPod(files Files, tokenFile string) (Files, func() (string, error)) {
	path := filepath.Join(podDir, podToken)
	// Credentials that the user names win over the pod's, which belong to the pod's service
	// account.
	if tokenFile != "" || files.Cert != "" || !isFile(path) {
		return files, nil
	}
	if ca := filepath.Join(podDir, podCA); files.CA == "" && isFile(ca) {
		files.CA = ca
	}
	// Kubernetes replaces the token before it expires, and its file is readable for all users
	// of the pod.
	return files, func() (string, error) {
		b, err := os.ReadFile(path)
		return strings.TrimSpace(string(b)), err
	}
}

func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}

// Dial returns the URL of a master, or of the first of a list with commas and the others, and an
// HTTP client, from the values of the flags --tls-… and --token-file. It sends nothing. An address without a scheme gets
// https:// if files names any certificate and http:// otherwise. In a pod of Kubernetes that
// mounts an identity, that one is used if no other is given.
func Dial(master string, files Files, tokenFile string) (url string, c *http.Client, err error) {
	token := ""
	files, fromPod := withPod(files, tokenFile)
	if tokenFile != "" {
		if token, err = ReadToken(tokenFile); err != nil {
			return "", nil, fmt.Errorf("--token-file: %w", err)
		}
	}
	config, err := ClientTLS(files)
	if err != nil {
		return "", nil, err
	}
	if !strings.Contains(master, "://") {
		scheme := "http://"
		// Certificates are of use with TLS only, so naming one says that the master speaks TLS.
		if files != (Files{}) {
			scheme = "https://"
		}
		master = scheme + master
	}
	c = Client(config, token)
	if fromPod != nil {
		c.Transport = &bearer{c.Transport, fromPod}
	}
	return master, c, nil
}

// hintingTransport replaces the answer that a TLS server gives to a plain HTTP request
// by an error that says so.
type hintingTransport struct {
	*http.Transport
	upgrades *http.Transport // of requests that upgrade their connection
}

var errSpeaksTLS = errors.New("the server speaks TLS: use an https:// address, or name the cluster's authority with --tls-ca")

// plainAnswer begins the answer of a net/http TLS server to a plain HTTP request.
const plainAnswer = "Client sent an HTTP request to an HTTPS server"

// RoundTrip implements http.RoundTripper.
func (h *hintingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	t := h.Transport
	if r.Header.Get("Upgrade") != "" {
		t = h.upgrades
	}
	resp, err := t.RoundTrip(r)
	if err != nil || r.URL.Scheme != "http" || resp.StatusCode != http.StatusBadRequest || !resp.Close {
		return resp, err
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // a partial body is enough
	_ = resp.Body.Close()
	if strings.HasPrefix(string(body), plainAnswer) {
		return nil, errSpeaksTLS
	}
	// Another answer of this status is the caller's, so the bytes that were read are put back.
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// Bearer returns a transport that adds a token to each request. It refuses requests
// without TLS to other machines, which would reveal the token. A nil next means
// http.DefaultTransport.
func Bearer(next http.RoundTripper, token string) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport
	}
	return &bearer{next, func() (string, error) { return token, nil }}
}

type bearer struct {
	next  http.RoundTripper
	token func() (string, error)
}

var errPlainToken = errors.New("refusing to send a token to another machine without TLS: use an https:// address and --tls-ca")

// RoundTrip implements http.RoundTripper.
func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !local(r.URL.Hostname()) {
		if r.Body != nil {
			_ = r.Body.Close() // the contract of http.RoundTripper
		}
		return nil, errPlainToken
	}
	token, err := b.token()
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // the contract of http.RoundTripper
		}
		return nil, err
	}
	// A RoundTripper must not change the request of its caller, who may send it again.
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return b.next.RoundTrip(r)
}

// CloseIdleConnections forwards http.Client.CloseIdleConnections, which finds it by
// type assertion.
func (b *bearer) CloseIdleConnections() {
	if c, ok := b.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// local reports whether host is this machine, without a DNS query.
func local(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// IsPermanent reports whether a request failed because of certificates, TLS settings
// or a token, so that a retry cannot succeed.
func IsPermanent(err error) bool {
	var alert *net.OpError
	return errors.Is(err, errSpeaksTLS) || errors.Is(err, errPlainToken) ||
		errors.As(err, new(*tls.CertificateVerificationError)) || errors.As(err, new(*RoleError)) ||
		errors.As(err, &alert) && alert.Op == "remote error"
}

// ReadToken reads a token from a file. It refuses a file that everyone can read.
func ReadToken(path string) (string, error) {
	data, err := readPrivate(path)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(data))
	if token == "" || strings.ContainsAny(token, " \t\r\n") {
		return "", &os.PathError{Op: "reading a token from", Path: path, Err: errors.New("the file must hold one token and nothing else")}
	}
	return token, nil
}
