package secure

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener of in-process connections, so that a test can control their
// clock (testing/synctest).
type pipes struct {
	c    chan net.Conn
	done chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.c:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p pipes) Close() error   { close(p.done); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p pipes) dial() net.Conn {
	a, b := net.Pipe()
	p.c <- b
	return a
}

// startSlow serves h on pipes until the test ends.
func startSlow(t *testing.T, h http.HandlerFunc) pipes {
	p := pipes{make(chan net.Conn), make(chan struct{})}
	srv := NewServer(h, &Guard{Log: slog.New(slog.DiscardHandler)})
	done := make(chan struct{})
	go func() {
		_ = srv.Serve(p)
		close(done)
	}()
	t.Cleanup(func() {
		_ = srv.Close()
		<-done
	})
	return p
}

// ended waits until the server closes c and returns how long that took.
func ended(c net.Conn) time.Duration {
	began := time.Now()
	_, _ = io.Copy(io.Discard, c)
	return time.Since(began)
}

func TestSlowHeadIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startSlow(t, func(http.ResponseWriter, *http.Request) { t.Error("a request came through") })
		c := p.dial()
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			for {
				if _, err := io.WriteString(c, "G"); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}()
		if d := ended(c); d > headerTime+time.Second {
			t.Errorf("it held out for %v", d)
		}
		<-gone
	})
}

func TestSlowBodyIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := make(chan error, 1)
		p := startSlow(t, func(_ http.ResponseWriter, r *http.Request) {
			_, err := io.Copy(io.Discard, r.Body)
			failed <- err
		})
		c := p.dial()
		began := time.Now()
		_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nab")
		var timeout net.Error
		if err := <-failed; !errors.As(err, &timeout) || !timeout.Timeout() || time.Since(began) > bodyTime+time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		_ = c.Close()
	})
}

// A body that keeps arriving may take any time, and so may a handler. The connection
// stays open.
func TestPatientWithTheSteady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startSlow(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				if b, err := io.ReadAll(r.Body); err != nil || len(b) != 10 {
					t.Errorf("%q, %v", b, err)
				}
			}
			time.Sleep(10 * time.Minute)
			if err := r.Context().Err(); err != nil {
				t.Errorf("a held request ended: %v", err)
			}
			_, _ = io.WriteString(w, "done")
		})
		c := p.dial()
		answers := bufio.NewReader(c)
		for _, head := range []string{"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"} {
			_, _ = io.WriteString(c, head)
			if strings.HasPrefix(head, "POST") {
				for range 10 {
					time.Sleep(bodyTime - time.Second)
					_, _ = io.WriteString(c, "x")
				}
			}
			resp, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatal(err)
			}
			if b, err := io.ReadAll(resp.Body); string(b) != "done" || err != nil {
				t.Errorf("%q, %v", b, err)
			}
			time.Sleep(2 * time.Minute) // less than idleTime
		}
		_ = c.Close()
	})
}

// The server closes the connection of a client that stops reading a long response.
func TestSlowReaderIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := make(chan error, 2)
		p := startSlow(t, func(w http.ResponseWriter, r *http.Request) {
			var err error
			if r.URL.Path == "/copy" {
				_, err = io.CopyN(w, strings.NewReader(strings.Repeat("x", 1<<20)), 1<<20)
			} else {
				_, err = w.Write(make([]byte, 1<<20))
			}
			failed <- err
		})
		for _, path := range []string{"/copy", "/write"} {
			c := p.dial()
			began := time.Now()
			_, _ = io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
			var timeout net.Error
			if err := <-failed; !errors.As(err, &timeout) || !timeout.Timeout() || time.Since(began) > answerTime+time.Second {
				t.Errorf("%s: %v after %v", path, err, time.Since(began))
			}
			_ = c.Close()
		}
	})
}

func TestIdleConnectionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startSlow(t, func(http.ResponseWriter, *http.Request) {})
		c := p.dial()
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if d := ended(c); d > idleTime+time.Second {
			t.Errorf("it held out for %v", d)
		}
	})
}

// ReadFrom sends a file completely, whatever the chunk size.
func TestReadFromIsWhole(t *testing.T) {
	const n = 2*deadlineChunk + 77
	synctest.Test(t, func(t *testing.T) {
		p := startSlow(t, func(w http.ResponseWriter, r *http.Request) {
			body := strings.NewReader(strings.Repeat("x", n+100))
			if got, err := io.CopyN(w, body, n); got != n || err != nil {
				t.Errorf("%d, %v", got, err)
			}
			if body.Len() != 100 {
				t.Errorf("%d left over", body.Len())
			}
		})
		c := p.dial()
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.Copy(io.Discard, resp.Body); got != n || err != nil {
			t.Errorf("%d, %v", got, err)
		}
	})
}

// DNS rebinding: a request whose host name resolves to this machine is refused.
func TestOpenServerKnowsItsName(t *testing.T) {
	h := new(Guard).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !From(r.Context()).Open {
			t.Error("the guard is not open")
		}
	}))
	for host, status := range map[string]int{
		"localhost": 200, "localhost:7077": 200, "127.0.0.1:7077": 200, "127.0.0.2": 200, "[::1]:7077": 200, "[::1]": 200,
		"evil.example": 401, "evil.example:7077": 401, "localhost.evil.example": 401, "": 401, "10.0.0.1:80": 401,
	} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != status {
			t.Errorf("host %q: %d, want %d", host, w.Code, status)
		}
	}
}

func TestTokenNeedsTLS(t *testing.T) {
	c := Client(nil, "secret")
	if _, err := c.Get("http://192.0.2.1/"); !errors.Is(err, errPlainToken) {
		t.Errorf("got %v", err)
	}
}
