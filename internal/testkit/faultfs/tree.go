package faultfs

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/slotwise/slotwise/internal/base/durable"
	"github.com/slotwise/slotwise/internal/data/storage"
)

// Flavour says which real file system a Tree behaves like.
type Flavour struct {
	// Local says that the Tree stages output like the local file system, on the Tree's
	// Disk. Otherwise it stages like HDFS: there are no locks, and Remove takes one step.
	Local bool
	// Exchange says that two local directories can be swapped in one step.
	Exchange bool
	// NoSync is the field of storage.Local.
	NoSync bool
}

// The flavours of the file systems that outputs are staged on.
var (
	LocalFlavour = Flavour{Exchange: true, Local: true}
	PlainFlavour = Flavour{Local: true} // local files on systems that cannot swap
	HDFSFlavour  = Flavour{}
)

// Tree is a storage.FS in memory. Its stagings run the protocol of package storage
// over operations that fail as the Disk's Faults say; for local flavours they are the
// operations of storage.Local. It is safe for concurrent use.
type Tree struct {
	*Disk
	flavour Flavour
}

var _ storage.FS = (*Tree)(nil)

// NewTree returns a file system on an empty disk.
func NewTree(flavour Flavour) *Tree { return onDisk(NewDisk(), flavour) }

// onDisk returns the file system on a disk.
func onDisk(d *Disk, flavour Flavour) *Tree {
	t := &Tree{Disk: d}
	t.SetFlavour(flavour)
	return t
}

// SetFlavour changes the behaviour of later stagings.
func (t *Tree) SetFlavour(f Flavour) { t.flavour, t.NoExchange = f, !f.Exchange }

// PowerCut returns the file system as the machine finds it after a power cut.
func (t *Tree) PowerCut(rng *rand.Rand) *Tree { return onDisk(t.Disk.Crash(rng), t.flavour) }

// Restart returns the file system as a process finds it that starts after this one
// was killed.
func (t *Tree) Restart() *Tree { return onDisk(t.Disk.Kill(), t.flavour) }

// find returns a copy of the inode at name. Its data are shared with the original. It
// fails with ENOTDIR below a file.
func (t *Tree) find(name string) (inode, error) {
	t.disk.Lock()
	defer t.disk.Unlock()
	n, err := t.findLocked(name)
	if err != nil {
		return inode{}, err
	}
	return *n, nil
}

// pathError returns an error that names the path, without naming it twice.
func pathError(op, name string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// Open implements storage.FS.
func (t *Tree) Open(ctx context.Context, name string) (storage.File, error) {
	n, err := t.find(name)
	err = cmp.Or(ctx.Err(), err, t.Reading(Open, name))
	if err == nil && n.mode.IsDir() {
		err = syscall.EISDIR
	}
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return &treeFile{file: file{d: t.Disk, n: &n, path: name}, ctx: ctx}, nil
}

// treeFile implements storage.File. It reads the data that the file had when it was
// opened.
type treeFile struct {
	file
	ctx context.Context
}

func (f *treeFile) Size() int64 { return int64(len(f.n.data)) }

func (f *treeFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	return f.file.ReadAt(p, off)
}

// Stat implements storage.FS.
func (t *Tree) Stat(ctx context.Context, name string) (storage.Info, error) {
	if err := ctx.Err(); err != nil {
		return storage.Info{}, pathError("stat", name, err)
	}
	i, err := t.Disk.Stat(name)
	if err != nil {
		return storage.Info{}, pathError("stat", name, err)
	}
	return info(path.Clean(name), i), nil
}

// info describes a file.
func info(name string, i fs.FileInfo) storage.Info {
	return storage.Info{Path: name, Size: i.Size(), Dir: i.IsDir(), ModTime: i.ModTime()}
}

// List implements storage.FS.
func (t *Tree) List(ctx context.Context, dir string) ([]storage.Info, error) {
	names, err := t.ReadDir(dir)
	if err = cmp.Or(ctx.Err(), err); err != nil {
		return nil, pathError("list", dir, err)
	}
	var infos []storage.Info
	for _, name := range names {
		name = path.Join(dir, name)
		if n, err := t.find(name); err == nil {
			infos = append(infos, info(name, fileInfo{path.Base(name), int64(len(n.data)), n.mode, n.mod}))
		}
	}
	return infos, nil
}

// Remove implements storage.FS.
func (t *Tree) Remove(ctx context.Context, name string) error {
	return treeOps{t}.Remove(ctx, path.Clean(name))
}

// Stage implements storage.FS.
func (t *Tree) Stage(ctx context.Context, dir string, replace storage.Replace) (storage.Staging, error) {
	if err := ctx.Err(); err != nil {
		return nil, pathError("output", dir, err)
	}
	return t.stager().Stage(ctx, path.Clean(dir), replace)
}

// StageShared implements storage.FS.
func (t *Tree) StageShared(ctx context.Context, dir, token string, replace storage.Replace) (storage.Staging, error) {
	return t.stager().StageShared(ctx, path.Clean(dir), token, replace)
}

// Reopen implements storage.FS.
func (t *Tree) Reopen(ctx context.Context, dir, token string) (storage.Staging, error) {
	return t.stager().Reopen(ctx, path.Clean(dir), token)
}

// stager returns the staging protocol over the operations of the flavour.
func (t *Tree) stager() *storage.Stager {
	ops := storage.RenameOps(treeOps{t})
	if t.flavour.Local {
		ops = storage.LocalOps(t.Disk, !t.flavour.NoSync)
	}
	return &storage.Stager{Ops: ops, Publisher: storage.NewRenamePublisher(ops), Failed: pathError, Now: t.Now}
}

// treeOps implements storage.RenameOps like HDFS.
type treeOps struct{ t *Tree }

// List implements storage.StageOps.
func (o treeOps) List(ctx context.Context, dir, prefix string) ([]string, error) {
	infos, err := o.t.List(ctx, dir)
	var names []string
	for _, i := range infos {
		if name := path.Base(i.Path); strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return names, err
}

// Entries implements storage.StageOps.
func (o treeOps) Entries(ctx context.Context, dir string, each func(string, fs.FileMode) bool) error {
	infos, err := o.t.List(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, i := range infos {
		kind := fs.FileMode(0)
		if i.Dir {
			kind = fs.ModeDir
		}
		if !each(path.Base(i.Path), kind) {
			break
		}
	}
	return err
}

// Exists implements storage.StageOps.
func (o treeOps) Exists(ctx context.Context, name string) (bool, error) {
	if err := cmp.Or(ctx.Err(), o.t.Reading(Stat, name)); err != nil {
		return false, err
	}
	_, err := o.t.find(name)
	return err == nil, nil
}

// Read implements storage.StageOps.
func (o treeOps) Read(ctx context.Context, name string) ([]byte, error) {
	if err := cmp.Or(ctx.Err(), o.t.Reading(Read, name)); err != nil {
		return nil, err
	}
	n, err := o.t.find(name)
	if errors.Is(err, syscall.ENOTDIR) {
		err = fs.ErrNotExist
	}
	return slices.Clone(n.data), err
}

// Put implements storage.StageOps in two steps: an empty file, then its content.
func (o treeOps) Put(ctx context.Context, name string, content []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	n := &inode{mode: 0o666, mod: o.t.Now()}
	err := o.t.change(Put, name, func() (change, error) {
		dir, base, err := o.t.parentLocked(name)
		return change{{dir, base, n}}, err
	})
	if err != nil || len(content) == 0 {
		return err
	}
	// HDFS creates a file before it has content, so a marker may be found empty. The protocol must not read
	// it as complete.
	_, err = (&file{d: o.t.Disk, n: n, path: name}).Write(content)
	return err
}

// Remove implements storage.StageOps.
func (o treeOps) Remove(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if o.t.flavour.Local {
		return o.t.RemoveAll(name)
	}
	// The NameNode removes a directory with all below it in one edit.
	return o.t.change(Remove, name, func() (change, error) {
		dir, base, err := o.t.parentLocked(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return change{{dir, base, nil}}, err
	})
}

// Touch implements storage.StageOps.
func (o treeOps) Touch(ctx context.Context, root string) error {
	return cmp.Or(ctx.Err(), o.t.Chtimes(root, o.t.Now()))
}

// LastTouched implements storage.StageOps in the same way as local files.
func (o treeOps) LastTouched(_ context.Context, root string) (last time.Time, err error) {
	n, err := o.t.find(root)
	last = n.mod
	for _, sub := range []string{"data", "tmp"} {
		if n, err := o.t.find(path.Join(root, sub)); err == nil && n.mod.After(last) {
			last = n.mod
		}
	}
	return last, err
}

// MakeRoot implements storage.RenameOps. It makes the parents too.
func (o treeOps) MakeRoot(ctx context.Context, root string, private bool) error {
	if parent := path.Dir(root); parent != "." && parent != "/" {
		if err := o.MakeRoot(ctx, parent, private); err != nil {
			return err
		}
	}
	return o.Mkdir(ctx, root)
}

// Mkdir implements storage.RenameOps.
func (o treeOps) Mkdir(ctx context.Context, dir string) error {
	err := cmp.Or(ctx.Err(), o.t.Disk.Mkdir(dir, 0o777))
	// mkdirs of HDFS succeeds for a directory that exists, and two attempts may make one at once.
	if n, bad := o.t.find(dir); errors.Is(err, fs.ErrExist) && bad == nil {
		if !n.mode.IsDir() {
			return pathError("mkdir", dir, syscall.ENOTDIR)
		}
		return nil
	}
	return err
}

// Rename implements storage.RenameOps.
func (o treeOps) Rename(ctx context.Context, from, to string) error {
	return cmp.Or(ctx.Err(), o.t.Disk.Rename(from, to))
}

// CreateFile implements storage.RenameOps.
func (o treeOps) CreateFile(ctx context.Context, name string) (storage.TempFile, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := o.t.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err
	}
	return &tempFile{f, o, name}, nil
}

// tempFile implements storage.TempFile.
type tempFile struct {
	durable.File
	o    treeOps
	path string
}

func (f *tempFile) Path() string                     { return f.path }
func (f *tempFile) Close(ctx context.Context) error  { return ctx.Err() }
func (f *tempFile) Remove(ctx context.Context) error { return f.o.Remove(ctx, f.path) }
