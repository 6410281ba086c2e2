// Package s3 implements storage.FS for s3:// URIs: Amazon S3 and servers that speak
// its protocol.
//
// S3 has no directories and no renames. But a multipart upload becomes an object
// only when it is completed, and so outputs stay invisible: tasks upload the parts,
// and the committing process completes the uploads. The publisher type describes the
// steps, and docs/storage.md the consequences for users.
//
// config.go finds the server and the credentials, s3.go opens objects, list.go lists and edit.go is what hadoop fs
// needs. stage.go has the steps of a staging, on which package storage builds a commit; writer.go and upload.go
// make the parts of an object. server.go is all that a staging asks of a server, so that tests can give it one
// that fails between any two requests.
package s3

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/minio/minio-go/v7"

	"github.com/slotwise/slotwise/internal/data/storage"
)

// FS is an S3 server. Its paths are bucket/key. Keys with empty elements or with dots
// as elements cannot be reached, because path.Clean changes them. Several goroutines
// may use an FS at once.
type FS struct {
	c       minio.Core
	timeout time.Duration // for a response body that brings no byte
	part    int           // bytes of the first parts of an upload
	// closeIdle closes the connections that no request uses.
	closeIdle func()

	// Tests only; both may be nil.
	wrapServer func(server) server // wraps the requests of stagings
	now        func() time.Time    // the clock of sweeping
}

var _ storage.FS = (*FS)(nil)

// Driver returns the driver of s3:// URIs, the same at every call.
func Driver() storage.Driver { return process }

// process is the only driver of this process, tests excepted.
var process = newDriver()

// driver keeps one FS, with one client, for each configuration.
type driver struct {
	mu    sync.Mutex
	known map[settings]*FS
}

// newDriver returns a driver without file systems.
func newDriver() *driver { return &driver{known: map[settings]*FS{}} }

// Open implements storage.Driver. It reads the configuration from the environment at
// every call.
func (d *driver) Open(rest string) (storage.FS, string, error) {
	p := path.Clean(rest)
	if bucket, _, _ := strings.Cut(p, "/"); bucket == "" || bucket == "." || bucket == ".." {
		return nil, "", errors.New("the URI names no bucket; use s3://bucket/dir")
	}
	s := load()
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.known[s]
	if f == nil {
		c, closeIdle, err := s.client()
		if err != nil {
			return nil, "", err
		}
		f = &FS{c: c, closeIdle: closeIdle, timeout: 30 * time.Second, part: minPart}
		d.known[s] = f
	}
	return f, p, nil
}

// CloseIdle implements storage.Driver.
func (d *driver) CloseIdle() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.known {
		f.closeIdle()
	}
}

// split splits a path into bucket and key. The key of the bucket itself is "".
func split(p string) (bucket, key string) {
	bucket, key, _ = strings.Cut(path.Clean(p), "/")
	return bucket, key
}

// failed turns an error of the client into one that names the URI and wraps an error
// of io/fs where one fits. It marks the error's class.
func failed(op, p string, err error) error {
	err = kind(err)
	switch {
	case errors.Is(err, fs.ErrPermission):
		err = storage.Denied(err)
	case isUnavailable(err):
		err = storage.Unavailable(err)
	}
	return &fs.PathError{Op: op, Path: "s3://" + path.Clean(p), Err: err}
}

// failed is the function of this name, and names the user if the permission is denied.
func (f *FS) failed(op, p string, err error) error {
	if err = kind(err); errors.Is(err, fs.ErrPermission) {
		user := "without credentials"
		if c, cerr := f.c.GetCreds(); cerr == nil && c.AccessKeyID != "" {
			user = fmt.Sprintf("for the access key %q", c.AccessKeyID)
		}
		err = fmt.Errorf("%w %s", err, user)
	}
	return failed(op, p, err)
}

// isUnavailable reports whether err is a failure of the server or of the network that
// may pass, and no answer about the request itself; or comes from a delayed attempt.
func isUnavailable(err error) bool {
	var answer minio.ErrorResponse
	var network net.Error
	switch {
	case errors.Is(err, errFenced):
		return true // the attempt after this one is not fenced by the same writer
	// A wrong certificate stays wrong, although it counts as an error of the network.
	case errors.Is(err, context.Canceled), errors.As(err, new(*tls.CertificateVerificationError)):
		return false
	// 503 Slow Down and 429 ask for fewer requests, 408 comes for a connection that was too slow. 501 does
	// not change by waiting.
	case errors.As(err, &answer) && answer.StatusCode != 0:
		return answer.StatusCode >= 500 && answer.StatusCode != http.StatusNotImplemented || answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode == http.StatusRequestTimeout
	}
	return errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, errSilent)
}

// kind wraps a server's error answer in the io/fs error that it means. It returns
// other errors, and wrapped ones, unchanged.
func kind(err error) error {
	// Errors pass here more than once on their way up, and must not be wrapped twice.
	for _, known := range []error{fs.ErrNotExist, fs.ErrPermission, fs.ErrInvalid, errChanged} {
		if errors.Is(err, known) {
			return err
		}
	}
	var r minio.ErrorResponse
	if !errors.As(err, &r) {
		return err
	}
	cause := error(nil)
	switch {
	// The status alone for HEAD, whose answer has no body and so no code.
	case r.StatusCode == http.StatusNotFound, r.Code == minio.NoSuchKey, r.Code == minio.NoSuchBucket:
		cause = fs.ErrNotExist
		if r.Code == minio.NoSuchBucket {
			return fmt.Errorf("%w: there is no such bucket", cause)
		}
		return cause
	case r.StatusCode == http.StatusForbidden, r.StatusCode == http.StatusUnauthorized:
		cause = fs.ErrPermission
	// The second is Amazon's 409 for two conditional writes at the same moment.
	case r.StatusCode == http.StatusPreconditionFailed, r.Code == "ConditionalRequestConflict":
		cause = errChanged
	case r.StatusCode == http.StatusBadRequest:
		cause = fs.ErrInvalid
	default:
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// errChanged reports that a condition of a request did not hold: the object has been
// replaced since it was read, or exists already.
var errChanged = errors.New("the object was replaced meanwhile")

// missing reports whether err says that an object or bucket does not exist.
func missing(err error) bool { return errors.Is(kind(err), fs.ErrNotExist) }

// Open implements storage.FS. Reads fail if the object is replaced after Open, so the
// old and the new content never mix.
func (f *FS) Open(ctx context.Context, p string) (storage.File, error) {
	bucket, key := split(p)
	if key == "" {
		return nil, f.failed("open", p, syscall.EISDIR)
	}
	st, err := f.c.StatObject(ctx, bucket, key, minio.StatObjectOptions{})
	if err != nil {
		if missing(err) {
			if dir, _ := f.isDir(ctx, p); dir {
				err = syscall.EISDIR
			}
		}
		return nil, f.failed("open", p, err)
	}
	open := func(ctx context.Context, off int64) (io.ReadCloser, error) {
		return f.stream(ctx, bucket, st, off)
	}
	// After a replacement the stream could only continue with other content.
	permanent := func(err error) bool { return errors.Is(err, errChanged) }
	return storage.NewStreamedFile(ctx, open, st.Size, storage.StreamOptions{
		Permanent: permanent,
		Failed:    func(err error) error { return f.failed("read", p, err) },
		Version:   version(st),
		Window:    window,
	}), nil
}

// version returns the version of an object. Its ETag changes with its content. The time does
// not count: listings have more digits than answers about one object.
func version(o minio.ObjectInfo) storage.Version {
	tag := strings.Trim(o.ETag, `"`)
	if tag == "" {
		return storage.Version{}
	}
	return storage.Version{ID: xxhash.Sum64String(tag)}
}

// window is the number of bytes that one request asks for. If a task stops reading
// early, the rest of the window costs a connection and some bandwidth.
const window = 8 << 20

// stream requests the window at off. It fails if the object is not st any more, or if
// no byte arrives for f.timeout.
func (f *FS) stream(ctx context.Context, bucket string, st minio.ObjectInfo, off int64) (io.ReadCloser, error) {
	var opts minio.GetObjectOptions
	// The ETag makes the server refuse the request if the object was replaced between two windows.
	err := errors.Join(opts.SetMatchETag(st.ETag), opts.SetRange(off, min(off+window, st.Size)-1))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	// Until the headers are there. After that each Read of stream restarts it.
	limit := time.AfterFunc(f.timeout, func() { cancel(fmt.Errorf("%w for %v", errSilent, f.timeout)) })
	body, _, _, err := f.c.GetObject(ctx, bucket, st.Key, opts)
	limit.Stop()
	if err != nil {
		cancel(nil)
		return nil, kind(err)
	}
	return &stream{body: body, ctx: ctx, cancel: cancel, limit: limit, timeout: f.timeout}, nil
}

// errSilent reports a response body that stopped.
var errSilent = errors.New("the server sent no data")

// stream is a response body whose reads have a time-out. Between reads no time counts: a stream that was
// requested early waits for its turn, and a slow job reads a window for minutes.
type stream struct {
	body    io.ReadCloser
	ctx     context.Context
	cancel  context.CancelCauseFunc
	limit   *time.Timer // cancels ctx
	timeout time.Duration
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	s.limit.Reset(s.timeout)
	n, err := s.body.Read(p)
	s.limit.Stop()
	// The transport reports only that the context was cancelled. The cause says by whom.
	if err != nil && err != io.EOF && s.ctx.Err() != nil {
		err = context.Cause(s.ctx)
	}
	return n, err
}

// Close ends the request.
func (s *stream) Close() error {
	s.limit.Stop()
	s.cancel(nil)
	return s.body.Close()
}

// Stat implements storage.FS. If there is an object with the key and also objects
// below it, Stat describes the object.
func (f *FS) Stat(ctx context.Context, p string) (storage.Info, error) {
	bucket, key := split(p)
	if key == "" {
		there, err := f.c.BucketExists(ctx, bucket)
		if err == nil && !there {
			err = fs.ErrNotExist
		}
		if err != nil {
			return storage.Info{}, f.failed("stat", p, err)
		}
		return storage.Info{Path: bucket, Dir: true}, nil
	}
	st, err := f.c.StatObject(ctx, bucket, key, minio.StatObjectOptions{})
	if err == nil {
		return storage.Info{Path: path.Clean(p), Size: st.Size, ModTime: st.LastModified, Version: version(st)}, nil
	}
	if missing(err) {
		var dir bool
		if dir, err = f.isDir(ctx, p); dir && err == nil {
			return storage.Info{Path: path.Clean(p), Dir: true}, nil
		}
		if err == nil {
			err = fs.ErrNotExist
		}
	}
	return storage.Info{}, f.failed("stat", p, err)
}

// isDir reports whether there are objects below p, apart from a claim.
func (f *FS) isDir(ctx context.Context, p string) (bool, error) {
	found := false
	err := f.each(ctx, p, false, func(o minio.ObjectInfo) bool {
		// A claim alone is a first output that is not published yet: the directory does not exist for
		// readers.
		found = path.Base(o.Key) != publishingDir
		return !found
	})
	return found, err
}

// each calls fn for every object below p until fn returns false. If recursive is
// false, it combines objects with a common prefix up to a slash into one entry, whose
// key is the prefix. It skips the object that some servers keep for a directory.
func (f *FS) each(ctx context.Context, p string, recursive bool, fn func(minio.ObjectInfo) bool) error {
	bucket, key := split(p)
	prefix := ""
	if key != "" {
		prefix = key + "/"
	}
	return f.eachKey(ctx, bucket, prefix, recursive, func(o minio.ObjectInfo) bool {
		return o.Key == prefix || fn(o)
	})
}

// eachKey is each for the keys of a bucket that begin with prefix.
func (f *FS) eachKey(ctx context.Context, bucket, prefix string, recursive bool, fn func(minio.ObjectInfo) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the goroutine of the listing
	for o := range f.c.Client.ListObjects(ctx, bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: recursive}) {
		if o.Err != nil {
			return o.Err
		}
		if !fn(o) {
			return nil
		}
	}
	// The listing may end without an error when its context does, which would look like an empty
	// directory.
	return context.Cause(ctx)
}

// Remove implements storage.FS. It removes the object with the key and all objects
// below it, object by object, so a reader may see a part of the objects.
func (f *FS) Remove(ctx context.Context, p string) error {
	name, key := split(p)
	if key == "" {
		return f.failed("remove", p, errRemoveBucket)
	}
	keys := []string{key}
	// With the object of the directory itself, which other programs show as an empty directory.
	err := f.eachKey(ctx, name, key+"/", true, func(o minio.ObjectInfo) bool {
		keys = append(keys, o.Key)
		return true
	})
	if err == nil {
		slices.Reverse(keys) // servers that keep directories must find them empty
		err = deleteAll(ctx, bucket{f, name}, keys)
	}
	if err != nil && !missing(err) {
		return f.failed("remove", p, err)
	}
	return nil
}

// errRemoveBucket refuses to remove all objects of a bucket.
var errRemoveBucket = errors.New("is a bucket, which is never removed; name an object in it")

// width is the number of requests that parallel keeps under way.
const width = 8

// parallel calls fn for all items, several at once, and returns the joined errors.
// After the first error it begins no further call.
func parallel[T any](ctx context.Context, items []T, fn func(context.Context, T) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	next := make(chan T)
	errs := make([]error, width)
	var wg sync.WaitGroup
	for i := range min(width, len(items)) {
		wg.Go(func() {
			for item := range next {
				// Each goroutine writes only its element of errs, so errs needs no lock.
				if errs[i] = fn(ctx, item); errs[i] != nil {
					cancel()
					return
				}
			}
		})
	}
feed:
	for _, item := range items {
		select {
		case next <- item:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return context.Cause(ctx)
}
