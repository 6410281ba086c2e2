package hdfs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"path"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/testkit/serverstest"
)

// randomBytes returns the same bytes for the same seed.
func randomBytes(seed byte, size int) []byte {
	b := make([]byte, size)
	src := rand.NewChaCha8([32]byte{seed})
	_, _ = src.Read(b) // never fails
	return b
}

// hostOf returns the name under which the DataNode has registered.
func hostOf(t *testing.T, d datanode) string {
	t.Helper()
	id, err := parse(d.id)
	must(t, err)
	return string(id.data(2))
}

// TestPipelines loses DataNodes at every stage of a write, one after the other. The
// NameNode keeps offering the lost DataNodes, because Hadoop by default notices their
// loss only after ten minutes. Each file is complete and correct as soon as Close has
// returned.
func TestPipelines(t *testing.T) {
	t.Parallel() // with TestFailures: both wait for time-outs
	c := serverstest.NewHDFS(t, 4, serverstest.SlowToNotice)
	const block = 1 << 20
	size := 4*block + 12345
	half := 2*block + block/2 + 17
	step := byte(0)
	// write writes a file with a client that knows nothing yet. It calls lose in the
	// middle of a block, and end before the last packet.
	write := func(lose, end func(w *writer)) *FS {
		t.Helper()
		step++
		f, p := open(t, c.Env(), c.URI("/"+string('a'+rune(step))))
		fresh := &FS{authority: f.authority, settings: f.settings}
		fresh.settings.timeout, fresh.settings.blockSize = 6*time.Second, block
		data := randomBytes(step, size)
		w, err := fresh.newWriter(t.Context(), fresh.inner(p))
		must(t, err)
		_, err = w.Write(data[:half])
		must(t, err)
		lose(w)
		_, err = w.Write(data[half:])
		must(t, err)
		must(t, w.flush())
		end(w)
		must(t, w.Close(t.Context()))
		file, err := fresh.Open(t.Context(), p)
		must(t, err)
		defer file.Close()
		got := make([]byte, size+1)
		n, _ := file.ReadAt(got, 0)
		if !bytes.Equal(got[:n], data) {
			t.Fatalf("file %d: %d bytes differ from the %d that were written", step, n, size)
		}
		return fresh
	}
	nothing := func(*writer) {}
	write(nothing, nothing)
	write(func(w *writer) { c.KillDataNode(hostOf(t, w.block.nodes[0])) }, nothing)
	// The next client is offered the dead DataNode for some of its blocks.
	write(nothing, nothing)
	// A DataNode that was stopped accepts connections, but it answers no message and
	// forwards no packet.
	var stopped string
	f := write(func(w *writer) {
		stopped = hostOf(t, w.block.nodes[len(w.block.nodes)-1])
		must(t, c.FreezeDataNode(stopped))
	}, nothing)
	if bad := f.excluded(); len(bad) == 0 {
		t.Error("no DataNode is excluded from the next blocks")
	}
	// Every packet is acknowledged when a DataNode dies: only the end of the block is
	// missing. One DataNode of four is left then.
	write(nothing, func(w *writer) {
		must(t, w.block.drain())
		if len(w.block.nodes) < 2 {
			t.Fatalf("the last block has %d DataNodes", len(w.block.nodes))
		}
		c.KillDataNode(hostOf(t, w.block.nodes[1]))
	})
	write(nothing, nothing)
}

// TestRemovedFile: the lease of a file is renewed under the writer's name, and a file that is
// removed is never completed.
func TestRemovedFile(t *testing.T) {
	c := serverstest.HDFS(t)
	f, p := open(t, c.Env(), c.URI("/removed"))
	w, err := f.newWriter(t.Context(), f.inner(p))
	must(t, err)
	_, err = w.nn.call(t.Context(), "renewLease", message{}.text(1, w.nn.name))
	must(t, err)
	_, err = w.Write(randomBytes(1, 100_000))
	must(t, err)
	must(t, f.Remove(context.Background(), p))
	if err := w.Close(t.Context()); err == nil {
		t.Error("a removed file was completed")
	}
	must(t, w.Remove(t.Context()))
	if there, err := f.exists(t.Context(), path.Clean("/removed")); err != nil || there {
		t.Errorf("the file exists: %v, %v", there, err)
	}
}

// TestSecondNamenode: a writer finds the NameNode that answers among several.
func TestSecondNamenode(t *testing.T) {
	c := serverstest.HDFS(t)
	f, p := open(t, c.Env(), c.URI("/second"))
	other := &FS{authority: f.authority, settings: f.settings}
	other.settings.addresses = []string{"127.0.0.1:1", f.settings.addresses[0]}
	w, err := other.newWriter(t.Context(), f.inner(p))
	must(t, err)
	_, err = w.Write([]byte("x"))
	must(t, err)
	must(t, w.Close(t.Context()))
	must(t, f.Remove(context.Background(), p))
}

// failingConn is a connection of which one operation fails.
type failingConn struct {
	net.Conn
	fails string
}

var errConn = errors.New("the connection fails")

func (c *failingConn) do(op string) error {
	if op == c.fails {
		return errConn
	}
	return nil
}

func (c *failingConn) SetWriteDeadline(time.Time) error { return c.do("write deadline") }

func (c *failingConn) SetReadDeadline(time.Time) error { return c.do("read deadline") }

func (c *failingConn) Write(b []byte) (int, error) { return len(b), c.do("write") }

func (c *failingConn) Read([]byte) (int, error) { return 0, c.do("read") }

// TestHandshakeErrors lets each operation of a handshake with a DataNode fail. A pipeline
// whose handshake has failed must not be used.
func TestHandshakeErrors(t *testing.T) {
	for _, op := range []string{"write deadline", "write", "read deadline", "read"} {
		nodes := []datanode{{addr: "127.0.0.1:1"}}
		conn := &failingConn{fails: op}
		p := &pipeline{ctx: t.Context(), fs: &FS{settings: settings{timeout: time.Second}}, nodes: nodes, conn: conn, r: bufio.NewReader(conn)}
		if err := p.handshake(setup{client: "c", nodes: nodes}); !errors.Is(err, errConn) {
			t.Errorf("the %s fails: %v", op, err)
		}
	}
}

// TestAppend appends while DataNodes of the last block are dead, or die, and the NameNode has not
// noticed. A file that another client writes is refused.
func TestAppend(t *testing.T) {
	t.Parallel()
	c := serverstest.NewHDFS(t, 3, serverstest.SlowToNotice)
	f, p := open(t, c.Env(), c.URI("/a"))
	f = &FS{authority: f.authority, settings: f.settings}
	f.settings.timeout, f.settings.blockSize = 6*time.Second, 1<<20
	create := func(p string, data []byte) {
		t.Helper()
		w, err := f.newWriter(t.Context(), f.inner(p))
		must(t, err)
		_, err = w.Write(data)
		must(t, err)
		must(t, w.Close(t.Context()))
	}
	// add appends data in two parts, and calls between with the writer after the first.
	add := func(p string, data []byte, between func(w *writer)) {
		t.Helper()
		a, err := f.Append(t.Context(), p)
		must(t, err)
		half := len(data) / 2
		_, err = a.Write(data[:half])
		must(t, err)
		between(a.(*appended).w)
		_, err = a.Write(data[half:])
		must(t, err)
		must(t, a.Close())
	}
	same := func(p string, want []byte) {
		t.Helper()
		file, err := f.Open(t.Context(), p)
		must(t, err)
		defer file.Close()
		got := make([]byte, len(want)+1)
		if n, _ := file.ReadAt(got, 0); !bytes.Equal(got[:n], want) {
			t.Errorf("%s: %d bytes differ from the %d that were written", p, n, len(want))
		}
	}
	data := randomBytes(9, 1<<20+300_000)
	create(p, data[:1000])
	add(p, data[1000:1700], func(w *writer) {
		other := &FS{authority: f.authority, settings: f.settings}
		if _, err := other.Append(t.Context(), p); !errors.Is(err, errWriting) {
			t.Errorf("an append to a file that another client writes: %v", err)
		}
	})
	same(p, data[:1700])
	// A DataNode dies in the middle of the block, whose end the append crosses.
	add(p, data[1700:], func(w *writer) { c.KillDataNode(hostOf(t, w.block.nodes[0])) })
	same(p, data)
	// A DataNode of the last block is dead before the append begins.
	second := p + "-2"
	create(second, data[:777])
	hosts, err := f.Hosts(t.Context(), second, 0, 1)
	must(t, err)
	if len(hosts) < 2 {
		t.Fatalf("the block is on %v", hosts)
	}
	c.KillDataNode(hosts[0])
	f = &FS{authority: f.authority, settings: f.settings}
	add(second, data[777:5000], func(*writer) {})
	same(second, data[:5000])
}
