package s3

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/slotwise/slotwise/internal/base/retry"
	"github.com/slotwise/slotwise/internal/data/storage"
)

// Stage implements storage.FS.
func (f *FS) Stage(ctx context.Context, dir string, replace storage.Replace) (storage.Staging, error) {
	x, key := f.stager(dir)
	return x.Stage(ctx, key, replace)
}

// StageShared implements storage.FS.
func (f *FS) StageShared(ctx context.Context, dir, token string, replace storage.Replace) (storage.Staging, error) {
	x, key := f.stager(dir)
	return x.StageShared(ctx, key, token, replace)
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
	// The FS's own function, which names the access key when permission is denied.
	x.Failed = func(op, key string, err error) error { return f.failed(op, path.Join(name, key), err) }
	return x, key
}

// newStager returns the staging protocol over a server. part is the size of an upload's
// first parts; now is the clock of sweeps, nil for the real one.
func newStager(s server, bucket string, part int, now func() time.Time) *storage.Stager {
	return &storage.Stager{
		Ops: stageOps{s}, Publisher: &publisher{server: s, part: part, pause: firstPause}, Now: now,
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
		// Keys are sorted, so those below one directory follow each other and its name is kept once.
		name, _, _ := strings.Cut(strings.TrimPrefix(entry.Key, dir), "/")
		if len(names) == 0 || names[len(names)-1] != name {
			names = append(names, name)
		}
		return true
	})
	slices.Sort(names) // "a/x" comes after "a-" among keys
	return slices.Compact(names), err
}

// Entries implements storage.StageOps. The name of an object in a directory below dir is a
// path. Claims are no entries, and neither is the empty object that some tools put for dir.
func (o stageOps) Entries(ctx context.Context, dir string, each func(string, fs.FileMode) bool) error {
	return o.s.Each(ctx, dir+"/", func(entry object) bool {
		return entry.Key == dir+"/" || isClaim(dir, entry.Key) || each(strings.TrimPrefix(entry.Key, dir+"/"), 0)
	})
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
	b, err := o.s.Get(ctx, p, maxSmall)
	if errors.Is(err, errTooLarge) {
		// A user, or another framework, has put it there: no file of a staging is as large.
		err = &fs.PathError{Op: "read", Path: p, Err: fs.ErrNotExist}
	}
	return b, err
}

// Put implements storage.StageOps.
func (o stageOps) Put(ctx context.Context, p string, content []byte) error {
	return o.s.Put(ctx, p, content)
}

// Remove implements storage.StageOps.
func (o stageOps) Remove(ctx context.Context, p string) error {
	if err := deleteBelow(ctx, o.s, p+"/", untouched); err != nil {
		return err
	}
	return o.s.Delete(ctx, p)
}

// Touch implements storage.StageOps. It rewrites a small object if the newest object of
// its name is older than a few minutes. If the staging has ended meanwhile, Touch removes
// the object again.
func (o stageOps) Touch(ctx context.Context, root string) error {
	recent := false
	err := o.s.Each(ctx, root+touchedFile, func(entry object) bool {
		// By the server's time against this machine's: a clock that is wrong by minutes costs some writes or
		// some delay, far below the time after which a sweep removes a staging.
		recent = time.Since(entry.Modified) < storage.OwnTTL/24
		return false
	})
	if err != nil || recent {
		return err
	}
	if err := o.s.Put(ctx, root+touchedFile, nil); err != nil {
		return err
	}
	// The root may have been removed between the two requests. Nothing would then remove this
	// object until another job writes to the same output.
	owned, err := o.Exists(ctx, root+ownerFile)
	if err == nil && !owned {
		err = o.s.Delete(ctx, root+touchedFile)
	}
	return err
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
	ownerFile   = "/owner"
	touchedFile = "/touched" // its time shows that the staging is in use
	commitFile  = "/commit"  // the manifest: name and id of the chosen record of each file
	// One object for each upload that was begun: a pending.
	uploadsDir = "/uploads/"
	// One empty object for each writer that has begun to commit, below its file's name.
	announcedDir = "/announced/"
	// One object for each writer that has committed, below its file's name: a pending.
	filesDir  = "/files/"
	oldDir    = "/old/"  // copies of the old output
	asideFile = "/aside" // marker: old/ is complete, the target may be changed
	// Marker: the objects in old/ are gone from the target, uploads may be completed.
	clearedFile = "/cleared"
)

// publishingDir is in an output directory while a commit changes it. It holds an object
// for each staging that claims the output; the object's content is the staging's root.
// Where it is present and _SUCCESS is not, a listing may show parts of the old and of the
// new output.
const publishingDir = "_slotwise_publishing"

// isClaim reports whether key is a claim of the output directory target.
func isClaim(target, key string) bool {
	return strings.HasPrefix(key, target+"/"+publishingDir+"/")
}

// errBusy reports that another staging of the same output is being committed, or was
// interrupted during its commit and has not been continued yet.
var errBusy = errors.New("another job is publishing the same output")

// errUndecided is errBusy as long as the other commit is not decided.
var errUndecided = fmt.Errorf("%w and has not decided to commit", errBusy)

// errUploadLost reports that a commit cannot be finished, for example because a
// lifecycle rule of the bucket has aborted the uploads.
var errUploadLost = errors.New("the uploaded data are gone; does a lifecycle rule of the bucket abort uploads too early?")

// errNotMade reports that the server has confirmed an object, but does not have it.
var errNotMade = errors.New("the server confirmed the object but does not have it; was it killed meanwhile? Run the job again")

// firstPause is the pause after the first look at something that the server or another
// staging changes by itself, in a fraction of a second as a rule.
const firstPause = 50 * time.Millisecond

// awaitMade retries a look for an object that the server has confirmed. Six tries take about a
// second and a half: a server that has the object by then was busy, another has lost it.
var awaitMade = retry.Options{Tries: 6, FirstPause: firstPause, Patience: retry.While(func(err error) bool { return errors.Is(err, errNotMade) })}

// publisher implements storage.Publisher without renames.
//
// The data of a file are the parts of an upload to the object's final key. They are
// invisible until the upload is completed. The commit marker is the manifest of all
// uploads. Publish
//
//  1. copies the old output to old/, within the server, and puts asideFile,
//  2. removes the old _SUCCESS,
//  3. removes the old objects, puts clearedFile, and removes other objects that are not in
//     the manifest. Some servers, such as MinIO, have no object a/b while there is an object
//     a. Where a file replaces an old one of its name, versitygw 1.8.0, killed between two
//     of its steps, has the old bytes with the new file's id: complete could not tell
//     them apart if the old object were still there,
//  4. completes the uploads, and looks whether the objects are there,
//  5. puts _SUCCESS.
//
// Prepare claims the output for this staging first. Restore removes new objects, copies
// the old ones back, _SUCCESS last, removes the markers and gives the claim up. The output
// is whole at all times at which it has a _SUCCESS, or has no claim.
type publisher struct {
	server
	part int // bytes of the first parts of an upload
	// pause is the first pause between tries. Tests shorten it.
	pause time.Duration
}

func (p *publisher) claimKey(a storage.StageArea) string {
	return a.Target + "/" + publishingDir + "/" + path.Base(a.Root)
}

func (p *publisher) successKey(a storage.StageArea) string {
	return a.Target + "/" + storage.SuccessFile
}

func uploadKey(a storage.StageArea, f pending) string { return a.Root + uploadsDir + f.ID }

func recordKey(a storage.StageArea, f pending) string { return nameDir(a, filesDir, f.Name) + f.ID }

// nameDir returns the prefix of a file's keys in announcedDir or filesDir. It escapes the
// file's name, so the name is one element of the prefix.
func nameDir(a storage.StageArea, dir, name string) string {
	return a.Root + dir + url.PathEscape(name) + "/"
}

// MakeRoot implements storage.Publisher. There are no directories to make.
func (p *publisher) MakeRoot(context.Context, storage.StageArea) error { return nil }

// Create implements storage.Publisher.
func (p *publisher) Create(ctx context.Context, a storage.StageArea, name string) (storage.StagedFile, error) {
	// A file there would count as a claim of another job.
	if first, _, _ := strings.Cut(name, "/"); first == publishingDir {
		return nil, fs.ErrInvalid
	}
	return newWriter(ctx, p, a, name)
}

// Prepare implements storage.Publisher. It returns the manifest.
func (p *publisher) Prepare(ctx context.Context, a storage.StageArea) ([]byte, error) {
	// Before the target is checked: two jobs could both find it vacant otherwise.
	if err := p.claim(ctx, a); err != nil {
		return nil, err
	}
	if _, err := storage.CheckTarget(ctx, stageOps{p.server}, a); err != nil {
		// Without the caller's context, because a claim that stays makes readers and other jobs wait.
		return nil, errors.Join(err, p.release(context.WithoutCancel(ctx), a))
	}
	return p.gather(ctx, a)
}

// claimTries is the number of times that claim looks whether an undecided claim of
// another staging has been given up.
const claimTries = 6

// claim claims the output for this staging, or fails with errBusy.
//
// Each staging puts a claim under its own key and lists all claims afterwards. So of two
// stagings at least one sees the other one's claim. No staging proceeds that sees one.
// If both see the other, the staging whose root comes first in the alphabet waits for the
// other one to withdraw. Claims of stagings that have nothing more to change are removed.
func (p *publisher) claim(ctx context.Context, a storage.StageArea) error {
	if err := p.Put(ctx, p.claimKey(a), []byte(a.Root)); err != nil {
		return err
	}
	o := retry.Options{Tries: claimTries, FirstPause: p.pause, Patience: retry.While(func(err error) bool { return errors.Is(err, errUndecided) })}
	err := retry.Run(ctx, o, func(ctx context.Context) error {
		// Of two undecided stagings that see each other, exactly one has a rival whose root is smaller, so
		// exactly one withdraws at once and the other waits for that.
		rival, decided, err := p.rival(ctx, a)
		switch {
		case err != nil || rival == "":
			return err
		case decided || rival < a.Root:
			return errBusy
		}
		return errUndecided // the rival may see this claim and withdraw
	})
	if err != nil {
		return errors.Join(err, p.release(context.WithoutCancel(ctx), a))
	}
	return nil
}

// rival returns the root of another staging that claims the output; "" if there is none.
// decided says that its commit is decided. It removes the claims of stagings that are
// over.
func (p *publisher) rival(ctx context.Context, a storage.StageArea) (root string, decided bool, err error) {
	claims, err := p.claims(ctx, a)
	if err != nil {
		return "", false, err
	}
	for _, c := range claims {
		// By the content and not by the key: a claim names its staging's root.
		if c.root == a.Root {
			continue
		}
		over, err := p.over(ctx, a, c.root)
		if err != nil {
			return "", false, err
		}
		// Its process died after it had published. Without this a claim of the dead would block the output
		// until a sweep.
		if over {
			if err := p.Delete(ctx, c.key); err != nil {
				return "", false, err
			}
			continue
		}
		if root == "" || c.root < root {
			root = c.root
		}
		// A decided rival publishes whatever happens to its process, so waiting is in vain and overtaking it
		// would mix outputs.
		d, err := stageOps{p.server}.Exists(ctx, c.root+commitFile)
		if err != nil {
			return "", false, err
		}
		decided = decided || d
	}
	return root, decided, nil
}

// claimObject is one claim of an output.
type claimObject struct{ key, root string }

// claims returns all claims of the output.
func (p *publisher) claims(ctx context.Context, a storage.StageArea) (claims []claimObject, err error) {
	keys, err := keysBelow(ctx, p, a.Target+"/"+publishingDir+"/")
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		root, err := p.Get(ctx, key, maxSmall)
		if missing(err) || errors.Is(err, errTooLarge) {
			continue // withdrawn meanwhile, or no claim: a claim is the name of a staging
		}
		if err != nil {
			return nil, err
		}
		claims = append(claims, claimObject{key, string(root)})
	}
	return claims, nil
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
	// An own staging has no token that its output could show. Only its own process, or a sweep, can
	// say that it is over.
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
	b, err := p.Get(ctx, p.successKey(a), maxSmall)
	if missing(err) || errors.Is(err, errTooLarge) {
		return false, nil
	}
	return err == nil && string(b) == string(a.SuccessContent()), err
}

// claimed reports whether this staging claims the output.
func (p *publisher) claimed(ctx context.Context, a storage.StageArea) (bool, error) {
	claims, err := p.claims(ctx, a)
	return slices.ContainsFunc(claims, func(c claimObject) bool { return c.root == a.Root }), err
}

// release gives up the claim, if this staging has it.
func (p *publisher) release(ctx context.Context, a storage.StageArea) error {
	claims, err := p.claims(ctx, a)
	for _, c := range claims {
		// Not by claimKey: after the error of a Put the claim may be there or not, and listing shows which.
		if err == nil && c.root == a.Root {
			err = p.Delete(ctx, c.key)
		}
	}
	return err
}

// gather returns the manifest: of each file's records the one of the highest rank. An object
// that is no record fails the commit before anything is decided. The parts stay in the
// records, so that the memory follows the number of files and not their size.
func (p *publisher) gather(ctx context.Context, a storage.StageArea) ([]byte, error) {
	keys, err := keysBelow(ctx, p, a.Root+filesDir)
	if err != nil {
		return nil, err
	}
	records := make([]pending, len(keys))
	index := make([]int, len(keys))
	for i := range index {
		index[i] = i
	}
	err = parallel(ctx, index, func(ctx context.Context, i int) error {
		f, err := readPending(ctx, p, a, keys[i], recordKey)
		records[i] = pending{Name: f.Name, ID: f.ID, Rank: f.Rank}
		return err
	})
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(choose(records))
	if len(b) > maxManifest { // after the decision it could not be read, and all work would be lost
		return nil, fmt.Errorf("the output has too many files: their list has %d bytes, and at most %d are written", len(b), maxManifest)
	}
	return b, err
}

// choose returns the record of the highest rank of each name, in the order of names.
// Records of one rank exist only in stagings of one process, where the last commit wins
// and commits at the same time have no order.
func choose(records []pending) []pending {
	slices.SortFunc(records, func(a, b pending) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(b.Rank, a.Rank), cmp.Compare(a.ID, b.ID))
	})
	return slices.CompactFunc(records, func(a, b pending) bool { return a.Name == b.Name })
}

// manifest returns the files that a decided commit publishes, with their names, keys and ids.
func (p *publisher) manifest(ctx context.Context, a storage.StageArea) ([]pending, error) {
	key := a.Root + commitFile
	b, err := p.Get(ctx, key, maxManifest)
	if err != nil {
		return nil, err
	}
	var m []pending
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("%s: %w (%w)", key, errNoRecord, err)
	}
	for i := range m {
		f := &m[i]
		// A job's code can write below its staging, and this list decides which objects are removed from the
		// target.
		if !f.valid() || len(f.Parts) > 0 {
			return nil, fmt.Errorf("%s: %w", key, errNoRecord)
		}
		f.Key = a.Target + "/" + f.Name
	}
	return m, nil
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
	// A sweep or an Abort in another process has won. Without the manifest the steps below would
	// delete the target's objects and put none in their place.
	if missing(err) {
		return fmt.Errorf("the staging was removed during its commit: %w", err)
	}
	if err != nil {
		return err
	}
	if err := p.moveAside(ctx, a); err != nil {
		return err
	}
	for _, step := range []func() error{
		// Before any object changes: a reader that finds _SUCCESS trusts the rest of the listing.
		func() error { return p.Delete(ctx, p.successKey(a)) },
		func() error { return p.removeOld(ctx, a) },
		func() error { return p.removeOthers(ctx, a, m) },
		func() error {
			return parallel(ctx, m, func(ctx context.Context, f pending) error {
				if err := storage.Permitted(ctx); err != nil {
					return err
				}
				return p.complete(ctx, a, f)
			})
		},
		func() error { return p.Put(ctx, p.successKey(a), a.SuccessContent()) },
	} {
		if err := storage.Permitted(ctx); err != nil {
			return err
		}
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// moveAside copies the old output to old/. It changes nothing in the target.
func (p *publisher) moveAside(ctx context.Context, a storage.StageArea) error {
	// Copied once. Later the target may hold new objects, and a copy of these would be taken for the
	// old output.
	done, err := stageOps{p.server}.Exists(ctx, a.Root+asideFile)
	if err != nil || done {
		return err
	}
	// The commit may have been decided long ago, by a process that was killed. Files that came
	// since would be removed.
	if _, err := storage.CheckTarget(ctx, stageOps{p.server}, a); err != nil {
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
	// Only after the last copy: from this marker on the target may be changed, and Restore relies on
	// the copies.
	return p.Put(ctx, a.Root+asideFile, nil)
}

// output returns the keys of the target's objects, without the claim.
func (p *publisher) output(ctx context.Context, a storage.StageArea) ([]string, error) {
	keys, err := keysBelow(ctx, p, a.Target+"/")
	return slices.DeleteFunc(keys, func(key string) bool { return isClaim(a.Target, key) }), err
}

// complete makes an upload the object, unless an interrupted commit has done so. It
// returns nil only after it has seen the object: versitygw 1.8.0, killed while it completed
// an upload, confirms each later request for this upload and never makes the object. A
// server may also confirm a request while it still works on an earlier one, so complete
// looks several times.
func (p *publisher) complete(ctx context.Context, a storage.StageArea, f pending) error {
	// The manifest has no parts; the record has.
	record, err := readPending(ctx, p, a, recordKey(a, f), recordKey)
	if err != nil {
		return err
	}
	err = p.Complete(ctx, record)
	confirmed := err == nil
	if !confirmed && !errors.Is(err, errNoUpload) {
		return err
	}
	o := awaitMade
	o.FirstPause = p.pause
	return retry.Run(ctx, o, func(ctx context.Context) error {
		made, err := p.made(ctx, f)
		switch {
		case err != nil || made:
			return err
		// The server does not know the upload, and another upload has made the object. Waiting changes
		// nothing.
		case !confirmed:
			return errUploadLost
		}
		return fmt.Errorf("%s: %w", f.Name, errNotMade)
	})
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

// removeOld removes the objects of which old/ has copies from the target. It does so once:
// when the commit is continued, the target may have new objects under the same keys, whose
// uploads are gone.
func (p *publisher) removeOld(ctx context.Context, a storage.StageArea) error {
	done, err := stageOps{p.server}.Exists(ctx, a.Root+clearedFile)
	if err != nil || done {
		return err
	}
	// From old/ and not from the target: each removed object has a copy.
	old, err := keysBelow(ctx, p, a.Root+oldDir)
	if err != nil || len(old) == 0 {
		return err // a new output costs no marker
	}
	for i, key := range old {
		old[i] = a.Target + "/" + strings.TrimPrefix(key, a.Root+oldDir)
	}
	if err := deleteAll(ctx, p, old); err != nil {
		return err
	}
	return p.Put(ctx, a.Root+clearedFile, nil)
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
	// clearedFile goes first. Alone it would make a later commit copy the old output again and then
	// skip its removal.
	for _, marker := range []string{clearedFile, asideFile} {
		if err := p.Delete(ctx, a.Root+marker); err != nil {
			return err
		}
	}
	return p.release(ctx, a)
}

// moveBack removes the objects of this staging from the target and copies the old
// ones back.
func (p *publisher) moveBack(ctx context.Context, a storage.StageArea) error {
	m, err := p.manifest(ctx, a)
	if err != nil && !missing(err) { // without a manifest nothing was published
		return err
	}
	old, err := keysBelow(ctx, p, a.Root+oldDir)
	if err != nil {
		return err
	}
	err = parallel(ctx, m, func(ctx context.Context, f pending) error {
		// Only objects of this staging: the same key may still hold the old output's object.
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
	// _SUCCESS comes last, because readers trust a listing that has it.
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
	// First, so that readers of the directory do not wait for a job that has ended.
	if err := p.release(ctx, a); err != nil {
		return err
	}
	// Uploads end before their records go: afterwards nothing would name them, and the server keeps
	// and bills the parts of an upload until it is aborted.
	err := deleteBelow(ctx, p, a.Root+uploadsDir, func(ctx context.Context, key string) error {
		f, err := readPending(ctx, p, a, key, uploadKey)
		if err == nil {
			err = p.Abort(ctx, f)
		}
		if missing(err) || errors.Is(err, errNoRecord) || errors.Is(err, errTooLarge) {
			return nil // its writer has removed it, or the job's code has put it there
		}
		return err
	})
	if err != nil {
		return err
	}
	return deleteBelow(ctx, p, a.Root+"/", untouched)
}
