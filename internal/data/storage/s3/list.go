package s3

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/slotwise/slotwise/internal/base/retry"
	"github.com/slotwise/slotwise/internal/data/storage"
)

// ErrPublishing is returned by List if a commit is changing the directory and has not
// finished while List waited.
var ErrPublishing = errors.New("a job is publishing this directory; try again when it has finished")

// publishingTries is the number of listings before List gives up waiting for a commit.
// The pauses between them grow to a few seconds.
const publishingTries = 6

// List implements storage.FS. If a commit is under way, it waits for some seconds. A
// directory exists as long as an object is below it.
func (f *FS) List(ctx context.Context, dir string) ([]storage.Info, error) {
	o := retry.Options{Tries: publishingTries, FirstPause: 100 * time.Millisecond, Patience: retry.While(func(err error) bool { return errors.Is(err, ErrPublishing) })}
	infos, err := retry.Do(ctx, o, func(ctx context.Context) ([]storage.Info, error) { return f.list(ctx, dir) })
	if err != nil {
		return nil, f.failed("list", dir, err)
	}
	return infos, nil
}

// list is one try of List.
func (f *FS) list(ctx context.Context, dir string) ([]storage.Info, error) {
	bucket, key := split(dir)
	dir = path.Join(bucket, key)
	var infos []storage.Info
	publishing, complete := false, false
	err := f.each(ctx, dir, false, func(o minio.ObjectInfo) bool {
		// Keys of directories end in a slash.
		name := strings.TrimPrefix(strings.TrimPrefix(o.Key, key), "/")
		name, isDir := strings.CutSuffix(name, "/")
		switch {
		// Before the test for names without a path, so that a claim is seen and never listed.
		case name == publishingDir:
			publishing = true
			return true
		case name == storage.SuccessFile && !isDir:
			complete = true
		}
		if name == "" || name == "." || name == ".." || strings.Contains(name, "/") {
			return true // no path leads to it
		}
		info := storage.Info{Path: dir + "/" + name, Dir: isDir}
		if !isDir {
			info.Size, info.ModTime, info.Version = o.Size, o.LastModified, version(o)
		}
		infos = append(infos, info)
		return true
	})
	if err != nil {
		return nil, err
	}
	// Publish removes _SUCCESS first and puts it last. With it the listing is of one whole output, old or
	// new.
	if publishing && !complete {
		return nil, ErrPublishing
	}
	// A claim alone means that another job publishes its first output here.
	if len(infos) == 0 && !publishing {
		return nil, f.whyEmpty(ctx, bucket, key)
	}
	slices.SortFunc(infos, func(a, b storage.Info) int { return cmp.Compare(a.Path, b.Path) })
	return infos, nil
}

// whyEmpty returns the error for a directory without entries: it does not exist, or is
// an object. An empty bucket is no error.
func (f *FS) whyEmpty(ctx context.Context, bucket, key string) error {
	if key == "" {
		there, err := f.c.BucketExists(ctx, bucket)
		if err == nil && !there {
			err = fs.ErrNotExist
		}
		return err
	}
	_, err := f.c.StatObject(ctx, bucket, key, minio.StatObjectOptions{})
	if err == nil {
		return syscall.ENOTDIR
	}
	return err
}
