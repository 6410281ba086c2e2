package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/slotwise/slotwise/internal/testkit/detector"
)

// programDir is the directory of the program that builtProgram has built.
var programDir string

// builtProgram builds cmd/slotwise once for all tests that need one without the race detector:
// linking takes seconds of processor time. Without symbols it takes half as long.
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

// linkProgram makes a program without the race detector appear as dir/slotwise: this test's own
// executable, which is slotwise under that name, unless it has the detector.
func linkProgram(t *testing.T, dir string) {
	t.Helper()
	program, err := os.Executable()
	if detector.On {
		program, err = builtProgram()
	}
	if err := errors.Join(err, os.MkdirAll(dir, 0o777)); err != nil {
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
