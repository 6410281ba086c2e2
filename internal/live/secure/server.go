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

	"github.com/slotwise/slotwise/internal/base/bounds"
)

// Limits on clients that are slow, by accident or on purpose.
const (
	headerTime = 10 * time.Second // for the TLS handshake, and for a request's header
	// idleTime is far longer than the pauses of a worker, so its connection of frames stays open between two
	// jobs.
	idleTime   = 3 * time.Minute  // for the next request on a connection
	bodyTime   = 30 * time.Second // for the next bytes of a request's body
	answerTime = time.Minute      // for the client to accept the next bytes of a response
	headerSize = 64 << 10         // bytes of a request's header
)

// Listen opens a TCP listener, with TLS if config is not nil. It refuses an address
// other than loopback unless config is set and the guard authenticates. The addresses of clients
// share the connections.
func Listen(addr string, config *tls.Config, g *Guard) (net.Listener, error) {
	return ListenMost(addr, config, g, mostConnections())
}

// ListenMost is Listen with at most most connections, which the clients' addresses share.
func ListenMost(addr string, config *tls.Config, g *Guard, most int64) (net.Listener, error) {
	at, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", addr, err)
	}
	// An address without a host means all interfaces, and has no IP that could be loopback.
	if !at.IP.IsLoopback() && (config == nil || !g.Authenticates()) {
		return nil, fmt.Errorf("%s: refusing to listen where other machines can connect without TLS and authentication: "+
			"set --tls-cert and --tls-key, and --tls-ca or --tokens, or listen on 127.0.0.1; "+
			"\"slotwise certs\" creates certificates for a first try", addr)
	}
	tcp, err := net.ListenTCP("tcp", at)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", addr, err)
	}
	l := newConnections(tcp, most, g.log())
	if config != nil {
		return tls.NewListener(l, config), nil
	}
	return l, nil
}

// NewServer returns a server for a listener of Listen. The guard authenticates its
// requests. Requests and responses may take any time as long as bytes move, and a
// handler may hold a request for any time. Errors of connections are logged at a
// limited rate.
func NewServer(h http.Handler, g *Guard) *http.Server {
	return &http.Server{
		Handler:           limitIdle(g.Wrap(h)),
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    headerSize,
		ConnState:         noteState,
		HTTP2: &http.HTTP2Config{
			// A client of a service with many waiting calls uses one connection. A worker's calls are frames and no
			// streams.
			MaxConcurrentStreams: 256,
			SendPingTimeout:      30 * time.Second,
			PingTimeout:          15 * time.Second,
			WriteByteTimeout:     answerTime,
		},
		ErrorLog: log.New(&connectionLog{log: g.log()}, "", 0),
	}
}

// connectionLog logs the lines of http.Server.ErrorLog at a limited rate.
type connectionLog struct {
	log   *slog.Logger
	limit bounds.LogLimit
}

// Write implements io.Writer.
func (p *connectionLog) Write(b []byte) (int, error) {
	if n, ok := p.limit.Allow(time.Now()); ok {
		p.log.Warn("connection refused or broken", "why", string(bytes.TrimSpace(b)), "unlogged", n)
	}
	return len(b), nil
}

// limitIdle ends requests whose client stops sending or accepting bytes for the limits
// above.
func limitIdle(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		// The previous request on this connection has set one, and net/http sends this by itself.
		if r.Header.Get("Expect") != "" {
			_ = c.SetWriteDeadline(time.Time{})
		}
		if r.Body != nil && r.Body != http.NoBody {
			r.Body = &idleLimitedBody{ReadCloser: r.Body, c: c}
		}
		out := &idleLimitedWriter{ResponseWriter: w, c: c}
		next.ServeHTTP(out, r)
		out.extend() // for bytes that are still buffered
	})
}

// idleLimitedBody is a request's body. Each read must get bytes within bodyTime.
// There is no limit between reads.
type idleLimitedBody struct {
	io.ReadCloser
	c *http.ResponseController
}

// Read implements io.Reader.
func (b *idleLimitedBody) Read(p []byte) (int, error) {
	// The errors of deadlines are dropped: the connection is gone then, and the read next to them reports it.
	_ = b.c.SetReadDeadline(time.Now().Add(bodyTime))
	n, err := b.ReadCloser.Read(p)
	_ = b.c.SetReadDeadline(time.Time{})
	return n, err
}

// idleLimitedWriter is a response. The client must accept each write within
// answerTime.
type idleLimitedWriter struct {
	http.ResponseWriter
	c        *http.ResponseController
	extended time.Time // when the deadline was last moved
}

// deadlineChunk is the number of bytes that ReadFrom sends under one deadline.
const deadlineChunk = 4 << 20

// extend moves the deadline of the next write, unless that was done just now: it costs more than
// writing a short answer into a buffer.
func (w *idleLimitedWriter) extend() {
	if now := time.Now(); now.Sub(w.extended) > answerTime/60 {
		w.extended = now
		_ = w.c.SetWriteDeadline(now.Add(answerTime))
	}
}

// Write implements io.Writer.
func (w *idleLimitedWriter) Write(b []byte) (int, error) {
	w.extend()
	return w.ResponseWriter.Write(b)
}

// ReadFrom implements io.ReaderFrom, so that the kernel can send a file without copying
// it through this process (sendfile).
func (w *idleLimitedWriter) ReadFrom(r io.Reader) (total int64, err error) {
	limit := int64(1<<63 - 1)
	outer, limited := r.(*io.LimitedReader)
	if limited {
		r, limit = outer.R, outer.N
	}
	for total < limit {
		// In pieces, because one deadline for a file of any size would end slow downloads that
		// make progress.
		w.extend()
		want := min(limit-total, deadlineChunk)
		n, err := io.Copy(w.ResponseWriter, &io.LimitedReader{R: r, N: want})
		total += n
		// The caller reads from its LimitedReader's count how much was sent, so the count is kept
		// as io.Copy would.
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
func (w *idleLimitedWriter) Flush() {
	w.extend()
	_ = w.c.Flush()
}

// Unwrap returns the underlying writer for http.ResponseController.
func (w *idleLimitedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
