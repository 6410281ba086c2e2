package faultfs

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/slotwise/slotwise/internal/base/durable"
)

// Disk is a disk in memory. Its operations fail as its Faults say, it can be full,
// and after a crash only synced data and names are certain to be present.
//
// A file's bytes are volatile until Sync, and the names in a directory are volatile
// until SyncDir of that directory. Crash keeps an arbitrary subset of the volatile
// pages and of the changes of names, like a power cut. Kill keeps everything, like the
// end of a process.
//
// A Sync that fails behaves as on Linux: the pages count as written although the disk
// does not have them. Reads return them until the next Crash, which loses them, even
// if a later Sync has succeeded.
//
// Paths are slash-separated; relative ones are below the root. A Disk is safe for
// concurrent use.
// Whether an operation fails is decided before the lock of the disk is taken, because Rule.Call may use the
// disk. The two locks are never held together.
type Disk struct {
	Faults
	// Now is the clock of the times of files. It may be set before the Disk is used.
	Now func() time.Time
	// NoExchange makes Exchange fail with errors.ErrUnsupported. It may be set before
	// the Disk is used.
	NoExchange bool

	disk struct {
		sync.Mutex
		root    *inode
		pending []change // not durable yet, oldest first
		locks   map[*inode]chan struct{}
		limited bool
		limit   int64
	}
}

var _ durable.Tree = (*Disk)(nil)

// NewDisk returns an empty disk without limit.
func NewDisk() *Disk {
	d := &Disk{Now: time.Now}
	d.disk.root = newDir(0o777, time.Time{})
	d.disk.locks = map[*inode]chan struct{}{}
	return d
}

// Limit sets the capacity of the disk; a negative one means no limit. A Write that
// exceeds it writes the bytes that fit and fails with ENOSPC.
func (d *Disk) Limit(bytes int64) {
	d.disk.Lock()
	defer d.disk.Unlock()
	d.disk.limited, d.disk.limit = bytes >= 0, bytes
}

// Names lists the paths of all files and directories, sorted.
func (d *Disk) Names() (names []string) {
	d.disk.Lock()
	defer d.disk.Unlock()
	d.disk.root.walk("", func(name string, _ *inode) { names = append(names, name) })
	return names
}

// Bytes returns a file's content, which a test may read or damage in place; nil if
// there is no such file.
func (d *Disk) Bytes(name string) []byte {
	d.disk.Lock()
	defer d.disk.Unlock()
	// The bytes themselves and no copy: a test damages a file by changing them.
	if n, err := d.findLocked(name); err == nil {
		return n.data
	}
	return nil
}

// Cut shortens a file to the first size bytes.
func (d *Disk) Cut(name string, size int) {
	d.disk.Lock()
	defer d.disk.Unlock()
	if n, err := d.findLocked(name); err == nil {
		n.data = n.data[:size:size]
	}
}

// Put makes a file with its content durable, and the directories above it, whatever
// the faults say: the state of the disk before a test begins.
func (d *Disk) Put(name string, content []byte) {
	d.disk.Lock()
	defer d.disk.Unlock()
	dir := d.disk.root
	names := split(name)
	for i, name := range names {
		n := dir.entries[name]
		if i == len(names)-1 {
			// Data and disk are equal, so that no crash takes anything of the file.
			n = &inode{data: slices.Clone(content), disk: slices.Clone(content), mode: 0o666, mod: d.Now()}
		} else if n == nil {
			n = newDir(0o777, d.Now())
		}
		dir.entries[name], dir.durable[name] = n, n
		dir = n
	}
}

// Crash returns the disk that the machine finds after a power cut.
func (d *Disk) Crash(rng *rand.Rand) *Disk {
	// A copy: this disk runs on.
	after := d.Kill()
	kept := make([]bool, len(after.disk.pending))
	for i := range kept {
		// Each by itself: disks reorder what no barrier separates. apply then adds the changes that these
		// depend on.
		kept[i] = rng.IntN(2) > 0
	}
	apply(after.disk.pending, kept)
	after.disk.pending = nil
	after.disk.root.crash(rng, map[*inode]bool{})
	return after
}

// Kill returns the disk that the next process finds if this process is killed and the
// machine runs on. All writes are present, but no more durable than before. Locks and
// faults are gone. The result is a copy; changing it does not change this disk.
func (d *Disk) Kill() *Disk {
	d.disk.Lock()
	defer d.disk.Unlock()
	// One map for the tree and for the pending changes, which must lead to the same copies.
	copies := map[*inode]*inode{}
	after := NewDisk()
	after.Now, after.NoExchange = d.Now, d.NoExchange
	after.disk.root = d.disk.root.clone(copies)
	for _, c := range d.disk.pending {
		after.disk.pending = append(after.disk.pending, c.clone(copies))
	}
	return after
}

// findLocked returns the file or directory at a path. It fails with ENOTDIR below a file.
func (d *Disk) findLocked(name string) (*inode, error) {
	n := d.disk.root
	for _, name := range split(name) {
		if n.entries == nil {
			return nil, syscall.ENOTDIR
		}
		if n = n.entries[name]; n == nil {
			return nil, fs.ErrNotExist
		}
	}
	return n, nil
}

// split returns the elements of a path.
func split(name string) []string {
	if name = strings.TrimPrefix(path.Clean(name), "/"); name == "" || name == "." {
		return nil
	}
	return strings.Split(name, "/")
}

// parentLocked returns the directory that holds, or would hold, the last name of a
// path.
func (d *Disk) parentLocked(name string) (*inode, string, error) {
	name = path.Clean(name)
	dir, err := d.findLocked(path.Dir(name))
	switch {
	case err != nil:
		return nil, "", err
	case dir.entries == nil:
		return nil, "", syscall.ENOTDIR
	}
	return dir, path.Base(name), nil
}

// change runs one operation on the names that Faults may refuse. do returns the edits.
func (d *Disk) change(op Op, name string, do func() (change, error)) error {
	if err := d.Changing(op, name); err != nil {
		return err
	}
	d.disk.Lock()
	defer d.disk.Unlock()
	c, err := do()
	if err != nil {
		return &fs.PathError{Op: string(op), Path: name, Err: err}
	}
	for _, e := range c {
		e.dir.edit(e.dir.entries, e)
		e.dir.mod = d.Now()
	}
	d.disk.pending = append(d.disk.pending, c)
	return nil
}

// Mkdir implements durable.FS.
func (d *Disk) Mkdir(dir string, perm fs.FileMode) error {
	// A directory that exists is found without a change, so the call counts as no operation.
	d.disk.Lock()
	_, err := d.findLocked(dir)
	d.disk.Unlock()
	if err == nil {
		return &fs.PathError{Op: "mkdir", Path: dir, Err: fs.ErrExist}
	}
	return d.change(Mkdir, dir, func() (change, error) {
		parent, name, err := d.parentLocked(dir)
		return change{{parent, name, newDir(perm, d.Now())}}, err
	})
}

// ReadDir implements durable.FS.
func (d *Disk) ReadDir(dir string) ([]string, error) {
	if err := d.Reading(List, dir); err != nil {
		return nil, err
	}
	d.disk.Lock()
	defer d.disk.Unlock()
	n, err := d.findLocked(dir)
	if err == nil && n.entries == nil {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, &fs.PathError{Op: "readdir", Path: dir, Err: err}
	}
	return slices.Sorted(maps.Keys(n.entries)), nil
}

// Stat implements durable.FS.
func (d *Disk) Stat(name string) (fs.FileInfo, error) {
	if err := d.Reading(Stat, name); err != nil {
		return nil, err
	}
	d.disk.Lock()
	defer d.disk.Unlock()
	n, err := d.findLocked(name)
	if err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return fileInfo{path.Base(name), int64(len(n.data)), n.mode, n.mod}, nil
}

// OpenFile implements durable.FS.
func (d *Disk) OpenFile(name string, flag int, perm fs.FileMode) (durable.File, error) {
	if err := d.Reading(Open, name); err != nil {
		return nil, err
	}
	d.disk.Lock()
	n, err := d.findLocked(name)
	d.disk.Unlock()
	create, writes := flag&os.O_CREATE != 0, flag&(os.O_WRONLY|os.O_RDWR) != 0
	switch {
	case err == nil && flag&os.O_EXCL != 0:
		err = fs.ErrExist
	case err == nil && n.entries != nil && writes:
		err = syscall.EISDIR
	case errors.Is(err, fs.ErrNotExist) && create:
		n = &inode{mode: perm}
		if err := d.change(Create, name, func() (change, error) {
			dir, base, err := d.parentLocked(name)
			n.mod = d.Now()
			return change{{dir, base, n}}, err
		}); err != nil {
			return nil, err
		}
		err = nil
	case err == nil && flag&os.O_TRUNC != 0:
		// Truncating is a change that a crash may come before or after, so it counts as an
		// operation.
		if err := d.Changing(Create, name); err != nil {
			return nil, err
		}
		d.disk.Lock()
		n.data = nil
		d.disk.Unlock()
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return &file{d: d, n: n, path: name, appends: flag&os.O_APPEND != 0}, nil
}

// Rename implements durable.FS. It replaces a file or an empty directory.
func (d *Disk) Rename(from, to string) error { return d.rename(from, to, true) }

// RenameNew implements durable.FS.
func (d *Disk) RenameNew(from, to string) error { return d.rename(from, to, false) }

// rename is Rename, and without replace RenameNew.
func (d *Disk) rename(from, to string, replace bool) error {
	return d.change(Rename, to, func() (change, error) {
		source, oldName, err := d.parentLocked(from)
		target, newName, err2 := d.parentLocked(to)
		if err = cmp.Or(err, err2); err != nil {
			return nil, err
		}
		n, there := source.entries[oldName], target.entries[newName]
		switch {
		case n == nil:
			return nil, fs.ErrNotExist
		case there != nil && !replace:
			return nil, fs.ErrExist
		case there != nil && len(there.entries) > 0:
			return nil, syscall.ENOTEMPTY
		}
		// One change: a journal of a file system has a rename as a whole, so that a crash never shows both
		// names or none.
		return change{{source, oldName, nil}, {target, newName, n}}, nil
	})
}

// Exchange implements durable.Tree.
func (d *Disk) Exchange(a, b string) error {
	if d.NoExchange {
		return errors.ErrUnsupported
	}
	return d.change(Exchange, b, func() (change, error) {
		one, oneName, err := d.parentLocked(a)
		two, twoName, err2 := d.parentLocked(b)
		if err = cmp.Or(err, err2); err != nil {
			return nil, err
		}
		x, y := one.entries[oneName], two.entries[twoName]
		if x == nil || y == nil {
			return nil, fs.ErrNotExist
		}
		return change{{one, oneName, y}, {two, twoName, x}}, nil
	})
}

// Remove implements durable.FS.
func (d *Disk) Remove(name string) error {
	return d.change(Remove, name, func() (change, error) {
		dir, base, err := d.parentLocked(name)
		if err != nil {
			return nil, err
		}
		switch n := dir.entries[base]; {
		case n == nil:
			return nil, fs.ErrNotExist
		case len(n.entries) > 0:
			return nil, syscall.ENOTEMPTY
		}
		return change{{dir, base, nil}}, nil
	})
}

// RemoveAll implements durable.Tree. It takes one step for each entry, the deepest
// first, as os.RemoveAll does.
func (d *Disk) RemoveAll(name string) error {
	var steps []string
	d.disk.Lock()
	if n, err := d.findLocked(name); err == nil {
		n.walk(path.Clean(name), func(name string, _ *inode) { steps = append(steps, name) })
		steps = append([]string{name}, steps...)
	}
	d.disk.Unlock()
	// walk names a directory before its entries.
	for _, step := range slices.Backward(steps) {
		if err := d.Remove(step); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Chmod implements durable.Tree.
func (d *Disk) Chmod(name string, perm fs.FileMode) error {
	return d.touch(name, func(n *inode) { n.mode = n.mode&^fs.ModePerm | perm })
}

// Chtimes implements durable.FS.
func (d *Disk) Chtimes(name string, t time.Time) error {
	return d.touch(name, func(n *inode) { n.mod = t })
}

// touch changes the attributes of a file or directory, which no crash test looks at.
func (d *Disk) touch(name string, do func(*inode)) error {
	if err := d.Changing(Touch, name); err != nil {
		return err
	}
	d.disk.Lock()
	defer d.disk.Unlock()
	n, err := d.findLocked(name)
	if err != nil {
		return &fs.PathError{Op: "touch", Path: name, Err: err}
	}
	do(n)
	return nil
}

// SyncDir implements durable.FS. It makes the changes of names in one directory durable,
// and the earlier changes on which they depend.
func (d *Disk) SyncDir(dir string) error {
	if err := d.Changing(SyncDir, dir); err != nil {
		return err
	}
	d.disk.Lock()
	defer d.disk.Unlock()
	n, err := d.findLocked(dir)
	if err != nil {
		return &fs.PathError{Op: "sync", Path: dir, Err: err}
	}
	kept := make([]bool, len(d.disk.pending))
	for i, c := range d.disk.pending {
		// A rename between two directories becomes durable with either: a journal writes it as one
		// transaction.
		kept[i] = slices.ContainsFunc(c, func(e edit) bool { return e.dir == n })
	}
	d.disk.pending = apply(d.disk.pending, kept)
	return nil
}

// roomLocked returns how many bytes the disk can still take.
func (d *Disk) roomLocked() int64 {
	if !d.disk.limited {
		// No limit, and far enough from overflowing when a length is compared with it.
		return 1 << 62
	}
	left := d.disk.limit
	d.disk.root.walk("", func(_ string, n *inode) { left -= int64(len(n.data)) })
	return max(0, left)
}
