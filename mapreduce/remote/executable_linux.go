package remote

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Reading and hashing an executable of 70 MB takes more processor time than the rest of a
// submission, so the SHA-256 of the last executables is kept in the user's cache directory.

const (
	keptHashes  = 64              // files in the cache; an inode has one
	keptSize    = 1 << 10         // bytes of a file that are read
	settledTime = 2 * time.Second // a file that was changed later may change again within one tick of its clock
)

// identity returns a line that differs for every content that the file ever had. It is empty if
// the file was changed a moment ago. No program can set the time of an inode's change.
func identity(f *os.File) string {
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok || time.Since(time.Unix(s.Ctim.Unix())) < settledTime {
		return ""
	}
	return fmt.Sprintln(s.Dev, s.Ino, s.Size, s.Mtim.Nano(), s.Ctim.Nano())
}

// hashFile returns the name of the cache's file for an identity, "" if there is no cache.
func hashFile(identity string) string {
	dir, err := os.UserCacheDir()
	var dev, ino uint64
	if _, scan := fmt.Sscan(identity, &dev, &ino); err != nil || scan != nil {
		return ""
	}
	return filepath.Join(dir, "slotwise", fmt.Sprintf("executable-%02d", ino%keptHashes))
}

// keptHash returns the hash of a file with this identity, "" if it is not known. A file that
// another user may have written is ignored: it could name another program.
func keptHash(identity string) string {
	// With NONBLOCK a FIFO in place of the file cannot hang a submission, and with NOFOLLOW a link cannot
	// lead elsewhere.
	f, err := os.OpenFile(hashFile(identity), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o022 != 0 {
		return ""
	}
	if s, ok := info.Sys().(*syscall.Stat_t); !ok || int(s.Uid) != os.Geteuid() {
		return ""
	}
	text, err := io.ReadAll(io.LimitReader(f, keptSize))
	hash, same := strings.CutPrefix(string(text), identity)
	if hash, ended := strings.CutSuffix(hash, "\n"); err == nil && same && ended && len(hash) == 64 {
		return hash
	}
	return ""
}

// keepHash stores a hash for keptHash. The next submission computes it again after an error.
func keepHash(identity, hash string) error {
	path := hashFile(identity)
	if path == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	// Another submission may read the file meanwhile, so it appears as a whole.
	f, err := os.CreateTemp(filepath.Dir(path), "new-*")
	if err != nil {
		return err
	}
	_, err = f.WriteString(identity + hash + "\n")
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
