package serverstest

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// forwarder forwards connections and gives them another source address. A NameNode
// identifies a DataNode by the source address of its connection, and without a
// forwarder all connections would come from 127.0.0.1.
type forwarder struct {
	l    net.Listener
	from string // the loopback address to listen on and to connect from
	to   string // the NameNode
	mu   struct {
		sync.Mutex
		conns  map[net.Conn]struct{}
		closed bool
	}
}

// forward listens on address from and forwards connections to address to.
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

// serve accepts connections until close.
func (f *forwarder) serve() {
	for {
		in, err := f.l.Accept()
		if err != nil {
			return
		}
		go f.connect(in)
	}
}

// connect forwards one connection. It waits until the NameNode accepts connections,
// because a DataNode that is refused sleeps for five seconds.
func (f *forwarder) connect(in net.Conn) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(f.from)}}
	// Until close, which makes keep return false: a NameNode that never starts must not leave this goroutine.
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

// keep registers a connection for close. If the forwarder is closed, keep closes the
// connection and returns false.
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

// pipe copies one direction. The end of one direction closes both connections.
func (f *forwarder) pipe(dst, src net.Conn) {
	_, _ = io.Copy(dst, src) // an error is the end of the connection
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range []net.Conn{dst, src} {
		delete(f.mu.conns, c)
		// Both directions end together. Hadoop's protocols never close only one half of a connection.
		_ = c.Close()
	}
}

// close ends all connections.
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
