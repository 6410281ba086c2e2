package storage

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"path"
)

// Directories in a staging root on a file system with renames.
const (
	dataDir = "data" // the committed files; becomes the target by one rename
	tmpDir  = "tmp"  // files still being written
	oldDir  = "old"  // the former target, between being moved aside and being removed
)

// RenameOps are the operations of a file system that renames directories in one
// step.
type RenameOps interface {
	StageOps
	// MakeRoot creates a staging root and its parents, and sets who may enter a root
	// that exists: if private is set, other users cannot read it.
	MakeRoot(ctx context.Context, root string, private bool) error
	// Mkdir creates a directory whose parent must exist. A directory that exists
	// is no error.
	Mkdir(ctx context.Context, dir string) error
	// Rename moves a file or directory in one step. It replaces a file and an empty
	// directory, and fails if to is a directory that holds anything.
	Rename(ctx context.Context, from, to string) error
	// CreateFile begins a new file that only this process writes.
	CreateFile(ctx context.Context, path string) (TempFile, error)
}

// TempFile is a new file, open for writing.
type TempFile interface {
	io.Writer
	// Path returns the file's present path. A file system that cannot continue a
	// file after a failed Write begins a new one under a longer name.
	Path() string
	// Close completes the file.
	Close(ctx context.Context) error
	// Remove ends writing and removes the file.
	Remove(ctx context.Context) error
}

// Exchanger is implemented by RenameOps that can swap two directories in one
// step, so that the target exists at every moment of a replacement.
type Exchanger interface {
	Exchange(ctx context.Context, a, b string) error
}

// Flusher is implemented by RenameOps on which a power cut can lose recent changes.
// replaces says that an old output is at stake, which must not be lost together with
// the new one.
type Flusher interface {
	// FlushTree makes the directories below dir durable, and their files.
	FlushTree(ctx context.Context, dir string, replaces bool) error
	// FlushNames makes the names in one directory durable.
	FlushNames(ctx context.Context, dir string, replaces bool) error
}

// renamePublisher implements Publisher with renames.
//
// Replacing an output takes one step where directories can be swapped, and two
// renames elsewhere: the old output to old/, then data/ to the target. Between
// the two there is no output. A crash there leaves old/ without a target, which
// the next Commit or sweep brings forward, and the next Abort takes back.
type renamePublisher struct{ ops RenameOps }

// NewRenamePublisher returns the Publisher of a file system with renames.
func NewRenamePublisher(ops RenameOps) Publisher { return renamePublisher{ops} }

func (p renamePublisher) data(a StageArea) string { return path.Join(a.Root, dataDir) }

func (p renamePublisher) old(a StageArea) string { return path.Join(a.Root, oldDir) }

// MakeRoot implements Publisher.
func (p renamePublisher) MakeRoot(ctx context.Context, a StageArea) error {
	// Workers may run as other users, so only own stagings are private.
	if err := p.ops.MakeRoot(ctx, a.Root, a.Token == ""); err != nil {
		return err
	}
	if err := p.ops.Mkdir(ctx, p.data(a)); err != nil {
		return err
	}
	return p.ops.Mkdir(ctx, path.Join(a.Root, tmpDir))
}

// flushNames makes the names in a directory durable, where a power cut can lose them.
func (p renamePublisher) flushNames(ctx context.Context, dir string, replaces bool) error {
	if f, ok := p.ops.(Flusher); ok {
		return f.FlushNames(ctx, dir, replaces)
	}
	return nil
}

// Prepare implements Publisher. All of data/ is durable before the commit is decided.
// A power cut could leave the commit marker without _SUCCESS otherwise, and the next
// process would take the staged files for the old output of a swap.
func (p renamePublisher) Prepare(ctx context.Context, a StageArea) ([]byte, error) {
	vacant, err := CheckTarget(ctx, p.ops, a)
	if err != nil {
		return nil, err
	}
	if err := p.ops.Put(ctx, path.Join(p.data(a), SuccessFile), a.SuccessContent()); err != nil {
		return nil, err
	}
	if f, ok := p.ops.(Flusher); ok {
		return nil, f.FlushTree(ctx, p.data(a), !vacant)
	}
	return nil, nil
}

// Published implements Publisher. After a swap data/ holds the old output. An own
// staging has no token to tell the two apart; it is committed by one process only,
// which does not need to ask.
func (p renamePublisher) Published(ctx context.Context, a StageArea) (bool, error) {
	// Without data/ the one rename of Publish has taken place. With it the token shows whether data/ is
	// the new output or, after an exchange, the old one.
	staged, err := p.ops.Exists(ctx, p.data(a))
	if err == nil && staged {
		if a.Token == "" {
			return false, nil
		}
		staged, err = holdsToken(ctx, p.ops, p.data(a), a.Token)
	}
	if err != nil || staged {
		return false, err
	}
	// The process that changed the target may have died before it flushed the change.
	return true, p.flushNames(ctx, path.Dir(a.Target), a.Replace != ReplaceNothing)
}

// Publish implements Publisher.
func (p renamePublisher) Publish(ctx context.Context, a StageArea) error {
	vacant, err := CheckTarget(ctx, p.ops, a)
	if err != nil {
		return err
	}
	replaces := !vacant
	exchanged, err := p.place(ctx, a, replaces)
	// Another job has published since the look. Or the look began in a directory that another job swapped
	// for its own output and emptied meanwhile. Without a second look, one of two jobs that may replace
	// the output would fail.
	if vacant && errors.Is(err, fs.ErrExist) {
		if _, err := CheckTarget(ctx, p.ops, a); err != nil {
			return err
		}
		replaces = true
		// Prepare took the target for vacant, too, and need not have made the files durable.
		if f, ok := p.ops.(Flusher); ok {
			if err := f.FlushTree(ctx, p.data(a), replaces); err != nil {
				return err
			}
		}
		exchanged, err = p.place(ctx, a, replaces)
	}
	if err != nil {
		return err
	}
	err = p.flushNames(ctx, path.Dir(a.Target), replaces)
	// Another process may find a shared staging published. The owner of an own one aborts it after an
	// error, and says that the job has failed: then the new output must not stay.
	if err != nil && a.Token == "" {
		if uerr := p.undo(context.WithoutCancel(ctx), a, exchanged); uerr != nil {
			return fmt.Errorf("the new output is in place, and may not survive a power cut: %w (it cannot be taken back: %w)", err, uerr)
		}
	}
	return err
}

// place puts data/ at the target, which holds files if replaces is set. It reports whether data/ has the old
// output then. After an error the target is unchanged.
func (p renamePublisher) place(ctx context.Context, a StageArea, replaces bool) (exchanged bool, err error) {
	// The steps below change the target. If this process dies between them, recovery
	// needs the markers and the root's name to finish or undo the change, so both are
	// flushed first.
	for _, dir := range []string{a.Root, path.Dir(a.Root)} {
		if err := p.flushNames(ctx, dir, replaces); err != nil {
			return false, err
		}
	}
	if err := Permitted(ctx); err != nil {
		return false, err
	}
	if replaces {
		return p.replace(ctx, a)
	}
	return false, p.ops.Rename(ctx, p.data(a), a.Target)
}

// undo takes a change of the target back that Publish has made.
func (p renamePublisher) undo(ctx context.Context, a StageArea, exchanged bool) error {
	if exchanged {
		// An exchange is its own inverse.
		return p.ops.(Exchanger).Exchange(ctx, p.data(a), a.Target)
	}
	if err := p.ops.Rename(ctx, a.Target, p.data(a)); err != nil {
		return err
	}
	// The new output is out of the way, so an old one that was moved aside is put back.
	return p.Restore(ctx, a)
}

// replace puts data/ in the place of a target that holds files. It reports whether data/ has the
// old output then.
func (p renamePublisher) replace(ctx context.Context, a StageArea) (exchanged bool, err error) {
	// Any error falls back to two renames: some file systems, such as NFS, cannot exchange.
	if x, ok := p.ops.(Exchanger); ok && x.Exchange(ctx, p.data(a), a.Target) == nil {
		return true, nil
	}
	// If an interrupted commit has moved an output aside already, another job has
	// published since: the output in old/ has been replaced.
	if err := p.ops.Remove(ctx, p.old(a)); err != nil {
		return false, err
	}
	// Removing the old directory may have taken long.
	if err := Permitted(ctx); err != nil {
		return false, err
	}
	if err := p.ops.Rename(ctx, a.Target, p.old(a)); err != nil {
		return false, err
	}
	// From here on there is no output. If the process dies now, Interrupted finds old/ without a
	// target.
	if err := p.ops.Rename(ctx, p.data(a), a.Target); err != nil {
		// Without the caller's context: a cancelled commit must not leave the target empty.
		return false, errors.Join(err, p.Restore(context.WithoutCancel(ctx), a))
	}
	return false, nil
}

// Interrupted implements Publisher.
func (p renamePublisher) Interrupted(ctx context.Context, a StageArea) (bool, error) {
	aside, err := p.ops.Exists(ctx, p.old(a))
	if err != nil || !aside {
		return false, err
	}
	present, err := p.ops.Exists(ctx, a.Target)
	return err == nil && !present, err
}

// Restore implements Publisher.
func (p renamePublisher) Restore(ctx context.Context, a StageArea) error {
	interrupted, err := p.Interrupted(ctx, a)
	if err != nil || !interrupted {
		return err
	}
	if err := p.ops.Rename(ctx, p.old(a), a.Target); err != nil {
		return fmt.Errorf("putting the old output back: %w", err)
	}
	return p.flushNames(ctx, path.Dir(a.Target), true)
}

// Discard implements Publisher. The removal of the owner marker is durable before
// anything else is removed: a power cut must not leave the marker without the rest.
func (p renamePublisher) Discard(ctx context.Context, a StageArea) error {
	if err := p.flushNames(ctx, a.Root, false); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return p.ops.Remove(ctx, a.Root)
}

// Create implements Publisher. The name of the temporary file is unique, so two attempts
// of a task never write to the same file.
func (p renamePublisher) Create(ctx context.Context, a StageArea, name string) (StagedFile, error) {
	f, err := p.ops.CreateFile(ctx, path.Join(a.Root, tmpDir, tempPrefix(name)+NewToken()))
	if err != nil {
		return nil, err
	}
	return &renamedFile{TempFile: f, publisher: p, area: a, name: name}, nil
}

// tempPrefix returns the beginning of the names of temporary files for name. Its
// length is fixed, as name may be as long as the file system permits.
func tempPrefix(name string) string {
	h := fnv.New128a()
	io.WriteString(h, name)
	return hex.EncodeToString(h.Sum(nil)) + "-"
}

// renamedFile implements StagedFile.
type renamedFile struct {
	TempFile
	publisher renamePublisher
	area      StageArea
	name      string
}

// Commit implements StagedFile.
func (f *renamedFile) Commit(ctx context.Context) error {
	// Before the rename, because HDFS completes a file and a local disk syncs it when it is closed.
	err := f.Close(ctx)
	if err == nil {
		err = f.moveIntoData(ctx)
	}
	if err != nil {
		// If it cannot be removed, it goes with the staging.
		_ = f.Remove(context.WithoutCancel(ctx))
	}
	return err
}

// moveIntoData renames the complete temporary file to its name in data/.
func (f *renamedFile) moveIntoData(ctx context.Context) error {
	if err := f.mkdir(ctx, path.Dir(f.name)); err != nil {
		return err
	}
	// Before the rename: an earlier attempt that stopped just before its own rename would otherwise
	// replace this file later.
	if err := f.fence(ctx); err != nil {
		return err
	}
	if err := f.publisher.ops.Rename(ctx, f.Path(), path.Join(f.publisher.data(f.area), f.name)); err != nil {
		return err
	}
	return f.flush(ctx)
}

// flush makes the name of a file in a shared staging durable, and the directories
// above it. The master of a shared staging records that the task has succeeded, and
// does not run it again after a power cut. The owner of an own staging does not
// survive a power cut.
func (f *renamedFile) flush(ctx context.Context) error {
	if f.area.Token == "" {
		return nil
	}
	for dir := f.name; dir != "."; {
		dir = path.Dir(dir)
		if err := f.publisher.flushNames(ctx, path.Join(f.publisher.data(f.area), dir), false); err != nil {
			return err
		}
	}
	return nil
}

// mkdir creates the directory rel in data/ and those above it. It does not create
// data/: if that is gone, another process has ended the staging.
func (f *renamedFile) mkdir(ctx context.Context, rel string) error {
	if rel == "." {
		return nil
	}
	if err := f.mkdir(ctx, path.Dir(rel)); err != nil {
		return err
	}
	return f.publisher.ops.Mkdir(ctx, path.Join(f.publisher.data(f.area), rel))
}

// fence removes the temporary files of all other writers of the same name in a
// shared staging. A writer that continues later, in whichever process, has
// nothing left to rename.
func (f *renamedFile) fence(ctx context.Context) error {
	if f.area.Token == "" {
		return nil
	}
	dir, own := path.Split(f.Path())
	names, err := f.publisher.ops.List(ctx, path.Clean(dir), tempPrefix(f.name))
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == own {
			continue
		}
		if err := f.publisher.ops.Remove(ctx, path.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// Drop implements StagedFile.
func (f *renamedFile) Drop(ctx context.Context) error { return f.Remove(ctx) }
