//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package durable

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// sharedFS implements Tree for directories that other users may change. Each operation
// opens the directories of its path one by one, from the first to the last, and refuses
// symbolic links. It then acts on the last name relative to the open directory. A check of
// the path before the operation would not do: another user can put a link there in between.
type sharedFS struct {
	osFS
	unlock bool // see Unlocking
}

// Shared returns the machine's file system for paths below directories that other users may
// change. It follows no symbolic link, in no element of a path, and fails with ErrForeign
// where one is. Callers resolve the links that a user may name before they use a path.
// Opening a file never waits for the other end of a pipe. A file that exists is opened for
// writing only if it belongs to this process's user and has one name.
func Shared() Tree { return sharedFS{osFS: osFS{(*os.File).Sync}} }

// Unlocking returns Shared for directories that slotwise makes. Its RemoveAll gives this process
// the rights that a directory of its user in the tree denies: a job may have made one there.
func Unlocking() Tree { return sharedFS{osFS{(*os.File).Sync}, true} }

// OpenShared is the OpenFile of Shared for callers that need an *os.File.
func OpenShared(path string, flag int, perm fs.FileMode) (f *os.File, err error) {
	err = inParent("open", path, func(dir int, name string) error {
		f, err = openAt(dir, name, path, flag, perm)
		return err
	})
	return f, err
}

// Mine reports whether a file that Stat of Shared has described belongs to this process's
// user.
func Mine(info fs.FileInfo) bool {
	st, ok := info.Sys().(*unix.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

// inParent opens the directory that holds the last name of path, calls do with its
// descriptor and the name, and closes it. The error of do gets the operation and the path.
func inParent(op, path string, do func(dir int, name string) error) error {
	parent, name := filepath.Split(filepath.Clean(path))
	// The path is cleaned first: of "a/b/" the last name would be empty, too.
	if name == "" { // the root directory
		name = "."
	}
	dir, err := openDirs(parent)
	if err == nil {
		err = do(dir, name)
		_ = unix.Close(dir) // only a descriptor of a directory: no data depend on it
	}
	// An error that has a path comes from a link, or from the other path of inBoth, and names the
	// right one.
	if err == nil || errors.As(err, new(*fs.PathError)) {
		return err
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}

// openDirs opens a directory and returns its descriptor. It follows no link.
func openDirs(path string) (int, error) {
	// One system call for the usual case, in which no name is at fault.
	if dir, err := openPath(filepath.Clean(path)); err == nil {
		return dir, nil
	}
	return walkDirs(path) // which also finds the name that is at fault
}

// walkDirs is openDirs with two system calls for each name, which every system has.
func walkDirs(path string) (int, error) {
	start := "."
	if filepath.IsAbs(path) {
		start = "/"
	}
	dir, err := retry(func() (int, error) { return unix.Open(start, passFlags, 0) })
	if err != nil {
		return -1, err
	}
	for name := range strings.SplitSeq(filepath.Clean(path), "/") {
		// before the first slash, or the directory itself
		if name == "" || name == "." {
			continue
		}
		next, err := retry(func() (int, error) { return unix.Openat(dir, name, passFlags|unix.O_NOFOLLOW, 0) })
		// Before dir is closed, because linkError looks at the name in it.
		if err != nil {
			err = linkError(dir, name, path, err)
		}
		_ = unix.Close(dir)
		if err != nil {
			return -1, err
		}
		dir = next
	}
	return dir, nil
}

// linkError returns ErrForeign in the place of err if a name in a directory is a symbolic
// link. Systems report a link that is not followed in different ways: Linux says that it is
// no directory, others that there are too many links.
func linkError(dir int, name, path string, err error) error {
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return &fs.PathError{Op: "open", Path: path, Err: foreign("there is a symbolic link in the path, at " + name)}
	}
	return err
}

// retry repeats a system call that a signal has interrupted.
func retry[T any](call func() (T, error)) (T, error) {
	for {
		v, err := call()
		if err != unix.EINTR {
			return v, err
		}
	}
}

// openAt opens a name in a directory. It opens regular files and directories only. For writing
// it refuses an existing file of another user or with a second name: the other name may be in
// a directory that only this process's user can enter.
func openAt(dir int, name, path string, flag int, perm fs.FileMode) (*os.File, error) {
	// A file that checkOpen refuses keeps its content. Opening a pipe without a writer would wait for
	// one.
	how := flag&^os.O_TRUNC | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := retry(func() (int, error) { return unix.Openat(dir, name, how, uint32(perm.Perm())) })
	// Not ErrForeign: callers such as CreateNew take it as a name in use, and remove the name and not what
	// it leads to.
	if err == unix.EEXIST { // also for a link: the caller wanted a new file
		return nil, err
	}
	if err != nil {
		return nil, linkError(dir, name, path, err)
	}
	err = checkOpen(fd, flag)
	if err == nil && flag&os.O_TRUNC != 0 { // not before the check
		err = unix.Ftruncate(fd, 0)
	}
	if err == nil {
		// Only the opening must not wait.
		err = unix.SetNonblock(fd, false)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// checkOpen returns an error if an open file must not be used as flag says.
func checkOpen(fd, flag int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	// Of the open descriptor, whose file cannot change any more, whatever happens to the name.
	switch kind := st.Mode & unix.S_IFMT; {
	// For writing the system has refused it already.
	case kind == unix.S_IFDIR:
		return nil
	case kind != unix.S_IFREG:
		return foreign("it is not a regular file")
	case flag&(os.O_WRONLY|os.O_RDWR) == 0:
		return nil
	case int(st.Uid) != os.Geteuid() && flag&os.O_EXCL == 0: // an exclusive one is new, whatever owner a network file system shows
		return foreign("it belongs to another user")
	case st.Nlink > 1:
		return foreign("it has a second name, a hard link")
	}
	return nil
}

// sharedFile implements File.
type sharedFile struct{ osFile }

// IsAt implements File.
func (f sharedFile) IsAt(path string) bool {
	var mine, there unix.Stat_t
	err := unix.Fstat(int(f.Fd()), &mine)
	if err == nil {
		err = inParent("stat", path, func(dir int, name string) error { return unix.Fstatat(dir, name, &there, unix.AT_SYMLINK_NOFOLLOW) })
	}
	return err == nil && mine.Dev == there.Dev && mine.Ino == there.Ino
}

// OpenFile implements FS.
func (s sharedFS) OpenFile(path string, flag int, perm fs.FileMode) (File, error) {
	f, err := OpenShared(path, flag, perm)
	if err != nil {
		return nil, err
	}
	return sharedFile{osFile{f, s.fsync}}, nil
}

// Mkdir implements FS.
func (sharedFS) Mkdir(path string, perm fs.FileMode) error {
	return inParent("mkdir", path, func(dir int, name string) error { return unix.Mkdirat(dir, name, uint32(perm.Perm())) })
}

// ReadDir implements FS.
func (sharedFS) ReadDir(path string) ([]string, error) {
	d, err := OpenShared(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	// Names without a description: describing them would open the path once for each entry.
	names, err := d.Readdirnames(-1)
	slices.Sort(names)
	return names, errors.Join(err, d.Close())
}

// Stat implements FS.
func (sharedFS) Stat(path string) (fs.FileInfo, error) {
	info := sharedInfo{name: filepath.Base(path)}
	err := inParent("lstat", path, func(dir int, name string) error { return unix.Fstatat(dir, name, &info.st, unix.AT_SYMLINK_NOFOLLOW) })
	if err != nil {
		return nil, err
	}
	return &info, nil
}

// Rename implements FS.
func (sharedFS) Rename(from, to string) error {
	return inBoth(from, to, func(dir1 int, from string, dir2 int, to string) error { return unix.Renameat(dir1, from, dir2, to) })
}

// RenameNew implements FS.
func (sharedFS) RenameNew(from, to string) error { return inBoth(from, to, renameNewAt) }

// inBoth is inParent for two paths.
func inBoth(from, to string, do func(dir1 int, from string, dir2 int, to string) error) error {
	return inParent("rename", from, func(dir1 int, first string) error {
		return inParent("rename", to, func(dir2 int, second string) error { return do(dir1, first, dir2, second) })
	})
}

// Remove implements FS.
func (sharedFS) Remove(path string) error {
	return inParent("remove", path, func(dir int, name string) error {
		err := unix.Unlinkat(dir, name, 0)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return err
		}
		// Systems differ in the error for a directory, so rmdir decides, as in os.Remove.
		if err2 := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); err2 != unix.ENOTDIR {
			return err2
		}
		return err
	})
}

// Chtimes implements FS.
func (sharedFS) Chtimes(path string, t time.Time) error {
	at, err := unix.TimeToTimespec(t)
	if err != nil {
		return &fs.PathError{Op: "chtimes", Path: path, Err: err}
	}
	return inParent("chtimes", path, func(dir int, name string) error {
		return unix.UtimesNanoAt(dir, name, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW)
	})
}

// SyncDir implements FS. A directory that this user may write and not read cannot be
// opened, and counts as one that cannot be synced.
func (s sharedFS) SyncDir(path string) error {
	d, err := OpenShared(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	if err = s.fsync(d); cannotSync(err) {
		err = nil
	}
	return errors.Join(err, d.Close())
}

// Chmod implements Tree. Where the system cannot change a mode by name without following a
// link, Chmod opens the file, which its owner must then be able to read.
func (sharedFS) Chmod(path string, perm fs.FileMode) error {
	mode := uint32(perm.Perm())
	if perm&fs.ModeSticky != 0 {
		// The bit is set apart because package fs has another position for the bit, outside Perm.
		mode |= unix.S_ISVTX
	}
	err := inParent("chmod", path, func(dir int, name string) error {
		return unix.Fchmodat(dir, name, mode, unix.AT_SYMLINK_NOFOLLOW)
	})
	if !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	f, err := OpenShared(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(perm), f.Close())
}

// Exchange implements Tree.
func (sharedFS) Exchange(a, b string) error { return inBoth(a, b, exchangeAt) }

// RemoveAll implements Tree. It removes a link, and not the link's target.
func (s sharedFS) RemoveAll(path string) error {
	return removed(path, inParent("remove", path, func(dir int, name string) error {
		// The path is opened once. Everything below is named relative to open directories, so a directory
		// that is exchanged for a link meanwhile leads nowhere else.
		r := remover{parent: dir, top: name, unlock: s.unlock}
		return r.remove(dir, name, 0)
	}))
}

// RemoveTree removes a file, or a directory with whatever a job's process has left in it:
// directories that are nested deeper than this process may open files, and directories of this
// process's user that may not be written. Only above path it follows links. A path that does not
// exist is no error.
func RemoveTree(path string) error {
	parent, name := filepath.Split(filepath.Clean(path))
	dir, err := retry(func() (int, error) { return unix.Open(filepath.Clean(parent), passFlags, 0) })
	if err == nil {
		r := remover{parent: dir, top: name, unlock: true}
		err = r.remove(dir, name, 0)
		_ = unix.Close(dir) // only a descriptor of a directory: no data depend on it
	}
	if err != nil && !errors.As(err, new(*fs.PathError)) {
		err = &fs.PathError{Op: "remove", Path: path, Err: err}
	}
	return removed(path, err)
}

// removed returns the error of the removal of a tree. The path of an entry gets the path of the
// tree, without its middle if a user has made it long: it may be in a log of this process.
func removed(path string, err error) error {
	// An absolute path is from above the tree.
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) && !filepath.IsAbs(pe.Path) {
		if n := len(pe.Path); n > 2*maxShown {
			pe.Path = pe.Path[:maxShown] + "…" + pe.Path[n-maxShown:]
		}
		pe.Path = filepath.Join(filepath.Dir(path), pe.Path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// maxShown is the number of bytes of a path that removed keeps at each end.
const maxShown = 200

// remover removes a tree of directories. A user may have nested directories deeper than this
// process may open descriptors. So a remover moves directories at maxDepth up to the tree's
// top and removes them there.
type remover struct {
	parent int    // descriptor of the directory that holds the tree
	top    string // the tree's name in parent
	moved  int    // directories that were moved up
	unlock bool   // gives this process the rights that a directory of its user denies it
}

const (
	// maxDepth is the number of nested directories that a remover holds open.
	maxDepth = 64
	// maxPasses is the number of times that a remover empties a directory into which another
	// process puts files meanwhile.
	maxPasses = 100
)

// remove removes a name in a directory that is depth directories below the tree's top. A
// name that does not exist is no error.
func (r *remover) remove(dir int, name string, depth int) error {
	// First as a file: a link must be removed itself, and never be followed.
	err := unix.Unlinkat(dir, name, 0)
	if err == nil || err == unix.ENOENT {
		return nil
	}
	// Each level holds a descriptor, and another user may have nested directories without a
	// limit.
	if depth > maxDepth {
		return r.moveUp(dir, name)
	}
	if rm := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); rm == nil || rm == unix.ENOENT {
		return nil
	} else if rm != unix.ENOTDIR {
		err = rm // the error of rmdir is the clearer one for a directory
	}
	d, openErr := r.open(dir, name)
	// No directory, or one that this process may not read: the failed removal says more.
	if openErr != nil {
		return &fs.PathError{Op: "remove", Path: name, Err: err}
	}
	defer d.Close()
	// Another process may add entries between the emptying and rmdir.
	for passes := 0; passes < maxPasses; passes++ {
		moved := r.moved
		if err := r.empty(d, depth); err != nil {
			return err
		}
		err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
		if err == nil || err == unix.ENOENT {
			return nil
		}
		if r.moved > moved {
			passes = 0 // the pass has put directories here itself
		}
	}
	return &fs.PathError{Op: "remove", Path: name, Err: err}
}

// empty removes the entries of an open directory once.
func (r *remover) empty(d *os.File, depth int) error {
	// A second pass begins again.
	if _, err := d.Seek(0, io.SeekStart); err != nil {
		return err
	}
	for {
		// In batches: a job may leave millions of files, whose names need not fit into memory.
		names, err := d.Readdirnames(1000)
		if err == io.EOF || err == nil && len(names) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		for _, name := range names {
			err := r.remove(int(d.Fd()), name, depth+1)
			if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
				pe.Path = filepath.Join(d.Name(), pe.Path)
			}
			if err != nil {
				return err
			}
		}
	}
}

// open opens a directory of the tree. To unlock one, its user must own it; a failure shows when
// an entry cannot be removed.
func (r *remover) open(dir int, name string) (*os.File, error) {
	open := func() (*os.File, error) { return openAt(dir, name, name, os.O_RDONLY|unix.O_DIRECTORY, 0) }
	d, err := open()
	if !r.unlock {
		return d, err
	}
	if errors.Is(err, fs.ErrPermission) && chmodDirAt(dir, name, 0o700) == nil {
		// chmodDirAt follows no link, so the mode of a file outside the tree cannot be changed by a link
		// that has just been put here.
		d, err = open()
	}
	var st unix.Stat_t
	// A directory that can be read may still deny the removal of its entries.
	if err == nil && unix.Fstat(int(d.Fd()), &st) == nil && st.Mode&0o700 != 0o700 {
		_ = unix.Fchmod(int(d.Fd()), 0o700)
	}
	return d, err
}

// moveUp moves a directory to the top of the tree under a name that no other user can foresee.
func (r *remover) moveUp(dir int, name string) error {
	if r.unlock {
		// A directory that gets another parent must be writable itself.
		if d, err := r.open(dir, name); err == nil {
			_ = d.Close() // was only unlocked
		}
	}
	top, err := openAt(r.parent, r.top, r.top, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	r.moved++
	err = unix.Renameat(dir, name, int(top.Fd()), "slotwise-removed-"+strconv.FormatUint(rand.Uint64(), 36))
	return errors.Join(err, top.Close())
}

// sharedInfo implements fs.FileInfo.
type sharedInfo struct {
	name string
	st   unix.Stat_t
}

func (i *sharedInfo) Name() string       { return i.name }
func (i *sharedInfo) Size() int64        { return i.st.Size }
func (i *sharedInfo) ModTime() time.Time { return time.Unix(i.st.Mtim.Unix()) }
func (i *sharedInfo) IsDir() bool        { return i.Mode().IsDir() }
func (i *sharedInfo) Sys() any           { return &i.st }

// Mode implements fs.FileInfo. All special files but links and pipes count as devices.
func (i *sharedInfo) Mode() fs.FileMode {
	mode := fs.FileMode(i.st.Mode) & fs.ModePerm
	switch i.st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	case unix.S_IFIFO:
		mode |= fs.ModeNamedPipe
	default:
		mode |= fs.ModeDevice
	}
	return mode
}
