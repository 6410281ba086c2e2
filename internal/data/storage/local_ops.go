package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/slotwise/slotwise/internal/base/durable"
	"github.com/slotwise/slotwise/internal/base/retry"
)

// LocalOps returns the operations of stagings on a disk. With sync, everything that a
// call has acknowledged survives a power cut: a staging that has begun, a committed
// file of a shared staging, a published or restored output. Without sync only a
// replaced output is safe: the old one or the new one survives, whole.
func LocalOps(disk durable.Tree, sync bool) RenameOps {
	if sync {
		return localOps{disk, disk, true}
	}
	return localOps{durable.NoSync(disk), disk, false}
}

// localOps implements RenameOps, Exchanger, Flusher and Locker.
type localOps struct {
	disk durable.Tree // ignores requests to sync unless sync is set
	safe durable.Tree // the same, and never ignores them
	sync bool
}

var (
	_ Exchanger = localOps{}
	_ Flusher   = localOps{}
	_ Locker    = localOps{}
)

// List implements StageOps. In a directory that may be written but not read no
// leftovers can be found.
func (o localOps) List(_ context.Context, dir, prefix string) ([]string, error) {
	all, err := o.disk.ReadDir(dir)
	if prefix != "" && errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, name := range all {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return names, nil
}

// Entries implements StageOps.
func (o localOps) Entries(_ context.Context, dir string, each func(string, fs.FileMode) bool) error {
	names, err := o.disk.ReadDir(dir)
	// A target that does not exist counts as empty, and a job may write to it.
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range names {
		st, err := o.disk.Stat(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return err
		}
		if !each(name, st.Mode().Type()) {
			break
		}
	}
	return err
}

// Exists implements StageOps. It does not follow links.
func (o localOps) Exists(_ context.Context, path string) (bool, error) {
	_, err := o.disk.Stat(path)
	// A file in the place of a directory means as certainly that nothing exists below it.
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return false, nil
	}
	return err == nil, err
}

// maxSmall is larger than every file that a staging reads, in bytes.
const maxSmall = 4096

// Read implements StageOps. A user may have put anything into the target: what is no
// regular file, or too large for one of a staging, counts as missing. To open a pipe
// would block, and a sparse file may be larger than the memory.
func (o localOps) Read(_ context.Context, path string) ([]byte, error) {
	if st, err := o.disk.Stat(path); err == nil && (!st.Mode().IsRegular() || st.Size() > maxSmall) {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fs.ErrNotExist}
	}
	b, err := o.readSmall(path)
	if errors.Is(err, syscall.ENOTDIR) || errors.Is(err, durable.ErrForeign) {
		err = &fs.PathError{Op: "read", Path: path, Err: fs.ErrNotExist}
	}
	return b, err
}

// readSmall returns the content of a file, nothing if it is larger than maxSmall. The size is
// the open file's: the path may lead to another file since Read has looked.
func (o localOps) readSmall(path string) ([]byte, error) {
	f, err := o.disk.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil || size > maxSmall {
		return nil, cmp.Or(err, error(&fs.PathError{Op: "read", Path: path, Err: fs.ErrNotExist}))
	}
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	// ReadAt may return io.EOF together with the last byte.
	if n == len(b) {
		err = nil
	}
	return b[:n], err
}

// Put implements StageOps. The file and its name are durable afterwards. It is always a new
// file: one that exists may be another user's, or a link to a file that only this process may
// write. A directory in its place is an error.
func (o localOps) Put(_ context.Context, path string, content []byte) error {
	f, err := durable.CreateNew(o.disk, path, 0o666)
	if err != nil {
		return err
	}
	// An empty marker has no data to sync. SyncDir makes its name durable.
	if len(content) > 0 {
		_, err = f.Write(content)
		if err == nil {
			err = f.Sync()
		}
	}
	if err = cmp.Or(err, f.Close()); err != nil {
		return err
	}
	return o.disk.SyncDir(filepath.Dir(path))
}

// Remove implements StageOps.
func (o localOps) Remove(_ context.Context, path string) error { return o.disk.RemoveAll(path) }

// Touch implements StageOps.
func (o localOps) Touch(_ context.Context, root string) error {
	return o.disk.Chtimes(root, time.Now())
}

// LastTouched implements StageOps. New files change the time of their directory.
func (o localOps) LastTouched(_ context.Context, root string) (time.Time, error) {
	var last time.Time
	// A file in data/ or tmp/ changes the time of that directory and not of the root.
	for _, name := range []string{"", dataDir, tmpDir} {
		st, err := o.disk.Stat(filepath.Join(root, name))
		if err != nil && (name == "" || !errors.Is(err, fs.ErrNotExist)) {
			return last, err
		}
		if err == nil && st.ModTime().After(last) {
			last = st.ModTime()
		}
	}
	return last, nil
}

// MakeRoot implements RenameOps. Lock has created the root for this user only.
func (o localOps) MakeRoot(_ context.Context, root string, private bool) error {
	tmp := filepath.Join(root, tmpDir)
	if err := o.mkdir(root, 0o700); err != nil {
		return err
	}
	// A process that knows the token can put a link in the root's place. What follows would then
	// change the directory behind it.
	if st, err := o.disk.Stat(root); err != nil || !st.IsDir() {
		return cmp.Or(err, error(&fs.PathError{Op: "stage", Path: root, Err: syscall.ENOTDIR}))
	}
	if private {
		return nil
	}
	// New directories show which permissions the process gives. They also get the group of
	// the root's parent if that hands its group on; Chmod would end this. Only the owner may
	// write to the root: the jobs of others write below data/ and tmp/, and must not change
	// the markers or put another directory in the place of these two.
	for _, dir := range []string{tmp, filepath.Join(root, dataDir)} {
		if err := o.mkdir(dir, 0o777); err != nil {
			return err
		}
	}
	st, err := o.disk.Stat(tmp)
	if err != nil {
		return err
	}
	// The users who may read new directories may read the root, and only its owner may write to it.
	return o.disk.Chmod(root, st.Mode().Perm()&^0o022)
}

// Mkdir implements RenameOps.
func (o localOps) Mkdir(_ context.Context, dir string) error { return o.mkdir(dir, 0o777) }

// mkdir creates a directory. One that exists is no error.
func (o localOps) mkdir(dir string, mode fs.FileMode) error {
	if err := o.disk.Mkdir(dir, mode); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// Rename implements RenameOps.
func (o localOps) Rename(_ context.Context, from, to string) error {
	if st, err := o.disk.Stat(to); err == nil && st.IsDir() {
		// Rename refuses an empty directory. Remove refuses any other.
		if err := o.disk.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return o.disk.Rename(from, to)
}

// Exchange implements Exchanger.
func (o localOps) Exchange(_ context.Context, a, b string) error { return o.disk.Exchange(a, b) }

// CreateFile implements RenameOps.
func (o localOps) CreateFile(_ context.Context, path string) (TempFile, error) {
	f, err := o.disk.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err
	}
	return localFileWriter{f, o, path}, nil
}

// localFileWriter implements TempFile.
type localFileWriter struct {
	f    durable.File
	o    localOps
	path string
}

func (w localFileWriter) Write(p []byte) (int, error) { return w.f.Write(p) }
func (w localFileWriter) Path() string                { return w.path }

// Close implements TempFile. The writer syncs its own file, for two reasons: attempts
// on several machines do it at the same time, and an error fails the attempt, which
// writes the file anew. After a failed Sync a repeated one would succeed without effect.
func (w localFileWriter) Close(_ context.Context) error {
	return errors.Join(w.f.Sync(), w.f.Close())
}

func (w localFileWriter) Remove(_ context.Context) error {
	_ = w.f.Close() // may be closed already; the data are not wanted
	// The end of the staging may have removed the file.
	if err := w.o.disk.Remove(w.path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// FlushTree implements Flusher. With sync the files were synced when they were closed.
func (o localOps) FlushTree(_ context.Context, dir string, replaces bool) error {
	if !o.sync && !replaces {
		return nil
	}
	err := durable.SyncTree(o.safe, dir, !o.sync)
	if errors.Is(err, durable.ErrTooDeep) { // no attempt writes such a file, and a retry finds it again
		err = retry.Permanent(fmt.Errorf("%w: did the job write into its own staging?", err))
	}
	return err
}

// FlushNames implements Flusher.
func (o localOps) FlushNames(_ context.Context, dir string, replaces bool) error {
	if replaces {
		return o.safe.SyncDir(dir)
	}
	return o.disk.SyncDir(dir)
}

// Lock implements Locker with the lock of the root directory itself. The root may
// be removed while Lock waits; then the path no longer leads to the locked
// directory.
func (o localOps) Lock(_ context.Context, root string, mode LockMode) (io.Closer, error) {
	if mode == LockCreate {
		if err := o.createRoot(root); err != nil {
			return nil, err
		}
	}
	d, err := o.disk.OpenFile(root, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	if err := d.Lock(mode != LockTry); err != nil {
		return nil, errors.Join(&fs.PathError{Op: "lock", Path: root, Err: err}, d.Close())
	}
	// The directory that was locked may have been removed while this process waited. A lock on it
	// protects nothing.
	if !d.IsAt(root) {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", root, fs.ErrNotExist), d.Close())
	}
	return d, nil
}

// createRoot creates a staging root and the directories above it. Its name is durable
// afterwards.
func (o localOps) createRoot(root string) error {
	parent := filepath.Dir(root)
	if err := durable.MkdirAll(o.disk, parent, 0o777); err != nil {
		return err
	}
	if err := o.mkdir(root, 0o700); err != nil {
		return err
	}
	return o.disk.SyncDir(parent)
}
