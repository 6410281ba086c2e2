package s3

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/minio/minio-go/v7"

	"github.com/slotwise/slotwise/internal/base/retry"
)

const (
	// smallObject is the size in bytes from which an object is uploaded in parts.
	smallObject = 1 << 20
	// editPart is the size of the parts of an upload in bytes. With 10,000 parts a file may
	// have 160 GiB.
	editPart = 16 << 20
	// editParts is the number of parts that are uploaded at the same time. Each is in memory.
	editParts = 3
)

// upload makes one object, for a command that writes a single file.
type upload struct {
	b   bucket
	key string
	id  string // in the object's metadata: tells which upload made it
	// replace permits to replace an object. Without it the request that makes the object has the
	// condition If-None-Match: *, so of two commands at the same moment one makes it.
	replace bool
}

// run makes the object of the bytes of r, whose buffer has room for smallObject, and waits
// until the server has it. A small object takes one request instead of several.
func (u *upload) run(ctx context.Context, r *bufio.Reader) error {
	// A whole megabyte means that the end is not known yet. io.EOF comes with all bytes of a smaller file.
	content, err := r.Peek(smallObject)
	switch {
	case err == nil:
		return u.inParts(ctx, r)
	case err != io.EOF:
		return err
	}
	etag, err := u.once(ctx, func(o minio.PutObjectOptions) (string, error) {
		// once looks for this id when a conditional request fails although it may have succeeded.
		if !u.replace {
			o.UserMetadata = map[string]string{idKey: u.id}
		}
		return u.b.put(ctx, u.key, content, o)
	})
	if err != nil {
		return err
	}
	// A repeated request writes the object anew, so this needs no look at the bytes.
	return u.b.await(ctx, u.key, made{size: int64(len(content)), etag: etag})
}

// inParts is run for an object of several parts.
func (u *upload) inParts(ctx context.Context, r io.Reader) (err error) {
	p := pending{Key: u.key, ID: u.id}
	if p.Upload, err = u.b.Begin(ctx, u.key, u.id); err != nil {
		return err
	}
	want := made{hash: xxhash.New()}
	if p.Parts, want.size, err = u.b.parts(ctx, p, io.TeeReader(r, want.hash)); err == nil {
		// Just before the object is replaced, so that await can see its own by the time.
		switch old, serr := u.b.fs.c.StatObject(ctx, u.b.name, u.key, minio.StatObjectOptions{}); {
		case serr == nil:
			want.after = old.LastModified
		case !missing(serr):
			err = serr
		}
	}
	if err == nil {
		want.etag, err = u.once(ctx, func(o minio.PutObjectOptions) (string, error) { return u.b.complete(ctx, p, o) })
	}
	if err != nil {
		return errors.Join(err, u.b.Abort(context.WithoutCancel(ctx), p))
	}
	return u.b.await(ctx, u.key, want)
}

// parts uploads the parts of an object, several at once. It returns them and the size of the
// object in bytes.
func (b bucket) parts(ctx context.Context, p pending, r io.Reader) (list parts, size int64, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	buffers := make(chan []byte, editParts)
	for range editParts {
		// Allocated when first needed: most files have fewer parts.
		buffers <- nil
	}
	var wg sync.WaitGroup
	var mu sync.Mutex // of list
	for number := 1; err == nil && ctx.Err() == nil; number++ {
		buf := <-buffers
		if buf == nil {
			buf = make([]byte, editPart)
		}
		var n int
		if n, err = io.ReadFull(r, buf); err != nil && err != io.ErrUnexpectedEOF || n == 0 {
			break
		}
		// Read first, so that a file of exactly maxParts parts passes.
		if size += int64(n); number > maxParts {
			err = fmt.Errorf("the file is larger than %d parts of %d bytes", maxParts, editPart)
			break
		}
		// append may move the list while a finished part writes its element.
		mu.Lock()
		list = append(list, minio.CompletePart{})
		mu.Unlock()
		wg.Go(func() {
			part, err := b.Part(ctx, p, number, buf[:n])
			if err != nil {
				cancel(err)
			}
			mu.Lock()
			list[number-1] = part
			mu.Unlock()
			// Given back after an error, too, or the loop would wait for a buffer.
			buffers <- buf
		})
	}
	wg.Wait()
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return list, size, cmp.Or(err, context.Cause(ctx))
}

// once runs the request that makes the object, and returns the ETag that the server states; ""
// if it states none. Without u.replace it fails with fs.ErrExist if there is an object that
// another upload has made.
func (u *upload) once(ctx context.Context, request func(minio.PutObjectOptions) (etag string, err error)) (string, error) {
	var o minio.PutObjectOptions
	if !u.replace {
		o.SetMatchETagExcept("*")
	}
	etag, err := request(o)
	if !u.replace && notImplemented(err) {
		// The server has no such condition. CreateFile has looked whether there is an object.
		etag, err = request(minio.PutObjectOptions{})
	}
	// Only these two answers are doubtful. Any other error leaves no object, or one that a repeated command
	// replaces.
	repeated := errors.Is(err, errNoUpload) || !u.replace && errors.Is(kind(err), errChanged)
	if !repeated {
		return etag, err
	}
	// The client repeats a request whose answer was lost. Then it finds the object that the lost
	// request has made, or the upload that has ended.
	switch id, merr := u.b.MadeBy(ctx, u.key); {
	case merr == nil && id == u.id:
		return "", nil
	case errors.Is(err, errNoUpload):
		return "", errUploadLost
	case merr == nil:
		return "", fs.ErrExist
	case missing(merr):
		return "", errHalfMade
	default:
		return "", merr
	}
}

// errHalfMade reports that the server takes an object for present when it checks a condition of
// a write, and for absent in a HEAD or GET.
var errHalfMade = errors.New("the server says that the object exists already, and does not have it; was it killed while it made the object? Repeat the command so that it replaces the object (-put -f)")

// notImplemented reports whether the server says that it does not have what a request asks for.
func notImplemented(err error) bool {
	var r minio.ErrorResponse
	return errors.As(err, &r) && r.StatusCode == http.StatusNotImplemented
}

// made describes an object that the server has confirmed.
type made struct {
	size int64
	etag string // "" if the server has stated none
	// after is the time of the object that was replaced, and hash the xxhash of the content. If
	// the object still has this time, its bytes are read and compared. hash may be nil.
	after time.Time
	hash  *xxhash.Digest
}

// await waits until the server has an object as described. complete says why a server may
// have confirmed an object that it does not have. The size and the ETag would not show that:
// versitygw, killed while it replaces an object of the same size, has the old bytes with the new
// metadata, and confirms them when the request is repeated. Only the time belongs to the bytes.
func (b bucket) await(ctx context.Context, key string, want made) error {
	return retry.Run(ctx, awaitMade, func(ctx context.Context) error {
		o, err := b.fs.c.StatObject(ctx, b.name, key, minio.StatObjectOptions{})
		switch {
		case err != nil && !missing(err):
			return err
		case err != nil || o.Size != want.size || want.etag != "" && o.ETag != want.etag:
			return errNotMade
		case want.after.IsZero() || !o.LastModified.Equal(want.after):
			return nil
		}
		// Two objects of one second have one time, too. That is rare enough to read the bytes.
		got := xxhash.New()
		var opts minio.GetObjectOptions
		// A third writer may replace the object meanwhile. The read then fails instead of comparing its
		// bytes.
		if err := opts.SetMatchETag(o.ETag); err != nil {
			return err
		}
		body, _, _, err := b.fs.c.GetObject(ctx, b.name, key, opts)
		if err != nil {
			return kind(err)
		}
		_, err = io.Copy(got, body)
		if err = errors.Join(err, body.Close()); err == nil && got.Sum64() != want.hash.Sum64() {
			err = errNotMade
		}
		return err
	})
}
