package s3

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"github.com/minio/minio-go/v7"

	"github.com/slotwise/slotwise/internal/base/retry"
	"github.com/slotwise/slotwise/internal/data/storage"
)

var _ storage.Editor = (*FS)(nil)

// HasDirs implements storage.Editor.
func (f *FS) HasDirs() bool { return false }

// MakeDir implements storage.Editor. It does nothing: a directory exists as long as it has
// files.
func (f *FS) MakeDir(context.Context, string) error { return nil }

// Move implements storage.Editor. It copies each object and then removes the copied objects,
// so readers may see both. Objects that appear meanwhile stay where they are.
func (f *FS) Move(ctx context.Context, from, to string) error {
	if err := f.move(ctx, from, to); err != nil {
		return f.failed("move", from, err)
	}
	return nil
}

func (f *FS) move(ctx context.Context, from, to string) error {
	fromBucket, fromKey := split(from)
	toBucket, toKey := split(to)
	switch {
	case fromKey == "" || toKey == "":
		return errors.New("is a bucket, which cannot be moved")
	case fromBucket == toBucket && (toKey == fromKey || strings.HasPrefix(toKey, fromKey+"/")):
		return errors.New("cannot be moved into itself")
	}
	// ComposeObject replaces an object without a word, and S3 has no condition for a whole
	// tree of destinations.
	if err := f.vacant(ctx, to); err != nil {
		return err
	}
	var keys []string
	sizes := map[string]int64{}
	switch o, err := f.c.StatObject(ctx, fromBucket, fromKey, minio.StatObjectOptions{}); {
	case err == nil:
		keys, sizes[fromKey] = append(keys, fromKey), o.Size
	case !missing(err):
		return err
	}
	err := f.eachKey(ctx, fromBucket, fromKey+"/", true, func(o minio.ObjectInfo) bool {
		keys, sizes[o.Key] = append(keys, o.Key), o.Size
		return true
	})
	if err == nil && len(keys) == 0 {
		err = fs.ErrNotExist
	}
	// Nothing is removed before the last copy is there: a Move that fails leaves the source
	// complete, and at worst some copies that the user can remove.
	for _, key := range keys {
		copied := toKey + strings.TrimPrefix(key, fromKey)
		switch {
		case err != nil:
		case strings.HasSuffix(key, "/") && sizes[key] == 0:
			// The object of a directory, which servers that keep directories refuse to copy.
			err = bucket{f, toBucket}.Put(ctx, copied, nil)
		default:
			_, err = f.c.Client.ComposeObject(ctx, minio.CopyDestOptions{Bucket: toBucket, Object: copied},
				minio.CopySrcOptions{Bucket: fromBucket, Object: key})
		}
		if err == nil {
			err = f.awaitObject(ctx, toBucket, copied, sizes[key], "")
		}
	}
	if err != nil {
		return err
	}
	slices.Reverse(keys) // servers that keep directories must find them empty
	return deleteAll(ctx, bucket{f, fromBucket}, keys)
}

// awaitObject waits until the server has an object of this size and with this ETag, which the
// answer to the upload has stated; "" if it has stated none. complete says why a server may
// have confirmed an object that it does not have. The size alone would not show that an
// object of the same size has not been replaced.
func (f *FS) awaitObject(ctx context.Context, bucket, key string, size int64, etag string) error {
	return retry.Run(ctx, awaitMade, func(ctx context.Context) error {
		o, err := f.c.StatObject(ctx, bucket, key, minio.StatObjectOptions{})
		switch {
		case err != nil && !missing(err):
			return err
		case err != nil || o.Size != size || etag != "" && o.ETag != etag:
			return errNotMade
		}
		return nil
	})
}

// CreateFile implements storage.Editor. The object becomes visible when the upload is
// complete. S3 keeps the bytes of uploads apart, so there is no temporary file.
func (f *FS) CreateFile(ctx context.Context, p string, replace bool) (storage.Writer, error) {
	bucket, key := split(p)
	if key == "" {
		return nil, f.failed("create", p, errors.New("the URI names a bucket and no object"))
	}
	r, w := io.Pipe()
	e := &edit{PipeWriter: w, ended: make(chan error, 1)}
	if !replace {
		e.check = func() error {
			if err := f.vacant(ctx, p); err != nil {
				return f.failed("create", p, err)
			}
			return nil
		}
	}
	go func() {
		err := f.upload(ctx, bucket, key, bufio.NewReaderSize(r, smallObject))
		if err != nil {
			err = f.failed("create", p, err)
		}
		r.CloseWithError(err)
		e.ended <- err
	}()
	return e, nil
}

// vacant returns fs.ErrExist if there is an object or a directory at p.
func (f *FS) vacant(ctx context.Context, p string) error {
	switch _, err := f.Stat(ctx, p); {
	case err == nil:
		return fs.ErrExist
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return nil
}

// RemoveOne implements storage.Editor. If the last file of a directory disappears meanwhile,
// the directory may still have an object of its own, which some servers and tools make.
func (f *FS) RemoveOne(ctx context.Context, p string, dir bool) error {
	if err := f.removeOne(ctx, p, dir); err != nil {
		return f.failed("remove", p, err)
	}
	return nil
}

func (f *FS) removeOne(ctx context.Context, p string, dir bool) error {
	name, key := split(p)
	if key == "" {
		return errRemoveBucket
	}
	info, err := f.Stat(ctx, p)
	switch {
	case err != nil:
		return err
	case info.Dir != dir && dir:
		return syscall.ENOTDIR
	case info.Dir != dir:
		return syscall.EISDIR
	case !dir:
		return deleteAll(ctx, bucket{f, name}, []string{key})
	}
	// The listing leaves out the object of the directory itself, which is no entry.
	entries := false
	err = f.each(ctx, p, true, func(minio.ObjectInfo) bool {
		entries = true
		return false
	})
	if err == nil && entries {
		err = syscall.ENOTEMPTY
	}
	if err != nil {
		return err
	}
	return deleteAll(ctx, bucket{f, name}, []string{key + "/"})
}

// upload makes an object of the bytes of r, whose buffer has room for smallObject, and waits
// until the server has it. A small object takes one request instead of three.
func (f *FS) upload(ctx context.Context, bucketName, key string, r *bufio.Reader) error {
	content, err := r.Peek(smallObject)
	if err == io.EOF {
		etag, err := bucket{f, bucketName}.put(ctx, key, content)
		if err != nil {
			return err
		}
		return f.awaitObject(ctx, bucketName, key, int64(len(content)), etag)
	}
	if err != nil {
		return err
	}
	o, err := f.c.Client.PutObject(ctx, bucketName, key, r, -1, minio.PutObjectOptions{
		PartSize: editPart, ConcurrentStreamParts: true, NumThreads: editParts,
	})
	if err != nil {
		return err
	}
	return f.awaitObject(ctx, bucketName, key, o.Size, o.ETag)
}

const (
	// smallObject is the size in bytes from which an object is uploaded in parts.
	smallObject = 1 << 20
	// editPart is the size of the parts of an upload in bytes. With 10,000 parts a file may
	// have 160 GiB.
	editPart = 16 << 20
	// editParts is the number of parts that are uploaded at the same time. Each is in memory.
	editParts = 3
)

// errDiscarded ends an upload that is not wanted.
var errDiscarded = errors.New("discarded")

// edit implements storage.Writer.
type edit struct {
	*io.PipeWriter
	ended chan error   // receives the result of the upload
	check func() error // runs before the object becomes visible; nil if it may replace another
	done  bool
}

// Commit implements storage.Writer. Not all servers of S3 can make an object on the condition
// that there is none. So two writers that commit at the same moment may both succeed.
func (e *edit) Commit() error {
	if e.check != nil {
		if err := e.check(); err != nil {
			return errors.Join(err, e.Discard())
		}
	}
	e.done = true
	e.Close()
	return <-e.ended
}

// Discard implements storage.Writer.
func (e *edit) Discard() error {
	if !e.done {
		e.done = true
		e.CloseWithError(errDiscarded)
		<-e.ended
	}
	return nil
}
