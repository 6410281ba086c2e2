package s3

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/slotwise/slotwise/internal/storage"
)

// errBusy says that another staging of the same output is being committed, or
// that its committing process has died and not come back.
var errBusy = errors.New("another job is publishing the same output")

// errLost says that an abort came too late.
var errLost = errors.New("the old output had been removed already, so there is none now")

// manifest returns what a commit that was decided publishes.
func (s *staging) manifest(ctx context.Context) (m []pending, err error) {
	return m, s.fs.getJSON(ctx, s.bucket, s.root+manifestKey, &m)
}

// Commit implements storage.Staging.
func (s *staging) Commit(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.published && s.token != "" {
		return nil
	}
	if s.mu.done {
		return failed("commit", s.target, fs.ErrClosed)
	}
	if err := s.commit(ctx); err != nil {
		return failed("commit", s.target, err)
	}
	s.mu.published, s.mu.done = true, true
	return nil
}

func (s *staging) step(name string) error {
	if s.crash == nil {
		return nil
	}
	return s.crash(name)
}

// commit goes on from wherever an earlier commit stopped.
func (s *staging) commit(ctx context.Context) error {
	_, err := s.manifest(ctx)
	if missing(err) {
		var done bool
		if done, err = s.decide(ctx); done {
			return nil
		}
	}
	if err != nil {
		return err
	}
	return s.publish(ctx)
}

// decide claims the output and writes the manifest. It returns true if another
// process has published the staging.
func (s *staging) decide(ctx context.Context) (done bool, err error) {
	if _, err := s.owner(ctx); err != nil {
		if !missing(err) {
			return false, err
		}
		done, merr := s.marked(ctx)
		if !done && merr == nil {
			merr = err
		}
		return done, merr
	}
	if err := s.step("claim"); err != nil {
		return false, err
	}
	if err := s.claim(ctx); err != nil {
		return false, err
	}
	if !s.overwrite {
		there, err := s.fs.isDir(ctx, s.target)
		if err == nil && there {
			err = fs.ErrExist
		}
		if err != nil {
			return false, errors.Join(err, s.release(context.WithoutCancel(ctx)))
		}
	}
	if err := s.step("decide"); err != nil {
		return false, err
	}
	m, err := s.gather(ctx)
	if err != nil {
		return false, err
	}
	return false, s.fs.putJSON(ctx, s.bucket, s.root+manifestKey, m)
}

// claimKey is the object that a commit claims the output by.
func (s *staging) claimKey() string { return s.key + "/" + publishingFile }

// claim creates publishingFile, which holds this staging's root. What another
// staging left there that has ended counts as nothing.
func (s *staging) claim(ctx context.Context) error {
	var opts minio.PutObjectOptions
	opts.SetMatchETagExcept("*")
	err := s.fs.put(ctx, s.bucket, s.claimKey(), []byte(s.root), opts)
	if err != nil && !errors.Is(kind(err), errChanged) {
		return err
	}
	// Read in any case: a server may not know the condition, or the answer to
	// the first of several tries may have been lost.
	holder, err := s.fs.get(ctx, s.bucket, s.claimKey())
	if err != nil || string(holder) == s.root {
		return err
	}
	over, err := s.over(ctx, string(holder))
	if err != nil {
		return err
	}
	if !over {
		return errBusy
	}
	return s.fs.put(ctx, s.bucket, s.claimKey(), []byte(s.root), minio.PutObjectOptions{})
}

// over tells whether another staging of the same output has no more to change
// in it: it is gone, or has published and died before it cleaned up.
func (s *staging) over(ctx context.Context, root string) (bool, error) {
	rest := strings.TrimSuffix(strings.TrimPrefix(root, stagingPrefix(s.key)), "/")
	other := s.fs.newStaging(s.target, rest)
	other.token, _ = strings.CutPrefix(rest, sharedMark)
	if _, err := other.owner(ctx); err != nil {
		if missing(err) {
			return true, nil
		}
		return false, err
	}
	return other.marked(ctx)
}

// release removes publishingFile if it is this staging's.
func (s *staging) release(ctx context.Context) error {
	if claimed, err := s.claimed(ctx); err != nil || !claimed {
		return err
	}
	return s.fs.removeKeys(ctx, s.bucket, []string{s.claimKey()})
}

// gather reads which files there are.
func (s *staging) gather(ctx context.Context) ([]pending, error) {
	var keys []string
	err := s.fs.eachKey(ctx, s.bucket, s.root+filesDir, true, func(o minio.ObjectInfo) bool {
		if !strings.HasSuffix(o.Key, "/") {
			keys = append(keys, o.Key)
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	m := make([]pending, len(keys))
	index := make([]int, len(keys))
	for i := range index {
		index[i] = i
	}
	return m, parallel(ctx, index, func(ctx context.Context, i int) error {
		return s.fs.getJSON(ctx, s.bucket, keys[i], &m[i])
	})
}

// publish does what the manifest says and cleans up.
func (s *staging) publish(ctx context.Context) error {
	m, err := s.manifest(ctx)
	if err != nil {
		return err
	}
	done, err := s.marked(ctx)
	if err == nil && !done {
		// One that has lost its claim has published, died and been replaced.
		var claimed bool
		if claimed, err = s.claimed(ctx); claimed && err == nil {
			err = s.replace(ctx, m)
		}
	}
	if err != nil {
		return err
	}
	if err := s.step("clean"); err != nil {
		return err
	}
	s.end()
	// The output is there. What cannot be cleaned up now is by the next job.
	ctx = context.WithoutCancel(ctx)
	if s.release(ctx) == nil {
		_ = s.discard(ctx)
	}
	return nil
}

// replace makes the output the manifest's.
func (s *staging) replace(ctx context.Context, m []pending) error {
	if err := s.step("remove"); err != nil {
		return err
	}
	if err := s.removeOld(ctx, m); err != nil {
		return err
	}
	if err := s.step("complete"); err != nil {
		return err
	}
	if err := parallel(ctx, m, s.complete); err != nil {
		return err
	}
	if err := s.step("success"); err != nil {
		return err
	}
	content := ""
	if s.token != "" {
		content = s.token + "\n"
	}
	return s.fs.put(ctx, s.bucket, s.key+"/"+storage.SuccessFile, []byte(content), minio.PutObjectOptions{})
}

// claimed tells whether the output is claimed by this staging.
func (s *staging) claimed(ctx context.Context) (bool, error) {
	holder, err := s.fs.get(ctx, s.bucket, s.claimKey())
	if missing(err) {
		return false, nil
	}
	return err == nil && string(holder) == s.root, err
}

// removeOld removes what is not of the new output: _SUCCESS first, the mark of
// the old one, then the rest.
func (s *staging) removeOld(ctx context.Context, m []pending) error {
	success := s.key + "/" + storage.SuccessFile
	if err := s.fs.removeKeys(ctx, s.bucket, []string{success}); err != nil {
		return err
	}
	keep := map[string]bool{s.claimKey(): true}
	for _, p := range m {
		keep[p.Key] = true
	}
	var old []string
	err := s.fs.each(ctx, s.target, true, func(o minio.ObjectInfo) bool {
		if !keep[o.Key] {
			old = append(old, o.Key)
		}
		return true
	})
	if err != nil {
		return err
	}
	slices.Reverse(old) // what is below a directory's own object goes first
	return s.fs.removeKeys(ctx, s.bucket, old)
}

// complete makes an upload the object, unless an earlier commit did.
func (s *staging) complete(ctx context.Context, p pending) error {
	_, err := s.fs.c.CompleteMultipartUpload(ctx, s.bucket, p.Key, p.Upload, p.Parts, minio.PutObjectOptions{})
	if err == nil || !noUpload(err) {
		return err
	}
	if made, serr := s.made(ctx, p); made || serr != nil {
		return serr
	}
	return failed("complete", path.Join(s.bucket, p.Key), err)
}

// made tells whether the object is the one that an upload became.
func (s *staging) made(ctx context.Context, p pending) (bool, error) {
	st, err := s.fs.c.StatObject(ctx, s.bucket, p.Key, minio.StatObjectOptions{})
	if missing(err) {
		return false, nil
	}
	return err == nil && st.UserMetadata[idKey] == p.ID, err
}

// undo takes back a commit that was decided: what it completed is removed. It
// returns errLost if the old output cannot come back.
func (s *staging) undo(ctx context.Context, m []pending) error {
	published, err := s.marked(ctx)
	if err != nil || published {
		return err
	}
	if claimed, err := s.claimed(ctx); err != nil || !claimed {
		return err // there is nothing of it any more
	}
	_, err = s.fs.c.StatObject(ctx, s.bucket, s.key+"/"+storage.SuccessFile, minio.StatObjectOptions{})
	if err == nil || !missing(err) {
		return err // _SUCCESS is removed first, so nothing was
	}
	err = parallel(ctx, m, func(ctx context.Context, p pending) error {
		made, err := s.made(ctx, p)
		if made && err == nil {
			err = s.fs.removeKeys(ctx, s.bucket, []string{p.Key})
		}
		return err
	})
	if err == nil && s.overwrite {
		err = errors.Join(s.release(ctx), s.discard(ctx))
		if err == nil {
			err = errLost
		}
	}
	return err
}
