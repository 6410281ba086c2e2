package s3

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/slotwise/slotwise/internal/testkit/serverstest"
)

// fault is a way in which a request fails. Some faults come before the server has seen
// the request, the others after it has carried the request out.
type fault int

const (
	none        fault = iota
	refuse            // 500, the server sees nothing
	slowDown          // 503 SlowDown, the server sees nothing
	resetBefore       // the connection is cut, the server sees nothing
	resetAfter        // the connection is cut when the server has answered
	truncate          // the answer ends half-way
	stall             // the answer stops half-way
	deny              // 403
	confirm           // an upload is confirmed and not completed
	unknown           // 501, the server sees nothing
)

// proxy passes requests to the server and makes some requests fail.
type proxy struct {
	*httptest.Server
	env []string // variables that lead a client to the proxy
	mu  struct {
		sync.Mutex
		choose func(r *http.Request) fault // set by spoil
		fired  int                         // requests that failed since spoil
	}
	release chan struct{} // ends stalled answers
}

// newProxy starts a proxy of the server.
func newProxy(t *testing.T, server *serverstest.Server) *proxy {
	t.Helper()
	target, err := url.Parse(server.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{release: make(chan struct{})}
	// The signature covers the Host header, so the server must receive the client's.
	pass := &httputil.ReverseProxy{ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
	}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, pass) }))
	t.Cleanup(func() { close(p.release); p.CloseClientConnections(); p.Close() })
	p.env = append(server.Env(), "SLOTWISE_S3_ENDPOINT="+p.URL)
	return p
}

// spoil sets the function that chooses a request's fault; nil means no faults.
func (p *proxy) spoil(choose func(r *http.Request) fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.choose, p.mu.fired = choose, 0
}

func (p *proxy) fired() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.fired
}

func (p *proxy) decide(r *http.Request) fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.choose == nil {
		return none
	}
	f := p.mu.choose(r)
	if f != none {
		p.mu.fired++
	}
	return f
}

func (p *proxy) serve(w http.ResponseWriter, r *http.Request, pass http.Handler) {
	answer := func(status int, code string) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(status)
		if r.Method != http.MethodHead {
			fmt.Fprintf(w, "<Error><Code>%s</Code><Message>injected</Message></Error>", code)
		}
	}
	switch f := p.decide(r); f {
	case none:
		pass.ServeHTTP(w, r)
	case refuse:
		answer(http.StatusInternalServerError, "InternalError")
	case slowDown:
		answer(http.StatusServiceUnavailable, "SlowDown")
	case deny:
		answer(http.StatusForbidden, "AccessDenied")
	case unknown:
		answer(http.StatusNotImplemented, "NotImplemented")
	case confirm:
		fmt.Fprint(w, "<CompleteMultipartUploadResult><Bucket>b</Bucket><ETag>e</ETag></CompleteMultipartUploadResult>")
	case resetBefore:
		cut(w)
	default:
		rec := httptest.NewRecorder()
		pass.ServeHTTP(rec, r)
		if f == resetAfter {
			cut(w)
			return
		}
		for k, v := range rec.Header() {
			w.Header()[k] = v
		}
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes()[:rec.Body.Len()/2])
		if f == stall {
			_ = http.NewResponseController(w).Flush()
			select {
			case <-p.release:
			case <-r.Context().Done():
			}
		}
		panic(http.ErrAbortHandler)
	}
}

// cut resets the connection.
func cut(w http.ResponseWriter) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// is reports whether a request is of the kind that a test names.
func is(r *http.Request, what string) bool {
	q := r.URL.Query()
	switch what {
	case "part":
		return q.Has("partNumber")
	case "initiate":
		return q.Has("uploads") && r.Method == http.MethodPost
	case "make":
		return is(r, "complete") || r.Method == http.MethodPut && !q.Has("partNumber")
	case "complete":
		return q.Has("uploadId") && r.Method == http.MethodPost
	case "list":
		return q.Has("list-type")
	case "get":
		return r.Method == http.MethodGet && !q.Has("list-type") && !strings.Contains(r.URL.Path, "slotwise") &&
			!strings.HasSuffix(r.URL.Path, "_SUCCESS")
	}
	return true
}
