//go:build unix

package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestChmodListed replaces a file, and the directory of another one, by links after they were
// listed, as another user may in a shared directory. chmod -R must not change their targets.
func TestChmodListed(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	key, file, dir := filepath.Join(base, "private", "key"), filepath.Join(base, "file"), filepath.Join(base, "dir")
	for _, err := range []error{
		os.Mkdir(filepath.Dir(key), 0o700),
		os.WriteFile(key, nil, 0o600),
		os.Symlink(key, file),
		os.Symlink(filepath.Dir(key), dir),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{file, filepath.Join(dir, "key")} {
		_ = chmodListed([]string{p}, 0o777) // systems with modes of links succeed for the first path
		if st, err := os.Stat(key); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("chmod of %s: the private file has mode %v, %v", p, st.Mode(), err)
		}
	}
	plain := filepath.Join(base, "plain")
	if err := os.WriteFile(plain, nil, 0o200); err != nil {
		t.Fatal(err)
	}
	// An owner may change the mode of a file that no user can read.
	if err := chmodListed([]string{plain}, fs.ModeSticky|0o640); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(plain); err != nil || st.Mode() != fs.ModeSticky|0o640 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
}
