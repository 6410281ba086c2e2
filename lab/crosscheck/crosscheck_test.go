package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The end of every job agrees with the simulator in Python.
func TestCrosscheck(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil && os.Getenv("CI") == "" {
		t.Skip("there is no python3")
	}
	var out bytes.Buffer
	if err := run(context.Background(), []string{"-workloads", "3"}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), "3 workloads under fifo and fair: the ends of all ") {
		t.Error(out.String())
	}
	// A different simulation is noticed.
	dir := t.TempDir()
	wrong := bytes.Replace(script, []byte("j.submit, j.index))"), []byte("-j.submit, j.index))"), 1)
	if err := os.WriteFile(filepath.Join(dir, "simulate.py"), wrong, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := draw(1).check(context.Background(), dir, "fifo"); err == nil || !strings.Contains(err.Error(), "in Python at") {
		t.Errorf("the last job first: %v", err)
	}
}
