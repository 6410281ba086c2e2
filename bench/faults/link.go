package main

import (
	"net"
	"sync"
	"time"
)

// link passes connections on to an address that may change, and harms them.
type link struct {
	listener net.Listener
	mu       struct {
		sync.Mutex
		target string
		cut    bool
		delay  time.Duration
		flows  chan struct{} // closed while bytes may pass
		open   map[*net.TCPConn]bool
	}
}

// newLink listens on a port of its own.
func newLink() (*link, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	k := &link{listener: l}
	k.mu.open = map[*net.TCPConn]bool{}
	k.mu.flows = make(chan struct{})
	close(k.mu.flows)
	go k.accept()
	return k, nil
}

func (k *link) address() string { return k.listener.Addr().String() }

// to sets where new connections lead.
func (k *link) to(target string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.target = target
}

func (k *link) target() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mu.target
}

func (k *link) accept() {
	for {
		c, err := k.listener.Accept()
		if err != nil {
			return
		}
		go k.join(c.(*net.TCPConn))
	}
}

// join connects one connection to the target, as long as nothing cuts it.
func (k *link) join(c *net.TCPConn) {
	other, err := net.DialTimeout("tcp", k.target(), 5*time.Second)
	if err != nil {
		abort(c)
		return
	}
	d := other.(*net.TCPConn)
	k.mu.Lock()
	if k.mu.cut {
		k.mu.Unlock()
		abort(c)
		abort(d)
		return
	}
	k.mu.open[c], k.mu.open[d] = true, true
	k.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { k.pump(c, d) })
	both.Go(func() { k.pump(d, c) })
	both.Wait()
	k.mu.Lock()
	delete(k.mu.open, c)
	delete(k.mu.open, d)
	k.mu.Unlock()
	c.Close()
	d.Close()
}

// pump copies until one end is closed.
func (k *link) pump(from, to *net.TCPConn) {
	b := make([]byte, 16<<10)
	for {
		n, err := from.Read(b)
		k.mu.Lock()
		flows, delay := k.mu.flows, k.mu.delay
		k.mu.Unlock()
		<-flows
		if n > 0 {
			time.Sleep(delay)
			if _, werr := to.Write(b[:n]); werr != nil {
				from.CloseRead()
				return
			}
		}
		if err != nil {
			to.CloseWrite()
			return
		}
	}
}

// abort closes a connection by a reset.
func abort(c *net.TCPConn) {
	c.SetLinger(0)
	c.Close()
}

// reset breaks all connections that there are.
func (k *link) reset() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	for c := range k.mu.open {
		abort(c)
	}
	return len(k.mu.open)
}

// cut breaks all connections and all new ones until it is called with false.
func (k *link) cut(on bool) {
	k.mu.Lock()
	k.mu.cut = on
	k.mu.Unlock()
	if on {
		k.reset()
	}
}

// slow delays what passes; each piece of at most 16 KiB for itself.
func (k *link) slow(by time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.delay = by
}

// hold lets nothing pass, but keeps connections, until it is called with false.
func (k *link) hold(on bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	select {
	case <-k.mu.flows:
		if on {
			k.mu.flows = make(chan struct{})
		}
	default:
		if !on {
			close(k.mu.flows)
		}
	}
}

// close ends the link and all that goes through it.
func (k *link) close() {
	k.listener.Close()
	k.hold(false)
	k.cut(true)
}
