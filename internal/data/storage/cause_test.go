package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"
)

// Marks are found through wrapping, keep the text and the error below, and exclude each
// other.
func TestCauses(t *testing.T) {
	down := fmt.Errorf("read: %w", Unavailable(&fs.PathError{Op: "open", Path: "x", Err: syscall.ECONNREFUSED}))
	if !errors.Is(down, ErrUnavailable) || errors.Is(down, ErrDisk) || !errors.Is(down, syscall.ECONNREFUSED) || down.Error() != "read: open x: connection refused" {
		t.Errorf("unavailable: %v", down)
	}
	full := Disk(&fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC})
	if !errors.Is(full, ErrDisk) || errors.Is(full, ErrUnavailable) || !errors.Is(full, syscall.ENOSPC) {
		t.Errorf("disk: %v", full)
	}
	if err := Disk(fs.ErrNotExist); errors.Is(err, ErrDisk) {
		t.Error("a missing file counts as a broken disk")
	}
	if Disk(nil) != nil || Unavailable(nil) != nil {
		t.Error("no error was marked")
	}
}

// Scratch files mark errors of a full disk.
func TestScratchFull(t *testing.T) {
	s, err := NewDirScratch(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f, err := s.Create("x")
	if err != nil {
		t.Fatal(err)
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("this system has no /dev/full")
	}
	_ = f.(*scratchFile).File.Close()
	f.(*scratchFile).File = full
	if _, err := f.Write([]byte("x")); !errors.Is(err, ErrDisk) {
		t.Errorf("got %v", err)
	}
}
