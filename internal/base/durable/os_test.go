package durable

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestRealSyncs: a sync of a file or directory reaches the system, and its error comes
// back.
func TestRealSyncs(t *testing.T) {
	dir := t.TempDir()
	var synced []string
	broken := errors.New("broken")
	o := osFS{func(f *os.File) error { synced = append(synced, filepath.Base(f.Name())); return broken }}
	f, err := o.OpenFile(filepath.Join(dir, "f"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Sync(); !errors.Is(err, broken) {
		t.Errorf("the sync of a file: %v", err)
	}
	if err := o.SyncDir(dir); !errors.Is(err, broken) {
		t.Errorf("the sync of a directory: %v", err)
	}
	if want := []string{"f", filepath.Base(dir)}; !slices.Equal(synced, want) {
		t.Errorf("synced %v, want %v", synced, want)
	}
	real, err := OS().OpenFile(filepath.Join(dir, "f"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(real.Sync(), real.Close()); err != nil {
		t.Errorf("the system's sync: %v", err)
	}
	if err := real.Sync(); !errors.Is(err, os.ErrClosed) { // only the system knows that it is closed
		t.Errorf("the sync of a closed file: %v", err)
	}
	if err := OS().SyncDir(filepath.Join(dir, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the sync of a missing directory: %v", err)
	}
}
