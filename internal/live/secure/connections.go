package secure

import (
	"container/list"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/slotwise/slotwise/internal/base/bounds"
)

// connections is a TCP listener that shares its connections among the addresses of clients, by
// the rule of package bounds: a connection is held before there is a user to count it for, and
// a client without credentials may open as many as it likes. The process keeps the other half of
// its descriptors for files.
//
// When an address has its share, its connection that has been idle longest makes room for a new
// one: clients open another when they need one. So also a user who shares the address of a greedy
// client, behind a gateway or on the master's machine, is served. Connections with a request are
// never closed for others.
type connections struct {
	*net.TCPListener
	log   *slog.Logger
	limit bounds.LogLimit
	mu    struct {
		sync.Mutex
		pool *bounds.Pool
		idle map[string]*list.List // of *connection, by address; the longest idle one first
	}
}

// connection is an accepted connection. The kernel can still send files on it, because it is a
// TCPConn.
type connection struct {
	*net.TCPConn
	all  *connections
	from string
	at   *list.Element // in the list of idle ones of its address; nil while it has a request
	gone bool          // it is not counted any more
}

// newConnections returns a listener that divides total connections among its clients.
func newConnections(l *net.TCPListener, total int64, log *slog.Logger) *connections {
	c := &connections{TCPListener: l, log: log}
	c.mu.pool, c.mu.idle = bounds.NewPool(total), map[string]*list.List{}
	return c
}

// mostConnections returns the number of connections that this process shares.
// At least 8, so that a process with few descriptors answers at all.
func mostConnections() int64 { return max(8, min(bounds.Connections, descriptors()/2)) }

// peer returns the address for which a connection counts. A host with one address of IPv6 has
// 2^64 others.
func peer(a net.Addr) string {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return a.String()
	}
	ip := at.Addr().Unmap().WithZone("")
	// Providers give each customer at least a network of 64 bits.
	if ip.Is6() {
		p, _ := ip.Prefix(64) // 64 is a valid length
		return p.String()
	}
	return ip.String()
}

// Accept implements net.Listener. It closes connections for which there is no room, and accepts the next.
func (c *connections) Accept() (net.Conn, error) {
	for {
		tcp, err := c.AcceptTCP()
		if err != nil {
			return nil, err
		}
		// Before TLS: a handshake costs more than all that follows, so a refused address must not get one.
		conn := &connection{TCPConn: tcp, all: c, from: peer(tcp.RemoteAddr())}
		if c.admit(conn) {
			return conn, nil
		}
		_ = tcp.Close() // nothing was sent on it
		if n, ok := c.limit.Allow(time.Now()); ok {
			c.log.Warn("connection refused: the address has as many as it may, and each has a request", "address", conn.from, "unlogged", n)
		}
	}
}

// admit counts a connection, in the place of an idle one if its address has its share.
func (c *connections) admit(conn *connection) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.mu.pool.Take(conn.from, 1) {
		victim := c.victimLocked(conn.from)
		if victim == nil {
			return false
		}
		// Dropped under the lock and before the close: its own Close finds gone set and counts nothing twice.
		c.dropLocked(victim)
		_ = victim.TCPConn.Close() // it is idle, so nothing is lost
		c.mu.pool.Add(conn.from, 1)
	}
	// Without a request it is idle, also before its first one.
	c.idleLocked(conn)
	return true
}

// victimLocked returns the connection that makes room for one of an address: an idle one of the
// same address, or, for an address that holds none, of the one that has most idle ones. nil means
// that all have a request.
func (c *connections) victimLocked(from string) *connection {
	l := c.mu.idle[from]
	// An address without any connection gets one of another's idle ones, so no client is shut out by others' idle
	// connections.
	if c.mu.pool.Held(from) == 0 {
		for _, other := range c.mu.idle { // rare: many addresses hold all that there is
			if l == nil || other.Len() > l.Len() {
				l = other
			}
		}
	}
	if l == nil {
		return nil
	}
	return l.Front().Value.(*connection)
}

// idleLocked makes a connection the one of its address that was idle last.
func (c *connections) idleLocked(conn *connection) {
	l := c.mu.idle[conn.from]
	if l == nil {
		l = list.New()
		c.mu.idle[conn.from] = l
	}
	conn.at = l.PushBack(conn)
}

// busyLocked takes a connection out of the idle ones.
func (c *connections) busyLocked(conn *connection) {
	if conn.at == nil {
		return
	}
	l := c.mu.idle[conn.from]
	l.Remove(conn.at)
	if conn.at = nil; l.Len() == 0 {
		delete(c.mu.idle, conn.from)
	}
}

// dropLocked ends the count of a connection.
func (c *connections) dropLocked(conn *connection) {
	if conn.gone {
		return
	}
	conn.gone = true
	c.busyLocked(conn)
	c.mu.pool.Add(conn.from, -1)
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.all.mu.Lock()
	c.all.dropLocked(c)
	c.all.mu.Unlock()
	return c.TCPConn.Close()
}

// noteState is the ConnState of servers. It knows which connections have a request.
func noteState(c net.Conn, s http.ConnState) {
	// With TLS the server knows the wrapper only.
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	conn, ok := c.(*connection)
	if !ok {
		return
	}
	conn.all.mu.Lock()
	defer conn.all.mu.Unlock()
	switch {
	// It made room for another one, and its count was given back then.
	case conn.gone:
	// A hijacked connection, such as a worker's frames, never returns to HTTP. It stays busy until it is closed.
	case s == http.StateActive, s == http.StateHijacked:
		conn.all.busyLocked(conn)
	case s == http.StateIdle && conn.at == nil:
		conn.all.idleLocked(conn)
	}
}
