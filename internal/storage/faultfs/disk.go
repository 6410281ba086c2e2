package faultfs

import (
	"io"
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

	"github.com/slotwise/slotwise/internal/journal"
)

// page is the number of bytes that a crash keeps or loses together. Real pages are
// larger; small ones are torn more often.
const page = 16

// Disk is a disk in memory. Its operations fail as its Faults say, it can be full,
// and after a crash only synced data and names are certain to be present.
//
// A file's bytes are volatile until Sync, and its name is volatile until SyncDir.
// Crash keeps an arbitrary subset of the volatile pages and of the changes of names,
// like a power cut. Kill keeps everything, like the end of a process.
//
// Paths are slash-separated. Directories exist wherever a path needs them; Tree
// adds directories that must be made. A Disk is safe for concurrent use.
type Disk struct {
	Faults
	disk struct {
		sync.Mutex
		names   map[string]*inode
		durable map[string]*inode // the names that a crash certainly leaves
		pending []change          // since the last SyncDir, oldest first
		locked  map[string]bool
		locks   map[*inode]chan struct{} // of a Tree's directories; closed when released
		limited bool
		limit   int64
	}
}

// inode is a file or directory, whatever names it has.
type inode struct {
	data   []byte
	synced []byte // the data as of the last Sync
	dir    bool
	mod    time.Time
}

// change is one step of the names, which a crash keeps or loses as a whole: a path
// gets a file, a tree moves, two trees swap, or a tree goes.
type change struct {
	file     *inode // to is given to it; nil for the other kinds
	from, to string // from is "" if to is removed
	swap     bool
}

var _ journal.FS = (*Disk)(nil)

// NewDisk returns an empty disk without limit.
func NewDisk() *Disk {
	d := &Disk{}
	d.disk.names, d.disk.durable, d.disk.locked = map[string]*inode{}, map[string]*inode{}, map[string]bool{}
	d.disk.locks = map[*inode]chan struct{}{}
	return d
}

// Limit sets the capacity of the disk. A Write that exceeds it writes the bytes that
// fit and fails with ENOSPC.
func (d *Disk) Limit(bytes int64) {
	d.disk.Lock()
	defer d.disk.Unlock()
	d.disk.limited, d.disk.limit = true, bytes
}

// Names lists the paths of all files and directories, sorted.
func (d *Disk) Names() []string {
	d.disk.Lock()
	defer d.disk.Unlock()
	return slices.Sorted(maps.Keys(d.disk.names))
}

// Bytes returns a file's content, which a test may read or damage in place; nil if
// there is no such file.
func (d *Disk) Bytes(path string) []byte {
	d.disk.Lock()
	defer d.disk.Unlock()
	if n := d.disk.names[path]; n != nil {
		return n.data
	}
	return nil
}

// Crash returns the disk that the machine finds after a power cut.
func (d *Disk) Crash(rng *rand.Rand) *Disk {
	d.disk.Lock()
	defer d.disk.Unlock()
	after := NewDisk()
	kept := d.disk.durable
	for _, c := range d.disk.pending {
		if rng.IntN(2) > 0 {
			kept = c.apply(kept)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		data := kept[name].tear(rng)
		n := &inode{data: data, synced: slices.Clone(data), dir: kept[name].dir, mod: kept[name].mod}
		after.disk.names[name], after.disk.durable[name] = n, n
	}
	return after
}

// Kill returns the disk that the next process finds if this process is killed and the
// machine runs on. All writes are present, but no more durable than before. Locks and
// faults are gone. The result is a copy; changing it does not change this disk.
func (d *Disk) Kill() *Disk {
	d.disk.Lock()
	defer d.disk.Unlock()
	copies := map[*inode]*inode{}
	copied := func(n *inode) *inode {
		if n == nil {
			return nil
		}
		if copies[n] == nil {
			copies[n] = &inode{slices.Clone(n.data), slices.Clone(n.synced), n.dir, n.mod}
		}
		return copies[n]
	}
	after := NewDisk()
	//house:sorted into a map
	for name, n := range d.disk.names {
		after.disk.names[name] = copied(n)
	}
	//house:sorted into a map
	for name, n := range d.disk.durable {
		after.disk.durable[name] = copied(n)
	}
	for _, c := range d.disk.pending {
		c.file = copied(c.file)
		after.disk.pending = append(after.disk.pending, c)
	}
	return after
}

// tear mixes the synced bytes with those written since, page by page.
func (n *inode) tear(rng *rand.Rand) []byte {
	short, long := min(len(n.data), len(n.synced)), max(len(n.data), len(n.synced))
	size := short + rng.IntN(long-short+1)
	if rng.IntN(4) == 0 {
		size = len(n.data)
	}
	out := make([]byte, size)
	copy(out, n.synced)
	for at := 0; at < size; at += page {
		end := min(at+page, size)
		if at < len(n.data) && rng.IntN(3) > 0 {
			copy(out[at:end], n.data[at:min(end, len(n.data))])
		}
	}
	return out
}

// applyLocked changes the names now, and durably at the next SyncDir.
func (d *Disk) applyLocked(c change) {
	d.disk.names = c.apply(d.disk.names)
	d.disk.pending = append(d.disk.pending, c)
}

// apply returns the names after the change.
func (c change) apply(names map[string]*inode) map[string]*inode {
	if c.file != nil {
		after := maps.Clone(names)
		after[c.to] = c.file
		return after
	}
	after := make(map[string]*inode, len(names))
	moved := map[string]*inode{}
	//house:sorted into maps
	for name, n := range names {
		switch {
		case c.from != "" && at(name, c.from):
			moved[c.to+strings.TrimPrefix(name, c.from)] = n
		case !at(name, c.to):
			after[name] = n
		case c.swap:
			moved[c.from+strings.TrimPrefix(name, c.to)] = n
		}
	}
	maps.Copy(after, moved)
	return after
}

// at reports whether name is dir or below it.
func at(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

// MkdirAll implements journal.FS. All directories exist.
func (d *Disk) MkdirAll(string) error { return nil }

// ReadDir implements journal.FS.
func (d *Disk) ReadDir(dir string) (names []string, err error) {
	if err := d.Reading(List, dir); err != nil {
		return nil, err
	}
	for _, name := range d.Names() {
		if path.Dir(name) == path.Clean(dir) {
			names = append(names, path.Base(name))
		}
	}
	return names, nil
}

// OpenFile implements journal.FS.
func (d *Disk) OpenFile(name string, flag int) (journal.File, error) {
	d.disk.Lock()
	n := d.disk.names[name]
	d.disk.Unlock()
	if n != nil && flag&os.O_TRUNC == 0 {
		return &file{d: d, n: n, path: name}, nil
	}
	if flag&os.O_CREATE == 0 {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	if err := d.Changing(Create, name); err != nil {
		return nil, err
	}
	d.disk.Lock()
	defer d.disk.Unlock()
	if n == nil {
		n = &inode{}
		d.applyLocked(change{file: n, to: name})
	}
	n.data = nil
	return &file{d: d, n: n, path: name}, nil
}

// Rename implements journal.FS.
func (d *Disk) Rename(from, to string) error {
	if err := d.Changing(Rename, to); err != nil {
		return err
	}
	d.disk.Lock()
	defer d.disk.Unlock()
	if d.disk.names[from] == nil {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	d.applyLocked(change{from: from, to: to})
	return nil
}

// Remove implements journal.FS.
func (d *Disk) Remove(name string) error {
	if err := d.Changing(Remove, name); err != nil {
		return err
	}
	d.disk.Lock()
	defer d.disk.Unlock()
	if d.disk.names[name] == nil {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	d.applyLocked(change{to: name})
	return nil
}

// SyncDir implements journal.FS. It makes the names of all directories durable.
func (d *Disk) SyncDir(dir string) error {
	if err := d.Changing(SyncDir, dir); err != nil {
		return err
	}
	d.disk.Lock()
	defer d.disk.Unlock()
	d.disk.durable, d.disk.pending = d.disk.names, nil
	return nil
}

// Lock implements journal.FS.
func (d *Disk) Lock(name string) (io.Closer, error) {
	d.disk.Lock()
	defer d.disk.Unlock()
	if d.disk.locked[name] {
		return nil, journal.ErrLocked
	}
	d.disk.locked[name] = true
	return &lock{d, name}, nil
}

// lock is the result of Disk.Lock.
type lock struct {
	d    *Disk
	path string
}

// Close releases the lock.
func (l *lock) Close() error {
	l.d.disk.Lock()
	defer l.d.disk.Unlock()
	l.d.disk.locked[l.path] = false
	return nil
}

// file implements journal.File.
type file struct {
	d    *Disk
	n    *inode
	path string
	at   int // the offset of the next Write
}

// ReadAt implements io.ReaderAt.
func (f *file) ReadAt(p []byte, off int64) (int, error) {
	return f.d.read(f.path, p, off, func(p []byte, off int64) (int, error) {
		f.d.disk.Lock()
		defer f.d.disk.Unlock()
		if off >= int64(len(f.n.data)) {
			return 0, io.EOF
		}
		n := copy(p, f.n.data[off:])
		if n < len(p) {
			return n, io.EOF
		}
		return n, nil
	})
}

// Write implements io.Writer.
func (f *file) Write(p []byte) (int, error) { return f.d.write(f.path, p, f.writeBytes) }

// writeBytes writes at f.at as many bytes as fit.
func (f *file) writeBytes(p []byte) (n int, err error) {
	f.d.disk.Lock()
	defer f.d.disk.Unlock()
	if room := f.d.roomLocked(); int64(len(p)) > room {
		p, err = p[:room], syscall.ENOSPC
	}
	if grow := f.at + len(p) - len(f.n.data); grow > 0 {
		f.n.data = append(f.n.data, make([]byte, grow)...)
	}
	copy(f.n.data[f.at:], p)
	f.at += len(p)
	return len(p), err
}

// roomLocked returns how many bytes the disk can still take.
func (d *Disk) roomLocked() int64 {
	if !d.disk.limited {
		return 1 << 62
	}
	left := d.disk.limit
	//house:sorted a sum
	for _, n := range d.disk.names {
		left -= int64(len(n.data))
	}
	return max(0, left)
}

// Size implements journal.File.
func (f *file) Size() (int64, error) {
	f.d.disk.Lock()
	defer f.d.disk.Unlock()
	return int64(len(f.n.data)), nil
}

// Truncate implements journal.File.
func (f *file) Truncate(size int64) error {
	if err := f.d.Changing(Truncate, f.path); err != nil {
		return err
	}
	f.d.disk.Lock()
	defer f.d.disk.Unlock()
	f.n.data = f.n.data[:size:size]
	return nil
}

// SeekEnd implements journal.File.
func (f *file) SeekEnd() error {
	f.d.disk.Lock()
	defer f.d.disk.Unlock()
	f.at = len(f.n.data)
	return nil
}

// Sync implements journal.File.
func (f *file) Sync() error {
	if err := f.d.Changing(Sync, f.path); err != nil {
		return err
	}
	f.d.disk.Lock()
	defer f.d.disk.Unlock()
	f.n.synced = slices.Clone(f.n.data)
	return nil
}

// Close implements io.Closer. It makes nothing durable.
func (f *file) Close() error { return nil }
