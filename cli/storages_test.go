package cli

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/testkit/serverstest"
)

// counter stands before a server, passes everything on, and counts connections.
type counter struct {
	net.Listener
	made, open atomic.Int64
}

// newCounter starts a counter before the server at the address to.
func newCounter(t *testing.T, to string) *counter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &counter{Listener: l}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.made.Add(1)
			c.open.Add(1)
			context.AfterFunc(t.Context(), func() { _ = conn.Close() }) // else a leaked one would stay
			go func() {
				defer c.open.Add(-1)
				pass(conn, to)
			}()
		}
	}()
	return c
}

// pass joins a client's connection to the server until the client closes the connection.
func pass(client net.Conn, to string) {
	defer client.Close()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	go func() { _, _ = io.Copy(client, server) }() // ends when the server's connection is closed
	_, _ = io.Copy(server, client)
	_ = server.Close()
}

// A command that checks its paths, plans a job and runs the job has one driver of each storage
// for all three: one connection to the NameNode, and one connection to the S3 server at a time. No
// connection is left when the command has ended, and the next command connects again.
func TestOneConnection(t *testing.T) {
	t.Run("hdfs", func(t *testing.T) {
		s := serverstest.HDFS(t)
		serverstest.Setenv(t, s.Env())
		base := s.URI("/one-" + storage.NewToken())
		_, rest := storage.SplitURI(base)
		address, dir, _ := strings.Cut(rest, "/")
		c := newCounter(t, address)
		countOn(t, c, base, "hdfs://"+c.Addr().String()+"/"+dir)
	})
	t.Run("s3", func(t *testing.T) {
		s := serverstest.S3(t)
		serverstest.Setenv(t, s.Env())
		base := s.URI("one-" + storage.NewToken())
		c := newCounter(t, strings.TrimPrefix(s.Endpoint, "http://"))
		countOn(t, c, base, base, "SLOTWISE_S3_ENDPOINT=http://"+c.Addr().String())
	})
}

// countOn puts a file into base and counts its words twice, by commands that reach base by the
// URI counted and through c.
func countOn(t *testing.T, c *counter, base, counted string, env ...string) {
	t.Helper()
	local := t.TempDir()
	slotwise(t, "generate", "text", "--size", "20KiB", "--seed", "1", "--output", filepath.Join(local, "in"))
	upload(t, filepath.Join(local, "in"), base+"/in")
	t.Cleanup(func() { removeAll(t, base) })
	serverstest.Setenv(t, env)
	for n := range int64(2) {
		slotwise(t, "run", "wordcount", "--input", counted+"/in", "--output", filepath.Join(local, "out"), "--overwrite", "--workers", "1", "--reduces", "1")
		if made := c.made.Load(); made != n+1 {
			t.Errorf("%d connections in %d commands", made, n+1)
		}
		for deadline := time.Now().Add(4 * time.Minute); c.open.Load() > 0; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d connections are open after the command", c.open.Load())
			}
		}
	}
}
