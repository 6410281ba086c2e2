package master

import (
	"archive/tar"
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/slotwise/slotwise/internal/base/durable"
	"github.com/slotwise/slotwise/internal/live/journal"
)

// ErrNotEmpty is returned by Restore for a directory that holds anything.
var ErrNotEmpty = errors.New("the directory is not empty")

// Restore makes the master's directory dir from the archive file from. dir must not exist
// or be empty. It verifies all checksums and the journal before dir appears. A crash or
// an error leaves dir unchanged.
func Restore(disk durable.Tree, from, dir string) (BackupSummary, error) {
	var none BackupSummary
	if names, err := disk.ReadDir(dir); err == nil && len(names) > 0 {
		return none, ErrNotEmpty
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return none, err
	}
	f, err := disk.OpenFile(from, os.O_RDONLY, 0)
	if err != nil {
		return none, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return none, err
	}
	dir = filepath.Clean(dir)
	// Beside dir, so that the rename stays in one file system. A former try that was killed has left the same
	// name.
	temp := dir + durable.TempSuffix
	if err := errors.Join(disk.RemoveAll(temp), durable.MkdirAll(disk, filepath.Dir(dir), 0o700)); err != nil {
		return none, err
	}
	sum, err := extract(disk, bufio.NewReaderSize(io.NewSectionReader(f, 0, size), 1<<20), temp)
	if err != nil {
		return none, errors.Join(fmt.Errorf("%s: %w", from, err), disk.RemoveAll(temp))
	}
	return sum, publishDir(disk, temp, dir)
}

// publishDir gives a directory its final name, durably.
func publishDir(disk durable.Tree, temp, dir string) error {
	// All before the rename: a directory that has its name must not lack content after a power cut.
	err := durable.SyncTree(disk, temp, true)
	if err == nil {
		// Remove and not RemoveAll: if somebody has put a file there meanwhile, the restore fails and the file
		// stays.
		err = disk.Remove(dir) // it is empty
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = disk.Rename(temp, dir)
	}
	if err != nil {
		return errors.Join(err, disk.RemoveAll(temp))
	}
	return disk.SyncDir(filepath.Dir(dir))
}

// extract writes the files of an archive to a new directory and verifies them.
func extract(disk durable.Tree, r io.Reader, dir string) (sum BackupSummary, err error) {
	for _, sub := range []string{"", journalDir, historyDir, filesDir} {
		if err := disk.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			return sum, err
		}
	}
	var list strings.Builder
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		switch {
		// The manifest is written last, so an archive without one was cut off, however complete
		// its files look.
		case err == io.EOF:
			return sum, errors.New("the backup is not complete: it ends without its manifest")
		case err != nil:
			return sum, fmt.Errorf("it is no backup, or a damaged one: %w", err)
		// Nothing after the manifest is read: it covers everything before it.
		case h.Name == manifest:
			if err := checkManifest(archive, list.String()); err != nil {
				return sum, err
			}
			return sum, checkJournal(disk, dir)
		// The name becomes part of a path. Only names that a master's directory can hold are
		// accepted, so an archive cannot write outside of dir.
		case !isArchived(h.Name) || h.Typeflag != tar.TypeReg:
			return sum, fmt.Errorf("it is no backup of a master: it holds %q", h.Name)
		}
		hash, err := extractFile(disk, archive, filepath.Join(dir, filepath.FromSlash(h.Name)), h.Size)
		if err != nil {
			return sum, fmt.Errorf("%s: %w", h.Name, err)
		}
		// A file that is used by its hash must have that hash, whatever the manifest says.
		if path.Dir(h.Name) == filesDir && hash != path.Base(h.Name) {
			return sum, fmt.Errorf("%s: %w", h.Name, errFileDamaged)
		}
		fmt.Fprintf(&list, "%s  %s\n", hash, h.Name)
		sum.Files++
		sum.Bytes += h.Size
	}
}

// extractFile writes one file and returns its SHA-256 in hexadecimal.
func extractFile(disk durable.FS, content io.Reader, to string, size int64) (hash string, err error) {
	// O_EXCL: an archive with one name twice would otherwise show the second content, and the manifest has both.
	f, err := disk.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	_, err = io.CopyN(io.MultiWriter(f, h), content, size)
	return fmt.Sprintf("%x", h.Sum(nil)), errors.Join(err, f.Close())
}

// checkManifest compares an archive's manifest with the one of the files that were read.
func checkManifest(r io.Reader, want string) error {
	got, err := io.ReadAll(io.LimitReader(r, maxManifest))
	if err != nil {
		return err
	}
	if string(got) != want {
		return errors.New("the backup is damaged: its files do not have the checksums of its manifest")
	}
	return nil
}

// checkJournal verifies the restored journal.
// The copy goes nowhere: Copy reads all files and verifies their batches, as a start does.
func checkJournal(disk durable.FS, dir string) error {
	return journal.Copy(disk, filepath.Join(dir, journalDir), func(string, int64, io.Reader) error { return nil })
}
