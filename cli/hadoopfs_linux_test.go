package cli

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestHadoopFSMergeToPipe: getmerge writes to a pipe and does not replace it, as to
// /dev/stdout.
func TestHadoopFSMergeToPipe(t *testing.T) {
	dir := fsDir(t)
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o666); err != nil {
		t.Fatal(err)
	}
	// Opened for both directions, so that neither end waits for the other.
	f, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mustFS(t, "-getmerge", "f", pipe)
	got := make([]byte, 1)
	if _, err := io.ReadFull(f, got); err != nil || string(got) != "f" {
		t.Errorf("the pipe has %q, %v", got, err)
	}
	if st, err := os.Lstat(pipe); err != nil || st.Mode().Type() != os.ModeNamedPipe {
		t.Errorf("the pipe is now %v, %v", st, err)
	}
}
