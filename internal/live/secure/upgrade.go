package secure

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Stream is a connection that a client has upgraded from HTTP. It counts for the client's address
// like a connection with a request. One goroutine may read and another one may write.
//
// The guard has authenticated the request that began it. Valid does so again, because credentials may be
// revoked, replaced or expire while the connection is open.
type Stream struct {
	conn     net.Conn
	in       *bufio.Reader
	reading  deadline
	writing  deadline
	identify func() error
}

// deadline is a deadline of a connection that moves at most 60 times within its limit: setting it costs
// more than a small message.
type deadline struct {
	limit time.Duration
	at    time.Time // when it was set last
}

// due reports whether the deadline must be set to now plus limit.
func (d *deadline) due(now time.Time, limit time.Duration) bool {
	if d.limit == limit && now.Sub(d.at) < limit/60 {
		return false
	}
	d.limit, d.at = limit, now
	return true
}

// ErrNoUpgrade reports a request that does not ask for the protocol, or cannot leave HTTP.
var ErrNoUpgrade = errors.New("this path needs HTTP/1.1 and a request to upgrade the connection")

// Upgrade answers a request with 101 and returns its connection, which the caller must close. The handler
// must not return before. After an error the caller answers the request.
func Upgrade(w http.ResponseWriter, r *http.Request, protocol string) (*Stream, error) {
	// A list, because a proxy may add words.
	words := strings.Split(strings.Join(r.Header.Values("Connection"), ","), ",")
	asks := slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(strings.TrimSpace(w), "upgrade") })
	if !asks || !strings.EqualFold(r.Header.Get("Upgrade"), protocol) {
		return nil, ErrNoUpgrade
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, ErrNoUpgrade // HTTP/2
	}
	s := &Stream{conn: conn, in: buffered.Reader, identify: func() error { return nil }}
	if f, ok := r.Context().Value(identifyKey{}).(func() error); ok {
		s.identify = f
	}
	_, err = io.WriteString(s, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+protocol+"\r\n\r\n")
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return s, nil
}

type identifyKey struct{}

// errOtherIdentity reports credentials that now belong to another client, or give other rights.
var errOtherIdentity = errors.New("the credentials of this connection have other rights now")

// withIdentify returns a context from which Upgrade takes the function that authenticates the request again.
func (g *Guard) withIdentify(ctx context.Context, r *http.Request, id Identity) context.Context {
	return context.WithValue(ctx, identifyKey{}, func() error {
		again, err := g.identify(r, http.Header{})
		if err == nil && !reflect.DeepEqual(again, id) {
			err = errOtherIdentity
		}
		return err
	})
}

// Valid returns an error if the credentials with which the connection began are not valid any more. It takes
// as long as authenticating a request.
func (s *Stream) Valid() error { return s.identify() }

// Await waits for the next byte. The client may be idle for idleTime.
func (s *Stream) Await() error {
	if s.in.Buffered() > 0 {
		return nil
	}
	if now := time.Now(); s.reading.due(now, idleTime) {
		_ = s.conn.SetReadDeadline(now.Add(idleTime))
	}
	_, err := s.in.Peek(1)
	return err
}

// Read implements io.Reader. The client must send the next bytes within bodyTime.
func (s *Stream) Read(p []byte) (int, error) {
	if s.in.Buffered() == 0 {
		if now := time.Now(); s.reading.due(now, bodyTime) {
			_ = s.conn.SetReadDeadline(now.Add(bodyTime))
		}
	}
	return s.in.Read(p)
}

// Write implements io.Writer. The client must accept the bytes within answerTime.
func (s *Stream) Write(p []byte) (int, error) {
	if now := time.Now(); s.writing.due(now, answerTime) {
		_ = s.conn.SetWriteDeadline(now.Add(answerTime))
	}
	return s.conn.Write(p)
}

// Close ends the connection. It may be called several times, and ends Read and Write.
func (s *Stream) Close() error { return s.conn.Close() }
