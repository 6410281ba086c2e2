package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/colinmarc/hdfs/v2"

	"github.com/slotwise/slotwise/internal/data/storage/readahead"
)

// Calls to the NameNode are tried this often, which takes about fifteen seconds. A
// restart of the NameNode or a fail-over takes less.
const (
	attempts = 9
	backoff  = 100 * time.Millisecond // before the second attempt; doubles each time
)

// client is a connection to the NameNode. Calls and writers share it. After a failure
// new calls use another client. The failed one is closed when its last user releases
// it: writers keep their client, because the leases on their files belong to it. The
// FS's mutex guards refs and dropped.
type client struct {
	*hdfs.Client
	refs    int  // calls and writers that have acquired it and not released it
	dropped bool // it has failed
}

// acquire returns the current client for one call or writer, and connects if there
// is none. The caller releases it.
func (f *FS) acquire() (*client, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.client == nil {
		o := f.settings.options
		o.Addresses, o.User = f.settings.addresses, f.settings.user
		o.NamenodeDialFunc = f.dial
		o.DatanodeDialFunc = f.dial
		c, err := hdfs.NewClient(o)
		if err != nil {
			return nil, err
		}
		// The client caches the defaults without a lock. This call fills the cache
		// while only one goroutine uses the client.
		if _, err := c.ServerDefaults(); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		f.mu.client = &client{Client: c}
	}
	f.mu.client.refs++
	return f.mu.client, nil
}

// release ends the use of a client. If broken is set, no later call uses it.
func (f *FS) release(c *client, broken bool) {
	f.mu.Lock()
	c.refs--
	if broken && f.mu.client == c {
		f.mu.client = nil
		c.dropped = true
	}
	last := c.dropped && c.refs == 0
	f.mu.Unlock()
	if last {
		_ = c.Close() // the connection has failed already
	}
}

// do runs call with a client. It tries again after a failure of the connection, and
// if the NameNode asks for a later try.
//
// After a failure of the connection the client does not know whether the NameNode has carried the
// call out. So call must be safe to repeat. Removing, creating a directory and reading
// are. Rename recognises that its first try succeeded, Put removes the file first, and
// creating a file takes another name for each try.
func (f *FS) do(ctx context.Context, call func(*hdfs.Client) error) error {
	var last error // of the try before
	for failed := 1; ; failed++ {
		if err := context.Cause(ctx); err != nil {
			if last != nil {
				err = fmt.Errorf("%w, after %w", err, last)
			}
			return err
		}
		c, err := f.acquire()
		broken := false
		if err == nil {
			err = call(c.Client)
			broken = isConnectionError(err)
			f.release(c, broken)
			if !broken && !isRetriable(err) {
				return err
			}
		}
		if failed == attempts {
			return err
		}
		if ended := readahead.Sleep(ctx, backoff, failed); ended != nil {
			return fmt.Errorf("%w, after %w", ended, err)
		}
		last = err
	}
}

// isConnectionError reports whether err comes from the connection and is not an
// answer of the NameNode.
func isConnectionError(err error) bool {
	var remote hdfs.Error
	var errno syscall.Errno
	switch {
	case err == nil, errors.As(err, &remote), hdfs.IsErrReplicating(err):
		return false
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrInvalid):
		return false
	case errors.As(err, &errno):
		return errno != syscall.ENOTDIR && errno != syscall.ENOTEMPTY && errno != syscall.EISDIR
	}
	return true
}

// isRetriable reports whether the NameNode asks the client to try later, for example
// because it is starting or is not the active one.
func isRetriable(err error) bool {
	var remote hdfs.Error
	if !errors.As(err, &remote) {
		return false
	}
	_, name, _ := strings.Cut(remote.Exception(), "org.apache.hadoop.")
	switch name {
	case "ipc.RetriableException", "ipc.StandbyException", "hdfs.server.namenode.SafeModeException",
		"ipc.ObserverRetryOnActiveException", "hdfs.server.namenode.NotReplicatedYetException":
		return true
	}
	return false
}

// isUnavailable reports whether err is a failure of the NameNode, of DataNodes or of
// the network that may pass, and no answer about the request itself.
func isUnavailable(err error) bool {
	var remote hdfs.Error
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, fs.ErrClosed), errors.Is(err, errRoot), errors.Is(err, errRemoveRoot):
		return false
	case errors.As(err, &remote):
		// The NameNode reports with an IOException that too few DataNodes are left.
		return isRetriable(err) || remote.Exception() == "java.io.IOException"
	case hdfs.IsErrReplicating(err):
		return true
	}
	return isConnectionError(err)
}

// dial connects to a NameNode or DataNode. The client never gives up a node that sends
// nothing, so the connection enforces a time-out.
func (f *FS) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: min(10*time.Second, f.settings.timeout)}
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &idleConn{Conn: c, limit: f.settings.timeout}, nil
}

// idleConn fails a Read or Write that takes longer than limit. It closes the
// connection after an error: otherwise the answer to one request, arriving late,
// would be taken for the answer to the next request.
type idleConn struct {
	net.Conn
	limit time.Duration
}

// Read implements net.Conn.
func (c *idleConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.limit)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	return n, c.ended(err)
}

// Write implements net.Conn.
func (c *idleConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.limit)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	return n, c.ended(err)
}

// ended closes the connection if err is not nil, and returns err.
func (c *idleConn) ended(err error) error {
	if err != nil {
		_ = c.Close() // the first error matters
	}
	return err
}
