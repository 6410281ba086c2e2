// Package hdfs implements storage.FS for hdfs:// URIs, Hadoop's distributed file
// system. It uses HDFS's own protocol. Only the locations of blocks come from the
// NameNode's HTTP server, because the protocol's client does not offer them.
//
// A URI names the NameNode (hdfs://host:port/path), a name service, or nothing
// (hdfs:///path). The configuration in HADOOP_CONF_DIR resolves the latter two.
// docs/storage.md lists all settings.
//
// The library reads; files are written by namenode.go, pipeline.go and writer.go. The library,
// the only maintained one in Go, has no recovery of pipelines, cannot exclude DataNodes, and
// does not export the calls from which one could build both. Starting the file again instead
// would copy all its complete blocks and could be offered the dead DataNode again. Where data
// transfers are encrypted the library writes, too.
package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"

	"github.com/colinmarc/hdfs/v2"

	"github.com/slotwise/slotwise/internal/data/storage"
)

// FS is one HDFS. Its paths begin with the authority: host:port/dir/file. Several
// goroutines may use it at once.
//
// Methods with an exported name take such paths. The others take paths within the
// HDFS, which begin with a slash.
//
// Two kinds of connections to the NameNode exist. Calls and readers share one client of the library
// (conn.go). Each writer, and each call that must not be repeated, has a separate namenode, whose client id
// makes repetitions safe.
type FS struct {
	authority string
	settings  settings
	mu        struct {
		sync.Mutex
		client *client // the current connection; nil before the first call and after a failure
	}
	located locations
	// bad are the DataNodes that failed while this process wrote to them, by address.
	bad struct {
		mu    sync.Mutex
		nodes map[string]badNode
	}

	// wrapOps, if set, wraps the operations of stagings: a test's faults.
	wrapOps func(storage.RenameOps) storage.RenameOps
}

var (
	_ storage.FS      = (*FS)(nil)
	_ storage.Located = (*FS)(nil)
)

// Driver returns the driver of hdfs:// URIs, the same at every call.
func Driver() storage.Driver { return process }

// process is the only driver of this process, tests excepted.
var process = newDriver()

// driver keeps one FS, with one connection, for each file system.
type driver struct {
	mu    sync.Mutex
	known map[string]*FS // by authority
}

// newDriver returns a driver without file systems.
func newDriver() *driver { return &driver{known: map[string]*FS{}} }

// Open implements storage.Driver. It reads the configuration from the environment at
// every call.
func (d *driver) Open(rest string) (storage.FS, string, error) {
	authority, p, _ := strings.Cut(rest, "/")
	s, err := load(authority)
	if err != nil {
		return nil, "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.known[s.authority]
	// Another user or other keys need another connection: the NameNode authenticates a
	// connection, not a call.
	// Writers under way keep the old FS and its connection. closeIdle ends that only when the last one has
	// released it.
	if f == nil || !f.settings.equal(s) {
		if f != nil {
			f.closeIdle()
		}
		f = &FS{authority: s.authority, settings: s}
		d.known[s.authority] = f
	}
	// The settings' authority and not the URI's: hdfs:///x has none, and paths of one file system must be
	// equal texts.
	return f, s.authority + path.Clean("/"+p), nil
}

// CloseIdle implements storage.Driver.
func (d *driver) CloseIdle() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.known {
		f.closeIdle()
	}
}

// inner removes the authority from a path.
func (f *FS) inner(p string) string {
	_, rest, _ := strings.Cut(p, "/")
	return path.Clean("/" + rest)
}

// uri returns the URI of a path within the HDFS, for messages.
func (f *FS) uri(inner string) string { return "hdfs://" + f.authority + inner }

// failed turns an error of the client into one that names the URI, and the user if
// permission is denied. It marks the error's class. Of the server's message it keeps
// the first line; a Java stack trace follows.
func (f *FS) failed(op, inner string, err error) error {
	// The library's path has no authority, and the error would then name two paths.
	err = withoutPath(err)
	var remote hdfs.Error
	if errors.As(err, &remote) {
		// The client maps the exceptions for missing files, existing files and
		// permissions to errors of io/fs, and leaves these two.
		first, _, _ := strings.Cut(remote.Message(), "\n")
		cause := error(nil)
		switch remote.Exception() {
		case "org.apache.hadoop.fs.InvalidPathException":
			cause = fs.ErrInvalid
		case "org.apache.hadoop.fs.ParentNotDirectoryException":
			cause = syscall.ENOTDIR
		}
		if cause != nil {
			err = fmt.Errorf("%w (%s)", cause, first)
		} else {
			err = fmt.Errorf("%w: %s", err, first)
		}
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		err = storage.Denied(fmt.Errorf("%w for the user %q", err, f.settings.user))
	case isUnavailable(err):
		err = storage.Unavailable(err)
	}
	return &fs.PathError{Op: op, Path: f.uri(inner), Err: err}
}

// Open implements storage.FS.
func (f *FS) Open(ctx context.Context, p string) (storage.File, error) {
	p = f.inner(p)
	var st os.FileInfo
	err := f.do(ctx, func(c *hdfs.Client) (err error) {
		// Only the status is read here. The stream is opened at the first ReadAt: a caller that wants the size
		// alone pays one call.
		st, err = c.Stat(p)
		return err
	})
	if err == nil && st.IsDir() {
		err = syscall.EISDIR
	}
	if err != nil {
		return nil, f.failed("open", p, err)
	}
	return storage.NewStreamedFile(ctx, func(ctx context.Context, off int64) (io.ReadCloser, error) {
		return f.stream(ctx, p, st, off)
	}, st.Size(), storage.StreamOptions{
		Permanent: func(err error) bool { return errors.Is(err, errReplaced) },
		Failed:    func(err error) error { return f.failed("read", p, err) },
		Version:   version(st),
	}), nil
}

// errReplaced is the error of a read that would continue in another file of the same name.
var errReplaced = errors.New("the file was replaced meanwhile")

// version returns the version of a file.
func version(st os.FileInfo) storage.Version {
	v := storage.Version{ModTime: st.ModTime().UnixNano()}
	if s, ok := st.Sys().(*hdfs.FileStatus); ok {
		v.ID = s.GetFileId()
	}
	return v
}

// stream opens a file at an offset. The client tries all replicas of a block. When
// all have failed, the storage.StreamedFile calls stream again, which fetches the
// locations anew.
// It fails with errReplaced if the path leads to another file than st by then.
func (f *FS) stream(ctx context.Context, p string, st os.FileInfo, off int64) (io.ReadCloser, error) {
	var r *hdfs.FileReader
	err := f.do(ctx, func(c *hdfs.Client) (err error) {
		r, err = c.Open(p)
		return err
	})
	if err != nil {
		return nil, err
	}
	// The bytes before off came from st. The rest of another file would make records that no file has.
	// A file under construction has a larger size at each opening. That is growth and no replacement.
	if now := r.Stat(); version(now).Replaced(version(st), now.Size() > st.Size()) {
		return nil, errors.Join(errReplaced, r.Close())
	}
	if _, err := r.Seek(off, io.SeekStart); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Stat implements storage.FS.
func (f *FS) Stat(ctx context.Context, p string) (storage.Info, error) {
	p = f.inner(p)
	st, err := f.stat(ctx, p)
	if err != nil {
		return storage.Info{}, f.failed("stat", p, err)
	}
	return f.info(p, st), nil
}

// stat returns the status of a file or directory.
func (f *FS) stat(ctx context.Context, p string) (st os.FileInfo, err error) {
	err = f.do(ctx, func(c *hdfs.Client) error {
		st, err = c.Stat(p)
		return err
	})
	return st, err
}

// exists reports whether there is a file or directory at p.
func (f *FS) exists(ctx context.Context, p string) (bool, error) {
	_, err := f.stat(ctx, p)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// sticky is the bit of a directory's permissions which means that a file in it can be removed
// only by the file's owner.
const sticky = 0o1000

// info converts a file's status.
func (f *FS) info(p string, st os.FileInfo) storage.Info {
	// A directory has no version: its time changes with each file in it.
	info := storage.Info{Path: f.authority + p, ModTime: st.ModTime(), Dir: st.IsDir()}
	if !info.Dir {
		info.Size, info.Version = st.Size(), version(st)
	}
	if s, ok := st.Sys().(*hdfs.FileStatus); ok {
		mode := st.Mode().Perm()
		// HDFS enforces the bit on directories only. The library drops it from Mode.
		if s.GetPermission().GetPerm()&sticky != 0 {
			mode |= fs.ModeSticky
		}
		info.Status = &storage.Status{
			Mode: mode, Owner: s.GetOwner(), Group: s.GetGroup(),
			Replication: int(s.GetBlockReplication()), BlockSize: int64(s.GetBlocksize()), //nolint:gosec // a server's block has fewer bytes
		}
	}
	return info
}

// List implements storage.FS.
func (f *FS) List(ctx context.Context, dir string) ([]storage.Info, error) {
	dir = f.inner(dir)
	entries, err := f.readDir(ctx, dir)
	if err != nil {
		return nil, f.failed("list", dir, err)
	}
	infos := make([]storage.Info, len(entries))
	for i, e := range entries {
		infos[i] = f.info(path.Join(dir, e.Name()), e)
	}
	return infos, nil
}

// readDir returns the entries of a directory sorted by name.
func (f *FS) readDir(ctx context.Context, dir string) (entries []os.FileInfo, err error) {
	err = f.do(ctx, func(c *hdfs.Client) error {
		d, err := c.Open(dir)
		if err != nil {
			return err
		}
		defer d.Close()
		if !d.Stat().IsDir() {
			return syscall.ENOTDIR
		}
		// 0 reads all entries, in as many calls as the NameNode needs.
		entries, err = d.Readdir(0)
		return err
	})
	return entries, err
}

// Remove implements storage.FS.
func (f *FS) Remove(ctx context.Context, p string) error {
	p = f.inner(p)
	if p == "/" {
		return f.failed("remove", p, errRemoveRoot)
	}
	if err := f.remove(ctx, p); err != nil {
		return f.failed("remove", p, err)
	}
	return nil
}

// errRemoveRoot refuses to remove all files of an HDFS.
var errRemoveRoot = errors.New("is the root, which is never removed; name a file or directory in it")

// remove removes a file or a directory tree in one step. A path that does not exist
// is no error.
func (f *FS) remove(ctx context.Context, p string) error {
	return f.do(ctx, func(c *hdfs.Client) error {
		// Missing is success: after a lost answer the second try finds nothing.
		if err := c.RemoveAll(p); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}
