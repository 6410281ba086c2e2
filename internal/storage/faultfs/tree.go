package faultfs

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/slotwise/slotwise/internal/storage"
)

// Flavour says which real file system a Tree behaves like.
type Flavour struct {
	// Exchange says that two directories can be swapped in one step.
	Exchange bool
	// Local says that a staging root can be locked, that a power cut loses unsynced
	// changes, and that Remove takes one step for each entry. Otherwise there are no
	// locks, and Remove takes one step.
	Local bool
	// Durable says that a commit flushes the output even if it replaces none.
	Durable bool
}

// The flavours of the file systems that outputs are staged on.
var (
	LocalFlavour = Flavour{Exchange: true, Local: true}
	PlainFlavour = Flavour{Local: true} // local files on systems that cannot swap
	HDFSFlavour  = Flavour{}
)

// Tree is a storage.FS in memory. Its stagings run the protocol of package storage
// over operations that fail as the Disk's Faults say. It is safe for concurrent
// use.
type Tree struct {
	*Disk
	flavour Flavour
	// Now is the clock. It may be set before the Tree is used.
	Now func() time.Time
}

var _ storage.FS = (*Tree)(nil)

// NewTree returns a file system on an empty disk.
func NewTree(flavour Flavour) *Tree {
	return &Tree{Disk: NewDisk(), flavour: flavour, Now: time.Now}
}

// SetFlavour changes the behaviour of later stagings.
func (t *Tree) SetFlavour(f Flavour) { t.flavour = f }

// PowerCut returns the file system as the machine finds it after a power cut.
func (t *Tree) PowerCut(rng *rand.Rand) *Tree {
	return &Tree{Disk: t.Disk.Crash(rng), flavour: t.flavour, Now: t.Now}
}

// Restart returns the file system as a process finds it that starts after this one
// was killed.
func (t *Tree) Restart() *Tree { return &Tree{Disk: t.Disk.Kill(), flavour: t.flavour, Now: t.Now} }

// find returns a copy of the inode at name. Its data are shared with the original. It
// fails with ENOTDIR below a file.
func (t *Tree) find(name string) (inode, error) {
	t.disk.Lock()
	defer t.disk.Unlock()
	name = path.Clean(name)
	for dir := path.Dir(name); dir != "." && dir != "/"; dir = path.Dir(dir) {
		if n := t.disk.names[dir]; n != nil && !n.dir {
			return inode{}, syscall.ENOTDIR
		}
	}
	n := t.disk.names[name]
	if n == nil {
		return inode{}, fs.ErrNotExist
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
	if err == nil && n.dir {
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
	n, err := t.find(name)
	if err = cmp.Or(ctx.Err(), err, t.Reading(Stat, name)); err != nil {
		return storage.Info{}, pathError("stat", name, err)
	}
	return info(path.Clean(name), &n), nil
}

// info describes an inode.
func info(name string, n *inode) storage.Info {
	return storage.Info{Path: name, Size: int64(len(n.data)), Dir: n.dir, ModTime: n.mod}
}

// List implements storage.FS.
func (t *Tree) List(ctx context.Context, dir string) ([]storage.Info, error) {
	n, err := t.find(dir)
	err = cmp.Or(ctx.Err(), err, t.Reading(List, dir))
	if err == nil && !n.dir {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, pathError("list", dir, err)
	}
	t.disk.Lock()
	defer t.disk.Unlock()
	var infos []storage.Info
	for name, n := range t.disk.names {
		if path.Dir(name) == path.Clean(dir) {
			infos = append(infos, info(name, n))
		}
	}
	slices.SortFunc(infos, func(a, b storage.Info) int { return cmp.Compare(a.Path, b.Path) })
	return infos, nil
}

// Remove implements storage.FS.
func (t *Tree) Remove(ctx context.Context, name string) error {
	return treeOps{t}.Remove(ctx, path.Clean(name))
}

// Stage implements storage.FS.
func (t *Tree) Stage(ctx context.Context, dir string, overwrite bool) (storage.Staging, error) {
	return t.stager().Stage(ctx, path.Clean(dir), overwrite)
}

// StageShared implements storage.FS.
func (t *Tree) StageShared(ctx context.Context, dir, token string, overwrite bool) (storage.Staging, error) {
	return t.stager().StageShared(ctx, path.Clean(dir), token, overwrite)
}

// Reopen implements storage.FS.
func (t *Tree) Reopen(ctx context.Context, dir, token string) (storage.Staging, error) {
	return t.stager().Reopen(ctx, path.Clean(dir), token)
}

// stager returns the staging protocol over the operations of the flavour. Operations
// that the flavour lacks must not be methods: the protocol looks for them.
func (t *Tree) stager() *storage.Stager {
	ops := storage.RenameOps(treeOps{t})
	switch {
	case t.flavour.Exchange && t.flavour.Local:
		ops = struct {
			treeOps
			swaps
			flushes
			locks
		}{treeOps{t}, swaps{t}, flushes{t}, locks{t}}
	case t.flavour.Local:
		ops = struct {
			treeOps
			flushes
			locks
		}{treeOps{t}, flushes{t}, locks{t}}
	}
	return &storage.Stager{Ops: ops, Publisher: storage.NewRenamePublisher(ops), Failed: pathError, Now: t.Now}
}

// treeOps implements storage.RenameOps.
type treeOps struct{ t *Tree }

// change runs one changing operation on the names.
func (o treeOps) change(ctx context.Context, op Op, name string, do func() error) error {
	if err := cmp.Or(ctx.Err(), o.t.Changing(op, name)); err != nil {
		return err
	}
	o.t.disk.Lock()
	defer o.t.disk.Unlock()
	return do()
}

// touchLocked sets the time of the directory that holds name.
func (o treeOps) touchLocked(name string) {
	if n := o.t.disk.names[path.Dir(name)]; n != nil {
		n.mod = o.t.Now()
	}
}

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

// Vacant implements storage.StageOps.
func (o treeOps) Vacant(ctx context.Context, dir string) (bool, error) {
	infos, err := o.t.List(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return err == nil && len(infos) == 0, err
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
	n := &inode{mod: o.t.Now()}
	err := o.change(ctx, Put, name, func() error {
		if parent := o.t.disk.names[path.Dir(name)]; parent == nil || !parent.dir {
			return pathError("put", name, fs.ErrNotExist)
		}
		o.t.applyLocked(change{file: n, to: name})
		o.touchLocked(name)
		return nil
	})
	if err != nil || len(content) == 0 {
		return err
	}
	_, err = (&file{d: o.t.Disk, n: n, path: name}).Write(content)
	return err
}

// Remove implements storage.StageOps. Without locks it takes one step, else one
// for each entry, the deepest first, as os.RemoveAll does.
func (o treeOps) Remove(ctx context.Context, name string) error {
	steps := []string{name}
	if o.t.flavour.Local {
		steps = slices.DeleteFunc(o.t.Names(), func(n string) bool { return !at(n, name) })
		slices.Reverse(steps)
	}
	for _, step := range steps {
		err := o.change(ctx, Remove, step, func() error {
			o.t.applyLocked(change{to: step})
			o.touchLocked(step)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Touch implements storage.StageOps.
func (o treeOps) Touch(ctx context.Context, root string) error {
	return o.change(ctx, Touch, root, func() error {
		n := o.t.disk.names[root]
		if n == nil {
			return pathError("touch", root, fs.ErrNotExist)
		}
		n.mod = o.t.Now()
		return nil
	})
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
		n, err := o.t.find(parent)
		if errors.Is(err, fs.ErrNotExist) {
			err = o.MakeRoot(ctx, parent, private)
		} else if err == nil && !n.dir {
			err = syscall.ENOTDIR
		}
		if err != nil {
			return err
		}
	}
	return o.mkdir(ctx, root)
}

// Mkdir implements storage.RenameOps.
func (o treeOps) Mkdir(ctx context.Context, dir string) error {
	if n, err := o.t.find(path.Dir(dir)); err != nil || !n.dir {
		return pathError("mkdir", dir, cmp.Or(err, error(syscall.ENOTDIR)))
	}
	return o.mkdir(ctx, dir)
}

// mkdir makes a directory unless it exists.
func (o treeOps) mkdir(ctx context.Context, dir string) error {
	if _, err := o.t.find(dir); err == nil {
		return nil
	}
	return o.change(ctx, Mkdir, dir, func() error {
		o.t.applyLocked(change{file: &inode{dir: true, mod: o.t.Now()}, to: dir})
		o.touchLocked(dir)
		return nil
	})
}

// Rename implements storage.RenameOps.
func (o treeOps) Rename(ctx context.Context, from, to string) error {
	return o.change(ctx, Rename, to, func() error {
		n, there := o.t.disk.names[from], o.t.disk.names[to]
		if n == nil || o.t.disk.names[path.Dir(to)] == nil && path.Dir(to) != "." {
			return pathError("rename", from, fs.ErrNotExist)
		}
		if there != nil && there.dir {
			for name := range o.t.disk.names {
				if path.Dir(name) == to {
					return pathError("rename", to, fs.ErrExist)
				}
			}
		}
		o.t.applyLocked(change{from: from, to: to})
		o.touchLocked(from)
		o.touchLocked(to)
		return nil
	})
}

// CreateFile implements storage.RenameOps.
func (o treeOps) CreateFile(ctx context.Context, name string) (storage.TempFile, error) {
	n := &inode{mod: o.t.Now()}
	err := o.change(ctx, Create, name, func() error {
		if parent := o.t.disk.names[path.Dir(name)]; parent == nil || !parent.dir {
			return pathError("create", name, fs.ErrNotExist)
		}
		o.t.applyLocked(change{file: n, to: name})
		o.touchLocked(name)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &tempFile{file{d: o.t.Disk, n: n, path: name}, o}, nil
}

// tempFile implements storage.TempFile.
type tempFile struct {
	f file
	o treeOps
}

func (f *tempFile) Write(p []byte) (int, error)      { return f.f.Write(p) }
func (f *tempFile) Path() string                     { return f.f.path }
func (f *tempFile) Close(ctx context.Context) error  { return ctx.Err() }
func (f *tempFile) Remove(ctx context.Context) error { return f.o.Remove(ctx, f.f.path) }

// swaps implements storage.Exchanger.
type swaps struct{ t *Tree }

// Exchange implements storage.Exchanger.
func (s swaps) Exchange(ctx context.Context, a, b string) error {
	return treeOps(s).change(ctx, Exchange, b, func() error {
		s.t.applyLocked(change{from: a, to: b, swap: true})
		return nil
	})
}

// flushes implements storage.Flusher.
type flushes struct{ t *Tree }

// Flush implements storage.Flusher: it syncs each file, and then all names.
func (f flushes) Flush(_ context.Context, data string, replaces bool) error {
	if !replaces && !f.t.flavour.Durable {
		return nil
	}
	for _, name := range f.t.Names() {
		if !at(name, data) {
			continue
		}
		file, err := f.t.OpenFile(name, 0)
		if err != nil {
			return err
		}
		if err := file.Sync(); err != nil {
			return err
		}
	}
	return f.t.SyncDir(data)
}

// Published implements storage.Flusher.
func (f flushes) Published(_ context.Context, target string, replaces bool) {
	if replaces || f.t.flavour.Durable {
		_ = f.t.SyncDir(path.Dir(target)) // like the real one
	}
}

// locks implements storage.Locker. A lock belongs to the directory that had the
// path when it was taken.
type locks struct{ t *Tree }

// Lock implements storage.Locker.
func (l locks) Lock(ctx context.Context, root string, mode storage.LockMode) (io.Closer, error) {
	if err := cmp.Or(ctx.Err(), l.t.Reading(Open, root)); err != nil {
		return nil, err
	}
	for {
		if mode == storage.LockCreate {
			if err := treeOps(l).MakeRoot(ctx, root, true); err != nil {
				return nil, err
			}
		}
		l.t.disk.Lock()
		n := l.t.disk.names[root]
		busy := l.t.disk.locks[n]
		if n != nil && busy == nil {
			released := make(chan struct{})
			l.t.disk.locks[n] = released
			l.t.disk.Unlock()
			return &rootLock{l.t.Disk, n, released}, nil
		}
		l.t.disk.Unlock()
		if n == nil {
			return nil, pathError("lock", root, fs.ErrNotExist)
		}
		if mode == storage.LockTry {
			return nil, pathError("lock", root, syscall.EWOULDBLOCK)
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// rootLock is a lock of a directory.
type rootLock struct {
	d        *Disk
	n        *inode
	released chan struct{}
}

// Close releases the lock.
func (l *rootLock) Close() error {
	l.d.disk.Lock()
	defer l.d.disk.Unlock()
	delete(l.d.disk.locks, l.n)
	close(l.released)
	return nil
}
