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
	// A key may be an object and a prefix at the same time. Both move.
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
			// The source is removed below, so a copy that was confirmed and not made would be a loss.
			err = bucket{f, toBucket}.await(ctx, copied, made{size: sizes[key]})
		}
	}
	if err != nil {
		return err
	}
	slices.Reverse(keys) // servers that keep directories must find them empty
	return deleteAll(ctx, bucket{f, fromBucket}, keys)
}

// CreateFile implements storage.Editor. The object becomes visible when the upload is
// complete. S3 keeps the bytes of uploads apart, so there is no temporary file.
func (f *FS) CreateFile(ctx context.Context, p string, replace bool) (storage.Writer, error) {
	name, key := split(p)
	if key == "" {
		return nil, f.failed("create", p, errors.New("the URI names a bucket and no object"))
	}
	// The client reads the content from a reader, while commands write it piece by piece.
	r, w := io.Pipe()
	e := &edit{PipeWriter: w, ended: make(chan error, 1)}
	if !replace {
		// The condition of the upload knows nothing of directories, and not all servers have it.
		e.check = func() error {
			if err := f.vacant(ctx, p); err != nil {
				return f.failed("create", p, err)
			}
			return nil
		}
	}
	go func() {
		u := upload{b: bucket{f, name}, key: key, id: storage.NewToken(), replace: replace}
		err := u.run(ctx, bufio.NewReaderSize(r, smallObject))
		if err != nil {
			err = f.failed("create", p, err)
		}
		// A Write that waits for the upload to read gets the error.
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
// the directory may still have its own object, which some servers and tools make.
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

// errDiscarded ends an upload that is not wanted.
var errDiscarded = errors.New("discarded")

// edit implements storage.Writer.
type edit struct {
	*io.PipeWriter
	ended chan error   // receives the result of the upload
	check func() error // runs before the object becomes visible; nil if it may replace another
	done  bool
}

// Commit implements storage.Writer. On a server without conditions two writers that must not
// replace anything may both succeed if they commit at the same moment.
func (e *edit) Commit() error {
	if e.check != nil {
		if err := e.check(); err != nil {
			return errors.Join(err, e.Discard())
		}
	}
	e.done = true
	// The end of the pipe is the end of the content: the upload then completes the object.
	e.Close()
	return <-e.ended
}

// Discard implements storage.Writer.
func (e *edit) Discard() error {
	if !e.done {
		e.done = true
		// An error and no end: run aborts the upload, and no object appears.
		e.CloseWithError(errDiscarded)
		<-e.ended
	}
	return nil
}
