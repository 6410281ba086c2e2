//go:build unix

package cli

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slotwise/slotwise/internal/base/durable"
)

// TestWriteFile writes files that users name. A pipe, as a stand-in for a device, and a file
// PATH.new stay, and no temporary file is left.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	pipe, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	writeFiles(t, dir, "out.new", "out")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(pipe, link); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{pipe, link, dir} {
		if err := writeFile(p, 0o666, true, durable.Bytes("x")); err == nil {
			t.Errorf("%s was replaced", p)
		}
		if err := checkEvents(p, true, true); err == nil {
			t.Errorf("--events %s would be replaced", p)
		}
	}
	if st, err := os.Lstat(pipe); err != nil || st.Mode()&fs.ModeNamedPipe == 0 {
		t.Errorf("the pipe: %v, %v", st.Mode(), err)
	}
	out := filepath.Join(dir, "out")
	late := func(w io.Writer) error {
		_, err := w.Write([]byte("x"))
		return errors.Join(err, os.WriteFile(out, []byte("late"), 0o666))
	}
	if err := writeFile(out, 0o666, false, late); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a file that appears while another one is written in its place: %v", err)
	}
	if b, err := os.ReadFile(out); err != nil || string(b) != "late" {
		t.Errorf("%q, %v", b, err)
	}
	if err := writeFile(out, 0o666, true, durable.Bytes("x")); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 4 {
		t.Errorf("%v, %v", entries, err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "out")); err != nil || string(b) != "x" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestFilesOfCommands finds calls of durable.WriteFile in commands: they remove a user's file
// PATH.new, and replace devices.
func TestFilesOfCommands(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		if b, err := os.ReadFile(f); err != nil || strings.Contains(string(b), "durable.WriteFile(") {
			t.Errorf("%s: use writeFile, %v", f, err)
		}
	}
}
