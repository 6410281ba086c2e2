// Package memfs is a file system in memory that fails and forgets as real ones do,
// for tests of what must survive that: it runs full, its operations fail, it stops
// in the middle of one, and after a crash only what was synced is sure to be there.
package memfs

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/slotwise/slotwise/internal/journal"
)

// page is how many bytes reach the disk together or not at all. Real ones are
// larger; small ones tear more.
const page = 16

// ErrStopped is the error of all operations after StopAfter.
var ErrStopped = errors.New("the machine has stopped")

// FS is a file system. It is for one goroutine.
type FS struct {
	names   map[string]*inode
	durable map[string]*inode
	pending []change // of names, not durable yet
	locked  map[string]bool
	ops     int
	stop    int
	limit   int64
	fail    func(op, path string) error
}

type inode struct{ data, synced []byte }

// change is a name that gets a file, or none if it is removed.
type change struct {
	from, name string // from is given up, if it is not ""
	file       *inode
}

var _ journal.FS = (*FS)(nil)

// New returns an empty file system without limits.
func New() *FS {
	return &FS{names: map[string]*inode{}, durable: map[string]*inode{}, locked: map[string]bool{}, stop: -1, limit: -1}
}

// StopAfter lets n more changing operations happen. The one after is done in
// part, if it is a write, and fails like all that follow.
func (f *FS) StopAfter(n int) { f.stop = f.ops + n }

// Limit makes the file system full at so many bytes; negative is never.
func (f *FS) Limit(bytes int64) { f.limit = bytes }

// Fail makes operations fail for which the function, if it is not nil, returns an
// error. They are called open, read, write, truncate, sync, rename, remove and
// syncdir. A write or sync that fails may have been done in part.
func (f *FS) Fail(with func(op, path string) error) { f.fail = with }

// Ops counts the changing operations so far.
func (f *FS) Ops() int { return f.ops }

// Names lists the files, sorted.
func (f *FS) Names() (names []string) {
	//house:sorted sorted below
	for name := range f.names {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Bytes returns a file's content, to read or to damage, or nil.
func (f *FS) Bytes(path string) []byte {
	if n := f.names[path]; n != nil {
		return n.data
	}
	return nil
}

// Crash returns what is found after the machine has lost its power: of what was
// not synced, an arbitrary part.
func (f *FS) Crash(rng *rand.Rand) *FS {
	after := New()
	kept := f.durable
	for _, c := range f.pending {
		if rng.IntN(2) > 0 {
			kept = c.apply(kept)
		}
	}
	names := make([]string, 0, len(kept))
	//house:sorted sorted below
	for name := range kept {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		data := kept[name].tear(rng)
		after.names[name] = &inode{data, slices.Clone(data)}
		after.durable[name] = after.names[name]
	}
	return after
}

// Kill returns what is found after the process has ended, but not the machine: all
// that was written. What was not synced is no more durable than before.
func (f *FS) Kill() *FS {
	after := New()
	//house:sorted into a map
	for name, n := range f.names {
		after.names[name] = n
	}
	after.durable, after.pending = f.durable, f.pending
	return after
}

// tear mixes what was synced with what was written since, page by page.
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

// apply returns the names as they are after the change.
func (c change) apply(names map[string]*inode) map[string]*inode {
	after := make(map[string]*inode, len(names)+1)
	//house:sorted into a map
	for name, n := range names {
		after[name] = n
	}
	if c.from != "" {
		delete(after, c.from)
	}
	if c.file == nil {
		delete(after, c.name)
	} else {
		after[c.name] = c.file
	}
	return after
}

func (f *FS) rename(c change) {
	f.names = c.apply(f.names)
	f.pending = append(f.pending, c)
}

// begin counts a changing operation and says whether it fails.
func (f *FS) begin(op, path string) error {
	if f.stop >= 0 && f.ops >= f.stop {
		return ErrStopped
	}
	f.ops++
	return f.asked(op, path)
}

func (f *FS) asked(op, path string) error {
	if f.fail != nil {
		return f.fail(op, path)
	}
	return nil
}

// MkdirAll implements journal.FS. There is a directory wherever it is asked for.
func (f *FS) MkdirAll(string) error { return nil }

// ReadDir implements journal.FS.
func (f *FS) ReadDir(dir string) (names []string, err error) {
	for _, path := range f.Names() {
		if filepath.Dir(path) == filepath.Clean(dir) {
			names = append(names, filepath.Base(path))
		}
	}
	return names, nil
}

// OpenFile implements journal.FS.
func (f *FS) OpenFile(path string, flag int) (journal.File, error) {
	n := f.names[path]
	if n == nil || flag&os.O_TRUNC != 0 {
		if flag&os.O_CREATE == 0 {
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		}
		if err := f.begin("open", path); err != nil {
			return nil, err
		}
		if n == nil {
			n = &inode{}
			f.rename(change{name: path, file: n})
		}
		n.data = nil
	}
	return &file{f, n, path, 0}, nil
}

// Rename implements journal.FS.
func (f *FS) Rename(from, to string) error {
	if err := f.begin("rename", to); err != nil {
		return err
	}
	n := f.names[from]
	if n == nil {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	f.rename(change{from: from, name: to, file: n})
	return nil
}

// Remove implements journal.FS.
func (f *FS) Remove(path string) error {
	if err := f.begin("remove", path); err != nil {
		return err
	}
	if f.names[path] == nil {
		return &fs.PathError{Op: "remove", Path: path, Err: fs.ErrNotExist}
	}
	f.rename(change{name: path})
	return nil
}

// SyncDir implements journal.FS. There is only one list of names.
func (f *FS) SyncDir(dir string) error {
	if err := f.begin("syncdir", dir); err != nil {
		return err
	}
	f.durable, f.pending = f.names, nil
	return nil
}

// Lock implements journal.FS.
func (f *FS) Lock(path string) (io.Closer, error) {
	if f.locked[path] {
		return nil, journal.ErrLocked
	}
	f.locked[path] = true
	return &lock{f, path}, nil
}

type lock struct {
	fs   *FS
	path string
}

// Close gives the lock up.
func (l *lock) Close() error { l.fs.locked[l.path] = false; return nil }

type file struct {
	fs   *FS
	n    *inode
	path string
	at   int // where is written
}

// ReadAt implements io.ReaderAt.
func (f *file) ReadAt(b []byte, offset int64) (int, error) {
	if err := f.fs.asked("read", f.path); err != nil {
		return 0, err
	}
	if offset >= int64(len(f.n.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.n.data[offset:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// Write implements io.Writer.
func (f *file) Write(b []byte) (int, error) {
	err := f.fs.begin("write", f.path)
	if room := f.fs.room(); err == nil && room >= 0 && int64(len(b)) > room {
		b, err = b[:room], syscall.ENOSPC
	} else if err != nil {
		b = b[:len(b)/2]
	}
	if grow := f.at + len(b) - len(f.n.data); grow > 0 {
		f.n.data = append(f.n.data, make([]byte, grow)...)
	}
	copy(f.n.data[f.at:], b)
	f.at += len(b)
	return len(b), err
}

// room is how many bytes fit still, or negative if there is no limit.
func (f *FS) room() int64 {
	if f.limit < 0 {
		return -1
	}
	left := f.limit
	//house:sorted a sum
	for _, n := range f.names {
		left -= int64(len(n.data))
	}
	return max(0, left)
}

// Size implements journal.File.
func (f *file) Size() (int64, error) { return int64(len(f.n.data)), nil }

// Truncate implements journal.File.
func (f *file) Truncate(size int64) error {
	if err := f.fs.begin("truncate", f.path); err != nil {
		return err
	}
	f.n.data = f.n.data[:size:size]
	return nil
}

// SeekEnd implements journal.File.
func (f *file) SeekEnd() error { f.at = len(f.n.data); return nil }

// Sync implements journal.File.
func (f *file) Sync() error {
	if err := f.fs.begin("sync", f.path); err != nil {
		return err
	}
	f.n.synced = slices.Clone(f.n.data)
	return nil
}

// Close implements io.Closer.
func (f *file) Close() error { return nil }
