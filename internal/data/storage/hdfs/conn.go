package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/colinmarc/hdfs/v2"

	"github.com/slotwise/slotwise/internal/base/retry"
)

// Calls to the NameNode are tried this often, which takes about fifteen seconds. A
// restart of the NameNode or a fail-over takes less. Callers of the storage wait for longer
// outages.
const (
	attempts     = 9
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
)

// again retries calls after failures of the connection, and while the NameNode asks for a
// later try.
var again = retry.Options{Tries: attempts, FirstPause: firstPause, LastPause: longestPause,
	Patience: retry.While(func(err error) bool { return isConnectionError(err) || isRetriable(err) })}

// After its context has ended, a call waits lastAnswer for an answer that may be under way.
// Then it breaks the connection: the server may be silent, and the user has interrupted the
// command. Removing an unfinished file gets cleanUpTime.
const (
	lastAnswer  = 300 * time.Millisecond
	cleanUpTime = 600 * time.Millisecond
)

// watch calls interrupt when ctx has ended and release is not called within lastAnswer.
// release may be called several times.
func watch(ctx context.Context, interrupt func()) (release func()) {
	released := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-released:
		// A rename or remove that the NameNode is carrying out would otherwise be broken off with an unknown
		// result.
		case <-time.After(lastAnswer):
			interrupt()
		}
	})
	return sync.OnceFunc(func() {
		stop()
		close(released)
	})
}

// cleaning returns the context in which an unfinished file is removed whose own context is
// ctx. The caller must call cancel.
func cleaning(ctx context.Context) (_ context.Context, cancel context.CancelFunc) {
	if ctx.Err() == nil {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
}

// client is a connection to the NameNode. Calls and writers share it. After a failure
// new calls use another client. The failed one is closed when its last user releases
// it: writers keep their client, because the leases on their files belong to it. The
// FS's mutex guards refs and dropped.
type client struct {
	ready chan struct{} // closed when the fields below it are set
	*hdfs.Client
	err error // why there is no Client

	stop    func() // closes the connections to NameNodes: all calls fail, and none connects again
	refs    int    // calls and writers that have acquired it and not released it
	dropped bool   // new calls use another client
}

// acquire returns the current client for one call or writer, and connects if there
// is none. The caller releases it.
func (f *FS) acquire(ctx context.Context) (*client, error) {
	f.mu.Lock()
	c := f.mu.client
	// At most one connection is being made: callers that come meanwhile wait for the same ready.
	if c == nil {
		c = f.connect()
		f.mu.client = c
	}
	// Under the lock and before the wait, so that another user's release does not close the client
	// meanwhile.
	c.refs++
	f.mu.Unlock()
	select {
	case <-c.ready:
	case <-ctx.Done(): // another call may wait for the connection
		f.release(c, false)
		return nil, context.Cause(ctx)
	}
	if c.err != nil {
		// Broken, so that the next call connects again and does not get the same error.
		f.release(c, true)
		return nil, c.err
	}
	return c, nil
}

// connect returns a client whose connection is being made. No call holds the FS's mutex
// meanwhile, so each one can be interrupted.
func (f *FS) connect() *client {
	life, stop := context.WithCancel(context.Background())
	c := &client{ready: make(chan struct{}), stop: stop}
	o := f.settings.options
	o.Addresses, o.User = f.settings.addresses, f.settings.user
	o.NamenodeDialFunc = func(_ context.Context, network, addr string) (net.Conn, error) {
		conn, err := f.dial(life, network, addr)
		// The library has no way to interrupt a call. Closing the connection below it is the only one.
		if err == nil {
			context.AfterFunc(life, func() { _ = conn.Close() }) // reads and writes fail
		}
		return conn, err
	}
	// A failed read from a DataNode fails that replica alone, so it does not hang on life as NameNode
	// connections do.
	o.DatanodeDialFunc = f.dial
	// NewClient blocks and knows no context. Callers wait for ready, which they can give up.
	go func() {
		defer close(c.ready)
		made, err := hdfs.NewClient(o)
		if err == nil {
			// The client caches the defaults without a lock. This call fills the cache
			// while only one goroutine uses the client.
			if _, err = made.ServerDefaults(); err != nil {
				err = errors.Join(err, made.Close())
			}
		}
		// Before close(c.ready), by the order of the deferred call: readers of these fields wait for ready.
		c.Client, c.err = made, err
	}()
	return c
}

// release ends the use of a client. If broken is set, no later call uses it.
func (f *FS) release(c *client, broken bool) {
	f.mu.Lock()
	c.refs--
	// Another user may have replaced the client already, and the new one is not to blame.
	if broken && f.mu.client == c {
		f.mu.client = nil
		c.dropped = true
	}
	last := c.dropped && c.refs == 0
	f.mu.Unlock()
	if last {
		c.end()
	}
}

// closeIdle closes the current client once no call or writer uses it. The next call connects
// again.
func (f *FS) closeIdle() {
	f.mu.Lock()
	c := f.mu.client
	f.mu.client = nil
	idle := false
	if c != nil {
		c.dropped = true
		idle = c.refs == 0
	}
	f.mu.Unlock()
	if idle {
		c.end() // else release ends it
	}
}

// end closes the connections of a dropped client that has no user.
func (c *client) end() {
	c.stop() // else Close would wait for a renewal of leases that is under way
	// All calls that waited for the connection may have been cancelled before it was made.
	// The goroutine waits, because a program that exits must not wait for a silent server.
	go func() {
		<-c.ready
		if c.err == nil {
			_ = c.Close() // stop has closed its connection already
		}
	}()
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
	o := again
	o.Retrying = func(err error) { last = withoutPath(err) }
	err := retry.Run(ctx, o, func(ctx context.Context) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		c, err := f.acquire(ctx)
		if err != nil {
			return err
		}
		release := watch(ctx, c.stop) // other users of the client try again with another one
		err = call(c.Client)
		// Before the client is given back: a late end of ctx would stop a client that others use.
		release()
		// An answer of the NameNode, even an error, proves that the connection works.
		f.release(c, isConnectionError(err))
		return err
	})
	// The context's end alone would hide what the calls were waiting for.
	if last != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w, after %w", err, last)
	}
	return err
}

// withoutPath removes the path from an error of the client, so that failed, which looks for
// such an error and replaces it, keeps what the error is a part of.
func withoutPath(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// isConnectionError reports whether err comes from the connection and is not an
// answer of the NameNode.
func isConnectionError(err error) bool {
	var remote hdfs.Error
	var errno syscall.Errno
	switch {
	// Answers of the NameNode come first, because an answer may wrap an error number, too.
	case err == nil, errors.As(err, &remote), hdfs.IsErrReplicating(err):
		return false
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrInvalid):
		return false
	case errors.As(err, &errno):
		// These three are answers of the NameNode, which the library translates. All others come from the
		// socket.
		return errno != syscall.ENOTDIR && errno != syscall.ENOTEMPTY && errno != syscall.EISDIR
	}
	// Unknown errors count as the connection's: a wrong retry costs seconds, a wrong failure costs a task.
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
	// A NameNode in safe mode has started and waits for block reports, which takes a minute on a large
	// cluster. A standby answers until the fail-over is over. NotReplicatedYet comes when a block is added
	// before the one before it has its least number of replicas.
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
	case errors.Is(err, context.Canceled), errors.Is(err, fs.ErrClosed), errors.Is(err, errRoot), errors.Is(err, errRemoveRoot), errors.Is(err, errReplaced):
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
	// A host that is down answers nothing. Ten seconds are enough for three lost SYNs.
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
	// Set for each call, so that the limit is on silence and not on the length of a transfer.
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
