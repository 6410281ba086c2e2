package s3

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/slotwise/slotwise/internal/data/storage"
)

// object is one entry of a listing.
type object struct {
	Key      string
	Modified time.Time
}

// objects are the requests on whole objects of one bucket that stagings make.
// Tests replace them by a bucket in memory. A missing object is fs.ErrNotExist.
type objects interface {
	// Get returns the content of an object of at most most bytes. It fails with
	// errTooLarge for a larger one.
	Get(ctx context.Context, key string, most int64) (content []byte, err error)
	// Put writes a small object in one step. If it fails, the server may have written
	// the object, or may still do so.
	Put(ctx context.Context, key string, content []byte) error
	// Each calls fn for all objects whose keys begin with prefix, in the order of
	// keys, until fn returns false.
	Each(ctx context.Context, prefix string, fn func(object) bool) error
	// Delete removes an object. A missing one is no error.
	Delete(ctx context.Context, key string) error
	// Copy copies an object of any size within the server.
	Copy(ctx context.Context, from, to string) error
}

// uploads are the requests on multipart uploads.
type uploads interface {
	// Begin begins an upload. id becomes part of the object's metadata.
	Begin(ctx context.Context, key, id string) (upload string, err error)
	// Part uploads one part; parts are numbered from 1.
	Part(ctx context.Context, p pending, number int, data []byte) (minio.CompletePart, error)
	// Complete makes the object of the parts. It fails with errNoUpload if the
	// upload was completed or aborted before.
	Complete(ctx context.Context, p pending) error
	// Abort frees the parts of an upload. A missing upload is no error.
	Abort(ctx context.Context, p pending) error
	// MadeBy returns the id of the upload that made an object; "" if none did.
	MadeBy(ctx context.Context, key string) (id string, err error)
}

// server is the part of S3 that stagings use.
type server interface {
	objects
	uploads
}

// errNoUpload reports that an upload was completed or aborted before.
var errNoUpload = errors.New("the upload does not exist any more")

// bucket implements server with requests to one bucket. The client repeats requests that
// fail for passing reasons, up to ten times with growing pauses. It cannot know whether
// the server has carried out a request whose answer was lost.
type bucket struct {
	fs   *FS
	name string
}

var _ server = bucket{}

// Bounds of what a staging reads and writes, in bytes and objects. A job's code can put any
// object into the staging of its job, and the master reads it: without these bounds one job
// would take the master's memory.
const (
	maxSmall    = 4 << 10  // a claim, or _SUCCESS
	maxRecord   = 4 << 20  // a record: a line for each of maxParts parts
	maxManifest = 64 << 20 // about 100 bytes for each file of an output
	maxParts    = 10_000   // S3's own bound
	maxKeys     = 1 << 20  // objects below one prefix of a staging or an output
)

// errTooLarge reports that an object is larger than anything that slotwise writes under its
// name.
var errTooLarge = errors.New("the object is larger than anything that slotwise writes under this name: remove it")

// Get implements objects.
func (b bucket) Get(ctx context.Context, key string, most int64) ([]byte, error) {
	body, info, _, err := b.fs.c.GetObject(ctx, b.name, key, minio.GetObjectOptions{})
	if err != nil {
		return nil, kind(err)
	}
	defer body.Close()
	if info.Size > most {
		return nil, fmt.Errorf("%s: %w", key, errTooLarge)
	}
	var buf bytes.Buffer
	// The server states the size and may send more, so the limit bounds the bytes that are read.
	_, err = buf.ReadFrom(io.LimitReader(body, most))
	return buf.Bytes(), err
}

// Put implements objects. The client repeats a request whose answer is lost.
func (b bucket) Put(ctx context.Context, key string, content []byte) error {
	_, err := b.put(ctx, key, content, minio.PutObjectOptions{})
	return err
}

// put is Put with options, and returns the ETag that the server states for the object.
func (b bucket) put(ctx context.Context, key string, content []byte, opts minio.PutObjectOptions) (etag string, err error) {
	opts.DisableMultipart, opts.DisableContentSha256 = true, unsigned(content)
	o, err := b.fs.c.Client.PutObject(ctx, b.name, key, bytes.NewReader(content), int64(len(content)), opts)
	return o.ETag, kind(err)
}

// unsigned reports whether a body must not be signed chunk by chunk. Some servers
// do not read the final chunk of an empty body and take it for the next request
// on the connection.
func unsigned(content []byte) bool { return len(content) == 0 }

// Each implements objects. S3 lists in the order of keys, and a listing shows all
// changes that were complete when it began.
func (b bucket) Each(ctx context.Context, prefix string, fn func(object) bool) error {
	return kind(b.fs.eachKey(ctx, b.name, prefix, true, func(o minio.ObjectInfo) bool {
		return fn(object{o.Key, o.LastModified})
	}))
}

// Delete implements objects.
func (b bucket) Delete(ctx context.Context, key string) error {
	err := b.fs.c.RemoveObject(ctx, b.name, key, minio.RemoveObjectOptions{})
	// Some servers answer 404 to the DELETE of a missing object, where Amazon answers 204.
	if missing(err) {
		return nil
	}
	return kind(err)
}

// maxCopy is the size of the largest object that S3 copies by one request.
const maxCopy = 5 << 30

// Copy implements objects. Larger objects than maxCopy are copied in parts.
func (b bucket) Copy(ctx context.Context, from, to string) error {
	src, dst := minio.CopySrcOptions{Bucket: b.name, Object: from}, minio.CopyDestOptions{Bucket: b.name, Object: to}
	st, err := b.fs.c.StatObject(ctx, b.name, from, minio.StatObjectOptions{})
	switch {
	case err != nil:
	case st.Size <= maxCopy:
		_, err = b.fs.c.Client.CopyObject(ctx, dst, src)
	default:
		_, err = b.fs.c.ComposeObject(ctx, dst, src)
	}
	return kind(err)
}

// Begin implements uploads. If the answer is lost, the client begins another upload, and
// the first one stays behind without data.
func (b bucket) Begin(ctx context.Context, key, id string) (string, error) {
	upload, err := b.fs.c.NewMultipartUpload(ctx, b.name, key, minio.PutObjectOptions{
		UserMetadata: map[string]string{idKey: id}, ContentType: "application/octet-stream",
	})
	return upload, kind(err)
}

// Part implements uploads. A part that is uploaded again replaces the earlier one.
func (b bucket) Part(ctx context.Context, p pending, number int, data []byte) (minio.CompletePart, error) {
	part, err := b.fs.c.PutObjectPart(ctx, b.name, p.Key, p.Upload, number, bytes.NewReader(data), int64(len(data)),
		minio.PutObjectPartOptions{DisableContentSha256: unsigned(data)})
	return minio.CompletePart{PartNumber: number, ETag: part.ETag}, kind(err)
}

// Complete implements uploads. A repeated request whose first try has succeeded fails
// with errNoUpload: callers compare the object's id.
func (b bucket) Complete(ctx context.Context, p pending) error {
	_, err := b.complete(ctx, p, minio.PutObjectOptions{})
	return err
}

// complete is Complete with options, and returns the ETag that the server states for the object.
func (b bucket) complete(ctx context.Context, p pending, opts minio.PutObjectOptions) (etag string, err error) {
	o, err := b.fs.c.CompleteMultipartUpload(ctx, b.name, p.Key, p.Upload, p.Parts, opts)
	if noUpload(err) {
		return "", errNoUpload
	}
	return o.ETag, kind(err)
}

// Abort implements uploads.
func (b bucket) Abort(ctx context.Context, p pending) error {
	err := b.fs.c.AbortMultipartUpload(ctx, b.name, p.Key, p.Upload)
	if noUpload(err) {
		return nil
	}
	return kind(err)
}

// MadeBy implements uploads.
func (b bucket) MadeBy(ctx context.Context, key string) (string, error) {
	st, err := b.fs.c.StatObject(ctx, b.name, key, minio.StatObjectOptions{})
	return st.UserMetadata[idKey], kind(err)
}

// noUpload reports whether a request failed because its upload was completed or
// aborted before.
func noUpload(err error) bool {
	var r minio.ErrorResponse
	// Any 404: a request about an upload names no object, so nothing else can be missing but the bucket with
	// all its uploads.
	return errors.As(err, &r) && (r.Code == minio.NoSuchUpload || r.StatusCode == http.StatusNotFound)
}

// putJSON writes v as a small object.
func putJSON(ctx context.Context, s objects, key string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.Put(ctx, key, b)
}

// keysBelow returns the keys that begin with prefix, at most maxKeys. It skips the objects
// that some servers keep for directories; their keys end in a slash.
func keysBelow(ctx context.Context, s objects, prefix string) ([]string, error) {
	keys, err := someBelow(ctx, s, prefix, maxKeys+1)
	if len(keys) > maxKeys {
		return nil, fmt.Errorf("%s: there are more than %d objects, which are not read", prefix, maxKeys)
	}
	return keys, err
}

// someBelow returns the first keys that begin with prefix, as keysBelow does; most bounds their number.
func someBelow(ctx context.Context, s objects, prefix string, most int) (keys []string, err error) {
	err = s.Each(ctx, prefix, func(o object) bool {
		if o.Key[len(o.Key)-1] != '/' {
			keys = append(keys, o.Key)
		}
		return len(keys) < most
	})
	return keys, err
}

// batch is the number of keys that deleteBelow lists at a time.
const batch = 10_000

// deleteBelow calls each for the objects that begin with prefix, and removes them. Their
// number is not bounded, so it holds the keys of one batch at a time.
func deleteBelow(ctx context.Context, s objects, prefix string, each func(ctx context.Context, key string) error) error {
	for {
		// From the start each time: the objects of the batch before are gone, and new ones may have come.
		keys, err := someBelow(ctx, s, prefix, batch)
		if err != nil || len(keys) == 0 {
			return err
		}
		if err := parallel(ctx, keys, each); err != nil {
			return err
		}
		if err := deleteAll(ctx, s, keys); err != nil {
			return err
		}
	}
}

// untouched is deleteBelow's action on objects that are only removed: none.
func untouched(context.Context, string) error { return nil }

// deleteAll removes objects, several at once.
func deleteAll(ctx context.Context, s objects, keys []string) error {
	return parallel(ctx, keys, func(ctx context.Context, key string) error {
		// Before each request, because a master that has lost its lease must stop in the middle of a long
		// deletion.
		if err := storage.Permitted(ctx); err != nil {
			return err
		}
		return s.Delete(ctx, key)
	})
}
