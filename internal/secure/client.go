package secure

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// Client returns what one needs to ask a master: over TLS if config is not nil,
// with a token if one is given. It has no time-out of its own, since calls are
// held; connecting has.
func Client(config *tls.Config, token string) *http.Client {
	t := &http.Transport{
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSClientConfig:       config,
		TLSHandshakeTimeout:   10 * time.Second,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       time.Minute,
		ExpectContinueTimeout: time.Second,
		ForceAttemptHTTP2:     config != nil,
	}
	if token == "" {
		return &http.Client{Transport: t}
	}
	return &http.Client{Transport: &bearer{t, token}}
}

// bearer adds a token to each request.
type bearer struct {
	next  *http.Transport
	token string
}

var errPlainToken = errors.New("a token is not sent to another machine without TLS: use https:// and --tls-ca")

// RoundTrip implements http.RoundTripper.
func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !local(r.URL.Hostname()) {
		if r.Body != nil {
			_ = r.Body.Close() // as a RoundTripper must
		}
		return nil, errPlainToken
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

// CloseIdleConnections is what http.Client looks for.
func (b *bearer) CloseIdleConnections() { b.next.CloseIdleConnections() }

// local reports whether a host is this machine without asking anybody.
func local(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// ReadToken reads a token from a file that only its owner may read.
func ReadToken(path string) (string, error) {
	data, err := readPrivate(path)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(data))
	if token == "" || strings.ContainsAny(token, " \t\r\n") {
		return "", &os.PathError{Op: "reading a token from", Path: path, Err: errors.New("want one word")}
	}
	return token, nil
}
