package master

import (
	"archive/tar"
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/slotwise/slotwise/internal/base/durable"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/live/history"
	"github.com/slotwise/slotwise/internal/live/journal"
)

// The subdirectories of a master's directory, which archives have, too.
const (
	journalDir = "journal"
	historyDir = "history"
	filesDir   = "files"
)

// The last entry of an archive, and its most bytes: each file takes about 100.
const (
	manifest    = "MANIFEST"
	maxManifest = 64 << 20
)

// BackupSummary has the number and size of the files in a backup.
type BackupSummary struct {
	Files int   // in the archive, without the manifest
	Bytes int64 // of these files
}

// Backup copies the master's directory dir to the file to, which must not exist. A crash
// leaves no file to, or a complete one. The error names the damaged file if the
// directory is damaged.
//
// A backup is a tar archive with the journal, the history, and the files of jobs, in this
// order, and a last entry MANIFEST with the SHA-256 of each file before it. An archive
// without a manifest is not complete. The master may run while its directory is copied:
// the copies of the journal and of the history are the states of one moment each, and files
// are written once and never changed.
//
// The journal comes first. So the history and the files may be newer than the journal,
// and never lack what the journal refers to. (A file of a job could only be missing if
// the job ended, and its file was removed for lack of space, while the backup ran; the
// master keeps a file for an hour after its last use.)
func Backup(disk durable.FS, dir, to string) (BackupSummary, error) {
	// The check at the start saves the work. PublishNew decides, because a backup takes long
	// enough for somebody to write the file meanwhile.
	if _, err := disk.Stat(to); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = fs.ErrExist
		}
		return BackupSummary{}, &fs.PathError{Op: "backup to", Path: to, Err: err}
	}
	var w archiver
	// The temporary names are new ones: the user may have files TO.new and TO.history.new.
	temp := filepath.Join(filepath.Dir(to), storage.CopyingName(filepath.Base(to)))
	err := durable.PublishNew(disk, temp, to, 0o600, func(out io.Writer) error {
		buffered := bufio.NewWriterSize(out, 1<<20)
		w = archiver{disk: disk, dir: dir, to: to, tar: tar.NewWriter(buffered)}
		return errors.Join(w.all(), buffered.Flush())
	})
	return w.sum, err
}

// archiver writes the archive of a backup.
type archiver struct {
	disk     durable.FS
	dir      string // the master's
	to       string // the backup
	tar      *tar.Writer
	manifest strings.Builder
	sum      BackupSummary
}

// all writes the whole archive.
func (w *archiver) all() error {
	err := journal.Copy(w.disk, filepath.Join(w.dir, journalDir), func(name string, size int64, content io.Reader) error {
		return w.add(journalDir+"/"+name, size, content)
	})
	if err != nil {
		return err
	}
	if err := w.copyHistory(); err != nil {
		return err
	}
	if err := w.copyFiles(); err != nil {
		return err
	}
	list := w.manifest.String()
	if err := w.tar.WriteHeader(&tar.Header{Name: manifest, Mode: 0o600, Size: int64(len(list))}); err != nil {
		return err
	}
	if _, err := io.WriteString(w.tar, list); err != nil {
		return err
	}
	return w.tar.Close()
}

// copyHistory adds a snapshot of the history's database. It writes the snapshot beside the
// backup first, because that disk needs the space in any case.
func (w *archiver) copyHistory() error {
	temp := filepath.Join(filepath.Dir(w.to), storage.CopyingName(filepath.Base(w.to)+".history"))
	err := history.Snapshot(w.dir, temp)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the master has ended before it made its history
	}
	// Also after an error: SQLite may have begun the file.
	defer os.Remove(temp)
	if err != nil {
		return err
	}
	f, err := os.Open(temp)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return w.add(historyDir+"/"+history.FileName, info.Size(), f)
}

// copyFiles adds the files of jobs. It skips files that the master removes meanwhile, and
// unfinished uploads.
func (w *archiver) copyFiles() error {
	names, err := w.disk.ReadDir(filepath.Join(w.dir, filesDir))
	if err != nil {
		return err
	}
	for _, name := range names {
		if !isArchived(filesDir + "/" + name) {
			continue
		}
		err := w.copyFile(filesDir + "/" + name)
		// The master has removed it for want of room, so no job needs it.
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// copyFile adds one file. It verifies the content first: a backup of a damaged file is
// noticed now and not when it is needed.
func (w *archiver) copyFile(name string) error {
	f, err := w.disk.OpenFile(filepath.Join(w.dir, filepath.FromSlash(name)), os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	if err := verifyHash(name, io.NewSectionReader(f, 0, size)); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(w.dir, filepath.FromSlash(name)), err)
	}
	return w.add(name, size, io.NewSectionReader(f, 0, size))
}

// add adds a file with its line in the manifest.
func (w *archiver) add(name string, size int64, content io.Reader) error {
	// Without times and owners: the user who restores the archive owns the files.
	if err := w.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: size}); err != nil {
		return err
	}
	h := sha256.New()
	if _, err := io.CopyN(io.MultiWriter(w.tar, h), content, size); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Fprintf(&w.manifest, "%x  %s\n", h.Sum(nil), name)
	w.sum.Files++
	w.sum.Bytes += size
	return nil
}

// errFileDamaged reports content that differs from what the master has written.
var errFileDamaged = errors.New("the file is damaged")

// verifyHash checks the content of a job's file, which is named by its SHA-256.
func verifyHash(name string, content io.Reader) error {
	h := sha256.New()
	if _, err := io.Copy(h, content); err != nil {
		return err
	}
	if hex.EncodeToString(h.Sum(nil)) != path.Base(name) {
		return errFileDamaged
	}
	return nil
}

// isArchived reports whether a name is one that an archive may hold. No other name of an
// archive becomes part of a path.
func isArchived(name string) bool {
	base := path.Base(name)
	switch path.Dir(name) {
	case journalDir:
		return journal.IsFile(base)
	case historyDir:
		return base == history.FileName
	case filesDir:
		return isSHA(base)
	}
	return false
}
