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
	"strings"
	"time"
)

// Client returns what one needs to ask a master: over TLS if config is not nil,
// with a token if one is given. It has no time-out of its own, since calls are
// held; connecting has, and a connection whose other end is gone without a word
// is found out within half a minute.
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
	if token == "" {
		return &http.Client{Transport: &hinting{t}}
	}
	return &http.Client{Transport: Bearer(&hinting{t}, token)}
}

// Dial returns a master's URL and what to ask it with, as the flags --tls-… and
// --token-file say. Nothing is sent yet. With certificates, an address without a
// scheme means TLS.
func Dial(master string, files Files, tokenFile string) (url string, c *http.Client, err error) {
	token := ""
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
		if files != (Files{}) {
			scheme = "https://"
		}
		master = scheme + master
	}
	return master, Client(config, token), nil
}

// hinting tells those that forget TLS what is wrong.
type hinting struct{ *http.Transport }

var errSpeaksTLS = errors.New("the other side speaks TLS: use https:// or say with --tls-ca whom to trust")

// plainAnswer is what the standard library's servers say then.
const plainAnswer = "Client sent an HTTP request to an HTTPS server"

// RoundTrip implements http.RoundTripper.
func (h *hinting) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := h.Transport.RoundTrip(r)
	if err != nil || r.URL.Scheme != "http" || resp.StatusCode != http.StatusBadRequest || !resp.Close {
		return resp, err
	}
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // what there is of it
	_ = resp.Body.Close()
	if strings.HasPrefix(string(said), plainAnswer) {
		return nil, errSpeaksTLS
	}
	resp.Body = io.NopCloser(bytes.NewReader(said))
	return resp, nil
}

// Bearer adds a token to each request that goes over TLS or to this machine, and
// refuses others. A nil next is http.DefaultTransport.
func Bearer(next http.RoundTripper, token string) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport
	}
	return &bearer{next, token}
}

type bearer struct {
	next  http.RoundTripper
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
func (b *bearer) CloseIdleConnections() {
	if c, ok := b.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// local reports whether a host is this machine without asking anybody.
func local(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Hopeless reports whether a request failed because the two sides do not agree on
// who they are, so that trying again is of no use.
func Hopeless(err error) bool {
	var alert *net.OpError
	return errors.Is(err, errSpeaksTLS) || errors.Is(err, errPlainToken) ||
		errors.As(err, new(*tls.CertificateVerificationError)) ||
		errors.As(err, &alert) && alert.Op == "remote error"
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
