package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestScratchFiles(t *testing.T) {
	parent := t.TempDir()
	s, err := NewDirScratch(parent)
	if err != nil {
		t.Fatal(err)
	}
	var files []ScratchFile
	for i := range 3 {
		f, err := s.Create("same-name")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(f, "content %d", i)
		files = append(files, f)
	}
	b := make([]byte, 1)
	for i, f := range files {
		if _, err := f.ReadAt(b, 8); err != nil || int(b[0]-'0') != i {
			t.Errorf("file %d: %q, %v", i, b, err)
		}
	}
	if err := errors.Join(files[0].Close(), files[0].Close()); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(parent, "*", "*same-name")); len(left) != 2 {
		t.Errorf("left: %v", left)
	}
	if err := errors.Join(s.Close(), s.Close(), files[1].Close()); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(parent); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := s.Create("late"); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Create after Close: %v", err)
	}
}

func TestScratchNames(t *testing.T) {
	s, err := NewDirScratch(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, name := range []string{"", "../up", "a/b", strings.Repeat("x", 300)} {
		if _, err := s.Create(name); err == nil {
			t.Errorf("%q is accepted", name)
		}
	}
	missing := filepath.Join(t.TempDir(), "nowhere")
	if _, err := NewDirScratch(missing); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("missing parent: %v", err)
	}
}

// TestSweepStale has a child process die with a scratch directory open. Only
// that one is swept, and what merely looks similar is left alone.
func TestSweepStale(t *testing.T) {
	if dir := os.Getenv("SCRATCH_TEST_CHILD"); dir != "" {
		s, err := NewDirScratch(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Create("left-behind"); err != nil {
			t.Fatal(err)
		}
		os.Exit(7)
	}
	parent := t.TempDir()
	live, err := NewDirScratch(parent)
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	for _, other := range []string{"slotwise-data", "slotwise-12-", "slotwise-12-x9", "notes-1-2"} {
		if err := os.Mkdir(filepath.Join(parent, other), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestSweepStale$")
	cmd.Env = append(os.Environ(), "SCRATCH_TEST_CHILD="+parent)
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Fatalf("child: %v", err)
	}
	for _, want := range []int{1, 0} {
		if n, err := SweepStale(parent); err != nil || n != want {
			t.Errorf("swept %d, %v; want %d", n, err, want)
		}
	}
	if left, _ := os.ReadDir(parent); len(left) != 5 {
		t.Errorf("left: %v", left)
	}
	if _, err := live.Create("still-works"); err != nil {
		t.Error(err)
	}
}

// TestSweepRace makes and sweeps at once: a scratch in use is never swept.
func TestSweepRace(t *testing.T) {
	parent := t.TempDir()
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = SweepStale(parent)
			}
		}
	})
	for range 100 {
		s, err := NewDirScratch(parent)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Create("file"); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	wg.Wait()
}

// TestIsScratchName: sweeping takes no directory of another program for a scratch
// directory.
func TestIsScratchName(t *testing.T) {
	for name, want := range map[string]bool{
		scratchPrefix + "12-345": true, scratchPrefix + "12": false, scratchPrefix + "12-": false, scratchPrefix + "-345": false,
		scratchPrefix + "ab-345": false, scratchPrefix + "12-x": false, "12-345": false, "": false,
	} {
		if got := isScratchName(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

// TestScratchIn verifies that a scratch in the caller's directory removes its own files,
// and nothing else.
func TestScratchIn(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := ScratchIn(dir)
	var files []ScratchFile
	for range 3 {
		f, err := s.Create("x")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte("text")); err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	if err := errors.Join(files[0].Close(), s.Close(), files[1].Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != "other" {
		t.Errorf("left: %v, %v", left, err)
	}
}
