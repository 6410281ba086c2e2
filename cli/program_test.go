package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// programDir is the directory of the program that builtProgram has built.
var programDir string

// builtProgram builds cmd/slotwise once for all tests that need a file of it rather than this test's
// own: linking takes seconds of processor time. Without symbols it takes half as long.
var builtProgram = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "slotwise-program-")
	if err != nil {
		return "", err
	}
	programDir = dir
	file := filepath.Join(dir, "slotwise")
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", file, "../cmd/slotwise").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return file, nil
})

// linkProgram makes the program appear as dir/slotwise.
func linkProgram(t *testing.T, dir string) {
	t.Helper()
	program, err := builtProgram()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(program, filepath.Join(dir, "slotwise")); err != nil {
		t.Fatal(err)
	}
}

// testsAndProgram runs the tests, then removes the program.
type testsAndProgram struct{ *testing.M }

func (m testsAndProgram) Run() int {
	status := m.M.Run()
	os.RemoveAll(programDir) // nothing for ""
	return status
}
