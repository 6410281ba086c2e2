package serverstest

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// forwarder passes connections on from a loopback address of its own. A
// NameNode knows a DataNode by the address that its connection comes from, and
// without this all would come from 127.0.0.1.
type forwarder struct {
	l    net.Listener
	from string
	to   string
	mu   struct {
		sync.Mutex
		conns  map[net.Conn]struct{}
		closed bool
	}
}

// forward listens on host from and passes what comes on to address to.
func forward(from, to string) (*forwarder, error) {
	l, err := net.Listen("tcp4", net.JoinHostPort(from, "0"))
	if err != nil {
		return nil, err
	}
	f := &forwarder{l: l, from: from, to: to}
	f.mu.conns = map[net.Conn]struct{}{}
	go f.serve()
	return f, nil
}

func (f *forwarder) addr() string { return f.l.Addr().String() }

func (f *forwarder) serve() {
	for {
		in, err := f.l.Accept()
		if err != nil {
			return
		}
		go f.connect(in)
	}
}

// connect passes a connection on. It waits until the other side is there, for a
// DataNode that is refused sleeps for five seconds.
func (f *forwarder) connect(in net.Conn) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(f.from)}}
	for f.keep(in) {
		out, err := dialer.Dial("tcp4", f.to)
		if err != nil {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		if f.keep(out) {
			go f.pipe(in, out)
			f.pipe(out, in)
		}
		return
	}
}

// keep remembers a connection, or closes it if the forwarder is closed.
func (f *forwarder) keep(conn net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.closed {
		_ = conn.Close()
	} else {
		f.mu.conns[conn] = struct{}{}
	}
	return !f.mu.closed
}

// pipe copies one direction; the end of either ends both.
func (f *forwarder) pipe(dst, src net.Conn) {
	_, _ = io.Copy(dst, src) // an error is the end of the connection
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range []net.Conn{dst, src} {
		delete(f.mu.conns, c)
		_ = c.Close()
	}
}

func (f *forwarder) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.closed = true
	err := f.l.Close()
	for c := range f.mu.conns {
		err = errors.Join(err, c.Close())
	}
	return err
}
