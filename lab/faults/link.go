package main

import (
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// link is a TCP proxy that faults can cut, delay or stop. Its target may change, as
// a restarted master listens on another port; open connections keep theirs.
type link struct {
	listener net.Listener
	mu       struct {
		sync.Mutex
		target string                // address that new connections lead to
		cut    bool                  // reset all connections
		delay  time.Duration         // of each piece of data
		lossy  bool                  // a fifth of the pieces arrive late
		flows  chan struct{}         // closed while bytes may pass
		open   map[*net.TCPConn]bool // both ends of all connections
	}
}

// newLink returns a link that listens on a free port of an address and has no target yet.
func newLink(address string) (*link, error) {
	l, err := net.Listen("tcp", address+":0")
	if err != nil {
		return nil, err
	}
	return newLinkOn(l), nil
}

// newLinkOn returns a link that listens with l and has no target yet.
func newLinkOn(l net.Listener) *link {
	k := &link{listener: l}
	k.mu.open = map[*net.TCPConn]bool{}
	k.mu.flows = make(chan struct{})
	close(k.mu.flows)
	go k.accept()
	return k
}

// address is the address that the link listens on.
func (k *link) address() string { return k.listener.Addr().String() }

// to sets the target of new connections.
func (k *link) to(target string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.target = target
}

// target returns the target of new connections.
func (k *link) target() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mu.target
}

// accept runs until the listener is closed.
func (k *link) accept() {
	for {
		c, err := k.listener.Accept()
		if err != nil {
			return
		}
		go k.join(c.(*net.TCPConn))
	}
}

// join connects c to the target and copies in both directions until both ends are
// closed. It resets c if the target cannot be reached or the link is cut.
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

// pump copies one direction of a connection until one end is closed.
func (k *link) pump(from, to *net.TCPConn) {
	b := make([]byte, 16<<10)
	for {
		n, err := from.Read(b)
		k.mu.Lock()
		flows, delay := k.mu.flows, k.mu.delay
		if k.mu.lossy && rand.IntN(5) == 0 {
			delay += retransmission
		}
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

// retransmission is the least time after which Linux sends a lost packet again.
const retransmission = 200 * time.Millisecond

// lose delays a fifth of the pieces of data, as a network does that loses packets.
func (k *link) lose(on bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.lossy = on
}

// abort closes a connection with a reset.
func abort(c *net.TCPConn) {
	c.SetLinger(0)
	c.Close()
}

// reset resets all open connections and returns the number of their ends.
func (k *link) reset() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	for c := range k.mu.open {
		abort(c)
	}
	return len(k.mu.open)
}

// cut(true) resets all open connections and every new one until cut(false).
func (k *link) cut(on bool) {
	k.mu.Lock()
	k.mu.cut = on
	k.mu.Unlock()
	if on {
		k.reset()
	}
}

// slow delays each piece of data of at most 16 KiB.
func (k *link) slow(by time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.delay = by
}

// hold(true) stops all data but keeps the connections open, until hold(false).
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

// close closes the listener and resets all connections.
func (k *link) close() {
	k.listener.Close()
	k.hold(false)
	k.cut(true)
}
