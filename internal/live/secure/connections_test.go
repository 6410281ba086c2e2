package secure

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"
)

// sharedServer returns the address of a server that shares eight connections. A request of /wait
// is held until the test ends.
func sharedServer(t *testing.T) (*connections, string) {
	t.Helper()
	guard := &Guard{Log: slog.New(slog.DiscardHandler)}
	l, err := ListenMost("127.0.0.1:0", nil, guard, 8)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/wait", func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		<-ended
	})
	mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	srv := &http.Server{Handler: mux, ConnState: noteState}
	go srv.Serve(l)
	t.Cleanup(func() { close(ended); srv.Close() })
	return l.(*connections), l.Addr().String()
}

// dial connects from an address.
func dial(t *testing.T, from, to string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 4 * time.Minute}
	c, err := d.Dial("tcp", to)
	if err != nil {
		t.Skipf("no connection from %s: %v", from, err) // not all systems have all addresses of loopback
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(4 * time.Minute))
	return c
}

// served requests a path and reports whether an answer begins.
func served(c net.Conn, path string) bool {
	if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"); err != nil {
		return false
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	return err == nil && resp.StatusCode == http.StatusOK
}

// rest waits until the server has n idle connections of an address. It learns that a connection is idle after the
// client has its answer, and until then the connection makes room for no other one.
func rest(t *testing.T, c *connections, from string, n int) {
	t.Helper()
	for deadline := time.Now().Add(4 * time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		c.mu.Lock()
		l := c.mu.idle[from]
		enough := l != nil && l.Len() == n
		c.mu.Unlock()
		if enough {
			return
		}
	}
	t.Fatalf("the server does not have %d idle connections of %s", n, from)
}

// TestConnections has one address open many connections: idle ones make room for others of the
// same address, and ones with a request do not. Another address always finds room.
func TestConnections(t *testing.T) {
	c, addr := sharedServer(t)
	held := func(from string) int64 {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.mu.pool.Held(from)
	}
	rests := func(n int) { rest(t, c, "127.0.0.1", n) }
	var idle []net.Conn
	for i := range 20 {
		conn := dial(t, "127.0.0.1", addr)
		if !served(conn, "/") {
			t.Fatalf("connection %d is refused", i)
		}
		rests(min(i+1, 4))
		idle = append(idle, conn)
	}
	if n := held("127.0.0.1"); n != 4 {
		t.Errorf("the address holds %d connections, want half of 8", n)
	}
	if served(idle[0], "/") || !served(idle[19], "/") {
		t.Error("the oldest connection is open, or the last one closed")
	}
	rests(4)
	busy := 0
	for range 20 {
		if served(dial(t, "127.0.0.1", addr), "/wait") {
			busy++
		}
	}
	if busy != 4 {
		t.Errorf("%d connections have a request, want 4", busy)
	}
	for _, from := range []string{"127.0.0.2", "127.0.0.3"} {
		if !served(dial(t, from, addr), "/") {
			t.Errorf("%s is refused", from)
		}
	}
	// What ends gives its place back.
	for _, conn := range idle {
		conn.Close()
	}
	for deadline := time.Now().Add(4 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if held("127.0.0.1") <= 4 && served(dial(t, "127.0.0.2", addr), "/") {
			return
		}
	}
	t.Error("closed connections are counted")
}

// TestManyAddresses has idle connections of more addresses than there are places: a new address
// gets the place of another one.
func TestManyAddresses(t *testing.T) {
	c, addr := sharedServer(t)
	for i := range 30 {
		from := net.IPv4(127, 0, 1, byte(i+1)).String()
		if !served(dial(t, from, addr), "/") {
			t.Errorf("address %d is refused", i)
		}
		rest(t, c, from, 1)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.mu.pool.Used(); n > 8 {
		t.Errorf("%d connections are open, want at most 8", n)
	}
}

// TestPeer: addresses of IPv6 count by the part that their owner cannot choose.
func TestPeer(t *testing.T) {
	for addr, want := range map[string]string{
		"10.1.2.3:4": "10.1.2.3", "[::ffff:10.1.2.3]:4": "10.1.2.3", "[2001:db8:1:2:3:4:5:6]:7": "2001:db8:1:2::/64", "[fe80::1%eth0]:7": "fe80::/64",
	} {
		at, err := net.ResolveTCPAddr("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if got := peer(at); got != want {
			t.Errorf("%s counts for %s, want %s", addr, got, want)
		}
	}
}
