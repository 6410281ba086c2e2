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

	"github.com/slotwise/slotwise/internal/storage"
	"github.com/slotwise/slotwise/internal/storage/readahead"
)

// ErrPublishing says that a directory was listed while a commit was changing
// it, and that the commit did not end while the reader waited.
var ErrPublishing = errors.New("is being published by another job")

// publishingWaits is how often List looks again, with pauses that grow to 5 s.
const publishingWaits = 6

// List implements storage.FS. It waits for a commit under way for some seconds.
// Directories are the parts of keys before a slash; only those with something in
// them exist.
func (f *FS) List(ctx context.Context, dir string) ([]storage.Info, error) {
	for failures := 1; ; failures++ {
		infos, err := f.list(ctx, dir)
		if err == nil {
			return infos, nil
		}
		if !errors.Is(err, ErrPublishing) || failures == publishingWaits {
			return nil, failed("list", dir, err)
		}
		if err := readahead.Sleep(ctx, 100*time.Millisecond, failures); err != nil {
			return nil, failed("list", dir, err)
		}
	}
}

func (f *FS) list(ctx context.Context, dir string) ([]storage.Info, error) {
	bucket, key := split(dir)
	dir = path.Join(bucket, key)
	var infos []storage.Info
	publishing, complete := false, false
	err := f.each(ctx, dir, false, func(o minio.ObjectInfo) bool {
		name := strings.TrimPrefix(strings.TrimPrefix(o.Key, key), "/")
		switch name {
		case publishingFile:
			publishing = true
			return true
		case storage.SuccessFile:
			complete = true
		}
		name, isDir := strings.CutSuffix(name, "/")
		if name == "" || name == "." || name == ".." || strings.Contains(name, "/") {
			return true // cannot be named by a path
		}
		info := storage.Info{Path: dir + "/" + name, Dir: isDir}
		if !isDir {
			info.Size, info.ModTime = o.Size, o.LastModified
		}
		infos = append(infos, info)
		return true
	})
	if err != nil {
		return nil, err
	}
	if publishing && !complete {
		return nil, ErrPublishing
	}
	if len(infos) == 0 && !publishing {
		return nil, f.nothing(ctx, bucket, key)
	}
	slices.SortFunc(infos, func(a, b storage.Info) int { return cmp.Compare(a.Path, b.Path) })
	return infos, nil
}

// nothing says why a directory lists nothing; a bucket may be empty.
func (f *FS) nothing(ctx context.Context, bucket, key string) error {
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
