package hdfs

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// ack returns an acknowledgement of one DataNode as it is sent.
func ack(seq int64) []byte {
	return delimited(nil, message{}.number(1, protowire.EncodeZigZag(seq)).number(2, statusSuccess))
}

// testDataNode is a DataNode that closes connections when the other side has closed
// them, as a healthy one does. The test plays its pipelines.
func testDataNode(t *testing.T) (node datanode, dial func() (client, server net.Conn)) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var mu sync.Mutex
	var taken chan net.Conn // receives the next connection, if it is a pipeline
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			next := taken
			taken = nil
			mu.Unlock()
			if next != nil {
				next <- c
				continue
			}
			go func() {
				_, _ = io.Copy(io.Discard, c)
				_ = c.Close()
			}()
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	return datanode{addr: l.Addr().String()}, func() (net.Conn, net.Conn) {
		next := make(chan net.Conn, 1)
		mu.Lock()
		taken = next
		mu.Unlock()
		client, err := net.Dial("tcp", l.Addr().String())
		must(t, err)
		server := <-next
		t.Cleanup(func() { _, _ = client.Close(), server.Close() })
		return client, server
	}
}

// TestSlowAck: a healthy DataNode whose acknowledgement arrives in pieces, with pauses
// longer than the time after which a silent DataNode is probed, is not excluded.
func TestSlowAck(t *testing.T) {
	node, dial := testDataNode(t)
	whole := ack(1)
	slowAck := func(cut int, timeout time.Duration) error {
		f := &FS{}
		f.settings.timeout = timeout // so a DataNode is probed after a third
		client, server := dial()
		p := &pipeline{ctx: t.Context(), release: func() {}, fs: f, nodes: []datanode{node}, conn: client, r: bufio.NewReaderSize(client, maxDelimited), ended: make(chan struct{})}
		p.mu.changed = sync.NewCond(&p.mu)
		go func() {
			_, _ = server.Write(whole[:cut])
			time.Sleep(timeout / 2)
			_, _ = server.Write(append(bytes.Clone(whole[cut:]), ack(2)...))
			_, _ = io.Copy(io.Discard, server) // the packets
		}()
		must(t, p.start(0, []packet{{seq: 1, data: []byte("a")}, {seq: 2, offset: 1, last: true}}))
		defer p.close()
		return p.drain()
	}
	for cut := 1; cut < len(whole); cut++ {
		var err error
		for _, timeout := range []time.Duration{300 * time.Millisecond, 3 * time.Second, 30 * time.Second} { // the next one for a busy machine
			if err = slowAck(cut, timeout); err == nil {
				break
			}
		}
		if err != nil {
			t.Errorf("the acknowledgement was cut after %d bytes: %v", cut, err)
		}
	}
}

// TestDelimited: a message that is interrupted at any byte is read when the rest has
// arrived, and messages without end are refused.
func TestDelimited(t *testing.T) {
	long := delimited(nil, message{}.text(5, string(make([]byte, 300)))) // a length of two bytes
	for cut := range len(long) {
		in := &interrupted{pieces: [][]byte{long[:cut], long[cut:]}}
		r := bufio.NewReaderSize(in, maxDelimited)
		if _, err := readDelimited(r); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("cut after %d bytes: %v", cut, err)
		}
		m, err := readDelimited(r)
		if err != nil || len(m.data(5)) != 300 {
			t.Fatalf("cut after %d bytes: %d bytes, %v", cut, len(m.data(5)), err)
		}
	}
	largest := protowire.AppendVarint(nil, maxDelimited-binary.MaxVarintLen64)
	largest = append(largest, make([]byte, maxDelimited-binary.MaxVarintLen64)...)
	if _, err := readDelimited(bufio.NewReaderSize(bytes.NewReader(largest), maxDelimited)); err == nil || errors.Is(err, bufio.ErrBufferFull) {
		t.Errorf("the largest message, of zeros: %v", err)
	}
	for name, b := range map[string][]byte{
		"too long":          protowire.AppendVarint(nil, maxDelimited-binary.MaxVarintLen64+1),
		"length of no end":  bytes.Repeat([]byte{0xff}, 11),
		"ends in a length":  {0x80},
		"ends in a message": long[:10],
	} {
		if _, err := readDelimited(bufio.NewReaderSize(bytes.NewReader(b), maxDelimited)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// interrupted is a reader with a deadline that expires after each piece.
type interrupted struct{ pieces [][]byte }

// Read implements io.Reader.
func (x *interrupted) Read(p []byte) (int, error) {
	if len(x.pieces) == 0 {
		return 0, io.EOF
	}
	if len(x.pieces[0]) == 0 {
		x.pieces = x.pieces[1:]
		return 0, os.ErrDeadlineExceeded
	}
	n := copy(p, x.pieces[0])
	x.pieces[0] = x.pieces[0][n:]
	return n, nil
}
