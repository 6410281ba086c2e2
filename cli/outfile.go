package cli

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/slotwise/slotwise/internal/base/durable"
	"github.com/slotwise/slotwise/internal/data/storage"
)

// writeFile writes or replaces a file that the user has named, so that readers see the old
// content whole or the new content whole. The temporary file has a name that no other file
// has: durable.WriteFile would remove the user's own file PATH.new.
func writeFile(path string, perm fs.FileMode, fill func(io.Writer) error) error {
	if err := checkReplaced(path); err != nil {
		return err
	}
	path = filepath.Clean(path)
	temp := filepath.Join(filepath.Dir(path), storage.CopyingName(filepath.Base(path)))
	return durable.Publish(durable.OS(), temp, path, perm, fill)
}

// checkReplaced returns an error if a file in the place of path would replace something other
// than a file: a rename puts it in the place of /dev/stdout as well.
func checkReplaced(path string) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return misuse("%s: is no regular file, and would be replaced by one", path)
	}
	return nil
}

// checkEvents returns an error if the file of --events would replace a file, such as an input
// that stands behind the wrong flag. replaced says that the file is renamed into its place, and
// not written where it is, as a device or a pipe can be.
func checkEvents(path string, overwrite, replaced bool) error {
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case err != nil: // opening it reports the reason
		return nil
	case info.Mode().IsRegular() && info.Size() > 0 && !overwrite:
		return misuse("--events %s: exists and is not empty; --overwrite replaces it", path)
	case replaced && !info.Mode().IsRegular():
		return misuse("--events %s: is no regular file, and would be replaced by one", path)
	}
	return nil
}
