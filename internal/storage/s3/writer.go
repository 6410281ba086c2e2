package s3

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"sync"

	"github.com/minio/minio-go/v7"

	"github.com/slotwise/slotwise/internal/storage"
)

// S3 takes parts of 5 MiB and more, but for the last one, and at most 10,000.
// The first thousand parts have minPart bytes, each further thousand twice as
// many as the one before, so that an object may have as much as S3 allows.
const (
	minPart    = 8 << 20
	partsAlike = 1000
)

// pending is a file that has been uploaded and waits to be completed.
type pending struct {
	Name   string               // in the output directory
	Key    string               // of the object it will be
	Upload string               // id
	ID     string               // in the object's metadata: tells which upload made it
	Parts  []minio.CompletePart `json:",omitempty"`
}

// idKey is the metadata that holds pending.ID.
const idKey = "Slotwise-Id"

// writer implements storage.Writer. One part is uploaded while the next one is
// filled, so a writer holds up to two parts in memory.
type writer struct {
	ctx     context.Context
	staging *staging
	pending pending
	buf     []byte
	spare   []byte
	upload  chan uploaded // the part under way; nil if there is none
	once    sync.Once
}

// uploaded is how the upload of a part ended.
type uploaded struct {
	part minio.ObjectPart
	buf  []byte
	err  error
}

func (w *writer) failed(op string, err error) error {
	return failed(op, path.Join(w.staging.target, w.pending.Name), err)
}

// begin begins the upload and notes it in the staging, so that it is found
// whatever becomes of this process.
func (w *writer) begin() error {
	s := w.staging
	opts := minio.PutObjectOptions{
		UserMetadata: map[string]string{idKey: w.pending.ID}, ContentType: "application/octet-stream",
	}
	var err error
	w.pending.Upload, err = s.fs.c.NewMultipartUpload(w.ctx, s.bucket, w.pending.Key, opts)
	if err != nil {
		return err
	}
	if err := s.fs.putJSON(w.ctx, s.bucket, s.uploadKey(w.pending), w.pending); err != nil {
		return errors.Join(err, s.abortUpload(context.WithoutCancel(w.ctx), w.pending))
	}
	return nil
}

// Write implements storage.Writer.
func (w *writer) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		room := w.partSize() - len(w.buf)
		n := min(room, len(p)-done)
		w.buf = append(w.buf, p[done:done+n]...)
		done += n
		if n == room {
			if err := w.flush(); err != nil {
				return done, w.failed("write", err)
			}
		}
	}
	return done, nil
}

func (w *writer) partSize() int {
	return w.staging.fs.part << min(len(w.pending.Parts)/partsAlike, 10)
}

// flush begins to upload what is buffered, once the part before it is there.
func (w *writer) flush() error {
	if err := w.wait(); err != nil {
		return err
	}
	s, number, buf := w.staging, len(w.pending.Parts)+1, w.buf
	w.buf, w.spare = w.spare[:0], nil
	upload := make(chan uploaded, 1)
	go func() {
		part, err := s.fs.c.PutObjectPart(w.ctx, s.bucket, w.pending.Key, w.pending.Upload, number,
			bytes.NewReader(buf), int64(len(buf)), minio.PutObjectPartOptions{DisableContentSha256: unsigned(buf)})
		upload <- uploaded{part, buf, err}
	}()
	w.upload = upload
	return nil
}

// wait waits for the part under way.
func (w *writer) wait() error {
	if w.upload == nil {
		return nil
	}
	u := <-w.upload
	w.upload = nil
	if u.err != nil {
		return u.err
	}
	w.spare = u.buf
	w.pending.Parts = append(w.pending.Parts, minio.CompletePart{PartNumber: len(w.pending.Parts) + 1, ETag: u.part.ETag})
	return nil
}

// Commit implements storage.Writer: what was uploaded is noted as the file's
// content. The last note of a name counts.
func (w *writer) Commit() error {
	err := w.failed("commit", fs.ErrClosed)
	w.once.Do(func() {
		if err = w.commit(); err != nil {
			err = w.failed("commit", errors.Join(err, w.drop()))
		}
	})
	return err
}

func (w *writer) commit() error {
	s := w.staging
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.mu.done {
		return fs.ErrClosed
	}
	err := w.wait()
	if err == nil && (len(w.buf) > 0 || len(w.pending.Parts) == 0) {
		if err = w.flush(); err == nil {
			err = w.wait()
		}
	}
	if err != nil {
		return err
	}
	note := s.fileKey(w.pending.Name)
	if err := s.fs.putJSON(w.ctx, s.bucket, note, w.pending); err != nil {
		return err
	}
	// Another process may have ended the staging meanwhile. It removes the
	// owner's note first and then all others, so if that is still there, it
	// finds this one.
	if _, err := s.owner(w.ctx); err != nil {
		if missing(err) {
			err = fs.ErrClosed
		}
		return errors.Join(err, s.fs.removeKeys(context.WithoutCancel(w.ctx), s.bucket, []string{note}))
	}
	return nil
}

// drop gives the upload up.
func (w *writer) drop() error {
	_ = w.wait() // its part goes with the upload
	ctx, s := context.WithoutCancel(w.ctx), w.staging
	if err := s.abortUpload(ctx, w.pending); err != nil {
		return err
	}
	return s.fs.removeKeys(ctx, s.bucket, []string{s.uploadKey(w.pending)})
}

// Discard implements storage.Writer.
func (w *writer) Discard() error {
	var err error
	w.once.Do(func() {
		if err = w.drop(); err != nil {
			err = w.failed("discard", err)
		}
	})
	return err
}

// abortUpload frees an upload's parts. One that is gone is no error.
func (s *staging) abortUpload(ctx context.Context, p pending) error {
	err := s.fs.c.AbortMultipartUpload(ctx, s.bucket, p.Key, p.Upload)
	if noUpload(err) {
		return nil
	}
	return err
}

// noUpload tells that an upload was completed or aborted before.
func noUpload(err error) bool {
	var r minio.ErrorResponse
	return errors.As(err, &r) && (r.Code == minio.NoSuchUpload || missing(err))
}

// putJSON writes a small object.
func (f *FS) putJSON(ctx context.Context, bucket, key string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return f.put(ctx, bucket, key, b, minio.PutObjectOptions{})
}

func (f *FS) put(ctx context.Context, bucket, key string, content []byte, opts minio.PutObjectOptions) error {
	opts.DisableMultipart = true
	opts.DisableContentSha256 = unsigned(content)
	_, err := f.c.Client.PutObject(ctx, bucket, key, bytes.NewReader(content), int64(len(content)), opts)
	return err
}

// unsigned tells that a body should not be signed chunk by chunk. Some servers
// do not read the chunk that says that there is nothing, and take it for the
// next request on the connection.
func unsigned(content []byte) bool { return len(content) == 0 }

// get reads a small object.
func (f *FS) get(ctx context.Context, bucket, key string) ([]byte, error) {
	body, _, _, err := f.c.GetObject(ctx, bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return nil, err
	}
	defer body.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(body)
	return b.Bytes(), err
}

// getJSON reads what putJSON wrote.
func (f *FS) getJSON(ctx context.Context, bucket, key string, v any) error {
	b, err := f.get(ctx, bucket, key)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

var _ storage.Writer = (*writer)(nil)
