package faultfs

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"syscall"
	"time"

	"github.com/slotwise/slotwise/internal/base/durable"
)

// page is the number of bytes that a crash keeps or loses together. Real pages are
// larger; small ones are torn more often.
const page = 16

// inode is a file or directory, whatever names it has.
type inode struct {
	mode fs.FileMode
	mod  time.Time

	data  []byte       // of a file, as reads return it
	disk  []byte       // of a file, as the disk has it
	dirty map[int]bool // the pages of data that the next Sync writes to disk

	entries map[string]*inode // of a directory, nil for a file
	durable map[string]*inode // the entries that a crash certainly leaves
}

// edit is one change of a directory: name leads to n, or to nothing if n is nil.
type edit struct {
	dir  *inode
	name string
	n    *inode
}

// change is one operation on names, which a crash keeps or loses as a whole. A rename
// has two edits, most others have one.
type change []edit

// newDir returns an empty directory.
func newDir(perm fs.FileMode, now time.Time) *inode {
	return &inode{mode: fs.ModeDir | perm, mod: now, entries: map[string]*inode{}, durable: map[string]*inode{}}
}

// edit carries out an edit on the entries or on the durable entries of a directory.
func (*inode) edit(entries map[string]*inode, e edit) {
	if e.n == nil {
		delete(entries, e.name)
	} else {
		entries[e.name] = e.n
	}
}

// dependsOn reports whether a change edits a name that an earlier one has edited. The
// disk cannot have the later change without the earlier one.
func (c change) dependsOn(earlier change) bool {
	return slices.ContainsFunc(c, func(e edit) bool {
		return slices.ContainsFunc(earlier, func(x edit) bool { return x.dir == e.dir && x.name == e.name })
	})
}

// apply makes the kept changes durable, with the earlier changes on which they depend. It
// returns the remaining changes.
func apply(pending []change, kept []bool) (left []change) {
	// Backwards, so that a change that is kept for a later one keeps its own causes.
	for i := len(pending) - 1; i >= 0; i-- {
		for j := 0; kept[i] && j < i; j++ {
			kept[j] = kept[j] || pending[i].dependsOn(pending[j])
		}
	}
	for i, c := range pending {
		if !kept[i] {
			left = append(left, c)
			continue
		}
		for _, e := range c {
			e.dir.edit(e.dir.durable, e)
		}
	}
	return left
}

// walk calls f for everything in a directory and below it, sorted by path.
func (n *inode) walk(dir string, f func(name string, n *inode)) {
	for _, name := range slices.Sorted(maps.Keys(n.entries)) {
		f(path.Join(dir, name), n.entries[name])
		n.entries[name].walk(path.Join(dir, name), f)
	}
}

// clone returns a copy of a file or directory with its content. copies has the copies
// that were made before.
func (n *inode) clone(copies map[*inode]*inode) *inode {
	if n == nil || copies[n] != nil {
		return copies[n]
	}
	c := &inode{mode: n.mode, mod: n.mod, data: slices.Clone(n.data), disk: slices.Clone(n.disk), dirty: maps.Clone(n.dirty)}
	copies[n] = c
	if n.entries == nil {
		return c
	}
	c.entries, c.durable = map[string]*inode{}, map[string]*inode{}
	//house:sorted into a map
	for name, child := range n.entries {
		c.entries[name] = child.clone(copies)
	}
	//house:sorted into a map
	for name, child := range n.durable {
		c.durable[name] = child.clone(copies)
	}
	return c
}

// clone returns a copy of a change that edits the copies of its directories.
func (c change) clone(copies map[*inode]*inode) change {
	out := make(change, len(c))
	for i, e := range c {
		out[i] = edit{e.dir.clone(copies), e.name, e.n.clone(copies)}
	}
	return out
}

// crash reduces a directory to its durable entries, and a file to a mix of the synced
// bytes with those written since.
func (n *inode) crash(rng *rand.Rand, seen map[*inode]bool) {
	if seen[n] {
		return
	}
	seen[n] = true
	if n.entries == nil {
		n.data = n.tear(rng)
		n.disk, n.dirty = slices.Clone(n.data), nil
		return
	}
	n.entries = maps.Clone(n.durable)
	for _, name := range slices.Sorted(maps.Keys(n.entries)) {
		n.entries[name].crash(rng, seen)
	}
}

// tear returns the bytes of the disk, of which some dirty pages have been written. If
// the file's length has changed since the last Sync, the disk may have any length in
// between.
func (n *inode) tear(rng *rand.Rand) []byte {
	short, long := min(len(n.data), len(n.disk)), max(len(n.data), len(n.disk))
	size := short + rng.IntN(long-short+1)
	// A file that has grown much would else hardly ever keep its whole length.
	if rng.IntN(4) == 0 {
		size = len(n.data)
	}
	out := make([]byte, size)
	// Bytes beyond the old end that no page filled stay zero, as on a file system that extends a file before
	// it writes.
	copy(out, n.disk)
	for at := 0; at < size; at += page {
		if n.dirty[at/page] && at < len(n.data) && rng.IntN(3) > 0 {
			copy(out[at:min(at+page, size)], n.data[at:])
		}
	}
	return out
}

// write changes the bytes at an offset.
func (n *inode) write(p []byte, at int) {
	if grow := at + len(p) - len(n.data); grow > 0 {
		n.data = append(n.data, make([]byte, grow)...)
	}
	copy(n.data[at:], p)
	if n.dirty == nil {
		n.dirty = map[int]bool{}
	}
	for k := at / page; k*page < at+len(p); k++ {
		n.dirty[k] = true
	}
}

// sync writes the dirty pages to the disk. If it fails the pages count as written all
// the same.
func (n *inode) sync(fails bool) {
	if !fails {
		// The length is synced with the data, a truncation, too.
		disk := make([]byte, len(n.data))
		copy(disk, n.disk)
		for k := range n.dirty {
			// The file may have been cut since the page was written.
			if k*page < len(n.data) {
				copy(disk[k*page:min((k+1)*page, len(disk))], n.data[k*page:])
			}
		}
		n.disk = disk
	}
	n.dirty = nil
}

// fileInfo implements fs.FileInfo.
type fileInfo struct {
	name string
	size int64
	mode fs.FileMode
	mod  time.Time
}

func (i fileInfo) Name() string       { return i.name }
func (i fileInfo) Size() int64        { return i.size }
func (i fileInfo) Mode() fs.FileMode  { return i.mode }
func (i fileInfo) ModTime() time.Time { return i.mod }
func (i fileInfo) IsDir() bool        { return i.mode.IsDir() }
func (i fileInfo) Sys() any           { return nil }

// file implements durable.File.
type file struct {
	d        *Disk
	n        *inode
	path     string
	at       int           // the offset of the next Write
	appends  bool          // each Write goes to the end
	released chan struct{} // closed when the lock is released; nil if it is not held
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

// Write implements io.Writer. It writes as many bytes as fit.
func (f *file) Write(p []byte) (int, error) {
	return f.d.write(f.path, p, func(p []byte) (n int, err error) {
		f.d.disk.Lock()
		defer f.d.disk.Unlock()
		if room := f.d.roomLocked(); int64(len(p)) > room {
			p, err = p[:room], syscall.ENOSPC
		}
		// At each Write, because another descriptor may have appended meanwhile.
		if f.appends {
			f.at = len(f.n.data)
		}
		f.n.write(p, f.at)
		f.n.mod = f.d.Now()
		f.at += len(p)
		return len(p), err
	})
}

// Size implements durable.File.
func (f *file) Size() (int64, error) {
	f.d.disk.Lock()
	defer f.d.disk.Unlock()
	return int64(len(f.n.data)), nil
}

// Sync implements durable.File. A process that is killed in its Sync leaves the pages
// dirty.
func (f *file) Sync() error {
	err := f.d.Changing(Sync, f.path)
	if errors.Is(err, ErrStopped) {
		return err
	}
	f.d.disk.Lock()
	defer f.d.disk.Unlock()
	// Also after an injected error: the pages are marked as clean although the disk lacks them, as on Linux.
	f.n.sync(err != nil)
	return err
}

// Lock implements durable.File.
func (f *file) Lock(wait bool) error {
	for {
		f.d.disk.Lock()
		busy := f.d.disk.locks[f.n]
		if busy == nil {
			f.released = make(chan struct{})
			f.d.disk.locks[f.n] = f.released
			f.d.disk.Unlock()
			return nil
		}
		f.d.disk.Unlock()
		if !wait {
			return durable.ErrLocked
		}
		// Another one that waits may be faster.
		<-busy
	}
}

// IsAt implements durable.File.
func (f *file) IsAt(name string) bool {
	f.d.disk.Lock()
	defer f.d.disk.Unlock()
	n, err := f.d.findLocked(name)
	return err == nil && n == f.n
}

// Close implements io.Closer. It makes nothing durable, and releases the lock.
func (f *file) Close() error {
	f.d.disk.Lock()
	defer f.d.disk.Unlock()
	if f.released != nil {
		delete(f.d.disk.locks, f.n)
		close(f.released)
		f.released = nil
	}
	return nil
}
