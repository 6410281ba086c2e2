package generate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/slotwise/slotwise/internal/data/storage"
)

// inDir calls fill with a new directory beside o.Dir. If fill succeeds, the
// directory is renamed to o.Dir; otherwise it is removed.
func inDir(o Options, fill func(dir string) error) (err error) {
	target, err := filepath.Abs(o.Dir)
	if err != nil {
		return err
	}
	// Before the work, so that a wrong --output fails at once.
	if err := checkTarget(target, o); err != nil {
		return err
	}
	parent := filepath.Dir(target)
	if err := os.MkdirAll(parent, 0o777); err != nil {
		return err
	}
	// MkdirTemp makes a private directory. The final one inside it gets the
	// permissions of the user's mask.
	// Beside the target and on its file system: the rename is then one step. The dot hides it from jobs that
	// read the parent.
	temp, err := os.MkdirTemp(parent, "."+filepath.Base(target)+".tmp-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	dir := filepath.Join(temp, "new")
	if err := os.Mkdir(dir, 0o777); err != nil {
		return err
	}
	if err := fill(dir); err != nil {
		return err
	}
	// To make the data may have taken hours, in which files can have come.
	if err := checkTarget(target, o); err != nil {
		return err
	}
	return swap(dir, target, temp+"-old")
}

// checkTarget returns an error if replacing the target would lose data.
func checkTarget(target string, o Options) error {
	entries, err := os.ReadDir(target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(entries) > 0 && !o.Overwrite && !o.Force:
		return fmt.Errorf("%s: %w", target, fs.ErrExist)
	}
	for _, e := range entries {
		if !o.Force && (!e.Type().IsRegular() || !isDataFile(e.Name())) {
			return fmt.Errorf("%s: %w", target, &ForeignFileError{firstFile(target, e)})
		}
	}
	if err := storage.CheckErasable(target); err != nil {
		return fmt.Errorf("%s: %w", target, err)
	}
	return nil
}

// ForeignFileError means that Overwrite must not replace a directory, because it contains a
// file that no kind makes.
type ForeignFileError struct {
	File string // relative to the directory
}

// Error implements error. The text follows the name of the directory.
func (e *ForeignFileError) Error() string {
	return fmt.Sprintf("it contains %s, which no kind of data has; --force replaces the directory and removes all files in it", e.File)
}

// firstFile returns the first file in an entry of a directory, relative to the directory, or
// the entry itself if it has none.
func firstFile(dir string, e fs.DirEntry) string {
	found := e.Name()
	_ = filepath.WalkDir(filepath.Join(dir, found), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil // the name is for a message only
		}
		if rel, err := filepath.Rel(dir, path); err == nil {
			found = rel
		}
		return fs.SkipAll
	})
	return found
}

// isDataFile reports whether a kind makes files of this name.
func isDataFile(name string) bool {
	if name == trackersFile {
		return true
	}
	for _, t := range tpchTables {
		if name == t.name+".tbl" {
			return true
		}
	}
	for _, pattern := range partPatterns {
		// A number has at least as many digits as the pattern says.
		prefix, rest, _ := strings.Cut(pattern, "%0")
		digits, suffix, _ := strings.Cut(rest, "d")
		number, ok := strings.CutPrefix(name, prefix)
		number, ok2 := strings.CutSuffix(number, suffix)
		if ok && ok2 && len(number) >= int(digits[0]-'0') && strings.Trim(number, "0123456789") == "" {
			return true
		}
	}
	return false
}

// swap renames dir to target. An earlier target is moved to old and removed, or
// moved back if the rename fails.
func swap(dir, target, old string) error {
	// A crash between the two renames leaves the earlier data under old, complete. Nothing is removed before
	// the new data are in place.
	err := os.Rename(target, old)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	had := err == nil
	if err := os.Rename(dir, target); err != nil {
		if had {
			err = errors.Join(err, os.Rename(old, target))
		}
		return err
	}
	return os.RemoveAll(old)
}

// writeFile makes a file in a directory that readers cannot see yet. The error
// of a short write names the file.
func writeFile(m *meter, dir, name string, fill func(io.Writer) error) error {
	f, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	if err := fill(meteredWriter{m, f}); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
