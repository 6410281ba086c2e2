package s3

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/slotwise/slotwise/internal/storage"
)

// A staging of bucket/p/out is a set of small objects below
// bucket/p/.out.slotwise-shared-<token>/, or -own-<token>/ if it belongs to one
// process:
//
//	owner            is there while the staging is; whether it may overwrite
//	uploads/<id>     an upload that was begun
//	files/<name>     the upload that is to become the file of that name
//	manifest         all of those, written when the commit is decided
//
// The data themselves are parts of uploads to the objects' final keys; nobody
// sees them until the uploads are completed. A commit
//
//  1. claims the output by publishingFile, which only one can create,
//  2. writes the manifest: from here on it can only go forward,
//  3. removes the old output, _SUCCESS first,
//  4. completes the uploads,
//  5. writes _SUCCESS,
//  6. removes publishingFile, the owner's note, and what is left.
//
// Every step may be repeated, so a commit that was interrupted is done again
// from the manifest. At all times the output is whole if it has a _SUCCESS, or
// has no publishingFile. Readers that know of publishingFile, as List does, see
// the old output or the new one; others must look for _SUCCESS.
const (
	sharedMark  = "shared-"
	ownMark     = "own-"
	ownerFile   = "owner"
	manifestKey = "manifest"
	uploadsDir  = "uploads/"
	filesDir    = "files/"
)

// owner is the content of a staging's first object.
type owner struct {
	Overwrite bool
}

// staging implements storage.Staging.
type staging struct {
	fs        *FS
	target    string // bucket and key
	bucket    string
	key       string // of the output directory
	root      string // key that the staging's own keys begin with, with the slash
	token     string // "" if it belongs to this process
	overwrite bool
	stop      func() // of KeepAlive

	// crash, if set, is asked before each step of Commit; an error stops the
	// commit dead, as if the process had been killed there. Tests only.
	crash func(step string) error

	// mu is held shared while a file is committed, exclusively while the whole is.
	mu struct {
		sync.RWMutex
		done, published bool
	}
}

func (f *FS) newStaging(dir, rest string) *staging {
	bucket, key := split(dir)
	return &staging{
		fs: f, target: path.Join(bucket, key), bucket: bucket, key: key, root: stagingPrefix(key) + rest + "/",
	}
}

func stagingPrefix(key string) string {
	return path.Join(path.Dir(key), storage.StagingPrefix(path.Base(key)))
}

func (s *staging) uploadKey(p pending) string { return s.root + uploadsDir + p.ID }

// fileKey has the name as one element, whatever is in it.
func (s *staging) fileKey(name string) string { return s.root + filesDir + url.PathEscape(name) }

// Stage implements storage.FS.
func (f *FS) Stage(ctx context.Context, dir string, overwrite bool) (storage.Staging, error) {
	s := f.newStaging(dir, ownMark+storage.NewToken())
	s.overwrite = overwrite
	if err := s.begin(ctx); err != nil {
		return nil, failed("output", dir, err)
	}
	s.stop = storage.KeepAlive(func(ctx context.Context) {
		_ = s.note(ctx) // one that cannot be touched now may be the next time
	})
	return s, nil
}

// StageShared implements storage.FS.
func (f *FS) StageShared(ctx context.Context, dir, token string, overwrite bool) (storage.Staging, error) {
	if s, err := f.Reopen(ctx, dir, token); !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	s := f.newStaging(dir, sharedMark+token)
	s.token, s.overwrite = token, overwrite
	if err := s.begin(ctx); err != nil {
		return nil, failed("output", dir, err)
	}
	return s, nil
}

// begin checks and clears the way, and makes the staging.
func (s *staging) begin(ctx context.Context) error {
	if s.key == "" {
		return errors.New("is a whole bucket, which cannot be replaced; name a directory in it")
	}
	if err := s.fs.sweep(ctx, s.target, time.Now()); err != nil {
		return err
	}
	_, err := s.fs.c.StatObject(ctx, s.bucket, s.key, minio.StatObjectOptions{})
	if err == nil {
		return syscall.ENOTDIR
	}
	if !missing(err) {
		return err
	}
	if !s.overwrite {
		if there, err := s.fs.isDir(ctx, s.target); err != nil || there {
			return errors.Join(err, fs.ErrExist)
		}
	}
	return s.note(ctx)
}

// note writes the owner's note, anew to show that the owner lives.
func (s *staging) note(ctx context.Context) error {
	return s.fs.putJSON(ctx, s.bucket, s.root+ownerFile, owner{Overwrite: s.overwrite})
}

func (s *staging) owner(ctx context.Context) (o owner, err error) {
	return o, s.fs.getJSON(ctx, s.bucket, s.root+ownerFile, &o)
}

// Reopen implements storage.FS.
func (f *FS) Reopen(ctx context.Context, dir, token string) (storage.Staging, error) {
	if err := storage.CheckToken(token); err != nil {
		return nil, err
	}
	s := f.newStaging(dir, sharedMark+token)
	s.token = token
	o, err := s.owner(ctx)
	if err == nil {
		s.overwrite = o.Overwrite
		return s, nil
	}
	if !missing(err) {
		return nil, failed("reopen the staging of", dir, err)
	}
	// The owner may have died while it removed the rest.
	err = s.discard(ctx)
	if err == nil {
		s.mu.done, err = s.marked(ctx)
		s.mu.published = s.mu.done
	}
	if err == nil && !s.mu.done {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, failed("reopen the staging of", dir, err)
	}
	return s, nil
}

// marked tells whether the output is the one that was staged here.
func (s *staging) marked(ctx context.Context) (bool, error) {
	b, err := s.fs.get(ctx, s.bucket, s.key+"/"+storage.SuccessFile)
	if missing(err) {
		return false, nil
	}
	return err == nil && s.token != "" && string(b) == s.token+"\n", err
}

// Create implements storage.Staging.
func (s *staging) Create(ctx context.Context, name string) (storage.Writer, error) {
	name = path.Clean(name)
	if !fs.ValidPath(name) || name == "." || name == publishingFile {
		return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrInvalid}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	w := &writer{ctx: ctx, staging: s, pending: pending{Name: name, Key: s.key + "/" + name, ID: storage.NewToken()}}
	if s.mu.done {
		return nil, w.failed("create", fs.ErrClosed)
	}
	if err := w.begin(); err != nil {
		return nil, w.failed("create", err)
	}
	return w, nil
}

// Abort implements storage.Staging. A commit that has begun to remove the old
// output cannot be undone; then Abort removes the new one too, and says so.
func (s *staging) Abort(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.done {
		return nil
	}
	s.end()
	m, err := s.manifest(ctx)
	if err == nil {
		err = s.undo(ctx, m)
	}
	if err == nil || missing(err) {
		err = s.release(ctx)
	}
	if err == nil {
		err = s.discard(ctx)
	}
	if err != nil && !errors.Is(err, errLost) {
		return failed("abort", s.target, err)
	}
	s.mu.done = true
	if err != nil {
		return failed("abort", s.target, err)
	}
	return nil
}

func (s *staging) end() {
	if s.stop != nil {
		s.stop()
	}
}

// discard removes the staging, which has no part in the output any more: the
// owner's note first, so that writers in other processes see it, then what is
// found.
func (s *staging) discard(ctx context.Context) error {
	if err := s.fs.removeKeys(ctx, s.bucket, []string{s.root + ownerFile}); err != nil {
		return err
	}
	var uploads, keys []string
	err := s.fs.eachKey(ctx, s.bucket, s.root, true, func(o minio.ObjectInfo) bool {
		if strings.HasPrefix(o.Key, s.root+uploadsDir) {
			uploads = append(uploads, o.Key)
		} else if !strings.HasSuffix(o.Key, "/") {
			keys = append(keys, o.Key)
		}
		return true
	})
	if err != nil {
		return err
	}
	err = parallel(ctx, uploads, func(ctx context.Context, key string) error {
		var p pending
		err := s.fs.getJSON(ctx, s.bucket, key, &p)
		if err == nil {
			err = s.abortUpload(ctx, p)
		}
		if missing(err) {
			return nil // its writer was faster
		}
		return err
	})
	if err != nil {
		return err
	}
	return s.fs.removeKeys(ctx, s.bucket, append(uploads, keys...))
}

// sweep settles the stagings of target that nobody has touched for too long. One
// whose commit was decided is finished, any other removed.
func (f *FS) sweep(ctx context.Context, target string, now time.Time) error {
	bucket, key := split(target)
	prefix := stagingPrefix(key)
	latest := map[string]time.Time{}
	err := f.eachKey(ctx, bucket, prefix, true, func(o minio.ObjectInfo) bool {
		rest, _, ok := strings.Cut(strings.TrimPrefix(o.Key, prefix), "/")
		if ok && o.LastModified.After(latest[rest]) {
			latest[rest] = o.LastModified
		}
		return true
	})
	if err != nil {
		return err
	}
	for rest, touched := range latest {
		ttl := storage.OwnTTL
		token, ok := strings.CutPrefix(rest, ownMark)
		s := f.newStaging(target, rest)
		if !ok {
			if token, ok = strings.CutPrefix(rest, sharedMark); ok {
				ttl, s.token = storage.SharedTTL, token
			}
		}
		if !ok || storage.CheckToken(token) != nil || now.Sub(touched) < ttl {
			continue
		}
		if err := s.settle(ctx); err != nil {
			return err
		}
	}
	return nil
}

// settle ends a staging whose owner is dead.
func (s *staging) settle(ctx context.Context) error {
	_, err := s.manifest(ctx)
	if err == nil {
		return s.publish(ctx)
	}
	if !missing(err) {
		return err
	}
	if err := s.release(ctx); err != nil {
		return err
	}
	return s.discard(ctx)
}
