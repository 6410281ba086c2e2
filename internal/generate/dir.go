package generate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/slotwise/slotwise/internal/storage"
)

// inDir calls fill with a new directory beside o.Dir. If fill succeeds, the
// directory is renamed to o.Dir; otherwise it is removed.
func inDir(o Options, fill func(dir string) error) (err error) {
	target, err := filepath.Abs(o.Dir)
	if err != nil {
		return err
	}
	if err := checkTarget(target, o.Overwrite); err != nil {
		return err
	}
	parent := filepath.Dir(target)
	if err := os.MkdirAll(parent, 0o777); err != nil {
		return err
	}
	// MkdirTemp makes a private directory. The final one inside it gets the
	// permissions of the user's mask.
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
	return swap(dir, target, temp+"-old")
}

// checkTarget returns an error if replacing the target would lose data.
func checkTarget(target string, overwrite bool) error {
	entries, err := os.ReadDir(target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(entries) > 0 && !overwrite:
		return fmt.Errorf("%s: %w", target, fs.ErrExist)
	}
	if err := storage.CheckErasable(target); err != nil {
		return fmt.Errorf("%s: %w", target, err)
	}
	return nil
}

// swap renames dir to target. An earlier target is moved to old and removed, or
// moved back if the rename fails.
func swap(dir, target, old string) error {
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
