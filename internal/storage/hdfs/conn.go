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

	"github.com/slotwise/slotwise/internal/storage/readahead"
)

// Calls to the NameNode are tried again for about a quarter of a minute, longer
// than it takes to restart one or to fail over.
const (
	attempts = 9
	backoff  = 100 * time.Millisecond
)

// client is a connection that several calls and writers use. A client that has
// failed is replaced for new calls, and closed when the last user is done:
// writers keep theirs, for their leases belong to it. refs and dropped are
// guarded by the FS's lock.
type client struct {
	*hdfs.Client
	refs    int
	dropped bool
}

// acquire returns the current client, connecting if there is none.
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
		// Fetched now, because the client keeps them without a lock.
		if _, err := c.ServerDefaults(); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		f.mu.client = &client{Client: c}
	}
	f.mu.client.refs++
	return f.mu.client, nil
}

// release gives a client back; broken says that it should not be used again.
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
		_ = c.Close() // it is broken
	}
}

// do calls the NameNode, again where that may help.
func (f *FS) do(ctx context.Context, call func(*hdfs.Client) error) error {
	for failed := 1; ; failed++ {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		c, err := f.acquire()
		broken := false
		if err == nil {
			err = call(c.Client)
			broken = connection(err)
			f.release(c, broken)
			if !broken && !later(err) {
				return err
			}
		}
		if failed == attempts {
			return err
		}
		if ended := readahead.Sleep(ctx, backoff, failed); ended != nil {
			return fmt.Errorf("%w, after %w", ended, err)
		}
	}
}

// connection tells whether an error is of the connection rather than the
// server's answer.
func connection(err error) bool {
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

// later tells whether the server's answer was to try again.
func later(err error) bool {
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

// dial connects to a node. The client has no limits of its own on how long a
// node may say nothing, so the connection has.
func (f *FS) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: min(10*time.Second, f.settings.timeout)}
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &idleConn{Conn: c, limit: f.settings.timeout}, nil
}

// idleConn fails a Read or Write that takes longer than limit, and closes the
// connection then: an answer that came later would be taken for that to the
// next question.
type idleConn struct {
	net.Conn
	limit time.Duration
}

func (c *idleConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.limit)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	return n, c.ended(err)
}

func (c *idleConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.limit)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	return n, c.ended(err)
}

func (c *idleConn) ended(err error) error {
	if err != nil {
		_ = c.Close() // its error would hide the first
	}
	return err
}
