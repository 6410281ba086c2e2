package s3

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/minio/minio-go/v7"

	"github.com/slotwise/slotwise/internal/storage"
)

// S3 takes parts of 5 MiB and more, except for the last, and at most 10,000. The
// first thousand parts have minPart bytes, and each further thousand twice as many
// as the thousand before. So an object may be as large as S3 permits.
const (
	minPart    = 8 << 20
	partsAlike = 1000
)

// pending is a file that has been uploaded and waits to be completed. It is also
// the content of the objects in uploads/ and files/ and of the manifest.
type pending struct {
	Name   string               // in the output directory
	Key    string               // of the object it will be
	Upload string               // the server's name for the upload
	ID     string               // in the object's metadata: tells which upload made it
	Parts  []minio.CompletePart `json:",omitempty"`
}

// idKey is the metadata that holds pending.ID.
const idKey = "Slotwise-Id"

func marshal(m []pending) ([]byte, error) { return json.Marshal(m) }

// errFenced reports that another attempt has committed the file since this writer
// began.
var errFenced = errors.New("another attempt has committed this file since this one began")

// writer implements storage.StagedFile. It uploads one part while the next one is
// filled, so it holds up to two parts in memory.
//
// The object files/<name> says which upload is the file. A writer of a shared
// staging notes the object's ETag when it begins, and replaces the object only if
// it still has that ETag. So a writer that was delayed cannot replace the file of
// one that began later and has committed.
type writer struct {
	ctx     context.Context
	p       *publisher
	area    storage.StageArea
	pending pending
	etag    string // of files/<name> when the writer began; "" if there was none
	buf     []byte
	spare   []byte        // the other buffer, when no part is under way
	upload  chan uploaded // yields the result of the part under way; nil if there is none
}

// uploaded is the result of uploading one part.
type uploaded struct {
	part minio.CompletePart
	buf  []byte
	err  error
}

// newWriter begins an upload and records it in the staging: the upload is found
// and aborted whatever happens to this process.
func newWriter(ctx context.Context, p *publisher, a storage.StageArea, name string) (*writer, error) {
	w := &writer{ctx: ctx, p: p, area: a, pending: pending{Name: name, Key: a.Target + "/" + name, ID: storage.NewToken()}}
	var err error
	if a.Token != "" {
		if _, w.etag, err = w.committed(ctx); err != nil {
			return nil, err
		}
	}
	if w.pending.Upload, err = p.Begin(ctx, w.pending.Key, w.pending.ID); err != nil {
		return nil, err
	}
	if err := putJSON(ctx, p, uploadKey(a, w.pending), w.pending, condition{}); err != nil {
		return nil, errors.Join(err, p.Abort(context.WithoutCancel(ctx), w.pending))
	}
	return w, nil
}

// committed returns the ID and ETag of the committed file of the writer's name,
// both empty if there is none.
func (w *writer) committed(ctx context.Context) (id, etag string, err error) {
	var f pending
	etag, err = getJSON(ctx, w.p, fileKey(w.area, w.pending.Name), &f)
	if missing(err) {
		return "", "", nil
	}
	return f.ID, etag, err
}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		room := w.partSize() - len(w.buf)
		n := min(room, len(p)-done)
		w.buf = append(w.buf, p[done:done+n]...)
		done += n
		if n == room {
			if err := w.flush(); err != nil {
				return done, err
			}
		}
	}
	return done, nil
}

func (w *writer) partSize() int { return w.p.part << min(len(w.pending.Parts)/partsAlike, 10) }

// flush waits for the part before and begins to upload the buffer.
func (w *writer) flush() error {
	if err := w.wait(); err != nil {
		return err
	}
	number, buf := len(w.pending.Parts)+1, w.buf
	w.buf, w.spare = w.spare[:0], nil
	upload := make(chan uploaded, 1)
	f := w.pending // Parts are not used by Part
	go func() {
		part, err := w.p.Part(w.ctx, f, number, buf)
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
	w.pending.Parts = append(w.pending.Parts, u.part)
	return nil
}

// Commit implements storage.StagedFile.
func (w *writer) Commit(ctx context.Context) error {
	err := w.finish()
	if err == nil {
		err = w.commit(ctx)
	}
	if err != nil {
		err = errors.Join(err, w.Drop(context.WithoutCancel(ctx)))
	}
	return err
}

// finish uploads the rest of the buffer, as the last part. An empty object has one
// empty part.
func (w *writer) finish() error {
	err := w.wait()
	if err == nil && (len(w.buf) > 0 || len(w.pending.Parts) == 0) {
		if err = w.flush(); err == nil {
			err = w.wait()
		}
	}
	return err
}

// commit makes the upload the committed file of its name.
func (w *writer) commit(ctx context.Context) error {
	key := fileKey(w.area, w.pending.Name)
	only := condition{}
	if w.area.Token != "" {
		// Some servers ignore conditions. There this comparison leaves only the
		// moment before Put unguarded.
		if _, now, err := w.committed(ctx); err != nil {
			return err
		} else if now != w.etag {
			return errFenced
		}
		only = condition{absent: w.etag == "", etag: w.etag}
	}
	err := putJSON(ctx, w.p, key, w.pending, only)
	if errors.Is(err, errChanged) {
		// An earlier try may have succeeded, and its answer was lost.
		id, _, gerr := w.committed(ctx)
		if gerr == nil && id == w.pending.ID {
			err = nil
		} else {
			err = errors.Join(errFenced, gerr)
		}
	}
	if err != nil {
		return err
	}
	// Another process may have ended the staging meanwhile. It removes the owner
	// marker before it looks for objects to remove. So it finds this one if the
	// marker is still present, and otherwise this writer removes it.
	owned, err := stageOps{w.p.server}.Exists(ctx, w.area.Root+ownerFile)
	if err == nil && !owned {
		err = errors.Join(errEnded, w.p.Delete(context.WithoutCancel(ctx), key))
	}
	return err
}

// errEnded reports that the staging was committed or aborted by another process.
var errEnded = errors.New("the job's output has been committed or aborted meanwhile")

// Drop implements storage.StagedFile.
func (w *writer) Drop(ctx context.Context) error {
	_ = w.wait() // the part goes with the upload
	if err := w.p.Abort(ctx, w.pending); err != nil {
		return err
	}
	return w.p.Delete(ctx, uploadKey(w.area, w.pending))
}
