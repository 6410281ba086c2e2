package secure

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Limits on peers that are slow, by mistake or not.
const (
	headerTime = 10 * time.Second // for the handshake, and for a request's head
	idleTime   = 3 * time.Minute  // for the next request on a connection
	bodyTime   = 30 * time.Second // for the next bytes of a request's body
	answerTime = time.Minute      // for a peer to take the next bytes of an answer
	headerSize = 64 << 10         // bytes of a request's head
)

// Listen opens a TCP listener. An address that others than this machine can
// reach is refused unless there is TLS and the guard knows people.
func Listen(addr string, config *tls.Config, g *Guard) (net.Listener, error) {
	at, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", addr, err)
	}
	if !at.IP.IsLoopback() && (config == nil || !g.Knows()) {
		return nil, fmt.Errorf("%s: refused, for others than this machine could connect: "+
			"give a certificate (--tls-cert, --tls-key) and a way to know people (--tls-ca or --tokens), or listen on 127.0.0.1; "+
			"\"slotwise certs\" makes certificates to begin with", addr)
	}
	l, err := net.ListenTCP("tcp", at)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", addr, err)
	}
	if config != nil {
		return tls.NewListener(l, config), nil
	}
	return l, nil
}

// NewServer returns a server for a listener of Listen, behind the guard, with
// limits on heads and on slow peers. Requests and answers may take as long as
// they like while bytes move, and a request may be held as long as the handler
// likes. What connections do wrong is logged, a limited number of times a second.
func NewServer(h http.Handler, g *Guard) *http.Server {
	return &http.Server{
		Handler:           steady(g.Wrap(h)),
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    headerSize,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 256,
			SendPingTimeout:      30 * time.Second,
			PingTimeout:          15 * time.Second,
			WriteByteTimeout:     answerTime,
		},
		ErrorLog: log.New(&pacedLog{log: g.log()}, "", 0),
	}
}

// pacedLog takes the lines of http.Server's log.
type pacedLog struct {
	log  *slog.Logger
	pace pace
}

func (p *pacedLog) Write(b []byte) (int, error) {
	if n, ok := p.pace.pass(time.Now()); ok {
		p.log.Warn("connection refused or broken", "why", string(bytes.TrimSpace(b)), "unlogged", n)
	}
	return len(b), nil
}

// steady ends requests whose peers neither send nor take bytes for long.
func steady(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		_ = c.SetWriteDeadline(time.Time{}) // what the request before left
		if r.Body != nil && r.Body != http.NoBody {
			r.Body = &steadyBody{ReadCloser: r.Body, c: c}
		}
		next.ServeHTTP(&steadyWriter{ResponseWriter: w, c: c}, r)
		_ = c.SetWriteDeadline(time.Now().Add(answerTime)) // for what is still buffered
	})
}

// steadyBody is a request's body whose next bytes must come in time. Between
// reads there is no limit: a handler may take its time.
type steadyBody struct {
	io.ReadCloser
	c *http.ResponseController
}

func (b *steadyBody) Read(p []byte) (int, error) {
	_ = b.c.SetReadDeadline(time.Now().Add(bodyTime))
	n, err := b.ReadCloser.Read(p)
	_ = b.c.SetReadDeadline(time.Time{})
	return n, err
}

// steadyWriter is an answer whose next bytes must be taken in time.
type steadyWriter struct {
	http.ResponseWriter
	c *http.ResponseController
}

// steadyChunk is how many bytes have answerTime together.
const steadyChunk = 4 << 20

func (w *steadyWriter) extend() { _ = w.c.SetWriteDeadline(time.Now().Add(answerTime)) }

func (w *steadyWriter) Write(b []byte) (int, error) {
	w.extend()
	return w.ResponseWriter.Write(b)
}

// ReadFrom keeps the way open for the system to move a file's bytes itself.
func (w *steadyWriter) ReadFrom(r io.Reader) (total int64, err error) {
	limit := int64(1<<63 - 1)
	outer, limited := r.(*io.LimitedReader)
	if limited {
		r, limit = outer.R, outer.N
	}
	for total < limit {
		w.extend()
		want := min(limit-total, steadyChunk)
		n, err := io.Copy(w.ResponseWriter, &io.LimitedReader{R: r, N: want})
		total += n
		if limited {
			outer.N -= n
		}
		if err != nil || n < want {
			return total, err
		}
	}
	return total, nil
}

// Flush implements http.Flusher.
func (w *steadyWriter) Flush() {
	w.extend()
	_ = w.c.Flush()
}

// Unwrap lets http.ResponseController find the writer.
func (w *steadyWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
