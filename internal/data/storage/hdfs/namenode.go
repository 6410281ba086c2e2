package hdfs

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"syscall"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/slotwise/slotwise/internal/base/retry"
	"github.com/slotwise/slotwise/internal/data/storage"
)

// namenode is a writer's connection to the active NameNode. It owns the leases of the
// writer's file and renews them.
//
// The client library has such a connection, but writers need calls that it does not
// offer. A call that is repeated keeps its number, by which the NameNode recognises it,
// so every call may be repeated.
type namenode struct {
	fs   *FS
	name string // of this client, for leases
	id   []byte // of this client, 16 bytes, by which the NameNode recognises repeated calls
	stop func() // ends the goroutine that renews the leases
	// turn has an element while a call is under way. A mutex would not do: a caller whose
	// context ends must not wait for the call of another one.
	turn chan struct{}
	mu   struct { // guarded by turn
		conn   net.Conn // nil before the first call and after a failure
		r      *bufio.Reader
		server int // index of the address in use
		calls  int32
	}
}

// leaseRenewal is shorter than the minute after which another client may take a lease.
const leaseRenewal = 20 * time.Second

// newNamenode returns a connection that dials with its first call. The caller must call close,
// which ends the renewal of leases.
func newNamenode(f *FS) *namenode {
	token := storage.NewToken()
	// One name for each writer, and not for the process: renewing renews all leases of a name, and a writer
	// that has hung must lose its file although others work.
	n := &namenode{fs: f, name: "slotwise-" + token, id: []byte(token[:16]), turn: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		// A lease is for a name and covers all its files. After a minute without renewal another client may
		// take the file, and after the hard limit, twenty minutes in Hadoop 3.3, the NameNode closes it.
		tick := time.NewTicker(leaseRenewal)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				// A failed renewal is made up for by the next one.
				_, _ = n.call(ctx, "renewLease", message{}.text(1, n.name))
			case <-ctx.Done():
				return
			}
		}
	}()
	n.stop = cancel
	return n
}

// close ends the renewal of leases and the connection.
func (n *namenode) close() {
	// First, so that the renewing goroutine does not begin a call after this one has hung up.
	n.stop()
	n.turn <- struct{}{}
	defer func() { <-n.turn }()
	n.hangUpLocked()
}

// hangUpLocked closes the connection. The next call dials again.
func (n *namenode) hangUpLocked() {
	if n.mu.conn != nil {
		_ = n.mu.conn.Close() // nothing is under way
		n.mu.conn = nil
	}
}

// call runs a method of ClientProtocol. It tries again after failures of the connection,
// with the next NameNode, and while the NameNode asks for a later try.
func (n *namenode) call(ctx context.Context, method string, request message) (fields, error) {
	select {
	case n.turn <- struct{}{}:
		defer func() { <-n.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	// All tries of a call have one number: a NameNode that has carried out the first try repeats
	// its answer.
	// Under turn, so calls leave in the order of their numbers. The NameNode's retry cache knows a call by
	// client and number.
	n.mu.calls++
	id := n.mu.calls
	o, failed := again, 0
	var last error // of the try before
	o.Patience = retry.While(func(err error) bool {
		var remote *remoteError
		return isConnectionError(err) || isRetriable(err) || errors.As(err, &remote) && remote.passive()
	})
	o.Retrying = func(err error) {
		failed++
		last = err
	}
	answer, err := retry.Do(ctx, o, func(ctx context.Context) (fields, error) {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		answer, err := n.callOnceLocked(ctx, id, failed, method, request)
		var remote *remoteError
		// A late answer on this connection would fail the next call by its number. And after a
		// fail-over another NameNode of the list is the active one.
		// A NameNode in safe mode is the right one, and gets the next try on the same connection.
		if err != nil && (isConnectionError(err) || errors.As(err, &remote) && remote.passive()) {
			n.hangUpLocked()
			n.mu.server++
		}
		return answer, err
	})
	if last != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w, after %w", err, last)
	}
	return answer, err
}

// Parts of Hadoop's RPC protocol.
const (
	rpcContextCall   = -3 // the number of the call that introduces the user
	rpcProtobuf      = 2
	rpcFinalPacket   = 0
	rpcSuccess       = 0
	clientProtocol   = "org.apache.hadoop.hdfs.protocol.ClientProtocol"
	clientProtocolV1 = 1
)

// callOnceLocked makes one try of a call. After any error but a *remoteError the connection must
// not be used again.
func (n *namenode) callOnceLocked(ctx context.Context, id int32, retries int, method string, request message) (fields, error) {
	if n.mu.conn == nil {
		if err := n.dialLocked(ctx); err != nil {
			return nil, err
		}
	}
	conn := n.mu.conn
	defer watch(ctx, func() { _ = conn.Close() })() // reads and writes fail
	header := message{}.text(1, method).text(2, clientProtocol).number(3, clientProtocolV1)
	if err := n.sendLocked(n.rpcHeader(id, retries), header, request); err != nil {
		return nil, err
	}
	// The answer's length and the messages in it.
	var size [4]byte
	if _, err := io.ReadFull(n.mu.r, size[:]); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(size[:])
	// Whatever listens at the address chooses this number, and so much memory is allocated.
	if length > maxAnswer {
		return nil, fmt.Errorf("the NameNode's answer to %s has %d bytes", method, length)
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(n.mu.r, body); err != nil {
		return nil, err
	}
	head, used := protowire.ConsumeBytes(body)
	if used < 0 {
		return nil, protowire.ParseError(used)
	}
	h, err := parse(head)
	if err != nil {
		return nil, err
	}
	// Before the number is compared: a NameNode that refuses the connection answers with a number of
	// its own.
	if h.number(2) != rpcSuccess {
		return nil, &remoteError{method: method, exception: string(h.data(4)), message: string(h.data(5))}
	}
	// Calls are made one at a time, so no other answer can be under way, unless the one before was given up.
	// Then the connection was closed.
	if got := int32(h.number(1)); got != id {
		return nil, fmt.Errorf("the NameNode has answered call %d instead of %d", got, id)
	}
	answer, used := protowire.ConsumeBytes(body[used:])
	if used < 0 {
		return nil, protowire.ParseError(used)
	}
	return parse(answer)
}

// dialLocked connects to the NameNode in use and introduces the user. Without Kerberos,
// which slotwise does not support, there is no handshake.
func (n *namenode) dialLocked(ctx context.Context) error {
	addresses := n.fs.settings.addresses
	conn, err := n.fs.dial(ctx, "tcp", addresses[n.mu.server%len(addresses)])
	if err != nil {
		return err
	}
	n.mu.conn, n.mu.r = conn, bufio.NewReader(conn)
	// "hrpc", version 9, service class 0, no authentication.
	if _, err := conn.Write([]byte{'h', 'r', 'p', 'c', 9, 0, 0}); err != nil {
		return err
	}
	// The NameNode does not answer this message. A refusal of the user comes with the first call.
	user := message{}.text(1, n.fs.settings.user)
	return n.sendLocked(n.rpcHeader(rpcContextCall, -1), message{}.data(2, user).text(3, clientProtocol))
}

func (n *namenode) rpcHeader(call int32, retries int) message {
	return message{}.number(1, rpcProtobuf).number(2, rpcFinalPacket).
		number(3, protowire.EncodeZigZag(int64(call))).data(4, n.id).number(5, protowire.EncodeZigZag(int64(retries)))
}

// sendLocked sends messages as one packet.
func (n *namenode) sendLocked(messages ...message) error {
	packet := delimited(make([]byte, 4), messages...)
	binary.BigEndian.PutUint32(packet, uint32(len(packet)-4))
	_, err := n.mu.conn.Write(packet)
	return err
}

// remoteError is an exception of the NameNode. It implements hdfs.Error.
type remoteError struct{ method, exception, message string }

// Method implements hdfs.Error.
func (e *remoteError) Method() string { return e.method }

// Desc implements hdfs.Error.
func (e *remoteError) Desc() string { return "error" }

// Exception implements hdfs.Error.
func (e *remoteError) Exception() string { return e.exception }

// Message implements hdfs.Error.
func (e *remoteError) Message() string { return e.message }

// Error returns the name of the exception without its package. FS.failed adds the message.
func (e *remoteError) Error() string {
	return e.method + ": " + e.exception[strings.LastIndex(e.exception, ".")+1:]
}

// Unwrap returns the error of io/fs that the exception means, nil if there is none.
func (e *remoteError) Unwrap() error {
	switch e.exception {
	case "java.io.FileNotFoundException":
		return fs.ErrNotExist
	case "org.apache.hadoop.security.AccessControlException":
		return fs.ErrPermission
	// The second comes for a file that another client has begun and not completed. For a caller the name is
	// taken.
	case "org.apache.hadoop.fs.FileAlreadyExistsException", "org.apache.hadoop.hdfs.protocol.AlreadyBeingCreatedException":
		return fs.ErrExist
	case "org.apache.hadoop.fs.ParentNotDirectoryException":
		return syscall.ENOTDIR
	case "org.apache.hadoop.fs.PathIsNotEmptyDirectoryException":
		return syscall.ENOTEMPTY
	}
	return nil
}

// passive reports whether the NameNode is not the active one.
func (e *remoteError) passive() bool {
	return e.exception == "org.apache.hadoop.ipc.StandbyException" || e.exception == "org.apache.hadoop.ipc.ObserverRetryOnActiveException"
}
