package s3

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/slotwise/slotwise/internal/storage"
)

// Stage implements storage.FS.
func (f *FS) Stage(ctx context.Context, dir string, overwrite bool) (storage.Staging, error) {
	x, key := f.stager(dir)
	return x.Stage(ctx, key, overwrite)
}

// StageShared implements storage.FS.
func (f *FS) StageShared(ctx context.Context, dir, token string, overwrite bool) (storage.Staging, error) {
	x, key := f.stager(dir)
	return x.StageShared(ctx, key, token, overwrite)
}

// Reopen implements storage.FS.
func (f *FS) Reopen(ctx context.Context, dir, token string) (storage.Staging, error) {
	x, key := f.stager(dir)
	return x.Reopen(ctx, key, token)
}

// stager returns the staging protocol for the bucket of dir, and dir's key.
func (f *FS) stager(dir string) (*storage.Stager, string) {
	name, key := split(dir)
	s := server(bucket{f, name})
	if f.wrapServer != nil {
		s = f.wrapServer(s)
	}
	x := newStager(s, name, f.part, f.now)
	if check := x.Check; !f.unconditional {
		x.Check = func(ctx context.Context, target string) error {
			if err := check(ctx, target); err != nil {
				return err
			}
			return f.checkConditions(ctx, s, name, target)
		}
	}
	return x, key
}

// errNoConditions reports a server that ignores the conditions of requests.
var errNoConditions = errors.New("the S3 server ignores conditional writes (If-None-Match, If-Match), " +
	"so a delayed attempt could replace the file of its successor: use a server that has them, " +
	"or set SLOTWISE_S3_CONDITIONS=off to accept that")

// checkConditions fails with errNoConditions if the server ignores conditions. It asks
// once for each bucket and process, with an object beside the output. The object's name
// is always the same, so that a process that dies here leaves nothing that the next one
// does not remove. Another process may remove the object between two requests, which
// looks like a server without conditions; so a second object, of a random name, decides.
func (f *FS) checkConditions(ctx context.Context, s server, bucket, target string) error {
	if _, known := f.conditional.Load(bucket); known {
		return nil
	}
	key := path.Join(path.Dir(target), "."+path.Base(target)+".slotwise-probe")
	err := probeConditions(ctx, s, key)
	if errors.Is(err, errNoConditions) {
		err = probeConditions(ctx, s, key+"-"+storage.NewToken())
	}
	if err == nil {
		f.conditional.Store(bucket, true)
	}
	return err
}

// probeConditions fails with errNoConditions if the server replaces the object key
// although the condition of a request does not hold. It removes the object.
func probeConditions(ctx context.Context, s server, key string) error {
	if err := s.Put(ctx, key, []byte("1"), condition{}); err != nil {
		return err
	}
	absent := s.Put(ctx, key, []byte("2"), condition{absent: true})
	match := s.Put(ctx, key, []byte("3"), condition{etag: `"0123456789abcdef0123456789abcdef"`})
	if err := s.Delete(context.WithoutCancel(ctx), key); err != nil {
		return err
	}
	for _, err := range []error{absent, match} {
		if err == nil {
			return errNoConditions
		}
		if !errors.Is(err, errChanged) && !missing(err) {
			return err
		}
	}
	return nil
}

// newStager returns the staging protocol over a server. part is the size of an upload's
// first parts; now is the clock of sweeps, nil for the real one.
func newStager(s server, bucket string, part int, now func() time.Time) *storage.Stager {
	return &storage.Stager{
		Ops: stageOps{s}, Publisher: &publisher{server: s, part: part}, Now: now,
		Failed: func(op, key string, err error) error { return failed(op, path.Join(bucket, key), err) },
		Check: func(ctx context.Context, target string) error {
			if target == "" || target == "." {
				return errors.New("is a whole bucket, which cannot be replaced; name a directory in it")
			}
			_, err := s.MadeBy(ctx, target)
			if err == nil {
				return syscall.ENOTDIR // an object has the name
			}
			if missing(err) {
				return nil
			}
			return err
		},
	}
}

// stageOps implements storage.StageOps with objects. A directory is a common prefix
// of keys.
type stageOps struct{ s server }

// List implements storage.StageOps. It lists recursively; the directories that the
// protocol lists hold few objects.
func (o stageOps) List(ctx context.Context, dir, prefix string) ([]string, error) {
	if dir = path.Clean(dir) + "/"; dir == "./" {
		dir = ""
	}
	var names []string
	err := o.s.Each(ctx, dir+prefix, func(entry object) bool {
		name, _, _ := strings.Cut(strings.TrimPrefix(entry.Key, dir), "/")
		if len(names) == 0 || names[len(names)-1] != name {
			names = append(names, name)
		}
		return true
	})
	slices.Sort(names) // "a/x" comes after "a-" among keys
	return slices.Compact(names), err
}

// Vacant implements storage.StageOps. A claim is not output.
func (o stageOps) Vacant(ctx context.Context, dir string) (bool, error) {
	vacant := true
	err := o.s.Each(ctx, dir+"/", func(entry object) bool {
		vacant = entry.Key == dir+"/" || entry.Key == dir+"/"+publishingFile
		return vacant
	})
	return vacant, err
}

// Exists implements storage.StageOps. It lists instead of asking for the object, because
// a directory exists only as a prefix.
func (o stageOps) Exists(ctx context.Context, p string) (bool, error) {
	found := false
	err := o.s.Each(ctx, p, func(entry object) bool {
		found = entry.Key == p || strings.HasPrefix(entry.Key, p+"/")
		return !found && entry.Key < p+"0" // '0' follows '/'
	})
	return found, err
}

// Read implements storage.StageOps.
func (o stageOps) Read(ctx context.Context, p string) ([]byte, error) {
	b, _, err := o.s.Get(ctx, p)
	return b, err
}

// Put implements storage.StageOps.
func (o stageOps) Put(ctx context.Context, p string, content []byte) error {
	return o.s.Put(ctx, p, content, condition{})
}

// Remove implements storage.StageOps.
func (o stageOps) Remove(ctx context.Context, p string) error {
	keys, err := keysBelow(ctx, o.s, p+"/")
	if err != nil {
		return err
	}
	return deleteAll(ctx, o.s, append(keys, p))
}

// Touch implements storage.StageOps. It rewrites the owner marker if the marker is
// older than a few minutes. The condition keeps it from creating the marker of a
// staging that has ended.
func (o stageOps) Touch(ctx context.Context, root string) error {
	var marker object
	err := o.s.Each(ctx, root+ownerFile, func(entry object) bool {
		marker = entry
		return false
	})
	if err != nil || marker.Key != root+ownerFile || time.Since(marker.Modified) < storage.OwnTTL/24 {
		return err
	}
	return o.s.Put(ctx, marker.Key, nil, condition{etag: marker.ETag})
}

// LastTouched implements storage.StageOps. It returns the time of the root's newest
// object: each file that is begun or committed adds one.
func (o stageOps) LastTouched(ctx context.Context, root string) (last time.Time, err error) {
	err = o.s.Each(ctx, root+"/", func(entry object) bool {
		if entry.Modified.After(last) {
			last = entry.Modified
		}
		return true
	})
	if err == nil && last.IsZero() {
		err = fs.ErrNotExist
	}
	return last, err
}

// Keys below a staging root, including two of the protocol's markers.
const (
	ownerFile  = "/owner"
	commitFile = "/commit"   // the manifest: all pending files
	uploadsDir = "/uploads/" // one object for each upload that was begun: a pending
	filesDir   = "/files/"   // one object for each committed file: a pending
	oldDir     = "/old/"     // copies of the old output
	asideFile  = "/aside"    // marker: old/ is complete, the target may be changed
)

// publishingFile is in an output directory while a commit changes it, and holds
// the root of the staging. It keeps other stagings from committing. Where it is
// present and _SUCCESS is not, a listing may show parts of the old and of the new
// output.
const publishingFile = "_slotwise_publishing"

// errBusy reports that another staging of the same output is being committed, or was
// interrupted during its commit and has not been continued yet.
var errBusy = errors.New("another job is publishing the same output")

// errUploadLost reports that a commit cannot be finished, for example because a
// lifecycle rule of the bucket has aborted the uploads.
var errUploadLost = errors.New("the uploaded data are gone; does a lifecycle rule of the bucket abort uploads too early?")

// publisher implements storage.Publisher without renames.
//
// The data of a file are the parts of an upload to the object's final key. They are
// invisible until the upload is completed. The commit marker is the manifest of all
// uploads. Publish
//
//  1. copies the old output to old/, within the server, and puts asideFile,
//  2. removes the old _SUCCESS,
//  3. completes the uploads, each of which replaces an object in one step,
//  4. removes old objects that are not in the manifest,
//  5. puts _SUCCESS.
//
// Prepare claims the output for this staging first, by creating publishingFile,
// which only one can. Restore removes new objects, copies the old ones back,
// _SUCCESS last, removes the markers and gives the claim up. The output is whole at all times at
// which it has a _SUCCESS, or has no publishingFile.
type publisher struct {
	server
	part int // bytes of the first parts of an upload
}

func (p *publisher) claimKey(a storage.StageArea) string { return a.Target + "/" + publishingFile }

func (p *publisher) successKey(a storage.StageArea) string {
	return a.Target + "/" + storage.SuccessFile
}

// uploadKey and fileKey have the name as one element, whatever is in it.
func uploadKey(a storage.StageArea, f pending) string { return a.Root + uploadsDir + f.ID }

func fileKey(a storage.StageArea, name string) string {
	return a.Root + filesDir + url.PathEscape(name)
}

// MakeRoot implements storage.Publisher. There are no directories to make.
func (p *publisher) MakeRoot(context.Context, storage.StageArea) error { return nil }

// Create implements storage.Publisher.
func (p *publisher) Create(ctx context.Context, a storage.StageArea, name string) (storage.StagedFile, error) {
	if name == publishingFile {
		return nil, fs.ErrInvalid
	}
	return newWriter(ctx, p, a, name)
}

// Prepare implements storage.Publisher. It returns the manifest.
func (p *publisher) Prepare(ctx context.Context, a storage.StageArea) ([]byte, error) {
	if err := p.claim(ctx, a); err != nil {
		return nil, err
	}
	err := storage.CheckVacant(ctx, stageOps{p.server}, a)
	if err != nil {
		return nil, errors.Join(err, p.release(context.WithoutCancel(ctx), a))
	}
	return p.gather(ctx, a)
}

// claim creates publishingFile with this staging's root in it. A claim of a
// staging that has ended is taken over.
func (p *publisher) claim(ctx context.Context, a storage.StageArea) error {
	err := p.Put(ctx, p.claimKey(a), []byte(a.Root), condition{absent: true})
	if err != nil && !errors.Is(err, errChanged) {
		return err
	}
	// Read in any case: a server may not know the condition, or the answer to the
	// first of several tries may have been lost.
	holder, etag, err := p.Get(ctx, p.claimKey(a))
	if err != nil || string(holder) == a.Root {
		return err
	}
	over, err := p.over(ctx, a, string(holder))
	if err != nil {
		return err
	}
	if !over {
		return errBusy
	}
	err = p.Put(ctx, p.claimKey(a), []byte(a.Root), condition{etag: etag})
	if !errors.Is(err, errChanged) {
		return err
	}
	// An earlier try may have succeeded, and its answer was lost.
	if claimed, gerr := p.claimed(ctx, a); gerr != nil || claimed {
		return gerr
	}
	return errBusy
}

// over reports whether another staging of the same target has nothing more to
// change in it: it is gone, or has published and died before it cleaned up.
func (p *publisher) over(ctx context.Context, a storage.StageArea, root string) (bool, error) {
	ops := stageOps{p.server}
	owned, err := ops.Exists(ctx, root+ownerFile)
	if err != nil || !owned {
		return !owned, err
	}
	_, token, shared := strings.Cut(path.Base(root), ".slotwise-shared-")
	if !shared {
		return false, nil
	}
	return p.isOutput(ctx, storage.StageArea{Target: a.Target, Root: root, Token: token})
}

// isOutput reports whether the target's _SUCCESS holds the staging's token.
func (p *publisher) isOutput(ctx context.Context, a storage.StageArea) (bool, error) {
	if a.Token == "" {
		return false, nil
	}
	b, _, err := p.Get(ctx, p.successKey(a))
	if missing(err) {
		return false, nil
	}
	return err == nil && string(b) == string(a.SuccessContent()), err
}

// claimed reports whether the output is claimed by this staging.
func (p *publisher) claimed(ctx context.Context, a storage.StageArea) (bool, error) {
	holder, _, err := p.Get(ctx, p.claimKey(a))
	if missing(err) {
		return false, nil
	}
	return err == nil && string(holder) == a.Root, err
}

// release gives up the claim, if this staging has it.
func (p *publisher) release(ctx context.Context, a storage.StageArea) error {
	claimed, err := p.claimed(ctx, a)
	if err != nil || !claimed {
		return err
	}
	return p.Delete(ctx, p.claimKey(a))
}

// gather returns the manifest of the committed files.
func (p *publisher) gather(ctx context.Context, a storage.StageArea) ([]byte, error) {
	keys, err := keysBelow(ctx, p, a.Root+filesDir)
	if err != nil {
		return nil, err
	}
	m := make([]pending, len(keys))
	index := make([]int, len(keys))
	for i := range index {
		index[i] = i
	}
	err = parallel(ctx, index, func(ctx context.Context, i int) error {
		_, err := getJSON(ctx, p, keys[i], &m[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	return marshal(m)
}

// manifest returns the uploads that a decided commit publishes; none if the commit
// is not decided.
func (p *publisher) manifest(ctx context.Context, a storage.StageArea) (m []pending, err error) {
	_, err = getJSON(ctx, p, a.Root+commitFile, &m)
	if missing(err) {
		err = nil
	}
	return m, err
}

// Published implements storage.Publisher. A decided staging that has no claim has
// published; another one may have replaced its output since.
func (p *publisher) Published(ctx context.Context, a storage.StageArea) (bool, error) {
	published, err := p.isOutput(ctx, a)
	if err != nil || published {
		return published, err
	}
	claimed, err := p.claimed(ctx, a)
	return !claimed, err
}

// Interrupted implements storage.Publisher. A decided commit always holds a claim,
// which keeps readers waiting.
func (p *publisher) Interrupted(ctx context.Context, a storage.StageArea) (bool, error) {
	return p.claimed(ctx, a)
}

// Publish implements storage.Publisher.
func (p *publisher) Publish(ctx context.Context, a storage.StageArea) error {
	m, err := p.manifest(ctx, a)
	if err != nil {
		return err
	}
	if err := p.moveAside(ctx, a); err != nil {
		return err
	}
	if err := p.Delete(ctx, p.successKey(a)); err != nil {
		return err
	}
	if err := parallel(ctx, m, p.complete); err != nil {
		return err
	}
	if err := p.removeOthers(ctx, a, m); err != nil {
		return err
	}
	return p.Put(ctx, p.successKey(a), a.SuccessContent(), condition{})
}

// moveAside copies the old output to old/. It changes nothing in the target.
func (p *publisher) moveAside(ctx context.Context, a storage.StageArea) error {
	done, err := stageOps{p.server}.Exists(ctx, a.Root+asideFile)
	if err != nil || done {
		return err
	}
	// Copies of a commit that was undone may be of another output.
	if err := (stageOps{p.server}).Remove(ctx, a.Root+strings.TrimSuffix(oldDir, "/")); err != nil {
		return err
	}
	keys, err := p.output(ctx, a)
	if err != nil {
		return err
	}
	err = parallel(ctx, keys, func(ctx context.Context, key string) error {
		return p.Copy(ctx, key, a.Root+oldDir+strings.TrimPrefix(key, a.Target+"/"))
	})
	if err != nil {
		return err
	}
	return p.Put(ctx, a.Root+asideFile, nil, condition{})
}

// output returns the keys of the target's objects, without the claim.
func (p *publisher) output(ctx context.Context, a storage.StageArea) ([]string, error) {
	keys, err := keysBelow(ctx, p, a.Target+"/")
	return slices.DeleteFunc(keys, func(key string) bool { return key == p.claimKey(a) }), err
}

// complete makes an upload the object, unless an interrupted commit has done so.
func (p *publisher) complete(ctx context.Context, f pending) error {
	err := p.Complete(ctx, f)
	if !errors.Is(err, errNoUpload) {
		return err
	}
	made, err := p.made(ctx, f)
	if err == nil && !made {
		err = errUploadLost
	}
	return err
}

// made reports whether the object at the upload's key is the result of the upload. The
// id in the object's metadata shows that; copies keep it.
func (p *publisher) made(ctx context.Context, f pending) (bool, error) {
	id, err := p.MadeBy(ctx, f.Key)
	if missing(err) {
		return false, nil
	}
	return err == nil && id == f.ID, err
}

// removeOthers removes the target's objects that are not in the manifest.
func (p *publisher) removeOthers(ctx context.Context, a storage.StageArea, m []pending) error {
	keys, err := p.output(ctx, a)
	if err != nil {
		return err
	}
	keep := map[string]bool{}
	for _, f := range m {
		keep[f.Key] = true
	}
	return deleteAll(ctx, p, slices.DeleteFunc(keys, func(key string) bool { return keep[key] }))
}

// Restore implements storage.Publisher. Without asideFile the target has not been
// touched, and only the claim goes.
func (p *publisher) Restore(ctx context.Context, a storage.StageArea) error {
	claimed, err := p.claimed(ctx, a)
	if err != nil || !claimed {
		return err // this staging has not touched the target
	}
	aside, err := stageOps{p.server}.Exists(ctx, a.Root+asideFile)
	if err == nil && aside {
		err = p.moveBack(ctx, a)
	}
	if err != nil {
		return err
	}
	// Without its markers the commit is undecided again. A claim that is gone would
	// otherwise mean that it was published.
	if err := p.Delete(ctx, a.Root+commitFile); err != nil {
		return err
	}
	if err := p.Delete(ctx, a.Root+asideFile); err != nil {
		return err
	}
	return p.release(ctx, a)
}

// moveBack removes the objects of this staging from the target and copies the old
// ones back.
func (p *publisher) moveBack(ctx context.Context, a storage.StageArea) error {
	m, err := p.manifest(ctx, a)
	if err != nil {
		return err
	}
	old, err := keysBelow(ctx, p, a.Root+oldDir)
	if err != nil {
		return err
	}
	err = parallel(ctx, m, func(ctx context.Context, f pending) error {
		made, err := p.made(ctx, f)
		if err == nil && made {
			err = p.Delete(ctx, f.Key)
		}
		return err
	})
	if err != nil {
		return err
	}
	back := func(ctx context.Context, key string) error {
		return p.Copy(ctx, key, a.Target+"/"+strings.TrimPrefix(key, a.Root+oldDir))
	}
	success := a.Root + oldDir + storage.SuccessFile
	others := slices.DeleteFunc(slices.Clone(old), func(key string) bool { return key == success })
	if err := parallel(ctx, others, back); err != nil || len(others) == len(old) {
		return err
	}
	return back(ctx, success)
}

// Discard implements storage.Publisher. The claim of a published output is given
// up, unfinished uploads are aborted, then the root's objects are removed.
func (p *publisher) Discard(ctx context.Context, a storage.StageArea) error {
	if err := p.release(ctx, a); err != nil {
		return err
	}
	begun, err := keysBelow(ctx, p, a.Root+uploadsDir)
	if err != nil {
		return err
	}
	err = parallel(ctx, begun, func(ctx context.Context, key string) error {
		var f pending
		_, err := getJSON(ctx, p, key, &f)
		if err == nil {
			err = p.Abort(ctx, f)
		}
		if missing(err) {
			return nil // its writer has removed it
		}
		return err
	})
	if err != nil {
		return err
	}
	keys, err := keysBelow(ctx, p, a.Root+"/")
	if err != nil {
		return err
	}
	return deleteAll(ctx, p, keys)
}
