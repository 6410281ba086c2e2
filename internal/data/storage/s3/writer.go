package s3

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/slotwise/slotwise/internal/data/storage"
)

// S3 takes parts of 5 MiB and more, except for the last, and at most 10,000. The
// first thousand parts have minPart bytes, and each further thousand twice as many
// as the thousand before. So an object may be as large as S3 permits.
const (
	minPart    = 8 << 20
	partsAlike = 1000
)

// pending is a file that has been uploaded and waits to be completed. It is also the
// content of the objects in uploads/ and files/, the latter being called records. The
// manifest lists the files with names and ids only.
//
// A job's code can write all these objects, and the master acts on them. So each record is
// checked (see readPending), and the key that a file gets is not in it: it is always below
// the output directory.
type pending struct {
	Name   string // in the output directory
	Key    string `json:"-"`          // of the object it will be
	Upload string `json:",omitempty"` // the server's name for the upload
	ID     string // in the object's metadata: tells which upload made it
	// Rank orders the records of one name. It is one more than the number of writers of the
	// name that had announced their commit when the writer began.
	Rank  int   `json:",omitempty"`
	Parts parts `json:",omitempty"`
}

// parts are the parts of an upload, in order.
type parts []minio.CompletePart

// UnmarshalJSON implements json.Unmarshaler. It ends after maxParts parts: two bytes of JSON
// can become a part of 150 bytes in memory.
func (p *parts) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	// A null would leave the list unchanged, and a record without parts is none.
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return errors.Join(errNoRecord, err)
	}
	for *p = nil; d.More(); {
		var x minio.CompletePart
		if err := d.Decode(&x); err != nil {
			return err
		}
		// Numbers in sequence, as writers upload them: the server would make an object of any parts
		// that a forged record lists.
		if *p = append(*p, x); len(*p) > maxParts || x.PartNumber != len(*p) {
			return errNoRecord
		}
	}
	return nil
}

// errNoRecord reports an object in a staging that no writer of slotwise has written.
var errNoRecord = errors.New("the object is not what slotwise writes under this name: did the job write into its own staging?")

// readPending reads what a writer has put under a key, which own returns for the pending.
func readPending(ctx context.Context, s objects, a storage.StageArea, key string, own func(storage.StageArea, pending) string) (pending, error) {
	var f pending
	b, err := s.Get(ctx, key, maxRecord)
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return f, fmt.Errorf("%s: %w (%w)", key, errNoRecord, err)
	}
	// The key must follow from the content, so a copied record of another file is refused.
	if !f.valid() || own(a, f) != key {
		return f, fmt.Errorf("%s: %w", key, errNoRecord)
	}
	f.Key = a.Target + "/" + f.Name
	return f, nil
}

// valid reports whether a writer can have written the file's name and id. The name decides
// which object a commit makes or removes, and must not lead out of the output, replace its
// _SUCCESS or hide its claims.
func (f *pending) valid() bool {
	first, _, _ := strings.Cut(f.Name, "/")
	return fs.ValidPath(f.Name) && f.Name != "." && first != publishingDir && f.Name != storage.SuccessFile &&
		f.ID != "" && !strings.Contains(f.ID, "/") && len(f.ID) <= maxID && len(f.Upload) <= maxSmall
}

// maxID bounds the length of an upload's id, which is a token.
const maxID = 100

// idKey is the metadata that holds pending.ID.
const idKey = "Slotwise-Id"

// errFenced reports that another attempt has committed the file, or has begun to commit
// it, since this writer began.
var errFenced = errors.New("another attempt has committed this file since this one began")

// writer implements storage.StagedFile. It uploads one part while the next one is
// filled, so it holds up to two parts in memory.
//
// # Which attempt's file is published
//
// Several attempts of a task may write one file, and each attempt may be delayed at any
// request, for any time. The master accepts the success of at most one attempt, and grants
// the commit to a later attempt only after it has given the earlier one up for good. The
// attempt whose success was accepted must be the one that is published, whole.
//
// Each attempt has its own upload, and the objects uploads/<id>, announced/<name>/<id> and
// files/<name>/<id>, where <id> is random. While the staging exists, no attempt
// changes or removes an object or an upload of another one. So a delayed request can hit
// nothing but the attempt's own traces. A writer of a shared staging
//
//  1. lists announced/<name>/ when it begins, and remembers the keys,
//  2. uploads the data,
//  3. puts announced/<name>/<id>, an empty object,
//  4. lists announced/<name>/ again, and fails with errFenced if there is an object,
//     other than its own, that was absent in the first list,
//  5. puts files/<name>/<id>, the record, which counts the objects of the first list,
//  6. fails with errEnded if the staging has ended.
//
// The commit of the job, in publisher.gather, publishes the record of the highest rank.
// The argument:
//
//   - Of two writers that reach step 5, one began after the other had announced its
//     commit. Otherwise the one that announced later would have seen the other one's
//     object in step 4 and not in step 1, since listings show all completed changes and
//     announcements are never removed. The one that began later has the higher rank: it
//     saw everything that the other one saw, and the other one's announcement.
//   - Suppose that the master accepted attempt X, and that a record of Y has a higher
//     rank. Y began after X had announced. An attempt asks for the grant after it has begun
//     its files and before it commits them, so X was granted the commit before Y was. Then
//     the master gave X up before it granted Y the commit, and accepts X never.
//   - X's record is present, because step 5 had succeeded before X reported its success,
//     and its upload is whole, because only X itself drops it, and only if its commit
//     fails.
//
// A PUT whose answer is lost may take effect at once, later or never. The attempt that sent
// it fails and drops its upload. A record or an announcement that appears later has the
// rank, or the place, that it would have had in time. So it is never chosen instead of an
// accepted attempt's record. The worst outcome is that one successor, which began before
// the announcement appeared, fails with errFenced; the attempt after it sees the
// announcement in step 1.
//
// All attempts of a task must write files of the same names. Otherwise the file of an
// attempt without a grant would be chosen if no other attempt wrote one of its name.
//
// No request of a staging has a condition (If-Match, If-None-Match): the protocol needs only listings
// that show completed changes, which Amazon S3 guarantees. TestInterleavings runs the code
// in all orders of the requests.
//
// A staging of one process has no delayed attempts. There the last commit wins: the
// writer counts the present records right before step 5 and leaves the other steps out.
type writer struct {
	ctx     context.Context
	p       *publisher
	area    storage.StageArea
	pending pending
	seen    map[string]bool // keys of the announcements when the writer began
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
	// Before the upload begins: the announcements of this moment decide the rank (step 1).
	if a.Token != "" {
		if err := w.begin(ctx); err != nil {
			return nil, err
		}
	}
	if w.pending.Upload, err = p.Begin(ctx, w.pending.Key, w.pending.ID); err != nil {
		return nil, err
	}
	if err := putJSON(ctx, p, uploadKey(a, w.pending), w.pending); err != nil {
		// Between Begin and this Put a crash leaves an upload that nothing records. A lifecycle rule of the
		// bucket removes it.
		return nil, errors.Join(err, p.Abort(context.WithoutCancel(ctx), w.pending))
	}
	return w, nil
}

// begin remembers which writers have announced their commit of the same file.
func (w *writer) begin(ctx context.Context) error {
	keys, err := keysBelow(ctx, w.p, nameDir(w.area, announcedDir, w.pending.Name))
	w.seen = map[string]bool{}
	for _, key := range keys {
		w.seen[key] = true
	}
	w.pending.Rank = len(keys) + 1
	return err
}

// announce announces the commit, and fails with errFenced if another writer has done so
// since this one began.
func (w *writer) announce(ctx context.Context) error {
	dir := nameDir(w.area, announcedDir, w.pending.Name)
	own := dir + w.pending.ID
	// Put first and list afterwards: of two writers that do so at the same time at least one sees the
	// other.
	if err := w.p.Put(ctx, own, nil); err != nil {
		return err
	}
	keys, err := keysBelow(ctx, w.p, dir)
	if err == nil && slices.ContainsFunc(keys, func(key string) bool { return key != own && !w.seen[key] }) {
		err = errFenced
	}
	return err
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
	// One part at a time is under way, so two buffers suffice.
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

// commit records the upload as the file of its name.
func (w *writer) commit(ctx context.Context) error {
	dir := nameDir(w.area, filesDir, w.pending.Name)
	if w.area.Token != "" {
		if err := w.announce(ctx); err != nil {
			return err
		}
	} else {
		keys, err := keysBelow(ctx, w.p, dir)
		if err != nil {
			return err
		}
		w.pending.Rank = len(keys) + 1
	}
	record := dir + w.pending.ID
	if err := putJSON(ctx, w.p, record, w.pending); err != nil {
		return err
	}
	// Another process may have ended the staging meanwhile. It removes the owner
	// marker before it looks for objects to remove. So it finds this writer's objects if
	// the marker is still present, and otherwise this writer removes them.
	owned, err := stageOps{w.p.server}.Exists(ctx, w.area.Root+ownerFile)
	if err == nil && !owned {
		ctx := context.WithoutCancel(ctx)
		err = errors.Join(errEnded, deleteAll(ctx, w.p, []string{record, nameDir(w.area, announcedDir, w.pending.Name) + w.pending.ID}))
	}
	return err
}

// errEnded reports that the staging was committed or aborted by another process.
var errEnded = errors.New("the job's output has been committed or aborted meanwhile")

// Drop implements storage.StagedFile.
func (w *writer) Drop(ctx context.Context) error {
	_ = w.wait() // the part goes with the upload
	// The upload before its record, as in Discard: the record is the only trace of the upload.
	if err := w.p.Abort(ctx, w.pending); err != nil {
		return err
	}
	return w.p.Delete(ctx, uploadKey(w.area, w.pending))
}
